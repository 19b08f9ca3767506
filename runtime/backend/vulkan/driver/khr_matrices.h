// SPDX-License-Identifier: Apache-2.0
// Cooperative matrices of the Khronos extension from shaders written for NVIDIA's: Debian's glslang
// has the latter alone, and NVIDIA's driver makes slower code of it (shaders/README.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runnel::vulkan {

/// The words of a module that uses SPV_NV_cooperative_matrix as one of SPV_KHR_cooperative_matrix;
/// other modules as they are. What a matrix is used for, which only the latter asks for, follows
/// from its type: sums are f32, left operands f16; right operands, and sums as f16, have rows of
/// the specialisation constants kRightTile and kNarrowTile (shaders/include/contract/interface.h).
/// @return no words if the module holds what has no counterpart.
std::vector<std::uint32_t> with_khr_matrices(std::span<const std::uint32_t> words);

}  // namespace runnel::vulkan
