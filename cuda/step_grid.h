// SPDX-License-Identifier: Apache-2.0
// One kernel for one token of one session: all layers and the logits (sm_90 and later). The graph
// of small kernels (launch.h) does the same for every other shape, device and number of tokens.
//
// One block a multiprocessor stays for the whole token. Its part of every matrix passes through a
// ring in shared memory, which a thread of its own fills in the order of use (cp.async.bulk), so
// that memory never waits for a dependency. 16 warps multiply: each has some columns of the input
// in registers and multiplies all rows with them. Blocks exchange activations through L2: the
// lowest bit of every float says which use of its place it belongs to, so that a reader that sees
// the bit has the value too. No other barrier joins the blocks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/sample.h"

namespace runnel::cuda {

inline constexpr int kDecodeWarps = 16;  // that multiply: as many as have registers enough
inline constexpr int kDecodeThreads = kDecodeWarps * 32;
// Four warps more, of which one thread fills the ring. They pass registers on to the others: a
// block starts with 96 a thread, and 512 x 104 + 128 x 64 are no more.
inline constexpr int kDecodeFillThreads = 128;
inline constexpr int kDecodeAllThreads = kDecodeThreads + kDecodeFillThreads;
inline constexpr int kDecodeRegisters = 104, kDecodeFillRegisters = 64;
inline constexpr int kDecodeRounds = 3;  // vectors of four a thread takes of one input
inline constexpr int kDecodeWidest = 4 * kDecodeThreads * kDecodeRounds;  // channels of an input
inline constexpr int kDecodeShapes = 8;
inline constexpr int kDecodeSplits = 8;   // blocks a kv head, at most
inline constexpr int kDecodePieces = 16;  // of the ring at once, at most
inline constexpr int kDecodeSlots = 256;  // positional ones, at most

/// How the matrices of one shape and type are walked. A tile is a Matrix's (block types) or one row
/// (plain types); a step of a tile is 32 lanes' worth. A block has some tiles. A warp takes steps
/// way, way + ways… of every `16 / ways`th of them.
struct alignas(16) DecodeShape {
  std::int32_t steps = 0;         // of a tile
  std::int32_t ways_shift = 0;    // log2 of the warps that share a tile
  std::int32_t lane_shift = 0;    // log2 of the lanes that share a row
  std::int32_t row_shift = 0;     // log2 of the rows of a tile
  std::int32_t piece_tiles = 1;   // tiles that are copied at once
  std::int32_t tile_bytes = 0;    // data of a tile
  std::int32_t tail_chunks = 32;  // plain types: 16-byte pieces of a tile's last step
  BlockType type = BlockType::f32;
  std::int32_t rows = 0, tiles = 0;
  std::int32_t unit = 1;         // tiles that stay together
  std::int32_t step_bytes = 0;   // data of a step
  std::int32_t scale_bytes = 0;  // of a step
  std::int32_t high_bytes = 0;   // of a step
  std::int32_t whole_grid = 0;   // spread over all blocks of the grid: the head
  std::int32_t chunks = 0;       // plain types: 16-byte pieces of a row
};

/// The bit of a type among 32: that of its number, which the wide layout alone has beyond them.
constexpr unsigned type_bit(BlockType type) {
  return 1U << (type == BlockType::wide ? 31U : static_cast<unsigned>(type));
}

/// The types of a program's matrices, as bits. Program: Decode or ShiftStep.
template <class Program>
unsigned types_of(const Program& p) {
  unsigned types = 0;
  for (int i = 0; i < p.num_shapes; ++i) types |= type_bit(p.shapes[i].type);
  return types;
}

struct DecodeMatrix {
  const void* data = nullptr;
  const void* scales = nullptr;
  const void* high = nullptr;
  std::int32_t shape = -1;   // -1: no such matrix
  std::int32_t column = 0;   // of the output, of row 0
  std::int32_t partial = 0;  // where its sums begin
};

/// Phases are numbered within a layer; the head is phase 4 of one layer more.
inline constexpr int kDecodeKinds = 5;
inline constexpr int kDecodePauses = 5;  // of phases 0 to 3 and of the slots
inline constexpr int kDecodeInputs = 4;
inline constexpr int kQkvBias = 4;  // a place in DecodeLayer::norms
struct DecodeLayer {
  DecodeMatrix matrices[kDecodeInputs + 4];  // q, k, v, f; then one a phase
  // of each phase's input, or null; [kQkvBias] of a layer that is not the head's: the biases of q, k and v
  const float* norms[kDecodeKinds] = {};
  const float* f_bias = nullptr;          // or null
  const float* read_bias = nullptr;       // or null
  const float* head_read_bias = nullptr;  // or null
  std::int32_t num_inputs = 0;
  std::int32_t forms = 0;  // two bits a phase: whether its input is needed as int8, as f32
};
inline constexpr int kFormRounded = 1, kFormPlain = 2;

/// Byte offsets into a block's shared memory.
struct DecodeShared {         // a copy of Decode comes first
  std::int32_t token = 0;     // DecodeToken
  std::int32_t barriers = 0;  // [2, kDecodePieces]: a piece is there; all warps have done with it
  std::int32_t marks = 0;     // where the next mark of the clock goes
  std::int32_t starts = 0;    // u32 [kDecodePieces]: where they begin, for the thread that fills
  std::int32_t layers = 0;    // DecodeLayer [L + 1]
  std::int32_t ranges = 0;    // int2 [shapes]: first tile of this block, and one past the last
  std::int32_t squares = 0;   // f32 [2, warps]
  std::int32_t rotation = 0;  // float4 [K / 2]
  std::int32_t x = 0;         // f32 [D]
  std::int32_t rounded = 0;   // the input as int8 blocks: 40 bytes a block
  std::int32_t plain = 0;     // the input as f32
  std::int32_t slots = 0;     // scratch of the slots, in place of the input
  std::int32_t partial = 0;   // f32 [rows, ways]: parts of the sums
  std::int32_t ring = 0;
  std::int32_t total = 0;
};

/// A block's data of the token.
struct DecodeToken {
  Segment segment;
  std::int32_t target = 0;            // the positional slot that it overwrites, or -1
  std::int32_t written = 0;           // positional slots that have been written, with it
  std::int32_t head = 0, split = 0;   // this block's share of the slots; head -1: none
  std::int32_t query = 0;             // of the kv head's group, if each has shares of its own
  std::int32_t first = 0, count = 0;  // slots
};

/// Float offsets into one of the two sets of exchanged values.
struct DecodeExchange {
  std::int32_t inputs = 0;  // [C] q, k, v, f
  std::int32_t logits = 0;  // [H, M], if warps share the slots
  // [HQ, splits, 4 + V]: peak and sum of exponentials, then the read; or, if warps share the slots, the mixer's output [HQ, V]
  std::int32_t parts = 0;
  std::int32_t x1 = 0;     // [D] after the mixer
  std::int32_t h = 0;      // [I]
  std::int32_t x2 = 0;     // [D] after the SwiGLU
  std::int32_t copy = 0;   // all of that, once
  std::int32_t total = 0;  // of all copies
};

/// Float offsets into the scratch of the slots.
struct DecodeSlots {
  std::int32_t queries = 0;  // [plain, turned by t, turned by the sink distance][group][K]
  std::int32_t key = 0, key_turned = 0;         // [K]
  std::int32_t value = 0;                       // [V]
  std::int32_t decay = 0, write = 0, bias = 0;  // [slots of a split]
  std::int32_t weight = 0;  // [group][slots of a split] logits, then exponentials
  std::int32_t reduce = 0;  // [rows of threads][group][V]
  std::int32_t total = 0;
};

/// What can be tried without compiling again; 0: chosen from the model.
struct DecodeTuning {
  std::int32_t blocks = 0;  // that take part in the layers; all take part in the head
  std::int32_t splits = 0;  // blocks a kv head
  std::int32_t ring_kb = 0;
  std::int32_t piece_kb = 0;  // most that is copied at once
  std::int32_t poll = 0;     // 1: every thread asks for its own values; 2: one lane of a warp first
  std::int32_t keep = 0;     // 1: weights are not marked as first to leave L2
  std::int32_t cluster = 1;  // 0: not in one cluster, even if the model is small enough
  std::int32_t warp_slots = 1;  // 0: slots as if not all of them were memory
  std::int32_t copies = 0;      // of exchanged values: 1, 2, 4 or 8
  std::int32_t even = 1;        // 0: not a kernel of step_grid_even.h
  std::int32_t pauses[kDecodePauses] = {-1, -1, -1, -1, -1};  // -1: as chosen
  std::int32_t grid = 0;  // blocks at most; of the head, beside a cluster; 0: one a multiprocessor
  std::int32_t cluster_blocks = 0;  // 0: kClusterBlocks
};

/// What blocks keep of their rows of the head; and a draw of the largest logit, made in the kernel by the last block to
/// finish them.
struct DecodeChoice {
  std::uint64_t* best = nullptr;     // [grid] of each block; null: nothing is kept
  std::uint32_t* counted = nullptr;  // blocks that have written theirs; 0 between tokens
  NextStep next;                     // without a token: none is to be drawn
};

struct Decode {
  const DecodeLayer* layers = nullptr;  // [L + 1]
  DecodeShape shapes[kDecodeShapes];
  std::int32_t num_shapes = 0, num_layers = 0;
  Matrix embeddings;
  const std::int32_t* token = nullptr;
  const Segment* segment = nullptr;
  float* logits = nullptr;
  // two sets and x after the last layer [D], zero before the first token
  float* exchange = nullptr;
  std::uint32_t use = 0;                // layers computed since then
  std::uint32_t final_bit = 1;          // alternates from token to token, 1 first
  std::uint32_t* timed_out = nullptr;   // set if a wait timed out: the token is invalid
  std::uint64_t* trace = nullptr;       // [grid, kDecodeTrace] clocks of all blocks, or null
  std::uint32_t poll_limit = 1U << 22;  // polls before that

