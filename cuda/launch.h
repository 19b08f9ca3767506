// SPDX-License-Identifier: Apache-2.0
// Host-callable launchers of the device code. Nothing here owns memory; every pointer is a device pointer.
//
// Shapes in comments: T tokens of a pass, D hidden, HQ query heads, H kv heads, G = HQ/H, K and V
// head dims, M memory slots, P positional slots (sinks then window), S = P + M.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "quant/formats.h"

namespace runnel::cuda {

using quant::BlockType;

/// Where and how a kernel is launched.
struct Launch {
  cudaStream_t stream = nullptr;
  bool chain = false;  // programmatic dependent launch: start early, wait inside (sm_90 and later)
  int cluster_limit = 1;  // most blocks of a cluster (8 on sm_90 and later, else 1)
  int multiprocessors = 1;
};

/// The first unit of block `block` where `blocks` blocks share `units` evenly; that of block + 1 is its end.
constexpr std::int32_t first_unit(std::int32_t units, std::int32_t block, std::int32_t blocks) {
  return static_cast<std::int32_t>(std::int64_t{units} * block / blocks);
}

/// A weight matrix [rows, cols] on the device, columns padded with zeros.
///
/// Plain types (f32, f16, bf16) stay row-major; a chunk is 16 bytes. Block types are stored as the
/// stream in which warps read them: tiles of 32/lanes rows; in a tile, `steps` steps; in a step,
/// one block of 32 values for each of 32 lanes; lane t holds row tile * (32/lanes) + t / lanes,
/// block step * lanes + t % lanes. A block's 16-byte parts lie [step][part][lane], so that each
/// load of a warp is 512 contiguous bytes.
struct Matrix {
  BlockType type = BlockType::f32;
  std::int32_t rows = 0;
  std::int32_t cols = 0;       // padded: multiple of 32 (block types), of a chunk otherwise
  std::int32_t lanes = 1;      // lanes of a warp that share a row: 1, 2, 4 or 8
  std::int32_t steps = 0;      // loads of a lane that cover its share of a row
  const void* data = nullptr;  // 16-byte units
  // per block: f16 d (q8_0, q4_0, q5_0), f16x2 d*scale, dmin*min (q4_k, q5_k), f16x2 of the halves (q6_k), f32x4 scale and
  // offset of both halves (wide)
  const void* scales = nullptr;
  // q6_k: 8 bytes per block, the upper two bits; q5_0, q5_k: 4 bytes, the fifth bits
  const void* high = nullptr;
  std::int32_t tile_rows() const { return 32 / lanes; }
  std::int32_t tiles() const { return (rows + tile_rows() - 1) / tile_rows(); }
};

enum class Act : std::int32_t { identity = 0, swish = 1, relu = 2 };

/// One item of a pass: its tokens are rows [first, first + count) of the pass.
struct Segment {
  const float* state_in = nullptr;  // canonical layout, see StateLayout
  float* state_out = nullptr;       // may equal state_in
  std::uint64_t position = 0;       // of the first token
  std::int32_t first = 0;
  std::int32_t count = 0;
};

// ---- embed.cu -----------------------------------------------------------------------------------

/// x[t] = table[tokens[t]].  x [T, D] f32.
cudaError_t embed(const Launch&, const Matrix& table, const std::int32_t* tokens, int count, int d,
                  float* x);

// ---- matvec.cu: products for few tokens, weights read once per token ----------------------------

/// int8 activations: per block of 32 values 8 words of 4 and {f32 scale, i16 sum of values 0-15, i16 sum of 16-31}.
struct QuantisedVector {
  std::int32_t* words = nullptr;  // [n / 4]
  int2* meta = nullptr;           // [n / 32]
};

struct MatvecSegment {
  Matrix w;
  float* out = nullptr;  // [T, out_stride], row r of w goes to out[r]
  std::int32_t out_stride = 0;
  std::int32_t tiles_per_block = 1;  // filled in by the launcher
  std::int32_t first_block = 0;
};

/// out = W f(x): the input is activated, multiplied by norm_weight and, with `normalise`, divided by its RMS.
struct Matvec {
  const float* x = nullptr;  // [T, x_stride]; null: `quantised` is the input
  std::int32_t n = 0;        // inputs
  std::int32_t x_stride = 0;
  Act act = Act::identity;
  const float* norm_weight = nullptr;  // [n] or null
  bool normalise = false;
  float eps = 0.0F;
  QuantisedVector quantised;
  MatvecSegment segments[4];
  std::int32_t num_segments = 0;
};

enum class MatvecOutput { store, add, swiglu };

/// swiglu: the one segment's rows alternate gate, up; h = silu(gate) * up goes to `h` [T, rows/2]
/// (f32) and, where `hq.words` is set, quantised instead.
cudaError_t matvec(const Launch&, MatvecOutput, Matvec, int tokens, float* h, QuantisedVector hq);

/// Allows the large shared memory that long inputs need. Call once a device.
cudaError_t prepare_matvec();

// ---- slot_attention.cu --------------------------------------------------------------------------

/// Constants and buffers of the slot mixer of one layer.
struct SlotMixer {
  std::int32_t heads, kv_heads, k_dim, v_dim;
  std::int32_t sinks, window, memory;
  std::int32_t sink_distance;
  float scale, gate_normalizer, gate_log_min;
  Act qk_act, v_act;
  bool prepared;                // inputs are mapped already and f is log alpha: see slot_inputs
  const float* f_bias;          // [H, M] or null
  const float* read_bias;       // [H, M] or null
  const float* head_read_bias;  // [HQ] or null
  // [K/2] rotary turns per token, theta^(-2i/K) / 2 pi; null without positional slots
  const double* turns;
  std::size_t layer_offset;  // floats into the state
  std::size_t head_floats;   // S * (K + V)
  const float* inputs;       // [T, stride]: q [HQ, K], k [H, K], v [H, V], f [H, M]
  std::int32_t input_stride;
  float* out;  // [T, HQ * V]
  // For slot_running alone: gates that depend on the tokens before: log alpha = -log(1 + e^(f - z)),
  // z the log of the sum of e^f so far, [M] floats of the state at `sums` of a head; f is clamped.
  bool running = false;
  bool rotary = false;  // q and k are rotated by their position, and no slot is positional
  float clamp_min = 0.0F, clamp_max = 0.0F;  // both 0: no clamp
  std::size_t sums = 0;
  // [H, K] or null: what every key of `inputs` has in common. The chunkwise kernels take it out of what they round.
  const float* k_bias = nullptr;
  // [HQ K + H K + H V] or null: what q, k and v of `inputs` still lack. The broad chunkwise kernels add it.
  const float* qkv_bias = nullptr;
};

/// The recurrence, token by token, all in f32: state in registers, one cluster of blocks a kv head.
cudaError_t slot_recurrent(const Launch&, const SlotMixer&, const Segment* segments,
                           int num_segments);
/// Whether the shape fits the kernel on this device (slots times head dim are kept in registers).
bool slot_recurrent_fits(const Launch&, const SlotMixer&);
/// The same with running gates, or a rotation of q and k.
cudaError_t slot_running(const Launch&, const SlotMixer&, const Segment* segments,
                         int num_segments);
bool slot_running_fits(const Launch&, const SlotMixer&);

struct SlotInputs {
  SlotMixer mixer;                // `inputs` is read and written
  std::int32_t conv = 0;          // taps, 0: none
  const float* q_conv = nullptr;  // [HQ*K, conv], f32
  const float* k_conv = nullptr;
  const float* v_conv = nullptr;
  const float* t2r = nullptr;   // [K, K] f32: relu(W x) on q and k of each head
  std::size_t conv_offset = 0;  // floats into the state of this layer's tails: q, k, v
  float* raw = nullptr;         // [T, stride] scratch, where conv or t2r need one
};

/// Convolutions, activations, feature maps and gates; advances the convolution tails. After it
/// `inputs` holds mapped q, k, v and f = log alpha.
cudaError_t slot_inputs(const Launch&, const SlotInputs&, const Segment* segments, int num_segments,
                        int tokens);

// ---- the chunkwise recurrence: see prefill.h

inline constexpr int kChunk = 64;  // tokens of one chunk
inline constexpr int kMostSinks = 16;

// ---- matmul.cu, rows.cu: products for many tokens -----------------------------------------------

/// C[t, r] = or += sum_k A[t, k] B[r, k];  A bf16 [T, lda], B bf16 [rows, ldb], f32 sums. K a multiple of 8.
struct Matmul {
  const void* a = nullptr;
  std::int32_t lda = 0;
  const void* b = nullptr;
  std::int32_t ldb = 0;
  std::int32_t tokens = 0, rows = 0, inner = 0;
  void* c = nullptr;  // f32, or bf16 with c_bf16
  std::int32_t ldc = 0;
  bool add = false;
  bool c_bf16 = false;
};
cudaError_t matmul_bf16(const Launch&, const Matmul&);
cudaError_t prepare_matmul();
/// The same with f32 operands and plain f32 arithmetic.
cudaError_t matmul_f32(const Launch&, const Matmul&);

/// The matrix as bf16 [rows, cols], row-major.
cudaError_t unpack_bf16(const Launch&, const Matrix&, void* out);

/// out[t] = norm(act(x[t])) * weight as bf16 or f32 [T, out_stride], padded with zeros.
struct Rows {
  const float* x = nullptr;
  const std::uint16_t* x_bf16 = nullptr;  // instead of x
  std::int32_t x_stride = 0, n = 0, out_stride = 0;
  const std::int32_t* gather = nullptr;  // row of x for each output row, or null
  Act act = Act::identity;
  bool normalise = false;
  float eps = 0.0F;
  const float* weight = nullptr;
  void* out = nullptr;
  bool out_bf16 = true;
};
cudaError_t norm_rows(const Launch&, const Rows&, int count);

/// h[t, i] = silu(gu[t, 2i]) * gu[t, 2i+1], i < n, and zeros behind.
struct SwigluRows {
  const void* gu = nullptr;  // [T, gu_stride] bf16 or f32
  bool gu_bf16 = false;
  std::int32_t gu_stride = 0;
  bool split = false;  // up is at gu[t, n + i]
  std::int32_t n = 0;
  void* h = nullptr;  // [T, h_stride] bf16 or f32
  bool h_bf16 = false;
  std::int32_t h_stride = 0;
};
cudaError_t swiglu_rows(const Launch&, const SwigluRows&, int count);

}  // namespace runnel::cuda
