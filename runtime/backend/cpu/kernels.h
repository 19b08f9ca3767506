// SPDX-License-Identifier: Apache-2.0
// The table of SIMD kernels that each instruction set exports, and the layouts they share: weight
// tiles of 16 rows, activation packs of 1, 4 or more tokens. Plain C types only: the kernels' files
// are compiled with other flags than the rest, and no inline function of a common header may be instantiated there.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace runnel::cpu {

// ---- weight tiles -------------------------------------------------------------------------------
// 16 rows of a matrix, so that the lanes of a register are rows: a dot product then needs no sum
// across lanes. A tile is stored in the order in which kernels read it, in records of whole cache lines, so that a run of
// tiles is one stream.
//   float types   [cols][16 rows]
//   q8_0          for every two groups of 32 inputs: d [2][16] f16;  codes [2][8 steps][16 rows][4] u8 = q + 128
//   q4_0          the same, codes [2][4 steps][16 rows][4] u8: low half = step s, high half = step s + 4
//   q5_0          the same, behind the codes of each group fifth bits [16 rows][4] u8: bit s of byte j = input 4s + j
//   q4_1          for each group: d, m [2][16] f16;  codes as q4_0
//   wide          for each group: scale and offset of both 16 inputs [2][2][16] f32;  codes as q8_0
//   q4_k          for each block of 256: d, dmin [2][16] f16;  scales [12 bytes as in the block][16];
//                 codes [4][8 steps][16 rows][4] u8: low half = first group of 32, high half = second
//   q5_k          the same, behind the codes of every two groups the fifth bits of both as q5_0
//   q6_k          for every two blocks: d [2][16] f16;  for each block: scales [16][16] i8,
//                 for each half of it ql [2][8 steps][16 rows][4], qh [8][16][4]
// where step s of a group is its inputs 4s … 4s+3. Where the number of groups is odd, the last record keeps room for another,
// which is neither written nor read; a last single block of Q6_K ends the tile.
constexpr int kTileRows = 16;

enum TileFormat : int {
  kTileF32 = 0,
  kTileF16,
  kTileBf16,
  kTileQ8_0,
  kTileQ4_0,
  kTileQ4_1,
  kTileQ5_0,
  kTileQ4_K,
  kTileQ5_K,
  kTileQ6_K,
  kTileWide,
  kTileFormats,
};

/// Bytes of a group of 32 inputs: codes, with fifth bits; scales, with offsets. Groups of a record: as many as fill whole
/// lines.
struct TileGroup {
  int codes, scales, of_record;
};
constexpr TileGroup kQ8_0Group{512, 32, 2}, kQ4_0Group{256, 32, 2}, kQ5_0Group{320, 32, 2},
    kQ4_1Group{256, 64, 1}, kWideGroup{512, 256, 1};
/// Bytes of a block of 256 inputs: head (before the codes), part (the codes of 64 inputs; Q6_K: 128), all.
struct TileBlock {
  int head, part, all;
};
constexpr TileBlock kQ4_KBlock{256, 512, 2304}, kQ5_KBlock{256, 640, 2816},
    kQ6_KBlock{256, 1536, 3328};
constexpr int kQ6_KPairHead = 64;  // bytes before every two blocks

// ---- activation packs ---------------------------------------------------------------------------
// W tokens together, W one of Kernels::widths. For quantised weights, per group of 32 inputs:
//   q [W][32] i8;  d [W] f32: the scale, a = d * q;  ds [W] f32 = d * sum(q);
//   t [W] i32 = -8 * sum(q);  h [W] i32 = -8 * sum(first 16 of q)
// For float weights: [W][cols] f32. A pack of the tokens [s, s + W) starts at s * (bytes of one token).
constexpr size_t kGroupBytes = 48;  // of one token
constexpr int kWidths = 4;
constexpr int kTokensTogether = 64;  // the most that Kernels::packs_matmul takes at once

/// out[t][r] (+)= sum_c w[r][c] a[t][c] for n_tiles * 16 rows r and the tokens t of a pack, or of several.
struct MatmulArgs {
  const uint8_t* tiles;
  size_t tile_bytes;
  int n_tiles;
  int cols;
  const uint8_t* acts;   // the packs, one behind the other
  float* out;            // [tokens][…], all 16 rows of every tile are written
  ptrdiff_t out_stride;  // floats between tokens
  int accumulate;        // 0: =, 1: +=
  int packs;             // how many; read by Kernels::packs_matmul alone
  // Weights of which Kernels::packs_matmul asks for lines meanwhile, into the second cache; 0 bytes: none.
  const uint8_t* next;
  size_t next_bytes;
};
using MatmulKernel = void (*)(const MatmulArgs&);

// ---- slots --------------------------------------------------------------------------------------
// K~ lies [lanes / 16][channel][16], lanes = slots rounded up to 16: one token reads it from front to back. V~ lies
// [slot][channels rounded up to 16].

constexpr int kKeyLanes = 16;

/// For each token in order: update the keys of lanes [lane_begin, lane_end), then out[h][lane] = q_h . K~[lane].
///   alpha != nullptr  K~ <- alpha K~ + write k
///   alpha == nullptr  the token at position p overwrites slot p (p < sinks) or sinks + (p - sinks) mod window
///   k == nullptr      no update
struct SlotKeysArgs {
  float* keys;
  int lane_begin, lane_end;  // multiples of 16
  int dim;
  int tokens;
  const float* k;
  ptrdiff_t k_stride;  // floats between tokens, as all *_stride
  const float* alpha;
  const float* write;
  ptrdiff_t gate_stride;
  uint64_t position;  // of the first token
  int sinks, window;
  const float* q;
  ptrdiff_t q_stride, q_head;  // q_head: floats between query heads
  int heads;
  float* out;
  ptrdiff_t out_stride, out_head;
  int out_lanes;  // only lanes below this are written to `out`
};

