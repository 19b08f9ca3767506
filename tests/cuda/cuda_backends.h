// SPDX-License-Identifier: Apache-2.0
// The first GPU as a backend whose models take a one-token program by name.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/backend/cuda/cuda_backend.h"

namespace runnel::test {

/// Another backend with this row of its ladder; empty: the best that fits.
class WithStepProgram final : public Backend {
 public:
  WithStepProgram(std::unique_ptr<Backend> backend, std::string program)
      : backend_(std::move(backend)), program_(std::move(program)) {}

  const DeviceInfo& device() const override { return backend_->device(); }
  Result<std::unique_ptr<DeviceModel>> load(const LoadRequest& request) override {
    LoadRequest with = request;
    with.step_program = program_;
    return backend_->load(with);
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::string program_;
};

/// Null without a GPU.
inline std::unique_ptr<Backend> cuda_backend(const std::string& program = "ops",
                                             std::optional<cuda::WeightPlace> place = {}) {
  if (cuda::devices().empty()) return nullptr;
  auto backend = cuda::make_backend(0, place);
  if (!backend) return nullptr;
  return std::make_unique<WithStepProgram>(*std::move(backend), program);
}

#define REQUIRE_CUDA_OPS(backend)                                        \
  const std::unique_ptr<Backend> backend = runnel::test::cuda_backend(); \
  if (backend == nullptr) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked"

/// With the best one-token program that fits.
#define REQUIRE_CUDA_PROGRAMS(backend)                                     \
  const std::unique_ptr<Backend> backend = runnel::test::cuda_backend(""); \
  if (backend == nullptr) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked"

}  // namespace runnel::test
