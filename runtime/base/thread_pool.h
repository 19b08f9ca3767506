// SPDX-License-Identifier: Apache-2.0
// A pool for many short parallel loops per second: every thread works through its own range of items, then steals
// from the other threads; threads spin briefly between loops, then sleep. Starting a loop takes no lock and allocates
// nothing.
//
//   RUNNEL_TRY(std::unique_ptr<ThreadPool> pool, ThreadPool::create(4));
//   pool->for_each(100, [&](int item, int thread) { out[item] = f(item, scratch[thread]); });
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "runnel/result.h"

namespace runnel {

/// A loop is finished when its items are, not when every thread has taken part: a preempted thread delays only the
/// one item it was working on. Which thread runs an
/// item is not determined; results must depend on the item alone. Neighbouring items mostly run on
/// one thread, in order, so that what they read is one stream. One caller at a time.
class ThreadPool {
 public:
  // of one loop; a run packs begin and end into 16 bits each
  static constexpr int kMaxItems = 65535;

  /// @param threads  in all, the caller of for_each among them; 0 means the number of CPUs this process may use.
  /// @return invalid_argument beyond 1,024 threads, out_of_memory if the system starts no more threads.
  static Result<std::unique_ptr<ThreadPool>> create(int threads);

  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return 1 + static_cast<int>(workers_.size()); }

  /// Calls body(item, thread) for every item in [0, count), count <= kMaxItems, and returns when
  /// all have returned. `thread` is in [0, threads()): no two calls with the same number run at once.
  template <class Body>
  void for_each(int count, const Body& body) {
    if (count <= 0) return;
    if (count == 1 || workers_.empty()) {
      for (int i = 0; i < count; ++i) body(i, 0);
      return;
    }
    run(
        count,
        [](const void* context, int item, int thread) {
          (*static_cast<const Body*>(context))(item, thread);
        },
        &body);
  }

 private:
  using Call = void (*)(const void* context, int item, int thread);

  ThreadPool() = default;
  void run(int count, Call call, const void* context);
  void work(int thread, const std::stop_token& stop);
  int take_items(int thread);  // its own, then stolen ones

  // What is left of a thread's items in the current loop: sequence number of the loop << 32 |
  // begin << 16 | end. A successful exchange proves that the loop is still open, hence that call_
  // and context_ are its own.
  struct alignas(64) Run {
    std::atomic<std::uint64_t> word{0};
  };
  std::vector<Run> runs_;  // [threads]
  std::uint64_t sequence_ = 0;
  Call call_ = nullptr;
  const void* context_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> done_{0};   // items of the current loop that have returned
  alignas(64) std::atomic<std::uint32_t> epoch_{0};  // sleeping workers wait for a change
  std::atomic<std::uint32_t> sleeping_workers_{0};
  std::atomic<std::uint32_t> caller_sleeps_{0};
  std::vector<std::jthread> workers_;
};

}  // namespace runnel
