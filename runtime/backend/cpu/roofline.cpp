// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cpu/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

#include "runtime/backend/cpu/isa.h"
#include "runtime/backend/cpu/kernels.h"
#include "runtime/backend/cpu/page_buffer.h"
#include "runtime/base/thread_pool.h"
#include "runtime/base/try.h"

namespace runnel::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPart = std::size_t{256} << 10;  // of the buffer, an item of a thread
constexpr std::size_t kMostBytes = std::size_t{256} << 20;

/// Median of several calls, in seconds: at least three, and more for 30 ms.
template <class Work>
double median_seconds(const Work& work) {
  std::vector<double> seconds;
  const auto start = Clock::now();
  while (seconds.size() < 3 || Clock::now() - start < std::chrono::milliseconds(30)) {
    const auto begin = Clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

}  // namespace

struct RooflineMeter::Parts {
  std::unique_ptr<ThreadPool> pool;
  Kernels kernels;
  PageBuffer buffer;
  int count = 0;  // of kPart bytes each
  std::atomic<std::uint32_t> sink{0};
  std::uint8_t* part(int i) { return buffer.data() + kPart * static_cast<std::size_t>(i); }
};

RooflineMeter::RooflineMeter(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
RooflineMeter::RooflineMeter(RooflineMeter&&) noexcept = default;
RooflineMeter& RooflineMeter::operator=(RooflineMeter&&) noexcept = default;
RooflineMeter::~RooflineMeter() = default;

Result<RooflineMeter> RooflineMeter::create(int threads, std::size_t buffer_bytes) {
  auto parts = std::make_unique<Parts>();
  RUNNEL_TRY(parts->pool, ThreadPool::create(threads));
  parts->kernels = *find_kernels(supported_isas().back());
  parts->count =
      static_cast<int>(std::max<std::size_t>(std::min(buffer_bytes, kMostBytes) / kPart, 1));
  RUNNEL_TRY(parts->buffer, PageBuffer::create(kPart * static_cast<std::size_t>(parts->count)));
  parts->pool->for_each(parts->count, [&](int i, int) { std::memset(parts->part(i), i, kPart); });
  return RooflineMeter(std::move(parts));
}

Roofline RooflineMeter::measure() {
  Parts& p = *parts_;
  const double read = median_seconds([&] {
    p.pool->for_each(p.count, [&](int i, int) { p.sink += p.kernels.read(p.part(i), kPart); });
  });
  double operations = 0;
  const double compute = median_seconds([&] {
    std::atomic<std::int64_t> done{0};
    p.pool->for_each(p.pool->threads() * 4, [&](int, int) {
      std::int32_t sum = 0;
      done += static_cast<std::int64_t>(p.kernels.int8_peak(100000, &sum));
      p.sink += static_cast<std::uint32_t>(sum);
    });
    operations = static_cast<double>(done.load());
  });
  return {.read_bytes_per_second = static_cast<double>(kPart) * p.count / read,
          .int8_ops_per_second = operations / compute};
}

}  // namespace runnel::cpu
