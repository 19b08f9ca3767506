// SPDX-License-Identifier: Apache-2.0
// Every number that the forward pass uses, as read from the file's `gsa.*` keys. Plain data: every
// layer above base reads it.
#pragma once

#include <cstdint>
#include <string>

namespace runnel {

/// Elementwise function on queries, keys, values or the mixer output.
enum class Activation { identity, swish, relu };

/// Map applied to q and k of each head before the recurrence; t2r is relu(W x) with one [K, K]
/// matrix a layer.
enum class FeatureMap { identity, swish, relu, t2r };

/// Shapes and constants of a slot-attention model (arXiv:2409.07146, with optional sink and window
/// slots). Notation of the comments: D hidden, HQ query heads, H kv heads, K and V head dims, M
/// memory slots.
struct ModelConfig {
  std::string name;  // people's name of the model, may be empty

  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;        // D
  std::int32_t num_layers = 0;         // L
  std::int32_t num_heads = 0;          // HQ
  std::int32_t num_kv_heads = 0;       // H, divides HQ; query head h reads kv head h / (HQ / H)
  std::int32_t head_k_dim = 0;         // K, even when there are positional slots
  std::int32_t head_v_dim = 0;         // V
  std::int32_t intermediate_size = 0;  // I of the SwiGLU

  std::int32_t num_memory_slots = 0;  // M gated slots
  std::int32_t num_sink_slots = 0;    // written once, by tokens 0 … num_sink_slots-1
  std::int32_t num_window_slots = 0;  // ring: token t writes slot (t - sinks) mod window
  std::int32_t sink_distance =
      0;  // a sink's rotary distance never exceeds this (0 if there are no sinks)
  double rope_theta = 10000.0;  // rotary base of window and sink slots

  float scale = 1.0F;            // factor of every slot logit
  float gate_normalizer = 8.0F;  // tau: log alpha = logsigmoid(f) / tau
  float gate_log_min = 0.0F;     // floor of log alpha; 0 means none, else negative
  float norm_eps = 1e-6F;        // attn_norm, mlp_norm, final norm
  float g_norm_eps = 1e-5F;      // output norm

  FeatureMap feature_map = FeatureMap::swish;        // on q and k
  Activation value_activation = Activation::swish;   // on v
  Activation output_activation = Activation::swish;  // on o, before the output norm
  bool output_norm = true;                           // RMSNorm over all HQ*V channels of o
  std::int32_t conv_size = 0;  // taps of the depthwise causal convs on q, k, v (silu); 0: none

  std::int32_t num_positional_slots() const { return num_sink_slots + num_window_slots; }
  std::int32_t num_slots() const { return num_positional_slots() + num_memory_slots; }
  std::int32_t queries_per_kv_head() const { return num_heads / num_kv_heads; }
};

}  // namespace runnel
