// SPDX-License-Identifier: Apache-2.0
// Which calls a model makes of 50 fixed requests, free and constrained, greedily.
//   runnel_tool_calls MODEL [tests/bench/tools] [MOST]
// A call is right if it is the only one and names the tool and the arguments that requests.jsonl has; texts are compared
// without regard to upper and lower case.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runnel/generation.h"
#include "runnel/session.h"
#include "runnel/tools.h"
#include "runtime/base/try.h"

namespace {

using namespace runnel;
using nlohmann::json;

struct Mode {
  const char* name;
  bool constrained;
  ToolChoice::Kind choice;
  int calls = 0, right_tools = 0, right = 0, broken = 0;
};

json lower(json value) {
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return std::tolower(c); });
  }
  return value;
}

bool same(const json& a, const json& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.items().begin(), a.items().end(), [&b](const auto& item) {
    return b.contains(item.key()) && lower(item.value()) == lower(b[item.key()]);
  });
}

Result<ToolAnswer> ask(const std::shared_ptr<const Model>& model, const std::string& said,
                       const std::vector<Tool>& tools, const Mode& mode) {
  RUNNEL_TRY(Session session, Session::create(model));
  const std::vector<ChatMessage> talk = {{"user", said}};
  RUNNEL_TRY(const std::vector<TokenId> prompt,
             model->encode_chat(talk, true, ChatContinuation::start, {}, tools));
  RUNNEL_TRY(const PrefillResult read, session.prefill(prompt));
  static_cast<void>(read);
  GenerationOptions options{.max_tokens = 128};
  RUNNEL_TRY(options.answer, model->answer_form(Thinking::off));
  if (mode.constrained) {
    RUNNEL_TRY(options.constraint, tool_constraint(*model, tools, {.kind = mode.choice}));
  }
  RUNNEL_TRY(const GenerationResult result, generate(session, options));
  return read_tool_calls(model->tool_format(), result.text + result.held_back,
                         result.reason == FinishReason::length);
}

Status measure(const std::shared_ptr<const Model>& model, const std::filesystem::path& folder,
               int most) {
  std::ifstream file(folder / "tools.json");
  RUNNEL_TRY(const std::vector<Tool> all,
             read_tools(std::string(std::istreambuf_iterator<char>(file), {})));
  std::vector<Mode> modes = {{"free", false, ToolChoice::Kind::automatic},
                             {"constrained, auto", true, ToolChoice::Kind::automatic},
                             {"constrained, required", true, ToolChoice::Kind::required}};
  std::ifstream requests(folder / "requests.jsonl");
  int asked = 0;
  for (std::string line; asked < most && std::getline(requests, line); ++asked) {
    const json request = json::parse(line);
    std::vector<Tool> tools;
    for (const std::string name : request["tools"]) {
      const auto tool =
          std::find_if(all.begin(), all.end(), [&](const Tool& t) { return t.name == name; });
      if (tool != all.end()) tools.push_back(*tool);
    }
    for (Mode& mode : modes) {
      RUNNEL_TRY(const ToolAnswer answer, ask(model, request["user"], tools, mode));
      mode.broken += answer.broken.empty() ? 0 : 1;
      mode.calls += answer.calls.empty() ? 0 : 1;
      const bool one = answer.calls.size() == 1 && answer.calls[0].name == request["name"];
      const bool right = one && same(json::parse(answer.calls[0].arguments), request["arguments"]);
      mode.right_tools += one ? 1 : 0;
      mode.right += right ? 1 : 0;
      std::fprintf(stderr, "%-22s %s %s\n", mode.name, right ? "right" : "WRONG",
                   answer.calls.empty()
                       ? answer.text.substr(0, 100).c_str()
                       : (answer.calls[0].name + " " + answer.calls[0].arguments).c_str());
    }
  }
  for (const Mode& mode : modes)
    std::printf(
        "%-22s of %d: %d with calls, %d with one of the right tool, %d right, %d with a broken "
        "call\n",
        mode.name, asked, mode.calls, mode.right_tools, mode.right, mode.broken);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: runnel_tool_calls MODEL [FOLDER] [MOST]\n");
    return 2;
  }
  const auto model = runnel::Model::load(argv[1], {.device = "cpu"});
  const Status done = model ? measure(*model, argc > 2 ? argv[2] : "tests/bench/tools",
                                      argc > 3 ? std::atoi(argv[3]) : 50)
                            : Status(model.error());
  if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
