// SPDX-License-Identifier: Apache-2.0
// The canonical layout of a recurrent state: how snapshots store it and how backends exchange it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/model/config.h"

namespace runnel {

/// Float offsets into a canonical state. Per layer: per kv head K~ [slots, K] then V~ [slots, V]
/// (slots in the order sinks, window by ring index, memory); after the heads the conv tails q
/// [HQ*K, W], k [H*K, W], v [H*V, W], oldest input first. All f32. Slots and taps not yet written
/// are zero.
struct StateLayout {
  std::int32_t layers = 0;
  std::int32_t kv_heads = 0;
  std::int32_t slots = 0;
  std::int32_t head_k_dim = 0;
  std::int32_t head_v_dim = 0;
  std::int32_t conv_size = 0;
  std::int32_t q_channels = 0;  // HQ*K
  std::int32_t k_channels = 0;  // H*K
  std::int32_t v_channels = 0;  // H*V

  static StateLayout of(const ModelConfig& c) {
    return {.layers = c.num_layers,
            .kv_heads = c.num_kv_heads,
            .slots = c.num_slots(),
            .head_k_dim = c.head_k_dim,
            .head_v_dim = c.head_v_dim,
            .conv_size = c.conv_size,
            .q_channels = c.num_heads * c.head_k_dim,
            .k_channels = c.num_kv_heads * c.head_k_dim,
            .v_channels = c.num_kv_heads * c.head_v_dim};
  }

  std::size_t keys_floats() const { return std::size_t(slots) * std::size_t(head_k_dim); }
  std::size_t values_floats() const { return std::size_t(slots) * std::size_t(head_v_dim); }
  std::size_t head_floats() const { return keys_floats() + values_floats(); }
  std::size_t conv_floats() const {
    return std::size_t(conv_size) * std::size_t(q_channels + k_channels + v_channels);
  }
  std::size_t layer_floats() const { return std::size_t(kv_heads) * head_floats() + conv_floats(); }
  std::size_t total_floats() const { return std::size_t(layers) * layer_floats(); }

  std::size_t keys_offset(int layer, int head) const {
    return std::size_t(layer) * layer_floats() + std::size_t(head) * head_floats();
  }
  std::size_t values_offset(int layer, int head) const {
    return keys_offset(layer, head) + keys_floats();
  }
  std::size_t q_conv_offset(int layer) const {
    return std::size_t(layer) * layer_floats() + std::size_t(kv_heads) * head_floats();
  }
  std::size_t k_conv_offset(int layer) const {
    return q_conv_offset(layer) + std::size_t(conv_size) * std::size_t(q_channels);
  }
  std::size_t v_conv_offset(int layer) const {
    return k_conv_offset(layer) + std::size_t(conv_size) * std::size_t(k_channels);
  }
};

}  // namespace runnel
