// SPDX-License-Identifier: Apache-2.0
// The entries of a zip archive whose files are stored, not compressed: what torch writes. Read only.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "runnel/result.h"

namespace runnel {

/// Name → bytes, which view the archive.
using ZipEntries = std::map<std::string, std::span<const std::byte>, std::less<>>;

/// Reads the central directory (with its zip64 form) of an archive in memory, which must outlive the result. No two
/// entries share a byte; costs at most 8 times the directory of memory. Checksums are not compared.
/// @return malformed, naming the entry or the record; unsupported for entries that are compressed or encrypted and for
///         archives in several files.
Result<ZipEntries> read_zip(std::span<const std::byte> archive);

}  // namespace runnel
