// SPDX-License-Identifier: Apache-2.0
// The devices this build can compute on.
//
// Example:
//   for (const runnel::DeviceInfo& d : runnel::devices()) std::cout << d.id << "  " << d.name << '\n';
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runnel/export.h"

namespace runnel {

/// One device. `id` is what ModelOptions::device and `--device` take.
struct DeviceInfo {
  std::string id;                  ///< "cpu", "reference", "cuda:0", "vulkan:0"
  std::string backend;             ///< "cpu", "reference", "cuda", "vulkan"
  std::string name;                ///< the vendor's name, e.g. "Intel(R) Xeon(R) Processor"
  std::string detail;              ///< instruction set, driver or API version, e.g. "avx512_vnni"
  std::uint64_t memory_bytes = 0;  ///< total memory of the device, 0 if unknown
};

/// Every device that a model can be loaded on now, best first. Never fails: a backend without a
/// usable device lists none. Thread-safe.
///
/// On CPUs with AMX this, as loading a model on the CPU, asks Linux for its registers. From then on sigaltstack() takes no
/// stack for signal handlers of less than getauxval(AT_MINSIGSTKSZ) bytes, some 11 KiB: more than SIGSTKSZ once was.
RUNNEL_API std::vector<DeviceInfo> devices();

}  // namespace runnel
