// SPDX-License-Identifier: Apache-2.0
// After an answer of a chat the session stands where a reading of the transcript would stand.
#include "runtime/generate/answer_settler.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "runnel/generation.h"
#include "runnel/model.h"
#include "runnel/snapshot.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/text/tokenizer.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using Ids = std::vector<TokenId>;

constexpr TokenId kEnd = 0;
constexpr TokenId kBlankLine = test::kFirstWorldToken;
constexpr TokenId kStopAndBreak = test::kFirstWorldToken + 1;  // U+3002, a line break
constexpr TokenId kUser = test::kFirstWorldToken + 2;
constexpr TokenId kBreak = '\n' + 1;
constexpr TokenId kColon = ':' + 1;

class Answers : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const test::TemporaryDirectory directory;
    test::write_world_chat_model(directory.path() / "world.gguf");
    auto model = Model::load(directory.path() / "world.gguf", {.device = "cpu", .threads = 2});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_ = *model;
  }
  static void TearDownTestSuite() { model_.reset(); }

  static Ids encode(const std::string& text) { return *model_->encode(text); }

  /// A conversation whose answers are forced.
  struct Talk {
    Session session = *Session::create(model_);
    Ids consumed;
    GenerationResult last;

    void say(const std::string& text) {
      const ChatMessage message{"user", text};
      const auto place =
          session.position() == 0 ? ChatContinuation::start : ChatContinuation::after_closed_answer;
      const Ids tokens = *model_->encode_chat({&message, 1}, true, place, session.unread_text());
      ASSERT_TRUE(session.prefill(tokens).has_value());
      consumed.insert(consumed.end(), tokens.begin(), tokens.end());
    }

    void answer(const Ids& forced, Thinking thinking = Thinking::as_trained) {
      GenerationOptions options{.max_tokens = forced.size()};
      options.answer = *model_->answer_form(thinking);
      options.on_logits = [&](std::span<float> logits, std::span<const TokenId> generated) {
        std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
        logits[static_cast<std::size_t>(forced[generated.size()])] = 0;
        return true;
      };
      auto result = generate(session, options);
      ASSERT_TRUE(result.has_value()) << result.error().message;
      last = *std::move(result);
      consumed.insert(consumed.end(), last.kept.begin(), last.kept.end());
    }
  };

  /// The talk has consumed what a reading of `transcript` consumes, and no state tells them apart.
  static void expect_reading(const Talk& talk, const std::string& transcript) {
    const Ids tokens = encode(transcript);
    EXPECT_EQ(talk.consumed, tokens);
    EXPECT_EQ(talk.session.position(), tokens.size());
    Session reader = *Session::create(model_);
    ASSERT_TRUE(reader.prefill(tokens).has_value());
    const Snapshot read = *reader.snapshot();
    const Snapshot talked = *talk.session.snapshot();
    EXPECT_EQ(data_of(talked).state, data_of(read).state);
    EXPECT_EQ(data_of(talked).logits, data_of(read).logits);
    EXPECT_EQ(data_of(talked).history_hash, data_of(read).history_hash);
  }

  static Ids then(Ids tokens, const Ids& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
    return tokens;
  }

  static std::shared_ptr<const Model> model_;
};
std::shared_ptr<const Model> Answers::model_;

TEST_F(Answers, TheFileMeansTurnsOfUserAndAssistant) {
  EXPECT_EQ(model_->chat_format().style, ChatStyle::rwkv);
  EXPECT_FALSE(model_->is_end(kBlankLine));
}

TEST_F(Answers, ThreeTurnsAreOneTranscript) {
  Talk talk;
  talk.say("a\n\n\nb");
  // The stop text begins inside a token, which is undone; a blank line before it is part of the answer.
  talk.answer(then(encode(" one\n\ntwo"), {kStopAndBreak, kBreak, kUser, kColon}));
  EXPECT_EQ(talk.last.reason, FinishReason::stop_text);
  EXPECT_EQ(talk.last.text, "one\n\ntwo\xE3\x80\x82");
  EXPECT_EQ(talk.session.unread_text(), "\xE3\x80\x82");
  talk.say("c");
  talk.answer(then(encode(" three"), {kEnd}));
  EXPECT_EQ(talk.last.reason, FinishReason::end);
  EXPECT_EQ(talk.session.unread_text(), "");
  talk.say("d");
  talk.answer(then(encode(" four"), {kBlankLine, kUser, kColon}));
  EXPECT_EQ(talk.last.text, "four");
  expect_reading(
      talk,
      "User: a\nb\n\nAssistant: one\n\ntwo\xE3\x80\x82\n\nUser: c\n\nAssistant: three\n\n"
      "User: d\n\nAssistant: four");
}

TEST_F(Answers, AnEndBehindATokenThatWouldGoOnUndoesThatToo) {
  Talk talk;
  talk.say("a");
  talk.answer(then(encode(" one\xE3\x80\x82"), {kEnd}));
  EXPECT_EQ(talk.last.text, "one\xE3\x80\x82");
  talk.say("b");
  expect_reading(talk, "User: a\n\nAssistant: one\xE3\x80\x82\n\nUser: b\n\nAssistant:");
}

