// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cpu/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "runtime/backend/cpu/isa.h"
#include "runtime/backend/cpu/kernels.h"
#include "runtime/backend/cpu/page_buffer.h"
#include "runtime/base/thread_pool.h"
#include "runtime/base/try.h"

namespace runnel::cpu {
namespace {

using Clock = std::chrono::steady_clock;

/// Best of several calls, in seconds.
template <class Work>
double best_seconds(const Work& work) {
  double best = 1e9;
  const auto start = Clock::now();
  for (int i = 0; i < 3 || (i < 50 && Clock::now() - start < std::chrono::milliseconds(250)); ++i) {
    const auto begin = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

}  // namespace

Result<Roofline> measure_roofline(int threads, std::size_t buffer_bytes) {
  RUNNEL_TRY(std::unique_ptr<ThreadPool> pool, ThreadPool::create(threads));
  const Kernels kernels = *find_kernels(supported_isas().back());
  constexpr std::size_t kPart = std::size_t{256} << 10;
  const int parts =
      static_cast<int>(std::clamp<std::size_t>(buffer_bytes / kPart, 1, ThreadPool::kMaxItems));
  RUNNEL_TRY(PageBuffer buffer, PageBuffer::create(kPart * static_cast<std::size_t>(parts)));
  const auto part = [&](int i) { return buffer.data() + kPart * static_cast<std::size_t>(i); };
  pool->for_each(parts, [&](int i, int) { std::memset(part(i), i, kPart); });
  std::atomic<std::uint32_t> sink{0};
  Roofline found;
  const double read = best_seconds(
      [&] { pool->for_each(parts, [&](int i, int) { sink += kernels.read(part(i), kPart); }); });
  found.read_bytes_per_second = static_cast<double>(kPart) * parts / read;
  double operations = 0;
  const double compute = best_seconds([&] {
    std::atomic<std::int64_t> done{0};
    pool->for_each(pool->threads() * 4, [&](int, int) {
      std::int32_t sum = 0;
      done += static_cast<std::int64_t>(kernels.int8_peak(100000, &sum));
      sink += static_cast<std::uint32_t>(sum);
    });
    operations = static_cast<double>(done.load());
  });
  found.int8_ops_per_second = operations / compute;
  return found;
}

}  // namespace runnel::cpu
