// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/schema_rewrite.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "runtime/grammar/checkpoint.h"
#include "runtime/grammar/schema_expand.h"
#include "runtime/grammar/schema_merge.h"
#include "runtime/grammar/schema_pattern.h"

namespace runnel {
namespace {

using Json = SchemaJson;

const Json kNever = false;
const Json kAnything = Json::object();

bool has(const Json& schema, const char* keyword) { return schema.contains(keyword); }

double number(const Json& schema, const char* keyword, double otherwise) {
  return has(schema, keyword) ? schema[keyword].get<double>() : otherwise;
}

/// A count that is asked for; at most what the compiler can hold.
std::int64_t count(const Json& schema, const char* keyword, std::int64_t otherwise) {
  constexpr double kMost = std::numeric_limits<std::int32_t>::max();
  return has(schema, keyword)
             ? static_cast<std::int64_t>(std::min(schema[keyword].get<double>(), kMost))
             : otherwise;
}

constexpr std::int64_t kNoMost = std::numeric_limits<std::int64_t>::max();

void set_counts(Json& out, const char* least, std::int64_t at_least, const char* most,
                std::int64_t at_most) {
  if (at_least > 0) out[least] = at_least;
  if (at_most < std::numeric_limits<std::int32_t>::max()) out[most] = at_most;
}

class SchemaRewrite {
 public:
  SchemaRewrite(const SchemaDocument& document, bool strict)
      : document_(document), strict_(strict), expander_(document, strict) {}

  Result<Json> run() {
    const Json& whole = document_.root();
    const bool refers = whole.is_object() && has(whole, "$ref") && is_reference_alone(whole);
    RUNNEL_TRY(Json root, refers ? write_reference(whole, "#") : write_whole(whole, "#"));
    Json parts = Json::object();
    auto& list = parts.get_ref<Json::object_t&>();
    while (!todo_.empty()) {
      const Part part = std::move(todo_.front());
      todo_.pop_front();
      RUNNEL_TRY(Json written, write_whole(*part.schema, part.path));
      if (written == kNever) return schema_error(part.path, "is a schema that no value meets");
      list.emplace_back(part.name, std::move(written));
    }
    if (root == kNever) return schema_error("#", "is a schema that no value meets");
    if (!parts.empty()) root["$defs"] = std::move(parts);
    return root;
  }

 private:
  struct Part {
    std::string name, path;
    const Json* schema;
  };

  /// `false` if no value meets it.
  Result<Json> write(const Json& schema, const std::string& path) {
    if (schema.is_object() && has(schema, "$ref") && is_reference_alone(schema))
      return write_reference(schema, path);
    // Put together of others, which may be recursive: once each.
    if (refers_in_place(schema)) {
      const auto [at, is_new] = combined_.try_emplace(schema.dump());
      if (is_new) {
        kept_.push_back(schema);
        at->second = plan(kept_.back(), path);
      }
      return Json{{"$ref", "#/$defs/" + at->second}};
    }
    return write_whole(schema, path);
  }

  static bool refers_in_place(const Json& schema) {
    if (!schema.is_object()) return false;
    if (has(schema, "$ref")) return true;
    constexpr std::array kLists = {kEveryOf, "allOf", "anyOf", "oneOf"};
    constexpr std::array kSchemas = {"not", "if", "then", "else"};
    return std::ranges::any_of(kLists,
                               [&](const char* keyword) {
                                 return has(schema, keyword) && schema[keyword].is_array() &&
                                        std::ranges::any_of(schema[keyword], refers_in_place);
                               }) ||
           std::ranges::any_of(kSchemas, [&](const char* keyword) {
             return has(schema, keyword) && refers_in_place(schema[keyword]);
           });
  }

  static bool is_reference_alone(const Json& schema) {
    static const std::set<std::string_view> kSaysNothing = {
        "$ref",     "title",     "description", "default", "examples",    "deprecated",
        "readOnly", "writeOnly", "$comment",    "$schema", "definitions", "$defs"};
    return std::ranges::all_of(schema.items(),
                               [](const auto& one) { return kSaysNothing.contains(one.key()); });
  }

