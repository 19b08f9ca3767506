// SPDX-License-Identifier: Apache-2.0
// The devices that a suite over all backends runs on.
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/isa.h"

namespace runnel::test {

struct TestDevice {
  std::string name;             // "cpu_avx2", "cuda_0": as a part of a test's name
  DeviceInfo info;              // of the device
  std::optional<cpu::Isa> isa;  // of the CPU

  bool is(const char* backend) const { return info.backend == backend; }
  /// A Vulkan driver that computes on the CPU: small subgroups, no matrix units, shaders that take long to compile.
  bool software() const;
  /// Whether it runs such a model, which it refuses by name otherwise.
  bool takes(const ModelConfig& config) const;
};

inline void PrintTo(const TestDevice& d, std::ostream* out) { *out << d.name; }

/// The devices of this machine but the reference: the CPU once for each instruction set that it has.
std::vector<TestDevice> test_devices();

/// Throws on error.
std::unique_ptr<Backend> open(const TestDevice& device, int threads = 2);

}  // namespace runnel::test
