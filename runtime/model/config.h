// SPDX-License-Identifier: Apache-2.0
// Every number that the forward pass uses, as read from the file's `gsa.*` keys. Plain data: every
// layer above base reads it.
#pragma once

#include <cstdint>
#include <string>

namespace runnel {

/// Elementwise function on queries, keys, values or the mixer output.
enum class Activation { identity, swish, relu };

/// Map applied to q and k of each head before the recurrence. Makes K' features of K channels.
enum class FeatureMap {
  identity,
  swish,
  relu,
  t2r,          // relu(W x)
  elu,          // elu(x) + 1
  product,      // (W1 x + b1) * (W2 x + b2)
  hedgehog,     // softmax([2 y, -2 y]), y = W x + b;  K' = 2 K
  dpfp,         // y = [relu(x), relu(-x)] times itself rolled by 1, 2, 3, 4;  K' = 8 K
  exponential,  // q: e^(q - max q);  k: e^(k - m), m the largest key channel of the head so far
};

/// What carries a layer's memory from token to token.
enum class Mixer {
  slots,       // gated, window and sink slots under one softmax (arXiv:2409.07146)
  recurrence,  // S <- diag(a) S diag(b) + k v^T, o = scale S^T q; twice with a softmax over M slots
               // between if there are slots
};

/// How a recurrence forgets. a lies along the keys, b along the values; what is not named is 1.
enum class Decay {
  none,         // a = 1
  fixed,        // a = 1 - 2^(-5 - h) for head h
  log_sigmoid,  // a = exp(max(floor, logsigmoid(f + bias) / tau)), raised to a lower bound if the
                // model has one
  refined,      // g = sigmoid(f + bias), r = sigmoid(r + bias): (1 - r) g^2 + r (1 - (1 - g)^2)
  running_sum,  // z' = logaddexp(z, f): exp(z - z'), and exp(f - z') is what a slot takes in
};

/// Shapes and constants of a model. Notation of the comments: D hidden, HQ query heads, H kv heads,
/// K and V head dims, K' features of a key (K but for two maps), M memory slots.
struct ModelConfig {
  std::string name;                  // people's name of the model, may be empty
  std::string architecture = "gsa";  // one of architectures()
  Mixer mixer = Mixer::slots;

  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;        // D
  std::int32_t num_layers = 0;         // L
  std::int32_t num_heads = 0;          // HQ
  std::int32_t num_kv_heads = 0;       // H, divides HQ; query head h reads kv head h / (HQ / H)
  std::int32_t head_k_dim = 0;         // K, even when there are positional slots
  std::int32_t head_v_dim = 0;         // V
  std::int32_t intermediate_size = 0;  // I of the SwiGLU

  std::int32_t num_memory_slots = 0;  // M gated slots; 0: a recurrence of one pass
  std::int32_t num_sink_slots = 0;    // written once, by tokens 0 … num_sink_slots-1
  std::int32_t num_window_slots = 0;  // ring: token t writes slot (t - sinks) mod window
  std::int32_t sink_distance =
      0;  // a sink's rotary distance never exceeds this (0 if there are no sinks)
  double rope_theta = 10000.0;  // rotary base of window and sink slots, or of all keys (rotary)

  float scale = 1.0F;            // factor of every slot logit, or of a recurrence's output
  float gate_normalizer = 8.0F;  // tau: log alpha = logsigmoid(f) / tau
  float gate_log_min = 0.0F;     // floor of log alpha; 0 means none, else negative
  float norm_eps = 1e-6F;        // attn_norm, mlp_norm, final norm
  float g_norm_eps = 1e-5F;      // output norm

  FeatureMap feature_map = FeatureMap::swish;        // on q and k
  Activation value_activation = Activation::swish;   // on v
  Activation output_activation = Activation::swish;  // on o, before the output norm
  bool output_norm = true;                           // RMSNorm over all HQ*V channels of o
  std::int32_t conv_size = 0;  // taps of the depthwise causal convs on q, k, v; 0: none

  // Of Mixer::recurrence only; the members above are shared.
  Decay decay = Decay::none;
  bool decay_on_values = false;  // refined only: the decay lies along the values (b), not the keys
  std::int32_t gate_rank = 0;    // f = W2 (W1 x) by way of this many numbers; 0: one matrix
  float gate_logit_min = 0.0F;   // f is clamped to [min, max] before a running sum; 0, 0: it is not
  float gate_logit_max = 0.0F;
  bool lower_bound = false;      // a = lb + (1 - lb) a, lb [H*K'] of each layer
  bool complement_keys = false;  // k = 1 - a; the convolution meant for k is on f
  bool rotary = false;           // q and k are rotated by their position
  bool feature_norm_q = false;   // q / (sum q + 1e-4) after the map
  bool feature_norm_k = false;   // the same for k
  bool normalizer = false;       // o / (scale z^T q + 1e-10), z = sum k: a column V of the state
  bool output_gate = false;      // the output norm's result times swish(W_g x)
  bool output_norm_heads =
      false;              // the output norm is over each head's V channels, with one weight
  bool conv_silu = true;  // silu after the convolutions

  std::int32_t num_positional_slots() const { return num_sink_slots + num_window_slots; }
  std::int32_t num_slots() const { return num_positional_slots() + num_memory_slots; }
  std::int32_t queries_per_kv_head() const { return num_heads / num_kv_heads; }

  /// Features of a head's key after the map: K'.
  std::int32_t feature_dim() const {
    if (feature_map == FeatureMap::hedgehog) return 2 * head_k_dim;
    if (feature_map == FeatureMap::dpfp) return 8 * head_k_dim;
    return head_k_dim;
  }

  /// Whether f_proj and its kin are there.
  bool has_gate() const {
    return mixer == Mixer::slots || decay == Decay::log_sigmoid || decay == Decay::refined ||
           decay == Decay::running_sum;
  }
  /// Gate logits of one kv head: along the slots, the values or the keys.
  std::int32_t gate_dim() const {
    if (!has_gate()) return 0;
    if (mixer == Mixer::slots || num_memory_slots > 0) return num_memory_slots;
    return decay_on_values ? head_v_dim : feature_dim();
  }
  /// Columns of a recurrence's state: the values and, with a normalizer, the sum of the keys.
  std::int32_t value_columns() const { return head_v_dim + (normalizer ? 1 : 0); }
};

}  // namespace runnel
