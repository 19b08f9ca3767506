// SPDX-License-Identifier: Apache-2.0
// Whole models on every device against the reference: every kind of layer in f32, every weight type, ragged lengths,
// token by token with the best one-token program and without, states from the other side, far positions. Ops by
// themselves: ops_alone_test.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/backend/reference/reference_backend.h"
#include "tests/support/compare.h"
#include "tests/support/mixer_cases.h"
#include "tests/support/random.h"
#include "tests/support/random_blocks.h"
#include "tests/support/shapes.h"
#include "tests/support/slow.h"
#include "tests/support/test_devices.h"

namespace runnel::test {
namespace {

using quant::BlockType;
using reference::Activations;

// RMS errors relative to the reference, of logits and of states.
constexpr double kF32Tolerance = 2e-5;    // f32 throughout
constexpr double kPlainTolerance = 1e-4;  // 16-bit weights, f32 activations
// int8 activations; ties round apart, and layers amplify
constexpr double kRoundedTolerance = 2e-2;
// The same, single tokens of a program that rounds beside passes that do not.
constexpr double kStepTolerance = 5e-2;
constexpr double kTensorTolerance = 2e-2;  // operands of 16 bits in long passes
// Long passes of a recurrence against a reference with the same bf16 operands: sums in another
// order round a few operands apart. Against exact operands the bound would say little: rounding
// alone moves the logits of "gla" by 4.6 % at 130 tokens, where the norm of a head divides by the
// almost nothing that the first token reads.
constexpr double kSameOperandsTolerance = 5e-3;
constexpr double kFarTolerance = 1e-4;  // rotations by angles beyond 2^33

constexpr int kFewTokens = 16;  // most of a plan that multiplies vectors

bool is_plain(BlockType type) { return !quant::is_block_type(type); }

/// Logits of all tokens and the state behind them.
struct Outcome {
  std::vector<float> logits, state;
};

Outcome run(const LoadedModel& on, std::span<const TokenId> tokens, std::size_t piece) {
  const auto state = on.state();
  Outcome made;
  made.logits = on.run(*state, tokens, piece);
  made.state = on.canonical(*state);
  return made;
}

/// The reference, which computes the same however tokens are divided.
Outcome expected_of(const RandomModel& model, std::span<const TokenId> tokens,
                    Activations activations) {
  const auto reference = reference::make_backend(activations);
  return run(load_on(*reference, model, static_cast<int>(tokens.size())), tokens, 0);
}

/// A way to feed tokens: pieces of `piece`, on a plan just large enough, by a row of the device's ladder.
struct Way {
  std::size_t piece;
  const char* row = "ops";
};

void compare(Backend& backend, const RandomModel& model, std::span<const TokenId> tokens, Way way,
             const Outcome& expected, double tolerance) {
  const std::size_t most = std::min(way.piece == 0 ? tokens.size() : way.piece, tokens.size());
  const int plan = std::max(static_cast<int>(most), kFewTokens);
  const LoadedModel on = load_on(backend, model, plan, way.row);
  const Outcome actual = run(on, tokens, way.piece);
  const double logits = rms_relative_error(actual.logits, expected.logits);
  const double state = rms_relative_error(actual.state, expected.state);
  const std::string program = on.model->step_program().name;
  if (backend.device().backend == "cuda") {  // the measure of tolerances
    std::printf("[ parity   ] T %5zu in %4zu, %s: logits %.2e state %.2e\n", tokens.size(), most,
                program.c_str(), logits, state);
  }
  EXPECT_LE(logits, tolerance) << tokens.size() << " tokens in pieces of " << most << ", "
                               << program;
  EXPECT_LE(state, tolerance) << tokens.size() << " tokens in pieces of " << most << ", "
                              << program;
}

/// Whether single tokens of the model have a program of their own on the device.
bool has_program(Backend& backend, const RandomModel& model) {
  return load_on(backend, model, 1).model->step_program().name != "ops";
}

bool any_recurrence(const ModelConfig& config) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [](const LayerSpec& l) { return l.kind() == Mixer::recurrence; });
}

