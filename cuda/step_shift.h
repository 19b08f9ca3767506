// SPDX-License-Identifier: Apache-2.0
// One kernel for one token of one session of a model of shifted projections, recurrences with a removal and squared
// ReLUs: all layers and the logits (sm_90 and later).
//
// One block a multiprocessor stays for the whole token. Every warp has a list of pieces of weights, in the order of
// use, and a ring of its own in shared memory through which they pass (cp.async.bulk); a lane of one more warp asks for
// the next piece when a slot is free, so that weights travel while blocks wait for each other. Activations are
// exchanged through L2 as in cuda/step_grid.h: the lowest bit of every float says which use of its place it belongs to.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/launch.h"

namespace runnel::cuda {

inline constexpr int kShiftWarps = 16;
inline constexpr int kShiftThreads = kShiftWarps * 32;       // that multiply
inline constexpr int kShiftAllThreads = kShiftThreads + 32;  // with the warp that fills their rings
inline constexpr int kShiftSlots = 4;                        // of a warp's ring, at most
inline constexpr int kShiftSlotBytes = 2304;  // of a slot: four steps of Q4_0 with their scales
inline constexpr int kShiftRows = 32;         // of an item, at most
inline constexpr int kShiftRounds = 5;        // of items between two barriers
inline constexpr int kShiftHead = 64;         // rows and columns of a state
inline constexpr int kShiftWidest = 4 * kShiftThreads * 2;  // channels of the residual stream
inline constexpr int kShiftInputs = 6;

/// Phases of a layer with products, and the head. The state advances between `raise` and `output`.
enum class ShiftPhase : std::int32_t { project, raise, output, up, down, head };
inline constexpr int kShiftPhases = 5;  // of a layer

/// How the matrices of one shape and type lie, in tiles as DecodeShape has them: of block types those of a Matrix, of
/// plain types rows.
struct alignas(16) ShiftShape {
  BlockType type = BlockType::f32;
  std::int32_t rows = 0, steps = 0;  // steps: of a tile
  std::int32_t lane_shift = 0, row_shift = 0;
  // scale_bytes and high_bytes: those of a step.
  std::int32_t tile_bytes = 0, step_bytes = 0, scale_bytes = 0, high_bytes = 0;
  std::int32_t tail_chunks = 32;  // plain types: 16-byte pieces of a tile's last step
  std::int32_t piece_steps = 1;   // that fit a slot
  std::int32_t piece_tiles = 1;   // of one step each, that fit a slot together: plain types
};
inline constexpr int kShiftShapes = 16;

struct ShiftMatrix {
  const void* data = nullptr;
  const void* scales = nullptr;
  const void* high = nullptr;
  std::int32_t shape = -1;  // -1: no such matrix
  std::int32_t column = 0;  // of the exchanged values, where row 0 goes
};

/// What a warp multiplies in one round of a phase: some tiles of a matrix, or one of `parts` equal parts of their
/// steps. A part of several tiles of several rows each is one piece of each tile, so that its input is read once for
/// all of them.
struct alignas(16) ShiftItem {
  std::int16_t matrix = -1;  // of ShiftLayer::matrices; -1: nothing
  std::int16_t input = 0;    // of the block's inputs
  std::int32_t first_tile = 0;
  std::int16_t tiles = 0, parts = 1;
  std::int16_t first_step = 0, steps = 0;  // of each tile; the first part begins at 0
};

/// The inputs that a block's items of a phase read.
struct alignas(16) ShiftSources {
  std::int32_t count = 0;
  struct {
    std::int16_t source, forms;  // forms: kFormRounded, kFormPlain
  } in[kShiftInputs + 1] = {};
};

/// For one phase of all layers that are divided alike: which of a block's sources, and where its items [rounds, warps]
/// begin.
struct ShiftTable {
  std::int32_t sources = 0, items = 0, rounds = 0;
};

/// matrices: q, k, v; the four that go down and the four that come up, of f, r, the gate and the mix of values; output;
/// up; down. The head uses the first alone.
inline constexpr int kShiftDown = 3, kShiftUp = 7, kShiftOutput = 11, kShiftMatrices = 14;
struct ShiftLayer {
  ShiftMatrix matrices[kShiftMatrices];
  ShiftTable tables[kShiftPhases];  // of the head, the first
  const float* norm = nullptr;      // [D]; of the head, the last norm
  const float* norm_bias = nullptr;
  const float* lerp = nullptr;  // [inputs, D]: q, f, k, v, r, gate
  const float* f_bias = nullptr;
  const float* r_bias = nullptr;
  const float* mix_bias = nullptr;
  const float* removal_key = nullptr;
  const float* key_rate = nullptr;
  const float* bonus = nullptr;  // or null
  const float* group_norm = nullptr;
  const float* group_bias = nullptr;
  const float* channel_norm = nullptr;
  const float* channel_bias = nullptr;
  const float* channel_lerp = nullptr;
  std::size_t state = 0, mixer_shift = 0, channel_shift = 0;  // floats into a state
  std::int32_t mixes_values = 0;  // else v is what later layers mix theirs with, or stays
};

/// Float offsets into one of the two sets of exchanged values.
struct ShiftExchange {
  std::int32_t q = 0, k = 0, v = 0;              // [D]
  std::int32_t low[4] = {};                      // [ranks]
  std::int32_t f = 0, r = 0, gate = 0, mix = 0;  // [D]
  std::int32_t o = 0, bonus = 0;       // [D]: what a state's head reads, and its bonus times v
  std::int32_t x1 = 0, h = 0, x2 = 0;  // [D], [I], [D]
  std::int32_t total = 0;
};

/// Byte offsets into a block's shared memory, behind a copy of ShiftStep.
struct ShiftShared {
  std::int32_t segment = 0;   // Segment
  std::int32_t barriers = 0;  // u64 [2, warps, slots]: slots that are full, that are free
  std::int32_t layers = 0;    // ShiftLayer [L + 1]
  std::int32_t sums = 0;      // float2 [2, warps]
  std::int32_t x = 0;         // f32 [2, D]: before and after the mixer
  std::int32_t first_v = 0;   // f32 [64]
  std::int32_t vectors = 0;   // f32 [columns / 4, 5, 64]
  std::int32_t partial = 0;   // f32 [rounds, warps, rows]
  std::int32_t sources = 0;   // ShiftSources [block_sources]
  std::int32_t items = 0;     // ShiftItem [block_items]; 0: no room
  std::int32_t inputs = 0;
  std::int32_t ring = 0;  // [warps, slots]
  std::int32_t total = 0;
};

struct ShiftStep {
  const ShiftLayer* layers = nullptr;     // [L + 1]
  const ShiftSources* sources = nullptr;  // [grid, block_sources]
  const ShiftItem* items = nullptr;       // [grid, block_items]
  const std::int32_t* token = nullptr;
  const Segment* segment = nullptr;
  float* logits = nullptr;
  float* exchange = nullptr;           // two sets, zero before the first token
  float* shifted = nullptr;            // [2, D] scratch
  std::uint32_t* timed_out = nullptr;  // set if a wait timed out: the token is invalid
  std::uint32_t use = 0;               // layers computed since the exchange was cleared
  std::uint32_t mix_use = 0;           // the same of layers that mix values: all but the first
  std::uint32_t poll_limit = 1U << 22;
  Matrix embeddings;
  const float* embedding_norm = nullptr;  // or null: no norm
  const float* embedding_bias = nullptr;
  ShiftShape shapes[kShiftShapes];
  std::int32_t num_shapes = 0;
  std::int32_t num_layers = 0, grid = 0;
  std::int32_t slots = 0;      // of a warp's ring
  std::int32_t item_rows = 0;  // at most
  std::int32_t block_sources = 0, block_items = 0;
  std::int32_t d = 0, inner = 0, heads = 0;
  std::int32_t ranks[4] = {};
  std::int32_t splits = 1, columns = 0;  // blocks of a head; columns of a state in each
  std::int32_t centred = 0;              // norms are LayerNorms, else RMSNorms
  std::int32_t groups = 0;               // a LayerNorm of each head behind the state
  std::int32_t gated = 0;
  float eps = 0.0F, embedding_eps = 0.0F, final_eps = 0.0F, group_eps = 0.0F, scale = 1.0F;
  // For each phase: from one input of a block to the next, and where its plain form begins, in bytes.
  std::int32_t input_bytes[kShiftPhases + 1] = {}, plain_at[kShiftPhases + 1] = {};
  ShiftExchange at;
  ShiftShared shared;
};

/// One token: reads *token and *segment, advances the state, writes the logits.
cudaError_t shift_step(cudaStream_t stream, const ShiftStep&);
/// Allows its shared memory. An error: not on this device.
cudaError_t prepare_shift_step();

}  // namespace runnel::cuda
