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

}  // namespace runnel::vulkan
