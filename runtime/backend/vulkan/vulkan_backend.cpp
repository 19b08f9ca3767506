// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/vulkan_backend.h"

#include <atomic>
#include <mutex>

#include "runtime/backend/vulkan/plan.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

DeviceInfo describe(const DeviceFacts& c, std::size_t index) {
  const std::string version = std::to_string(VK_API_VERSION_MAJOR(c.api_version)) + "." +
                              std::to_string(VK_API_VERSION_MINOR(c.api_version));
  return {.id = "vulkan:" + std::to_string(index),
          .backend = "vulkan",
          .name = c.name,
          .detail = "Vulkan " + version + ", " + c.driver,
          .memory_bytes = c.memory_bytes};
}

class VulkanModel final : public DeviceModel {
 public:
  explicit VulkanModel(std::shared_ptr<ResidentModel> model) : model_(std::move(model)) {}

  Result<std::unique_ptr<RecurrentState>> create_state() const override {
    return VulkanState::create(model_);
  }

  Result<std::unique_ptr<Plan>> record(int max_tokens, const Recording& recording) const override {
    RUNNEL_TRY(std::unique_ptr<Plan> plan, VulkanPlan::create(model_, max_tokens, recording));
    scratch_bytes_ += static_cast<const VulkanPlan&>(*plan).scratch_bytes();
    return plan;
  }

  /// Long passes where the device has the memory and takes bindings for it.
  int prefill_tokens() const override {
    const DeviceFacts& c = model_->device->facts();
    constexpr std::uint64_t kRoomy = 1ULL << 30;
    return !c.software && c.storage_range >= kRoomy && c.memory_bytes >= 8 * kRoomy ? 2048 : 512;
  }

  StepProgram step_program() const override { return model_->step.program; }

  MemoryUse memory() const override {
    return {.weight_bytes = model_->weights->bytes(),
            .state_bytes = model_->layout.total_floats() * sizeof(float),
            .scratch_bytes = scratch_bytes_};
  }

 private:
  std::shared_ptr<ResidentModel> model_;
  mutable std::atomic<std::uint64_t> scratch_bytes_ = 0;
};

class VulkanBackend final : public Backend {
 public:
  VulkanBackend(DeviceInfo info, std::shared_ptr<Device> device, const Options& options)
      : info_(std::move(info)),
        device_(std::move(device)),
        cache_(options.pipeline_cache),
        profile_(options.profile) {}

  const DeviceInfo& device() const override { return info_; }

  Result<std::unique_ptr<DeviceModel>> load(const LoadRequest& request) override {
    auto model = std::make_shared<ResidentModel>();
    model->device = device_;
    if (device_->facts().timestamp_ns > 0.0F) model->profile = profile_;
    model->config = request.config;
    model->layout = StateLayout::of(request.config);
    RUNNEL_TRY(model->splits, choose_splits(*device_, request.config));
    StepModel step = record_step_model(request.pass);
    RUNNEL_TRY(const StepChoice choice,
               choose_step(step, StepDevice::of(device_->facts(), device_->tuning()), device_->id(),
                           request.step_program));
    RUNNEL_TRY(model->pipelines, pipelines());
    RUNNEL_TRY(model->states, StateStore::create(device_, model->layout));
    RUNNEL_TRY(model->weights,
               DeviceWeights::create(*device_, request.config, request.weights, request.progress));
    RUNNEL_TRY(model->step, build_chosen(choice, std::move(step), *device_, *model->weights));
    return std::unique_ptr<DeviceModel>(std::make_unique<VulkanModel>(std::move(model)));
  }

 private:
  /// Those of all models of this backend: what one has built, the next finds.
  Result<std::shared_ptr<Pipelines>> pipelines() {
    const std::lock_guard lock(mutex_);
    if (pipelines_ == nullptr) {
      RUNNEL_TRY(pipelines_, Pipelines::create(device_, cache_));
    }
    return pipelines_;
  }

  DeviceInfo info_;
  std::shared_ptr<Device> device_;
  std::filesystem::path cache_;
  std::mutex mutex_;
  std::shared_ptr<Pipelines> pipelines_;
  std::shared_ptr<DispatchProfile> profile_;
};

}  // namespace

std::vector<FoundDevice> find_devices() {
  std::vector<FoundDevice> found;
  const Result<std::shared_ptr<Instance>> instance = Instance::create();
  if (!instance) return found;
  for (const DeviceFacts& c : (*instance)->devices())
    found.push_back({.info = describe(c, found.size()), .software = c.software});
  return found;
}

std::filesystem::path cache_file(const std::filesystem::path& directory, int index) {
  if (directory.empty()) return {};
  std::error_code ignored;  // a cache that cannot be written costs time, nothing else
  std::filesystem::create_directories(directory, ignored);
  return directory / ("vulkan-" + std::to_string(index) + ".pipelines");
}

Result<std::unique_ptr<Backend>> make_backend(int index, const Options& options) {
  RUNNEL_TRY(std::shared_ptr<Instance> instance, Instance::create(options.messages));
  const std::vector<DeviceFacts> all = instance->devices();
  if (index < 0 || static_cast<std::size_t>(index) >= all.size()) {
    return fail(ErrorCode::not_found, "vulkan:", index, ": not found, there are ", all.size(),
                " usable Vulkan devices");
  }
  const std::size_t at = static_cast<std::size_t>(index);
  DeviceInfo info = describe(all[at], at);
  RUNNEL_TRY(std::shared_ptr<Device> device,
             Device::create(std::move(instance), all[at], info.id, options.features));
  return std::unique_ptr<Backend>(
      std::make_unique<VulkanBackend>(std::move(info), std::move(device), options));
}

}  // namespace runnel::vulkan
