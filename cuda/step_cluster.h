// SPDX-License-Identifier: Apache-2.0
// All layers of a small model for one token of one session, in ONE cluster of 16 blocks (sm_90 and
// later; fewer where a test asks for it). Their share of a layer's matrices fits the blocks' shared
// memory, where each matrix has a place of its own, filled with the next layer's as soon as this
// layer's is used. Blocks exchange activations through distributed shared memory: every block has a
// copy of every exchanged vector, its barrier counts the bytes that others send. The logits are
// made on the other multiprocessors by the kernel of step_head.h or, for other widths, of
// decode.h, launched beside this one: its blocks have their weights there when the last layer is through.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/step_grid.h"

namespace runnel::cuda {

inline constexpr int kClusterBlocks = 16;               // most
inline constexpr int kClusterThreads = kDecodeThreads;  // 16 warps
/// The inputs' matrix of block type, and one of plain type; output; gate and up; down.
inline constexpr int kClusterMatrices = 5;
inline constexpr int kPlainMatrix = 1;
inline constexpr int kClusterUnitWarps = 8;  // where the others have rows of the plain matrix
inline constexpr int kClusterParts = 3;      // of a matrix: data, scales, upper bits
/// The matrix of block type that a phase multiplies.
constexpr int matrix_of(int phase) { return phase == 0 ? 0 : phase + 1; }
inline constexpr int kClusterItems = 4;  // vectors of keys and of values of a thread
inline constexpr int kClusterWidest = 4 * kClusterThreads;  // channels of an input

/// A model whose shape a kernel was compiled for, and any.
struct AnyClusterModel {
  static constexpr int kHeads = 0, kSinks = 0, kWindow = 0, kMemory = 0;
};
/// models/runnel-gsa-135m-instruct.md. No activations of q, k, v or the mixer's output, no norm behind the mixer.
struct DefaultClusterModel {
  static constexpr int kWide = 576, kInner = 1536, kHeads = 9, kKvHeads = 3, kWidth = 64;
  static constexpr int kSinks = 4, kWindow = 60, kMemory = 64;
  static constexpr bool kTraced = false;
};
/// The same with marks of the clock.
struct TracedClusterModel : DefaultClusterModel {
  static constexpr bool kTraced = true;
};

/// How the slots of a known model are shared out: some blocks a kv head, each with some slots for
/// all queries of the group. Offsets are floats of the inputs of a block.
template <class M>
struct ClusterSplit {
  static constexpr int kBlocks = 4, kGroup = M::kHeads / M::kKvHeads;
  static constexpr int kSlots = (M::kSinks + M::kWindow + M::kMemory) / kBlocks;
  static constexpr int kKey = kGroup * M::kWidth, kValue = kKey + M::kWidth;
  static constexpr int kGate = kValue + M::kWidth;  // [slots][decay, 1 - decay]
  static constexpr int kFloats = kGate + 2 * kSlots;
  static constexpr int kPieces = kGroup * M::kWidth / 32;  // 32 channels of a query's read

