// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/step/matrix_shapes.h"

namespace runnel::cuda {
namespace {

std::vector<DeviceProjection> shapes_of(const std::vector<TensorGroup>& groups) {
  std::vector<DeviceProjection> all;
  for (const TensorGroup& group : groups) all.push_back({group.shape(), group.column});
  return all;
}

Matrix shape_if_there(const WeightView& view) {
  return view.present() ? TensorGroup(view).shape() : Matrix();
}

DeviceLayer shapes_of_shifted(const StepShiftLayer& layer) {
  const RecurrenceWeights& w = *layer.mixer;
  DeviceLayer shapes;
  shapes.q = shape_if_there(w.q_proj);
  shapes.k = shape_if_there(w.k_proj);
  shapes.v = shape_if_there(w.v_proj);
  shapes.down = {shape_if_there(w.f_down), shape_if_there(w.r_down),
                 shape_if_there(w.out_gate_down), shape_if_there(w.v_down)};
  shapes.up = {shape_if_there(w.f_proj), shape_if_there(w.r_proj), shape_if_there(w.out_gate),
               shape_if_there(w.v_mix)};
  shapes.o_proj = TensorGroup(layer.output->o_proj).shape();
  shapes.gate_up = shapes_of(up_groups(layer.spec, *layer.channel_mix));
  shapes.down_proj = TensorGroup(layer.channel_mix->down_proj).shape();
  return shapes;
}

}  // namespace

DecodeShape shape_of(const Matrix& m, bool pairs, bool whole_grid) {
  DecodeShape s{.type = m.type, .rows = m.rows, .whole_grid = whole_grid ? 1 : 0};
  if (!quant::is_block_type(m.type)) {
    s.tiles = m.rows;
    s.unit = pairs ? 2 : 1;
    s.lane_shift = 5;
    s.chunks = m.cols * (m.type == BlockType::f32 ? 4 : 2) / 16;
    s.steps = divide_up(s.chunks, 32);
    s.step_bytes = 512;
    s.tile_bytes = s.chunks * 16;
    s.tail_chunks = s.chunks - 32 * (s.steps - 1);
    return s;
  }
  s.tiles = m.tiles();
  s.lane_shift = log2_floor(m.lanes);
  s.row_shift = 5 - s.lane_shift;
  s.steps = m.steps;
  const bool wide = m.type == BlockType::wide;
  s.step_bytes = wide || m.type == BlockType::q8_0 ? 1024 : 512;
  s.tile_bytes = m.steps * s.step_bytes;
  const bool one_number =
      m.type == BlockType::q4_0 || m.type == BlockType::q5_0 || m.type == BlockType::q8_0;
  s.scale_bytes = one_number ? 64 : wide ? 512 : 128;
  s.high_bytes = m.type == BlockType::q6_k                                ? 256
                 : m.type == BlockType::q5_0 || m.type == BlockType::q5_k ? 128
                                                                          : 0;
  return s;
}

long long bytes_of_tile(const DecodeShape& s) {
  return s.tile_bytes + static_cast<long long>(s.steps) * (s.scale_bytes + s.high_bytes);
}

int share_of(const DecodeShape& s, int blocks) {
  return divide_up(s.tiles / s.unit, blocks) * s.unit;
}

bool bound_by_bytes(BlockType type) {
  return !quant::is_block_type(type) || type == BlockType::wide;
}

bool input_once(const DecodeShape& s, int ways) {
  return s.steps <= ways && 2 * s.steps > ways &&
         (!quant::is_block_type(s.type) || s.lane_shift >= 2);
}

DeviceTensors shapes_of(const StepModel& model) {
  DeviceTensors all;
  if (!model.recognised() && model.shifted.layers.empty()) return all;
  all.embeddings = TensorGroup(*model.embeddings).shape();
  all.head = TensorGroup(*model.head).shape();
  for (const StepShiftLayer& layer : model.shifted.layers)
    all.layers.push_back(shapes_of_shifted(layer));
  if (!model.recognised()) return all;
  for (const StepLayer& layer : model.layers) {
    DeviceLayer shapes;
    shapes.projections = shapes_of(projection_groups(*layer.mixer));
    shapes.o_proj = TensorGroup(layer.output->o_proj).shape();
    shapes.gate_up = shapes_of(up_groups(model.layer, *layer.channel_mix));
    shapes.down_proj = TensorGroup(layer.channel_mix->down_proj).shape();
    all.layers.push_back(std::move(shapes));
  }
  return all;
}

std::string refuse_tensors(const StepModel& model, const DeviceTensors& tensors) {
  if (std::string why = refuse_step_model(model); !why.empty()) return why;
  const float eps = model.layer.norm.eps;
  if (model.layer.channel_norm.eps != eps || model.final_norm.eps != eps)
    return "norms of different epsilons";
  if (tensors.layers.size() != model.layers.size()) return "a pass that leaves layers out";
  for (const DeviceLayer& layer : tensors.layers) {
    if (layer.gate_up.size() != 1) return "gate and up of different types";
  }
  return "";
}

}  // namespace runnel::cuda
