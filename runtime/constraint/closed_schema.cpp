// SPDX-License-Identifier: Apache-2.0
#include "runtime/constraint/closed_schema.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace runnel {
namespace {

using Json = nlohmann::ordered_json;

bool has_one_of(const Json& schema, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return schema.contains(name); });
}

/// Calls `visit` with every schema of `schema`, itself first; nested at most 64 deep, as all JSON that is read here.
template <class Part>
void each_part(Part& schema, const std::function<void(Part&)>& visit) {
  if (schema.is_array()) {
    for (auto& item : schema) each_part<Part>(item, visit);
    return;
  }
  if (!schema.is_object()) return;
  visit(schema);
  for (auto& [name, value] : schema.items()) {
    if (name == "enum" || name == "const" || name == "default" || name == "examples") continue;
    const bool named = name == "properties" || name == "$defs" || name == "definitions";
    if (!named) {
      each_part<Part>(value, visit);
    } else if (value.is_object()) {
      for (auto& [inner, one] : value.items()) each_part<Part>(one, visit);
    }
  }
}

bool lists_properties(const Json& schema) {
  return schema.contains("properties") && schema["properties"].is_object();
}

bool puts_together(const Json& schema) {
  bool found = false;
  each_part<const Json>(schema, [&found](const Json& part) {
    const bool several = part.contains("allOf") && part["allOf"].size() > 1;
    const bool beside =
        lists_properties(part) && has_one_of(part, {"$ref", "anyOf", "oneOf", "allOf", "if"});
    found = found || several || beside;
  });
  return found;
}

}  // namespace

Json closed_schema(Json schema) {
  if (puts_together(schema)) return schema;
  each_part<Json>(schema, [&schema](Json& part) {
    const bool names = lists_properties(part) && (&part == &schema || !part["properties"].empty());
    if (names && !has_one_of(part, {"additionalProperties", "patternProperties", "propertyNames",
                                    "minProperties", "maxProperties"}))
      part["additionalProperties"] = false;
  });
  return schema;
}

}  // namespace runnel
