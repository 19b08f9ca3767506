// SPDX-License-Identifier: Apache-2.0
// Every number that the forward pass uses, as read from a model file. Plain data: every layer above base reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/model/layer_spec.h"

namespace runnel {

/// Shapes and constants of a model: tokens → D channels (→ a norm) → the layers in order → logits.
struct ModelConfig {
  std::string name;                  // people's name of the model, may be empty
  std::string architecture = "gsa";  // one of architectures()

  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;            // D
  std::optional<NormSpec> embedding_norm;  // of x before the first layer
  std::vector<LayerSpec> layers;
  NormSpec final_norm;

  std::int32_t num_layers() const { return static_cast<std::int32_t>(layers.size()); }

  /// Makes the model of `count` layers like `layer`.
  void repeat(const LayerSpec& layer, std::int32_t count) {
    layers.assign(static_cast<std::size_t>(count), layer);
    for (std::int32_t i = 0; i < count; ++i) layers[static_cast<std::size_t>(i)].index = i;
  }
};

}  // namespace runnel
