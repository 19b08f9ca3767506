// SPDX-License-Identifier: Apache-2.0
// Reads a JSON file of a checkpoint: bounded in size and depth, errors that name the file.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runnel/result.h"

namespace runnel {

/// @return not_found or io (the file), malformed (its JSON), unsupported (longer than 256 MiB,
/// nested deeper than 64).
Result<nlohmann::json> read_json_file(const std::filesystem::path& path);

/// The same for text; `name` is put before messages.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view name);

}  // namespace runnel