TEST_F(Answers, TokensThatAReadingCutsOtherwiseAreReadAgain) {
  Talk talk;
  talk.say("a");
  // A character byte by byte, which a reading takes in one token with what follows: undone from its first byte on,
  // which no mark was set before.
  talk.answer(then(encode(" one"), {0xE3 + 1, 0x80 + 1, 0x82 + 1, kBlankLine, kUser, kColon}));
  EXPECT_EQ(talk.last.text, "one\xE3\x80\x82");
  EXPECT_EQ(talk.last.kept, encode(" one"));
  talk.say("b");
  expect_reading(talk, "User: a\n\nAssistant: one\xE3\x80\x82\n\nUser: b\n\nAssistant:");
}

TEST_F(Answers, BlankLinesBeforeAnEndStay) {
  Talk talk;
  talk.say("a");
  talk.answer(encode(" one \n\n"));
  EXPECT_EQ(talk.last.reason, FinishReason::length);
  talk.say("b");
  expect_reading(talk, "User: a\n\nAssistant: one \n\n\n\nUser: b\n\nAssistant:");
}

TEST_F(Answers, ACutCharacterIsNotPartOfTheAnswer) {
  Talk talk;
  talk.say("a");
  talk.answer(then(encode(" one"), {0xE3 + 1, 0x80 + 1}));
  EXPECT_EQ(talk.last.text, "one");
  EXPECT_EQ(talk.last.held_back, "");
  talk.say("b");
  expect_reading(talk, "User: a\n\nAssistant: one\n\nUser: b\n\nAssistant:");
}

TEST_F(Answers, HeldBackTextIsPartOfACutAnswer) {
  Talk talk;
  talk.say("a");
  talk.answer(then(encode(" one"), {kBlankLine, kUser}));
  EXPECT_EQ(talk.last.reason, FinishReason::length);
  EXPECT_EQ(talk.last.text, "one\n\nUser");
  talk.say("b");
  expect_reading(talk, "User: a\n\nAssistant: one\n\nUser\n\nUser: b\n\nAssistant:");
}

TEST_F(Answers, AThoughtIsNotPartOfTheTranscript) {
  Talk talk;
  talk.say("a");
  talk.answer(then(encode(">\nhm, hm\n</think>\n\nYes.\n"), {kEnd}), Thinking::on);
  EXPECT_EQ(talk.last.thought, "hm, hm");
  EXPECT_EQ(talk.last.text, "Yes.\n");
  talk.say("b");
  talk.answer(then(encode(">\nNo\xE3\x80\x82"), {kEnd}), Thinking::off);
  EXPECT_EQ(talk.last.thought, "");
  EXPECT_EQ(talk.last.text, "No\xE3\x80\x82");
  EXPECT_EQ(talk.session.unread_text(), "\xE3\x80\x82");
  talk.say("c");
  talk.answer(then(encode(" <think>x</think> Well"), {kBlankLine, kUser, kColon}));
  EXPECT_EQ(talk.last.thought, "x");
  expect_reading(talk,
                 "User: a\n\nAssistant: Yes.\n\nUser: b\n\nAssistant: No\xE3\x80\x82\n\nUser: c\n\n"
                 "Assistant: Well");
}

TEST_F(Answers, AThoughtAloneLeavesAnEmptyAnswer) {
  Talk talk;
  talk.say("a");
  talk.answer(encode(">\nhm"), Thinking::on);
  EXPECT_EQ(talk.last.thought, "hm");
  EXPECT_EQ(talk.last.text, "");
  expect_reading(talk, "User: a\n\nAssistant:");
}

TEST_F(Answers, AnOpeningThatNothingFollowedIsUndone) {
  for (const Thinking thinking : {Thinking::on, Thinking::off}) {
    Talk talk;
    talk.say("a");
    talk.answer({kEnd}, thinking);
    EXPECT_EQ(talk.last.text, "");
    EXPECT_EQ(talk.last.thought, "");
    expect_reading(talk, "User: a\n\nAssistant:");
  }
}

TEST_F(Answers, UnreadTextOutlivesASnapshot) {
  Talk talk;
  talk.say("a");
  talk.answer(then(encode(" one\xE3\x80\x82"), {kEnd}));
  const auto bytes = talk.session.snapshot()->to_bytes();
  ASSERT_TRUE(bytes.has_value());
  ASSERT_TRUE(talk.session.restore(*Snapshot::from_bytes(*bytes)).has_value());
  EXPECT_EQ(talk.session.unread_text(), "\xE3\x80\x82");
  talk.say("b");
  expect_reading(talk, "User: a\n\nAssistant: one\xE3\x80\x82\n\nUser: b\n\nAssistant:");
}

TEST_F(Answers, WithoutAFormTheEndTokenIsConsumed) {
  Session session = *Session::create(model_);
  ASSERT_TRUE(session.prefill(encode("User: a\n\nAssistant:")).has_value());
  const std::uint64_t before = session.position();
  const GenerationOptions options{
      .max_tokens = 3, .on_logits = [](std::span<float> logits, std::span<const TokenId>) {
        std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
        logits[kEnd] = 0;
        return true;
      }};
  const auto result = generate(session, options);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->tokens, (Ids{kEnd}));
  EXPECT_EQ(session.position(), before + 1);
}

TEST_F(Answers, OnlyFormatsWithThoughtsSwitchThemOn) {
  const test::TemporaryDirectory directory;
  test::write_chat_model(directory.path() / "chatml.gguf");
  const auto model = Model::load(directory.path() / "chatml.gguf", {.device = "cpu"});
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(*(*model)->answer_form(Thinking::off), AnswerForm{});
  const auto refused = (*model)->answer_form(Thinking::on);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "thinking: the model's chat format (chatml) has no thoughts");
}

}  // namespace
}  // namespace runnel
