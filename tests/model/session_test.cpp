// SPDX-License-Identifier: Apache-2.0
// Sessions and snapshots: feeding, stopping, forking, restoring.
#include "runnel/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <thread>

#include "runnel/generation.h"
#include "runtime/model/session_impl.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

class SessionTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = load_model(make_random_model(
        small_positional_config(), {.tied = true, .gate_bias = true, .read_biases = true}, 3));
  }
  static void TearDownTestSuite() { model_.reset(); }

  static Session session() {
    auto made = Session::create(model_);
    if (!made) throw std::runtime_error(made.error().message);
    return *std::move(made);
  }

  static void feed(Session& session, std::span<const TokenId> tokens) {
    const auto result = session.prefill(tokens);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    ASSERT_EQ(result->consumed, tokens.size());
  }

  std::vector<TokenId> tokens(std::size_t n) {
    return random_.tokens(n, model_->info().vocab_size);
  }

  static std::shared_ptr<const Model> model_;
  Random random_{5};
};

std::shared_ptr<const Model> SessionTest::model_;

TEST_F(SessionTest, StartsEmpty) {
  const Session s = session();
  EXPECT_EQ(s.position(), 0U);
  EXPECT_TRUE(s.logits()->empty());
  EXPECT_TRUE(s.recent_tokens().empty());
}

TEST_F(SessionTest, EmptyPrefillDoesNothing) {
  Session s = session();
  feed(s, {});
  EXPECT_EQ(s.position(), 0U);
  EXPECT_TRUE(s.logits()->empty());
}

TEST_F(SessionTest, PrefillLeavesTheLogitsOfTheLastToken) {
  Session s = session();
  const std::vector<TokenId> ids = tokens(30);
  feed(s, ids);
  Session scored = session();
  const auto all = scored.score(ids);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(copy(*s.logits()), copy(std::span(*all).last(s.logits()->size())));
  EXPECT_EQ(s.position(), 30U);
}

TEST_F(SessionTest, BadTokenIsRefusedAndNothingIsConsumed) {
  Session s = session();
  feed(s, tokens(3));
  const std::vector<float> before = copy(*s.logits());
  const std::vector<TokenId> bad = {1, model_->info().vocab_size};
  const auto result = s.prefill(bad);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(result.error().message, "token 1: is 96, expected an id in [0, 96)");
  EXPECT_EQ(s.position(), 3U);
  EXPECT_EQ(copy(*s.logits()), before);
}

TEST_F(SessionTest, StopBetweenChunksLeavesTheCompletedOnes) {
  const std::vector<TokenId> ids = tokens(1300);
  Session s = session();
  std::stop_source stop;
  const auto result =
      s.prefill(ids, stop.get_token(), [&](std::uint64_t done, std::uint64_t total) {
        EXPECT_EQ(total, 1300U);
        if (done >= 1000) stop.request_stop();
      });
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->cancelled);
  EXPECT_EQ(result->consumed, 1024U);
  EXPECT_EQ(s.position(), 1024U);
  // What is left is a whole session: it goes on as one that was never given more.
  Session control = session();
  feed(control, std::span(ids).first(1024));
  EXPECT_EQ(copy(*s.logits()), copy(*control.logits()));
  feed(s, std::span(ids).subspan(1024));
  feed(control, std::span(ids).subspan(1024));
  EXPECT_EQ(copy(*s.logits()), copy(*control.logits()));
}

TEST_F(SessionTest, StopBeforeTheFirstChunkConsumesNothing) {
  Session s = session();
  std::stop_source stop;
  stop.request_stop();
  const auto result = s.prefill(tokens(10), stop.get_token());
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->cancelled);
  EXPECT_EQ(result->consumed, 0U);
  EXPECT_EQ(s.position(), 0U);
}

