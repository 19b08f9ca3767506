// SPDX-License-Identifier: Apache-2.0
// Any text as an answer with calls, and as a list of tools. What is found does not depend on where the text is cut.
//   input: a byte that says which format, a byte that says where it is cut, the text
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/tools.h"
#include "runtime/text/tool_format.h"

namespace {

using namespace runnel;
using Kind = ToolEvent::Kind;

void require(bool condition) {
  if (!condition) std::abort();
}

void add(std::vector<ToolEvent> events, std::vector<ToolEvent>& all) {
  for (ToolEvent& event : events) {
    const bool joins = event.kind == Kind::text || event.kind == Kind::arguments;
    if (joins && !all.empty() && all.back().kind == event.kind) {
      all.back().text += event.text;
    } else {
      all.push_back(std::move(event));
    }
  }
}

std::vector<ToolEvent> in_pieces(const ToolFormat& format, std::string_view text,
                                 std::size_t size) {
  ToolCallReader reader(format);
  std::vector<ToolEvent> all;
  for (; !text.empty(); text.remove_prefix(std::min(size, text.size())))
    add(reader.push(text.substr(0, size)), all);
  add(reader.finish(), all);
  return all;
}

const std::vector<ToolFormat>& formats() {
  static const std::vector<ToolFormat> all = {
      tagged_tool_format(),
      {.style = ToolStyle::bare},
      {.style = ToolStyle::list, .open = "[TOOL_CALLS]"},
      {.style = ToolStyle::named, .open = "[TOOL_CALLS]"},
      {},
  };
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const ToolFormat& format = formats()[data[0] % formats().size()];
  const std::string text(data + 2, data + size);
  require(in_pieces(format, text, text.size() + 1) == in_pieces(format, text, 1 + data[1] % 16U));
  const ToolAnswer answer = read_tool_calls(format, text);
  for (const ToolCall& call : answer.calls)
    require(!call.name.empty() &&
            nlohmann::json::parse(call.arguments, nullptr, false).is_object());
  for (const BrokenCall& call : answer.broken) require(!call.text.empty() && !call.reason.empty());
  if (const auto tools = read_tools(text)) {
    require(tools->size() <= kMostTools);
  } else {
    require(!tools.error().message.empty());
  }
  return 0;
}
