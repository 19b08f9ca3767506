// SPDX-License-Identifier: Apache-2.0
// runnel_answers MODEL [TOKENS [ROUNDS [THREADS [DEVICE]]]]: what drawing as the model's file recommends costs beside greedy
// decode, and what four answers cost beside one, from the reading of a prompt of 256 tokens on. All take turns; the
// median of each round's ratios counts.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runnel/generation.h"
#include "runnel/model.h"
#include "runnel/session.h"
#include "runtime/base/try.h"

namespace runnel {
namespace {

constexpr std::size_t kPrompt = 256;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of `n` answers, without the prompt's.
Result<double> seconds(const Session& start, std::size_t n, const GenerationOptions& options) {
  RUNNEL_TRY(Session session, start.fork());
  const auto begin = std::chrono::steady_clock::now();
  if (n == 1) {
    RUNNEL_CHECK_OK(generate(session, options));
  } else {
    RUNNEL_CHECK_OK(generate_several(session, n, options));
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Status measure(const char* file, std::uint64_t tokens, int rounds, const ModelOptions& options) {
  RUNNEL_TRY(const std::shared_ptr<const Model> model, Model::load(file, options));
  const GenerationOptions greedy{.max_tokens = tokens, .ignore_end = true};
  GenerationOptions drawn = greedy;
  drawn.sampling = model->sampling();
  std::vector<TokenId> prompt;
  for (std::size_t i = 0; i < kPrompt; ++i)
    prompt.push_back(static_cast<TokenId>((i * 7919 + 13) % 1000 + 100));
  std::array<std::vector<double>, 5> times;  // prompt, greedy, drawn, one, four
  for (int round = -1; round < rounds; ++round) {
    RUNNEL_TRY(Session start, Session::create(model));
    const auto begin = std::chrono::steady_clock::now();
    RUNNEL_CHECK_OK(start.prefill(prompt));
    const double read =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    RUNNEL_TRY(const double by_greed, seconds(start, 1, greedy));
    RUNNEL_TRY(const double by_chain, seconds(start, 1, drawn));
    RUNNEL_TRY(const double one, seconds(start, 1, drawn));
    RUNNEL_TRY(const double four, seconds(start, 4, drawn));
    if (round < 0) continue;  // first passes record, touch pages, raise clocks
    const std::array<double, 5> took = {read, by_greed, by_chain, one, four};
    for (std::size_t i = 0; i < took.size(); ++i) times[i].push_back(took[i]);
  }
  std::vector<double> speed, several, request;
  for (std::size_t i = 0; i < times[0].size(); ++i) {
    speed.push_back(times[1][i] / times[2][i]);
    several.push_back(times[4][i] / times[3][i]);
    request.push_back((times[0][i] + times[4][i]) / (times[0][i] + times[3][i]));
  }
  const double each = static_cast<double>(tokens);
  std::printf("greedy %.1f tokens/s, as the file recommends %.1f: %.3f of it\n",
              each / median(times[1]), each / median(times[2]), median(speed));
  std::printf("four answers of %llu tokens: %.2f of one; with the reading of %zu tokens %.2f\n",
              static_cast<unsigned long long>(tokens), median(several), kPrompt, median(request));
  return {};
}

}  // namespace
}  // namespace runnel

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  if (argc < 2 || number(2, 64) < 1 || number(3, 7) < 1) {
    std::fprintf(stderr, "usage: runnel_answers MODEL [TOKENS [ROUNDS [THREADS [DEVICE]]]]\n");
    return 2;
  }
  const runnel::Status done =
      runnel::measure(argv[1], static_cast<std::uint64_t>(number(2, 64)), number(3, 7),
                      {.device = argc > 5 ? argv[5] : "cpu", .threads = number(4, 0)});
  if (!done) std::fprintf(stderr, "runnel_answers: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