  static constexpr bool has_slots(int block) { return block < kBlocks * M::kKvHeads; }
  /// Whether a block's slots are memory.
  static constexpr bool gated(int block) {
    return block % kBlocks * kSlots >= M::kSinks + M::kWindow;
  }
  static constexpr int input_floats(int block) {
    return !has_slots(block) ? 0 : gated(block) ? kFloats : kGate;
  }
  /// The pieces that this block joins: 32 channels, a peak, a sum of exponentials.
  static constexpr int piece_floats(int block) {
    return has_slots(block) ? (kPieces - block % kBlocks + kBlocks - 1) / kBlocks * kBlocks * 34
                            : 0;
  }
};
inline constexpr int kClusterPiece = 36;  // floats from one piece to the next

/// What is exchanged, in the order of a layer; pieces of what known models have read.
enum ClusterExchange : std::int32_t {
  kInputs,
  kRead,
  kMixed,
  kHidden,
  kOutput,
  kPiece,
  kClusterExchanges
};

/// A matrix that has the same shape and type in every layer. A block has some granules of its rows.
/// A warp takes units: of block types 2^sub_shift rows of a tile, whose steps are shared out among
/// the groups of lanes that are left; of plain types one row.
struct ClusterMatrix {
  BlockType type = BlockType::f32;
  std::int32_t rows = 0;                       // 0: there is no such matrix
  std::int32_t granule = 1;                    // rows
  std::int32_t steps = 0;                      // of a tile
  std::int32_t lane_shift = 0, row_shift = 0;  // log2 of lanes per row, of rows per tile
  std::int32_t sub_shift = 0;                  // log2 of rows of a unit
  std::int32_t row_bytes[kClusterParts] = {};
  std::int32_t at[kClusterParts] = {};  // of the block's share in shared memory
  std::int32_t column = 0;              // of the output, of row 0
};

/// A block's share of a matrix.
struct alignas(16) ClusterShare {
  std::int32_t at[kClusterParts] = {};               // in shared memory
  std::int32_t units = 0;                            //
  std::int32_t bytes[kClusterParts] = {-1, -1, -1};  // -1: no such part
  std::int32_t column = 0;                           // of the output, of the first row
  std::int32_t steps = 0, rounds = 0;                // of a tile, of a lane
  std::int32_t lane_shift = 0, sub_shift = 0;        //
  std::int32_t from = 0, to = 0;                     // floats of what is exchanged
};

struct alignas(16) ClusterLayer {
  /// In the table of a block: its share's.
  const char* parts[kClusterParts][kClusterMatrices] = {};
  const float* norms[3] = {};             // of phases 0 to 2, or null
  const float* f_bias = nullptr;          // or null
  const float* read_bias = nullptr;       // or null
  const float* head_read_bias = nullptr;  // or null
};

/// What a block is given of the token.
struct ClusterToken {
  Segment segment;
  std::int32_t target = 0;              // the positional slot that is overwritten, or -1
  std::int32_t written = 0;             // positional slots that have been written, with it
  std::int32_t query = 0, kv_head = 0;  // this block's; -1: none
  std::int32_t stores = 0;              // bits: which vectors of its threads it stores
};

struct ClusterDecode {
  const ClusterLayer* layers = nullptr;  // [L]
  Matrix embeddings;
  const std::int32_t* token = nullptr;
  const Segment* segment = nullptr;
  float* last = nullptr;  // [D] what follows the last layer, for the head
  std::uint32_t last_bit = 1;
  std::uint32_t* timed_out = nullptr;
  // [2, kDecodeTrace] clocks of the first and the last block, or null
  std::uint64_t* trace = nullptr;
  std::uint32_t poll_limit = 1U << 22;

  ClusterMatrix matrices[kClusterMatrices];
  std::int32_t forms[4] = {};  // of each phase's input: kFormRounded, kFormPlain
  std::int32_t exchange_at[kClusterExchanges] = {};  // floats
  std::int32_t exchange_floats[kClusterExchanges] = {};
  std::int32_t gates = 0;  // first column of f: [H, M], exchanged as decay and 1 - decay
  /// Byte offsets into shared memory.
  struct {
    std::int32_t layers = 0;              // ClusterLayer [L]
    std::int32_t token = 0;               // ClusterToken
    std::int32_t shares = 0;              // ClusterShare [matrices]
    std::int32_t expected = 0;            // u32 [exchanges]: bytes from other blocks
    std::int32_t given_up = 0;            // u32: 1 if a wait of the block was given up
    std::int32_t barriers = 0;            // full [matrices], arrived [exchanges]
    std::int32_t exchanged = 0;           // f32
    std::int32_t rounded = 0, plain = 0;  // an input
    std::int32_t squares = 0;             // f32 [warps]
    std::int32_t set = 0;                 // bytes to the second input and its squares
    std::int32_t rotation = 0;            // f32 [cos, sin, near cos, near sin][K / 2]
    std::int32_t about = 0;               // float2 [warps] peak and sum of exponentials
    std::int32_t parts = 0;               // f32 [warps, V] reads
    std::int32_t total = 0;
  } shared;

  std::int32_t blocks = kClusterBlocks;
  std::int32_t fixed = 0;  // 1: DefaultClusterModel, which has a kernel of its own
  std::int32_t num_layers = 0, d = 0, inner = 0;
  std::int32_t heads = 0, kv_heads = 0, group = 1, k_dim = 0;  // V is as wide
  std::int32_t sinks = 0, window = 0, memory = 0, sink_distance = 0;
  float heads_a_gate = 0.0F;  // 1 / memory
  float scale = 1.0F, gate_normalizer = 1.0F, gate_log_min = 0.0F;
  float norm_eps = 0.0F, g_norm_eps = 0.0F;
  Act qk_act = Act::identity, v_act = Act::identity, o_act = Act::identity;
  std::int32_t output_norm = 0;
  const double* turns = nullptr;
  std::size_t layer_floats = 0, head_floats = 0;  // of the state
};

/// All layers of one token; the head's kernel must be launched next and may start at once.
cudaError_t cluster_step(cudaStream_t stream, const ClusterDecode&);
/// Allows its shared memory and its cluster. An error: not on this device, not with these shapes.
cudaError_t prepare_cluster(const ClusterDecode&);

}  // namespace runnel::cuda
