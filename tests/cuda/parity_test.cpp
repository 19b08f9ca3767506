// SPDX-License-Identifier: Apache-2.0
// What only this backend has, against the reference: kernels for a shape of their own, mapped weights, tensor cores at
// any length, the choice of a one-token program. Models of every kind and type: tests/backend/parity_test.cpp. Skips
// without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/backend/reference/reference_backend.h"
#include "runtime/model/forward.h"
#include "tests/cuda/cuda_backends.h"
#include "tests/support/compare.h"
#include "tests/support/mixer_cases.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/shapes.h"

namespace runnel::test {
namespace {

using quant::BlockType;
using reference::Activations;

// RMS errors relative to the reference, over logits and over the state.
constexpr double kF32Tolerance = 2e-5;        // f32 throughout
constexpr double kPlainStepTolerance = 1e-4;  // 16-bit weights, f32 activations
// int8 activations; ties round apart, and layers amplify
constexpr double kRoundedTolerance = 2e-2;
constexpr double kTensorTolerance = 2e-2;  // bf16 operands in long passes

bool is_plain(BlockType t) { return !quant::is_block_type(t); }

/// Single tokens: block types times int8 activations.
Activations activations_for(BlockType t) {
  return is_plain(t) ? Activations::exact : Activations::rounded;
}

/// Runs the same tokens on both and compares logits and state. Prints the errors: they are the measure of tolerances.
void compare(Backend& backend, const RandomModel& model, std::span<const TokenId> tokens,
             std::size_t piece, Activations activations, double tolerance,
             const std::string& what) {
  const int most = static_cast<int>(std::max<std::size_t>(tokens.size(), 16));
  const auto reference = reference::make_backend(activations);
  const LoadedModel expected = load_on(*reference, model, most),
                    actual = load_on(backend, model, most);
  auto a = actual.state(), e = expected.state();
  const std::vector<float> al = actual.run(*a, tokens, piece), el = expected.run(*e, tokens, piece);
  const double logits = rms_relative_error(al, el);
  const double state = rms_relative_error(actual.canonical(*a), expected.canonical(*e));
  std::printf("[ parity   ] %-44s T %5zu in %4zu: logits %.2e state %.2e\n", what.c_str(),
              tokens.size(), piece, logits, state);
  EXPECT_LE(logits, tolerance) << what << ", " << tokens.size() << " tokens in pieces of " << piece;
  EXPECT_LE(state, tolerance) << what << ", " << tokens.size() << " tokens in pieces of " << piece;
}

/// Wide enough for 256-value blocks everywhere.
ModelConfig wide_config() {
  ModelConfig c = small_config();
  set_widths(c, 256, 512);
  set_heads(c, 8, 2, 32);
  set_memory(c, 16);
  c.vocab_size = 301;
  return c;
}

class WeightTypes : public testing::TestWithParam<BlockType> {};

INSTANTIATE_TEST_SUITE_P(Cuda, WeightTypes,
                         testing::Values(BlockType::f32, BlockType::f16, BlockType::bf16,
                                         BlockType::q8_0, BlockType::q4_0, BlockType::q4_k,
                                         BlockType::q6_k),
                         [](const auto& type) {
                           return std::string(quant::format_of(type.param).name);
                         });

/// A layer of the shape that has kernels of its own: inputs of 2,048 and 5,632 values, heads of
/// 512. In the types that quantize stores, and in types mixed so that none of them fits.
TEST(OneTokenKernel, OfTheWideModelMatchesTheReference) {
  REQUIRE_CUDA_PROGRAMS(backend);
  ModelConfig config = small_config();
  set_layers(config, 1);
  set_widths(config, 2048, 5632);
  set_heads(config, 4, 4, 512);
  set_memory(config, 64);
  const RandomParts all[] = {
      {.linear = BlockType::q4_0, .table = BlockType::q8_0, .small = BlockType::f16},
      {.linear = BlockType::q4_k, .table = BlockType::q6_k, .small = BlockType::f16},
      {.linear = BlockType::q8_0, .table = BlockType::q8_0, .small = BlockType::f16},
      {.linear = BlockType::bf16, .table = BlockType::bf16, .small = BlockType::bf16},
      {.linear = BlockType::q4_0, .table = BlockType::q6_k, .small = BlockType::f16}};
  for (const RandomParts& parts : all) {
    const RandomModel model = make_random_model(config, parts, 17);
    Random random(18);
    const std::string name = std::string("one kernel, wide, ") +
                             quant::format_of(parts.linear).name.data() + ", head " +
                             quant::format_of(parts.table).name.data();
    compare(*backend, model, random.tokens(3, config.vocab_size), 1, activations_for(parts.linear),
            is_plain(parts.linear) ? kPlainStepTolerance : kRoundedTolerance, name);
  }
}

TEST(OneTokenKernel, OfBiasesAndManySlotsMatchesTheReference) {
  REQUIRE_CUDA_PROGRAMS(backend);
  const RandomModel model = make_random_model(biased_config(),
                                              {.linear = BlockType::q4_0,
                                               .table = BlockType::q4_0,
                                               .small = BlockType::f16,
                                               .tied = true,
                                               .gate_bias = true},
                                              19);
  const StepProgram program = load_on(*backend, model, 16).model->step_program();
  EXPECT_EQ(program.name, cuda::facts_of(0).major < 9 ? "ops" : "grid") << to_string(program);
  compare(*backend, model, Random(20).tokens(300, 96), 1, Activations::rounded, kRoundedTolerance,
          "one kernel, biases and 384 slots");
}

/// As on boards whose GPU shares the host's memory.
TEST_P(WeightTypes, WeightsInMappedMemoryComputeTheSame) {
  REQUIRE_CUDA_OPS(in_device);
  const BlockType type = GetParam();
  const RandomParts parts{
      .linear = type, .table = type, .small = is_plain(type) ? type : BlockType::f16};
  const RandomModel model = make_random_model(wide_config(), parts, 5);
  Random random(6);
  const std::vector<TokenId> tokens = random.tokens(80, 301);
  for (const char* program : {"ops", ""}) {
    std::vector<std::vector<float>> logits;
    for (cuda::WeightPlace place : {cuda::WeightPlace::device, cuda::WeightPlace::mapped}) {
      const std::unique_ptr<Backend> backend = cuda_backend(program, place);
      ASSERT_NE(backend, nullptr);
      const LoadedModel loaded = load_on(*backend, model);
      for (std::size_t piece : {1U, 80U}) {
        auto state = loaded.state();
        logits.push_back(loaded.run(*state, tokens, piece));
      }
    }
    EXPECT_EQ(logits[0], logits[2]) << "token by token";
    EXPECT_EQ(logits[1], logits[3]) << "at once";
  }
}

bool any_recurrence(const ModelConfig& config) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [](const LayerSpec& l) { return l.kind() == Mixer::recurrence; });
}

