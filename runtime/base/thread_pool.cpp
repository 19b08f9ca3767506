// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/thread_pool.h"

#include <sched.h>

#include <chrono>
#include <system_error>

#include "runtime/base/try.h"

namespace runnel {
namespace {

// Long enough for the gap between two loops of one token and for a greedy choice between two
// tokens; short enough that the core of a waiting thread soon becomes idle and can run a thread that was preempted on
// another.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kPausesPerLook = 16;

void pause_once() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::
                   : "memory");  // waits some tens of cycles; `yield` does nothing on most cores
#endif
}

/// Polls `ready` for kSpin. Returns whether it came true.
template <class Ready>
bool spin_until(const Ready& ready) {
  const auto give_up = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (ready()) return true;
      pause_once();
    }
  } while (std::chrono::steady_clock::now() < give_up);
  return ready();
}

constexpr std::uint32_t begin_of(std::uint64_t run) { return (run >> 16) & 0xFFFF; }
constexpr std::uint32_t end_of(std::uint64_t run) { return run & 0xFFFF; }
constexpr bool open(std::uint64_t run) { return begin_of(run) < end_of(run); }

int available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  const unsigned n = std::thread::hardware_concurrency();
  return n > 0 ? static_cast<int>(n) : 1;
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int threads) {
  if (threads < 0 || threads > 1024) {
    return fail(ErrorCode::invalid_argument, "threads is ", threads, ", expected 0 (all) to 1024");
  }
  if (threads == 0) threads = available_cpus();
  std::unique_ptr<ThreadPool> pool(new ThreadPool);
  pool->runs_ = std::vector<Run>(static_cast<std::size_t>(threads));
  try {
    pool->workers_.reserve(static_cast<std::size_t>(threads - 1));
    for (int t = 1; t < threads; ++t) {
      pool->workers_.emplace_back(
          [p = pool.get(), t](const std::stop_token& stop) { p->work(t, stop); });
    }
  } catch (const std::system_error& e) {
    return fail(ErrorCode::out_of_memory, "cannot start ", threads, " threads: ", e.what());
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  for (std::jthread& w : workers_) w.request_stop();
  epoch_.fetch_add(1);
  epoch_.notify_all();
}  // jthread joins

int ThreadPool::take_items(int thread) {
  const auto threads = runs_.size(), self = static_cast<std::size_t>(thread);
  int finished = 0;
  for (std::size_t i = 0; i < threads; ++i) {
    const bool own = i == 0;
    std::atomic<std::uint64_t>& word = runs_[(self + i) % threads].word;
    std::uint64_t run = word.load(std::memory_order_acquire);
    while (open(run)) {
      // Steals from the end: the owner continues undisturbed at the beginning.
      const std::uint64_t rest = own ? run + (1U << 16) : run - 1;
      if (!word.compare_exchange_weak(run, rest, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
        continue;
      }
      call_(context_, static_cast<int>(own ? begin_of(run) : end_of(rest)), thread);
      ++finished;
      run = word.load(std::memory_order_acquire);
      // Another loop can only have begun after this one's items were all counted, this item among them: it has not.
    }
  }
  return finished;
}

void ThreadPool::run(int count, Call call, const void* context) {
  call_ = call;
  context_ = context;
  done_.store(0, std::memory_order_relaxed);
  ++sequence_;
  const auto threads = static_cast<std::uint64_t>(runs_.size());
  const auto total = static_cast<std::uint32_t>(count);
  for (std::uint64_t t = 0; t < threads; ++t) {
    const std::uint64_t begin = total * t / threads, end = total * (t + 1) / threads;
    runs_[t].word.store(sequence_ << 32 | begin << 16 | end, std::memory_order_seq_cst);
  }
  if (sleeping_workers_.load(std::memory_order_seq_cst) > 0) {
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    epoch_.notify_all();
  }

  const auto mine = static_cast<std::uint32_t>(take_items(0));
  if (done_.fetch_add(mine, std::memory_order_acq_rel) + mine == total) return;
  const auto all_done = [&] { return done_.load(std::memory_order_acquire) == total; };
  if (spin_until(all_done)) return;
  caller_sleeps_.store(1, std::memory_order_seq_cst);
  for (std::uint32_t seen = done_.load(std::memory_order_seq_cst); seen != total;
       seen = done_.load(std::memory_order_seq_cst)) {
    done_.wait(seen, std::memory_order_seq_cst);
  }
  caller_sleeps_.store(0, std::memory_order_relaxed);
}

void ThreadPool::work(int thread, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (const int finished = take_items(thread); finished > 0) {
      done_.fetch_add(static_cast<std::uint32_t>(finished), std::memory_order_seq_cst);
      if (caller_sleeps_.load(std::memory_order_seq_cst) != 0) done_.notify_one();
    }
    const std::atomic<std::uint64_t>& own = runs_[static_cast<std::size_t>(thread)].word;
    const auto more = [&] {
      return open(own.load(std::memory_order_acquire)) || stop.stop_requested();
    };
    if (spin_until(more)) continue;
    // Announce, then check once more: either this check sees the new loop or its caller sees the announcement.
    const std::uint32_t epoch = epoch_.load(std::memory_order_seq_cst);
    sleeping_workers_.fetch_add(1, std::memory_order_seq_cst);
    if (!open(own.load(std::memory_order_seq_cst)) && !stop.stop_requested()) {
      epoch_.wait(epoch, std::memory_order_seq_cst);
    }
    sleeping_workers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

}  // namespace runnel
