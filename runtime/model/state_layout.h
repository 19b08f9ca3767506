// SPDX-License-Identifier: Apache-2.0
// The canonical layout of a recurrent state: how snapshots store it and how backends exchange it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/model/config.h"

namespace runnel {

/// Float offsets into a canonical state. Per layer: per kv head the keys [rows, key columns], the
/// values [rows, value columns] and a few more numbers; after the heads the conv tails q [HQ*K, W],
/// k [H*K, W] (of f with complement_keys), v [H*V, W], oldest input first. All f32. What has not
/// been written yet is zero, at position 0 everything.
///
///   slots                  rows = slots (sinks, window by ring index, memory): K~ and V~
///   recurrence             rows = K' features, no keys; values: S [K', V], with a normalizer
///   column
///                          V is z; one more number with exponential keys: m
///   recurrence with slots  rows = M slots: K~ and V~; M more numbers: z, the running log sum
struct StateLayout {
  std::int32_t layers = 0;
  std::int32_t kv_heads = 0;
  std::int32_t slots = 0;       // rows
  std::int32_t head_k_dim = 0;  // key columns
  std::int32_t head_v_dim = 0;  // value columns
  std::int32_t head_extra = 0;  // numbers after a head's values
  std::int32_t conv_size = 0;
  std::int32_t q_channels = 0;  // HQ*K
  std::int32_t k_channels = 0;  // H*K
  std::int32_t v_channels = 0;  // H*V

  static StateLayout of(const ModelConfig& c) {
    const bool one_pass = c.mixer == Mixer::recurrence && c.num_memory_slots == 0;
    const bool running_maximum = one_pass && c.feature_map == FeatureMap::exponential;
    const std::int32_t extra = c.decay == Decay::running_sum ? c.num_memory_slots
                               : running_maximum             ? 1
                                                             : 0;
    return {.layers = c.num_layers,
            .kv_heads = c.num_kv_heads,
            .slots = one_pass ? c.feature_dim() : c.num_slots(),
            .head_k_dim = one_pass ? 0 : c.head_k_dim,
            .head_v_dim = c.value_columns(),
            .head_extra = extra,
            .conv_size = c.conv_size,
            .q_channels = c.num_heads * c.head_k_dim,
            .k_channels = c.num_kv_heads * c.head_k_dim,
            .v_channels = c.num_kv_heads * c.head_v_dim};
  }

  std::size_t keys_floats() const { return std::size_t(slots) * std::size_t(head_k_dim); }
  std::size_t values_floats() const { return std::size_t(slots) * std::size_t(head_v_dim); }
  std::size_t head_floats() const {
    return keys_floats() + values_floats() + std::size_t(head_extra);
  }
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
  std::size_t extra_offset(int layer, int head) const {
    return values_offset(layer, head) + values_floats();
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
