// SPDX-License-Identifier: Apache-2.0
// Host-callable launchers of what only long passes run. Pointers are device pointers; shapes as in launch.h.
#pragma once

#include "cuda/launch.h"

namespace runnel::cuda {

// ---- matmul_wide.cu: matrix products of the copy engine and warp groups, sm_90a alone

/// What becomes of C[t, r] = sum_k A[t, k] B[r, k].
enum class WideOutput : std::int32_t {
  store_f32,
  add_f32,     // C += , one writer per element: the same sum every time
  store_bf16,  //
  swiglu,      // rows alternate gate, up: C [T, rows / 2] bf16 = silu(gate) * up
  slots,       // rows are q, k, v, f of a slot mixer: see SlotColumns
};

/// Where the projections of a slot mixer go.
struct SlotColumns {
  // rows of the matrix, in this order; q + k, q + k + v and f are multiples of 64
  std::int32_t q = 0, k = 0, v = 0, f = 0;
  std::uint16_t* activated = nullptr;  // bf16 [T, q + k + v]
  float* gates = nullptr;              // f32 [T, f]
  Act qk_act = Act::identity, v_act = Act::identity;
};

struct WideMatmul {
  Matmul p;  // c_bf16 and add are not read: see output. Leading dimensions are multiples of 8
  WideOutput output = WideOutput::store_f32;
  SlotColumns slots;
};

/// How the work is cut.
struct WideTuning {
  std::int32_t columns = 256;  // rows of B a tile: 128 or 256
  std::int32_t group = 16;     // 128-token tiles that neighbours in time share
  bool halves = true;          // cut the last tiles where most multiprocessors would idle
};

/// Whether this device and build have the kernel. Call once a device, before the first product.
bool prepare_wide_matmul();
bool wide_matmul_fits(const WideMatmul&);
cudaError_t wide_matmul(const Launch&, const WideMatmul&, const WideTuning&);

// ---- slot_chunks.cu, slot_gates.cu, slot_states.cu, slot_read.cu: the slot recurrence, chunk by chunk;
// ---- broad_slot_operands.cu, broad_slot_read.cu: the same for larger states and keys with biases

/// Which chunkwise kernels take a mixer.
enum class ChunkKernels : std::int32_t {
  none,
  narrow,  // up to 64 memory slots and a window of 64, keys in bf16
  broad,   // up to 128 and 256, heads of up to 64, keys as sums of two bf16, gates with a floor
};
/// Ways of broad_slot_read.cu and broad_slot_whole.cu.
enum class BroadRead : std::int32_t {
  tiles,  // a block a chunk and query head; tiles pass by
  whole,  // a block a chunk and kv head, all whose tiles stay in shared memory: 198 KB, sm_90a alone; else tiles
};
inline constexpr int kBroadMemory = 128;
inline constexpr int kBroadWindow = 256;
inline constexpr int kBroadHeadDim = 64;

/// Operands and scratch of the chunkwise kernels for T tokens in chunks of 64. The rotated copies
/// are used only with positional slots. "Memory" is the state's gated slots.
struct ChunkOperands {
  // bf16, by the caller (`ready`) or made of SlotMixer::inputs, mapped or (not `prepared`) raw:
  std::uint16_t* q = nullptr;         // [T, HQ, K]
  std::uint16_t* q_turned = nullptr;  // [T, HQ, K]       rotated by t
  std::uint16_t* q_near = nullptr;    // [T, HQ, K]       rotated by min(t, sink_distance)
  std::uint16_t* k = nullptr;         // [T, H, K]
  // [64 + T, H, K]   row 64 is the first token; before: the window
  std::uint16_t* k_turned = nullptr;
  std::uint16_t* v = nullptr;       // [64 + T, H, V]   likewise
  std::uint16_t* k_sink = nullptr;  // [16, H, K]
  std::uint16_t* v_sink = nullptr;  // [16, H, V]
  std::int32_t q_stride = 0;        // values from row to row of q, k and v; 0: no gaps
  std::int32_t k_stride = 0;
  std::int32_t v_stride = 0;
  // [T, gate_stride]: f [H, M], made likewise; log alpha where `prepared`. Broad: null, read in SlotMixer::inputs
  float* gates = nullptr;
  std::int32_t gate_stride = 0;
  bool ready = false;                 // q, k, v are there already; without positional slots only
  std::uint16_t* out_bf16 = nullptr;  // [T, HQ, V] instead of SlotMixer::out
  // Broad kernels alone, which have no q here, 256 rows instead of 64 before k_turned and v, and k, keys without
  // SlotMixer::k_bias. What the bf16 above have lost by rounding, as bf16:
  std::uint16_t* k_turned_low = nullptr;
  std::uint16_t* k_sink_low = nullptr;
  std::uint16_t* keys_low = nullptr;
  float2* rotation = nullptr;  // [T + 1, K/2] cos, sin: of every token; of sink_distance
  // Scratch of a chunk and kv head, or, broad, of a chunk, kv head and 64 of its slots; G is the running sum of log2
  // alpha inside the chunk, R half of its last row:
  float* decay = nullptr;           // [chunks, H, 64]      2^G_last
  float* centre = nullptr;          // [chunks, H, 64]      2^R
  float* rise = nullptr;            // [chunks, H, 64, 64]  2^(G_t - R), or G_t where `strong`
  std::uint16_t* write = nullptr;   // [chunks, H, 64, 64]  bf16 s_j 2^(R - G_j)
  std::uint16_t* carry = nullptr;   // [chunks, H, 64, 64]  bf16 s_j 2^(G_last - G_j)
  std::int32_t* strong = nullptr;   // [chunks, H]          the powers above would overflow
  std::uint16_t* keys = nullptr;    // [chunks, H, 64, K]   bf16: the memory at a chunk's start
  std::uint16_t* values = nullptr;  // [chunks, H, 64, V]
  // Broad kernels alone: of the spans in which the chunks are walked (BroadTuning), starts and decays.
  float* ends = nullptr;        // [spans, H, blocks of 64 slots, 64, K + V, each rounded up to 32]
  float* span_decay = nullptr;  // [spans, H, blocks of 64 slots, 64]
};

inline constexpr int kMostSpans = 8;

/// How the broad kernels do their work.
struct BroadTuning {
  // Spans of chunks whose memories are walked side by side, 1 … kMostSpans.
  std::int32_t spans = kMostSpans;
  BroadRead read = BroadRead::whole;
};

/// What the chunkwise kernels run on. All but the number of tokens is read on the device, so that a
/// recorded launch serves every session.
struct ChunkPass {
  const Segment* segment = nullptr;
  std::int32_t tokens = 0;  // segment->count
  BroadTuning broad;
};

/// The same function as slot_recurrent for one segment advanced in place: bf16 operands, f32 sums,
/// f32 gates and states.
cudaError_t slot_chunks(const Launch&, const SlotMixer&, const ChunkPass&, const ChunkOperands&);
ChunkKernels chunk_kernels_of(const SlotMixer&);
/// Allows their shared memory. An error means that this device has too little: use slot_recurrent.
cudaError_t prepare_slot_chunks();

/// Projections of a slot mixer as products left them, to operands in place: q, k, v one bf16 matrix
/// [T, q + k + v] at o.q.
cudaError_t activate_projections(const Launch&, const SlotMixer&, int tokens, const ChunkOperands&);

/// The parts, in order.
cudaError_t slot_operands(const Launch&, const SlotMixer&, const ChunkPass&, const ChunkOperands&);
cudaError_t slot_gates(const Launch&, const SlotMixer&, const ChunkPass&, const ChunkOperands&);
cudaError_t slot_states(const Launch&, const SlotMixer&, const ChunkPass&, const ChunkOperands&);
cudaError_t slot_read(const Launch&, const SlotMixer&, const ChunkPass&, const ChunkOperands&);
cudaError_t prepare_slot_states();
cudaError_t prepare_slot_read();
cudaError_t broad_slot_operands(const Launch&, const SlotMixer&, const ChunkPass&,
                                const ChunkOperands&);
cudaError_t broad_slot_read(const Launch&, const SlotMixer&, const ChunkPass&,
                            const ChunkOperands&);
cudaError_t prepare_broad_slot_read();

}  // namespace runnel::cuda