  std::int32_t blocks = 0, grid = 0;  // blocks of the layers: 0: the head alone
  std::int32_t splits = 0, slots_per_split = 0;
  std::int32_t split_queries = 1;  // query heads of a kv head with shares of their own
  std::int32_t columns = 0;        // of a split, if warps share the slots
  std::int32_t ring_bytes = 0, piece_bytes = 0;  // piece: the largest
  std::int32_t warp_slots = 0;                   // warps share the slots: see step/warp_slots.cuh
  std::int32_t even = 0;  // number of its shape in the list of step_grid_even.h, from 1
  std::int32_t poll = 0;  // 1: every thread asks for its own values; 0: one lane of a warp first
  std::int32_t keep = 0, copies = 1;
  // Clocks from the end of a block's products until it asks for the next input, if `even`.
  std::uint32_t pauses[kDecodePauses] = {};
  DecodeShared shared;
  std::int32_t widths[kDecodeKinds] = {};  // of each phase's input
  float inverse_widths[kDecodeKinds] = {};
  std::int32_t in_at[kDecodeKinds] = {};  // where it lies in a set; the head's in all of it
  DecodeExchange at;
  DecodeSlots slots;

  // The model.
  std::int32_t d = 0, inner = 0, vocab = 0;
  std::int32_t heads = 0, kv_heads = 0, group = 1, k_dim = 0, v_dim = 0;
  std::int32_t sinks = 0, window = 0, memory = 0, sink_distance = 0;
  std::int32_t key_shift = 0;    // log2 of the lanes that share a slot's key
  std::int32_t key_groups = 0;   // log2 of the vectors of a lane in one key
  std::int32_t value_shift = 0;  // log2 of the vectors of a value
  std::int32_t items = 0;        // vectors of K~ and of V~ a thread keeps: 1, 2, 4 or 8
  float scale = 1.0F, gate_normalizer = 1.0F, gate_log_min = 0.0F;
  float norm_eps = 0.0F, g_norm_eps = 0.0F;
  Act qk_act = Act::identity, v_act = Act::identity, o_act = Act::identity;
  std::int32_t output_norm = 0;
  std::int32_t biased = 0;  // q, k and v have biases
  const double* turns = nullptr;
  std::size_t layer_floats = 0, head_floats = 0;  // of the state
  DecodeChoice choice;                            // of `even`
};
inline constexpr int kDecodeTrace = 4096;

/// One token: reads *token and *segment, advances the state, writes the logits; if `choice` asks for it, draws the next
/// token and moves *segment on. Without blocks for the layers: the logits of what another kernel, launched just before,
/// puts where the head's input is exchanged.
cudaError_t decode_step(cudaStream_t stream, const Decode&);
/// Allows its shared memory. An error: not on this device.
cudaError_t prepare_decode();

}  // namespace runnel::cuda
