// SPDX-License-Identifier: Apache-2.0
// Shared memory that a compiled shader declares, read from its SPIR-V.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace runnel::vulkan {

/// Bytes that the workgroup variables of a module take, each rounded up to 16.
/// @param words      of a SPIR-V module of this build
/// @param subgroup   value of constant id 0
/// @param constants  of ids 1, 2, …; of those beyond, what the shader says
/// @return UINT64_MAX for a module with a size that this reading does not know
std::uint64_t declared_shared_bytes(std::span<const std::uint32_t> words, std::uint32_t subgroup,
                                    std::span<const std::uint32_t> constants);

/// The same of the shader that Pipelines::get() takes by these; 0 if this build has none of that name.
std::uint64_t declared_shared_bytes(std::string_view shader, std::uint32_t subgroup,
                                    std::span<const std::uint32_t> constants);

}  // namespace runnel::vulkan
