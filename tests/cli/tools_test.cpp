// SPDX-License-Identifier: Apache-2.0
// runnel run and chat with tools: calls are printed, results are read, and what is no call is an error with its text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "runnel/constraint.h"
#include "tests/cli/program.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "roll", "description": "Rolls a die", "parameters":
    {"type": "object", "properties": {"sides": {"enum": [6, 20]}}, "required": ["sides"]}}},
  {"name": "say", "description": "Says a word", "parameters":
    {"type": "object", "properties": {"word": {"type": "string", "pattern": "^[a-z]{8}$"}}, "required": ["word"]}}])";
constexpr const char* kRollLine = "call: roll \\{\"sides\": (6|20)\\}\n";
constexpr const char* kSayLine = "call: say \\{\"word\": \"[a-z]{8}\"\\}\n";

std::string twice(const std::string& line) { return line + line; }

std::string file(const std::string& name, const std::string& text) {
  std::string path = (scratch() / name).string();
  std::ofstream(path) << text;
  return path;
}

class ToolsCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_constraints()) GTEST_SKIP() << "this build has no RUNNEL_GRAMMAR";
  }
  static Outcome with_tools(std::vector<std::string> arguments,
                            const std::vector<std::string>& more, const std::string& input) {
    for (const char* word : {"-t", "1", "--temp", "0", "--tools"}) arguments.emplace_back(word);
    arguments.push_back(file("tools.json", kTools));
    arguments.insert(arguments.end(), more.begin(), more.end());
    if (std::ranges::find(more, "-n") == more.end())
      arguments.insert(arguments.end(), {"-n", "300"});
    return run_program(arguments, input);
  }
  static Outcome run(const std::vector<std::string>& more, const std::string& input = "") {
    return with_tools({"run", chat_model(), "-p", "Roll"}, more, input);
  }
  static Outcome chat(const std::vector<std::string>& more, const std::string& input) {
    return with_tools({"chat", chat_model()}, more, input);
  }
};

TEST_F(ToolsCommand, RunPrintsACallAlone) {
  const Outcome o = run({"--tool-choice", "roll"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, MatchesRegex(kRollLine));
  EXPECT_THAT(o.err, IsEmpty());
}

TEST_F(ToolsCommand, RunReadsResultsAndAnswersThemUntilNoneIsLeft) {
  const Outcome once = run({"--tool-choice", "say"});
  const Outcome o = run({"--tool-choice", "say"}, "4\n");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(StartsWith(once.out), MatchesRegex(twice(kSayLine))));
}

TEST_F(ToolsCommand, FreeTextIsPrintedAsItIs) {
  const Outcome o = run({"-n", "8"}, "never read\n");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, Not(HasSubstr("call:")));
  EXPECT_GT(o.out.size(), 1U);
}

TEST_F(ToolsCommand, ChatReadsAResultAfterEachCallAndThenMessages) {
  const std::string first = chat({"--tool-choice", "say"}, "Hello\n").out;
  EXPECT_THAT(first, MatchesRegex(kSayLine));
  const Outcome o = chat({"--tool-choice", "say"}, "Hello\n4\n");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, IsEmpty());
  EXPECT_THAT(o.out, AllOf(StartsWith(first), MatchesRegex(twice(kSayLine))));
}

TEST_F(ToolsCommand, TheModelReadsWhatItIsTold) {
  const auto tokens = [](const std::string& result) {  // of the conversation, each a byte
    const std::string saved = (scratch() / "told.snap").string();
    EXPECT_EQ(chat({"--tool-choice", "say", "--save", saved}, "Hello\n" + result + "\n").code, 0);
    std::string about = run_program({"snapshot", "inspect", saved}).out;
    std::erase(about, ',');  // of 1,234
    const std::size_t at = about.find_first_of("0123456789", about.find("position"));
    EXPECT_NE(at, std::string::npos) << about;
    return at == std::string::npos ? 0 : std::stoi(about.substr(at));
  };
  EXPECT_EQ(tokens("Four and five"), tokens("4") + 12);
}

TEST_F(ToolsCommand, CallsHaveTheFormOfTheTemplate) {
  for (const char* name :
       {"hermes-3", "qwen2.5", "llama-3.1", "mistral-nemo", "mistral-small-3.2"}) {
    const std::string layout = std::string("tests/data/chat_templates/") + name + ".jinja";
    const Outcome o = chat({"--chat-template", layout, "--tool-choice", "say"}, "Hello\n4\n");
    EXPECT_EQ(o.code, 0) << name;
    EXPECT_THAT(o.out, MatchesRegex(twice(kSayLine))) << name << ": " << o.err;
    EXPECT_THAT(o.err, IsEmpty()) << name;
  }
}

