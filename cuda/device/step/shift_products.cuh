// SPDX-License-Identifier: Apache-2.0
// The products of a phase of the kernel of cuda/step_shift.h, round by round, and where their rows go.
#pragma once

#include "cuda/device/step/dot.cuh"
#include "cuda/device/step/shift_inputs.cuh"
#include "cuda/device/step/shift_ring.cuh"

namespace runnel::cuda {

/// The most steps of a piece of that type.
template <BlockType kType>
constexpr int kPieceSteps = kShiftSlotBytes /
                            (Streamed<kType>::kStepBytes + Streamed<kType>::kScaleBytes +
                             Streamed<kType>::kHighBytes);

template <BlockType kType>
__device__ __forceinline__ float multiply_piece(const ShiftShape& m, const SharedInput& x,
                                                const unsigned char* piece, int step, int n,
                                                int lane, float acc) {
  using S = Streamed<kType>;
  constexpr int kN = kPieceSteps<kType>, kHigh = S::kHighBytes;
  const unsigned char* const scales = piece + n * S::kStepBytes;
  const unsigned char* const high = scales + n * S::kScaleBytes;
  const int in_row = lane & ((1 << m.lane_shift) - 1);
  typename S::Weights w[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    const int s = min(j, n - 1);
    if constexpr (S::kBlocks) {
      w[j] = S::load({piece + s * S::kStepBytes + lane * 16,
                      scales + s * S::kScaleBytes + lane * (S::kScaleBytes / 32),
                      high + s * kHigh + lane * (kHigh / 32)});
    } else {
      const int chunks = step + s == m.steps - 1 ? m.tail_chunks : 32;
      w[j] = {
          *reinterpret_cast<const uint4*>(piece + s * S::kStepBytes + min(lane, chunks - 1) * 16)};
    }
  }
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    if (j >= n) break;
    if constexpr (S::kBlocks) {
      typename S::Input in;
      in.load(x, ((step + j) << m.lane_shift) + in_row);
      acc = S::dot(w[j], in, acc);
    } else {
      const int chunks = step + j == m.steps - 1 ? m.tail_chunks : 32;
      acc = S::dot(w[j], S::input(x, (step + j) * 32 + lane, lane < chunks), acc);
    }
  }
  return acc;
}

/// The same of rows of one step each, several of which are a piece.
template <BlockType kType>
__device__ __forceinline__ void multiply_short_rows(ShiftRing& ring, const ShiftShape& m,
                                                    const ShiftItem& item, const SharedInput& x,
                                                    float* partial) {
  const ShiftStep& p = shift_program();
  const int cta = block_index(), lane = thread_index() & 31, warp = thread_index() >> 5;
  using S = Streamed<kType>;
  constexpr int kN = 4;  // rows whose sums are under way together
  const int chunks = m.tail_chunks, at = min(lane, chunks - 1) * 16;
  const typename S::Input in = S::input(x, lane, lane < chunks);
#pragma unroll 1
  for (int t = 0; t < item.tiles; t += m.piece_tiles) {
    const int slot = warp * p.slots + ring.done, rows = min(m.piece_tiles, item.tiles - t);
    const unsigned char* const piece =
        shared_at<const unsigned char>(p.shared.ring) + slot * kShiftSlotBytes + at;
    wait_barrier(p, shared_at<std::uint64_t>(p.shared.barriers) + slot, ring.parity);
#pragma unroll 1
    for (int first = 0; first < rows; first += kN) {
      float sums[kN];
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const int row = min(first + j, rows - 1);
        sums[j] = S::dot({*reinterpret_cast<const uint4*>(piece + row * m.tile_bytes)}, in, 0.0F);
      }
#pragma unroll
      for (int o = 16; o > 0; o >>= 1) {
#pragma unroll
        for (int j = 0; j < kN; ++j) sums[j] += __shfl_xor_sync(~0U, sums[j], o);
      }
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        if (lane == j && first + j < rows) partial[t + first + j] = sums[j];
      }
    }
    if (++ring.done == p.slots) ring.done = 0, ring.parity ^= 1U;
    sync_warp();  // the slot is read
    ring.ask(p, cta, warp, lane);
  }
}

