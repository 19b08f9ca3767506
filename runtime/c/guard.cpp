// SPDX-License-Identifier: Apache-2.0
// Errors and checks that all functions of the C API share; each library that has such functions has its own copy.
#include "runtime/c/support.h"

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
