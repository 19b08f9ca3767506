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

Result<Matrix> DeviceWeights::upload(std::span<const WeightView* const> tensors, bool alternating) {
  const PackedMatrix packed =
      pack(tensors, alternating ? RowOrder::alternating : RowOrder::stacked);
  Matrix m{.type = packed.type,
           .rows = packed.rows,
           .cols = packed.cols,
           .lanes = packed.lanes,
           .steps = packed.steps};
  const std::string& name = tensors[0]->name;
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

Result<DeviceWeights> DeviceWeights::create(const ModelConfig& config, const Weights& weights,
                                            const LoadProgress& progress, WeightPlace place) {
  DeviceWeights d;
  d.place_ = place;
  const auto single = [&d](const WeightView& w) {
    const WeightView* const one[] = {&w};
    return d.upload(one, false);
  };
  const float pieces = static_cast<float>(weights.layers.size() + 2);
  const auto report = [&](std::size_t done) -> Status {
    if (progress && !progress(static_cast<float>(done) / pieces)) {
      return fail(ErrorCode::cancelled, "load: stopped by the caller");
    }
    return {};
  };
  RUNNEL_CHECK_OK(report(0));
  RUNNEL_TRY(d.embeddings, single(weights.embeddings));
  if (weights.tied()) {
    d.head = d.embeddings;
  } else {
    RUNNEL_TRY(d.head, single(weights.head));
  }
  for (const WeightView* table : {&weights.embeddings, &weights.head}) {
    if (weights.release) weights.release(table->data);
  }
  RUNNEL_TRY(d.final_norm, d.upload_floats(weights.final_norm));
  if (config.num_positional_slots() > 0 || config.rotary) {
    std::vector<double> turns(static_cast<std::size_t>(config.head_k_dim / 2));
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const double exponent =
          -2.0 * static_cast<double>(i) / static_cast<double>(config.head_k_dim);
      turns[i] = std::pow(config.rope_theta, exponent) / 6.283185307179586476925;
    }
    RUNNEL_TRY(void* p,
               d.upload_bytes(turns.data(), turns.size() * sizeof(double), "rotary table"));
    d.turns = static_cast<const double*>(p);
  }
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    RUNNEL_CHECK_OK(report(i + 1));
    const LayerWeights& w = weights.layers[i];
    LayerOnDevice layer;
    std::int32_t column = 0;
    std::vector<const WeightView*> run;
    std::int32_t run_column = 0;
    const auto flush = [&]() -> Status {
      if (run.empty()) return {};
      RUNNEL_TRY(const Matrix m, d.upload(run, false));
      layer.projections.push_back({m, run_column});
      run.clear();
      return {};
    };
    const bool low_rank = config.gate_rank > 0;
    const WeightView none;
    for (const WeightView* view : {config.output_gate ? &w.out_gate : &none, &w.q_proj, &w.k_proj,
                                   &w.v_proj, low_rank ? &w.f_down : &w.f_proj, &w.r_proj}) {
      if (!view->present()) continue;
      if (!run.empty() && run.back()->type != view->type) RUNNEL_CHECK_OK(flush());
      if (run.empty()) run_column = column;
      run.push_back(view);
      column += static_cast<std::int32_t>(view->rows);
    }
    RUNNEL_CHECK_OK(flush());
    RUNNEL_TRY(layer.attn_norm, d.upload_floats(w.attn_norm));
    RUNNEL_TRY(layer.f_bias, d.upload_floats(w.f_bias));
    RUNNEL_TRY(layer.read_bias, d.upload_floats(w.read_bias));
    RUNNEL_TRY(layer.head_read_bias, d.upload_floats(w.head_read_bias));
    RUNNEL_TRY(layer.q_conv, d.upload_floats(w.q_conv));
    RUNNEL_TRY(layer.k_conv, d.upload_floats(w.k_conv));
    RUNNEL_TRY(layer.v_conv, d.upload_floats(w.v_conv));
    RUNNEL_TRY(layer.feature_map, d.upload_floats(w.feature_map));
    if (low_rank) {
      RUNNEL_TRY(layer.f_up, d.upload_floats(w.f_proj));
    }
    RUNNEL_TRY(layer.r_bias, d.upload_floats(w.r_bias));
    RUNNEL_TRY(layer.lower_bound, d.upload_floats(w.lower_bound));
    RUNNEL_TRY(layer.q_map.first, d.upload_floats(w.q_map));
    RUNNEL_TRY(layer.q_map.first_bias, d.upload_floats(w.q_map_bias));
    RUNNEL_TRY(layer.q_map.second, d.upload_floats(w.q_map2));
    RUNNEL_TRY(layer.q_map.second_bias, d.upload_floats(w.q_map2_bias));
    RUNNEL_TRY(layer.k_map.first, d.upload_floats(w.k_map));
    RUNNEL_TRY(layer.k_map.first_bias, d.upload_floats(w.k_map_bias));
    RUNNEL_TRY(layer.k_map.second, d.upload_floats(w.k_map2));
    RUNNEL_TRY(layer.k_map.second_bias, d.upload_floats(w.k_map2_bias));
    RUNNEL_TRY(layer.g_norm, d.upload_floats(w.g_norm));
    RUNNEL_TRY(layer.mlp_norm, d.upload_floats(w.mlp_norm));
    RUNNEL_TRY(layer.o_proj, single(w.o_proj));
    RUNNEL_TRY(layer.down, single(w.down_proj));
    if (w.gate_proj.type == w.up_proj.type) {
      const WeightView* const both[] = {&w.gate_proj, &w.up_proj};
      RUNNEL_TRY(const Matrix m, d.upload(both, true));
      layer.gate_up.push_back({m, 0});
    } else {
      RUNNEL_TRY(const Matrix gate, single(w.gate_proj));
      RUNNEL_TRY(const Matrix up, single(w.up_proj));
      layer.gate_up.push_back({gate, 0});
      layer.gate_up.push_back({up, gate.rows});
    }
    d.layers.push_back(std::move(layer));
    for (const auto member : kLayerViews) {
      if (weights.release && (w.*member).present()) weights.release((w.*member).data);
    }
  }
  RUNNEL_CHECK_OK(report(weights.layers.size() + 2));
  return d;
}

}  // namespace runnel::cuda
