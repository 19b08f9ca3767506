// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/resident_model.h"

#include "runtime/backend/cuda/plan.h"
#include "runtime/base/try.h"

namespace runnel::cuda {

Result<std::unique_ptr<CudaState>> CudaState::create(std::shared_ptr<ResidentModel> model) {
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
  explicit CudaModel(std::shared_ptr<ResidentModel> model) : model_(std::move(model)) {}

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

  StepProgram step_program() const override { return model_->step_program; }

  MemoryUse memory() const override {
    return {.weight_bytes = model_->weights.bytes,
            .state_bytes = StateLayout::of(model_->config).total_floats() * sizeof(float),
            .scratch_bytes = model_->scratch_bytes.load()};
  }

 private:
  std::shared_ptr<ResidentModel> model_;
};

/// Whether products take f32 arithmetic: some linear weight is f32.
bool has_f32_products(const Weights& weights) {
  for (const LayerWeights& w : weights.layers) {
    const ChannelMixWeights& c = w.channel_mix;
    const WeightView& up = c.gate_proj.present() ? c.gate_proj : c.up_proj;
    for (const WeightView* view : {&w.projections().q_proj, &w.output.o_proj, &up, &c.down_proj}) {
      if (view->present() && view->type == BlockType::f32) return true;
    }
  }
  return false;
}

Status choose_step_kernel(ResidentModel& m, const LoadRequest& request) {
  m.step_model = record_step_model(request.pass);
  const BuildStep build = [&m](const StepRow& row) -> Result<std::string> {
    auto kernel = row.build(m.step_model, m.weights, m.device.step, m.stream.get());
    if (!kernel && kernel.error().code == ErrorCode::unsupported) return kernel.error().message;
    RUNNEL_TRY(m.step_kernel, std::move(kernel));
    return std::string();
  };
  RUNNEL_TRY(StepChoice choice,
             choose_step_program(m.step_model, m.device.step, request.step_program, build));
  m.step_program = std::move(choice.program);
  if (m.step_kernel != nullptr) m.scratch_bytes += m.step_kernel->bytes();
  return {};
}

}  // namespace

Result<std::shared_ptr<ResidentModel>> load_model(const DeviceFacts& device,
                                                  const LoadRequest& request, WeightPlace place) {
  const DeviceScope scope(device.index);
  RUNNEL_CHECK_OK(scope.status());
  auto model = std::make_shared<ResidentModel>();
  model->config = request.config;
  model->device = device;
  RUNNEL_CHECK_OK(check(prepare_matvec(), "load the kernels"));
  RUNNEL_CHECK_OK(check(prepare_matmul(), "load the kernels"));
  model->slot_chunks = check(prepare_slot_chunks(), "load the kernels").has_value();
  model->wide = prepare_wide_matmul();
  RUNNEL_TRY(model->stream, create_stream());
  RUNNEL_TRY(model->weights,
             DeviceWeights::create(request.config, request.weights, request.progress, place));
  model->cublas = CublasLt::load();
  if (model->cublas == nullptr) {
    model->prefill = {.wide_products = true, .wide_tokens = 128, .tuning = {}};
  }
  model->precise = has_f32_products(request.weights);
  return model;
}

Result<std::unique_ptr<DeviceModel>> make_device_model(const DeviceFacts& device,
                                                       const LoadRequest& request,
                                                       WeightPlace place) {
  if (!request.step_program.empty()) {  // before the weights are on their way
    const auto choice =
        choose_step_program(record_step_model(request.pass), device.step, request.step_program);
    if (!choice) return choice.error();
  }
  RUNNEL_TRY(std::shared_ptr<ResidentModel> model, load_model(device, request, place));
  const DeviceScope scope(device.index);
  RUNNEL_CHECK_OK(scope.status());
  RUNNEL_CHECK_OK(choose_step_kernel(*model, request));
  return std::unique_ptr<DeviceModel>(std::make_unique<CudaModel>(std::move(model)));
}

}  // namespace runnel::cuda
