// SPDX-License-Identifier: Apache-2.0
// Errors, stop requests and devices of the C API.
#include "runtime/c/support.h"

#include "runnel/device.h"

namespace runnel::c {

runnel_status report(runnel_status status, std::string_view message, runnel_error* error) {
  if (error == nullptr) return status;
  std::size_t bytes = std::min(message.size(), sizeof(error->message) - 1);
  if (bytes < message.size()) {
    while (bytes > 0 && (static_cast<unsigned char>(message[bytes]) & 0xC0) == 0x80) --bytes;
  }
  error->status = status;
  std::memcpy(error->message, message.data(), bytes);
  error->message[bytes] = '\0';
  return status;
}

Status check_not_null(const void* pointer, std::string_view name) {
  if (pointer != nullptr) return {};
  return fail(ErrorCode::invalid_argument, name, " is null");
}

Result<std::string_view> text_of(const char* text, std::size_t bytes, std::string_view name) {
  if (text == nullptr) {
    if (bytes == 0) return std::string_view();
    return fail(ErrorCode::invalid_argument, name, " is null");
  }
  return bytes == RUNNEL_NUL ? std::string_view(text) : std::string_view(text, bytes);
}

}  // namespace runnel::c

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
