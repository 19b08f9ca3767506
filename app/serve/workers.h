// SPDX-License-Identifier: Apache-2.0
// A few threads for what would hold up the reactor or the scheduler: reading requests, tokens,
// files.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace runnel::serve {

/// Runs tasks in the order in which they came. Thread-safe.
class Workers {
 public:
  explicit Workers(std::size_t threads);
  ~Workers();  // after the tasks that are left
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void run(std::function<void()> task);
  std::size_t waiting() const;

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace runnel::serve
