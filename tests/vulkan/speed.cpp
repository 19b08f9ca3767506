// SPDX-License-Identifier: Apache-2.0
// runnel_vulkan_speed [DEVICE…]: one table of load, first token, decode and prefill on a model of
// the default model's shape with random Q4_0 weights. Without DEVICE: all but the reference.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/backend/registry.h"
#include "runtime/model/forward.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"

namespace runnel::test {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

RandomModel default_shape() {
  ModelConfig c = small_positional_config();
  c.vocab_size = 49152;
  c.hidden_size = 576;
  c.num_layers = 30;
  c.num_heads = 9;
  c.num_kv_heads = 3;
  c.head_k_dim = 64;
  c.head_v_dim = 64;
  c.intermediate_size = 1536;
  c.num_memory_slots = 64;
  c.num_sink_slots = 4;
  c.num_window_slots = 60;
  c.sink_distance = 64;
  c.scale = 0.125F;
  return make_random_model(c,
                           {.linear = quant::BlockType::q4_0,
                            .table = quant::BlockType::q8_0,
                            .small = quant::BlockType::f16,
                            .tied = true,
                            .gate_bias = true,
                            .read_biases = true},
                           1);
}

/// Runs `tokens` in one pass; exits on error.
std::vector<float> pass(Plan& plan, RecurrentState& state, std::span<const TokenId> tokens,
                        std::size_t vocab) {
  std::vector<float> logits(vocab);
  const PlanItem item{
      .state = &state, .tokens = tokens, .wanted = LogitsWanted::last, .logits = logits};
  if (const Status ran = plan.run(std::span(&item, 1), {}); !ran)
    throw std::runtime_error(ran.error().message);
  return logits;
}

void measure(const std::string& id, const RandomModel& model) {
  auto start = Clock::now();
  auto backend = make_backend(id, 0);
  if (!backend) throw std::runtime_error(backend.error().message);
  const LoadedModel loaded = load_on(**backend, model, 16);
  const double load_ms = ms_since(start);
  start = Clock::now();
  auto prefill = loaded.model->record(
      512, [&](Ops& ops) { return forward(ops, model.config, *model.weights); });
  if (!prefill) throw std::runtime_error(prefill.error().message);
  const double record_ms = ms_since(start);
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  Random random(2);
  const std::vector<TokenId> prompt = random.tokens(512, model.config.vocab_size);
  auto state = loaded.state();
  start = Clock::now();
  pass(*loaded.plan, *state, std::span(prompt).first(1), vocab);
  const double first_ms = ms_since(start);

  const auto rate = [](std::size_t tokens, int repeats, const auto& work) {
    double best = 0.0;
    for (int i = 0; i < repeats; ++i) {
      const auto begin = Clock::now();
      work();
      best = std::max(best, static_cast<double>(tokens) / ms_since(begin) * 1e3);
    }
    return best;
  };
  const bool slow = id == "cpu" || (*backend)->device().name.find("llvmpipe") != std::string::npos;
  const std::size_t steps = slow ? 8 : 256;
  const double decode = rate(steps, 3, [&] {
    for (std::size_t i = 0; i < steps; ++i)
      pass(*loaded.plan, *state, std::span(prompt).subspan(i, 1), vocab);
  });
  const std::size_t length = slow ? 64 : 2048;
  const double fill = rate(length, slow ? 1 : 3, [&] {
    for (std::size_t at = 0; at < length; at += 512)
      pass(**prefill, *state, std::span(prompt).first(std::min<std::size_t>(512, length)), vocab);
  });
  // The same tokens once through each plan: how far f16 operands are from f32 sums of products.
  auto a = loaded.state();
  auto b = loaded.state();
  std::vector<float> stepwise;
  for (std::size_t i = 0; i < 16; ++i)
    stepwise = pass(*loaded.plan, *a, std::span(prompt).subspan(i, 1), vocab);
  const double difference =
      rms_relative_error(pass(**prefill, *b, std::span(prompt).first(16), vocab), stepwise);
  std::printf("%-10s %9.0f %9.0f %9.1f %12.1f %14.1f %12.2e   %s\n", id.c_str(), load_ms, record_ms,
              first_ms, decode, fill, difference, (*backend)->device().name.c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace runnel::test

int main(int argc, char** argv) {
  std::vector<std::string> ids(argv + 1, argv + argc);
  if (ids.empty()) {
    for (const runnel::DeviceInfo& d : runnel::devices()) {
      if (d.backend != "reference") ids.push_back(d.id);
    }
  }
  try {
    const runnel::test::RandomModel model = runnel::test::default_shape();
    std::printf("%-10s %9s %9s %9s %12s %14s %12s   %s\n", "device", "load ms", "record ms",
                "first ms", "decode tok/s", "prefill tok/s", "prefill err", "name");
    for (const std::string& id : ids) runnel::test::measure(id, model);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