class Mixers : public testing::TestWithParam<MixerCase> {};

/// Every kernel that single tokens and short and long passes use, once or twice: as much as a race
/// detector has time for.
TEST_P(Mixers, FirstTokensMatchTheReference) {
  REQUIRE_CUDA_OPS(backend);
  RandomParts parts = GetParam().parts;
  const RandomModel exact = make_random_model(GetParam().config, parts, 23);
  Random random(24);
  for (std::size_t piece : {1U, 3U}) {
    compare(*backend, exact, random.tokens(2 * piece, 96), piece, Activations::exact, kF32Tolerance,
            GetParam().name);
  }
  parts.linear = BlockType::bf16;
  const bool recurrence = any_recurrence(GetParam().config);
  compare(*backend, make_random_model(GetParam().config, parts, 33), random.tokens(66, 96), 0,
          recurrence ? Activations::tensor : Activations::exact, kTensorTolerance, GetParam().name);
}

/// Small enough for one cluster (cuda/step_cluster.h), in the shape of the 135M.
ModelConfig cluster_config() {
  ModelConfig c = small_positional_config();
  set_layers(c, 5);
  set_widths(c, 576, 192);
  set_default_mixer(c);
  return c;
}
const RandomParts kClusterParts{.linear = BlockType::q4_0,
                                .table = BlockType::q8_0,
                                .small = BlockType::f16,
                                .tied = true,
                                .gate_bias = true,
                                .read_biases = true};

