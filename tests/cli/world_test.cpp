// SPDX-License-Identifier: Apache-2.0
// World models on the command line: converted from a file of torch, chats with thoughts folded, states as transcripts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>

#include "runnel/session.h"
#include "runtime/model/session_impl.h"
#include "tests/cli/program.h"
#include "tests/support/chat_model.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string& world_model() {
  static const std::string file = [] {
    const auto path = scratch() / "world.gguf";
    write_world_chat_model(path);
    return path.string();
  }();
  return file;
}

Outcome chat(const std::string& input, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"chat", world_model(), "-t",     "1",
                                        "-n",   "16",          "--seed", "3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments, input);
}

TEST(WorldChat, ALoadedConversationGoesOnAsIfNeverLeft) {
  const std::string file = (scratch() / "world.snap").string();
  const Outcome whole = chat("Hello\nAnd now?\n");
  EXPECT_EQ(whole.code, 0);
  EXPECT_THAT(whole.err, IsEmpty());
  const std::string first = chat("Hello\n", {"--save", file}).out;
  EXPECT_EQ(first + chat("And now?\n", {"--load", file}).out, whole.out);
}

// What an answer showed and left unread, since one token holds its end and what follows, is read before the prompt.
TEST(WorldChat, RunGoesOnFromAnAnswerAsTheTranscriptReads) {
  const auto model = *Model::load(world_model(), {.device = "cpu", .threads = 1});
  Session session = *Session::create(model);
  const std::string talk = "User: Hello\n\nAssistant: ab";
  ASSERT_TRUE(session.prefill(*model->encode(talk)));
  impl_of(session).keep_unread("\xE3\x80\x82");  // "。", of which "。\n" is one token
  const std::string file = (scratch() / "unread.snap").string();
  ASSERT_TRUE(session.snapshot()->save(file));
  const auto said = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", world_model(), "-t", "1", "-n", "12", "--ignore-end"});
    const Outcome o = run_program(more);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.out;
  };
  const std::string shown = talk + "\xE3\x80\x82";
  const std::string asked = "\n\nUser: And now?\n\nAssistant:";
  EXPECT_EQ(said({"--load", file, "-p", asked}), said({"-p", shown + asked}));
  EXPECT_EQ(said({"--load", file}), said({"-p", shown}));
  const TokenId newline = '\n' + 1;
  std::string ids;
  for (const TokenId id : *model->encode(shown)) ids += std::to_string(id) + ",";
  EXPECT_EQ(said({"--load", file, "--tokens", std::to_string(newline)}),
            said({"--tokens", ids + std::to_string(newline)}));
}

TEST(WorldChat, ThoughtsAreFolded) {
  // The model's noise never closes its thought, so there is no answer.
  const Outcome o = chat("Hello\n", {"--think", "on"});
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.out, "\n");
  const Outcome shown = chat("Hello\n/thought\n", {"--think", "on"});
  EXPECT_GT(shown.out.size(), 4U);
  EXPECT_NE(chat("Hello\n", {"--think", "off"}).out, chat("Hello\n").out);
}

TEST(WorldChat, ThoughtsOfOtherModelsAreFoldedToo) {
  const auto file = scratch() / "thinking.jinja";
  std::ofstream(file) << kThinkingTemplate;
  const auto answers = [&](const char* think) {
    return run_program({"chat", chat_model(), "--chat-template", file.string(), "-t", "1", "-n",
                        "16", "--seed", "3", "--think", think},
                       "Hello\n");
  };
  EXPECT_EQ(answers("on").code, 0);
  EXPECT_EQ(answers("on").out, "\n");
  EXPECT_GT(answers("off").out.size(), 4U);
}

TEST(WorldChat, OtherModelsHaveNoThoughts) {
  const Outcome o = run_program({"chat", chat_model(), "--think", "on"}, "Hello\n");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("has no thoughts"));
}

TEST(ConvertFile, MakesAModelOfAFileOfTorch) {
  const std::string out = (scratch() / "rwkv7.gguf").string();
  const Outcome o = run_program({"convert", "tests/data/torch/rwkv7.pth", out});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("has no tokenizer"));
  EXPECT_THAT(o.out, HasSubstr("5,728 parameters"));
}

TEST(ConvertFile, HelpNamesEveryModelType) {
  const Outcome o = run_program({"convert", "--help"});
  std::string help;  // as it was before lines were wrapped
  for (const char c : o.out) {
    if (!std::isspace(static_cast<unsigned char>(c))) help += c;
  }
  EXPECT_THAT(help, HasSubstr("gsa,gla,hgrn2,retnet,abc,linear_attn,regla,delta_net,gated_deltanet,"
                              "rwkv7,runnel_gsa"));
}

TEST(ConvertFile, NamesWhatAFileIsNot) {
  const Outcome o = run_program({"convert", world_model(), (scratch() / "no.gguf").string()});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("is no zip archive"));
}

}  // namespace
}  // namespace runnel::test