  Result<Json> write_reference(const Json& schema, const std::string& path) {
    const Json* at = &schema;
    std::set<const Json*> seen;
    std::string uri;
    while (at->is_object() && has(*at, "$ref") && is_reference_alone(*at)) {
      if (!(*at)["$ref"].is_string()) return schema_error(path, "$ref is no text");
      uri = (*at)["$ref"].get<std::string>();
      RUNNEL_TRY(at, document_.find(uri, path));
      if (!seen.insert(at).second) {
        return schema_error(path, "$ref \"", std::string_view(uri).substr(0, 80),
                            "\" leads around in a circle");
      }
    }
    if (at->is_boolean()) return *at == true ? kAnything : kNever;
    const auto [part, is_new] = parts_.try_emplace(at);
    if (is_new) part->second = plan(*at, uri);
    return Json{{"$ref", "#/$defs/" + part->second}};
  }

  std::string plan(const Json& schema, const std::string& path) {
    std::string name = "part" + std::to_string(planned_++);
    todo_.push_back({name, path, &schema});
    return name;
  }

  Result<Json> write_whole(const Json& schema, const std::string& path) {
    RUNNEL_TRY(const SchemaAlternatives all, expander_.expand(schema, path));
    constexpr std::size_t kTypes = 6;
    if (all.size() == kTypes && std::ranges::all_of(all, is_free)) return kAnything;
    Json values = Json::array(), any = Json::array();
    for (const Json& one : all) {
      if (has(one, "enum")) {
        values.insert(values.end(), one["enum"].begin(), one["enum"].end());
        continue;
      }
      RUNNEL_TRY(Json written, write_type(one, path));
      if (written != kNever) any.push_back(std::move(written));
    }
    if (!values.empty()) any.push_back(Json{{"enum", std::move(values)}});
    if (any.empty()) return kNever;
    if (any.size() == 1) return any[0];
    return Json{{"anyOf", std::move(any)}};
  }

  Result<Json> write_type(const Json& one, const std::string& path) {
    const auto& type = one["type"].get_ref<const std::string&>();
    if (type == "number" || type == "integer") return write_number(one, path);
    if (type == "string") return write_string(one, path);
    if (type == "array") return write_array(one, path);
    if (type == "object") return write_object(one, path);
    return Json{{"type", type}};
  }

  static Result<Json> write_number(const Json& one, const std::string& path) {
    constexpr double kEndless = std::numeric_limits<double>::infinity();
    constexpr double kMostDivisor = 1024;
    double multiple = number(one, "multipleOf", 0);
    bool whole = one["type"] == "integer";
    if (multiple > 0 && whole && std::floor(1 / multiple) == 1 / multiple) multiple = 0;
    if (multiple > 0 && (std::floor(multiple) != multiple || multiple > kMostDivisor)) {
      return schema_error(path, "the keyword \"multipleOf\" is supported with whole numbers up to ",
                          static_cast<int>(kMostDivisor), ", not ", multiple);
    }
    whole = whole || multiple > 0;  // multiples of a whole number are whole
    double least = number(one, "minimum", -kEndless), most = number(one, "maximum", kEndless);
    const double above = number(one, "exclusiveMinimum", -kEndless);
    const double below = number(one, "exclusiveMaximum", kEndless);
    Json out = {{"type", whole ? "integer" : "number"}};
    if (whole) {
      least = std::max(std::ceil(least), std::floor(above) + 1);
      most = std::min(std::floor(most), std::ceil(below) - 1);
      if (multiple == 1) multiple = 0;
    } else {
      if (above >= least && above > -kEndless) out["exclusiveMinimum"] = above;
      if (below <= most && below < kEndless) out["exclusiveMaximum"] = below;
      if ((above >= most && above > -kEndless) || (below <= least && below < kEndless) ||
          above >= below)
        return kNever;
      if (above >= least) least = -kEndless;
      if (below <= most) most = kEndless;
    }
    if (least > most) return kNever;
    constexpr double kExact = 9007199254740992.0;  // 2^53
    for (const auto& [name, bound] : {std::pair{"minimum", least}, std::pair{"maximum", most}}) {
      if (std::isinf(bound)) continue;
      if (whole && std::abs(bound) > kExact)
        return schema_error(path, "the keyword \"", name, "\" is supported up to 2^53");
      out[name] = whole ? Json(static_cast<std::int64_t>(bound)) : Json(bound);
    }
    if (multiple > 0) {
      const double first = std::ceil(least / multiple) * multiple;
      if (first > most) return kNever;
      out["multipleOf"] = static_cast<std::int64_t>(multiple);
    }
    return out;
  }

