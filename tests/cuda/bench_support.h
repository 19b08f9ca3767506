// SPDX-License-Identifier: Apache-2.0
// What the benchmarks on a GPU share: giving up on an error, and times of calls.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "runnel/result.h"
#include "runtime/backend/cuda/handles.h"

namespace runnel::bench {

inline void must(const Status& s) {
  if (s) return;
  std::printf("FAILED: %s\n", s.error().message.c_str());
  std::exit(1);
}
inline void must(cudaError_t e) { must(cuda::check(e, "benchmark")); }
template <class T>
T take(Result<T> r) {
  if (!r) must(Status(r.error()));
  return *std::move(r);
}

/// Median microseconds of one call of `work` among `repeats` groups of `inner` calls.
inline double time_us(cudaStream_t stream, int inner, int repeats,
                      const std::function<void()>& work, int warm_up = 3) {
  cudaEvent_t a = nullptr, b = nullptr;
  must(cudaEventCreate(&a));
  must(cudaEventCreate(&b));
  for (int i = 0; i < warm_up; ++i) work();
  std::vector<double> times;
  for (int r = 0; r < repeats; ++r) {
    must(cudaEventRecord(a, stream));
    for (int i = 0; i < inner; ++i) work();
    must(cudaEventRecord(b, stream));
    must(cudaEventSynchronize(b));
    float ms = 0.0F;
    must(cudaEventElapsedTime(&ms, a, b));
    times.push_back(1000.0 * static_cast<double>(ms) / inner);
  }
  must(cudaEventDestroy(a));
  must(cudaEventDestroy(b));
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

}  // namespace runnel::bench
