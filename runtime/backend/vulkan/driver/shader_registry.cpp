// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/driver/shader_registry.h"

#include <string>

namespace runnel::vulkan {
namespace {

std::span<const std::uint32_t> words_of(std::string_view name) {
  for (const EmbeddedShader& s : embedded_shaders()) {
    if (s.name == name) return s.words;
  }
  return {};
}

}  // namespace

FoundShader find_shader(std::string_view name, std::uint32_t subgroup) {
  if (subgroup > 1) {
    const auto words = words_of(std::string(name) + ".subgroups");
    if (!words.empty()) return {.words = words, .sized = true};
  }
  return {.words = words_of(name)};
}

}  // namespace runnel::vulkan
