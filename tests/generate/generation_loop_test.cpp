// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/generation_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

namespace runnel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr TokenId kEnd = 7;

/// The same loop on a source that draws its tokens itself, a pass ahead, and on one that does not.
class GenerationLoop : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { ahead = GetParam(); }

 public:
  static inline bool ahead = false;  // of the scripts of this test
};
INSTANTIATE_TEST_SUITE_P(Sources, GenerationLoop, testing::Bool(), [](const auto& each) {
  return each.param ? "DrawingAhead" : "StepByStep";
});

// Says the tokens of a script, one after the other, whatever it is fed; id 7 ends. Past its end it says id 0.
class Script final : public TokenSource {
 public:
  Script(std::vector<TokenId> script, std::map<TokenId, std::string> pieces)
      : script_(std::move(script)), pieces_(std::move(pieces)) {
    predict();
  }

  std::span<const float> logits() const override { return logits_; }
  std::span<const TokenId> generated_tokens() const override { return consumed_; }
  std::uint64_t position() const override { return 1 + consumed_.size(); }
  Status step(std::span<const TokenId> tokens) override {
    for (const TokenId token : tokens) {
      if (Status one = step(token); !one) return one;
    }
    return {};
  }
  Status step(TokenId token) {
    if (fails_at_ == consumed_.size())
      return Error{ErrorCode::device, "the device fell off the bus"};
    consumed_.push_back(token);
    predict();
    return {};
  }
  Result<bool> draw_ahead(TokenId first, const SamplingOptions&, bool) override {
    next_ = first;
    queued_any_ = false;
    known_.clear();
    return GenerationLoop::ahead;
  }
  Status queue() override {
    const TokenId token = next_;
    if (Status stepped = step(token); !stepped) return stepped;
    if (std::exchange(queued_any_, true)) known_.push_back(token);
    next_ = static_cast<TokenId>(std::ranges::max_element(logits_) - logits_.begin());
    return {};
  }
  Result<TokenId> drawn() override {
    // Must have been queued before: the device would have waited for the host.
    if (known_.empty()) return Error{ErrorCode::device, "reads a token that was not queued"};
    const TokenId token = known_.front();
    known_.pop_front();
    return token;
  }
  std::string_view piece(TokenId token) const override {
    const auto found = pieces_.find(token);
    return found == pieces_.end() ? std::string_view() : found->second;
  }
  bool is_end(TokenId token) const override { return token == kEnd; }

  void clear() { logits_.clear(); }
  void fail_at(std::size_t step) { fails_at_ = step; }
  const std::vector<TokenId>& consumed() const { return consumed_; }

 private:
  void predict() {
    logits_.assign(8, 0.0F);
    const TokenId next = consumed_.size() < script_.size() ? script_[consumed_.size()] : 0;
    logits_[static_cast<std::size_t>(next)] = 1.0F;
  }

  std::vector<TokenId> script_;
  std::map<TokenId, std::string> pieces_;
  std::vector<TokenId> consumed_;
  std::vector<float> logits_;
  std::size_t fails_at_ = SIZE_MAX;
  TokenId next_ = 0;           // drawn last
  std::deque<TokenId> known_;  // queued, not read
  bool queued_any_ = false;
};

const std::map<TokenId, std::string> kPieces = {{1, "Hello"}, {2, ","},    {3, " wor"},
                                                {4, "ld"},    {5, "\xC3"}, {6, "\xA9"}};

struct Told {
  Result<GenerationResult> result;
  std::vector<std::string> shown;
};

Told run(Script& script, const GenerationOptions& options, GenerationCarry& carry,
         std::size_t refuse_after = SIZE_MAX, const std::stop_token& stop = {}) {
  std::vector<std::string> shown;
  auto result = run_generation(
      script, options, carry,
      [&](std::string_view text) {
        shown.emplace_back(text);
        return shown.size() < refuse_after;
      },
      stop);
  EXPECT_TRUE(result) << result.error().message;
  return {std::move(result), std::move(shown)};
}

