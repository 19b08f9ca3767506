// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/device_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/quantise.h"
#include "runtime/backend/cuda/pack.h"
#include "runtime/base/try.h"

namespace runnel::cuda {

Result<void*> DeviceWeights::upload_bytes(const void* data, std::size_t size,
                                          const std::string& name) {
  bytes += size;
  switch (place_) {
    case WeightPlace::host: {
      const auto* from = static_cast<const std::byte*>(data);
      host_memory_.emplace_back(from, from + size);
      return static_cast<void*>(host_memory_.back().data());
    }
    case WeightPlace::mapped: {
      RUNNEL_TRY(PinnedMemory memory, allocate_mapped(size, name));
      std::memcpy(memory.get(), data, size);
      void* seen = nullptr;  // by the device
      RUNNEL_CHECK_OK(check(cudaHostGetDevicePointer(&seen, memory.get(), 0), "map " + name));
      mapped_.push_back(std::move(memory));
      return seen;
    }
    case WeightPlace::device:
      break;
  }
  RUNNEL_TRY(DeviceMemory memory, allocate_device(size, name));
  RUNNEL_CHECK_OK(
      check(cudaMemcpy(memory.get(), data, size, cudaMemcpyHostToDevice), "upload " + name));
  memory_.push_back(std::move(memory));
  return memory_.back().get();
}

Result<Matrix> DeviceWeights::upload(const TensorGroup& group) {
  const PackedMatrix packed = pack(group.tensors, group.order);
  Matrix m{.type = packed.type,
           .rows = packed.rows,
           .cols = packed.cols,
           .lanes = packed.lanes,
           .steps = packed.steps};
  const std::string& name = group.tensors[0]->name;
  RUNNEL_TRY(m.data, upload_bytes(packed.data.data(), packed.data.size(), name));
  if (!packed.scales.empty()) {
    RUNNEL_TRY(m.scales, upload_bytes(packed.scales.data(), packed.scales.size(), name));
  }
  if (!packed.high.empty()) {
    RUNNEL_TRY(m.high, upload_bytes(packed.high.data(), packed.high.size(), name));
  }
  has_f32_matrix = has_f32_matrix || m.type == BlockType::f32;
  if (m.type != BlockType::bf16 && m.type != BlockType::f32) {
    largest_unpacked = std::max(
        largest_unpacked, static_cast<std::size_t>(m.rows) * static_cast<std::size_t>(m.cols));
  }
  return m;
}

Result<const float*> DeviceWeights::upload_floats(const WeightView& tensor) {
  if (!tensor.present()) return static_cast<const float*>(nullptr);
  std::vector<float> values(static_cast<std::size_t>(tensor.rows * tensor.cols));
  RUNNEL_CHECK_OK(quant::dequantize_rows(tensor.type, tensor.data, tensor.cols, values));
  RUNNEL_TRY(void* p, upload_bytes(values.data(), values.size() * sizeof(float), tensor.name));
  return static_cast<const float*>(p);
}

Result<std::vector<DeviceProjection>> DeviceWeights::upload(
    const std::vector<TensorGroup>& groups) {
  std::vector<DeviceProjection> all;
  for (const TensorGroup& group : groups) {
    RUNNEL_TRY(const Matrix m, upload(group));
    all.push_back({m, group.column});
  }
  return all;
}

Result<DeviceNorm> DeviceWeights::upload(const NormWeights& norm) {
  DeviceNorm n;
  RUNNEL_TRY(n.weight, upload_floats(norm.weight));
  RUNNEL_TRY(n.bias, upload_floats(norm.bias));
  return n;
}

Status DeviceWeights::upload_biases(DeviceLayer& to, const ProjectionWeights& w) {
  if (!w.q_bias.present() && !w.k_bias.present() && !w.v_bias.present()) return {};
  std::vector<float> all;
  for (const auto& [matrix, bias] :
       {std::pair{&w.q_proj, &w.q_bias}, {&w.k_proj, &w.k_bias}, {&w.v_proj, &w.v_bias}}) {
    if (!matrix->present()) continue;
    std::vector<float> values(static_cast<std::size_t>(matrix->rows), 0.0F);
    if (bias->present())
      RUNNEL_CHECK_OK(quant::dequantize_rows(bias->type, bias->data, bias->cols, values));
    all.insert(all.end(), values.begin(), values.end());
  }
  RUNNEL_TRY(void* p, upload_bytes(all.data(), all.size() * sizeof(float), w.q_bias.name));
  to.qkv_bias = static_cast<const float*>(p);
  to.num_qkv_bias = static_cast<std::int32_t>(all.size());
  return {};
}

Status DeviceWeights::upload_turns(const LayerSpec& layer) {
  if (turns != nullptr || !layer.rotates()) return {};
  std::vector<double> values(static_cast<std::size_t>(layer.head_k_dim / 2));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(layer.head_k_dim);
    values[i] = std::pow(layer.common().rope_theta, exponent) / 6.283185307179586476925;
  }
  RUNNEL_TRY(void* p, upload_bytes(values.data(), values.size() * sizeof(double), "rotary table"));
  turns = static_cast<const double*>(p);
  return {};
}

