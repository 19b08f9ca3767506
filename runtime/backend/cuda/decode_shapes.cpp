// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/decode_shapes.h"

namespace runnel::cuda {

Act act_of(Activation a) {
  return a == Activation::swish ? Act::swish : a == Activation::relu ? Act::relu : Act::identity;
}
Act act_of(FeatureMap f) {
  return f == FeatureMap::swish ? Act::swish : f == FeatureMap::relu ? Act::relu : Act::identity;
}

DecodeShape shape_of(const Matrix& m, bool pairs, bool everybody) {
  DecodeShape s{.type = m.type, .rows = m.rows, .everybody = everybody ? 1 : 0};
  if (is_plain(m.type)) {
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
  s.lane_shift = log2_of(m.lanes);
  s.row_shift = 5 - s.lane_shift;
  s.steps = m.steps;
  s.step_bytes = m.type == BlockType::q8_0 ? 1024 : 512;
  s.tile_bytes = m.steps * s.step_bytes;
  s.scale_bytes = m.type == BlockType::q4_0 || m.type == BlockType::q8_0 ? 64 : 128;
  s.high_bytes = m.type == BlockType::q6_k ? 256 : 0;
  return s;
}

const char* refuse_slot_model(const ModelConfig& c, const DeviceWeights& w) {
  if (c.mixer != Mixer::slots || w.layers.empty()) return "a recurrence";
  if (c.conv_size > 0) return "convolutions";
  if (c.feature_map != FeatureMap::identity && c.feature_map != FeatureMap::swish &&
      c.feature_map != FeatureMap::relu)
    return "the feature map";
  if (c.hidden_size % 32 != 0 || c.intermediate_size % 32 != 0 ||
      c.num_heads * c.head_v_dim % 32 != 0)
    return "widths that are no multiples of 32";
  if (!is_power(c.head_k_dim) || !is_power(c.head_v_dim) || c.head_k_dim < 8 || c.head_v_dim < 4)
    return "head dimensions";
  return "";
}

}  // namespace runnel::cuda
