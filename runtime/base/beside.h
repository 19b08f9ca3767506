// SPDX-License-Identifier: Apache-2.0
// A piece of work that runs beside the caller's.
#pragma once

#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "runnel/result.h"

namespace runnel {

/// Calls `make`, which returns a Result<T>, in a thread of its own, or at once when the system has
/// none to give. What `make` refers to outlives this object, whose destructor waits for it.
template <class T>
class Beside {
 public:
  template <class F>
  explicit Beside(F make) {
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
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

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
