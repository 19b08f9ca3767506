// SPDX-License-Identifier: Apache-2.0
// What only this backend has, against the reference: passes chunk by chunk, matrix units, matrices in parts, and devices
// with optional features and limits taken away. Models of every kind and type: tests/backend/parity_test.cpp
#include <algorithm>
#include <cmath>

#include "runtime/backend/reference/reference_backend.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace runnel::test {
namespace {

using quant::BlockType;

// Both sides compute in f32 with exact activations, in another order.
constexpr double kParityTolerance = 2e-5;
// Logits of some hundred, of which 24 bits are left.
constexpr double kLargeKeysTolerance = 2e-5;
// f16 operands on matrix units: 11 bits of each factor.
constexpr double kF16Tolerance = 5e-3;
constexpr int kDecodePlan = 16;
constexpr int kPrefillPlan = 96;

/// One layer with heads of these sizes.
struct Heads {
  std::int32_t query = 4, kv = 2, k = 16, v = 16, memory = 8, sinks = 0, window = 0, far = 0;
};
ModelConfig with_heads(const Heads& h) {
  ModelConfig c = h.sinks + h.window > 0 ? small_positional_config() : small_config();
  c.layers.resize(1);
  set(c, &LayerSpec::num_heads, h.query);
  set(c, &LayerSpec::num_kv_heads, h.kv);
  set(c, &LayerSpec::head_k_dim, h.k);
  set(c, &LayerSpec::head_v_dim, h.v);
  set(c, &MixerSpec::num_memory_slots, h.memory);
  set(c, &SlotSpec::num_sink_slots, h.sinks);
  set(c, &SlotSpec::num_window_slots, h.window);
  if (h.sinks + h.window > 0) set(c, &SlotSpec::sink_distance, h.far);
  return c;
}

/// The same model with these biases on a layer's keys.
RandomModel with_key_biases(RandomModel model, std::int32_t layer, std::vector<float> biases) {
  const auto kept = std::make_shared<std::pair<std::shared_ptr<const void>, std::vector<float>>>(
      model.storage, std::move(biases));
  auto weights = std::make_shared<Weights>(*model.weights);
  weights->layers[static_cast<std::size_t>(layer)].slots().k_bias.data =
      std::as_bytes(std::span<const float>(kept->second));
  model.weights = std::move(weights);
  model.storage = kept;
  return model;
}

class VulkanParity : public VulkanTest {
 protected:
  /// Products of integers round their inputs; decode_step_test compares those.
  static vulkan::FeatureMask exact(vulkan::FeatureMask features) {
    features.integer_dot = false;
    return features;
  }

