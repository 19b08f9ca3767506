// SPDX-License-Identifier: Apache-2.0
// Stop requests and devices of the C API.
#include "runtime/c/support.h"

#include "runnel/device.h"

using namespace runnel;
using namespace runnel::c;

const char* runnel_status_name(runnel_status status) {
  if (status == RUNNEL_OK) return "ok";
  if (status == kTooSmall) return "too_small";
  return to_string(static_cast<ErrorCode>(status));
}

const char* runnel_version(void) { return RUNNEL_VERSION; }

runnel_status runnel_stop_create(runnel_stop** stop, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(stop, "stop"));
    *stop = new runnel_stop;
    return {};
  });
}

void runnel_stop_request(runnel_stop* stop) {
  if (stop != nullptr) stop->source.request_stop();
}

void runnel_stop_free(runnel_stop* stop) { delete stop; }

runnel_status runnel_devices(runnel_device_info* out, size_t capacity, size_t* count,
                             runnel_error* error) {
  std::vector<runnel_device_info> found;
  const runnel_status status = guarded(error, [&]() -> Status {
    for (const DeviceInfo& device : devices()) {
      runnel_device_info& info = found.emplace_back();
      copy_text(device.id, info.id);
      copy_text(device.backend, info.backend);
      copy_text(device.name, info.name);
      copy_text(device.detail, info.detail);
      info.memory_bytes = device.memory_bytes;
    }
    return {};
  });
  if (status != RUNNEL_OK) return status;
  return copy_out(std::span<const runnel_device_info>(found), out, capacity, count, error);
}
