// SPDX-License-Identifier: Apache-2.0
// What an answer with tools may be, as a constraint of the kind `tags`.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runnel/tools.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/tool_format.h"

namespace runnel {
namespace {

using Json = nlohmann::ordered_json;

/// Objects that name properties have no others, unless they say so.
void close_objects(Json& schema, bool root) {
  if (schema.is_array()) {
    for (Json& item : schema) close_objects(item, false);
    return;
  }
  if (!schema.is_object()) return;
  const bool names = schema.contains("properties") && schema["properties"].is_object() &&
                     (root || !schema["properties"].empty());
  const bool more = schema.contains("additionalProperties") ||
                    schema.contains("patternProperties") || schema.contains("propertyNames") ||
                    schema.contains("minProperties") || schema.contains("maxProperties");
  if (names && !more) schema["additionalProperties"] = false;
  for (auto& [name, value] : schema.items()) {
    if (name == "enum" || name == "const" || name == "default" || name == "examples") continue;
    if (name == "properties" || name == "$defs" || name == "definitions") {
      for (auto& [inner, one] : value.items()) close_objects(one, false);
    } else {
      close_objects(value, false);
    }
  }
}

Json schema_of(const Tool& tool) {
  Json schema = tool.parameters.empty() ? Json{{"type", "object"}, {"properties", Json::object()}}
                                        : Json::parse(tool.parameters, nullptr, false);
  if (!schema.contains("type") && schema.contains("properties")) schema["type"] = "object";
  if (!tool.strict) close_objects(schema, true);
  return schema;
}

}  // namespace

Result<std::shared_ptr<const Constraint>> tool_constraint(const Model& model,
                                                          std::span<const Tool> tools,
                                                          const ToolChoice& choice) {
  using Kind = ToolChoice::Kind;
  const ToolFormat format = model.tool_format();
  if (format.style == ToolStyle::none)
    return fail(ErrorCode::unsupported, "tools: ", format.reason);
  RUNNEL_CHECK_OK(check_tools(tools));
  const bool named = choice.kind == Kind::named, none = choice.kind == Kind::none;
  if (tools.empty() && !none)
    return fail(ErrorCode::invalid_argument, "tools: there are none to choose from");
  Json tags = Json::array();
  for (const Tool& tool : tools) {
    if (none || (named && tool.name != choice.name)) continue;
    tags.push_back({{"name", tool.name},
                    {"begin", tool.name + format.middle},
                    {"schema", schema_of(tool)},
                    {"strict", tool.strict}});
  }
  if (tags.empty() && !none)
    return fail(ErrorCode::invalid_argument, "tools: there is none of the name ",
                in_quotes(choice.name));
  const bool several = choice.parallel && !named;
  const Json source = {{"free", none                             ? "only"
                                : choice.kind == Kind::automatic ? "before"
                                                                 : "none"},
                       {"trigger", format.open},
                       {"begin", format.begin},
                       {"tags", std::move(tags)},
                       {"between", several ? format.between : std::string()},
                       {"end", format.end}};
  return Constraint::compile(model,
                             {.kind = ConstraintKind::tags, .text = source.dump(), .strict = true});
}

}  // namespace runnel
