// SPDX-License-Identifier: Apache-2.0
// What one layer of a model computes: its norms, its mixer, its channel mix. Plain data, given to every op of the
// seam; the equations are in runtime/backend/reference/ops.h.
//
// Notation: D hidden, HQ query heads, H kv heads, K and V head dims, K' features of a key (K but for two maps),
// M memory slots, I channels of the channel mix.
#pragma once

#include <cstdint>
#include <variant>

namespace runnel {

/// Elementwise function on values or on the mixer's output.
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
  slots,  // gated, window and sink slots under one softmax (arXiv:2409.07146): SlotSpec
  recurrence,  // S <- diag(a) S diag(b) + k v^T, o = scale S^T q; twice with a softmax over M slots between if
               // there are slots; with a removal S <- diag(a) S + b (c^T S) + k v^T: RecurrenceSpec
};

/// How a recurrence forgets. a lies along the keys, b along the values; what is not named is 1.
enum class Decay {
  none,   // a = 1
  fixed,  // a = 1 - 2^(-5 - h) for head h
  log_sigmoid,  // a = exp(max(floor, logsigmoid(f + bias) / tau)), raised to a lower bound if the model has one
  refined,      // g = sigmoid(f + bias), r = sigmoid(r + bias): (1 - r) g^2 + r (1 - (1 - g)^2)
  running_sum,  // z' = logaddexp(z, f): exp(z - z'), and exp(f - z') is what a slot takes in
  softplus,     // a = exp(-e^A softplus(f + bias)), one f and one A a head
  bounded,      // a = exp(-e^(-1/2) sigmoid(f + bias)), so above 0.545
};

/// What a recurrence takes out of its state before it adds: S <- diag(a) S + b (c^T S) + k v^T, of the S before.
enum class Removal {
  none,   // nothing: b = 0
  delta,  // what the key holds: beta = removal_scale sigmoid(r): c = a k, b = -beta k, k <- beta k
  own_key,  // what a key of its own holds: c = -(k w_c) of length 1, rate = sigmoid(r + bias): b = -rate c,
            // k <- k (1 + (rate - 1) w_k)
};

/// How q and k of each head are scaled after the map.
enum class KeyNorm {
  none,
  length,  // x * rsqrt(sum x^2 + 1e-6)
  sum,     // x / sum x
};

/// A norm over the channels of the residual stream.
enum class Norm {
  rms,    // x * rsqrt(mean(x^2) + eps) * w
  layer,  // (x - mean(x)) * rsqrt(var(x) + eps) * w + b
};

/// The norm of the mixer's output, an RMSNorm but for groups.
enum class OutputNorm {
  none,
  channels,  // over all HQ*V channels, weight [HQ*V]
  heads,     // over each head's V channels, one weight [V] for all heads
  groups,    // a LayerNorm over each head's V channels, weight and bias [HQ*V]
};

/// What follows the mixer in a layer.
enum class ChannelMix {
  swiglu,        // x += W_down(silu(W_gate x~) * W_up x~)
  squared_relu,  // x += W_down(relu(W_up x~)^2)
  none,
};

struct NormSpec {
  Norm kind = Norm::rms;
  float eps = 1e-6F;

  bool operator==(const NormSpec&) const = default;
};

/// What both mixers have.
struct MixerSpec {
  std::int32_t num_memory_slots = 0;  // M gated slots; 0: a recurrence of one pass
  double rope_theta = 10000.0;   // rotary base of window and sink slots, or of all keys (rotary)
  float scale = 1.0F;            // factor of every slot logit, or of a recurrence's output
  float gate_normalizer = 8.0F;  // tau: log alpha = logsigmoid(f) / tau
  float gate_log_min = 0.0F;     // floor of log alpha; 0 means none, else negative
  FeatureMap feature_map = FeatureMap::swish;  // on q and k

  bool operator==(const MixerSpec&) const = default;
};

