// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/schema_expand.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "runtime/grammar/checkpoint.h"
#include "runtime/grammar/schema_merge.h"

namespace runnel {
namespace {

using Json = SchemaJson;

constexpr std::size_t kMostAlternatives = 256;
constexpr int kMostLevels = 200;  // of schemas in place, references followed

/// A keyword that says what values may be, and of which type of value.
struct Keyword {
  std::string_view name;
  std::string_view type;  // "": of every one
};

constexpr std::array kTyped = {
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
    Keyword{"additionalItems", "array"},
    Keyword{"unevaluatedItems", "array"},
    Keyword{"minItems", "array"},
    Keyword{"maxItems", "array"},
    Keyword{"properties", "object"},
    Keyword{"required", "object"},
    Keyword{"patternProperties", "object"},
    Keyword{"propertyNames", "object"},
    Keyword{"additionalProperties", "object"},
    Keyword{"unevaluatedProperties", "object"},
    Keyword{"minProperties", "object"},
    Keyword{"maxProperties", "object"},
};

constexpr std::array kLost = {
    Keyword{"$dynamicRef", ""},
    Keyword{"$recursiveRef", ""},
    Keyword{"extends", ""},
    Keyword{"disallow", ""},
    Keyword{"divisibleBy", "number"},
    Keyword{"uniqueItems", "array"},
    Keyword{"contains", "array"},
    Keyword{"dependentRequired", "object"},
    Keyword{"dependentSchemas", "object"},
    Keyword{"dependencies", "object"},
};

constexpr std::array<std::string_view, 6> kTypes = {"null",   "boolean", "number",
                                                    "string", "array",   "object"};

// Schemas in place, which the unevaluated… keywords look into.
constexpr std::array<std::string_view, 8> kInPlace = {"$ref", "anyOf", "oneOf", "allOf",
                                                      "not",  "if",    "then",  "else"};

SchemaAlternatives every_type() {
  SchemaAlternatives all;
  for (const std::string_view type : kTypes) all.push_back({{"type", type}});
  return all;
}

bool is_finite(const Json& alternative) { return alternative.contains("enum"); }

std::string_view type_of(const Json& alternative) {
  const std::string_view type = alternative["type"].get_ref<const std::string&>();
  return type == "integer" ? "number" : type;
}

/// The types that `type` names; all of them if there is none.
Result<std::vector<std::string>> types_of(const Json& schema, const std::string& path) {
  if (!schema.contains("type")) return std::vector<std::string>(kTypes.begin(), kTypes.end());
  const Json& type = schema["type"];
  const Json names = type.is_array() ? type : Json::array({type});
  if (names.empty()) return schema_error(path, "type is an empty list");
  std::vector<std::string> types;
  for (const Json& one : names) {
    if (!one.is_string()) return schema_error(path, "type is neither a text nor a list of texts");
    const auto& name = one.get_ref<const std::string&>();
    if (name != "integer" && std::ranges::find(kTypes, name) == kTypes.end()) {
      return schema_error(path, "type is \"", std::string_view(name).substr(0, 40),
                          "\", expected one of JSON's");
    }
    types.push_back(name);
  }
  if (std::ranges::find(types, "number") != types.end()) std::erase(types, "integer");
  return types;
}

Status check_supported(const Json& schema, const std::vector<std::string>& types,
                       const std::string& path) {
  const auto has_type = [&](std::string_view type) {
    return type.empty() || std::ranges::any_of(types, [&](const std::string& one) {
             return one == type || (type == "number" && one == "integer");
           });
  };
  for (const Keyword& keyword : kLost) {
    const auto at = schema.find(std::string(keyword.name));
    const bool idle = at != schema.end() && keyword.name == "uniqueItems" && *at == false;
    if (at != schema.end() && !idle && has_type(keyword.type))
      return schema_error(path, "the keyword \"", keyword.name, "\" is not supported");
  }
  const bool in_place = std::ranges::any_of(
      kInPlace, [&](std::string_view name) { return schema.contains(std::string(name)); });
  for (const char* const name : {"unevaluatedItems", "unevaluatedProperties"}) {
    if (in_place && schema.contains(name) && schema[name] != true)
      return schema_error(path, "the keyword \"", name,
                          "\" is not supported beside schemas in place");
  }
  return {};
}

/// The keywords of arrays in the words of the newest draft.
void modern_items(Json& schema) {
  if (schema.contains("items") && schema["items"].is_array()) {
    schema["prefixItems"] = Json(schema["items"]);
    schema.erase("items");
    if (schema.contains("additionalItems")) schema["items"] = Json(schema["additionalItems"]);
  }
  schema.erase("additionalItems");
  if (!schema.contains("items") && schema.contains("unevaluatedItems"))
    schema["items"] = Json(schema["unevaluatedItems"]);
  schema.erase("unevaluatedItems");
}

void modern_properties(Json& schema) {
  if (!schema.contains("additionalProperties") && schema.contains("unevaluatedProperties"))
    schema["additionalProperties"] = Json(schema["unevaluatedProperties"]);
  schema.erase("unevaluatedProperties");
}

/// {"minimum": 3, "exclusiveMinimum": true}, as draft 4 has it.
void modern_bounds(Json& schema) {
  for (const auto& [bound, exclusive] :
       {std::pair{"minimum", "exclusiveMinimum"}, std::pair{"maximum", "exclusiveMaximum"}}) {
    if (!schema.contains(exclusive) || !schema[exclusive].is_boolean()) continue;
    const bool is_exclusive = schema[exclusive].get<bool>() && schema.contains(bound);
    schema.erase(exclusive);
    if (!is_exclusive) continue;
    schema[exclusive] = Json(schema[bound]);
    schema.erase(bound);
  }
}

}  // namespace

bool is_free(const Json& alternative) {
  return alternative.size() == 1 && alternative.contains("type") &&
         alternative["type"] != "integer";
}

std::string pointer_part(std::string name) {
  for (std::size_t at = 0; (at = name.find_first_of("~/", at)) != std::string::npos; at += 2)
    name.replace(at, 1, name[at] == '~' ? "~0" : "~1");
  return name;
}

Result<SchemaAlternatives> SchemaExpander::expand(const Json& schema, const std::string& path) {
  runnel_xgrammar_checkpoint(path.size() + schema.size() * 8);
  if (schema.is_boolean()) return schema.get<bool>() ? every_type() : SchemaAlternatives();
  if (!schema.is_object())
    return schema_error(path, "is no schema, expected an object, true or false");
  if (++depth_ > kMostLevels) {
    depth_ = 0;
    return schema_error(path, "its schemas and references in place are nested too deeply");
  }
  if (&schema != &document_.root() && (schema.contains("$id") || schema.contains("id")) &&
      (schema.contains("$id") || schema["id"].is_string()))
    return schema_error(path, "the keyword \"$id\" is supported at the root alone");
  RUNNEL_TRY(SchemaAlternatives all, typed(schema, path));
  for (const char* const keyword : {"const", "enum"}) {
    if (!schema.contains(keyword)) continue;
    RUNNEL_TRY(const SchemaAlternatives more, values(schema, keyword, path));
    RUNNEL_TRY(all, intersect(all, more, path));
  }
  if (schema.contains("$ref")) {
    RUNNEL_TRY(const SchemaAlternatives more, follow(schema["$ref"], path));
    RUNNEL_TRY(all, intersect(all, more, path));
  }
  for (const char* const keyword : {kEveryOf, "allOf", "anyOf", "oneOf"}) {
    if (!schema.contains(keyword)) continue;
    RUNNEL_TRY(const SchemaAlternatives more, list(schema, keyword, path));
    RUNNEL_TRY(all, intersect(all, more, path));
  }
  if (schema.contains("not")) {
    RUNNEL_TRY(all, minus(std::move(all), schema["not"], path + "/not"));
  }
  if (schema.contains("if") && (schema.contains("then") || schema.contains("else"))) {
    RUNNEL_TRY(all, condition(std::move(all), schema, path));
  }
  --depth_;
  return all;
}

// What the keywords of a schema say by themselves, and its type.
Result<SchemaAlternatives> SchemaExpander::typed(const Json& schema,
                                                 const std::string& path) const {
  RUNNEL_TRY(std::vector<std::string> types, types_of(schema, path));
  RUNNEL_CHECK_OK(check_supported(schema, types, path));
  Json modern = Json::object();
  std::set<std::string> spoken_of;
  for (const auto& [name, value] : schema.items()) {
    const auto at = std::ranges::find(kTyped, name, &Keyword::name);
    if (at == kTyped.end()) continue;
    // A format says nothing of a value that may be of any type, unless a text is meant.
    if (name == "format" && !schema.contains("type") && !strict_) continue;
    modern[name] = value;
    spoken_of.insert(std::string(at->type));
  }
  const bool alone = std::ranges::none_of(
      kInPlace, [&](std::string_view name) { return schema.contains(std::string(name)); });
  if (strict_ && alone && !schema.contains("type") && !schema.contains(kEveryOf) &&
      !schema.contains("enum") && !schema.contains("const") && !spoken_of.empty())
    types.assign(spoken_of.begin(), spoken_of.end());
  modern_items(modern);
  modern_properties(modern);
  modern_bounds(modern);
  SchemaAlternatives all;
  for (const std::string& type : types) {
    Json one = {{"type", type}};
    const std::string_view wide = type == "integer" ? "number" : std::string_view(type);
    for (const auto& [name, value] : modern.items()) {
      const auto at = std::ranges::find(kTyped, name, &Keyword::name);
      if (at != kTyped.end() && at->type == wide) one[name] = value;
    }
    RUNNEL_CHECK_OK(check_keywords(one, path));
    all.push_back(std::move(one));
  }
  return all;
}

Result<SchemaAlternatives> SchemaExpander::values(const Json& schema, const std::string& keyword,
                                                  const std::string& path) const {
  const Json& value = schema[keyword];
  if (keyword == "enum" && (!value.is_array() || value.empty()))
    return schema_error(path, "enum is no list of at least one value");
  Json list = keyword == "enum" ? plainly_written(value) : Json::array({plainly_written(value)});
  return SchemaAlternatives{Json{{"enum", std::move(list)}}};
}

Result<SchemaAlternatives> SchemaExpander::follow(const Json& reference, const std::string& path) {
  if (!reference.is_string()) return schema_error(path, "$ref is no text");
  const auto& uri = reference.get_ref<const std::string&>();
  RUNNEL_TRY(const Json* const target, document_.find(uri, path));
  if (std::ranges::find(following_, target) != following_.end()) {
    return schema_error(path, "$ref \"", std::string_view(uri).substr(0, 80),
                        "\" leads around in a circle");
  }
  following_.push_back(target);
  auto found = expand(*target, uri);
  following_.pop_back();
  return found;
}

Result<SchemaAlternatives> SchemaExpander::list(const Json& schema, const std::string& keyword,
                                                const std::string& path) {
  const Json& options = schema[keyword];
  const std::string_view shown = keyword == kEveryOf ? "allOf" : std::string_view(keyword);
  if (!options.is_array() || options.empty())
    return schema_error(path, shown, " is no list of at least one schema");
  if (keyword == "oneOf") return one_of(options, path);
  SchemaAlternatives all;
  for (std::size_t i = 0; i < options.size(); ++i) {
    std::string inner = path;
    if (keyword != kEveryOf)
      inner.append("/").append(keyword).append("/").append(std::to_string(i));
    RUNNEL_TRY(SchemaAlternatives option, expand(options[i], inner));
    if (keyword != "anyOf" && i > 0) {
      RUNNEL_TRY(all, intersect(all, option, path));
    } else {
      for (Json& one : option) {
        if (std::ranges::find(all, one) == all.end() || is_finite(one))
          all.push_back(std::move(one));
      }
    }
    if (all.size() > kMostAlternatives)
      return schema_error(path, shown, " has more than ", kMostAlternatives, " alternatives");
  }
  return all;
}

// What is not to be met is all that JSON Schema means by it, strict or not.
Result<SchemaAlternatives> SchemaExpander::expand_exactly(const Json& schema,
                                                          const std::string& path) {
  const bool before = std::exchange(strict_, false);
  auto all = expand(schema, path);
  strict_ = before;
  return all;
}

// Values that are in two of the choices are in none; where that could be but is not known, it is an error.
Result<SchemaAlternatives> SchemaExpander::one_of(const Json& options, const std::string& path) {
  std::vector<SchemaAlternatives> choices, exact;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string at = path + "/oneOf/" + std::to_string(i);
    RUNNEL_TRY(SchemaAlternatives choice, expand(options[i], at));
    choices.push_back(std::move(choice));
    RUNNEL_TRY(SchemaAlternatives all, expand_exactly(options[i], at));
    exact.push_back(std::move(all));
  }
  SchemaAlternatives all;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    for (Json& one : choices[i]) {
      for (std::size_t j = 0; j < exact.size(); ++j) {
        for (const Json& other : exact[j]) {
          if (i == j) continue;
          if (is_finite(one)) {
            Json kept = Json::array();
            for (const Json& value : one["enum"]) {
              if (document_.holds(value, other) == false) kept.push_back(value);
            }
            one["enum"] = std::move(kept);
          } else if (!apart(one, other)) {
            return schema_error(path, "the keyword \"oneOf\" is supported where no value can meet ",
                                "two of its schemas; ", std::min(i, j), " and ", std::max(i, j),
                                " may overlap");
          }
        }
      }
      if (!is_finite(one) || !one["enum"].empty()) all.push_back(std::move(one));
    }
    if (all.size() > kMostAlternatives)
      return schema_error(path, "oneOf has more than ", kMostAlternatives, " alternatives");
  }
  return all;
}

