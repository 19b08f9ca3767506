// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/schema_merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>

#include "runtime/grammar/schema_expand.h"

namespace runnel {
namespace {

using Json = SchemaJson;

bool has(const Json& schema, const char* keyword) { return schema.contains(keyword); }

bool is_count(const Json& value) {
  return value.is_number() && value.get<double>() >= 0 &&
         std::floor(value.get<double>()) == value.get<double>();
}

bool is_schema(const Json& value) { return value.is_object() || value.is_boolean(); }

/// The larger (or smaller) of two bounds, or the one there is.
void merge_bound(Json& into, const Json& from, const char* keyword, bool larger) {
  if (!has(from, keyword)) return;
  if (!has(into, keyword) || (from[keyword].get<double>() > into[keyword].get<double>()) == larger)
    into[keyword] = from[keyword];
}

Status merge_same(Json& into, const Json& from, const char* keyword, const std::string& path) {
  if (!has(from, keyword)) return {};
  if (has(into, keyword) && into[keyword] != from[keyword])
    return schema_error(path, "the keyword \"", keyword, "\" is not supported twice for one value");
  into[keyword] = from[keyword];
  return {};
}

Status merge_numbers(Json& into, const Json& from, const std::string& path) {
  if (from["type"] == "integer") into["type"] = "integer";
  for (const char* const keyword : {"minimum", "exclusiveMinimum"})
    merge_bound(into, from, keyword, true);
  for (const char* const keyword : {"maximum", "exclusiveMaximum"})
    merge_bound(into, from, keyword, false);
  if (!has(from, "multipleOf") || !has(into, "multipleOf"))
    return merge_same(into, from, "multipleOf", path);
  const auto a = into["multipleOf"].get<double>(), b = from["multipleOf"].get<double>();
  constexpr double kMost = 1e6;
  if (std::floor(a) != a || std::floor(b) != b || a > kMost || b > kMost)
    return merge_same(into, from, "multipleOf", path);
  into["multipleOf"] = std::lcm(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
  return {};
}

// Position i of an array: what an alternative says of it.
Json item_at(const Json& schema, std::size_t i) {
  if (has(schema, "prefixItems") && i < schema["prefixItems"].size())
    return schema["prefixItems"][i];
  return has(schema, "items") ? schema["items"] : Json(true);
}

void merge_arrays(Json& into, const Json& from) {
  merge_bound(into, from, "minItems", true);
  merge_bound(into, from, "maxItems", false);
  const std::size_t a = has(into, "prefixItems") ? into["prefixItems"].size() : 0;
  const std::size_t b = has(from, "prefixItems") ? from["prefixItems"].size() : 0;
  if (std::max(a, b) > 0) {
    Json prefix = Json::array();
    for (std::size_t i = 0; i < std::max(a, b); ++i)
      prefix.push_back(every_of(item_at(into, i), item_at(from, i)));
    into["prefixItems"] = std::move(prefix);
  }
  if (!has(from, "items")) return;
  into["items"] = has(into, "items") ? every_of(into["items"], from["items"]) : from["items"];
}

/// What an alternative says of a property that it does not name.
Json other_property(const Json& schema) {
  return has(schema, "additionalProperties") ? schema["additionalProperties"] : Json(true);
}

Status merge_objects(Json& into, const Json& from, const std::string& path) {
  const bool a = has(into, "patternProperties"), b = has(from, "patternProperties");
  const auto names_some = [](const Json& schema) {
    return has(schema, "properties") || has(schema, "additionalProperties") ||
           has(schema, "patternProperties");
  };
  if ((a && names_some(from)) || (b && names_some(into))) {
    return schema_error(path,
                        "the keyword \"patternProperties\" is not supported beside another "
                        "schema's properties");
  }
  if (b) into["patternProperties"] = from["patternProperties"];
  merge_bound(into, from, "minProperties", true);
  merge_bound(into, from, "maxProperties", false);
  if (has(into, "properties") || has(from, "properties")) {
    const Json none = Json::object();
    const Json& left = has(into, "properties") ? into["properties"] : none;
    const Json& right = has(from, "properties") ? from["properties"] : none;
    std::set<std::string> known;
    Json all = Json::object();
    auto& list = all.get_ref<Json::object_t&>();
    for (const auto& [name, value] : left.items()) {
      known.insert(name);
      list.emplace_back(name,
                        every_of(value, right.contains(name) ? right[name] : other_property(from)));
    }
    for (const auto& [name, value] : right.items()) {
      if (!known.contains(name)) list.emplace_back(name, every_of(other_property(into), value));
    }
    into["properties"] = std::move(all);
  }
  if (has(from, "required")) {
    if (!has(into, "required")) into["required"] = Json::array();
    for (const Json& name : from["required"]) {
      if (std::ranges::find(into["required"], name) == into["required"].end())
        into["required"].push_back(name);
    }
  }
  for (const char* const keyword : {"propertyNames", "additionalProperties"}) {
    if (has(from, keyword))
      into[keyword] = has(into, keyword) ? every_of(into[keyword], from[keyword]) : from[keyword];
  }
  return {};
}

struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool without_least = false, without_most = false;  // the ends do not belong to it
};

Range range_of(const Json& schema) {
  Range range;
  if (has(schema, "minimum")) range.least = schema["minimum"].get<double>();
  if (has(schema, "maximum")) range.most = schema["maximum"].get<double>();
  if (has(schema, "exclusiveMinimum") && schema["exclusiveMinimum"].get<double>() >= range.least) {
    range.least = schema["exclusiveMinimum"].get<double>();
    range.without_least = true;
  }
  if (has(schema, "exclusiveMaximum") && schema["exclusiveMaximum"].get<double>() <= range.most) {
    range.most = schema["exclusiveMaximum"].get<double>();
    range.without_most = true;
  }
  return range;
}

bool below(const Range& x, const Range& y) {
  return x.most < y.least || (x.most == y.least && (x.without_most || y.without_least));
}

/// The values that a property may have, if they are listed.
Json listed(const Json& schema) {
  if (schema.is_object() && has(schema, "const")) return Json::array({schema["const"]});
  return schema.is_object() && has(schema, "enum") ? schema["enum"] : Json();
}

/// What the value of a keyword must be; empty: it is.
std::string_view expected_of(std::string_view name, const Json& value) {
  if (name.starts_with("min") || name.starts_with("max")) {
    if (name == "minimum" || name == "maximum") return value.is_number() ? "" : "a number";
    return is_count(value) ? "" : "a whole number";
  }
  if (name.starts_with("exclusive")) return value.is_number() ? "" : "a number";
  if (name == "multipleOf")
    return value.is_number() && value.get<double>() > 0 ? "" : "a number above 0";
  if (name == "pattern" || name == "format") return value.is_string() ? "" : "a text";
  if (name == "items" || name == "additionalProperties" || name == "propertyNames")
    return is_schema(value) ? "" : "a schema";
  if (name == "prefixItems")
    return value.is_array() && std::ranges::all_of(value, is_schema) ? "" : "a list of schemas";
  if (name == "properties" || name == "patternProperties") {
    return value.is_object() && std::ranges::all_of(value, is_schema) ? "" : "an object of schemas";
  }
  if (name == "required") {
    const auto is_text = [](const Json& one) { return one.is_string(); };
    return value.is_array() && std::ranges::all_of(value, is_text) ? "" : "a list of texts";
  }
  return "";
}

}  // namespace

Status check_keywords(const Json& alternative, const std::string& path) {
  for (const auto& [name, value] : alternative.items()) {
    const std::string_view expected = expected_of(name, value);
    if (!expected.empty())
      return schema_error(path, "the keyword \"", name, "\" is not ", expected);
  }
  return {};
}

Json every_of(const Json& a, const Json& b) {
  if (a == b || b == true || b == Json::object()) return a;
  if (a == true || a == Json::object()) return b;
  if (a == false || b == false) return false;
  Json all = Json::array();
  for (const Json* const one : {&a, &b}) {
    const bool is_list = one->is_object() && one->size() == 1 && one->contains(kEveryOf);
    const Json parts = is_list ? (*one)[kEveryOf] : Json::array({*one});
    for (const Json& part : parts) {
      if (std::ranges::find(all, part) == all.end()) all.push_back(part);
    }
  }
  return Json{{kEveryOf, std::move(all)}};
}

Result<Json> merge_schemas(const Json& a, const Json& b, const std::string& path) {
  Json merged = a;
  const auto& type = a["type"].get_ref<const std::string&>();
  if (type == "number" || type == "integer") {
    RUNNEL_CHECK_OK(merge_numbers(merged, b, path));
  } else if (type == "string") {
    merge_bound(merged, b, "minLength", true);
    merge_bound(merged, b, "maxLength", false);
    RUNNEL_CHECK_OK(merge_same(merged, b, "pattern", path));
    RUNNEL_CHECK_OK(merge_same(merged, b, "format", path));
  } else if (type == "array") {
    merge_arrays(merged, b);
  } else if (type == "object") {
    RUNNEL_CHECK_OK(merge_objects(merged, b, path));
  }
  return merged;
}

bool numbers_apart(const Json& a, const Json& b) {
  const Range x = range_of(a), y = range_of(b);
  return below(x, y) || below(y, x);
}

bool objects_apart(const SchemaDocument& document, const Json& a, const Json& b, bool strict) {
  if (!has(a, "required") || has(b, "patternProperties")) return false;
  const bool closed = has(b, "additionalProperties") ? b["additionalProperties"] == false
                                                     : strict && has(b, "properties");
  const Json none = Json::object();
  const Json& there = has(b, "properties") ? b["properties"] : none;
  const Json& here = has(a, "properties") ? a["properties"] : none;
  return std::ranges::any_of(a["required"], [&](const Json& required) {
    const auto& name = required.get_ref<const std::string&>();
    if (!there.contains(name)) return closed;
    if (!here.contains(name)) return there[name] == false;
    const Json values = listed(here[name]);
    return values.is_array() && std::ranges::all_of(values, [&](const Json& value) {
             return document.holds(value, there[name]) == false;
           });
  });
}

}  // namespace runnel