TEST_P(GenerationLoop, StreamsTextUntilTheEndTokenAndConsumesIt) {
  Script script({1, 2, 3, 4, kEnd, 1}, kPieces);
  GenerationCarry carry;
  const Told r = run(script, {}, carry);
  EXPECT_EQ(r.result->reason, FinishReason::end);
  EXPECT_THAT(r.result->tokens, ElementsAre(1, 2, 3, 4, kEnd));
  EXPECT_EQ(script.consumed(), r.result->tokens);
  EXPECT_THAT(r.shown, ElementsAre("Hello", ",", " wor", "ld"));
  EXPECT_EQ(r.result->text, "Hello, world");
}

TEST_P(GenerationLoop, GoesOnPastTheEndTokenWhenAsked) {
  Script script({1, kEnd, 2}, kPieces);
  GenerationOptions options;
  options.ignore_end = true;
  options.max_tokens = 3;
  GenerationCarry carry;
  const Told r = run(script, options, carry);
  EXPECT_EQ(r.result->reason, FinishReason::length);
  EXPECT_EQ(r.result->text, "Hello,");
}

TEST_P(GenerationLoop, GeneratesNoMoreThanMaxTokens) {
  for (const std::uint64_t most : {0, 1, 3}) {
    Script script({1, 2, 3, 4}, kPieces);
    GenerationOptions options;
    options.max_tokens = most;
    GenerationCarry carry;
    const Told r = run(script, options, carry);
    EXPECT_EQ(r.result->reason, FinishReason::length);
    EXPECT_EQ(r.result->tokens.size(), most);
    EXPECT_EQ(script.consumed().size(), most);
  }
}

TEST_P(GenerationLoop, ShowsWholeCharactersOnly) {
  Script script({5, 6, kEnd}, kPieces);
  GenerationCarry carry;
  EXPECT_THAT(run(script, {}, carry).shown, ElementsAre("\xC3\xA9"));
}

TEST_P(GenerationLoop, ACharacterThatNeverEndsBecomesTheReplacementCharacter) {
  Script script({1, 5, kEnd}, kPieces);
  GenerationCarry carry;
  EXPECT_EQ(run(script, {}, carry).result->text, "Hello\xEF\xBF\xBD");
}

TEST_P(GenerationLoop, StopsBeforeAStopStringThatSpansTokens) {
  Script script({1, 2, 3, 4, 1}, kPieces);
  GenerationOptions options;
  options.stop = {"o, world", " world"};
  GenerationCarry carry;
  const Told r = run(script, options, carry);
  EXPECT_EQ(r.result->reason, FinishReason::stop_text);
  EXPECT_EQ(r.result->text, "Hell");
  EXPECT_EQ(r.result->held_back, "");
  EXPECT_EQ(script.consumed().size(), 4U);
}

TEST_P(GenerationLoop, TheEndTokenReleasesWhatWasHeldBack) {
  Script script({1, 2, 3, kEnd}, kPieces);
  GenerationOptions options;
  options.stop = {" world"};
  GenerationCarry carry;
  const Told r = run(script, options, carry);
  EXPECT_EQ(r.result->reason, FinishReason::end);
  EXPECT_EQ(r.result->text, "Hello, wor");
  EXPECT_TRUE(carry.stop.empty());
}

TEST_P(GenerationLoop, GoingOnGivesTheTextOfNeverHavingStopped) {
  const std::vector<TokenId> tokens = {1, 5, 6, 2, 3, 3, 5, 6, 4, 3, 4, 1};
  GenerationOptions options;
  options.stop = {" world", "rr"};
  Script whole(tokens, kPieces);
  GenerationCarry none;
  const Told expected = run(whole, options, none);
  ASSERT_EQ(expected.result->reason, FinishReason::stop_text);
  for (std::uint64_t piece = 1; piece < tokens.size(); ++piece) {
    Script script(tokens, kPieces);
    GenerationCarry carry;
    options.max_tokens = piece;
    std::string text;
    FinishReason reason = FinishReason::length;
    while (reason == FinishReason::length && script.consumed().size() < tokens.size()) {
      const Told r = run(script, options, carry);
      EXPECT_EQ(r.result->held_back, carry.stop);
      text += r.result->text;
      reason = r.result->reason;
    }
    EXPECT_EQ(reason, FinishReason::stop_text) << piece;
    EXPECT_EQ(text, expected.result->text) << piece;
    EXPECT_EQ(script.consumed(), whole.consumed()) << piece;
  }
}

