// SPDX-License-Identifier: Apache-2.0
// errno as an Error: which file, what was tried, the operating system's reason.
#pragma once

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {

/// "models/x.gguf: cannot open: No such file or directory"; not_found for missing paths, io for the rest.
inline Error system_error(const std::filesystem::path& path, std::string_view action,
                          int error_number) {
  const bool missing = error_number == ENOENT || error_number == ENOTDIR;
  return fail(missing ? ErrorCode::not_found : ErrorCode::io, printable(path.native()), ": cannot ",
              action, ": ", std::generic_category().message(error_number));
}

}  // namespace runnel
