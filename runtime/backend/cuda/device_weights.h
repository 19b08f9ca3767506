// SPDX-License-Identifier: Apache-2.0
// The weights of a model in device memory, grouped as the kernels read them.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "cuda/launch.h"
#include "cuda/recurrence.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/cuda/handles.h"
#include "runtime/backend/cuda/layer_matrices.h"

namespace runnel::cuda {

/// A matrix and the column of the output row where its rows go.
struct DeviceProjection {
  Matrix matrix;
  std::int32_t column = 0;
};

/// A norm over D channels. Null pointers: no such tensor.
struct DeviceNorm {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

/// One layer. Null pointers: the model has no such tensor.
struct DeviceLayer {
  DeviceNorm norm;
  std::vector<DeviceProjection> projections;  // see projection_groups
  const float* qkv_bias = nullptr;            // of q, k and v, as their columns lie
  std::int32_t num_qkv_bias = 0;
  const float* f_bias = nullptr;
  const float* q_conv = nullptr;
  const float* k_conv = nullptr;
  const float* v_conv = nullptr;
  // Mixer::slots
  const float* read_bias = nullptr;
  const float* head_read_bias = nullptr;
  const float* feature_map = nullptr;
  // Mixer::recurrence
  const float* f_up = nullptr;
  const float* r_bias = nullptr;
  const float* lower_bound = nullptr;
  RecurrenceMap q_map, k_map;

  // of a removal
  const float* log_rate = nullptr;
  const float* removal_key = nullptr;
  const float* key_rate = nullptr;
  const float* bonus = nullptr;
  // For shifted ops; their products are apart, because their inputs are.
  const float* lerp = nullptr;  // [inputs, D]
  const float* channel_lerp = nullptr;
  const float* v_mix_bias = nullptr;
  Matrix q, k, v;
  std::array<Matrix, 4> down;  // of f, r, the output gate and the mix of values; not all are there
  std::array<Matrix, 4> up;

  const float* g_norm = nullptr;
  const float* g_norm_bias = nullptr;
  Matrix o_proj;
  DeviceNorm channel_norm;
  std::vector<DeviceProjection> gate_up;  // see up_groups
  Matrix down_proj;
};

/// The tensors of a model as kernels read them. Without places where only shapes are wanted.
struct DeviceTensors {
  Matrix embeddings;
  Matrix head;
  DeviceNorm embedding_norm;
  DeviceNorm final_norm;
  const double* turns = nullptr;  // [K/2], see SlotMixer; of every layer that rotates
  std::vector<DeviceLayer> layers;
};

/// Where weights lie.
enum class WeightPlace {
  device,  // memory of the device
  mapped,  // pinned memory of the host, read by the device in place: one copy on boards that share
           // theirs
  host,    // ordinary memory of the host, for the emulator of the tests
};

/// Owns the memory behind the pointers.
class DeviceWeights : public DeviceTensors {
 public:
  /// Packs and uploads a tensor at a time and gives its pages of the file back; reports progress.
  static Result<DeviceWeights> create(const ModelConfig& config, const Weights& weights,
                                      const LoadProgress& progress, WeightPlace place);

  std::uint64_t bytes = 0;
  bool has_f32_matrix = false;
  std::size_t largest_unpacked = 0;  // values of the largest matrix that is not bf16 already

 private:
  Result<DeviceLayer> upload_layer(const LayerSpec& layer, const LayerWeights& weights);
  Status upload_mixer(DeviceLayer& to, const LayerSpec& layer, const SlotWeights& weights);
  Status upload_mixer(DeviceLayer& to, const LayerSpec& layer, const RecurrenceWeights& weights);
  Status upload_removal(DeviceLayer& to, const LayerSpec& layer, const RecurrenceWeights& weights);
  Status upload_biases(DeviceLayer& to, const ProjectionWeights& weights);
  Status upload_turns(const LayerSpec& layer);
  Result<std::vector<DeviceProjection>> upload(const std::vector<TensorGroup>& groups);
  Result<Matrix> upload(const TensorGroup& group);
  Result<DeviceNorm> upload(const NormWeights& norm);
  Result<const float*> upload_floats(const WeightView& tensor);
  Result<void*> upload_bytes(const void* data, std::size_t size, const std::string& name);

  WeightPlace place_ = WeightPlace::device;
  std::vector<DeviceMemory> memory_;
  std::vector<PinnedMemory> mapped_;
  std::vector<std::vector<std::byte>> host_memory_;
};

}  // namespace runnel::cuda
