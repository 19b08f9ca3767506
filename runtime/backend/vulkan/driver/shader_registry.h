// SPDX-License-Identifier: Apache-2.0
// The compiled shaders, embedded at build time by cmake/CompileShaders.cmake.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace runnel::vulkan {

struct EmbeddedShader {
  std::string_view name;  // "matvec.q4_0", "matvec.q4_0.subgroups"
  std::span<const std::uint32_t> words;
};

/// All shaders of this build. The definition is generated.
std::span<const EmbeddedShader> embedded_shaders();

struct FoundShader {
  std::span<const std::uint32_t> words;  // none: not in this build
  bool sized = false;                    // for subgroups of a demanded size
};

/// @param name      without the suffix of shaders with subgroups ("matvec.q4_0")
/// @param subgroup  lanes of the device's subgroups; 1: none, which only shaders without subgroups take
FoundShader find_shader(std::string_view name, std::uint32_t subgroup);

}  // namespace runnel::vulkan
