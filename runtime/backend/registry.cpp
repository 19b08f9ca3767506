// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/registry.h"

#include "runtime/backend/cpu/cpu_backend.h"
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/base/try.h"

namespace runnel {

Result<std::unique_ptr<Backend>> make_backend(const std::string& device, int threads) {
  if (device == "auto" || device == "cpu") return cpu::make_backend(threads, {});
  if (device == "reference") return reference::make_backend();
  std::string known = "auto";
  for (const DeviceInfo& d : devices()) known += ", " + d.id;
  return fail(ErrorCode::not_found, "device \"", device, "\": not found, expected one of: ", known);
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
  if (auto backend = cpu::make_backend(0, {})) all.push_back((*backend)->device());
  all.push_back(reference::make_backend()->device());
  return all;
}

}  // namespace runnel
