// SPDX-License-Identifier: Apache-2.0
// Logits and states against the reference backend: every weight type, every option of the model,
// both kinds of plan, with optional device features and limits taken away.
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

TEST_F(VulkanChunks, OddSizesMatchTheReference) {
  const ModelConfig c = with_heads(
      {.query = 4, .kv = 2, .k = 22, .v = 77, .memory = 13, .sinks = 3, .window = 7, .far = 9});
  expect_chunks(make_random_model(c, {}, 32), {.cooperative_matrix = false}, kParityTolerance,
                {1, 18, 70, 20});
}

TEST_F(VulkanChunks, WideHeadsWithoutPositionalSlotsMatchTheReference) {
  const ModelConfig c = with_heads({.query = 2, .kv = 1, .k = 130, .v = 140, .memory = 33});
  expect_chunks(make_random_model(c, {}, 33), {.cooperative_matrix = false}, kParityTolerance,
                {66, 1, 129});
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

TEST_F(VulkanChunks, SinksWithoutAWindowAndAWindowWithoutSinks) {
  for (const bool sinks : {false, true}) {
    ModelConfig c = small_positional_config();
    c.layers.resize(1);
    set(c, &SlotSpec::num_sink_slots, sinks ? 16 : 0);
    set(c, &SlotSpec::num_window_slots, sinks ? 0 : 64);
    set(c, &SlotSpec::sink_distance, 20);
    expect_chunks(make_random_model(c, {}, 34), {.cooperative_matrix = false}, kParityTolerance,
                  {5, 90, 33});
  }
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

TEST_P(VulkanWeightTypes, DecodePlanMatchesTheReference) {
  expect_parity(model_of(GetParam()), kDecodePlan);
}

TEST_P(VulkanWeightTypes, LongRowsMatchTheReference) {
  ModelConfig c = small_config();
  c.layers.resize(1);
  c.hidden_size = 1280;  // lanes load whole blocks, the last step not all of them
  set(c, &LayerSpec::intermediate_size, 2304);
  expect_parity(make_random_model(c, {.linear = GetParam(), .table = BlockType::q8_0}, 18),
                kDecodePlan);
}

TEST_P(VulkanWeightTypes, PrefillPlanMatchesTheReference) {
  expect_parity(model_of(GetParam()), kPrefillPlan, {.cooperative_matrix = false});
}

std::string type_name(const testing::TestParamInfo<BlockType>& info) {
  return std::string(quant::block_traits(info.param)->name);
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
  expect_parity(model, kDecodePlan);
  expect_parity(model, kPrefillPlan, {.cooperative_matrix = false});
  expect_parity(model, kDecodePlan, {.subgroups = false});
}

TEST_F(VulkanParity, HeadsOfTheDefaultModelAreSplitOverWorkgroups) {
  const ModelConfig c = with_heads(
      {.query = 3, .kv = 1, .k = 64, .v = 64, .memory = 64, .sinks = 4, .window = 20, .far = 24});
  const RandomModel model = make_random_model(c, {.gate_bias = true, .read_biases = true}, 5);
  expect_parity(model, kDecodePlan);
  expect_parity(model, kPrefillPlan, {.cooperative_matrix = false});
}

TEST_F(VulkanParity, WideHeadsWithoutPositionalSlots) {
  const ModelConfig c = with_heads({.query = 1, .kv = 1, .k = 192, .v = 256, .memory = 33});
  expect_parity(make_random_model(c, {.linear = BlockType::q8_0}, 6), kDecodePlan);
}

TEST_F(VulkanParity, ConvolutionsAndT2rMapsMatchTheReference) {
  ModelConfig c = small_config();
  set(c, &LayerSpec::conv_size, 4);
  set(c, &MixerSpec::feature_map, FeatureMap::t2r);
  set(c, &SlotSpec::value_activation, Activation::relu);
  set(c, &LayerSpec::output_activation, Activation::identity);
  const RandomModel model =
      make_random_model(c, {.small = BlockType::bf16, .g_norm_weight = false}, 8);
  expect_parity(model, kDecodePlan);
  expect_parity(model, kPrefillPlan, {.subgroups = false, .cooperative_matrix = false});
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

TEST_F(VulkanParity, BiasesOfProjectionsMatchTheReference) {
  for (const BlockType type : {BlockType::f32, BlockType::q8_0}) {
    ModelConfig c = small_positional_config();
    set(c, &LayerSpec::qkv_bias, true);
    const RandomModel model = make_random_model(c, {.linear = type, .small = BlockType::f32}, 91);
    expect_parity(model, kDecodePlan);
    expect_parity(model, kPrefillPlan, {.cooperative_matrix = false});
  }
}

TEST_F(VulkanParity, LayerNormsAndOtherChannelMixesMatchTheReference) {
  for (const std::string& name : {std::string(), family_names().front()}) {
    SCOPED_TRACE(name);
    ModelConfig c = name.empty() ? small_positional_config() : family_config(name);
    c.repeat(c.layers.front(), 3);
    c.final_norm.kind = Norm::layer;
    for (LayerSpec& l : c.layers) l.norm.kind = l.channel_norm.kind = Norm::layer;
    c.layers[0].channel_mix = ChannelMix::squared_relu;
    c.layers[1].channel_mix = ChannelMix::none;
    c.layers[1].intermediate_size = 0;
    c.layers[2].norm.kind = Norm::rms;
    const RandomModel model = make_random_model(c, {}, 92);
    expect_parity(model, kDecodePlan);
    expect_parity(model, kPrefillPlan, {.cooperative_matrix = false});
  }
}

TEST_F(VulkanParity, EveryMemberOfTheFamilyMatchesTheReference) {
  for (const std::string& name : family_names()) {
    SCOPED_TRACE(name);
    const RandomModel model = make_random_model(family_config(name), {.gate_bias = true}, 94);
    expect_parity(model, kDecodePlan);
    expect_parity(model, kPrefillPlan, {.cooperative_matrix = false});
  }
}

/// Layers of several widths, slot counts and mixers in one model.
TEST_F(VulkanParity, LayersThatDifferMatchTheReference) {
  ModelConfig c = small_positional_config();
  const LayerSpec slots = c.layers.front();
  const LayerSpec recurrence = family_config(family_names().front()).layers.front();
  c.repeat(slots, 5);
  c.layers[1].slots().num_window_slots = 3;
  c.layers[1].slots().num_memory_slots = 21;
  c.layers[1].intermediate_size = 200;
  c.layers[2].num_heads = 6;
  c.layers[2].head_v_dim = 24;
  c.layers[2].slots().num_sink_slots = 0;
  c.layers[2].slots().num_window_slots = 0;
  c.layers[3] = recurrence;
  c.layers[3].index = 3;
  c.layers[4].num_kv_heads = 1;
  c.layers[4].intermediate_size = 40;
  const RandomModel model = make_random_model(c, {.gate_bias = true, .read_biases = true}, 93);
  expect_parity(model, kDecodePlan);
  expect_parity(model, kPrefillPlan, {.cooperative_matrix = false});
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

TEST_F(VulkanParity, StatesMoveBetweenBackends) {
  const RandomModel model = make_random_model(small_positional_config(), {}, 14);
  auto device = backend();
  auto reference = reference::make_backend();
  const LoadedModel there = load_on(*device, model, 16);
  const LoadedModel here = load_on(*reference, model, 16);
  Random random(15);
  const std::vector<TokenId> start = random.tokens(14, model.config.vocab_size);
  const std::vector<TokenId> more = random.tokens(6, model.config.vocab_size);
  auto a = here.state();
  here.run(*a, start);
  auto b = there.state();
  ASSERT_TRUE(b->import_from(here.canonical(*a), a->position()).has_value());
  EXPECT_EQ(there.canonical(*b), here.canonical(*a));
  const std::vector<float> expected = here.run(*a, more);
  EXPECT_LE(max_relative_error(there.run(*b, more), expected), kParityTolerance);
  auto back = here.state();
  ASSERT_TRUE(back->import_from(there.canonical(*b), b->position()).has_value());
  EXPECT_LE(max_relative_error(here.run(*back, more), here.run(*a, more)), kParityTolerance);
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
