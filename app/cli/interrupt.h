// SPDX-License-Identifier: Apache-2.0
// Ctrl-C as a request: stops what runs now, not the program.
#pragma once

#include <stop_token>
#include <thread>

#include "runnel/result.h"

namespace runnel::cli {

/// Catches SIGINT from construction on. One at a time; before it exists Ctrl-C ends the program as usual.
class InterruptHandler {
 public:
  InterruptHandler();
  ~InterruptHandler();
  InterruptHandler(const InterruptHandler&) = delete;
  InterruptHandler& operator=(const InterruptHandler&) = delete;

  /// Readable when Ctrl-C was pressed; for poll().
  int descriptor() const { return pipe_[0]; }

  /// Forgets presses so far; returns whether there were any.
  bool take();

 private:
  int pipe_[2] = {-1, -1};
};

/// While it lives, Ctrl-C requests a stop of token().
class StopOnInterrupt {
 public:
  explicit StopOnInterrupt(InterruptHandler& handler);
  ~StopOnInterrupt();
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  bool interrupted() const { return source_.stop_requested(); }

 private:
  std::stop_source source_;
  int wake_[2] = {-1, -1};
  std::thread watcher_;
};

}  // namespace runnel::cli