/// Whether the mixer of some layer takes bf16 operands of its own in long passes.
bool any_slots(const ModelConfig& config) {
  return std::any_of(config.layers.begin(), config.layers.end(), [](const LayerSpec& l) {
    return l.kind() == Mixer::slots || l.common().num_memory_slots > 0;
  });
}

struct KindCase {
  TestDevice device;
  MixerCase model;
};

void PrintTo(const KindCase& c, std::ostream* out) { *out << c.device.name << " " << c.model.name; }

class ParityOfKinds : public testing::TestWithParam<KindCase> {
 protected:
  const TestDevice& device_ = GetParam().device;
  const ModelConfig& config_ = GetParam().model.config;
  std::unique_ptr<Backend> backend_ = open(device_);
};

TEST_P(ParityOfKinds, AnyPieceMatchesTheReferenceInF32) {
  const RandomModel model = make_random_model(config_, GetParam().model.parts, 21);
  const std::size_t length = device_.software() ? 40 : device_.is("cpu") ? 70 : 140;
  const std::vector<TokenId> tokens = Random(22).tokens(length, config_.vocab_size);
  const Outcome expected = expected_of(model, tokens, Activations::exact);
  // A software driver takes long for the shaders of a plan: two say that splits change nothing, see properties_test.
  const std::vector<std::size_t> pieces =
      device_.software() ? std::vector<std::size_t>{1, 33} : std::vector<std::size_t>{1, 8, 70};
  for (const std::size_t piece : pieces)
    compare(*backend_, model, tokens, {piece}, expected, kF32Tolerance);
}

/// Where long passes have operands of 16 bits, and f32 models one-token programs.
class ParityOfKindsOnCuda : public ParityOfKinds {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ParityOfKindsOnCuda);

TEST_P(ParityOfKindsOnCuda, LongPassesMatchTheReference) {
  RandomParts parts = GetParam().model.parts;
  parts.linear = BlockType::bf16;
  const RandomModel model = make_random_model(config_, parts, 31);
  const Activations activations =
      any_recurrence(config_) ? Activations::tensor : Activations::exact;
  // Slots have bf16 operands of their own beside those of the products.
  const double tolerance = any_slots(config_) ? kTensorTolerance : kSameOperandsTolerance;
  Random random(32);
  for (const std::size_t n : {9U, 63U, 64U, 65U, 130U}) {
    const std::vector<TokenId> tokens = random.tokens(n, config_.vocab_size);
    compare(*backend_, model, tokens, {0}, expected_of(model, tokens, activations), tolerance);
  }
  // Launch by launch, recorded, replayed.
  const std::vector<TokenId> tokens = random.tokens(450, config_.vocab_size);
  compare(*backend_, model, tokens, {150}, expected_of(model, tokens, activations), tolerance);
}

TEST_P(ParityOfKindsOnCuda, BestProgramMatchesTheReferenceInF32) {
  const RandomModel model = make_random_model(config_, GetParam().model.parts, 21);
  if (!has_program(*backend_, model)) GTEST_SKIP() << "ops alone compute a token of it";
  const std::vector<TokenId> tokens = Random(22).tokens(140, config_.vocab_size);
  compare(*backend_, model, tokens, {1, ""}, expected_of(model, tokens, Activations::exact),
          kF32Tolerance);
}

std::vector<KindCase> kind_cases() {
  std::vector<KindCase> cases;
  const std::vector<TestDevice> devices = test_devices();
  const auto fastest = std::find_if(devices.rbegin(), devices.rend(),
                                    [](const TestDevice& d) { return d.is("cpu"); });
  for (const TestDevice& device : devices) {
    const bool slow = device.software() || (device.is("cpu") && device.name != fastest->name);
    for (const MixerCase& model : mixer_cases()) {
      if (model.large && (slow || kSlowBuild)) continue;
      if (!device.takes(model.config)) continue;
      cases.push_back({device, model});
    }
  }
  return cases;
}

std::vector<KindCase> cuda_kind_cases() {
  std::vector<KindCase> cases = kind_cases();
  std::erase_if(cases, [](const KindCase& c) { return !c.device.is("cuda"); });
  return cases;
}

std::string kind_name(const testing::TestParamInfo<KindCase>& each) {
  return each.param.device.name + "_" + each.param.model.name;
}

