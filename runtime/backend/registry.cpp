// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/registry.h"

#include <charconv>

#include "runtime/backend/cpu/cpu_backend.h"
#ifdef RUNNEL_HAS_CUDA
#include "runtime/backend/cuda/cuda_backend.h"
#endif
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/base/try.h"

namespace runnel {

namespace {

#ifdef RUNNEL_HAS_CUDA
/// N of "cuda:N", 0 of "cuda", else -1.
int cuda_index(const std::string& device) {
  if (device == "cuda") return 0;
  int index = -1;
  if (device.starts_with("cuda:")) {
    const char* end = device.data() + device.size();
    if (std::from_chars(device.data() + 5, end, index).ptr != end) index = -1;
  }
  return index;
}
#endif

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(const std::string& device, int threads) {
#ifdef RUNNEL_HAS_CUDA
  if (const int index = cuda_index(device); index >= 0) return cuda::make_backend(index);
  if (device == "auto" && !cuda::devices().empty()) return cuda::make_backend(0);
#endif
  if (device == "auto" || device == "cpu") return cpu::make_backend(threads, {});
  if (device == "reference") return reference::make_backend();
  std::string known = "auto";
  for (const DeviceInfo& d : devices()) known += ", " + d.id;
  return fail(ErrorCode::not_found, "device \"", device, "\": not found, expected one of: ", known);
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
#ifdef RUNNEL_HAS_CUDA
  all = cuda::devices();
#endif
  if (auto backend = cpu::make_backend(0, {})) all.push_back((*backend)->device());
  all.push_back(reference::make_backend()->device());
  return all;
}

}  // namespace runnel
