// SPDX-License-Identifier: Apache-2.0
// What shaders call a model's activations, feature maps and decays.
#pragma once

#include <cstdint>

#include "runtime/model/layer_spec.h"

namespace runnel::vulkan {

std::uint32_t shader_constant(Activation a);
/// The elementwise part of a feature map of slots; t2r is a product of its own, done before.
std::uint32_t shader_constant(FeatureMap m);

/// Maps and decays of recurrences.
std::uint32_t map_constant(FeatureMap map);
std::uint32_t decay_constant(Decay decay);

}  // namespace runnel::vulkan
