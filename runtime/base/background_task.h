// SPDX-License-Identifier: Apache-2.0
// Work that runs in a thread of its own while the caller continues.
#pragma once

#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "runnel/result.h"

namespace runnel {

/// Calls `make`, which returns a Result<T>, in a thread of its own, or in the constructor if the system
/// cannot start one. Everything `make` refers to must outlive this object, whose destructor waits for it.
template <class T>
class BackgroundTask {
 public:
  template <class F>
  explicit BackgroundTask(F make) {
    const auto run = [this, make = std::move(make)] {
      try {
        result_ = make();
      } catch (const std::bad_alloc&) {  // get() says so, in the caller's thread
      }
    };
    try {
      thread_ = std::jthread(run);
    } catch (const std::system_error&) {
      run();
    }
  }
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  /// Waits for the result; once. Throws std::bad_alloc if `make` did.
  Result<T> get() {
    if (thread_.joinable()) thread_.join();
    if (!result_) throw std::bad_alloc();
    return *std::move(result_);
  }

 private:
  std::optional<Result<T>> result_;
  std::jthread thread_;  // last: joined before the result goes
};

}  // namespace runnel
