// SPDX-License-Identifier: Apache-2.0
// Sessions fed together against each fed alone: the same bits; and one's error is no other's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <stop_token>
#include <vector>

#include "runnel/batch.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/model_impl.h"
#include "tests/support/loaded_model.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Model> model_of(std::uint64_t seed) {
  return load_model(make_random_model(small_positional_config(), {}, seed));
}

class SessionBatchTest : public ::testing::Test {
 protected:
  Session session() const {
    auto made = Session::create(model_);
    if (!made) throw std::runtime_error(made.error().message);
    return *std::move(made);
  }
  std::vector<TokenId> tokens(std::size_t count) {
    std::uniform_int_distribution<TokenId> id(0, model_->info().vocab_size - 1);
    std::vector<TokenId> made(count);
    for (TokenId& token : made) token = id(random_);
    return made;
  }
  // All that a session remembers.
  static SnapshotData memory(const Session& of) { return data_of(*of.snapshot()); }

  std::mt19937 random_{11};
  std::shared_ptr<const Model> model_ = model_of(3);
  SessionBatch batch_{model_};
};

TEST_F(SessionBatchTest, EachIsBitForBitWhatItIsAlone) {
  const auto pass = static_cast<std::size_t>(engine_of(*model_).max_tokens());
  // Single tokens as in decoding, prompts, and some that take several passes.
  const std::vector<std::vector<std::size_t>> rounds = {{1, 1, 1, 1, 1, 1, 1, 1},
                                                        {5, 1, 33, 2, 1, 17, 0, 40},
                                                        {pass + 3, 1, 2 * pass, pass, 7, 1, 3, 1}};
  std::vector<Session> together, alone;
  for (int i = 0; i < 8; ++i) {
    together.push_back(session());
    alone.push_back(session());
  }
  for (const std::vector<std::size_t>& sizes : rounds) {
    std::vector<std::vector<TokenId>> texts;
    for (const std::size_t size : sizes) texts.push_back(tokens(size));
    std::vector<SessionFeed> feeds;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      feeds.push_back({.session = &together[i], .tokens = texts[i]});
    const auto results = batch_.run(feeds);
    ASSERT_EQ(results.size(), feeds.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      ASSERT_TRUE(results[i].status) << results[i].status.error().message;
      EXPECT_EQ(results[i].consumed, sizes[i]);
      EXPECT_FALSE(results[i].cancelled);
      ASSERT_TRUE(alone[i].prefill(texts[i]));
      EXPECT_EQ(memory(together[i]), memory(alone[i])) << "session " << i;
    }
  }
}

TEST_F(SessionBatchTest, ABadFeedFailsByItselfAndByName) {
  const auto other = model_of(4);
  auto stranger = Session::create(other);
  ASSERT_TRUE(stranger);
  Session good = session(), bad = session(), last = session(), control = session();
  const std::vector<TokenId> text = {3, 14, 15}, wrong = {3, -7, 15};
  const std::vector<SessionFeed> feeds = {
      {.session = &good, .tokens = text},      {.session = &bad, .tokens = wrong},
      {.session = &*stranger, .tokens = text}, {.session = &good, .tokens = text},
      {.session = nullptr, .tokens = text},    {.session = &last, .tokens = text}};
  const auto results = batch_.run(feeds);
  ASSERT_TRUE(control.prefill(text));
  for (const std::size_t i : {0U, 5U}) {
    EXPECT_TRUE(results[i].status);
    EXPECT_EQ(results[i].consumed, 3U);
  }
  EXPECT_EQ(memory(good), memory(control)) << "fed once";
  EXPECT_EQ(memory(last), memory(control));
  EXPECT_EQ(bad.position(), 0U);
  EXPECT_EQ(stranger->position(), 0U);

  ASSERT_FALSE(results[1].status);
  EXPECT_EQ(results[1].status.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(results[1].status.error().message, HasSubstr("feed 1: token 1: is -7"));
  ASSERT_FALSE(results[2].status);
  EXPECT_EQ(results[2].status.error().code, ErrorCode::mismatch);
  EXPECT_THAT(results[2].status.error().message, HasSubstr("feed 2: its session is of the model"));
  ASSERT_FALSE(results[3].status);
  EXPECT_EQ(results[3].status.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(results[3].status.error().message,
              HasSubstr("feed 3: its session is that of feed 0"));
  ASSERT_FALSE(results[4].status);
  EXPECT_THAT(results[4].status.error().message, HasSubstr("feed 4: has no session"));
}

TEST_F(SessionBatchTest, AStopSaysHowFarEachCame) {
  Session one = session(), two = session();
  const std::vector<TokenId> text = tokens(10);
  std::stop_source stop;
  stop.request_stop();
  const std::vector<SessionFeed> feeds = {{.session = &one, .tokens = text},
                                          {.session = &two, .tokens = {}}};
  const auto results = batch_.run(feeds, stop.get_token());
  EXPECT_TRUE(results[0].status);
  EXPECT_TRUE(results[0].cancelled);
  EXPECT_EQ(results[0].consumed, 0U);
  EXPECT_EQ(one.position(), 0U);
  EXPECT_FALSE(results[1].cancelled) << "it has nothing to read";
}

TEST_F(SessionBatchTest, GenerationsInItAreThoseOfGenerate) {
  std::vector<Session> sessions;
  std::vector<GenerationResult> expected;
  std::vector<SessionGeneration> running;
  for (int i = 0; i < 5; ++i) {
    sessions.push_back(session());
    ASSERT_TRUE(sessions.back().prefill(tokens(4 + static_cast<std::size_t>(i))));
  }
  const auto options = [](std::size_t i) {
    return GenerationOptions{.sampling = {.temperature = 1.1F, .seed = i},
                             .max_tokens = 12 + 3 * i};
  };
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    auto fork = sessions[i].fork();
    ASSERT_TRUE(fork);
    auto alone = generate(*fork, options(i));
    ASSERT_TRUE(alone);
    expected.push_back(*std::move(alone));
    auto made = SessionGeneration::create(sessions[i], options(i));
    ASSERT_TRUE(made);
    running.push_back(*std::move(made));
  }
  for (bool more = true; more;) {
    std::vector<TokenId> chosen(sessions.size());
    std::vector<SessionFeed> feeds;
    std::vector<std::size_t> whose;
    for (std::size_t i = 0; i < running.size(); ++i) {
      const auto token = running[i].choose();
      ASSERT_TRUE(token) << token.error().message;
      if (!*token) continue;
      chosen[i] = **token;
      whose.push_back(i);
      feeds.push_back(
          {.session = &sessions[i], .tokens = std::span(&chosen[i], 1), .generated = true});
    }
    for (const FeedResult& fed : batch_.run(feeds)) ASSERT_TRUE(fed.status);
    for (const std::size_t i : whose) running[i].took(chosen[i]);
    more = !feeds.empty();
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    const auto result = running[i].finish();
    ASSERT_TRUE(result);
    EXPECT_EQ(result->tokens, expected[i].tokens);
    EXPECT_EQ(result->reason, expected[i].reason);
  }
}

}  // namespace
}  // namespace runnel::test
