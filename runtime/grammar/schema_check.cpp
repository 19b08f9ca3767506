// SPDX-License-Identifier: Apache-2.0
// The compiler reads one keyword of a schema object first ($ref, const, enum, anyOf, oneOf, allOf, type) and leaves out
// what stands beside it. What it would leave out is refused here, by name.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/try.h"
#include "runtime/grammar/source_check.h"

namespace runnel {
namespace {

using Json = nlohmann::json;

/// A keyword that says what values may be, and of which type of value.
struct Keyword {
  std::string_view name;
  std::string_view type;  // "": of every one
};

// Those that the compiler keeps beside `type`.
constexpr std::array kKept = {
    Keyword{"minimum", "number"},
    Keyword{"maximum", "number"},
    Keyword{"exclusiveMinimum", "number"},
    Keyword{"exclusiveMaximum", "number"},
    Keyword{"multipleOf", "number"},
    Keyword{"minLength", "string"},
    Keyword{"maxLength", "string"},
    Keyword{"pattern", "string"},
    Keyword{"format", "string"},
    Keyword{"items", "array"},
    Keyword{"prefixItems", "array"},
    Keyword{"unevaluatedItems", "array"},
    Keyword{"minItems", "array"},
    Keyword{"maxItems", "array"},
    Keyword{"properties", "object"},
    Keyword{"required", "object"},
    Keyword{"patternProperties", "object"},
    Keyword{"propertyNames", "object"},
    Keyword{"additionalProperties", "object"},
    Keyword{"minProperties", "object"},
    Keyword{"maxProperties", "object"},
};

// Those that it does not know.
constexpr std::array kLost = {
    Keyword{"not", ""},
    Keyword{"if", ""},
    Keyword{"then", ""},
    Keyword{"else", ""},
    Keyword{"$dynamicRef", ""},
    Keyword{"$recursiveRef", ""},
    Keyword{"$anchor", ""},
    Keyword{"$dynamicAnchor", ""},
    Keyword{"extends", ""},
    Keyword{"disallow", ""},
    Keyword{"divisibleBy", "number"},
    Keyword{"uniqueItems", "array"},
    Keyword{"contains", "array"},
    Keyword{"minContains", "array"},
    Keyword{"maxContains", "array"},
    Keyword{"additionalItems", "array"},
    Keyword{"dependentRequired", "object"},
    Keyword{"dependentSchemas", "object"},
    Keyword{"dependencies", "object"},
    Keyword{"unevaluatedProperties", "object"},
};

constexpr std::array<std::string_view, 6> kFirst = {"$ref",  "const", "enum",
                                                    "anyOf", "oneOf", "allOf"};

/// "integer" and "number" are one type here.
std::string_view type_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "boolean";
    case Json::value_t::string:
      return "string";
    case Json::value_t::array:
      return "array";
    case Json::value_t::object:
      return "object";
    default:
      return "number";
  }
}

std::string escaped(std::string key) {
  for (std::size_t at = 0; (at = key.find_first_of("~/", at)) != std::string::npos; at += 2)
    key.replace(at, 1, key[at] == '~' ? "~0" : "~1");
  return key;
}

/// The compiler takes such a name for one that the schema does not know.
bool needs_escape(std::string_view name) {
  return std::ranges::any_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; });
}

class SchemaCheck {
 public:
  explicit SchemaCheck(const Json& root) : root_(root) {}

  Status run() {
    todo_.push_back({"#", &root_});
    while (!todo_.empty()) {
      const Place place = std::move(todo_.back());
      todo_.pop_back();
      if (place.schema->is_boolean()) continue;
      if (!place.schema->is_object())
        return wrong(place, "is no schema, expected an object, true or false");
      RUNNEL_CHECK_OK(check(place));
    }
    return {};
  }

 private:
  struct Place {
    std::string path;
    const Json* schema;
  };

  template <class... Parts>
  static Error wrong(const Place& place, const Parts&... parts) {
    return fail(ErrorCode::invalid_argument,
                "schema: ", std::string_view(place.path).substr(0, 200), ": ", parts...);
  }

  // The types that `type` allows, all if there is none.
  Result<std::set<std::string_view>> types(const Place& place) const {
    static constexpr std::array<std::string_view, 6> kAll = {"null",   "boolean", "number",
                                                             "string", "array",   "object"};
    const Json& schema = *place.schema;
    if (!schema.contains("type")) return std::set<std::string_view>(kAll.begin(), kAll.end());
    std::set<std::string_view> found;
    const auto add = [&](const Json& type) -> Status {
      if (!type.is_string()) return wrong(place, "type is neither a text nor a list of texts");
      const std::string_view name = type.get_ref<const std::string&>();
      const std::string_view plain = name == "integer" ? "number" : name;
      if (std::ranges::find(kAll, plain) == kAll.end())
        return wrong(place, "type is \"", name.substr(0, 40), "\", expected one of JSON's");
      found.insert(plain);
      return {};
    };
    const Json& type = schema["type"];
    if (!type.is_array()) {
      RUNNEL_CHECK_OK(add(type));
      return found;
    }
    if (type.empty()) return wrong(place, "type is an empty list");
    for (const Json& one : type) RUNNEL_CHECK_OK(add(one));
    return found;
  }

