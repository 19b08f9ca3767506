// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test_devices.h"

#include <algorithm>
#include <stdexcept>

#include "runtime/backend/cpu/cpu_backend.h"
#include "runtime/backend/registry.h"
#include "tests/support/slow.h"

namespace runnel::test {

bool TestDevice::software() const {
  return is("vulkan") && info.name.find("llvmpipe") != std::string::npos;
}

bool TestDevice::takes(const ModelConfig& config) const {
  return !is("vulkan") || !config.embedding_norm || config.embedding_norm->kind == Norm::layer;
}

std::vector<TestDevice> test_devices() {
  std::vector<TestDevice> all;
  for (const DeviceInfo& info : devices()) {
    if (info.backend == "reference") continue;
    if (info.backend == "cpu") {
      std::vector<cpu::Isa> isas = cpu::supported_isas();
      if (kOneInstructionSet) isas = {isas.back()};
      for (const cpu::Isa isa : isas)
        all.push_back({"cpu_" + std::string(cpu::isa_name(isa)), info, isa});
      continue;
    }
    TestDevice device{info.id, info, {}};
    std::replace(device.name.begin(), device.name.end(), ':', '_');
    all.push_back(std::move(device));
  }
  return all;
}

std::unique_ptr<Backend> open(const TestDevice& device, int threads) {
  auto made =
      device.isa ? cpu::make_backend(threads, *device.isa) : make_backend(device.info.id, threads);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

}  // namespace runnel::test
