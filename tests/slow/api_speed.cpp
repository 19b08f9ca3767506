// SPDX-License-Identifier: Apache-2.0
// What the C API costs beside the C++ one that the program uses, and what decoding several sessions
// in one pass gives.
//   runnel_api_speed MODEL [TOKENS] [THREADS]
// All ways take turns in one process and are compared round by round, for a machine's speed drifts;
// the median of the rounds counts. Ends with 0 if the ratios are what they should be.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "runnel/batch.h"
#include "runnel/generation.h"
#include "runnel/runnel.h"
#include "runnel/session.h"

namespace {

constexpr int kRounds = 9;
constexpr int kClients = 8;
constexpr double kLeastRatio = 0.98;
constexpr double kLeastBatched = 3.0;

double seconds(const std::function<bool()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  if (!work()) {
    std::fprintf(stderr, "a generation failed\n");
    std::exit(1);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The median of a[i] / b[i].
double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(std::move(ratios));
}

// One greedy generation of `tokens` on each of the sessions, all in one pass per token.
bool generate_together(std::vector<runnel::Session>& sessions, std::uint64_t tokens) {
  const runnel::GenerationOptions options{.max_tokens = tokens, .ignore_end = true};
  std::vector<runnel::SessionGeneration> running;
  for (runnel::Session& session : sessions) {
    auto made = runnel::SessionGeneration::create(session, options);
    if (!made) return false;
    running.push_back(std::move(*made));
  }
  runnel::SessionBatch batch(sessions[0].shared_model());
  std::vector<runnel::TokenId> chosen(sessions.size());
  std::vector<runnel::SessionFeed> feeds(sessions.size());
  for (std::uint64_t t = 0; t < tokens; ++t) {
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      const auto token = running[i].choose();
      if (!token || !*token) return false;
      chosen[i] = **token;
      feeds[i] = {.session = &sessions[i], .tokens = std::span(&chosen[i], 1), .generated = true};
    }
    for (const runnel::FeedResult& fed : batch.run(feeds)) {
      if (!fed.status) return false;
    }
    for (std::size_t i = 0; i < sessions.size(); ++i) running[i].took(chosen[i]);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: runnel_api_speed MODEL [TOKENS] [THREADS]\n");
    return 2;
  }
  const std::uint64_t tokens = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 128;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 0;
  auto model = runnel::Model::load(argv[1], {.device = "cpu", .threads = threads});
  runnel_model* c_model = nullptr;
  runnel_session* c_session = nullptr;
  runnel_model_options load;
  RUNNEL_INIT(runnel_model_options, load);
  load.device = "cpu";
  load.threads = threads;
  runnel_error error;
  if (!model || runnel_model_load(argv[1], &load, &c_model, &error) != RUNNEL_OK ||
      runnel_session_create(c_model, &c_session, &error) != RUNNEL_OK) {
    std::fprintf(stderr, "cannot load %s\n", argv[1]);
    return 1;
  }
  const std::vector<runnel::TokenId> prompt = {1, 100, 200, 300, 400};
  auto session = runnel::Session::create(*model);
  std::vector<runnel::Session> many;
  for (int i = 0; i < kClients; ++i) {
    auto made = runnel::Session::create(*model);
    const std::vector<runnel::TokenId> own = {1, 100 + i, 200, 300, 400};
    if (!made || !made->prefill(own)) return 1;
    many.push_back(std::move(*made));
  }
  if (!session || !session->prefill(prompt) ||
      runnel_session_prefill(c_session, prompt.data(), prompt.size(), nullptr, nullptr, &error) !=
          RUNNEL_OK) {
    return 1;
  }
  std::size_t bytes = 0;
  const runnel::TextCallback on_text = [&bytes](std::string_view text) {
    bytes += text.size();
    return true;
  };
  runnel_generation_options c_options;
  RUNNEL_INIT(runnel_generation_options, c_options);
  c_options.max_tokens = tokens;
  c_options.ignore_end = true;
  c_options.user = &bytes;
  c_options.on_text = [](const char*, size_t count, void* user) {
    *static_cast<std::size_t*>(user) += count;
    return true;
  };
  const runnel::GenerationOptions options{.max_tokens = tokens, .ignore_end = true};
  std::vector<double> cpp, c, together;
  for (int round = -1; round < kRounds; ++round) {  // the first one warms up
    const auto by_cpp = [&] {
      cpp.push_back(seconds([&] { return bool(runnel::generate(*session, options, on_text)); }));
    };
    const auto by_c = [&] {
      c.push_back(seconds(
          [&] { return runnel_generate(c_session, &c_options, nullptr, &error) == RUNNEL_OK; }));
    };
    if (round % 2 == 0) by_cpp();
    by_c();
    if (round % 2 != 0) by_cpp();
    together.push_back(seconds([&] { return generate_together(many, tokens); }));
    if (round < 0) {
      cpp.clear();
      c.clear();
      together.clear();
    }
  }
  const double n = static_cast<double>(tokens);
  const double ratio = median_ratio(cpp, c);
  const double batched = kClients * median_ratio(cpp, together);
  std::printf("C++ %.1f tokens/s, C %.1f tokens/s, ratio %.3f (at least %.2f)\n", n / median(cpp),
              n / median(c), ratio, kLeastRatio);
  std::printf("%d sessions together %.1f tokens/s, %.2f times one (at least %.0f)\n", kClients,
              kClients * n / median(together), batched, kLeastBatched);
  runnel_session_free(c_session);
  runnel_model_free(c_model);
  return ratio >= kLeastRatio && batched >= kLeastBatched ? 0 : 1;
}
