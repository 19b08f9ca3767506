// SPDX-License-Identifier: Apache-2.0
// runnel_vulkan_speed [--device N] [--profile] [--short] [--cache FILE]
// [--tune R,B,A,S,F,G,P,C] [--dispatches] [--program ROW] [--nv] [--plain-slots] [--tiles N] [MODEL…]: one row of
// load, first token, decode (logits to the host; greedy and with top-k 40, the tokens drawn on the device)
// and prefill a model: 135m, or 1.38B as
// q4_0, q4_k, q8_0, bf16, or as `runnel quantize` stores it, as in q4_0-stored; random weights of
// those shapes, or FILE.gguf. --tune and --tiles: only decode or prefill, with a work split (Tuning in device.h).
// --dispatches: a token takes many, as where the device promises nothing. --program: the one-token program of that name
// (narrow, even, step, shift, ops). --nv: NVIDIA's
// cooperative matrices where the device has the Khronos ones too; --plain-slots: slots without matrix units.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runnel/generation.h"
#include "runtime/backend/vulkan/vulkan_backend.h"
#include "runtime/io/gguf.h"
#include "runtime/model/forward.h"
#include "runtime/model/model_file.h"
#include "tests/cuda/bench_models.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"

namespace runnel::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

/// Runs `tokens` in one pass.
std::vector<float> pass(Plan& plan, RecurrentState& state, std::span<const TokenId> tokens,
                        std::size_t vocab) {
  std::vector<float> logits(vocab);
  const PlanItem item{
      .state = &state, .tokens = tokens, .wanted = LogitsWanted::last, .logits = logits};
  if (const Status ran = plan.run(std::span(&item, 1), {}); !ran)
    throw std::runtime_error(ran.error().message);
  return logits;
}

Recording recording_of(const BenchModel& model) { return forward_of(model.config, model.weights); }

/// A shape by its name, or the file that a name ending in ".gguf" stands for.
BenchModel model_of(const std::string& name) {
  if (!name.ends_with(".gguf")) return model_named(name);
  const std::shared_ptr<const GgufFile> file = must(GgufFile::open(name));
  ModelFile model = must(ModelFile::from_gguf(file));
  return {.config = std::move(model.config), .weights = std::move(model.weights), .storage = file};
}

struct Settings {
  int device = 0;
  bool profile = false;
  bool quick = false;
  vulkan::FeatureMask features;
  std::string cache;
  std::string program;  // a row of the ladder of one-token programs; empty: the best that fits
  std::vector<vulkan::Tuning> tunings;  // if any: decode alone, with each
  std::vector<std::uint32_t> tiles;     // if any: prefill alone, with each
};

LoadRequest request_of(const BenchModel& model, const Settings& settings) {
  return {.config = model.config,
          .weights = model.weights,
          .keep_alive = model.storage,
          .pass = recording_of(model),
          .step_program = settings.program};
}

void print_profile(const char* what, vulkan::DispatchProfile& profile, double runs) {
  std::printf("  %s, us on the device by shader:\n", what);
  double all = 0.0;
  for (const auto& [name, entry] : profile.by_shader) all += entry.microseconds;
  for (const auto& [name, entry] : profile.by_shader) {
    std::printf("    %-28s %6.0f x %8.2f = %9.1f  %4.1f %%\n", name.c_str(),
                static_cast<double>(entry.count) / runs,
                entry.microseconds / static_cast<double>(entry.count), entry.microseconds / runs,
                100.0 * entry.microseconds / all);
  }
  std::printf("    in all %.1f us\n", all / runs);
  profile.by_shader.clear();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Tokens per second of steps that draw their own tokens.
double drawn_rate(Plan& plan, RecurrentState& state, const SamplingOptions& sampling,
                  std::size_t tokens, int repeats) {
  const std::vector<TokenId> first = {1};
  auto steps = must(plan.sampled_steps(state, first, sampling));
  if (steps == nullptr) return 0.0;
  const auto check = [](const Status& status) {
    if (!status) throw std::runtime_error(status.error().message);
  };
  check(steps->queue());
  std::vector<double> rates;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < tokens; ++i) {
      check(steps->queue());
      must(steps->drawn());
    }
    if (repeat > 0) rates.push_back(static_cast<double>(tokens) / ms_since(begin) * 1e3);
  }
  must(steps->drawn());
  return median(rates);
}

