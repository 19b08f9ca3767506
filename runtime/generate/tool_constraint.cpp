// SPDX-License-Identifier: Apache-2.0
// What an answer with tools may be, as a constraint of the kind `tags`.
#include <nlohmann/json.hpp>
#include <utility>

#include "runnel/tools.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/constraint/closed_schema.h"
#include "runtime/text/tool_format.h"

namespace runnel {
namespace {

using Json = nlohmann::ordered_json;

Json schema_of(const Tool& tool) {
  Json schema = tool.parameters.empty() ? Json{{"type", "object"}, {"properties", Json::object()}}
                                        : Json::parse(tool.parameters, nullptr, false);
  if (!schema.contains("type") && schema.contains("properties")) schema["type"] = "object";
  return tool.strict ? schema : closed_schema(std::move(schema));
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