Status DeviceWeights::upload_mixer(DeviceLayer& to, const LayerSpec&, const SlotWeights& w) {
  RUNNEL_TRY(to.projections, upload(projection_groups(w)));
  RUNNEL_TRY(to.read_bias, upload_floats(w.read_bias));
  RUNNEL_TRY(to.head_read_bias, upload_floats(w.head_read_bias));
  RUNNEL_TRY(to.feature_map, upload_floats(w.feature_map));
  return {};
}

Status DeviceWeights::upload_removal(DeviceLayer& to, const LayerSpec& layer,
                                     const RecurrenceWeights& w) {
  RUNNEL_TRY(to.log_rate, upload_floats(w.log_rate));
  RUNNEL_TRY(to.removal_key, upload_floats(w.removal_key));
  RUNNEL_TRY(to.key_rate, upload_floats(w.key_rate));
  RUNNEL_TRY(to.bonus, upload_floats(w.bonus));
  if (layer.mixer_shift == 0) return {};
  RUNNEL_TRY(to.lerp, upload_floats(w.lerp));
  RUNNEL_TRY(to.v_mix_bias, upload_floats(w.v_mix_bias));
  RUNNEL_TRY(to.q, upload(TensorGroup(w.q_proj)));
  RUNNEL_TRY(to.k, upload(TensorGroup(w.k_proj)));
  RUNNEL_TRY(to.v, upload(TensorGroup(w.v_proj)));
  const WeightView* const down[] = {&w.f_down, &w.r_down, &w.out_gate_down, &w.v_down};
  const WeightView* const up[] = {&w.f_proj, &w.r_proj, &w.out_gate, &w.v_mix};
  for (std::size_t i = 0; i < to.down.size(); ++i) {
    if (!down[i]->present()) continue;
    RUNNEL_TRY(to.down[i], upload(TensorGroup(*down[i])));
    RUNNEL_TRY(to.up[i], upload(TensorGroup(*up[i])));
  }
  return {};
}

Status DeviceWeights::upload_mixer(DeviceLayer& to, const LayerSpec& layer,
                                   const RecurrenceWeights& w) {
  if (layer.mixer_shift == 0) {
    RUNNEL_TRY(to.projections, upload(projection_groups(layer, w)));
  }
  RUNNEL_CHECK_OK(upload_removal(to, layer, w));
  if (layer.recurrence().gate_rank > 0 && layer.mixer_shift == 0) {
    RUNNEL_TRY(to.f_up, upload_floats(w.f_proj));
  }
  RUNNEL_TRY(to.r_bias, upload_floats(w.r_bias));
  RUNNEL_TRY(to.lower_bound, upload_floats(w.lower_bound));
  RUNNEL_TRY(to.q_map.first, upload_floats(w.q_map));
  RUNNEL_TRY(to.q_map.first_bias, upload_floats(w.q_map_bias));
  RUNNEL_TRY(to.q_map.second, upload_floats(w.q_map2));
  RUNNEL_TRY(to.q_map.second_bias, upload_floats(w.q_map2_bias));
  RUNNEL_TRY(to.k_map.first, upload_floats(w.k_map));
  RUNNEL_TRY(to.k_map.first_bias, upload_floats(w.k_map_bias));
  RUNNEL_TRY(to.k_map.second, upload_floats(w.k_map2));
  RUNNEL_TRY(to.k_map.second_bias, upload_floats(w.k_map2_bias));
  return {};
}