/// The products of an item: the sums of its rows to `partial`.
template <BlockType kType>
__device__ __forceinline__ void multiply_item(const ShiftStep& p, ShiftRing& ring,
                                              const ShiftShape& m, const ShiftItem& item,
                                              const SharedInput& x, float* partial, int cta,
                                              int warp, int lane) {
  if constexpr (!Streamed<kType>::kBlocks) {
    if (m.piece_tiles > 1) return multiply_short_rows<kType>(ring, m, item, x, partial);
  }
  const int begin = m.steps * item.part / item.parts, end = m.steps * (item.part + 1) / item.parts;
#pragma unroll 1
  for (int t = 0; t < item.tiles; ++t) {
    float acc = 0.0F;
#pragma unroll 1
    for (int step = begin; step < end; step += kPieceSteps<kType>) {
      const int slot = warp * p.slots + ring.done;
      wait_barrier(p, shared_at<std::uint64_t>(p.shared.barriers) + slot, ring.parity);
      acc = multiply_piece<kType>(
          m, x, shared_at<const unsigned char>(p.shared.ring) + slot * kShiftSlotBytes, step,
          min(kPieceSteps<kType>, end - step), lane, acc);
      if (++ring.done == p.slots) ring.done = 0, ring.parity ^= 1U;
      sync_warp();  // the slot is read
      ring.ask(p, cta, warp, lane);
    }
    const int shift = Streamed<kType>::kBlocks ? m.lane_shift : 5;
    for (int o = (1 << shift) >> 1; o > 0; o >>= 1) acc += __shfl_xor_sync(~0U, acc, o);
    if ((lane & ((1 << shift) - 1)) == 0) partial[t + (lane >> shift)] = acc;
  }
}

template <unsigned kTypes>
__device__ __forceinline__ void multiply_any(const ShiftStep& p, ShiftRing& ring,
                                             const ShiftShape& m, const ShiftItem& item,
                                             const SharedInput& x, float* partial, int cta,
                                             int warp, int lane) {
  for_type<kTypes>(m.type, [&]<BlockType kType>() {
    multiply_item<kType>(p, ring, m, item, x, partial, cta, warp, lane);
  });
}

/// One row of a phase's product, for those that need it.
__device__ __forceinline__ void show_row(const ShiftStep& p, int phase, const ShiftItem& item,
                                         int column, int row, float v) {
  const int layer = phase / kShiftPhases;
  if (layer == p.num_layers) {
    p.logits[row] = v;
    return;
  }
  const bool mixes = (item.matrix == kShiftDown + 3) | (item.matrix == kShiftUp + 3);
  const unsigned use = mixes ? mix_use(p, layer) : p.use + unsigned(layer);
  const float* const x = shared_at<const float>(p.shared.x);
  switch (static_cast<ShiftPhase>(phase % kShiftPhases)) {
    case ShiftPhase::project:
      if (item.matrix == kShiftDown) v = tanhf(v);
      if (item.matrix == kShiftDown + 2) v = logistic(v);
      break;
    case ShiftPhase::output:
      v += x[row];
      break;
    case ShiftPhase::up:
      v = fmaxf(v, 0.0F), v *= v;
      break;
    case ShiftPhase::down:
      v += x[p.d + row];
      break;
    case ShiftPhase::raise:
    case ShiftPhase::head:
      break;
  }
  ShiftWait::of(use).show(exchange_set(p, use) + column + row, v);
}

/// Products of a phase, round by round, and their rows.
template <unsigned kTypes>
__device__ __forceinline__ void multiply_phase(const ShiftStep& p, ShiftRing& ring, int phase,
                                               ShiftItem first_item, int cta, int tid) {
  const int layer = phase / kShiftPhases, lane = tid & 31, warp = tid >> 5;
  const int kind = layer == p.num_layers ? int(ShiftPhase::head) : phase % kShiftPhases;
  const ShiftLayer& w = shift_layer(p, layer);
  const ShiftTable& table = table_of(p, phase);
  float* const partial = shared_at<float>(p.shared.partial) + warp * p.item_rows;
  const int of_round = kShiftWarps * p.item_rows;
#pragma unroll 1
  for (int first = 0; first < table.rounds; first += kShiftRounds) {
    const int rounds = min(kShiftRounds, table.rounds - first);
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
      const ShiftItem item = first + r == 0 ? first_item : load_item(table, cta, first + r, warp);
      if (item.matrix < 0) continue;
      const ShiftShape& m = shape_of(p, w.matrices[item.matrix]);
      const int n = kind == int(ShiftPhase::raise)  ? p.ranks[item.matrix - kShiftUp]
                    : kind == int(ShiftPhase::down) ? p.inner
                                                    : p.d;
      multiply_any<kTypes>(p, ring, m, item, shift_input(p, kind, item.input, n),
                           partial + r * of_round, cta, warp, lane);
    }
    sync_block();
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
      const ShiftItem item = first + r == 0 ? first_item : load_item(table, cta, first + r, warp);
      if (item.matrix < 0 || item.part != 0) continue;
      const ShiftShape& m = shape_of(p, w.matrices[item.matrix]);
      const int row = (item.first_tile << m.row_shift) + lane;
      if (lane >= item.tiles << m.row_shift || row >= m.rows) continue;
      float v = 0.0F;
#pragma unroll 1
      for (int part = 0; part < item.parts; ++part)
        v += partial[r * of_round + part * p.item_rows + lane];
      show_row(p, phase, item, w.matrices[item.matrix].column, row, v);
    }
    if (first + kShiftRounds < table.rounds) sync_block();
  }
}

}  // namespace runnel::cuda