  Result<Json> write_string(const Json& one, const std::string& path) const {
    Json out = {{"type", "string"}};
    const std::int64_t least = count(one, "minLength", 0), most = count(one, "maxLength", kNoMost);
    if (least > most) return kNever;
    set_counts(out, "minLength", least, "maxLength", most);
    if (has(one, "format")) out["format"] = one["format"];
    if (!has(one, "pattern")) return out;
    if (out.size() > 1) {
      return schema_error(path, "the keyword \"pattern\" is not supported beside \"",
                          std::next(out.begin()).key(), "\"");
    }
    RUNNEL_TRY(out["pattern"], whole_pattern(one["pattern"], strict_, path));
    return out;
  }

  Result<Json> write_array(const Json& one, const std::string& path) {
    if (is_free(one)) return one;
    Json out = {{"type", "array"}};
    const std::int64_t least = count(one, "minItems", 0);
    std::int64_t most = count(one, "maxItems", kNoMost);
    Json prefix = Json::array();
    if (has(one, "prefixItems")) {
      for (const Json& item : one["prefixItems"]) {
        if (static_cast<std::int64_t>(prefix.size()) >= most) break;
        RUNNEL_TRY(Json written,
                   write(item, path + "/prefixItems/" + std::to_string(prefix.size())));
        if (written == kNever) {
          most = static_cast<std::int64_t>(prefix.size());
          break;
        }
        prefix.push_back(std::move(written));
      }
    }
    const auto begun = static_cast<std::int64_t>(prefix.size());
    Json items = strict_ && !prefix.empty() && !has(one, "items") ? kNever : kAnything;
    if (has(one, "items") && begun < most) {
      RUNNEL_TRY(items, write(one["items"], path + "/items"));
    }
    if (begun >= most) items = kNever;
    if (items == kNever) most = std::min(most, begun);
    if (least > most) return kNever;
    if (!prefix.empty()) out["prefixItems"] = std::move(prefix);
    out["items"] = std::move(items);
    set_counts(out, "minItems", least, "maxItems", most);
    return out;
  }

  /// What an object is written from.
  struct Object {
    Json properties = Json::object();
    std::set<std::string> required;
    bool closed = false;      // no other names
    bool impossible = false;  // a required property can have no value
  };

  Result<Json> write_object(const Json& one, const std::string& path) {
    if (is_free(one)) return one;
    Json out = {{"type", "object"}};
    RUNNEL_TRY(Object object, write_properties(one, path));
    const bool patterns = has(one, "patternProperties");
    if (patterns && !object.properties.empty()) {
      return schema_error(
          path, "the keyword \"patternProperties\" is not supported beside \"properties\"");
    }
    if (object.impossible) return kNever;
    if (patterns) {
      RUNNEL_CHECK_OK(write_patterns(out, one, path));
      object.closed = true;
    } else if (has(one, "propertyNames") && !object.closed) {
      RUNNEL_CHECK_OK(write_names(out, one, object, path));
    }
    if (!object.properties.empty()) out["properties"] = std::move(object.properties);
    if (!object.required.empty()) out["required"] = object.required;
    if (object.closed) {
      out["additionalProperties"] = false;
    } else if (has(one, "additionalProperties")) {
      RUNNEL_TRY(Json others, write(one["additionalProperties"], path + "/additionalProperties"));
      out["additionalProperties"] = others == kAnything ? Json(true) : std::move(others);
    } else {
      out["additionalProperties"] = true;
    }
    return count_properties(std::move(out), one, path);
  }

  Result<Object> write_properties(const Json& one, const std::string& path) {
    Object object;
    const bool more = has(one, "additionalProperties");
    object.closed = more ? one["additionalProperties"] == false
                         : strict_ && (has(one, "properties") || has(one, "required"));
    if (more && one["additionalProperties"].is_object()) {
      RUNNEL_TRY(const Json others, write(one["additionalProperties"], path));
      object.closed = others == kNever;
    }
    if (has(one, "required")) {
      for (const Json& name : one["required"]) object.required.insert(name.get<std::string>());
    }
    auto& list = object.properties.get_ref<Json::object_t&>();
    std::set<std::string> named;
    const auto add = [&](const std::string& name, const Json& value,
                         const std::string& at) -> Status {
      named.insert(name);
      RUNNEL_TRY(Json written, write(value, at));
      RUNNEL_TRY(const bool fits, fits_names(one, name, path));
      if (fits && written != kNever) {
        list.emplace_back(name, std::move(written));
      } else if (object.required.contains(name)) {
        object.impossible = true;
      } else {
        object.closed = true;  // another name could be this one
      }
      return {};
    };
    if (has(one, "properties")) {
      for (const auto& [name, value] : one["properties"].items())
        RUNNEL_CHECK_OK(add(name, value, path + "/properties/" + pointer_part(name)));
    }
    if (has(one, "patternProperties") && !object.required.empty()) {
      return schema_error(path,
                          "the keyword \"required\" is not supported beside \"patternProperties\"");
    }
    if (has(one, "required")) {
      for (const Json& required : one["required"]) {
        const auto name = required.get<std::string>();
        if (!named.contains(name))
          RUNNEL_CHECK_OK(add(name, more ? one["additionalProperties"] : Json(true), path));
      }
    }
    return object;
  }