/// One row of a sweep over work splits.
void decode_rate(Plan& plan, RecurrentState& state, const BenchModel& model,
                 const std::string& name, const vulkan::Tuning& t) {
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  const std::vector<TokenId> tokens = test::Random(2).tokens(200, model.config.vocab_size);
  pass(plan, state, std::span(tokens).first(1), vocab);
  std::vector<double> rates;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < tokens.size(); ++i)
      pass(plan, state, std::span(tokens).subspan(i, 1), vocab);
    rates.push_back(static_cast<double>(tokens.size()) / ms_since(begin) * 1e3);
  }
  std::printf(
      "%-6s rows %u block %u ahead %u slot values %u few splits %u groups %u parts %u chunk %u "
      ": %8.1f tok/s, greedy %8.1f\n",
      name.c_str(), t.team_rows, t.block, t.ahead, t.slot_values, t.few_splits, t.step_groups,
      t.step_parts, t.step_chunk, median(rates), drawn_rate(plan, state, {}, tokens.size(), 3));
  std::fflush(stdout);
}

/// One row of a sweep over work splits of prefill.
std::vector<float> prefill_rate(const BenchModel& model, const std::string& name,
                                const Settings& settings, std::uint32_t tiles,
                                const std::vector<float>& expected) {
  const auto profile = std::make_shared<vulkan::DispatchProfile>();
  vulkan::FeatureMask features = settings.features;
  features.tuning.tiles = tiles;
  const auto backend = must(vulkan::make_backend(
      settings.device,
      {.pipeline_cache = settings.cache, .features = features, .profile = profile}));
  const auto resident = must(backend->load(request_of(model, settings)));
  const std::size_t length = settings.quick ? 128 : 2048;
  const auto plan = must(resident->record(static_cast<int>(length), recording_of(model)));
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  const std::vector<TokenId> prompt = test::Random(2).tokens(length, model.config.vocab_size);
  auto state = must(resident->create_state());
  std::vector<float> logits = pass(*plan, *state, prompt, vocab);
  profile->by_shader.clear();
  std::vector<double> rates;
  const int repeats = settings.quick ? 1 : 5;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = Clock::now();
    pass(*plan, *state, prompt, vocab);
    rates.push_back(static_cast<double>(length) / ms_since(begin) * 1e3);
  }
  const auto& products = profile->by_shader["matmul_tiles"];
  std::printf("%-6s tiles %u: %10.1f tok/s, products %8.1f us a layer, against the first %.2e\n",
              name.c_str(), tiles, median(rates),
              products.microseconds / repeats / model.config.num_layers(),
              expected.empty() ? 0.0 : test::rms_relative_error(logits, expected));
  std::fflush(stdout);
  return logits;
}

