// SPDX-License-Identifier: Apache-2.0
// runnel_speed MODEL [threads]: prefill, decode, phases and memory of the CPU backend; for work on
// the kernels.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/backend/cpu/roofline.h"
#include "runtime/model/engine.h"

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void run(runnel::Engine& engine, runnel::RecurrentState& state,
         const std::vector<runnel::TokenId>& tokens, std::vector<float>& logits) {
  const runnel::PlanItem item{
      .state = &state, .tokens = tokens, .wanted = runnel::LogitsWanted::last, .logits = logits};
  if (const runnel::Status s = engine.run({&item, 1}); !s) {
    std::fprintf(stderr, "%s\n", s.error().message.c_str());
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const auto start = Clock::now();
  auto file = runnel::GgufFile::open(argv[1]);
  if (!file) return std::fprintf(stderr, "%s\n", file.error().message.c_str()), 1;
  auto model = runnel::ModelFile::from_gguf(std::move(*file));
  if (!model) return std::fprintf(stderr, "%s\n", model.error().message.c_str()), 1;
  const double opened = seconds_since(start);
  auto engine = runnel::Engine::create(std::move(*model), "cpu", threads, {});
  if (!engine) return std::fprintf(stderr, "%s\n", engine.error().message.c_str()), 1;
  std::printf("open %.1f ms, load %.1f ms\n", opened * 1e3, (seconds_since(start) - opened) * 1e3);
  rusage loaded{};
  getrusage(RUSAGE_SELF, &loaded);
  std::printf("peak after load %.1f MB\n", static_cast<double>(loaded.ru_maxrss) / 1024);
  const auto roof = runnel::cpu::measure_roofline(threads, (*engine)->memory().weight_bytes);
  std::printf("read %.1f GB/s, int8 %.0f GOP/s\n", roof->read_bytes_per_second * 1e-9,
              roof->int8_ops_per_second * 1e-9);
  const int vocab = (*engine)->config().vocab_size;
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  auto state = (*engine)->create_state();
  for (int n : {512, 2048}) {
    std::vector<runnel::TokenId> prompt;
    for (int i = 0; i < 512; ++i) prompt.push_back((i * 7919) % vocab);
    double best = 1e9;
    const int repeats = (*engine)->config().hidden_size > 1024 ? 1 : n == 512 ? 5 : 2;
    for (int r = 0; r < repeats; ++r) {
      const auto begin = Clock::now();
      for (int at = 0; at < n; at += 512) run(**engine, **state, prompt, logits);
      best = std::min(best, seconds_since(begin));
    }
    std::printf("prefill %d: %.1f tok/s\n", n, n / best);
    if ((*engine)->config().hidden_size > 1024) break;
  }
  std::vector<double> times;
  const int tokens = (*engine)->config().hidden_size > 1024 ? 48 : 256;
  for (int i = 0; i < tokens; ++i) {
    const auto begin = Clock::now();
    run(**engine, **state, {(i * 31) % vocab}, logits);
    times.push_back(seconds_since(begin));
  }
  double total = 0;
  for (double t : times) total += t;
  std::sort(times.begin(), times.end());
  const runnel::MemoryUse memory = (*engine)->memory();
  const double bytes =
      static_cast<double>(memory.weight_bytes) + 2.0 * static_cast<double>(memory.state_bytes);
  std::printf("decode: mean %.1f tok/s, median %.1f tok/s (%.1f GB/s)\n", tokens / total,
              1 / times[times.size() / 2], bytes / times[times.size() / 2] * 1e-9);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("weights %.1f MB, state %.2f MB, scratch %.1f MB, peak %.1f MB\n",
              static_cast<double>(memory.weight_bytes) * 1e-6,
              static_cast<double>(memory.state_bytes) * 1e-6,
              static_cast<double>(memory.scratch_bytes) * 1e-6,
              static_cast<double>(usage.ru_maxrss) / 1024);
}
