// SPDX-License-Identifier: Apache-2.0
// The tables of a conversation library and their version.
#pragma once

#include <filesystem>

#include "runnel/result.h"
#include "runtime/store/sqlite.h"

namespace runnel {

/// Sets up a connection and makes the tables if the file has none, or brings older ones up to date.
/// @return unsupported for a newer version; malformed if it is the database of another program.
Status prepare_schema(Database& database, const std::filesystem::path& file,
                      std::chrono::milliseconds wait);

/// The same for a connection that only reads, which needs tables of today's version.
Status check_schema(Database& database, const std::filesystem::path& file);

}  // namespace runnel
