// SPDX-License-Identifier: Apache-2.0
// Host-callable launchers of recurrences with a removal and of inputs between a token and the one before (removal.cu,
// token_shift.cu). Nothing here owns memory; every pointer is a device pointer. Shapes as in launch.h; a state head is a
// value head, and reads head h / values_per_key of q and k.
#pragma once

#include "cuda/launch.h"
#include "cuda/recurrence.h"
#include "runtime/model/layer_spec.h"

namespace runnel::cuda {

/// One layer: constants, weights, buffers. Null pointers: the model has no such tensor.
struct RemovalLayer {
  std::int32_t heads, values_per_key, k_dim, v_dim;
  Decay decay;
  FeatureMap map;
  Removal removal;
  KeyNorm key_norm;
  Act v_act;
  float scale, removal_scale;
  const float* f_bias;                                   // [H*F]
  const float* r_bias;                                   // [H*K]
  const float* log_rate;                                 // [H]
  const float* removal_key;                              // [H*K]
  const float* key_rate;                                 // [H*K]
  const float* bonus_weight;                             // [H*K]
  std::size_t layer_offset, head_floats, values_offset;  // in the state
  const float* inputs;                                   // [T, at.stride], after the convolutions
  RecurrenceColumns at;
  float* q;      // [T, H, K] times scale
  float* k;      // [T, H, K]
  float* a;      // [T, H, K]; nothing without a decay
  float* c;      // [T, H, K]
  float* b;      // [T, H, K]
  float* bonus;  // [T, H] or null
  float* o;      // [T, H, V]
};

/// inputs -> q, k, a, c, b, bonus.
cudaError_t removal_inputs(const Launch&, const RemovalLayer&, int tokens);
/// S <- diag(a) S + b (c^T S) + k v^T, of the S before; o = S^T q. In f32, token by token.
cudaError_t removal_core(const Launch&, const RemovalLayer&, const Segment* segments,
                         int num_segments);
/// Whether a state's rows fit the registers of the lanes that share a column.
bool removal_fits(const RemovalLayer&);

inline constexpr int kRemovalChunk = 16;
/// The same for long segments, kRemovalChunk tokens at a time (removal_chunks.cu). q, k, c and b are overwritten.
struct RemovalChunks {
  float* taken;  // [T, H, V]
  // [chunks, H, K]: every segment's tokens, the last chunk of each with what is left
  float* kept;
};
cudaError_t removal_chunks(const Launch&, const RemovalLayer&, const RemovalChunks&,
                           const Segment* segments, int num_segments, int tokens);
/// Whether there is a kernel for heads of this size.
bool removal_chunks_fit(const RemovalLayer&);

/// y = (norm(o) + bonus v) * gate, [T, H*V]; the norm a LayerNorm of each head, or none.
struct RemovalOutput {
  const float* o = nullptr;  // [T, H, V]
  std::int32_t heads = 0, v_dim = 0;
  bool normalise = false;
  float eps = 0.0F;
  const float* weight = nullptr;  // [H*V]
  const float* bias = nullptr;    // [H*V]
  const float* bonus = nullptr;   // [T, H] or null
  const float* inputs = nullptr;  // [T, at.stride]: v and the gate
  RecurrenceColumns at;
  float* y = nullptr;
  std::uint16_t* y_bf16 = nullptr;  // instead of y
};
cudaError_t removal_output(const Launch&, const RemovalOutput&, int tokens);

/// out[j][t] = h[t] + lerp[j] (h[t - 1] - h[t]); h [T, n], out[j] rows of n at out + j * input_floats. The row before
/// the first of a segment is in its state at `offset`, and its last row goes there.
struct TokenShift {
  const float* rows = nullptr;
  const float* lerp = nullptr;  // [inputs, n]
  std::int32_t n = 0, inputs = 0;
  std::size_t offset = 0;
  float* out = nullptr;
  std::size_t input_floats = 0;
};
cudaError_t token_shift(const Launch&, const TokenShift&, const Segment* segments,
                        int num_segments);

/// The same of norm(x), for many tokens: out[j] rows of n as bf16, out + j * input_values.
struct ShiftedRows {
  const float* x = nullptr;  // [T, n]
  std::int32_t n = 0, inputs = 0;
  bool centred = false;  // LayerNorm, else RMSNorm
  float eps = 0.0F;
  const float* weight = nullptr;  // [n] or null
  const float* bias = nullptr;    // [n] or null
  const float* lerp = nullptr;    // [inputs, n]
  std::size_t offset = 0;         // a multiple of 4
  std::uint16_t* out = nullptr;
  std::size_t input_values = 0;
};
cudaError_t shifted_rows(const Launch&, const ShiftedRows&, const Segment* segments,
                         int num_segments, int tokens);
bool shifted_rows_fit(int n);

/// What lies between two products of low rank.
enum class Between : std::int32_t { nothing, tanh, sigmoid };
/// out[t, i] = f(x[t, i]), i < n;  x [T, stride], out [T, n].
cudaError_t between_rows(const Launch&, Between, const float* x, int stride, int n, float* out,
                         int count);

/// The same of up to four products at once, as operands: out[t, i] bf16 [T, padded], zeros from `rank` on.
struct LowRank {
  Between between = Between::nothing;
  std::int32_t at = 0;  // column of x
  std::int32_t rank = 0, padded = 0;
  std::uint16_t* out = nullptr;
};
struct LowRanks {
  LowRank all[4];
  std::int32_t count = 0;
};
cudaError_t low_ranks(const Launch&, const LowRanks&, const float* x, int stride, int tokens);

/// v[t] <- v[t] + (first[t] - v[t]) sigmoid(mix[t] + bias);  v and mix rows of `stride`, first [T, n].
struct ValueMix {
  float* v = nullptr;
  const float* mix = nullptr;
  std::int32_t stride = 0;
  const float* bias = nullptr;
  const float* first = nullptr;
  std::int32_t n = 0;
};
cudaError_t mix_values(const Launch&, const ValueMix&, int count);

}  // namespace runnel::cuda