/// Slots of three kinds under one softmax: sinks, window, memory, in this order.
struct SlotSpec : MixerSpec {
  std::int32_t num_sink_slots = 0;    // written once, by tokens 0 … num_sink_slots-1
  std::int32_t num_window_slots = 0;  // ring: token t writes slot (t - sinks) mod window
  std::int32_t sink_distance = 0;     // bound of a sink's rotary distance; 0 without sinks
  Activation value_activation = Activation::swish;

  std::int32_t num_positional_slots() const { return num_sink_slots + num_window_slots; }
  std::int32_t num_slots() const { return num_positional_slots() + num_memory_slots; }
  bool operator==(const SlotSpec&) const = default;
};

/// The gated recurrence and what its members have of it.
struct RecurrenceSpec : MixerSpec {
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
  Activation value_activation = Activation::identity;  // on v

  Removal removal = Removal::none;
  float removal_scale = 1.0F;        // of beta; delta only
  KeyNorm key_norm = KeyNorm::none;  // with a removal only
  // State heads that share one head of q and k; with a removal only.
  std::int32_t values_per_key = 1;
  bool bonus = false;  // y += (sum of q k w) v of each head, behind the output norm

  // For shifted projections (LayerSpec::mixer_shift), all of low rank.
  std::int32_t rate_rank = 0;         // r = W2 (W1 x)
  std::int32_t output_gate_rank = 0;  // 0: no output gate
  // v <- v + (v of the first layer - v) sigmoid(W2 (W1 x) + bias); 0: v stays.
  std::int32_t value_rank = 0;
  bool first_values = false;  // v is what later layers mix theirs with

  bool has_gate() const {
    switch (decay) {
      case Decay::none:
      case Decay::fixed:
        return false;
      case Decay::log_sigmoid:
      case Decay::refined:
      case Decay::running_sum:
      case Decay::softplus:
      case Decay::bounded:
        return true;
    }
    return false;
  }
  bool operator==(const RecurrenceSpec&) const = default;
};

/// One layer: x += mixer(norm(x)), then x += channel mix(norm(x)).
struct LayerSpec {
  std::int32_t index = 0;  // its place in the model, and in the state

  NormSpec norm;                  // before the mixer
  std::int32_t num_heads = 0;     // HQ
  std::int32_t num_kv_heads = 0;  // H, divides HQ; query head h reads kv head h / (HQ / H)
  std::int32_t head_k_dim = 0;    // K, even when there are positional slots
  std::int32_t head_v_dim = 0;    // V
  bool qkv_bias = false;          // q, k and v have biases (k none with complement_keys)
  std::int32_t conv_size = 0;     // taps of the depthwise causal convolutions on q, k, v; 0: none
  bool conv_silu = true;          // silu after the convolutions
  // D: the mixer's inputs lie between norm(x) and that of the token before; 0: no.
  std::int32_t mixer_shift = 0;
  std::variant<SlotSpec, RecurrenceSpec> mixer;

  Activation output_activation = Activation::swish;  // on o, before the output norm
  OutputNorm output_norm = OutputNorm::channels;
  float output_norm_eps = 1e-5F;
  bool output_gate = false;  // the output norm's result times act(W_g x)
  Activation gate_activation = Activation::swish;

  NormSpec channel_norm;  // before the channel mix
  ChannelMix channel_mix = ChannelMix::swiglu;
  std::int32_t channel_shift = 0;      // as mixer_shift; squared_relu only
  std::int32_t intermediate_size = 0;  // I; 0 without a channel mix

