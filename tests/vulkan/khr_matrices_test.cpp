// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/driver/khr_matrices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "runtime/backend/vulkan/driver/shader_registry.h"

namespace runnel {
namespace {

using Words = std::vector<std::uint32_t>;

/// Operands of every instruction `op` of a module, in order.
std::vector<Words> all_of(std::span<const std::uint32_t> module, std::uint32_t op) {
  std::vector<Words> found;
  for (std::size_t at = 5; at < module.size(); at += module[at] >> 16) {
    if ((module[at] & 0xFFFF) == op)
      found.emplace_back(module.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                         module.begin() + static_cast<std::ptrdiff_t>(at + (module[at] >> 16)));
  }
  return found;
}

std::span<const std::uint32_t> shader(const std::string& name) {
  for (const vulkan::EmbeddedShader& s : vulkan::embedded_shaders()) {
    if (s.name == name) return s.words;
  }
  return {};
}

TEST(VulkanKhrMatrices, ModulesWithoutMatricesStayAsTheyAre) {
  const auto words = shader("rows");
  const Words translated = vulkan::with_khr_matrices(words);
  EXPECT_TRUE(std::equal(words.begin(), words.end(), translated.begin(), translated.end()));
}

TEST(VulkanKhrMatrices, EveryShaderOfTilesHasACounterpart) {
  int found = 0;
  for (const auto& [name, words] : vulkan::embedded_shaders()) {
    if (all_of(words, 5358).empty()) continue;
    ++found;
    const Words khr = vulkan::with_khr_matrices(words);
    ASSERT_FALSE(khr.empty()) << name;
    for (const std::uint32_t nv : {5358U, 5359U, 5360U, 5361U, 5362U})
      EXPECT_TRUE(all_of(khr, nv).empty()) << name;
    for (std::uint32_t i = 0; i < 5; ++i)
      EXPECT_EQ(all_of(words, 5358 + i).size(), all_of(khr, 4456 + i).size()) << name;
    // Products take a left and a right operand, and add to sums.
    std::map<std::uint32_t, std::uint32_t> value_of, type_of, use_of;
    for (const Words& constant : all_of(khr, 43)) value_of[constant[1]] = constant[2];
    for (const Words& type : all_of(khr, 4456)) use_of[type[0]] = value_of[type[5]];
    for (const Words& load : all_of(khr, 61)) type_of[load[1]] = load[0];  // OpLoad
    for (const Words& product : all_of(khr, 4459)) {
      EXPECT_EQ(use_of[product[0]], 2U) << name;
      for (std::uint32_t operand = 0; operand < 3; ++operand)
        EXPECT_EQ(use_of[type_of[product[2 + operand]]], operand) << name;
    }
  }
  EXPECT_GT(found, 0);
}

TEST(VulkanKhrMatrices, WhatIsNoModuleHasNone) {
  EXPECT_TRUE(vulkan::with_khr_matrices({}).empty());
  const Words cut = {0x07230203, 0x10500, 0, 10, 0, (6U << 16) | 5358};
  EXPECT_TRUE(vulkan::with_khr_matrices(cut).empty());
}

}  // namespace
}  // namespace runnel