TEST_F(SessionTest, RestoredSessionContinuesBitForBit) {
  for (std::size_t cut : {1UL, 7UL, 40UL, 513UL}) {
    Session control = session();
    feed(control, tokens(cut));
    const auto snapshot = control.snapshot();
    ASSERT_TRUE(snapshot.has_value());
    Session restored = session();
    feed(restored, tokens(9));  // whatever it held is forgotten
    ASSERT_TRUE(restored.restore(*snapshot).has_value());
    EXPECT_EQ(restored.position(), control.position());
    EXPECT_EQ(copy(*restored.logits()), copy(*control.logits()));
    for (std::size_t piece : {1UL, 1UL, 5UL, 70UL}) {
      const std::vector<TokenId> more = tokens(piece);
      feed(restored, more);
      feed(control, more);
      ASSERT_EQ(copy(*restored.logits()), copy(*control.logits()))
          << "cut " << cut << " piece " << piece;
    }
    EXPECT_EQ(impl_of(restored).history_hash(), impl_of(control).history_hash());
  }
}

TEST_F(SessionTest, SnapshotThroughAFileIsTheSame) {
  const TemporaryDirectory folder;
  Session s = session();
  feed(s, tokens(25));
  impl_of(s).keep_generation({.seed = 9, .temperature = 0.5F}, {.utf8 = "\xE2\x82", .stop = "<|"});
  const auto taken = s.snapshot();
  ASSERT_TRUE(taken.has_value());
  ASSERT_TRUE(taken->save(folder / "s.snap").has_value());
  const auto read = Snapshot::load(folder / "s.snap");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(data_of(*read), data_of(*taken));
  Session other = session();
  ASSERT_TRUE(other.restore(*read).has_value());
  EXPECT_EQ(copy(*other.logits()), copy(*s.logits()));
  EXPECT_EQ(impl_of(other).carry(), (GenerationCarry{.utf8 = "\xE2\x82", .stop = "<|"}));
  EXPECT_EQ(impl_of(other).sampler(), impl_of(s).sampler());
}

TEST_F(SessionTest, SnapshotOfAnEmptySessionRestoresToEmpty) {
  const auto empty = session().snapshot();
  ASSERT_TRUE(empty.has_value());
  Session s = session();
  feed(s, tokens(5));
  ASSERT_TRUE(s.restore(*empty).has_value());
  EXPECT_EQ(s.position(), 0U);
  EXPECT_TRUE(s.logits()->empty());
}

TEST_F(SessionTest, SnapshotOfAnotherModelIsRefusedAndTheSessionUntouched) {
  const auto other_model = load_model(make_random_model(
      small_positional_config(), {.tied = true, .gate_bias = true, .read_biases = true}, 4));
  auto other = Session::create(other_model);
  ASSERT_TRUE(other.has_value());
  ASSERT_TRUE(other->prefill(tokens(4)).has_value());
  const auto foreign = other->snapshot();
  ASSERT_TRUE(foreign.has_value());
  Session s = session();
  feed(s, tokens(6));
  const std::vector<float> before = copy(*s.logits());
  const Status status = s.restore(*foreign);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::mismatch);
  EXPECT_NE(status.error().message.find("fingerprint"), std::string::npos);
  EXPECT_EQ(s.position(), 6U);
  EXPECT_EQ(copy(*s.logits()), before);
}

TEST_F(SessionTest, TamperedSnapshotValuesAreRefused) {
  Session s = session();
  feed(s, tokens(6));
  const auto good = s.snapshot();
  ASSERT_TRUE(good.has_value());
  const auto refused = [&](auto change) {
    auto data = std::make_shared<SnapshotData>(data_of(*good));
    change(*data);
    return !s.restore(make_snapshot(data)).has_value() && s.position() == 6;
  };
  EXPECT_TRUE(refused([](SnapshotData& d) { d.state.pop_back(); }));
  EXPECT_TRUE(refused([](SnapshotData& d) { d.logits.clear(); }));
  EXPECT_TRUE(refused([](SnapshotData& d) { d.recent_tokens = {-1}; }));
  EXPECT_TRUE(refused([](SnapshotData& d) { d.recent_tokens = {96}; }));
}

