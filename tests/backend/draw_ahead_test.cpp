// SPDX-License-Identifier: Apache-2.0
// The order of passes, tokens and logits of steps that draw on a device, on a device of a few lines.
#include "runtime/backend/draw_ahead.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "runtime/base/try.h"

namespace runnel::test {
namespace {

constexpr std::int32_t kVocab = 3;
constexpr std::uint32_t kPlaces = 4;

/// What a pass of the device below draws and leaves as logits.
TokenId after(TokenId token) { return token * 10 + 1; }
std::vector<float> logits_after(TokenId token) {
  return std::vector<float>(kVocab, static_cast<float>(token));
}

/// A plan's buffers: the last token that was drawn and the logits of the last pass.
struct Device {
  ActiveSteps active;
  TokenId next = 0;
  std::vector<float> logits;
  bool lost = false;
};

class FakeSteps final : public DrawAhead {
 public:
  FakeSteps(Device& device, TokenId first, std::chrono::milliseconds mask_timeout = {})
      : DrawAhead(device.active, kVocab, first, kPlaces, mask_timeout), device_(device) {}
  ~FakeSteps() override { static_cast<void>(leave()); }

  std::vector<std::optional<TokenId>> launched;  // what launch() was given
  std::map<std::uint32_t, bool> draws_none;      // passes
  std::map<std::uint32_t, std::size_t> allowed;  // tokens that a pass's mask allows
  bool ends = true;

 private:
  Status launch(std::uint32_t pass, std::optional<TokenId> token) override {
    launched.push_back(token);
    const TokenId in = token.value_or(device_.next);
    drawn_[pass] = draws_none[pass] ? std::nullopt : std::optional(after(in));
    device_.next = drawn_[pass].value_or(0);
    device_.logits = logits_after(in);
    return {};
  }
  Status put_mask(std::uint32_t pass, const TokenMask& mask) override {
    if (device_.lost) return fail(ErrorCode::device, "lost");
    allowed[pass] = mask.count();
    return {};
  }
  Status wait_for(std::uint32_t) override { return {}; }
  std::optional<TokenId> token_of(std::uint32_t pass) const override { return drawn_.at(pass); }
  Status read_logits(std::span<float> out) override {
    if (device_.lost) return fail(ErrorCode::device, "lost");
    std::copy(device_.logits.begin(), device_.logits.end(), out.begin());
    return {};
  }
  Status check_end(std::uint32_t) override {
    return ends ? Status() : fail(ErrorCode::device, "did not finish");
  }

