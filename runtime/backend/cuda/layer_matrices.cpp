// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/layer_matrices.h"

#include <initializer_list>

namespace runnel::cuda {
namespace {

std::vector<TensorGroup> stack(std::initializer_list<const WeightView*> views) {
  std::vector<TensorGroup> groups;
  std::int32_t column = 0;
  for (const WeightView* view : views) {
    if (!view->present()) continue;
    if (!groups.empty() &&
        stream_type(groups.back().tensors.back()->type) == stream_type(view->type)) {
      groups.back().tensors.push_back(view);
    } else {
      groups.emplace_back(*view, column);
    }
    column += static_cast<std::int32_t>(view->rows);
  }
  return groups;
}

}  // namespace

Matrix TensorGroup::shape() const {
  std::int64_t rows = 0;
  for (const WeightView* tensor : tensors) rows += tensor->rows;
  const PackedMatrix p = packed_layout(stream_type(tensors[0]->type), rows, tensors[0]->cols);
  return {.type = p.type, .rows = p.rows, .cols = p.cols, .lanes = p.lanes, .steps = p.steps};
}

std::vector<TensorGroup> projection_groups(const SlotWeights& w) {
  return stack({&w.q_proj, &w.k_proj, &w.v_proj, &w.f_proj});
}

std::vector<TensorGroup> projection_groups(const LayerSpec& layer, const RecurrenceWeights& w) {
  const WeightView none;
  const bool low_rank = layer.recurrence().gate_rank > 0;
  return stack({layer.output_gate ? &w.out_gate : &none, &w.q_proj, &w.k_proj, &w.v_proj,
                low_rank ? &w.f_down : &w.f_proj, &w.r_proj});
}

std::vector<TensorGroup> up_groups(const LayerSpec& layer, const ChannelMixWeights& w) {
  switch (layer.channel_mix) {
    case ChannelMix::swiglu:
      if (stream_type(w.gate_proj.type) == stream_type(w.up_proj.type))
        return {TensorGroup(w.gate_proj, w.up_proj)};
      return {TensorGroup(w.gate_proj),
              TensorGroup(w.up_proj, static_cast<std::int32_t>(w.gate_proj.rows))};
    case ChannelMix::squared_relu:
      return {TensorGroup(w.up_proj)};
    case ChannelMix::none:
      return {};
  }
  return {};
}

}  // namespace runnel::cuda
