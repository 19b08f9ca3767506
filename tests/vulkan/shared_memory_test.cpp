// SPDX-License-Identifier: Apache-2.0
// What compiled shaders say of their shared memory, beside sums by hand. Needs no driver.
#include "runtime/backend/vulkan/driver/shared_memory.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "runtime/backend/vulkan/driver/shader_registry.h"
#include "runtime/backend/vulkan/pass/pass_builder.h"
#include "runtime/base/integers.h"
#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {
namespace {

constexpr std::uint32_t kLanes = 32;

TEST(VulkanSharedMemory, IsKnownOfEveryShader) {
  ASSERT_FALSE(embedded_shaders().empty());
  for (const EmbeddedShader& shader : embedded_shaders())
    EXPECT_LT(declared_shared_bytes(shader.words, kLanes, {}), 64U << 10) << shader.name;
}

TEST(VulkanSharedMemory, OfAShaderThatIsMissingIsNone) {
  EXPECT_EQ(declared_shared_bytes("of_another_build", kLanes, {}), 0U);
}

TEST(VulkanSharedMemory, OfFixedArraysIsTheirSum) {
  // Two tiles of 16 x 68 floats.
  EXPECT_EQ(declared_shared_bytes("matmul.q4_0", kLanes, {}) -
                declared_shared_bytes("embed.q4_0", kLanes, {}),
            2U * 16 * 68 * 4);
}

TEST(VulkanSharedMemory, OfAShaderWithoutSubgroupsHasNoneOfTheirSize) {
  // Two rows of a key, and a float for each thread, whatever the device's subgroups are.
  const std::uint32_t constants[] = {64, 64};
  for (const std::uint32_t lanes : {1U, 8U, 32U})
    EXPECT_EQ(declared_shared_bytes("gated_recurrence.inputs", lanes, constants),
              4 * (2 * 64 + kThreads));
  EXPECT_GE(declared_shared_bytes("removal.one", kLanes, constants), 4U * 7 * 64);
}

TEST(VulkanSharedMemory, FollowsTheSubgroup) {
  const std::uint32_t constants[] = {8, kInputPlain};
  const auto of = [&](std::uint32_t lanes) {
    return declared_shared_bytes("matvec.q4_0", lanes, constants);
  };
  // A float for each subgroup.
  EXPECT_EQ(of(8) - of(32), 4 * (kThreads / 8 - kThreads / 32));
}

TEST(VulkanSharedMemory, FollowsTheConstants) {
  std::mt19937 random(20261128);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const auto any = [&](std::uint32_t most) { return 1 + below(most); };
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t k = 2 * any(64), v = any(300), memory = any(64), sinks = below(5),
                        window = below(100), g = any(8), share = any(40);
    const std::vector<std::uint32_t> constants{k, v, memory, sinks, window, g, any(4), 1, share, 8};
    const bool rotary = sinks + window > 0;
    const std::uint32_t arrays[] = {(rotary ? 3 : 1) * g * k,
                                    (rotary ? 2 : 1) * k,
                                    v,
                                    share,
                                    share,
                                    g * share,
                                    kThreads / std::min(v, kThreads) * g * v,
                                    kThreads / kLanes};
    std::uint64_t bytes = 0;
    for (const std::uint32_t n : arrays) bytes += round_up(std::uint64_t{4} * n, 16U);
    EXPECT_EQ(declared_shared_bytes("slot_attention", kLanes, constants), bytes)
        << "heads of " << k << " and " << v << ", " << sinks + window << " positional";
  }
}

TEST(VulkanSharedMemory, OfTilesStaysBelowTheirLimit) {
  // Output, threads, then tokens, rows, units of a step and halves of the splits.
  for (const std::vector<std::uint32_t>& split :
       {std::vector<std::uint32_t>{0, 128, 128, 128, 4, 2},
        {0, 256, 128, 128, 8, 1},
        {0, 256, 128, 256, 4, 1}}) {
    const std::uint64_t bytes = declared_shared_bytes("matmul_tiles", kLanes, split);
    EXPECT_GE(bytes, 16U * split[5] * (split[2] + split[3]) * (split[4] + 1));
    EXPECT_LE(bytes, kTilesSharedBytes);
  }
}

TEST(VulkanSharedMemory, OfChunksStaysBelowTheirLimit) {
  // With positional slots, which need most.
  const std::uint32_t narrow[] = {64, 64, 64, 4, 60}, broad[] = {64, 64, 128, 4, 252};
  EXPECT_LE(declared_shared_bytes("slot_read", kLanes, narrow), kChunkSharedBytes);
  EXPECT_LE(declared_shared_bytes("slot_read_broad", kLanes, broad), kChunkSharedBytes);
}

}  // namespace
}  // namespace runnel::vulkan