TEST(Cuda, RefusesAStepProgramThatDoesNotFitOrIsNone) {
  REQUIRE_CUDA_OPS(backend);
  const RandomModel model = make_random_model(small_config(), {}, 45);
  const Recording pass = forward_of(model.config, *model.weights);
  for (const auto& [name, code] :
       {std::pair{"grid-even", ErrorCode::unsupported}, {"even", ErrorCode::not_found}}) {
    const auto loaded =
        cuda_backend(name)->load({.config = model.config, .weights = *model.weights, .pass = pass});
    ASSERT_FALSE(loaded) << name;
    EXPECT_EQ(loaded.error().code, code) << loaded.error().message;
  }
}

TEST(Cuda, APlanOfAnotherPassThanTheModelsTakesNoStepProgram) {
  REQUIRE_CUDA_PROGRAMS(backend);
  const RandomModel model = make_random_model(small_config(), {}, 46);
  ModelConfig half = model.config;
  half.layers.resize(1);
  const LoadedModel whole = load_on(*backend, model);
  const auto ops = load_on(*cuda_backend(), model);
  const Recording pass = forward_of(half, *model.weights);
  auto a = whole.state(), b = ops.state();
  std::vector<std::vector<float>> logits;
  for (const auto& [on, state] : {std::pair{&whole, a.get()}, {&ops, b.get()}}) {
    auto plan = on->model->record(4, pass);
    ASSERT_TRUE(plan) << plan.error().message;
    const TokenId token = 7;
    logits.emplace_back(96, NAN);
    const PlanItem item{.state = state,
                        .tokens = std::span(&token, 1),
                        .wanted = LogitsWanted::last,
                        .logits = logits.back()};
    ASSERT_TRUE((*plan)->run(std::span(&item, 1), {}));
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(OneCluster, MatchesTheReference) {
  REQUIRE_CUDA_PROGRAMS(backend);
  // The 135M's width has a kernel of its own.
  for (int inner : {192, 1536}) {
    ModelConfig config = cluster_config();
    set_widths(config, 576, inner);
    const RandomModel model = make_random_model(config, kClusterParts, 41);
    compare(*backend, model, Random(42).tokens(150, 96), 1, Activations::rounded, kRoundedTolerance,
            "one cluster, " + std::to_string(inner));
  }
}

TEST(OneCluster, GoesOnFromASnapshotBitForBit) {
  REQUIRE_CUDA_PROGRAMS(backend);
  ModelConfig config = cluster_config();
  set_widths(config, 576, 1536);
  const RandomModel model = make_random_model(config, kClusterParts, 43);
  const LoadedModel on = load_on(*backend, model);
  constexpr int kCuts = 1000;
  Random random(44);
  auto straight = on.state();
  for (int i = 0; i < kCuts; ++i) {
    auto restored = on.state();
    ASSERT_TRUE(restored->import_from(on.canonical(*straight), straight->position()));
    const std::vector<TokenId> token = random.tokens(1, 96);
    ASSERT_EQ(on.run(*straight, token), on.run(*restored, token)) << "cut " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Mixers, testing::ValuesIn(mixer_cases()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(Cuda, EveryLengthUpTo130Matches) {
  REQUIRE_CUDA_OPS(backend);
  ModelConfig c = small_positional_config();
  const RandomModel model =
      make_random_model(c, {.linear = BlockType::bf16, .gate_bias = true, .read_biases = true}, 41);
  const auto reference = reference::make_backend();
  const LoadedModel expected = load_on(*reference, model, 130),
                    actual = load_on(*backend, model, 130);
  Random random(42);
  const std::vector<TokenId> tokens = random.tokens(130, 96);
  auto e = expected.state();
  const std::vector<float> all = expected.run(*e, tokens, 1);
  double worst = 0.0;
  for (std::size_t n = 1; n <= 130; ++n) {
    auto a = actual.state();
    const std::vector<float> logits = actual.run(*a, std::span(tokens).first(n));
    const double error = rms_relative_error(logits, std::span(all).first(n * 96));
    worst = std::max(worst, error);
    EXPECT_LE(error, kTensorTolerance) << n << " tokens";
  }
  std::printf("[ parity   ] T = 1 ... 130: worst logits %.2e\n", worst);
}

TEST(Cuda, TwoThousandTokensInOnePassMatch) {
  REQUIRE_CUDA_OPS(backend);
  ModelConfig c = small_positional_config();
  const RandomModel model =
      make_random_model(c, {.linear = BlockType::q8_0, .gate_bias = true}, 51);
  Random random(52);
  compare(*backend, model, random.tokens(2100, 96), 0, Activations::exact, kTensorTolerance,
          "2,100 tokens, q8_0");
}

/// Long enough for projections with what follows them fused behind, where the device has those.
TEST(Cuda, LongPassesOfWideHeadsMatch) {
  REQUIRE_CUDA_OPS(backend);
  ModelConfig c = small_config();
  set_heads(c, 2, 2, 128);
  set_memory(c, 64);
  for (BlockType type : {BlockType::bf16, BlockType::q4_0}) {
    const RandomModel model = make_random_model(c, {.linear = type, .gate_bias = true}, 55);
    Random random(56);
    compare(*backend, model, random.tokens(700, 96), 0, Activations::exact, kTensorTolerance,
            "700 tokens, " + std::string(quant::format_of(type).name));
  }
}

/// The last layer computes only what was requested.
TEST(Cuda, LogitsOfTheLastTokenAndNoneAreThoseOfAll) {
  REQUIRE_CUDA_OPS(backend);
  for (const ModelConfig& config :
       {small_config(), small_positional_config(), family_config("gla"), family_config("abc")}) {
    for (BlockType type : {BlockType::f32, BlockType::bf16}) {
      const RandomModel model = make_random_model(config, {.linear = type}, 65);
      const LoadedModel loaded = load_on(*backend, model);
      Random random(66);
      const std::vector<TokenId> tokens = random.tokens(300, 96);
      auto a = loaded.state(), b = loaded.state();
      const std::vector<float> all = loaded.run(*a, tokens, 100);
      std::vector<float> last(96, NAN);
      for (std::size_t at = 0; at < 300; at += 100) {
        const bool wanted = at == 200;
        const PlanItem item{.state = b.get(),
                            .tokens = std::span(tokens).subspan(at, 100),
                            .wanted = wanted ? LogitsWanted::last : LogitsWanted::none,
                            .logits = wanted ? std::span(last) : std::span<float>()};
        ASSERT_TRUE(loaded.plan->run(std::span(&item, 1), {}).has_value());
      }
      const double tolerance = type == BlockType::f32 ? kF32Tolerance : kTensorTolerance;
      EXPECT_LE(rms_relative_error(last, std::span(all).last(96)), tolerance);
      EXPECT_EQ(loaded.canonical(*a), loaded.canonical(*b));
    }
  }
}

TEST(Cuda, StrongGatesNeitherOverflowNorVanish) {
  REQUIRE_CUDA_OPS(backend);
  ModelConfig c = small_config();
  set(c, &MixerSpec::gate_normalizer, 0.05F);  // log alpha down to -100 and beyond
  const RandomModel model = make_random_model(c, {.linear = BlockType::bf16}, 61);
  Random random(62);
  compare(*backend, model, random.tokens(200, 96), 0, Activations::exact, kTensorTolerance,
          "strong gates");
  compare(*backend, model, random.tokens(40, 96), 1, Activations::exact, kPlainStepTolerance * 10,
          "strong gates");
}

TEST(Cuda, ThousandSnapshotRoundTripsChangeNothing) {
  REQUIRE_CUDA_OPS(backend);
  const RandomModel model = make_random_model(small_positional_config(), {}, 81);
  const LoadedModel device = load_on(*backend, model);
  Random random(82);
  auto state = device.state();
  device.run(*state, random.tokens(77, 96));
  const std::vector<float> first = device.canonical(*state);
  std::vector<float> floats = first;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(state->import_from(floats, 77).has_value());
    ASSERT_TRUE(state->export_to(floats).has_value());
  }
  EXPECT_EQ(floats, first);
}

}  // namespace
}  // namespace runnel::test
