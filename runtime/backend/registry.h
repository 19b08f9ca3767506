// SPDX-License-Identifier: Apache-2.0
// The backends of this build, by device id.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/backend/backend.h"

namespace runnel {

/// The backend for a device id: "auto", "cpu", "reference", …
/// @param threads  as ModelOptions::threads
/// @param cache    as ModelOptions::cache_directory
/// @return not_found, listing what is there.
Result<std::unique_ptr<Backend>> make_backend(const std::string& device, int threads,
                                              const std::filesystem::path& cache = {});

}  // namespace runnel