TEST_P(GenerationLoop, ARefusingCallbackEndsAfterTheShownToken) {
  Script script({1, 2, 3, 4}, kPieces);
  GenerationCarry carry;
  const Told r = run(script, {}, carry, 2);
  EXPECT_EQ(r.result->reason, FinishReason::callback);
  EXPECT_EQ(r.result->text, "Hello,");
  EXPECT_EQ(script.consumed().size(), 2U);
}

TEST_P(GenerationLoop, AStopRequestEndsAfterTheLastWholeToken) {
  Script script({1, 2, 3, 4}, kPieces);
  std::stop_source source;
  GenerationCarry carry;
  const auto result = run_generation(
      script, {}, carry,
      [&](std::string_view text) {
        if (text == ",") source.request_stop();
        return true;
      },
      source.get_token());
  ASSERT_TRUE(result);
  EXPECT_EQ(result->reason, FinishReason::cancelled);
  EXPECT_EQ(result->text, "Hello,");
  EXPECT_EQ(script.consumed().size(), 2U);
}

TEST_P(GenerationLoop, AnEmptySessionIsAnError) {
  Script script({1}, kPieces);
  script.clear();
  GenerationCarry carry;
  const auto result = run_generation(script, {}, carry, {}, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(result.error().message, HasSubstr("empty"));
}

TEST_P(GenerationLoop, EmptyAndInvalidStopStringsAreErrors) {
  for (const char* stop : {"", "\xC3"}) {
    Script script({1}, kPieces);
    GenerationOptions options;
    options.stop = {"fine", stop};
    GenerationCarry carry;
    const auto result = run_generation(script, options, carry, {}, {});
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr("stop string 1"));
    EXPECT_TRUE(script.consumed().empty());
  }
}

TEST_P(GenerationLoop, ADeviceFailureIsReturned) {
  Script script({1, 2, 3}, kPieces);
  script.fail_at(2);
  GenerationCarry carry;
  const auto result = run_generation(script, {}, carry, {}, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::device);
}

TEST_P(GenerationLoop, EachTokenComesWithItsLogprobIfAsked) {
  Script script({1, 2, kEnd}, kPieces);
  GenerationOptions options;
  options.logprobs = 2;
  std::vector<TokenLogprobs> told;
  options.on_logprobs = [&](const TokenLogprobs& at) { told.push_back(at); };
  GenerationCarry carry;
  const Told r = run(script, options, carry);
  ASSERT_EQ(r.result->logprobs.size(), 3U);
  EXPECT_EQ(told, r.result->logprobs);
  const auto likely = static_cast<float>(1 - std::log(std::exp(1.0) + 7));
  for (std::size_t i = 0; i < 3; ++i) {
    const TokenLogprobs& at = told[i];
    EXPECT_EQ(at.chosen.token, r.result->tokens[i]);
    EXPECT_FLOAT_EQ(at.chosen.logprob, likely);
    ASSERT_EQ(at.top.size(), 2U);
    EXPECT_EQ(at.top[0], at.chosen);
    EXPECT_EQ(at.top[1].token, 0);
  }
}

TEST_P(GenerationLoop, LogprobsOfTheDrawKnowWhatTheChainLeft) {
  Script script({1, 2}, kPieces);
  GenerationOptions options;
  options.max_tokens = 2;
  options.logprobs = 5;
  options.logprobs_of_draw = true;
  GenerationCarry carry;
  const Told r = run(script, options, carry);
  ASSERT_EQ(r.result->logprobs.size(), 2U);
  EXPECT_EQ(r.result->logprobs[0].top, (std::vector<TokenLogprob>{{1, 0.0F}}))
      << "greedy is certain";
}

TEST_P(GenerationLoop, TooManyLogprobsAreRefused) {
  Script script({1}, kPieces);
  GenerationCarry carry;
  for (const std::int32_t wrong : {-2, 21}) {
    GenerationOptions options;
    options.logprobs = wrong;
    const auto result = run_generation(script, options, carry, {}, {});
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr("logprobs is " + std::to_string(wrong)));
  }
}

}  // namespace
}  // namespace runnel
