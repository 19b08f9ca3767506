// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/cuda_backend.h"

#include "runtime/backend/cuda/resident_model.h"
#include "runtime/base/try.h"

namespace runnel::cuda {
namespace {

/// Devices the driver shows. No driver (35) and no device (100) are ordinary: none.
int count_devices(cudaError_t* why) {
  int count = 0;
  *why = cudaGetDeviceCount(&count);
  if (*why != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;  // the count was not written
  }
  return count;
}

/// Whether this build has code for the device.
bool has_code(int index) {
  const DeviceScope scope(index);
  return scope.status().has_value() && prepare_matvec() == cudaSuccess;
}

StepDevice step_device(const cudaDeviceProp& p) {
  return {.major = p.major,
          .minor = p.minor,
          .multiprocessors = p.multiProcessorCount,
          .shared_bytes = static_cast<int>(p.sharedMemPerBlockOptin),
          // What a kernel may use at most; each device says at load whether it has room for it.
          .largest_cluster = p.major < 9     ? 1
                             : p.major == 12 ? 8
                                             : 16,
          .cooperative = p.cooperativeLaunch != 0};
}

DeviceInfo describe(int index, DeviceFacts* facts) {
  cudaDeviceProp p{};
  DeviceInfo info{.id = "cuda:" + std::to_string(index), .backend = "cuda"};
  if (cudaGetDeviceProperties(&p, index) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return info;
  }
  info.name = p.name;
  int driver = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  info.detail = "sm_" + std::to_string(p.major) + std::to_string(p.minor) + ", driver API " +
                std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
  info.memory_bytes = p.totalGlobalMem;
  *facts = {.index = index,
            .major = p.major,
            .minor = p.minor,
            .multiprocessors = p.multiProcessorCount,
            .step = step_device(p),
            .memory_bytes = p.totalGlobalMem,
            .integrated = p.integrated != 0,
            .maps_memory = p.canMapHostMemory != 0};
  return info;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(DeviceInfo info, const DeviceFacts& facts, WeightPlace place)
      : info_(std::move(info)), facts_(facts), place_(place) {}

  const DeviceInfo& device() const override { return info_; }

  Result<std::unique_ptr<DeviceModel>> load(const LoadRequest& request) override {
    return make_device_model(facts_, request, place_);
  }

 private:
  DeviceInfo info_;
  DeviceFacts facts_;
  WeightPlace place_;
};

}  // namespace

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
  cudaError_t why = cudaSuccess;
  const int count = count_devices(&why);
  for (int i = 0; i < count; ++i) {
    DeviceFacts facts;
    DeviceInfo info = describe(i, &facts);
    if (facts.major >= 8 && has_code(i)) all.push_back(std::move(info));
  }
  return all;
}

DeviceFacts facts_of(int index) {
  DeviceFacts facts;
  static_cast<void>(describe(index, &facts));
  return facts;
}

Result<std::unique_ptr<Backend>> make_backend(int index, std::optional<WeightPlace> place) {
  cudaError_t why = cudaSuccess;
  const int count = count_devices(&why);
  if (index < 0 || index >= count) {
    return fail(ErrorCode::not_found, "device cuda:", index, ": the driver shows ", count,
                " CUDA devices", why == cudaSuccess ? "" : " (",
                why == cudaSuccess ? "" : cudaGetErrorString(why), why == cudaSuccess ? "" : ")");
  }
  DeviceFacts facts;
  DeviceInfo info = describe(index, &facts);
  if (facts.major < 8) {
    return fail(ErrorCode::unsupported, "device cuda:", index, ": has compute capability ",
                facts.major, ".", facts.minor, ", expected 8.0 or newer");
  }
  if (!has_code(index)) {
    return fail(ErrorCode::unsupported, "device cuda:", index,
                ": this build has no code for compute capability ", facts.major, ".", facts.minor);
  }
  return std::unique_ptr<Backend>(
      std::make_unique<CudaBackend>(std::move(info), facts, place.value_or(weight_place(facts))));
}

}  // namespace runnel::cuda