  static bool says_nothing(const Keyword& keyword, const Json& value) {
    return (keyword.name == "uniqueItems" && value == false) ||
           (keyword.name == "unevaluatedProperties" && value == true);
  }

  Status check(const Place& place) {
    const Json& schema = *place.schema;
    if (schema.contains("$id") && place.path != "#")
      return wrong(place, "the keyword \"$id\" is supported at the root alone");
    RUNNEL_TRY(const std::set<std::string_view> of, types(place));
    const auto matters = [&of](const Keyword& keyword) {
      return keyword.type.empty() || of.contains(keyword.type);
    };
    for (const Keyword& keyword : kLost) {
      const auto at = schema.find(keyword.name);
      if (at != schema.end() && matters(keyword) && !says_nothing(keyword, *at))
        return wrong(place, "the keyword \"", keyword.name, "\" is not supported");
    }
    const auto first =
        std::ranges::find_if(kFirst, [&](std::string_view name) { return schema.contains(name); });
    if (first == kFirst.end()) return check_typed(place, of);
    for (const Keyword& keyword : kKept) {
      if (schema.contains(keyword.name) && matters(keyword) && keyword.name != "format")
        return wrong(place, "the keyword \"", keyword.name, "\" is not supported beside \"", *first,
                     "\"");
    }
    for (const std::string_view other : kFirst) {
      if (other != *first && schema.contains(other))
        return wrong(place, "the keyword \"", other, "\" is not supported beside \"", *first, "\"");
    }
    return check_first(place, *first, of);
  }

  Status check_first(const Place& place, std::string_view keyword,
                     const std::set<std::string_view>& of) {
    const Json& schema = *place.schema;
    const Json& value = schema[keyword];
    const bool typed = schema.contains("type");
    if (keyword == "const" || keyword == "enum") {
      if (keyword == "enum" && (!value.is_array() || value.empty()))
        return wrong(place, "enum is no list of at least one value");
      const bool whole = typed && asks_for_integers(schema["type"]);
      const auto fits = [&](const Json& one) {
        return of.contains(type_of(one)) && !(whole && one.is_number_float());
      };
      const bool all = keyword == "const" ? fits(value) : std::ranges::all_of(value, fits);
      return all ? Status()
                 : wrong(place, "a value of \"", keyword, "\" is not of the type beside it");
    }
    if (typed)
      return wrong(place, "the keyword \"type\" is not supported beside \"", keyword, "\"");
    if (keyword == "$ref") return follow(place, value);
    if (!value.is_array() || value.empty())
      return wrong(place, keyword, " is no list of at least one schema");
    if (keyword == "allOf" && value.size() > 1)
      return wrong(place, "the keyword \"allOf\" is supported with one schema alone");
    for (std::size_t i = 0; i < value.size(); ++i) add(place, keyword, std::to_string(i), value[i]);
    return {};
  }

  static bool asks_for_integers(const Json& type) {
    if (!type.is_array()) return type == "integer";
    return std::ranges::find(type, Json("integer")) != type.end() &&
           std::ranges::find(type, Json("number")) == type.end();
  }

  Status check_typed(const Place& place, const std::set<std::string_view>& of) {
    const Json& schema = *place.schema;
    const auto has = [&schema](std::string_view name) { return schema.contains(name); };
    // Without a type these make it an object or an array; anything else would be left out.
    const bool object = has("properties") || has("additionalProperties");
    const bool array = has("items") || has("prefixItems") || has("unevaluatedItems");
    if (!has("type") && !object && !array) {
      for (const Keyword& keyword : kKept) {
        if (has(keyword.name) && keyword.name != "format")
          return wrong(place, "the keyword \"", keyword.name,
                       "\" is not supported without \"type\"");
      }
    }
    static_cast<void>(of);
    RUNNEL_CHECK_OK(check_names(place));
    for (const std::string_view name :
         {"items", "unevaluatedItems", "additionalProperties", "propertyNames"}) {
      if (has(name)) add(place, name, "", schema[name]);
    }
    for (const std::string_view name : {"properties", "patternProperties"}) {
      if (!has(name)) continue;
      if (!schema[name].is_object()) return wrong(place, name, " is no object");
      for (const auto& [key, value] : schema[name].items()) {
        if (name == "properties" && needs_escape(key))
          return wrong(place, "the property \"", escaped(key).substr(0, 40),
                       "\" has a character that JSON escapes, which is not supported");
        add(place, name, key, value);
      }
    }
    if (has("prefixItems")) {
      if (!schema["prefixItems"].is_array()) return wrong(place, "prefixItems is no list");
      for (std::size_t i = 0; i < schema["prefixItems"].size(); ++i)
        add(place, "prefixItems", std::to_string(i), schema["prefixItems"][i]);
    }
    return {};
  }