  // Whether propertyNames lets a name be.
  Result<bool> fits_names(const Json& one, const std::string& name, const std::string& path) const {
    if (!has(one, "propertyNames")) return true;
    const std::optional<bool> fits = document_.holds(name, one["propertyNames"]);
    if (fits) return *fits;
    return schema_error(path, "the keyword \"propertyNames\" is not supported beside properties ",
                        "with a pattern");
  }

  Status write_patterns(Json& out, const Json& one, const std::string& path) {
    if (has(one, "propertyNames")) {
      return schema_error(
          path, "the keyword \"propertyNames\" is not supported beside \"patternProperties\"");
    }
    const Json& patterns = one["patternProperties"];
    if (patterns.size() > 1) {
      return schema_error(path,
                          "the keyword \"patternProperties\" is supported with one pattern alone");
    }
    for (const auto& [pattern, value] : patterns.items()) {
      RUNNEL_TRY(Json written, write(value, path + "/patternProperties/" + pointer_part(pattern)));
      if (written == kNever) break;  // no name that fits may come
      RUNNEL_TRY(const Json whole, whole_pattern(pattern, strict_, path));
      out["patternProperties"] = Json{{whole.get<std::string>(), std::move(written)}};
    }
    return {};
  }

  Status write_names(Json& out, const Json& one, Object& object, const std::string& path) {
    const Json names = every_of(one["propertyNames"], Json{{"type", "string"}});
    RUNNEL_TRY(Json written, write(names, path + "/propertyNames"));
    // The compiler does not tell other names from those of the properties.
    if (written == kNever || !object.properties.empty()) {
      object.closed = true;
    } else if (written != Json{{"type", "string"}}) {
      out["propertyNames"] = std::move(written);
    }
    return {};
  }

  // minProperties and maxProperties: another name may come twice, which counts once.
  static Result<Json> count_properties(Json out, const Json& one, const std::string& path) {
    const auto named =
        static_cast<std::int64_t>(has(out, "properties") ? out["properties"].size() : 0);
    const auto required =
        static_cast<std::int64_t>(has(out, "required") ? out["required"].size() : 0);
    const std::int64_t least = count(one, "minProperties", 0);
    const std::int64_t most = count(one, "maxProperties", kNoMost);
    const bool patterns = has(out, "patternProperties");
    if (required > most || least > most) return kNever;
    if (out["additionalProperties"] == false && !patterns && least > named) return kNever;
    if (least > std::max<std::int64_t>(1, required) &&
        (patterns || out["additionalProperties"] != false)) {
      if (patterns || named < least) {
        return schema_error(path, "the keyword \"minProperties\" is supported above 1 where the ",
                            "properties have names");
      }
      out["additionalProperties"] = false;
    }
    set_counts(out, "minProperties", least > required ? least : 0, "maxProperties", most);
    return out;
  }

  const SchemaDocument& document_;
  const bool strict_;
  SchemaExpander expander_;
  std::deque<Part> todo_;
  std::map<const Json*, std::string> parts_;     // what was referred to → its name
  std::map<std::string, std::string> combined_;  // what was put together → its name
  std::deque<Json> kept_;
  int planned_ = 0;
};

}  // namespace

Result<std::string> rewrite_schema(std::string_view schema, bool strict) {
  RUNNEL_TRY(const SchemaDocument document, SchemaDocument::parse(schema));
  SchemaRewrite rewrite(document, strict);
  RUNNEL_TRY(const Json written, rewrite.run());
  return written.dump();
}

}  // namespace runnel
