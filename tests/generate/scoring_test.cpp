// SPDX-License-Identifier: Apache-2.0
// Choices scored together against each read by itself.
#include "runnel/scoring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/sampling/logprobs.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random.h"

namespace runnel::test {
namespace {

class Scoring : public testing::Test {
 protected:
  Scoring() {
    auto made = Session::create(model_);
    if (!made) throw std::runtime_error(made.error().message);
    session_.emplace(*std::move(made));
  }

  void read(std::size_t n) {
    ASSERT_TRUE(session_->prefill(random_.tokens(n, model_->info().vocab_size)));
  }

  // One token at a time, on a fork.
  std::vector<float> alone(const std::vector<TokenId>& choice) {
    auto fork = session_->fork();
    if (!fork) throw std::runtime_error(fork.error().message);
    std::vector<float> logprobs;
    for (const TokenId token : choice) {
      logprobs.push_back(token_logprobs(*fork->logits(), token, 0).chosen.logprob);
      if (!fork->prefill(std::span(&token, 1))) throw std::runtime_error("prefill");
    }
    return logprobs;
  }

  std::shared_ptr<const Model> model_ =
      load_model(make_random_model(small_positional_config(), {.tied = true}, 31));
  std::optional<Session> session_;
  Random random_{32};
};

TEST_F(Scoring, ChoicesReadTogetherAreAsEachAlone) {
  // For a log-probability: a pass of several tokens sums in another order.
  constexpr float kPassTolerance = 1e-3F;
  read(20);
  std::vector<std::vector<TokenId>> choices;
  for (std::size_t n = 0; n < 40; ++n)
    choices.push_back(random_.tokens(n == 7 ? 200 : n % 9, model_->info().vocab_size));
  const std::uint64_t before = session_->position();
  const auto scores = score_choices(*session_, choices);
  ASSERT_TRUE(scores) << scores.error().message;
  ASSERT_EQ(scores->size(), choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::vector<float> expected = alone(choices[i]);
    EXPECT_THAT((*scores)[i].logprobs,
                testing::Pointwise(testing::FloatNear(kPassTolerance), expected))
        << i;
  }
  EXPECT_EQ(session_->position(), before);
}

TEST_F(Scoring, TotalAndMeanAreOfTheTokens) {
  const ChoiceScore score{{-1.0F, -2.0F, -6.0F}};
  EXPECT_DOUBLE_EQ(score.total(), -9.0);
  EXPECT_DOUBLE_EQ(score.mean(), -3.0);
  EXPECT_EQ(ChoiceScore{}.total(), 0.0);
  EXPECT_EQ(ChoiceScore{}.mean(), 0.0);
}

TEST_F(Scoring, RefusesAnEmptySessionAndBadTokens) {
  const std::vector<std::vector<TokenId>> choices = {{1, 2}, {3, 96}};
  const auto empty = score_choices(*session_, choices);
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, testing::HasSubstr("session is empty"));
  read(3);
  const auto bad = score_choices(*session_, choices);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, testing::HasSubstr("96"));
  EXPECT_TRUE(score_choices(*session_, {})->empty());
}

TEST_F(Scoring, AStopEndsIt) {
  read(3);
  std::stop_source stop;
  stop.request_stop();
  const std::vector<std::vector<TokenId>> choices = {{1, 2}};
  const auto stopped = score_choices(*session_, choices, stop.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
}

}  // namespace
}  // namespace runnel::test
