// SPDX-License-Identifier: Apache-2.0
#include "app/cli/terminal.h"

#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "app/cli/command.h"

namespace runnel::cli {
namespace {

constexpr double kBarDelay_s = 0.3;  // shorter work shows no bar

}  // namespace

bool stdin_is_terminal() { return ::isatty(STDIN_FILENO) != 0; }
bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) != 0; }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) != 0; }

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

int report(const Error& error) {
  std::fprintf(stderr, "runnel: %s\n", error.message.c_str());
  return kFailed;
}

int report_usage(std::string_view message) {
  std::fprintf(stderr, "runnel: %.*s\n", static_cast<int>(message.size()), message.data());
  return kUsage;
}

std::string format_number(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000.0 && unit + 1 < std::size(kUnits)) {
    value /= 1000.0;
    ++unit;
  }
  return format_number(value, unit == 0 || value >= 100.0 ? 0
                              : value >= 10.0             ? 1
                                                          : 2) +
         " " + kUnits[unit];
}

std::string format_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t i = digits.size(); i > 3;) digits.insert(i -= 3, ",");
  return digits;
}

void ProgressBar::update(double fraction) {
  constexpr int kWidth = 30;
  if (!stderr_is_terminal()) return;
  const int percent = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100.0);
  if (percent == shown_percent_) return;
  if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() <
      kBarDelay_s)
    return;
  shown_percent_ = percent;
  const int filled = percent * kWidth / 100;
  std::fprintf(stderr, "\r%s [%s%s] %3d %%", label_.c_str(), std::string(filled, '#').c_str(),
               std::string(kWidth - filled, '.').c_str(), percent);
}

void ProgressBar::clear() {
  if (shown_percent_ >= 0) std::fputs("\r\x1b[K", stderr);
  shown_percent_ = -1;
}

std::uint64_t peak_memory_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace runnel::cli
