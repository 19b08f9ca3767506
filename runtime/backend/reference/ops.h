// SPDX-License-Identifier: Apache-2.0
// The equations, one function each, in scalar fp32: the specification of every backend and the oracle of its tests.
//
// Buffers are row-major spans; T tokens, D hidden, HQ query heads, H kv heads, K and V head dims, M memory slots.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runnel/types.h"
#include "runtime/model/layer_spec.h"
#include "runtime/model/weights.h"

namespace runnel::reference {

/// How activations are rounded before a product: not at all; to int8 blocks of 32 where the
/// weight is quantised, as fast backends do; bf16 where it is not f32, as tensor cores take many
/// tokens (the outputs of the SwiGLU's first half then are bf16 too, the logits stay exact).
enum class Activations { exact, rounded, tensor };

/// y = x * sigmoid(x)
float swish(float x);

/// log(sigmoid(x)), exact for large |x|
float log_sigmoid(float x);

/// The elementwise function `a` at x.
float activate(Activation a, float x);

/// out = x * rsqrt(mean(x^2) + eps) * w; without w: out = x * rsqrt(mean(x^2) + eps).
void rms_norm(std::span<const float> x, const WeightView& w, float eps, std::span<float> out);

/// The norm of each row of x [T, D] as `spec` says: an RMSNorm, or LayerNorm
///   out = (x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps) * w + b
void norm(const NormSpec& spec, const NormWeights& w, std::span<const float> x,
          std::span<float> out);

/// y[t, r] += bias[r];  y [T, rows]. Nothing without a bias.
void add_bias(const WeightView& bias, std::span<float> y);

/// Each block of 32 values (the last may be shorter) becomes d * round(x / d), d = max|x| / 127.
void round_to_int8_blocks(std::span<float> x);

/// Each value to the nearest bf16, ties to even.
void round_to_bf16(std::span<float> x);

/// y[t, r] = sum_c w[r, c] x[t, c];  x [T, cols], y [T, rows].
void linear(const WeightView& w, Activations activations, std::span<const float> x,
            std::span<float> y);

/// x[t] = table[tokens[t]];  x [T, D].
void embed(const WeightView& table, std::span<const TokenId> tokens, std::span<float> x);

/// Causal depthwise convolution over T tokens, with silu or without:
///   y_t[c] = silu(sum_j w[c, j] x_{t-W+1+j}[c])
/// x [T, C] in and out; tail [C, W] holds the last W inputs, oldest first, and is advanced.
void short_conv(const WeightView& w, bool silu, std::span<float> x, std::span<float> tail);

/// phi(x) on each head of x [T, heads * K]; `map` is the [K, K] matrix of t2r.
void feature_map(FeatureMap kind, const WeightView& map, std::int32_t head_dim, std::span<float> x);

/// log alpha = max(floor, logsigmoid(f + bias) / tau), in place on f [T, H*M]. A floor of 0 means none.
void log_decay(const WeightView& bias, float normalizer, float floor, std::span<float> f);

/// Rotates pairs (i, i + K/2) of x [K] by position * theta^(-2i/K); angles in double, so positions have no bound.
void rotate(std::span<float> x, double position, double theta);

/// One kv head's inputs of one token.
struct SlotInput {
  std::span<const float> q;               // [G, K] queries of the G heads that share this kv head
  std::span<const float> k;               // [K]
  std::span<const float> v;               // [V]
  std::span<const float> log_alpha;       // [M]
  std::span<const float> s;               // [M] write gate
  std::span<const float> read_bias;       // [M] or empty
  std::span<const float> head_read_bias;  // [G] or empty
};

/// One token of one kv head: update the slots, then read.
///   sink and window slots:  K~ <- R(t) k,          V~ <- v           at slot t (t < sinks)
///                                                                    or sinks + (t - sinks) mod window
///   memory slots:           K~ <- alpha K~ + s k,  V~ <- alpha V~ + s v
///   o_g = softmax(scale q_g K~ (+ biases)) V~      over all written slots; queries rotated for positional slots,
///                                                  and by at most sink_distance for sinks
/// @param keys    [slots, K], the state, in canonical slot order
/// @param values  [slots, V], likewise
/// @param o       [G, V]
void slot_step(const LayerSpec& layer, std::uint64_t position, const SlotInput& in,
               std::span<float> keys, std::span<float> values, std::span<float> o);

/// e^x / sum e^x, in place.
void softmax(std::span<float> x);

/// The matrices of a feature map; null where it has none.
struct MapWeights {
  const WeightView* first = nullptr;
  const WeightView* first_bias = nullptr;
  const WeightView* second = nullptr;
  const WeightView* second_bias = nullptr;
};

/// phi(x) of one head, [K] to [K']; divided by its sum + 1e-4 if `normalise`.
std::vector<float> features(FeatureMap kind, const MapWeights& w, bool normalise,
                            std::span<const float> x);

/// S <- diag(a) S diag(b) + k v^T;  S [rows, columns], k [rows], v [columns]; an empty decay is 1.
void recurrence_core(std::span<const float> a, std::span<const float> b, std::span<const float> k,
                     std::span<const float> v, std::span<float> state);

/// The same with a removal, of the state before: S <- diag(a) S + b (c^T S) + k v^T.  b, c [rows]
void removal_core(std::span<const float> a, std::span<const float> b, std::span<const float> c,
                  std::span<const float> k, std::span<const float> v, std::span<float> state);

/// o = scale S^T q
void recurrence_read(std::span<const float> q, float scale, std::span<const float> state,
                     std::span<float> o);

/// One kv head's inputs of one token; empty where the model has no such tensor. F = gate_dim().
struct RecurrenceInput {
  std::span<const float> q;                            // [G, K]
  std::span<const float> k;                            // [K]
  std::span<const float> v;                            // [V]
  std::span<const float> f;                            // [F]
  std::span<const float> r;                            // [R]
  std::span<const float> f_bias, r_bias, lower_bound;  // [F], [R], [F]
  MapWeights q_map, k_map;
  float log_rate = 0.0F;                                       // Decay::softplus
  std::span<const float> removal_key, key_rate, bonus_weight;  // [K]
};

/// One kv head's state, as in StateLayout.
struct HeadState {
  std::span<float> keys;
  std::span<float> values;
  std::span<float> extra;
};

/// One token of one state head with a removal: features, decays, update, read.  o [V]
/// @return the head's bonus, sum q k w; 0 without one
float removal_step(const LayerSpec& layer, const RecurrenceInput& in, std::span<float> state,
                   std::span<float> o);

/// One token of one kv head: features, decays, update, read.  o [G, V]
void recurrence_step(const LayerSpec& layer, std::uint64_t position, int head,
                     const RecurrenceInput& in, const HeadState& state, std::span<float> o);

/// (x - mean(x)) * rsqrt(var(x) + eps) * w + b of each group of `width` channels of a row, in place.  w, b [row]
void group_norm(const WeightView& w, const WeightView& b, float eps, std::size_t width,
                std::span<float> row);

/// What the output projection reads of the pass; empty where the model has no such thing.
struct OutputInput {
  std::span<const float> o;      // [T, HQ*V]
  std::span<const float> gate;   // [T, HQ*V]
  std::span<const float> bonus;  // [T, HQ]
  std::span<const float> v;      // [T, HQ*V]
};

/// x += W_o ((norm(act(o)) + bonus v) * act(gate));  x [T, D].
void output_projection(const LayerSpec& layer, const OutputWeights& w, Activations activations,
                       const OutputInput& in, std::span<float> x);

/// h [T, D] becomes what lies between it and the row before, h + lerp (before - h); `last` [D] is the row before the
/// first, and is advanced.
void shift(std::span<const float> lerp, std::span<float> h, std::span<float> last);

/// x += W_down(silu(W_gate x~) * W_up x~), x~ = norm(x);  x [T, D].
void gated_mlp(const LayerSpec& layer, const ChannelMixWeights& w, Activations activations,
               std::span<float> x);

/// x += W_down(relu(W_up x~)^2);  x [T, D], x~ = norm(x), shifted, [T, D].
void squared_relu_mlp(const LayerSpec& layer, const ChannelMixWeights& w, Activations activations,
                      std::span<const float> normed, std::span<float> x);

/// out = W_head norm(x);  x [T, D], out [T, vocab].
void logits(const NormSpec& norm, const NormWeights& norm_weights, const WeightView& head,
            Activations activations, std::span<const float> x, std::span<float> out);

}  // namespace runnel::reference
