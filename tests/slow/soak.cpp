// SPDX-License-Identifier: Apache-2.0
// One session, a very long way: its memory must not grow and its tokens must not get slower.
//   runnel_soak MODEL [TOKENS] [DEVICE]
// Prints a line "tokens resident_bytes latency_by_that_of_a_fresh_session" now and then (for
// tests/slow/plot), then the verdict.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>
#include <vector>

#include "runnel/generation.h"
#include "runnel/session.h"

namespace {

constexpr std::uint64_t kPiece = 16;                 // tokens of each session in turn
constexpr int kPieces = 400;                         // of the comparison at the end
constexpr int kPiecesOnTheWay = 50;                  // and of those before
constexpr double kLatencyTolerance = 0.02;           // medians
constexpr std::uint64_t kMemoryTolerance = 1 << 20;  // bytes

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t pages = 0;
  statm >> pages >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

bool advance(runnel::Session& session, std::uint64_t tokens) {
  runnel::GenerationOptions options{.sampling = {.temperature = 1.0F, .top_k = 50, .seed = 1},
                                    .max_tokens = tokens,
                                    .ignore_end = true};
  const auto result = runnel::generate(session, options);
  if (!result) std::fprintf(stderr, "%s\n", result.error().message.c_str());
  return result.has_value();
}

double seconds_of(runnel::Session& session, std::uint64_t tokens) {
  const auto begin = std::chrono::steady_clock::now();
  if (!advance(session, tokens)) std::exit(1);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

struct Comparison {
  double old_s = 0.0;  // medians of a piece
  double young_s = 0.0;
};

// In turns, and the first turn too: whatever slows the machine slows both.
Comparison compare(runnel::Session& old, runnel::Session& young, int pieces) {
  std::vector<double> of_old;
  std::vector<double> of_young;
  for (int i = 0; i < pieces; ++i) {
    const bool old_first = i % 2 == 0;
    if (old_first) of_old.push_back(seconds_of(old, kPiece));
    of_young.push_back(seconds_of(young, kPiece));
    if (!old_first) of_old.push_back(seconds_of(old, kPiece));
  }
  return {.old_s = median(std::move(of_old)), .young_s = median(std::move(of_young))};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: runnel_soak MODEL [TOKENS] [DEVICE]\n");
    return 2;
  }
  const std::uint64_t total = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1'000'000;
  auto model = runnel::Model::load(argv[1], {.device = argc > 3 ? argv[3] : "auto"});
  if (!model) {
    std::fprintf(stderr, "%s\n", model.error().message.c_str());
    return 1;
  }
  auto old = runnel::Session::create(*model);
  auto young = runnel::Session::create(*model);
  const runnel::TokenId first = 1;
  if (!old || !young || !old->prefill(std::span(&first, 1)) ||
      !young->prefill(std::span(&first, 1))) {
    return 1;
  }
  const std::uint64_t warm = std::min<std::uint64_t>(2000, total / 2);
  if (!advance(*old, warm)) return 1;
  const std::uint64_t begin = resident_bytes();
  std::uint64_t lowest = begin;
  std::uint64_t highest = begin;
  while (old->position() < total) {
    if (!advance(*old, std::min<std::uint64_t>(10'000, total - old->position()))) return 1;
    const std::uint64_t now = resident_bytes();
    lowest = std::min(lowest, now);
    highest = std::max(highest, now);
    const Comparison so_far = compare(*old, *young, kPiecesOnTheWay);
    std::printf("%llu %llu %.4f\n", static_cast<unsigned long long>(old->position()),
                static_cast<unsigned long long>(now), so_far.old_s / so_far.young_s);
    std::fflush(stdout);
  }
  const Comparison end = compare(*old, *young, kPieces);
  const double ratio = end.old_s / end.young_s;
  const bool flat = highest - lowest <= 2 * kMemoryTolerance;
  const bool steady = ratio < 1 + kLatencyTolerance && ratio > 1 - kLatencyTolerance;
  std::printf("resident memory after %llu tokens: %.2f to %.2f MiB, %s\n",
              static_cast<unsigned long long>(total), static_cast<double>(lowest) / 1048576.0,
              static_cast<double>(highest) / 1048576.0, flat ? "flat" : "NOT FLAT");
  std::printf("median of %d tokens: %.3f ms at %llu, %.3f ms fresh, ratio %.4f, %s\n",
              static_cast<int>(kPiece), end.old_s * 1e3,
              static_cast<unsigned long long>(old->position()), end.young_s * 1e3, ratio,
              steady ? "steady" : "NOT STEADY");
  return flat && steady ? 0 : 1;
}
