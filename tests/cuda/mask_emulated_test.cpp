// SPDX-License-Identifier: Apache-2.0
// The kernel that waits for a mask and applies it, thread by thread on the host. Needs no GPU.
#include "tests/cuda/simt.h"
// After the emulator, whose functions it calls.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "cuda/device/mask.cuh"
#include "runtime/sampling/sampler.h"
#include "tests/support/host_draws.h"
#include "tests/support/random.h"

namespace runnel::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kTicket = 7;

/// A mask of the device whose memory is the host's.
class Emulated {
 public:
  Emulated(const TokenMask& mask, const std::vector<float>& logits, std::uint64_t timeout)
      : mask_(mask), logits_(logits), masked_(logits.size(), NAN) {
    m_ = {.logits = logits_.data(),
          .masked = masked_.data(),
          .vocab = static_cast<std::int32_t>(logits.size()),
          .words = mask_.words().data(),
          .written = &written_,
          .ticket = kTicket,
          .timeout = timeout,
          .late = &late_};
  }

  /// Any thread may call it.
  void write(std::uint32_t ticket = kTicket) {
    __atomic_store_n(&written_, ticket, __ATOMIC_RELEASE);
  }
  const std::vector<float>& run(unsigned seed = 1) {
    simt::Grid grid(cuda::mask_blocks(m_.vocab), cuda::kMaskThreads, sizeof(std::uint32_t), seed,
                    [this] { cuda::apply_mask(m_, cuda::kMaskThreads); });
    EXPECT_TRUE(grid.run()) << "stuck";
    return masked_;
  }
  std::uint64_t late() const { return late_; }

 private:
  TokenMask mask_;
  std::vector<float> logits_, masked_;
  std::uint32_t written_ = 0;
  std::uint64_t late_ = 0;
  cuda::Mask m_;
};

TEST(MaskEmulated, LeavesTheLogitsOfWhatMayCome) {
  Random random(81);
  for (const std::int32_t vocab : {1, 31, 32, 33, 1000, 1024, 1025, 8192, 8193, 12001}) {
    const TokenMask mask = random_mask(random, vocab);
    const std::vector<float> logits = random.normals(static_cast<std::size_t>(vocab), 3.0F);
    Emulated device(mask, logits, 1'000'000);
    device.write();
    const std::vector<float>& masked = device.run(static_cast<unsigned>(vocab));
    for (std::int32_t token = 0; token < vocab; ++token) {
      const auto t = static_cast<std::size_t>(token);
      ASSERT_EQ(masked[t], mask.has(token) ? logits[t] : -kInf) << token << " of " << vocab;
    }
    EXPECT_EQ(device.late(), 0U);
  }
}

TEST(MaskEmulated, TheHostDrawsTheSameFromThem) {
  Random random(82);
  for (int i = 0; i < 40; ++i) {
    constexpr std::int32_t kVocab = 300;
    const SamplingOptions options = random_chain(random, kVocab);
    const TokenMask mask = random_mask(random, kVocab);
    std::vector<float> logits = random.normals(kVocab, 3.0F);
    for (float& v : logits) {
      if (random.below(20) == 0) v = one_of(random, {NAN, -kInf, kInf, -0.0F});
    }
    Emulated device(mask, logits, 1'000'000);
    device.write();
    auto sampler = Sampler::create(options, kVocab, drawn_piece);
    ASSERT_TRUE(sampler);
    const std::vector<TokenId> recent = random.tokens(40, 50);
    const auto expected = sampler->sample(logits, recent, 40, &mask);
    const auto token = sampler->sample(device.run(), recent, 40);
    ASSERT_EQ(token.has_value(), expected.has_value());
    if (expected) {
      ASSERT_EQ(*token, *expected);
    }
  }
}

TEST(MaskEmulated, WaitsForTheMask) {
  TokenMask mask(100);
  mask.set(70);
  std::vector<float> logits(100, 1.0F);
  Emulated device(mask, logits, std::uint64_t{1} << 62);
  std::jthread host([&device] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    device.write(kTicket - 1);  // of the pass before
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    device.write();
  });
  const std::vector<float>& masked = device.run();
  EXPECT_EQ(masked[70], 1.0F);
  EXPECT_EQ(masked[71], -kInf);
  EXPECT_EQ(device.late(), 0U);
}

TEST(MaskEmulated, ALateMaskLeavesNothingAndIsReported) {
  TokenMask mask(9000);
  mask.set_all();
  Emulated device(mask, std::vector<float>(9000, 1.0F), 50'000);
  EXPECT_EQ(device.run(), std::vector<float>(9000, -kInf));
  EXPECT_EQ(device.late(), kTicket);
}

}  // namespace
}  // namespace runnel::test