TEST_F(SessionTest, ForkLeavesItsParentAlone) {
  Session parent = session();
  feed(parent, tokens(12));
  const std::vector<float> before = copy(*parent.logits());
  auto fork = parent.fork();
  ASSERT_TRUE(fork.has_value());
  EXPECT_EQ(copy(*fork->logits()), before);
  feed(*fork, tokens(20));
  EXPECT_EQ(parent.position(), 12U);
  EXPECT_EQ(copy(*parent.logits()), before);
  const std::vector<TokenId> same = tokens(3);
  Session twin = *parent.fork();
  feed(twin, same);
  feed(parent, same);
  EXPECT_EQ(copy(*twin.logits()), copy(*parent.logits()));
}

TEST_F(SessionTest, RecentTokensAreTheLastOnes) {
  Session s = session();
  std::vector<TokenId> all;
  for (std::size_t n : {700UL, 700UL, 1UL, 900UL, 3UL}) {
    const std::vector<TokenId> ids = tokens(n);
    all.insert(all.end(), ids.begin(), ids.end());
    feed(s, ids);
  }
  const std::vector<TokenId> recent(s.recent_tokens().begin(), s.recent_tokens().end());
  EXPECT_EQ(recent, std::vector<TokenId>(all.end() - Session::kHistoryWindow, all.end()));
}

/// What generation says with a penalty that forbids whatever it counts.
using Ids = std::vector<TokenId>;

Ids said(Session& s, std::uint64_t tokens) {
  const auto done = generate(s, {.sampling = {.presence_penalty = 1e6F, .penalty_window = 1024},
                                 .max_tokens = tokens,
                                 .ignore_end = true});
  EXPECT_TRUE(done) << done.error().message;
  return done ? done->tokens : Ids();
}

TEST_F(SessionTest, PenaltiesCountNoPrompt) {
  Session s = session();
  Ids everything(static_cast<std::size_t>(model_->info().vocab_size));
  std::iota(everything.begin(), everything.end(), 0);
  feed(s, everything);
  const auto likeliest = [&s] {
    return static_cast<TokenId>(std::ranges::max_element(*s.logits()) - s.logits()->begin());
  };
  const TokenId best = likeliest();
  EXPECT_EQ(said(s, 1), Ids{best}) << "the prompt holds it, too";
  // From here on every token is another one, over calls, forks and snapshots.
  Session fork = *s.fork();
  Session restored = session();
  ASSERT_TRUE(restored.restore(*s.snapshot()));
  const Ids more = said(s, 20);
  std::set<TokenId> distinct(more.begin(), more.end());
  distinct.insert(best);
  EXPECT_EQ(distinct.size(), 21U);
  EXPECT_EQ(said(fork, 20), more);
  EXPECT_EQ(said(restored, 20), more);
  // The next prompt begins anew.
  feed(s, everything);
  const TokenId next = likeliest();
  EXPECT_EQ(said(s, 1), Ids{next});
}

TEST_F(SessionTest, ResetForgets) {
  Session s = session();
  const std::vector<TokenId> ids = tokens(8);
  feed(s, ids);
  const std::vector<float> first = copy(*s.logits());
  feed(s, tokens(8));
  ASSERT_TRUE(s.reset().has_value());
  EXPECT_EQ(s.position(), 0U);
  feed(s, ids);
  EXPECT_EQ(copy(*s.logits()), first);
}

TEST_F(SessionTest, SessionsOfOneModelRunAtOnce) {
  const std::vector<TokenId> ids = tokens(200);
  Session control = session();
  feed(control, ids);
  std::vector<std::vector<float>> results(4);
  {
    std::vector<std::jthread> threads;
    for (std::vector<float>& result : results) {
      threads.emplace_back([&result, &ids] {
        Session s = session();
        if (s.prefill(ids)) result = copy(*s.logits());
      });
    }
  }
  for (const std::vector<float>& result : results) EXPECT_EQ(result, copy(*control.logits()));
}

TEST_F(SessionTest, SnapshotBytesDoNotGrowWithTheConversation) {
  Session s = session();
  feed(s, tokens(Session::kHistoryWindow));
  const std::uint64_t bytes = s.snapshot()->bytes();
  feed(s, tokens(4000));
  EXPECT_EQ(s.snapshot()->bytes(), bytes);
}

}  // namespace
}  // namespace runnel::test
