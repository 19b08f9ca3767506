// SPDX-License-Identifier: Apache-2.0
// A model repacked for the CPU kernels, with the threads that run it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/cpu_state.h"
#include "runtime/backend/cpu/kernels.h"
#include "runtime/backend/cpu/packed_matrix.h"
#include "runtime/base/thread_pool.h"

namespace runnel::cpu {

/// A norm over D channels; the bias is empty but for a LayerNorm.
struct DeviceNorm {
  std::vector<float> weight, bias;
};

/// One layer; shapes as in LayerWeights. Small tensors as floats, empty if the model has none.
struct DeviceLayer {
  LayerSpec spec;
  NativeLayer layout;
  PackedMatrix q, k, v, f, o, gate, up, down;
  PackedMatrix f_down, r, out_gate;                   // of a recurrence
  PackedMatrix r_down, out_gate_down, v_down, v_mix;  // of shifted projections
  PackedMatrix q_map, q_map2, k_map, k_map2;          // [K, K]
  DeviceNorm norm, channel_norm;
  std::vector<float> g_norm, g_norm_bias;
  std::vector<float> q_bias, k_bias, v_bias;
  std::vector<float> f_bias;                  // [H*M]
  std::vector<float> read_bias;               // [H, memory lanes], padded with zeros
  std::vector<float> head_read_bias;          // [HQ]
  std::vector<float> q_conv, k_conv, v_conv;  // [channels, conv]
  std::vector<float> feature_map;             // [K, K]
  std::vector<float> r_bias, lower_bound;     // [H*R], [H*F]
  std::vector<float> decay_rate;              // [H] e^A
  std::vector<float> removal_key, key_rate;   // [H*K]
  std::vector<float> bonus;                   // [H*K]
  std::vector<float> lerp;                    // [inputs, D]
  std::vector<float> channel_lerp;            // [D]
  std::vector<float> v_mix_bias;              // [H*V]
  std::vector<float> q_map_bias, q_map2_bias, k_map_bias, k_map2_bias;  // [K]
};

/// The rotary embedding of the layers that have one; the same for a whole model.
struct Rotation {
  std::vector<double> frequencies;  // [K/2] theta^(-2i/K); empty: no layer rotates
  bool sinks = false;
  std::uint64_t sink_distance = 0;
};

class CpuModel final : public DeviceModel {
 public:
  static Result<std::unique_ptr<DeviceModel>> load(const LoadRequest& request,
                                                   const Kernels& kernels, int threads);

  Result<std::unique_ptr<RecurrentState>> create_state() const override;
  Result<std::unique_ptr<Plan>> record(int max_tokens, const Recording& recording) const override;
  MemoryUse memory() const override;

  const ModelConfig& config() const { return config_; }
  const NativeLayout& layout() const { return layout_; }
  const Kernels& kernels() const { return kernels_; }
  const PackedMatrix& embeddings() const { return embeddings_; }
  const PackedMatrix& head() const { return head_; }
  const DeviceNorm& embedding_norm() const { return embedding_norm_; }
  const DeviceNorm& final_norm() const { return final_norm_; }
  const DeviceLayer& layer(int i) const { return layers_[static_cast<std::size_t>(i)]; }
  const Rotation& rotation() const { return rotation_; }

  /// The pool, for one pass at a time.
  ThreadPool& pool() const { return *pool_; }
  std::mutex& pool_in_use() const { return pool_in_use_; }
  void count_scratch(std::size_t bytes) const { scratch_bytes_ += bytes; }

 private:
  CpuModel() = default;
  Status pack(const Weights& weights, const LoadProgress& progress);

  ModelConfig config_;
  NativeLayout layout_;
  Kernels kernels_ = {};
  PageBuffer arena_;  // all tiles
  PackedMatrix embeddings_;
  PackedMatrix head_;  // the same tiles if the embeddings are tied
  DeviceNorm embedding_norm_, final_norm_;
  std::vector<DeviceLayer> layers_;
  Rotation rotation_;
  std::unique_ptr<ThreadPool> pool_;
  mutable std::mutex pool_in_use_;
  mutable std::atomic<std::uint64_t> scratch_bytes_{0};
};

}  // namespace runnel::cpu