INSTANTIATE_TEST_SUITE_P(Devices, ParityOfKinds, testing::ValuesIn(kind_cases()), kind_name);
INSTANTIATE_TEST_SUITE_P(Devices, ParityOfKindsOnCuda, testing::ValuesIn(cuda_kind_cases()),
                         kind_name);

struct TypeCase {
  TestDevice device;
  BlockType type;
};

void PrintTo(const TypeCase& c, std::ostream* out) {
  *out << c.device.name << " " << quant::format_of(c.type).name;
}

class ParityOfTypes : public testing::TestWithParam<TypeCase> {
 protected:
  /// Wide enough for blocks of 256 values everywhere; a tied table is gathered and multiplied.
  RandomModel make_model(std::uint64_t seed) const {
    ModelConfig c = small_positional_config();
    set_widths(c, 256, 512);
    set_heads(c, 8, 2, 32);
    set_memory(c, 16);
    c.vocab_size = 301;
    return make_random_model(c,
                             {.linear = type_,
                              .table = type_,
                              .small = is_plain(type_) ? type_ : BlockType::f16,
                              .tied = true,
                              .gate_bias = true,
                              .read_biases = true},
                             seed);
  }

  /// The same for all devices of this process.
  const RandomModel& model(std::uint64_t seed) const {
    static std::map<std::pair<BlockType, std::uint64_t>, RandomModel> made;
    const std::pair key{type_, seed};
    if (!made.contains(key)) made.emplace(key, make_model(seed));
    return made.at(key);
  }
  const Outcome& expected(std::uint64_t seed, const std::vector<TokenId>& tokens,
                          Activations activations) const {
    static std::map<std::tuple<BlockType, std::uint64_t, std::vector<TokenId>, Activations>,
                    Outcome>
        made;
    const std::tuple key{type_, seed, tokens, activations};
    if (!made.contains(key)) made.emplace(key, expected_of(model(seed), tokens, activations));
    return made.at(key);
  }

  /// What products of few tokens do with their inputs.
  Activations activations() const {
    return is_plain(type_) || device_.is("vulkan") ? Activations::exact : Activations::rounded;
  }
  double tolerance() const {
    if (activations() == Activations::rounded) return kRoundedTolerance;
    return type_ == BlockType::f32 || !device_.is("cuda") ? kF32Tolerance : kPlainTolerance;
  }

  const TestDevice& device_ = GetParam().device;
  const BlockType type_ = GetParam().type;
  std::unique_ptr<Backend> backend_ = open(device_);
};

TEST_P(ParityOfTypes, StepsMatchTheReference) {
  const RandomModel& source = model(5);
  const std::vector<TokenId> tokens = Random(6).tokens(24, 301);
  const Outcome& wanted = expected(5, tokens, activations());
  for (const std::size_t piece : {1UL, 7UL})
    compare(*backend_, source, tokens, {piece}, wanted, tolerance());
}

class ParityOfTypesOnGpus : public ParityOfTypes {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ParityOfTypesOnGpus);

TEST_P(ParityOfTypesOnGpus, StepsOfTheBestProgramMatchTheReference) {
  const RandomModel& source = model(5);
  if (!has_program(*backend_, source))
    GTEST_SKIP() << "ops alone compute a token of " << quant::format_of(type_).name << " here";
  const std::vector<TokenId> tokens = Random(6).tokens(24, 301);
  const Activations rounds = is_plain(type_) ? Activations::exact : Activations::rounded;
  const double step = is_plain(type_)      ? tolerance()
                      : device_.is("cuda") ? kRoundedTolerance
                                           : kStepTolerance;
  compare(*backend_, source, tokens, {1, ""}, expected(5, tokens, rounds), step);
}

TEST_P(ParityOfTypes, LongPassesMatchTheReference) {
  if (device_.software()) GTEST_SKIP() << "takes long here: see OpsAlone for passes of many tokens";
  const RandomModel& source = model(8);
  // Matrix units take operands of 16 bits, which is no rounding to int8; other devices do the same as with few tokens.
  const bool units = !device_.is("cpu") && !device_.software() && type_ != BlockType::f32;
  Random random(9);
  for (const std::size_t n : {9UL, 64UL, 100UL}) {
    const std::vector<TokenId> tokens = random.tokens(n, 301);
    compare(*backend_, source, tokens, {0},
            expected(8, tokens, units ? Activations::exact : activations()),
            units ? kTensorTolerance : tolerance());
  }
}

