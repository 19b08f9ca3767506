// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/device_model.h"

#include "runtime/backend/cuda/plan.h"
#include "runtime/base/try.h"

namespace runnel::cuda {

Result<std::unique_ptr<CudaState>> CudaState::create(std::shared_ptr<ModelOnDevice> model) {
  const DeviceScope scope(model->device.index);
  RUNNEL_CHECK_OK(scope.status());
  std::unique_ptr<CudaState> state(new CudaState(std::move(model)));
  const std::size_t floats = StateLayout::of(state->model_->config).total_floats();
  RUNNEL_TRY(state->floats_, device_array<float>(floats, "a state"));
  RUNNEL_CHECK_OK(state->reset());
  return state;
}

Status CudaState::export_to(std::span<float> out) const {
  if (out.size() != floats_.size()) {
    return fail(ErrorCode::invalid_argument, "state: buffer has ", out.size(), " floats, expected ",
                floats_.size());
  }
  const DeviceScope scope(model_->device.index);
  RUNNEL_CHECK_OK(scope.status());
  const cudaStream_t stream = model_->stream.get();
  RUNNEL_CHECK_OK(check(
      cudaMemcpyAsync(out.data(), floats_.get(), floats_.bytes(), cudaMemcpyDeviceToHost, stream),
      "copy a state out"));
  return check(cudaStreamSynchronize(stream), "copy a state out");
}

Status CudaState::import_from(std::span<const float> canonical, std::uint64_t position) {
  if (canonical.size() != floats_.size()) {
    return fail(ErrorCode::mismatch, "state: has ", canonical.size(), " floats, expected ",
                floats_.size());
  }
  const DeviceScope scope(model_->device.index);
  RUNNEL_CHECK_OK(scope.status());
  const cudaStream_t stream = model_->stream.get();
  RUNNEL_CHECK_OK(check(cudaMemcpyAsync(floats_.get(), canonical.data(), floats_.bytes(),
                                        cudaMemcpyHostToDevice, stream),
                        "copy a state in"));
  RUNNEL_CHECK_OK(check(cudaStreamSynchronize(stream), "copy a state in"));
  position_ = position;
  return {};
}

Result<std::unique_ptr<RecurrentState>> CudaState::clone() const {
  RUNNEL_TRY(std::unique_ptr<CudaState> copy, create(model_));
  const DeviceScope scope(model_->device.index);
  RUNNEL_CHECK_OK(scope.status());
  const cudaStream_t stream = model_->stream.get();
  RUNNEL_CHECK_OK(check(cudaMemcpyAsync(copy->floats_.get(), floats_.get(), floats_.bytes(),
                                        cudaMemcpyDeviceToDevice, stream),
                        "clone a state"));
  RUNNEL_CHECK_OK(check(cudaStreamSynchronize(stream), "clone a state"));
  copy->position_ = position_;
  return std::unique_ptr<RecurrentState>(std::move(copy));
}

Status CudaState::reset() {
  const DeviceScope scope(model_->device.index);
  RUNNEL_CHECK_OK(scope.status());
  const cudaStream_t stream = model_->stream.get();
  RUNNEL_CHECK_OK(
      check(cudaMemsetAsync(floats_.get(), 0, floats_.bytes(), stream), "clear a state"));
  RUNNEL_CHECK_OK(check(cudaStreamSynchronize(stream), "clear a state"));
  position_ = 0;
  return {};
}

Result<float*> CudaState::shadow() {
  if (shadow_.size() == 0) {
    RUNNEL_TRY(shadow_, device_array<float>(floats_.size(), "a state's shadow"));
  }
  return shadow_.get();
}

namespace {

class CudaModel final : public DeviceModel {
 public:
  explicit CudaModel(std::shared_ptr<ModelOnDevice> model) : model_(std::move(model)) {}

  Result<std::unique_ptr<RecurrentState>> create_state() const override {
    RUNNEL_TRY(std::unique_ptr<CudaState> state, CudaState::create(model_));
    return std::unique_ptr<RecurrentState>(std::move(state));
  }

  Result<std::unique_ptr<Plan>> record(int max_tokens, const Recording& recording) const override {
    return record_plan(model_, max_tokens, recording);
  }

  int prefill_tokens() const override {
    // Scratch is about 150 KB a token at 1.4B; boards that share their memory have little to spare.
    constexpr std::uint64_t kRoomy = std::uint64_t{16} << 30, kVeryRoomy = std::uint64_t{40} << 30;
    const DeviceFacts& device = model_->device;
    if (device.integrated || device.memory_bytes < kRoomy) return 512;
    return device.memory_bytes < kVeryRoomy ? 2048 : 8192;
  }

  MemoryUse memory() const override {
    return {.weight_bytes = model_->weights.bytes,
            .state_bytes = StateLayout::of(model_->config).total_floats() * sizeof(float),
            .scratch_bytes = model_->scratch_bytes.load()};
  }

 private:
  std::shared_ptr<ModelOnDevice> model_;
};

}  // namespace

Result<std::shared_ptr<ModelOnDevice>> load_model(const DeviceFacts& device,
                                                  const ModelConfig& config, const Weights& weights,
                                                  const LoadProgress& progress, WeightPlace place) {
  const DeviceScope scope(device.index);
  RUNNEL_CHECK_OK(scope.status());
  auto model = std::make_shared<ModelOnDevice>();
  model->config = config;
  model->device = device;
  RUNNEL_CHECK_OK(check(prepare_matvec(), "load the kernels"));
  RUNNEL_CHECK_OK(check(prepare_matmul(), "load the kernels"));
  model->slot_chunks = check(prepare_slot_chunks(), "load the kernels").has_value();
  model->wide = prepare_wide_matmul();
  RUNNEL_TRY(model->stream, create_stream());
  RUNNEL_TRY(model->weights, DeviceWeights::create(config, weights, progress, place));
  model->cublas = CublasLt::load();
  if (model->cublas == nullptr) {
    model->prefill = {.wide_products = true, .wide_tokens = 128, .tuning = {}};
  }
  for (const LayerWeights& w : weights.layers) {
    for (const WeightView* view : {&w.q_proj, &w.o_proj, &w.gate_proj, &w.down_proj}) {
      model->precise = model->precise || view->type == BlockType::f32;
    }
  }
  return model;
}

Result<std::unique_ptr<DeviceModel>> make_device_model(const DeviceFacts& device,
                                                       const ModelConfig& config,
                                                       const Weights& weights,
                                                       const LoadProgress& progress,
                                                       StepPath step_path, WeightPlace place) {
  RUNNEL_TRY(std::shared_ptr<ModelOnDevice> model,
             load_model(device, config, weights, progress, place));
  model->step_path = step_path;
  return std::unique_ptr<DeviceModel>(std::make_unique<CudaModel>(std::move(model)));
}

}  // namespace runnel::cuda
