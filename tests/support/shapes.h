// SPDX-License-Identifier: Apache-2.0
// Shapes of random models, several numbers at a time.
#pragma once

#include "tests/support/random_model.h"

namespace runnel::test {

/// Types of q, k and v alike, or of v apart.
inline void set_heads(ModelConfig& config, std::int32_t heads, std::int32_t kv_heads,
                      std::int32_t head_dim, std::int32_t v_dim = 0) {
  set(config, &LayerSpec::num_heads, heads);
  set(config, &LayerSpec::num_kv_heads, kv_heads);
  set(config, &LayerSpec::head_k_dim, head_dim);
  set(config, &LayerSpec::head_v_dim, v_dim > 0 ? v_dim : head_dim);
}

inline void set_widths(ModelConfig& config, std::int32_t hidden, std::int32_t inner) {
  config.hidden_size = hidden;
  set(config, &LayerSpec::intermediate_size, inner);
}

inline void set_positional(ModelConfig& config, std::int32_t sinks, std::int32_t window,
                           std::int32_t sink_distance) {
  set(config, &SlotSpec::num_sink_slots, sinks);
  set(config, &SlotSpec::num_window_slots, window);
  set(config, &SlotSpec::sink_distance, sink_distance);
}

inline void set_memory(ModelConfig& config, std::int32_t slots) {
  set(config, &MixerSpec::num_memory_slots, slots);
}

/// The mixer of the 135M: 9 query and 3 kv heads of 64, 4 + 60 + 64 slots. For a small_positional_config().
inline void set_default_mixer(ModelConfig& config) {
  set_heads(config, 9, 3, 64);
  set_positional(config, 4, 60, 64);
  set_memory(config, 64);
  set(config, &MixerSpec::scale, 0.125F);
}

}  // namespace runnel::test