// Whether nothing that is written of the one is of the other; false: not known.
bool SchemaExpander::apart(const Json& written, const Json& exact) const {
  for (const auto& [list, other] : {std::pair{&written, &exact}, std::pair{&exact, &written}}) {
    if (!is_finite(*list)) continue;
    return std::ranges::all_of((*list)["enum"], [&, schema = other](const Json& value) {
      return document_.holds(value, *schema) == false;
    });
  }
  if (type_of(written) != type_of(exact)) return true;
  if (type_of(written) == "number") return numbers_apart(written, exact);
  if (type_of(written) != "object") return false;
  return objects_apart(document_, written, exact, false) ||
         objects_apart(document_, exact, written, strict_);
}

Result<SchemaAlternatives> SchemaExpander::minus(SchemaAlternatives all, const Json& schema,
                                                 const std::string& path) {
  RUNNEL_TRY(const SchemaAlternatives gone, expand_exactly(schema, path));
  SchemaAlternatives left;
  for (Json& one : all) {
    if (is_finite(one)) {
      Json kept = Json::array();
      for (const Json& value : one["enum"]) {
        const std::optional<bool> holds = document_.holds(value, schema);
        if (!holds) return schema_error(path, "the keyword \"not\" is not supported here");
        if (!*holds) kept.push_back(value);
      }
      if (!kept.empty()) left.push_back({{"enum", std::move(kept)}});
      continue;
    }
    const bool goes = std::ranges::any_of(gone, [&](const Json& other) {
      return !is_finite(other) && type_of(other) == type_of(one) && is_free(other);
    });
    if (goes) continue;
    if (!std::ranges::all_of(gone, [&](const Json& other) { return apart(one, other); })) {
      return schema_error(path,
                          "the keyword \"not\" is supported for whole types, and for values "
                          "beside enum or const");
    }
    left.push_back(std::move(one));
  }
  return left;
}