  /// Runs 40 tokens as 1 + 1 + 33 + 5 on both.
  void expect_parity(const RandomModel& model, int max_tokens,
                     const vulkan::FeatureMask& features = {},
                     double tolerance = kParityTolerance) {
    const std::vector<std::size_t> pieces = max_tokens < 33 ? std::vector<std::size_t>{1, 1, 16, 5}
                                                            : std::vector<std::size_t>{1, 1, 33, 5};
    auto device = backend(exact(features));
    auto reference = reference::make_backend();
    const LoadedModel actual = load_on(*device, model, max_tokens);
    const LoadedModel expected = load_on(*reference, model, 256);
    Random random(21);
    auto actual_state = actual.state();
    auto expected_state = expected.state();
    for (const std::size_t n : pieces) {
      const std::vector<TokenId> tokens = random.tokens(n, model.config.vocab_size);
      EXPECT_LE(max_relative_error(actual.run(*actual_state, tokens),
                                   expected.run(*expected_state, tokens)),
                tolerance)
          << "after " << actual_state->position() << " tokens";
    }
    EXPECT_LE(
        max_relative_error(actual.canonical(*actual_state), expected.canonical(*expected_state)),
        tolerance);
  }
};

bool has_matrix_units() {
  const auto instance = vulkan::Instance::create();
  return instance.has_value() && (*instance)->devices().front().cooperative_matrix();
}

/// Plans of many tokens: pieces of all lengths around a chunk's, several items at once.
class VulkanChunks : public VulkanParity {
 protected:
  void expect_chunks(const RandomModel& model, const vulkan::FeatureMask& features,
                     double tolerance, const std::vector<std::size_t>& pieces) {
    const std::size_t longest = *std::max_element(pieces.begin(), pieces.end());
    auto device = backend(exact(features));
    auto reference = reference::make_backend();
    const LoadedModel actual = load_on(*device, model, static_cast<int>(longest));
    const LoadedModel expected = load_on(*reference, model, static_cast<int>(longest));
    Random random(77);
    auto actual_state = actual.state();
    auto expected_state = expected.state();
    for (const std::size_t n : pieces) {
      const std::vector<TokenId> tokens = random.tokens(n, model.config.vocab_size);
      EXPECT_LE(max_relative_error(actual.run(*actual_state, tokens),
                                   expected.run(*expected_state, tokens)),
                tolerance)
          << n << " tokens, then at " << actual_state->position();
      EXPECT_LE(
          max_relative_error(actual.canonical(*actual_state), expected.canonical(*expected_state)),
          tolerance)
          << "state after " << n << " tokens, at " << actual_state->position();
    }
  }
};

TEST_F(VulkanChunks, AnyLengthOfPassMatchesTheReference) {
  const ModelConfig c = with_heads(
      {.query = 3, .kv = 1, .k = 64, .v = 64, .memory = 64, .sinks = 4, .window = 60, .far = 64});
  expect_chunks(make_random_model(c, {.gate_bias = true, .read_biases = true}, 31),
                {.cooperative_matrix = false}, kParityTolerance,
                {2, 17, 1, 63, 64, 65, 31, 130, 127, 16, 200, 48});
}

TEST_F(VulkanChunks, WideHeadsWithoutPositionalSlotsMatchTheReference) {
  const ModelConfig c = with_heads({.query = 2, .kv = 1, .k = 130, .v = 140, .memory = 33});
  expect_chunks(make_random_model(c, {}, 33), {.cooperative_matrix = false}, kParityTolerance,
                {66, 1, 129});
}

TEST_F(VulkanChunks, ManySlotsAndLongWindowsMatchTheReference) {
  // Like the 0.5B model; no multiples of anything; memory alone; sinks without a window; only the window is long.
  const Heads shapes[] = {
      {.query = 7, .kv = 1, .k = 64, .v = 64, .memory = 128, .sinks = 4, .window = 252, .far = 256},
      {.query = 2, .kv = 2, .k = 6, .v = 13, .memory = 101, .sinks = 3, .window = 131, .far = 70},
      {.query = 2, .kv = 2, .k = 33, .v = 24, .memory = 65},
      {.query = 2, .kv = 1, .k = 16, .v = 64, .memory = 72, .sinks = 16, .far = 9},
      {.query = 2, .kv = 1, .k = 64, .v = 16, .memory = 8, .window = 256, .far = 9}};
  for (const Heads& heads : shapes) {
    SCOPED_TRACE(testing::Message()
                 << heads.k << " keys, " << heads.v << " values, " << heads.memory << " slots, "
                 << heads.sinks << " sinks, window " << heads.window);
    ModelConfig c = with_heads(heads);
    set(c, &LayerSpec::qkv_bias, true);
    expect_chunks(make_random_model(c, {.gate_bias = true, .read_biases = true}, 41), {},
                  kParityTolerance, {2, 65, 1, 200, 17, 64, 130, 3, 40});
  }
}

/// Keys of Qwen2 share biases of up to 200, in a few of their columns: logits of some hundred, all but the same.
TEST_F(VulkanChunks, LargeBiasesOfKeysMatchTheReference) {
  ModelConfig c = with_heads({.query = 2,
                              .kv = 1,
                              .k = 64,
                              .v = 64,
                              .memory = 128,
                              .sinks = 4,
                              .window = 252,
                              .far = 256});
  set(c, &LayerSpec::qkv_bias, true);
  set(c, &MixerSpec::scale, 0.125F);
  std::vector<float> biases = Random(43).normals(64, 0.5F);
  biases[31] = 200.0F;
  biases[63] = -140.0F;
  for (const bool chunks : {true, false}) {  // token by token has the same logits to round
    SCOPED_TRACE(chunks);
    expect_chunks(
        with_key_biases(make_random_model(c, {.gate_bias = true, .read_biases = true}, 42), 0,
                        biases),
        {.chunks = chunks}, kLargeKeysTolerance, {150, 130, 40});
  }
}

TEST_F(VulkanChunks, SlotsOnMatrixUnitsMatchTheReference) {
  if (!has_matrix_units()) GTEST_SKIP() << "the device has no cooperative matrices";
  const Heads shapes[] = {
      {.query = 2, .kv = 1, .k = 48, .v = 64, .memory = 64},
      {.query = 2, .kv = 2, .k = 32, .v = 256, .memory = 64},
      {.query = 1, .kv = 1, .k = 64, .v = 144, .memory = 16},
      {.query = 2, .kv = 2, .k = 16, .v = 16, .memory = 48},
      {.query = 6, .kv = 2, .k = 64, .v = 64, .memory = 64, .sinks = 4, .window = 60, .far = 64},
      {.query = 2, .kv = 2, .k = 32, .v = 48, .memory = 32, .sinks = 16, .window = 64, .far = 40},
      {.query = 4, .kv = 2, .k = 16, .v = 32, .memory = 16, .sinks = 3, .window = 7, .far = 9},
      {.query = 2, .kv = 1, .k = 16, .v = 16, .memory = 16, .window = 64, .far = 9},
      {.query = 2, .kv = 1, .k = 16, .v = 16, .memory = 16, .sinks = 5, .far = 9}};
  for (const Heads& heads : shapes) {
    for (const bool khr : {true, false}) {
      SCOPED_TRACE(testing::Message()
                   << heads.k << " keys, " << heads.v << " values, " << heads.memory << " slots, "
                   << heads.sinks << " sinks, window " << heads.window << ", khr " << khr);
      expect_chunks(
          make_random_model(with_heads(heads),
                            {.linear = BlockType::f16, .gate_bias = true, .read_biases = true}, 33),
          {.khr_matrices = khr}, kF16Tolerance, {66, 1, 129, 17, 20, 64, 130});
    }
  }
}

TEST_F(VulkanChunks, GatesThatForgetEverythingOnMatrixUnits) {
  if (!has_matrix_units()) GTEST_SKIP() << "the device has no cooperative matrices";
  ModelConfig c = with_heads({.query = 2, .kv = 1, .k = 32, .v = 32, .memory = 32});
  set(c, &MixerSpec::gate_normalizer, 1e-3F);
  expect_chunks(make_random_model(c, {.linear = BlockType::f16, .gate_bias = true}, 36), {},
                kF16Tolerance, {100, 40});
}

TEST_F(VulkanChunks, GatesThatForgetEverythingAreExact) {
  ModelConfig c = small_positional_config();
  c.layers.resize(1);
  set(c, &MixerSpec::gate_normalizer, 1e-3F);  // log alpha of some -700 per token
  expect_chunks(make_random_model(c, {.gate_bias = true}, 35), {.cooperative_matrix = false},
                kParityTolerance, {100, 40});
}

TEST_F(VulkanChunks, WithoutSubgroupsMatchesTheReference) {
  expect_chunks(make_random_model(small_positional_config(), {}, 36),
                {.subgroups = false, .cooperative_matrix = false}, kParityTolerance, {70, 30});
}

TEST_F(VulkanChunks, TooLittleSharedMemoryGoesTokenByToken) {
  expect_chunks(make_random_model(small_positional_config(), {}, 37),
                {.cooperative_matrix = false, .shared_bytes = 16384}, kParityTolerance, {40});
}

TEST_F(VulkanChunks, ItemsOfOnePassDoNotTouchEachOther) {
  auto device = backend({.cooperative_matrix = false});
  const LoadedModel loaded =
      load_on(*device, make_random_model(small_positional_config(), {}, 38), 400);
  Random random(39);
  const auto vocab = static_cast<std::size_t>(loaded.source.config.vocab_size);
  const std::size_t lengths[] = {100, 3, 64, 17, 16, 70};
  std::vector<std::unique_ptr<RecurrentState>> together, alone;
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<float>> logits(6, std::vector<float>(vocab, NAN));
  std::vector<PlanItem> items;
  for (int round = 0; round < 2; ++round) {
    items.clear();
    tokens.clear();
    for (std::size_t i = 0; i < 6; ++i) {
      if (round == 0) together.push_back(loaded.state());
      if (round == 0) alone.push_back(loaded.state());
      tokens.push_back(random.tokens(lengths[i], loaded.source.config.vocab_size));
    }
    for (std::size_t i = 0; i < 6; ++i) {
      items.push_back({.state = together[i].get(),
                       .tokens = tokens[i],
                       .wanted = LogitsWanted::last,
                       .logits = logits[i]});
    }
    const Status ran = loaded.plan->run(items, {});
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
    for (std::size_t i = 0; i < 6; ++i) {
      std::vector<float> expected(vocab, NAN);
      const PlanItem single{.state = alone[i].get(),
                            .tokens = tokens[i],
                            .wanted = LogitsWanted::last,
                            .logits = expected};
      ASSERT_TRUE(loaded.plan->run(std::span(&single, 1), {}).has_value());
      EXPECT_EQ(logits[i], expected) << "item " << i;
      EXPECT_EQ(loaded.canonical(*together[i]), loaded.canonical(*alone[i])) << "item " << i;
    }
  }
}

class VulkanWeightTypes : public VulkanParity, public testing::WithParamInterface<BlockType> {};

RandomModel model_of(BlockType type) {
  ModelConfig c = small_positional_config();
  c.hidden_size = 256;  // one block of the 256-wide types
  set(c, &LayerSpec::intermediate_size, 512);
  c.layers.resize(1);
  const bool narrow = type == BlockType::f16 || type == BlockType::bf16;
  return make_random_model(c,
                           {.linear = type,
                            .table = type,
                            .small = narrow ? type : BlockType::f32,
                            .gate_bias = true,
                            .read_biases = true},
                           17);
}

std::string type_name(const testing::TestParamInfo<BlockType>& info) {
  return std::string(quant::format_of(info.param).name);
}

INSTANTIATE_TEST_SUITE_P(Types, VulkanWeightTypes,
                         testing::Values(BlockType::f32, BlockType::f16, BlockType::bf16,
                                         BlockType::q8_0, BlockType::q4_0, BlockType::q4_k,
                                         BlockType::q6_k),
                         type_name);

TEST_P(VulkanWeightTypes, PrefillOnMatrixUnitsMatchesTheReference) {
  if (!has_matrix_units()) GTEST_SKIP() << "the device has no cooperative matrices";
  expect_parity(model_of(GetParam()), kPrefillPlan, {}, kF16Tolerance);
}

TEST_F(VulkanParity, WithoutSubgroupsMatchesTheReference) {
  expect_parity(model_of(BlockType::q4_0), kDecodePlan, {.subgroups = false});
}

TEST_F(VulkanParity, ColumnsThatFillNoUnitAreMasked) {
  ModelConfig c = small_config();
  c.hidden_size = 52;
  set(c, &LayerSpec::intermediate_size, 45);
  set(c, &LayerSpec::num_heads, 3);
  set(c, &LayerSpec::num_kv_heads, 3);
  set(c, &LayerSpec::head_k_dim, 11);
  set(c, &LayerSpec::head_v_dim, 13);
  set(c, &MixerSpec::num_memory_slots, 7);
  c.vocab_size = 61;
  const RandomModel model = make_random_model(c, {.linear = BlockType::f16}, 4);
  expect_parity(model, kDecodePlan, {.subgroups = false});
  expect_parity(model, kPrefillPlan, {.subgroups = false, .cooperative_matrix = false});
}

TEST_F(VulkanParity, WideHeadsWithoutPositionalSlots) {
  const ModelConfig c = with_heads({.query = 1, .kv = 1, .k = 192, .v = 256, .memory = 33});
  expect_parity(make_random_model(c, {.linear = BlockType::q8_0}, 6), kDecodePlan);
}

TEST_F(VulkanParity, GateAndUpOfDifferentTypesMatchTheReference) {
  const RandomModel wide = make_random_model(small_config(), {.linear = BlockType::q8_0}, 9);
  const RandomModel narrow = make_random_model(small_config(), {.linear = BlockType::f16}, 9);
  RandomModel mixed = wide;
  auto weights = std::make_shared<Weights>(*wide.weights);
  for (std::size_t i = 0; i < weights->layers.size(); ++i) {
    weights->layers[i].channel_mix.up_proj = narrow.weights->layers[i].channel_mix.up_proj;
    weights->layers[i].projections().k_proj = narrow.weights->layers[i].projections().k_proj;
  }
  mixed.weights = weights;
  expect_parity(mixed, kDecodePlan);
  expect_parity(mixed, kPrefillPlan, {.cooperative_matrix = false});
}

TEST_F(VulkanParity, LargeVocabulariesMatchTheReference) {
  ModelConfig c = small_config();
  c.layers.resize(1);
  c.vocab_size = 16411;  // a team takes four rows of a matrix this tall; the last has fewer
  expect_parity(make_random_model(c, {.table = BlockType::q8_0}, 11), kDecodePlan);
}

TEST_F(VulkanParity, MatricesLargerThanABindingAreSplit) {
  const RandomModel model = make_random_model(small_positional_config(), {.tied = true}, 10);
  const vulkan::FeatureMask small{.storage_range = 16384};  // the table has 24,576 bytes
  expect_parity(model, kDecodePlan, small);
}

TEST_F(VulkanParity, DecodePlanGivesTheSameBitsHoweverManyShareThePass) {
  auto device = backend({.one_dispatch = false});  // which is for one token alone
  const LoadedModel loaded = load_on(
      *device, make_random_model(small_positional_config(), {.linear = BlockType::q4_0}, 12), 16);
  Random random(13);
  const auto vocab = static_cast<std::size_t>(loaded.source.config.vocab_size);
  // Nine sessions: more than the first bank holds.
  std::vector<std::unique_ptr<RecurrentState>> together;
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<float>> logits(9, std::vector<float>(vocab, NAN));
  std::vector<PlanItem> items;
  for (std::size_t i = 0; i < 9; ++i) {
    together.push_back(loaded.state());
    tokens.push_back(random.tokens(i % 3 + 1, loaded.source.config.vocab_size));
  }
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t session = i < 2 ? i : i + 1;  // two banks, not in order
    items.push_back({.state = together[session].get(),
                     .tokens = tokens[session],
                     .wanted = LogitsWanted::last,
                     .logits = logits[session]});
  }
  const Status ran = loaded.plan->run(items, {});
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  for (const PlanItem& item : items) {
    auto alone = loaded.state();
    std::vector<float> expected(vocab, NAN);
    const PlanItem single{.state = alone.get(),
                          .tokens = item.tokens,
                          .wanted = LogitsWanted::last,
                          .logits = expected};
    ASSERT_TRUE(loaded.plan->run(std::span(&single, 1), {}).has_value());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), item.logits.begin()));
    EXPECT_EQ(loaded.canonical(*item.state), loaded.canonical(*alone));
  }
}

TEST_F(VulkanParity, PassTooLargeForABindingIsRefusedAtRecording) {
  auto device = backend({.storage_range = 4096});
  const RandomModel model = make_random_model(small_config(), {}, 16);
  auto loaded = device->load(
      {.config = model.config, .weights = *model.weights, .keep_alive = model.storage});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  auto plan =
      (*loaded)->record(256, [&](Ops& ops) { return ops.embed(model.weights->embeddings); });
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace runnel::test