std::vector<TypeCase> type_cases() {
  std::vector<TypeCase> cases;
  const std::vector<TestDevice> devices = test_devices();
  for (const TestDevice& device : devices) {
    for (const BlockType type : quant::weight_formats()) {
      // What is repacked runs by the kernels of another type: once on the CPU, and on GPUs.
      const bool once = device.is("cpu") ? device.name != devices.front().name : device.software();
      if (quant::format_of(type).has_kernels || !once) cases.push_back({device, type});
    }
  }
  return cases;
}

std::vector<TypeCase> gpu_type_cases() {
  std::vector<TypeCase> cases = type_cases();
  std::erase_if(cases, [](const TypeCase& c) { return c.device.is("cpu"); });
  return cases;
}

std::string type_name(const testing::TestParamInfo<TypeCase>& each) {
  return each.param.device.name + "_" + std::string(quant::format_of(each.param.type).name);
}

INSTANTIATE_TEST_SUITE_P(Devices, ParityOfTypes, testing::ValuesIn(type_cases()), type_name);
INSTANTIATE_TEST_SUITE_P(Devices, ParityOfTypesOnGpus, testing::ValuesIn(gpu_type_cases()),
                         type_name);

class Parity : public testing::TestWithParam<TestDevice> {
 protected:
  std::unique_ptr<Backend> backend_ = open(GetParam());
  std::unique_ptr<Backend> reference_ = reference::make_backend();
};

TEST_P(Parity, StatesTravelBetweenDeviceAndReference) {
  const RandomModel model = make_random_model(small_positional_config(), {}, 71);
  const LoadedModel host = load_on(*reference_, model), device = load_on(*backend_, model);
  Random random(72);
  auto a = device.state(), b = host.state(), control = host.state();
  for (int i = 0; i < (GetParam().software() ? 8 : 50); ++i) {
    const std::vector<TokenId> tokens = random.tokens(1 + random.below(20), 96);
    const std::vector<float> expected = host.run(*control, tokens);
    std::vector<float> got;
    if (i % 2 == 0) {
      ASSERT_TRUE(a->import_from(host.canonical(*b), b->position()).has_value());
      EXPECT_EQ(device.canonical(*a), host.canonical(*b));
      got = device.run(*a, tokens);
    } else {
      ASSERT_TRUE(b->import_from(device.canonical(*a), a->position()).has_value());
      got = host.run(*b, tokens);
    }
    EXPECT_LE(rms_relative_error(got, expected), kF32Tolerance * 10) << "turn " << i;
    EXPECT_EQ(i % 2 == 0 ? a->position() : b->position(), control->position());
  }
}

TEST_P(Parity, RotationsAreRightAtAnyPosition) {
  const ModelConfig c = small_positional_config();
  const RandomModel model = make_random_model(c, {}, 5);
  Random random(3);
  const std::vector<TokenId> tokens = random.tokens(20, c.vocab_size);
  const LoadedModel ours = load_on(*backend_, model), theirs = load_on(*reference_, model);
  auto a = ours.state(), b = theirs.state();
  const std::vector<float> state = random.normals(StateLayout::of(c).total_floats());
  for (const std::uint64_t position : {0ULL, 1ULL, 5ULL, (1ULL << 31) - 3, (1ULL << 33) + 5}) {
    ASSERT_TRUE(a->import_from(state, position).has_value());
    ASSERT_TRUE(b->import_from(state, position).has_value());
    const double tolerance = GetParam().is("cpu") ? kF32Tolerance : kFarTolerance;
    EXPECT_LE(max_relative_error(ours.run(*a, tokens), theirs.run(*b, tokens)), tolerance)
        << "position " << position;
    EXPECT_LE(max_relative_error(ours.canonical(*a), theirs.canonical(*b)), tolerance)
        << "position " << position;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Parity, testing::ValuesIn(test_devices()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace runnel::test
