// SPDX-License-Identifier: Apache-2.0
#include "app/cli/tools.h"

#include <utility>

#include "runtime/base/byte_reader.h"
#include "runtime/base/file_map.h"
#include "runtime/base/try.h"

namespace runnel::cli {

void add_tools_options(CLI::App& parser, ToolsChoice& choice) {
  constexpr const char* kGroup = "Tools";
  CLI::Option* file =
      parser
          .add_option("--tools", choice.file,
                      "Let the model call the tools that FILE describes, a JSON list as OpenAI's "
                      "interface has it. Nothing is run: calls are printed, and their results are "
                      "read, a line for each")
          ->group(kGroup)
          ->type_name("FILE");
  parser
      .add_option("--tool-choice", choice.choice,
                  "auto: text or calls; required: a call; NAME: a call of that tool")
      ->group(kGroup)
      ->type_name("auto|required|NAME")
      ->needs(file)
      ->capture_default_str();
  for (const char* other : {"--json", "--json-schema", "--grammar", "--regex", "--choice"})
    file->excludes(parser.get_option(other));
}

Result<std::vector<Tool>> chosen_tools(const ToolsChoice& choice, const Model& model,
                                       GenerationOptions& generation) {
  if (!choice.any()) return std::vector<Tool>();
  RUNNEL_TRY(const FileMap map, FileMap::open(choice.file));
  Result<std::vector<Tool>> tools = read_tools(as_text(map.bytes()));
  if (!tools) return with_context(std::move(tools).error(), "--tools: ");
  if (tools->empty()) return fail(ErrorCode::invalid_argument, "--tools: the list is empty");
  if (const ToolFormat format = model.tool_format(); format.style == ToolStyle::none)
    return fail(ErrorCode::unsupported, "--tools: ", format.reason);
  ToolChoice wanted;
  if (choice.choice == "required") {
    wanted.kind = ToolChoice::Kind::required;
  } else if (choice.choice != "auto") {
    wanted = {.kind = ToolChoice::Kind::named, .name = choice.choice};
  }
  if (!has_constraints() && wanted.kind == ToolChoice::Kind::automatic) return tools;
  auto constraint = tool_constraint(model, *tools, wanted);
  if (!constraint) return with_context(std::move(constraint).error(), "--tools: ");
  generation.constraint = *std::move(constraint);
  return tools;
}

std::string ShownCalls::take(const std::vector<ToolEvent>& events) {
  using Kind = ToolEvent::Kind;
  std::string text;
  for (const ToolEvent& event : events) {
    switch (event.kind) {
      case Kind::text:
        text += event.text;
        break;
      case Kind::begin:
        call_ = {.id = "call_" + std::to_string(next_++), .name = event.text, .arguments = {}};
        break;
      case Kind::arguments:
        call_.arguments += event.text;
        break;
      case Kind::end:
        message_.tool_calls.push_back(std::move(call_));
        break;
      case Kind::broken:
        text += event.text;
        if (!problem_)
          problem_ =
              Error{ErrorCode::malformed, "the model's call " + event.reason + ": " + event.text};
        break;
    }
  }
  message_.content += text;
  return text;
}

std::string ShownCalls::lines() const {
  std::string all;
  for (const ToolCall& call : message_.tool_calls)
    all += "call: " + call.name + " " + call.arguments + "\n";
  return all;
}

std::vector<ChatMessage> read_results(
    const std::vector<ToolCall>& calls,
    const std::function<std::optional<std::string>(const ToolCall&)>& ask) {
  std::vector<ChatMessage> results;
  for (const ToolCall& call : calls) {
    std::optional<std::string> result = ask(call);
    if (!result) return {};
    results.push_back({.role = "tool", .content = *std::move(result), .tool_call_id = call.id});
  }
  return results;
}

}  // namespace runnel::cli
