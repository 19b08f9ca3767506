// SPDX-License-Identifier: Apache-2.0
#include "app/cli/memory_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include "app/cli/terminal.h"

namespace runnel::cli {
namespace {

// Eight independent sums, so that the additions never wait for each other.
std::uint64_t sum(const std::uint64_t* words, std::size_t count) {
  std::uint64_t lanes[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) lanes[lane] += words[i + lane];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t lane : lanes) total += lane;
  return total;
}

}  // namespace

double read_bandwidth(int threads) try {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  constexpr int kPasses = 6;
  const auto workers = static_cast<std::size_t>(std::max(1, threads));
  const std::size_t share = kBytes / sizeof(std::uint64_t) / workers;
  const std::vector<std::uint64_t> words(share * workers, 1);
  std::atomic<std::uint64_t> seen{0};
  double best_s = 1e9;
  Stopwatch pass;
  std::barrier together(static_cast<std::ptrdiff_t>(workers),
                        [&pass, &best_s, turn = 0]() mutable noexcept {
                          if (turn++ > 0) best_s = std::min(best_s, pass.seconds());
                          pass = Stopwatch();
                        });
  const auto work = [&](std::size_t worker) {
    for (int i = 0; i < kPasses; ++i) {
      together.arrive_and_wait();
      seen += sum(words.data() + worker * share, share);
    }
    together.arrive_and_wait();
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t worker = 1; worker < workers; ++worker) others.emplace_back(work, worker);
    work(0);
  }
  return seen == 0 ? 0.0 : static_cast<double>(words.size() * sizeof(std::uint64_t)) / best_s;
} catch (const std::bad_alloc&) {
  return 0.0;
}

}  // namespace runnel::cli
