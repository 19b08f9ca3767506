// SPDX-License-Identifier: Apache-2.0
// Which tensors of a layer become which matrix. Needs no driver: DeviceWeights uploads by it, and one-token
// programs take shapes from it before anything is on a device.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/launch.h"
#include "runtime/backend/cuda/pack.h"
#include "runtime/model/layer_spec.h"

namespace runnel::cuda {

/// Tensors of one type and width that are one matrix.
struct TensorGroup {
  std::vector<const WeightView*> tensors;
  RowOrder order = RowOrder::stacked;
  std::int32_t column = 0;  // of the output row, where its rows go

  explicit TensorGroup(const WeightView& tensor) : tensors{&tensor} {}
  TensorGroup(const WeightView& a, const WeightView& b)
      : tensors{&a, &b}, order(RowOrder::alternating) {}
  TensorGroup(const WeightView& tensor, std::int32_t at) : tensors{&tensor}, column(at) {}

  /// The matrix without its places.
  Matrix shape() const;
};

/// q, k, v, f stacked as far as types agree; of a recurrence the output gate before them, f's low rank in its place and
/// r behind them.
std::vector<TensorGroup> projection_groups(const SlotWeights& weights);
std::vector<TensorGroup> projection_groups(const LayerSpec& layer,
                                           const RecurrenceWeights& weights);

/// SwiGLU: one matrix of alternating rows; two, one behind the other, if their types differ. Squared ReLU: the
/// one matrix. None without a channel mix.
std::vector<TensorGroup> up_groups(const LayerSpec& layer, const ChannelMixWeights& weights);

}  // namespace runnel::cuda