  // What an object's names are: the compiler keeps those that it can list.
  Status check_names(const Place& place) const {
    const Json& schema = *place.schema;
    const bool names = schema.contains("propertyNames"),
               patterns = schema.contains("patternProperties");
    if (names && (patterns || schema.contains("properties")))
      return wrong(place, "the keyword \"propertyNames\" is not supported beside \"",
                   patterns ? "patternProperties" : "properties", "\"");
    if (patterns && schema.contains("properties"))
      return wrong(place,
                   "the keyword \"patternProperties\" is not supported beside \"properties\"");
    if (patterns && schema.contains("additionalProperties") &&
        schema["additionalProperties"] != false)
      return wrong(place,
                   "the keyword \"patternProperties\" is supported with \"additionalProperties\": "
                   "false alone");
    if (patterns && schema["patternProperties"].size() > 1)
      return wrong(place, "the keyword \"patternProperties\" is supported with one pattern alone");
    if (!schema.contains("required")) return {};
    const Json& required = schema["required"];
    if (!required.is_array()) return wrong(place, "required is no list");
    for (const Json& name : required) {
      if (!name.is_string()) return wrong(place, "required has something else than texts");
      const auto& text = name.get_ref<const std::string&>();
      if (!schema.contains("properties") || !schema["properties"].contains(text))
        return wrong(place, "required names \"", std::string_view(text).substr(0, 40),
                     "\", which is not in properties");
    }
    return {};
  }

  void add(const Place& place, std::string_view keyword, const std::string& key,
           const Json& value) {
    std::string path = place.path + "/" + std::string(keyword);
    if (!key.empty()) path += "/" + escaped(key);
    todo_.push_back({std::move(path), &value});
  }

  // A reference: to another part of the schema, and not around in a circle of references alone.
  Status follow(const Place& place, const Json& value) {
    if (!value.is_string()) return wrong(place, "$ref is no text");
    const Json* at = place.schema;
    std::set<std::string> seen;
    std::string uri;
    while (at->is_object() && at->contains("$ref") && (*at)["$ref"].is_string()) {
      uri = (*at)["$ref"].get<std::string>();
      if (!seen.insert(uri).second)
        return wrong(place, "$ref \"", uri.substr(0, 80), "\" leads around in a circle");
      if (uri != "#" && !uri.starts_with("#/"))
        return wrong(place, "$ref is \"", uri.substr(0, 80),
                     "\", expected a part of this schema such as \"#/$defs/name\"");
      if (uri.find_first_of("~%") != std::string::npos)
        return wrong(place, "$ref \"", uri.substr(0, 80),
                     "\" has an escape, which is not supported");
      at = find(uri);
      if (at == nullptr) return wrong(place, "$ref \"", uri.substr(0, 80), "\" leads nowhere");
    }
    if (followed_.insert(at).second) todo_.push_back({uri, at});
    return {};
  }

  const Json* find(const std::string& uri) const {
    const Json* at = &root_;
    for (std::size_t begin = 2; begin <= uri.size() && uri != "#";) {
      const std::size_t end = std::min(uri.find('/', begin), uri.size());
      const std::string part = uri.substr(begin, end - begin);
      if (!at->is_object() || !at->contains(part)) return nullptr;
      at = &(*at)[part];
      begin = end + 1;
    }
    return at;
  }

  const Json& root_;
  std::vector<Place> todo_;
  std::set<const Json*> followed_;
};

}  // namespace

Status check_schema(std::string_view schema) {
  int most = 0;
  std::string twice;
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    most = std::max(most, depth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty() &&
        !keys.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return most <= kMostSourceDepth;  // else what is deeper is left out
  };
  const Json root = Json::parse(schema, watch, false);
  if (most > kMostSourceDepth) {
    return fail(ErrorCode::invalid_argument, "schema: is nested more than ", kMostSourceDepth,
                " deep");
  }
  if (root.is_discarded()) return fail(ErrorCode::invalid_argument, "schema: is no JSON");
  if (!twice.empty()) {
    return fail(ErrorCode::invalid_argument, "schema: has the key \"", twice.substr(0, 40),
                "\" twice in one object");
  }
  return SchemaCheck(root).run();
}

}  // namespace runnel