void measure(const std::string& name, const Settings& settings) {
  const BenchModel model = model_of(name);
  for (const vulkan::Tuning& tuning : settings.tunings) {
    vulkan::FeatureMask features = settings.features;
    features.tuning = tuning;
    const auto backend = must(vulkan::make_backend(
        settings.device, {.pipeline_cache = settings.cache, .features = features}));
    const auto resident = must(backend->load(request_of(model, settings)));
    const auto decode = must(resident->record(16, recording_of(model)));
    decode_rate(*decode, *must(resident->create_state()), model, name, tuning);
  }
  std::vector<float> expected;
  for (const std::uint32_t tiles : settings.tiles) {
    std::vector<float> logits = prefill_rate(model, name, settings, tiles, expected);
    if (expected.empty()) expected = std::move(logits);
  }
  if (!settings.tunings.empty() || !settings.tiles.empty()) return;
  const auto profile = settings.profile ? std::make_shared<vulkan::DispatchProfile>() : nullptr;
  const auto started = Clock::now();
  auto start = started;
  const auto backend = must(vulkan::make_backend(
      settings.device,
      {.pipeline_cache = settings.cache, .features = settings.features, .profile = profile}));
  const double open_ms = ms_since(start);
  start = Clock::now();
  const auto resident = must(backend->load(request_of(model, settings)));
  const double load_ms = ms_since(start);
  start = Clock::now();
  const Recording recording = recording_of(model);
  const auto decode = must(resident->record(16, recording));
  const std::size_t length = settings.quick ? 128 : 2048;
  const auto prefill = must(resident->record(static_cast<int>(length), recording));
  const double record_ms = ms_since(start);
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  const std::vector<TokenId> prompt = test::Random(2).tokens(length, model.config.vocab_size);
  auto state = must(resident->create_state());
  pass(*decode, *state, std::span(prompt).first(1), vocab);
  const double first_ms = ms_since(started);

  const auto rate = [](std::size_t tokens, int repeats, const auto& work) {
    std::vector<double> rates;
    for (int i = 0; i < repeats; ++i) {
      const auto begin = Clock::now();
      work();
      rates.push_back(static_cast<double>(tokens) / ms_since(begin) * 1e3);
    }
    return median(rates);
  };
  const std::size_t steps = settings.quick ? 4 : 256;
  const int repeats = settings.quick ? 1 : 5;
  if (profile) profile->by_shader.clear();
  const double decoded = rate(steps, repeats, [&] {
    for (std::size_t i = 0; i < steps; ++i)
      pass(*decode, *state, std::span(prompt).subspan(i % length, 1), vocab);
  });
  const double greedy = drawn_rate(*decode, *state, {}, steps, repeats);
  const double likeliest =
      drawn_rate(*decode, *state, {.temperature = 0.8F, .top_k = 40, .seed = 1}, steps, repeats);
  if (profile) print_profile("a token", *profile, static_cast<double>(steps) * repeats);
  pass(*prefill, *state, prompt, vocab);
  if (profile) profile->by_shader.clear();
  const double filled = rate(length, repeats, [&] { pass(*prefill, *state, prompt, vocab); });
  if (profile) print_profile("prefill", *profile, repeats);
  // The same tokens once through each plan: how far f16 operands are from f32 sums of products.
  auto a = must(resident->create_state());
  auto b = must(resident->create_state());
  std::vector<float> stepwise;
  const std::size_t compared = settings.quick ? 20 : 200;
  for (std::size_t i = 0; i < compared; ++i)
    stepwise = pass(*decode, *a, std::span(prompt).subspan(i, 1), vocab);
  const double difference = test::rms_relative_error(
      pass(*prefill, *b, std::span(prompt).first(compared), vocab), stepwise);
  std::printf("%-6s %8.0f %8.0f %9.0f %9.0f %12.1f %12.1f %12.1f %14.1f %11.2e   %s\n",
              name.c_str(), open_ms, load_ms, record_ms, first_ms, decoded, greedy, likeliest,
              filled, difference, backend->device().name.c_str());
  std::printf("  one token by %s\n", to_string(resident->step_program()).c_str());
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  Settings settings;
  std::vector<std::string> models;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--profile") {
      settings.profile = true;
    } else if (arg == "--dispatches") {
      settings.features.one_dispatch = false;
    } else if (arg == "--program" && i + 1 < argc) {
      settings.program = argv[++i];
    } else if (arg == "--nv") {
      settings.features.khr_matrices = false;
    } else if (arg == "--plain-slots") {
      settings.features.slot_tiles = false;
    } else if (arg == "--short") {
      settings.quick = true;
    } else if (arg == "--tune" && i + 1 < argc) {
      vulkan::Tuning t;
      std::sscanf(argv[++i], "%u,%u,%u,%u,%u,%u,%u,%u", &t.team_rows, &t.block, &t.ahead,
                  &t.slot_values, &t.few_splits, &t.step_groups, &t.step_parts, &t.step_chunk);
      settings.tunings.push_back(t);
    } else if (arg == "--tiles" && i + 1 < argc) {
      settings.tiles.push_back(static_cast<std::uint32_t>(std::atoi(argv[++i])));
    } else if (arg == "--device" && i + 1 < argc) {
      settings.device = std::atoi(argv[++i]);
    } else if (arg == "--cache" && i + 1 < argc) {
      settings.cache = argv[++i];
    } else {
      models.push_back(arg);
    }
  }
  if (models.empty()) models = {"135m"};
  std::printf("%-6s %8s %8s %9s %9s %12s %12s %12s %14s %11s   %s\n", "model", "open ms", "load ms",
              "record ms", "first ms", "decode tok/s", "greedy tok/s", "top-k tok/s",
              "prefill tok/s", "prefill err", "device");
  for (const std::string& model : models) measure(model, settings);
  return 0;
}

}  // namespace
}  // namespace runnel::bench

int main(int argc, char** argv) {
  try {
    return runnel::bench::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