  Mixer kind() const {
    return std::holds_alternative<SlotSpec>(mixer) ? Mixer::slots : Mixer::recurrence;
  }
  /// The mixer's own description; the layer must have this kind.
  const SlotSpec& slots() const { return std::get<SlotSpec>(mixer); }
  SlotSpec& slots() { return std::get<SlotSpec>(mixer); }
  const RecurrenceSpec& recurrence() const { return std::get<RecurrenceSpec>(mixer); }
  RecurrenceSpec& recurrence() { return std::get<RecurrenceSpec>(mixer); }
  /// What both kinds have.
  const MixerSpec& common() const {
    return std::visit([](const auto& m) -> const MixerSpec& { return m; }, mixer);
  }
  MixerSpec& common() {
    return std::visit([](auto& m) -> MixerSpec& { return m; }, mixer);
  }

  std::int32_t queries_per_kv_head() const { return num_heads / num_kv_heads; }
  /// State head h reads head h / values_per_key() of q and k.
  std::int32_t values_per_key() const {
    return kind() == Mixer::recurrence ? recurrence().values_per_key : 1;
  }
  std::int32_t q_channels() const { return num_heads / values_per_key() * head_k_dim; }     // HQ*K
  std::int32_t k_channels() const { return num_kv_heads / values_per_key() * head_k_dim; }  // H*K
  std::int32_t v_channels() const { return num_kv_heads * head_v_dim; }                     // H*V
  std::int32_t o_channels() const { return num_heads * head_v_dim; }                        // HQ*V

  /// Features of a head's key after the map: K'.
  std::int32_t feature_dim() const {
    switch (common().feature_map) {
      case FeatureMap::hedgehog:
        return 2 * head_k_dim;
      case FeatureMap::dpfp:
        return 8 * head_k_dim;
      case FeatureMap::identity:
      case FeatureMap::swish:
      case FeatureMap::relu:
      case FeatureMap::t2r:
      case FeatureMap::elu:
      case FeatureMap::product:
      case FeatureMap::exponential:
        return head_k_dim;
    }
    return head_k_dim;
  }

  /// Gate logits of one kv head, F: along the slots, the values or the keys; 0: there is no gate.
  std::int32_t gate_dim() const {
    switch (kind()) {
      case Mixer::slots:
        return slots().num_memory_slots;
      case Mixer::recurrence: {
        const RecurrenceSpec& r = recurrence();
        if (!r.has_gate()) return 0;
        if (r.num_memory_slots > 0) return r.num_memory_slots;
        if (r.decay == Decay::softplus) return 1;
        return r.decay_on_values ? head_v_dim : feature_dim();
      }
    }
    return 0;
  }
  std::int32_t gate_channels() const { return num_kv_heads * gate_dim(); }  // H*F

  /// Logits r of one kv head: of a refined gate, or of the rate of a removal; 0: there are none.
  std::int32_t rate_dim() const {
    if (kind() == Mixer::slots) return 0;
    switch (recurrence().removal) {
      case Removal::none:
        return recurrence().decay == Decay::refined ? gate_dim() : 0;
      case Removal::delta:
        return 1;
      case Removal::own_key:
        return head_k_dim;
    }
    return 0;
  }
  std::int32_t rate_channels() const { return num_kv_heads * rate_dim(); }  // H*R

  /// Inputs of shifted projections: one for each of q, f, k, v, r and the output gate, in this order.
  std::int32_t shifted_inputs() const { return mixer_shift == 0 ? 0 : output_gate ? 6 : 5; }

  /// Columns of a head's state: the values and, with a normalizer, the sum of the keys.
  std::int32_t value_columns() const {
    return head_v_dim + (kind() == Mixer::recurrence && recurrence().normalizer ? 1 : 0);
  }

  /// Whether keys or queries are turned by their position.
  bool rotates() const {
    switch (kind()) {
      case Mixer::slots:
        return slots().num_positional_slots() > 0;
      case Mixer::recurrence:
        return recurrence().rotary;
    }
    return false;
  }

  bool operator==(const LayerSpec&) const = default;
};

/// Whether two layers compute the same function of their weights, wherever they stand in the model.
inline bool alike(LayerSpec a, const LayerSpec& b) {
  a.index = b.index;
  return a == b;
}

}  // namespace runnel
