// SPDX-License-Identifier: Apache-2.0
// The canonical layout of a recurrent state: how snapshots store it and how backends exchange it. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/model/config.h"

namespace runnel {

/// One layer's share of a canonical state, in floats. Per kv head the keys [rows, key columns], the values
/// [rows, value columns] and a few more numbers; after the heads the conv tails q [HQ*K, W], k [H*K, W] (of f with
/// complement_keys), v [H*V, W], oldest input first; then the last normed input of a shifted mixer [D], and that of a
/// shifted channel mix [D]. All f32. What has not been written yet is zero, at position 0
/// everything.
///
///   slots                  rows = slots (sinks, window by ring index, memory): K~ and V~
///   recurrence             rows = K' features, no keys; values: S [K', V], with a normalizer column V is z;
///                          one more number with exponential keys: m
///   recurrence with slots  rows = M slots: K~ and V~; M more numbers: z, the running log sum
struct LayerState {
  std::size_t offset = 0;  // of the layer in the state
  std::int32_t kv_heads = 0;
  std::int32_t slots = 0;       // rows
  std::int32_t head_k_dim = 0;  // key columns
  std::int32_t head_v_dim = 0;  // value columns
  std::int32_t head_extra = 0;  // numbers after a head's values
  std::int32_t conv_size = 0;
  std::int32_t q_channels = 0;     // HQ*K
  std::int32_t k_channels = 0;     // H*K
  std::int32_t v_channels = 0;     // H*V
  std::int32_t mixer_shift = 0;    // D, or 0
  std::int32_t channel_shift = 0;  // D, or 0

  static LayerState of(const LayerSpec& layer) {
    const bool one_pass = layer.kind() == Mixer::recurrence && layer.common().num_memory_slots == 0;
    return {.offset = 0,
            .kv_heads = layer.num_kv_heads,
            .slots = one_pass ? layer.feature_dim() : rows_of(layer),
            .head_k_dim = one_pass ? 0 : layer.head_k_dim,
            .head_v_dim = layer.value_columns(),
            .head_extra = extra_of(layer),
            .conv_size = layer.conv_size,
            .q_channels = layer.q_channels(),
            .k_channels = layer.k_channels(),
            .v_channels = layer.v_channels(),
            .mixer_shift = layer.mixer_shift,
            .channel_shift = layer.channel_shift};
  }

  std::size_t keys_floats() const { return std::size_t(slots) * std::size_t(head_k_dim); }
  std::size_t values_floats() const { return std::size_t(slots) * std::size_t(head_v_dim); }
  std::size_t head_floats() const {
    return keys_floats() + values_floats() + std::size_t(head_extra);
  }
  std::size_t conv_floats() const {
    return std::size_t(conv_size) * std::size_t(q_channels + k_channels + v_channels);
  }
  /// All that follows the heads.
  std::size_t tail_floats() const {
    return conv_floats() + std::size_t(mixer_shift) + std::size_t(channel_shift);
  }
  std::size_t floats() const { return std::size_t(kv_heads) * head_floats() + tail_floats(); }

  // Offsets in the state.
  std::size_t keys_offset(int head) const { return offset + std::size_t(head) * head_floats(); }
  std::size_t values_offset(int head) const { return keys_offset(head) + keys_floats(); }
  std::size_t extra_offset(int head) const { return values_offset(head) + values_floats(); }
  std::size_t q_conv_offset() const { return offset + std::size_t(kv_heads) * head_floats(); }
  std::size_t k_conv_offset() const {
    return q_conv_offset() + std::size_t(conv_size) * std::size_t(q_channels);
  }
  std::size_t v_conv_offset() const {
    return k_conv_offset() + std::size_t(conv_size) * std::size_t(k_channels);
  }
  std::size_t mixer_shift_offset() const { return q_conv_offset() + conv_floats(); }
  std::size_t channel_shift_offset() const {
    return mixer_shift_offset() + std::size_t(mixer_shift);
  }

  bool operator==(const LayerState&) const = default;

 private:
  static std::int32_t rows_of(const LayerSpec& layer) {
    switch (layer.kind()) {
      case Mixer::slots:
        return layer.slots().num_slots();
      case Mixer::recurrence:
        return layer.recurrence().num_memory_slots;
    }
    return 0;
  }
  static std::int32_t extra_of(const LayerSpec& layer) {
    if (layer.kind() == Mixer::slots) return 0;
    const RecurrenceSpec& r = layer.recurrence();
    if (r.decay == Decay::running_sum) return r.num_memory_slots;
    return r.num_memory_slots == 0 && r.feature_map == FeatureMap::exponential ? 1 : 0;
  }
};

/// The layers' shares one after the other.
struct StateLayout {
  std::vector<LayerState> layers;

  static StateLayout of(const ModelConfig& config) {
    StateLayout layout;
    std::size_t at = 0;
    for (const LayerSpec& spec : config.layers) {
      LayerState& state = layout.layers.emplace_back(LayerState::of(spec));
      state.offset = at;
      at += state.floats();
    }
    return layout;
  }

  const LayerState& layer(int i) const { return layers[static_cast<std::size_t>(i)]; }
  std::size_t total_floats() const {
    return layers.empty() ? 0 : layers.back().offset + layers.back().floats();
  }
};

}  // namespace runnel