Result<SchemaAlternatives> SchemaExpander::condition(SchemaAlternatives all, const Json& schema,
                                                     const std::string& path) {
  RUNNEL_TRY(const SchemaAlternatives when, expand(schema["if"], path + "/if"));
  RUNNEL_TRY(SchemaAlternatives met, intersect(all, when, path));
  auto unmet = minus(std::move(all), schema["if"], path + "/if");
  if (!unmet)
    return schema_error(path, "the keyword \"if\" is supported for whole types, and for values ",
                        "beside enum or const");
  for (const auto& [name, part] : {std::pair{"then", &met}, std::pair{"else", &*unmet}}) {
    if (!schema.contains(name)) continue;
    RUNNEL_TRY(const SchemaAlternatives more, expand(schema[name], path + "/" + name));
    RUNNEL_TRY(*part, intersect(*part, more, path));
  }
  met.insert(met.end(), unmet->begin(), unmet->end());
  return met;
}

Result<SchemaAlternatives> SchemaExpander::intersect(const SchemaAlternatives& a,
                                                     const SchemaAlternatives& b,
                                                     const std::string& path) const {
  const auto is_all = [](const SchemaAlternatives& one) {
    return one.size() == kTypes.size() && std::ranges::all_of(one, is_free);
  };
  if (is_all(a)) return b;
  if (is_all(b)) return a;
  SchemaAlternatives all;
  for (const Json& left : a) {
    for (const Json& right : b) {
      RUNNEL_TRY(SchemaAlternatives found, intersect(left, right, path));
      for (Json& one : found) all.push_back(std::move(one));
      if (all.size() > kMostAlternatives)
        return schema_error(path, "has more than ", kMostAlternatives, " alternatives");
    }
  }
  return all;
}

// None or one.
Result<SchemaAlternatives> SchemaExpander::intersect(const Json& a, const Json& b,
                                                     const std::string& path) const {
  if (is_finite(b) && !is_finite(a)) return intersect(b, a, path);
  if (is_finite(a)) {
    Json kept = Json::array();
    for (const Json& value : a["enum"]) {
      const std::optional<bool> holds = document_.holds(value, b);
      if (!holds) {
        return schema_error(path,
                            "a value of enum or const cannot be compared with what stands "
                            "beside it, which is not supported");
      }
      if (*holds) kept.push_back(value);
    }
    if (kept.empty()) return SchemaAlternatives();
    return SchemaAlternatives{Json{{"enum", std::move(kept)}}};
  }
  if (type_of(a) != type_of(b)) return SchemaAlternatives();
  RUNNEL_TRY(Json merged, merge_schemas(a, b, path));
  return SchemaAlternatives{std::move(merged)};
}

}  // namespace runnel