Result<DeviceLayer> DeviceWeights::upload_layer(const LayerSpec& layer, const LayerWeights& w) {
  DeviceLayer to;
  switch (layer.kind()) {
    case Mixer::slots:
      RUNNEL_CHECK_OK(upload_mixer(to, layer, w.slots()));
      break;
    case Mixer::recurrence:
      RUNNEL_CHECK_OK(upload_mixer(to, layer, w.recurrence()));
      break;
  }
  const ProjectionWeights& p = w.projections();
  RUNNEL_TRY(to.norm, upload(p.norm));
  RUNNEL_CHECK_OK(upload_biases(to, p));
  RUNNEL_TRY(to.f_bias, upload_floats(p.f_bias));
  RUNNEL_TRY(to.q_conv, upload_floats(p.q_conv));
  RUNNEL_TRY(to.k_conv, upload_floats(p.k_conv));
  RUNNEL_TRY(to.v_conv, upload_floats(p.v_conv));
  RUNNEL_CHECK_OK(upload_turns(layer));
  RUNNEL_TRY(to.g_norm, upload_floats(w.output.g_norm));
  RUNNEL_TRY(to.g_norm_bias, upload_floats(w.output.g_norm_bias));
  RUNNEL_TRY(to.o_proj, upload(TensorGroup(w.output.o_proj)));
  if (layer.channel_mix == ChannelMix::none) return to;
  RUNNEL_TRY(to.channel_norm, upload(w.channel_mix.norm));
  RUNNEL_TRY(to.channel_lerp, upload_floats(w.channel_mix.lerp));
  RUNNEL_TRY(to.gate_up, upload(up_groups(layer, w.channel_mix)));
  RUNNEL_TRY(to.down_proj, upload(TensorGroup(w.channel_mix.down_proj)));
  return to;
}

Result<DeviceWeights> DeviceWeights::create(const ModelConfig& config, const Weights& weights,
                                            const LoadProgress& progress, WeightPlace place) {
  DeviceWeights d;
  d.place_ = place;
  const float pieces = static_cast<float>(weights.layers.size() + 2);
  const auto report = [&](std::size_t done) -> Status {
    if (progress && !progress(static_cast<float>(done) / pieces)) {
      return fail(ErrorCode::cancelled, "load: stopped by the caller");
    }
    return {};
  };
  const auto release = [&weights](const WeightView& view) {
    if (weights.release && view.present()) weights.release(view.data);
  };
  RUNNEL_CHECK_OK(report(0));
  RUNNEL_TRY(d.embeddings, d.upload(TensorGroup(weights.embeddings)));
  if (weights.tied()) {
    d.head = d.embeddings;
  } else {
    RUNNEL_TRY(d.head, d.upload(TensorGroup(weights.head)));
  }
  release(weights.embeddings);
  release(weights.head);
  RUNNEL_TRY(d.embedding_norm, d.upload(weights.embedding_norm));
  RUNNEL_TRY(d.final_norm, d.upload(weights.final_norm));
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    RUNNEL_CHECK_OK(report(i + 1));
    RUNNEL_TRY(DeviceLayer layer, d.upload_layer(config.layers[i], weights.layers[i]));
    d.layers.push_back(std::move(layer));
    for_each_view(weights.layers[i], release);
  }
  RUNNEL_CHECK_OK(report(weights.layers.size() + 2));
  return d;
}

}  // namespace runnel::cuda