  Device& device_;
  std::map<std::uint32_t, std::optional<TokenId>> drawn_;
};

using Launched = std::vector<std::optional<TokenId>>;

std::vector<float> logits_of(SampledSteps& steps) {
  std::vector<float> logits(kVocab);
  const Status read = steps.logits(logits);
  EXPECT_TRUE(read) << read.error().message;
  return logits;
}

TEST(DrawAhead, OnlyTheFirstPassIsGivenItsToken) {
  Device device;
  FakeSteps steps(device, 1);
  ASSERT_TRUE(steps.queue() && steps.queue());
  EXPECT_EQ(*steps.drawn(), 11);
  EXPECT_EQ(*steps.drawn(), 111);
  EXPECT_EQ(steps.launched, (Launched{1, std::nullopt}));
  EXPECT_EQ(logits_of(steps), logits_after(11));
}

TEST(DrawAhead, FewerPassesThanPlacesAreQueued) {
  Device device;
  FakeSteps steps(device, 1);
  for (std::uint32_t i = 0; i + 1 < kPlaces; ++i) ASSERT_TRUE(steps.queue());
  EXPECT_EQ(steps.queue().error().message, "steps: 3 tokens were queued and not read");
  ASSERT_TRUE(steps.drawn());
  EXPECT_TRUE(steps.queue());
}

TEST(DrawAhead, WithoutAPassThereIsNoTokenAndNoLogits) {
  Device device;
  FakeSteps steps(device, 1);
  EXPECT_EQ(steps.drawn().error().message, "steps: nothing is queued");
  std::vector<float> logits(kVocab);
  EXPECT_EQ(steps.logits(logits).error().message, "steps: nothing was queued");
  EXPECT_EQ(steps.logits(std::span(logits).first(1)).error().message,
            "steps: buffer has 1 floats, expected 3");
}

TEST(DrawAhead, StepsThatTakeTurnsGoOnWithTheirOwnTokensAndLogits) {
  Device device;
  FakeSteps one(device, 1), two(device, 2);
  ASSERT_TRUE(one.queue() && two.queue());
  EXPECT_EQ(device.active.steps, &two);
  EXPECT_EQ(logits_of(one), logits_after(1));
  ASSERT_TRUE(one.queue() && two.queue() && two.queue());
  EXPECT_EQ(one.launched, (Launched{1, 11}));
  EXPECT_EQ(two.launched, (Launched{2, 21, std::nullopt}));
  EXPECT_EQ(logits_of(one), logits_after(11));
  EXPECT_EQ(logits_of(two), logits_after(211));
}

TEST(DrawAhead, AnotherUseOfTheBuffersLeavesTheLogitsReadable) {
  Device device;
  {
    FakeSteps steps(device, 1);
    ASSERT_TRUE(device.active.give_way());  // nothing to free
    ASSERT_TRUE(steps.queue() && device.active.give_way());
    device.logits.assign(kVocab, -1.0F);
    EXPECT_EQ(logits_of(steps), logits_after(1));
    ASSERT_TRUE(steps.queue());
  }
  EXPECT_EQ(device.active.steps, nullptr);
}

TEST(DrawAhead, APassWithoutATokenIsAnErrorAndTheNextConsumesZero) {
  Device device;
  FakeSteps steps(device, 1);
  steps.draws_none[1] = true;
  ASSERT_TRUE(steps.queue() && device.active.give_way() && steps.queue());
  const auto token = steps.drawn();
  EXPECT_EQ(token.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(token.error().message, "no token can be chosen: all 3 logits are -inf or not a number");
  EXPECT_EQ(steps.launched, (Launched{1, 0}));
}

TEST(DrawAhead, APassThatDoesNotEndFailsItsOwnerAlone) {
  Device device;
  FakeSteps steps(device, 1);
  ASSERT_TRUE(steps.queue());
  steps.ends = false;
  std::vector<float> logits(kVocab);
  EXPECT_EQ(steps.logits(logits).error().code, ErrorCode::device);
  EXPECT_TRUE(device.active.give_way());
  steps.ends = true;  // of a later pass
  EXPECT_EQ(steps.logits(logits).error().code, ErrorCode::device);
}

TEST(DrawAhead, ALostDeviceFailsBothUsers) {
  Device device;
  FakeSteps steps(device, 1);
  ASSERT_TRUE(steps.queue());
  device.lost = true;
  EXPECT_EQ(device.active.give_way().error().message, "lost");
  device.lost = false;
  std::vector<float> logits(kVocab);
  EXPECT_EQ(steps.logits(logits).error().message, "lost");
}

// ---- masks ----

constexpr std::chrono::seconds kLong{30};
constexpr std::chrono::milliseconds kShort{20};

TokenMask all_but_one() {
  TokenMask mask(kVocab);
  mask.set_all();
  mask.set(2, false);
  return mask;
}

TEST(DrawAheadWithMasks, EachPassIsGivenItsOwn) {
  Device device;
  FakeSteps steps(device, 1, kLong);
  TokenMask one(kVocab);
  one.set(1);
  ASSERT_TRUE(steps.queue() && steps.mask(all_but_one()));
  ASSERT_TRUE(steps.queue());
  EXPECT_EQ(*steps.drawn(), 11);
  ASSERT_TRUE(steps.mask(one));
  EXPECT_EQ(*steps.drawn(), 111);
  EXPECT_EQ(steps.allowed, (std::map<std::uint32_t, std::size_t>{{1, 2}, {2, 1}}));
}

TEST(DrawAheadWithMasks, APassWithoutOneIsTheLastThatIsQueued) {
  Device device;
  FakeSteps steps(device, 1, kLong);
  ASSERT_TRUE(steps.queue());
  EXPECT_EQ(steps.queue().error().message, "steps: pass 1 has no mask yet");
  ASSERT_TRUE(steps.mask(all_but_one()));
  EXPECT_TRUE(steps.queue());
}

TEST(DrawAheadWithMasks, WhatIsNoMaskOfThePassIsRefused) {
  Device device;
  FakeSteps steps(device, 1, kLong), without(device, 1);
  EXPECT_EQ(steps.mask(all_but_one()).error().message, "steps: no pass waits for a mask");
  ASSERT_TRUE(steps.queue());
  EXPECT_EQ(steps.mask(TokenMask(kVocab + 1)).error().message,
            "steps: a mask is of 4 tokens, expected 3");
  ASSERT_TRUE(steps.mask(all_but_one()));
  EXPECT_FALSE(steps.mask(all_but_one()));
  ASSERT_TRUE(without.queue());
  EXPECT_FALSE(without.mask(all_but_one()));
}

TEST(DrawAheadWithMasks, OneThatDoesNotComeInTimeIsAnErrorByName) {
  Device device;
  FakeSteps steps(device, 1, kShort);
  ASSERT_TRUE(steps.queue());
  const auto token = steps.drawn();
  EXPECT_EQ(token.error().code, ErrorCode::internal);
  EXPECT_EQ(token.error().message, "steps: the mask of a token did not come within 20 ms");
  EXPECT_EQ(steps.allowed[1], 0U);  // the device goes on
  EXPECT_EQ(steps.mask(all_but_one()).error().message, token.error().message);
  EXPECT_EQ(steps.queue().error().message, token.error().message);
}

TEST(DrawAheadWithMasks, AnotherUserOfTheBuffersWaitsForIt) {
  Device device;
  FakeSteps steps(device, 1, kLong);
  ASSERT_TRUE(steps.queue());
  std::jthread host([&] {
    std::this_thread::sleep_for(kShort);
    EXPECT_TRUE(steps.mask(all_but_one()));
  });
  ASSERT_TRUE(device.active.give_way());
  EXPECT_EQ(steps.allowed[1], 2U);
  host.join();
  EXPECT_EQ(*steps.drawn(), 11);
}

TEST(DrawAheadWithMasks, AnotherUserOfTheBuffersDoesNotWaitForEver) {
  Device device;
  FakeSteps steps(device, 1, kShort);
  ASSERT_TRUE(steps.queue());
  EXPECT_TRUE(device.active.give_way());
  EXPECT_EQ(steps.drawn().error().code, ErrorCode::internal);
}

TEST(DrawAheadWithMasks, LogitsDoNotNeedIt) {
  Device device;
  FakeSteps steps(device, 1, kLong);
  ASSERT_TRUE(steps.queue());
  EXPECT_EQ(logits_of(steps), logits_after(1));
  EXPECT_EQ(steps.allowed[1], 0U);
  EXPECT_EQ(steps.drawn().error().message, "steps: the mask of the last pass was given up");
}

TEST(DrawAheadWithMasks, AFailedPassGivesUpTheOneBehindIt) {
  Device device;
  FakeSteps steps(device, 1, kLong);
  steps.draws_none[1] = true;
  ASSERT_TRUE(steps.queue() && steps.mask(all_but_one()) && steps.queue());
  EXPECT_FALSE(steps.drawn());
  EXPECT_TRUE(device.active.give_way());  // at once
  EXPECT_EQ(steps.allowed[2], 0U);
}

TEST(DrawAheadWithMasks, ALostDeviceIsReported) {
  Device device;
  FakeSteps steps(device, 1, kLong);
  ASSERT_TRUE(steps.queue());
  device.lost = true;
  EXPECT_EQ(steps.mask(all_but_one()).error().message, "lost");
  EXPECT_EQ(steps.drawn().error().message, "lost");
}

TEST(DrawAhead, NeedsATokenToBeginWith) {
  EXPECT_EQ(check_recent({}).error().code, ErrorCode::invalid_argument);
  const TokenId one = 1;
  EXPECT_TRUE(check_recent(std::span(&one, 1)));
}

}  // namespace
}  // namespace runnel::test
