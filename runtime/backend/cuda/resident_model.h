// SPDX-License-Identifier: Apache-2.0
// A model on a CUDA device: what its states and plans share.
#pragma once

#include <atomic>
#include <memory>

#include "cuda/prefill.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/cuda/cublas.h"
#include "runtime/backend/cuda/device_weights.h"
#include "runtime/backend/cuda/step/programs.h"

namespace runnel::cuda {

/// Facts about a device that decide how kernels are launched.
struct DeviceFacts {
  int index = 0;
  int major = 0, minor = 0;
  int multiprocessors = 1;
  StepDevice step;
  std::uint64_t memory_bytes = 0;
  bool integrated = false;
  bool maps_memory = false;  // reads pinned memory of the host
};

/// On a board whose GPU shares the host's memory weights are mapped, so that there is one copy.
inline WeightPlace weight_place(const DeviceFacts& facts) {
  return facts.integrated && facts.maps_memory ? WeightPlace::mapped : WeightPlace::device;
}

/// Which products of long passes matmul_wide.cu makes, where device and shape allow it.
struct PrefillOptions {
  bool wide = true;            // projections of slots, gate and up: what follows is fused behind
  bool wide_products = false;  // and the others: where there is no cuBLASLt
  int wide_tokens = 512;       // fewest tokens of a pass for it
  WideTuning tuning;
  // For layers whose slots the broad chunkwise kernels take, for measurements:
  bool defer_biases = true;  // biases of q, k and v are added where the slots read them
  bool bf16_outputs = true;  // what the slots read leaves as the operand of the output projection
  BroadTuning broad;
};

/// Shared by the DeviceModel, its states and its plans; destroyed with the last of them.
struct ResidentModel {
  ModelConfig config;
  DeviceFacts device;
  DeviceWeights weights;
  Stream stream;
  std::unique_ptr<CublasLt> cublas;  // null: our own products
  bool slot_chunks = false;          // the device has the shared memory for the chunkwise kernels
  bool wide = false;                 // the device has wgmma and this build too
  PrefillOptions prefill;
  bool precise = false;  // f32 linear weights: f32 arithmetic everywhere
  StepModel step_model;
  StepProgram step_program;
  std::unique_ptr<StepKernel> step_kernel;  // null: tokens are a graph of ops
  std::atomic<std::uint64_t> scratch_bytes{0};

  Launch launch() const {
    return {.stream = stream.get(),
            .chain = device.major >= 9,
            .cluster_limit = device.major >= 9 ? 8 : 1,
            .multiprocessors = device.multiprocessors};
  }
};

/// A state: canonical layout in device memory.
class CudaState final : public RecurrentState {
 public:
  static Result<std::unique_ptr<CudaState>> create(std::shared_ptr<ResidentModel> model);

  std::uint64_t position() const override { return position_; }
  Status export_to(std::span<float> out) const override;
  Status import_from(std::span<const float> canonical, std::uint64_t position) override;
  Result<std::unique_ptr<RecurrentState>> clone() const override;
  Status reset() override;

  float* data() const { return floats_.get(); }
  void advance(std::uint64_t tokens) { position_ += tokens; }

  /// A second buffer of the same size for running one step ahead; made on first use.
  Result<float*> shadow();
  /// Makes the shadow the state.
  void swap_shadow() { std::swap(floats_, shadow_); }

 private:
  explicit CudaState(std::shared_ptr<ResidentModel> model) : model_(std::move(model)) {}

  std::shared_ptr<ResidentModel> model_;
  DeviceArray<float> floats_, shadow_;
  std::uint64_t position_ = 0;
};

/// The weights of a model on the device, and nothing that computes a token as a whole.
Result<std::shared_ptr<ResidentModel>> load_model(const DeviceFacts& device,
                                                  const LoadRequest& request,
                                                  WeightPlace place = WeightPlace::device);

/// The same as a model of the seam, with the one-token program that the request wants or that fits best.
Result<std::unique_ptr<DeviceModel>> make_device_model(const DeviceFacts& device,
                                                       const LoadRequest& request,
                                                       WeightPlace place);

}  // namespace runnel::cuda
