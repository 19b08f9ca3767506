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

/// A lane's weights of step `step` of a piece of `n` steps of a block type.
template <BlockType kType>
__device__ __forceinline__ typename Streamed<kType>::Weights weights_of(const unsigned char* piece,
                                                                        int n, int step, int lane) {
  using S = Streamed<kType>;
  const unsigned char* const scales = piece + n * S::kStepBytes;
  const unsigned char* const high = scales + n * S::kScaleBytes;
  return S::load({piece + step * S::kStepBytes + lane * 16,
                  scales + step * S::kScaleBytes + lane * (S::kScaleBytes / 32),
                  high + step * S::kHighBytes + lane * (S::kHighBytes / 32)});
}

template <BlockType kType>
__device__ __forceinline__ float multiply_piece(const ShiftShape& m, const SharedInput& x,
                                                const unsigned char* piece, int step, int n,
                                                int lane, float acc) {
  using S = Streamed<kType>;
  constexpr int kN = kPieceSteps<kType>;
  const int in_row = lane & ((1 << m.lane_shift) - 1);
  typename S::Weights w[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    const int s = min(j, n - 1);
    if constexpr (S::kBlocks) {
      w[j] = weights_of<kType>(piece, n, s, lane);
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
  const int lane = thread_index() & 31;
  using S = Streamed<kType>;
  constexpr int kN = 4;  // rows whose sums are under way together
  const int chunks = m.tail_chunks;
  const typename S::Input in = S::input(x, lane, lane < chunks);
#pragma unroll 1
  for (int t = 0; t < item.tiles; t += m.piece_tiles) {
    const int rows = min(m.piece_tiles, item.tiles - t);
    const unsigned char* const piece = ring.wait() + min(lane, chunks - 1) * 16;
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
    ring.release();
  }
}

/// Whether a part of several tiles can be a piece of each: kPieceSteps divides the steps of most widths.
template <BlockType kType>
constexpr bool kSharesInput = Streamed<kType>::kBlocks&& kPieceSteps<kType> > 1 &&
                              (kPieceSteps<kType> & (kPieceSteps<kType> - 1)) == 0;

/// The products of such a part, whose input stays in registers.
template <BlockType kType>
__device__ __forceinline__ void multiply_tiles(ShiftRing& ring, const ShiftShape& m,
                                               const ShiftItem& item, const SharedInput& x,
                                               float* partial) {
  using S = Streamed<kType>;
  constexpr int kN = kPieceSteps<kType>;
  const int lane = thread_index() & 31, in_row = lane & ((1 << m.lane_shift) - 1);
  typename S::Input in[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) in[j].load(x, ((item.first_step + j) << m.lane_shift) + in_row);
#pragma unroll 1
  for (int t = 0; t < item.tiles; ++t) {
    const unsigned char* const piece = ring.wait();
    float sum = 0.0F;
#pragma unroll
    for (int j = 0; j < kN; ++j) sum = S::dot(weights_of<kType>(piece, kN, j, lane), in[j], sum);
    ring.release();
    for (int o = (1 << m.lane_shift) >> 1; o > 0; o >>= 1) sum += __shfl_xor_sync(~0U, sum, o);
    if (in_row == 0) partial[(t << m.row_shift) + (lane >> m.lane_shift)] = sum;
  }
}

/// The products of an item: the sums of its rows to `partial`.
template <BlockType kType>
__device__ __forceinline__ void multiply_item(ShiftRing& ring, const ShiftShape& m,
                                              const ShiftItem& item, const SharedInput& x,
                                              float* partial) {
  if constexpr (!Streamed<kType>::kBlocks) {
    if (m.piece_tiles > 1) return multiply_short_rows<kType>(ring, m, item, x, partial);
  } else if constexpr (kSharesInput<kType>) {
    if (item.tiles > 1 && m.row_shift > 0) return multiply_tiles<kType>(ring, m, item, x, partial);
  }
  const int lane = thread_index() & 31;
  const int begin = item.first_step, end = begin + item.steps;
#pragma unroll 1
  for (int t = 0; t < item.tiles; ++t) {
    float acc = 0.0F;
#pragma unroll 1
    for (int step = begin; step < end; step += kPieceSteps<kType>) {
      acc = multiply_piece<kType>(m, x, ring.wait(), step, min(kPieceSteps<kType>, end - step),
                                  lane, acc);
      ring.release();
    }
    const int shift = Streamed<kType>::kBlocks ? m.lane_shift : 5;
    for (int o = (1 << shift) >> 1; o > 0; o >>= 1) acc += __shfl_xor_sync(~0U, acc, o);
    if ((lane & ((1 << shift) - 1)) == 0) partial[(t << m.row_shift) + (lane >> shift)] = acc;
  }
}

template <unsigned kTypes>
__device__ __forceinline__ void multiply_any(ShiftRing& ring, const ShiftShape& m,
                                             const ShiftItem& item, const SharedInput& x,
                                             float* partial) {
  for_type<kTypes>(m.type,
                   [&]<BlockType kType>() { multiply_item<kType>(ring, m, item, x, partial); });
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
                                               ShiftItem first_item, int tid) {
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
      const ShiftItem item = first + r == 0 ? first_item : load_item(table, first + r, warp);
      if (item.matrix < 0) continue;
      const ShiftShape& m = shape_of(p, w.matrices[item.matrix]);
      const int n = kind == int(ShiftPhase::raise)  ? p.ranks[item.matrix - kShiftUp]
                    : kind == int(ShiftPhase::down) ? p.inner
                                                    : p.d;
      multiply_any<kTypes>(ring, m, item, shift_input(p, kind, item.input, n),
                           partial + r * of_round);
    }
    sync_first<kShiftThreads>();
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
      const ShiftItem item = first + r == 0 ? first_item : load_item(table, first + r, warp);
      if (item.matrix < 0 || item.first_step != 0) continue;
      const ShiftShape& m = shape_of(p, w.matrices[item.matrix]);
      const int row = (item.first_tile << m.row_shift) + lane;
      if (lane >= item.tiles << m.row_shift || row >= m.rows) continue;
      float v = 0.0F;
#pragma unroll 1
      for (int part = 0; part < item.parts; ++part)
        v += partial[r * of_round + part * p.item_rows + lane];
      show_row(p, phase, item, w.matrices[item.matrix].column, row, v);
    }
    if (first + kShiftRounds < table.rounds) sync_first<kShiftThreads>();
  }
}

}  // namespace runnel::cuda
