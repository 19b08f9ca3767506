// SPDX-License-Identifier: Apache-2.0
// The weights of a model in device memory, grouped as the kernels read them.
#pragma once

#include <memory>
#include <vector>

#include "cuda/launch.h"
#include "cuda/recurrence.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/cuda/handles.h"

namespace runnel::cuda {

/// A matrix and the column of the output row where its rows go.
struct Projection {
  Matrix matrix;
  std::int32_t column = 0;
};

/// One block. Null pointers: the model has no such tensor.
struct LayerOnDevice {
  const float* attn_norm = nullptr;
  // q, k, v, f stacked as far as types agree; of a recurrence output gate, r and f's low rank too
  std::vector<Projection> projections;
  const float* f_bias = nullptr;
  const float* read_bias = nullptr;
  const float* head_read_bias = nullptr;
  const float* q_conv = nullptr;
  const float* k_conv = nullptr;
  const float* v_conv = nullptr;
  const float* feature_map = nullptr;
  const float* f_up = nullptr;
  const float* r_bias = nullptr;
  const float* lower_bound = nullptr;
  RecurrenceMap q_map, k_map;
  const float* g_norm = nullptr;
  Matrix o_proj;
  const float* mlp_norm = nullptr;
  // one matrix of alternating rows; two, stacked, if their types differ
  std::vector<Projection> gate_up;
  Matrix down;
};

/// Where weights lie.
enum class WeightPlace {
  device,  // memory of the device
  mapped,  // pinned memory of the host, read by the device in place: one copy on boards that share
           // theirs
  host,    // ordinary memory of the host, for the emulator of the tests
};

/// Owns the memory behind the pointers.
class DeviceWeights {
 public:
  /// Packs and uploads a tensor at a time and gives its pages of the file back; reports progress.
  static Result<DeviceWeights> create(const ModelConfig& config, const Weights& weights,
                                      const LoadProgress& progress, WeightPlace place);

  Matrix embeddings;
  Matrix head;
  const float* final_norm = nullptr;
  const double* turns = nullptr;  // [K/2], see SlotMixer
  std::vector<LayerOnDevice> layers;
  std::uint64_t bytes = 0;
  bool has_f32_matrix = false;
  std::size_t largest_unpacked = 0;  // values of the largest matrix that is not bf16 already

 private:
  Result<Matrix> upload(std::span<const WeightView* const> tensors, bool alternating);
  Result<const float*> upload_floats(const WeightView& tensor);
  Result<void*> upload_bytes(const void* data, std::size_t size, const std::string& name);

  WeightPlace place_ = WeightPlace::device;
  std::vector<DeviceMemory> memory_;
  std::vector<PinnedMemory> mapped_;
  std::vector<std::vector<std::byte>> host_memory_;
};

}  // namespace runnel::cuda
