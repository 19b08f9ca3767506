// SPDX-License-Identifier: Apache-2.0
// Any text as a chat template, rendered for a conversation with tools: it ends soon, with UTF-8 or an error.
//   input: the template
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/jinja/template.h"
#include "runtime/text/utf8.h"

namespace {

using runnel::jinja::Dict;
using runnel::jinja::List;
using runnel::jinja::Value;

void require(bool condition) {
  if (!condition) std::abort();
}

Value message(const char* role, const char* content) {
  Dict out;
  out.set(Value("role"), Value(role));
  out.set(Value("content"), Value(runnel::marked_text(content, true)));
  return out;
}

std::vector<std::pair<std::string, Value>> variables() {
  Dict tool;
  tool.set(Value("name"), Value(runnel::marked_text("weather", true)));
  tool.set(Value("arguments"), Value(List{{Value(std::int64_t{1}), Value(2.5), Value(nullptr)}}));
  return {{"messages", List{{message("system", "Be \"brief\".\n"), message("user", " <b>Ünï</b> "),
                             message("assistant", "<think>x</think>ok"), message("user", "")}}},
          {"tools", List{{tool}}},
          {"add_generation_prompt", Value(true)},
          {"bos_token", Value("<s>")},
          {"eos_token", Value("</s>")}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = runnel::jinja::Template::parse(source);
  if (!parsed) {
    require(!parsed.error().message.empty());
    return 0;
  }
  std::tm now{};
  const auto text = parsed->render(variables(), now, {.steps = 100'000, .bytes = 4U << 20});
  if (!text) {
    require(!text.error().message.empty());
    return 0;
  }
  const std::string bytes = runnel::bytes_of(*text);
  require(runnel::first_invalid_utf8(bytes) == std::string_view::npos);
  std::size_t end = 0;
  bool first = true;
  for (const runnel::ByteRange& range : runnel::given_in(*text)) {
    require(range.begin < range.end && range.end <= bytes.size() && (first || range.begin > end));
    end = range.end;
    first = false;
  }
  return 0;
}