TEST_F(ToolsCommand, RunReadsWhatATemplateLaysOutAnewFromTheBeginning) {
  const std::string layout = "{{ 'Results. ' if messages[-1].content == '4' else '' }}" +
                             read_text("tests/data/chat_templates/hermes-3.jinja");
  const std::string model = (scratch() / "anew.gguf").string();
  write_chat_model(model, [&layout](GgufWriter& w) {
    w.set("gsa.chat.style", std::string("jinja"));
    w.set("tokenizer.chat_template", layout);
  });
  // What is drawn depends on how much was read, too; a chat has other samplers if nothing is said.
  const auto drawn = [](std::vector<std::string> words, const std::string& input) {
    for (const char* word : {"-t", "1", "--temp", "1", "--min-p", "0", "--dry-multiplier", "0",
                             "--seed", "3", "-n", "300", "--tool-choice", "say", "--tools"})
      words.emplace_back(word);
    words.push_back(file("tools.json", kTools));
    return run_program(words, input);
  };
  const Outcome o = drawn({"run", model, "-p", "Roll"}, "4\n");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, MatchesRegex(twice(kSayLine)));
  EXPECT_EQ(o.out, drawn({"chat", model}, "Roll\n4\n").out);
}

TEST_F(ToolsCommand, WorldModelsCallThemToo) {
  const std::string world = (scratch() / "world-tools.gguf").string();
  write_world_chat_model(world);
  const Outcome o =
      with_tools({"chat", world, "--think", "off"}, {"--tool-choice", "say"}, "Hello\n4\n");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, MatchesRegex(twice(kSayLine)));
}

TEST_F(ToolsCommand, ACutCallIsAnErrorWithItsText) {
  constexpr const char* kBegun = "<tool_call>\n{\"name\": \"say\"";
  const Outcome o = run({"--tool-choice", "say", "-n", "50"}, "never read\n");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("call was cut: "), HasSubstr(kBegun)));
  EXPECT_THAT(o.out, AllOf(StartsWith(kBegun), Not(HasSubstr("call:"))));
  // A chat says so and goes on: the next line is a message.
  const Outcome talk = chat({"--tool-choice", "say", "-n", "50"}, "Hello\nAgain\n");
  EXPECT_EQ(talk.code, 0);
  EXPECT_THAT(talk.out, AllOf(StartsWith(kBegun), Not(HasSubstr("call:"))));
  EXPECT_THAT(talk.err, MatchesRegex("(.*call was cut: <tool_call>[^<]*){2}"));
}

TEST_F(ToolsCommand, ACallThatEndsTooSoonIsAnErrorWithItsText) {
  const Outcome o = run({"--tool-choice", "say", "--stop", "\"word\""});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("call ends before it is whole: "),
                           HasSubstr("<tool_call>\n{\"name\": \"say\"")));
  EXPECT_THAT(o.out, StartsWith("<tool_call>\n{\"name\": \"say\""));
}

TEST_F(ToolsCommand, MistakesAreNamed) {
  const auto refused = [](const Outcome& o, const char* words) {
    EXPECT_NE(o.code, 0) << words;
    EXPECT_THAT(o.err, HasSubstr(words));
    EXPECT_THAT(o.out, IsEmpty());
  };
  const std::string tools = file("tools.json", kTools);
  const auto plain = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"run", chat_model(), "-p", "Roll"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  refused(plain({"--tools", (scratch() / "none.json").string()}), "none.json");
  refused(plain({"--tools", file("no.json", "{")}), "--tools: ");
  refused(plain({"--tools", file("empty.json", "[]")}), "the list is empty");
  refused(plain({"--tools", file("twice.json", R"([{"name": "a"}, {"name": "a"}])")}),
          "two of the name a");
  refused(plain({"--tools", tools, "--tool-choice", "sing"}), "sing");
  refused(plain({"--tool-choice", "roll"}), "--tools");
  refused(plain({"--tools", tools, "--regex", "a"}), "--regex");
  refused(run_program({"run", chat_model(), "-p", "-", "--tools", tools}), "-p -");
  refused(run_program({"run", chat_model(), "--tokens", "1", "--tools", tools}), "--t");
  refused(chat({"--chat-template", "tests/data/chat_templates/gemma-2.jinja"}, "Hello\n"),
          "--tools: ");
}

TEST(ToolsCommandAlone, WithoutGrammarsCallsAreAskedForByNoName) {
  if (has_constraints()) GTEST_SKIP() << "this build has RUNNEL_GRAMMAR";
  const std::string tools = file("tools.json", kTools);
  const Outcome o =
      run_program({"run", chat_model(), "-p", "Roll", "--tools", tools, "--tool-choice", "roll"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("RUNNEL_GRAMMAR"));
  EXPECT_EQ(run_program({"run", chat_model(), "-p", "Roll", "--tools", tools, "-n", "4"}).code, 0);
}

}  // namespace
}  // namespace runnel::test
