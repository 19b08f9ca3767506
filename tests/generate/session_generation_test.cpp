// SPDX-License-Identifier: Apache-2.0
// A generation in steps against generate(), left at any time, and with callbacks that throw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>

#include "runnel/batch.h"
#include "runtime/io/snapshot_data.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;

class SessionGenerationTest : public ::testing::Test {
 protected:
  SessionGenerationTest() {
    const TemporaryDirectory folder;
    write_chat_model(folder / "m.gguf");
    auto model = Model::load(folder / "m.gguf", {.device = "cpu", .threads = 1});
    if (!model) throw std::runtime_error(model.error().message);
    auto made = Session::create(*model);
    if (!made) throw std::runtime_error(made.error().message);
    session_.emplace(*std::move(made));
    const auto tokens = (*model)->encode("Once upon a time");
    if (!tokens || !session_->prefill(*tokens)) throw std::runtime_error("prompt");
  }
  static SnapshotData memory(const Session& of) { return data_of(*of.snapshot()); }
  Session fork() const { return *session_->fork(); }

  GenerationOptions options_{.sampling = {.temperature = 1.3F, .seed = 77}, .max_tokens = 30};
  std::optional<Session> session_;
};

TEST_F(SessionGenerationTest, InStepsIsGenerate) {
  for (const std::vector<std::string>& stops : {std::vector<std::string>{}, {"e"}}) {
    options_.stop = stops;
    Session other = fork(), own = fork();
    const auto expected = generate(other, options_);
    ASSERT_TRUE(expected);
    std::string told, given;
    auto made = SessionGeneration::create(own, options_, [&](std::string_view text) {
      told += text;
      return true;
    });
    ASSERT_TRUE(made) << made.error().message;
    std::vector<TokenId> tokens;
    while (true) {
      const auto token = made->step();
      ASSERT_TRUE(token) << token.error().message;
      if (!*token) break;
      tokens.push_back(**token);
      given += made->text();
    }
    EXPECT_TRUE(made->over());
    const auto result = made->finish();
    ASSERT_TRUE(result);
    EXPECT_EQ(tokens, expected->tokens);
    EXPECT_EQ(result->tokens, expected->tokens);
    EXPECT_EQ(result->reason, expected->reason);
    EXPECT_EQ(result->text, expected->text);
    EXPECT_EQ(result->held_back, expected->held_back);
    EXPECT_EQ(told, expected->text);
    EXPECT_EQ(given, expected->text);
    EXPECT_EQ(memory(own), memory(other));
  }
}

TEST_F(SessionGenerationTest, LeavesTheSessionAfterTheLastTokenItTook) {
  Session own = fork(), control = fork();
  {
    auto made = SessionGeneration::create(own, options_);
    ASSERT_TRUE(made);
    for (int i = 0; i < 7; ++i) ASSERT_TRUE(made->step());
    const auto result = made->finish();
    ASSERT_TRUE(result);
    EXPECT_EQ(result->reason, FinishReason::callback);
    EXPECT_EQ(result->tokens.size(), 7U);
  }
  GenerationOptions seven = options_;
  seven.max_tokens = 7;
  ASSERT_TRUE(generate(control, seven));
  EXPECT_EQ(memory(own), memory(control)) << "as if it had been asked for seven tokens";
  EXPECT_EQ(generate(own, options_)->tokens, generate(control, options_)->tokens);

  Session dropped = fork();
  {
    auto made = SessionGeneration::create(dropped, options_);
    ASSERT_TRUE(made && made->step());
  }
  EXPECT_EQ(dropped.position(), session_->position() + 1);
  EXPECT_TRUE(generate(dropped, options_));
}

TEST_F(SessionGenerationTest, AStopEndsItWithoutAnError) {
  std::stop_source stop;
  auto made = SessionGeneration::create(*session_, options_);
  ASSERT_TRUE(made && made->step(stop.get_token()));
  stop.request_stop();
  const auto token = made->step(stop.get_token());
  ASSERT_TRUE(token);
  EXPECT_FALSE(token->has_value());
  EXPECT_EQ(made->finish()->reason, FinishReason::cancelled);
}

TEST_F(SessionGenerationTest, SaysWhatIsWrongInsteadOfGoingOn) {
  Session empty = *Session::create(session_->shared_model());
  const auto refused = SessionGeneration::create(empty, options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  auto made = SessionGeneration::create(*session_, options_);
  ASSERT_TRUE(made && made->step());
  ASSERT_TRUE(session_->reset());
  const auto token = made->step();
  ASSERT_FALSE(token);
  EXPECT_THAT(token.error().message, HasSubstr("the session was emptied"));
}

TEST_F(SessionGenerationTest, SettlesAnAnswerAsGenerateDoes) {
  options_.answer = *session_->model().answer_form();
  options_.answer.follows = "<|im_end|>\n";
  Session other = fork(), own = fork();
  const auto expected = generate(other, options_);
  ASSERT_TRUE(expected) << expected.error().message;
  auto made = SessionGeneration::create(own, options_);
  ASSERT_TRUE(made);
  while (!made->over()) ASSERT_TRUE(made->step());
  const auto result = made->finish();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->text, expected->text);
  EXPECT_EQ(result->kept, expected->kept);
  EXPECT_EQ(memory(own), memory(other));
}

struct Thrown {};

TEST_F(SessionGenerationTest, ACallbacksExceptionPassesThroughAndTheSessionGoesOn) {
  const auto throws_text = [](std::string_view) -> bool { throw Thrown(); };
  GenerationOptions on_logits = options_, on_logprobs = options_;
  on_logits.on_logits = [](std::span<float>, std::span<const TokenId> generated) -> bool {
    if (generated.size() == 2) throw Thrown();
    return true;
  };
  on_logprobs.logprobs = 1;
  on_logprobs.on_logprobs = [](const TokenLogprobs&) { throw Thrown(); };
  const std::vector<TokenId> more = {1, 2, 3};

  Session text = fork(), logits = fork(), logprobs = fork(), steps = fork(), read = fork();
  EXPECT_THROW(static_cast<void>(generate(text, options_, throws_text)), Thrown);
  EXPECT_THROW(static_cast<void>(generate(logits, on_logits)), Thrown);
  EXPECT_EQ(logits.position(), session_->position() + 2) << "the two tokens before it stay";
  EXPECT_THROW(static_cast<void>(generate(logprobs, on_logprobs)), Thrown);
  {
    auto made = SessionGeneration::create(steps, options_, throws_text);
    ASSERT_TRUE(made);
    EXPECT_THROW(static_cast<void>([&] {
                   while (!made->over()) static_cast<void>(made->step());
                 }()),
                 Thrown);
  }
  EXPECT_THROW(static_cast<void>(
                   read.prefill(more, {}, [](std::uint64_t, std::uint64_t) { throw Thrown(); })),
               Thrown);
  EXPECT_EQ(read.position(), session_->position() + 3) << "the chunk before it stays";
  EXPECT_THROW(
      static_cast<void>(generate_several(
          *session_, 3, options_, [](std::size_t, std::string_view) -> bool { throw Thrown(); })),
      Thrown);
  for (Session* each : {&text, &logits, &logprobs, &steps, &read, &*session_}) {
    EXPECT_TRUE(each->snapshot());
    const auto result = generate(*each, options_);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_FALSE(result->tokens.empty());
  }
}

}  // namespace
}  // namespace runnel::test
