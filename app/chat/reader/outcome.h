// SPDX-License-Identifier: Apache-2.0
// What came of reading a document, and what it may take. Shared by the program that reads and the app that starts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace runnel::reader {

/// Why a document was not read. The numbers are exit codes of runnel-read-document.
enum class Why : int {
  Read = 0,           // it was
  Usage = 2,          // options of the program
  NoText = 10,        // pictures alone, or empty
  Encrypted = 11,     // only a password opens it
  TooLarge = 12,      // the file, what it unpacks to, or its text
  Damaged = 13,       // not what its format says, or none of the formats
  NotSupported = 14,  // of a kind that this build does not read
  Memory = 15,        // took more than Limits::memoryBytes
  Time = 16,          // took more than Limits::seconds
  Sandbox = 17,       // the system did not let the program lock itself in
  Io = 18             // the system refused to read the file
};

/// `reason` is one sentence, empty if the document was read.
struct Outcome {
  Why why = Why::Read;
  std::string reason = {};
  bool ok() const { return why == Why::Read; }
};

struct Limits {
  int seconds = 60;
  std::uint64_t memoryBytes = std::uint64_t{512} << 20;  // of address space
  std::size_t fileBytes = std::size_t{128} << 20;
  std::size_t unpackedBytes = std::size_t{64}
                              << 20;  // of all parts that are read, counted while unpacking
  std::size_t textBytes = std::size_t{16} << 20;
};

/// `done` of `total` parts, pages for example, are read.
using Progress = std::function<void(int done, int total)>;

}  // namespace runnel::reader
