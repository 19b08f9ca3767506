// SPDX-License-Identifier: Apache-2.0
// Logits and their indices as one integer, in the order of likelihood.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace runnel {

/// Greater key: more likely, or as likely with a lower index. Orders floats as integers; -0 counts as 0.
inline std::uint64_t rank_key(float logit, std::size_t index) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0F);
  const std::uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return (static_cast<std::uint64_t>(ordered) << 32) |
         (0xFFFFFFFFU - static_cast<std::uint32_t>(index));
}

inline std::size_t index_of_key(std::uint64_t key) {
  return 0xFFFFFFFFU - static_cast<std::uint32_t>(key);
}

}  // namespace runnel