/// p = softmax over the slots that count:
///   scale * x                          positional, slot < valid
///   scale * x + read_bias + head_bias  memory
struct SlotSoftmaxArgs {
  float* logits;  // [positional_lanes + memory_lanes], in place; lanes that do not count become 0
  int positional_lanes, valid;
  int memory_lanes, memory;
  float scale, head_bias;
  const float* read_bias;  // [memory_lanes] or nullptr
};

/// For each token in order: update V~ (as K~), then out[h][c] = sum over slots of p[h][slot]
/// V~[slot][c], channels [begin, end).
struct SlotValuesArgs {
  float* positional;  // [sinks + window][dim]
  float* memory;      // [memory_slots][dim]
  int dim;            // floats between slots
  int begin, end;     // multiples of 16
  int tokens;
  const float* v;
  ptrdiff_t v_stride;
  const float* alpha;
  const float* write;
  ptrdiff_t gate_stride;
  uint64_t position;
  int sinks, window, memory_slots;
  const float* p;
  ptrdiff_t p_stride, p_head;
  int p_memory;  // where the memory slots begin in a row of p
  int heads;
  float* out;
  ptrdiff_t out_stride, out_head;
};

// ---- gated recurrence ---------------------------------------------------------------------------
/// For each token in order: S <- diag(a) S diag(b) + k v^T, then out[h] = S^T q_h, columns
/// [begin, end). The decay lies along the rows (a) or along the columns (b); the other is 1.
/// With a removal (c != nullptr): S <- diag(a) S + b (c^T S) + k v^T, of the S before; decay along the rows, one head.
struct RecurrenceArgs {
  float* state;  // [rows][dim]
  int rows;
  int dim;         // floats between rows
  int begin, end;  // multiples of 16
  int tokens;
  const float* k;  // [rows]
  ptrdiff_t k_stride;
  const float* v;  // [dim]
  ptrdiff_t v_stride;
  const float* decay;  // nullptr: none
  ptrdiff_t decay_stride;
  int on_columns;
  const float* q;  // [rows]
  ptrdiff_t q_stride, q_head;
  int heads;
  float* out;  // [dim]
  ptrdiff_t out_stride, out_head;
  const float* c;  // [rows]
  const float* b;  // [rows]
  ptrdiff_t removal_stride;
};

struct Kernels {
  int widths[kWidths];  // ascending, widths[0] = 1; equal entries repeat
  MatmulKernel matmul[kTileFormats][kWidths];
  /// The same of fewest_packs to most_packs packs of the widest; nullptr: none, each is taken by itself.
  MatmulKernel packs_matmul[kTileFormats];
  int fewest_packs, most_packs;

  /// y = x / sqrt(mean(x^2) + eps) * w;  w == nullptr: 1. y may be x.
  void (*rms_norm)(const float* x, int n, float eps, const float* w, float* y);

  /// y = (x - mean(x)) / sqrt(var(x) + eps) * w + b. y may be x.
  void (*layer_norm)(const float* x, int n, float eps, const float* w, const float* b, float* y);

  /// out = from + by (to - from), each [n]
  void (*lerp)(const float* from, const float* to, const float* by, int n, float* out);

  /// Rounds x [cols] to the groups of token t of a pack of `width` tokens. cols is a multiple
  /// of 32.
  void (*quantise)(const float* x, int cols, uint8_t* pack, int width, int t);

  void (*silu)(float* x, int n);
  /// out = 1 / (1 + e^-(x + bias)), no bias if it is nullptr. out may be x.
  void (*sigmoid)(const float* x, const float* bias, int n, float* out);
  /// gate = silu(gate) * up
  void (*swiglu)(float* gate, const float* up, int n);
  /// x = max(x, 0)^2
  void (*squared_relu)(float* x, int n);
  /// log a = max(floor, logsigmoid(f + bias) / tau), no floor if it is 0
  /// alpha = exp(log a);  write = -expm1(log a)
  void (*gates)(const float* f, const float* bias, int n, float tau, float floor, float* alpha,
                float* write);

  /// x = e^(by x - less)
  void (*exp_of)(float* x, int n, float by, float less);

  void (*slot_keys)(const SlotKeysArgs&);
  void (*slot_softmax)(const SlotSoftmaxArgs&);
  void (*slot_values)(const SlotValuesArgs&);
  void (*recurrence)(const RecurrenceArgs&);

  /// Measures the peak of the int8 dot product: operations (2 a multiply-add) that one call with `rounds` does.
  double (*int8_peak)(int rounds, int32_t* sink);
  /// Reads `bytes` (a multiple of 1,024) once, in order; the result keeps the compiler from dropping the reads.
  uint32_t (*read)(const uint8_t* from, size_t bytes);
};

namespace generic {
Kernels kernels();
}
namespace avx2 {
Kernels kernels();
}
namespace avx_vnni {
Kernels kernels();
}
namespace avx512 {
Kernels kernels();
}
namespace avx512_vnni {
Kernels kernels();
}
namespace avx512_amx {
Kernels kernels();
}
namespace avx512_zen4 {
Kernels kernels();
}
namespace neon {
Kernels kernels();
}
namespace neon_dotprod {
Kernels kernels();
}
namespace neon_i8mm {
Kernels kernels();
}

}  // namespace runnel::cpu
