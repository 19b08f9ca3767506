// SPDX-License-Identifier: Apache-2.0
// Output for people: errors, progress, numbers with units.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runnel/result.h"

namespace runnel::cli {

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();

/// Columns of the terminal on standard output; 0 if unknown.
std::size_t terminal_columns();

/// Writes all of `text` to standard output at once. False if the reader has closed it.
bool write_out(std::string_view text);

/// "runnel: message" on standard error; returns kFailed, so that commands can `return report(error)`.
int report(const Error& error);

/// A wrong combination of options; returns kUsage.
int report_usage(std::string_view message);

std::string format_bytes(std::uint64_t bytes);          // "5.9 MB" (decimal units)
std::string format_count(std::uint64_t count);          // "137,822,976"
std::string format_number(double value, int decimals);  // "0.70"

/// A bar on standard error while something long runs: redrawn in place on a terminal, nothing
/// elsewhere. It appears only when the work takes longer than a moment, and is erased at the end.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label) : label_(std::move(label)) {}
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(double fraction);  // in [0, 1]
  void clear();

 private:
  std::string label_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int shown_percent_ = -1;
};

/// Seconds since it was made.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Largest memory this process has held, in bytes.
std::uint64_t peak_memory_bytes();

}  // namespace runnel::cli
