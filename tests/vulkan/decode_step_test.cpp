// SPDX-License-Identifier: Apache-2.0
// A token in one dispatch against the reference: one workgroup that does all the work on the
// software driver, as many as the device runs at a time on a GPU.
#include <algorithm>

#include "runnel/generation.h"
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/model/forward.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/step_rows.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace runnel::test {
namespace {

using quant::BlockType;

constexpr double kStepTolerance = 2e-5;  // f32 sums in another order, the last bit of activations
// Inputs rounded to int8; ties round apart, layers amplify, and passes of several tokens do not round.
constexpr double kRoundedTolerance = 2e-2;
constexpr double kEvenTolerance = 5e-2;  // of a small model that amplifies them more

/// Blocks that the one-token programs have shaders for.
constexpr BlockType kBlockTypes[] = {BlockType::q4_0, BlockType::q4_1, BlockType::q5_0,
                                     BlockType::q8_0, BlockType::q4_k, BlockType::q5_k,
                                     BlockType::q6_k};

class VulkanDecodeStep : public VulkanTest {
 protected:
  /// @param rounded  whether products of integers may round their inputs
  void expect_parity(const RandomModel& model, std::uint32_t groups, bool rounded = false) {
    expect_parity(model,
                  {.integer_dot = rounded, .addresses = false, .tuning = {.step_groups = groups}},
                  "step");
  }

  /// The same on a device with `features`, by that row of the ladder.
  void expect_parity(const RandomModel& model, const vulkan::FeatureMask& features, const char* row,
                     double rounded_tolerance = kRoundedTolerance) {
    const bool rounded = features.integer_dot;
    const auto profile = std::make_shared<vulkan::DispatchProfile>();
    auto device = backend(features, {}, profile);
    auto reference = reference::make_backend(rounded ? reference::Activations::rounded
                                                     : reference::Activations::exact);
    const double tolerance = rounded ? rounded_tolerance : kStepTolerance;
    const LoadedModel actual = load_on(*device, model, 16, row);
    EXPECT_EQ(actual.model->step_program().name, row);
    const LoadedModel expected = load_on(*reference, model, 16);
    Random random(61);
    auto a = actual.state(), b = expected.state();
    // One token a pass, with a pass of several between, which takes the other way.
    for (const std::size_t n : {1, 1, 3, 1, 1, 1}) {
      const std::vector<TokenId> tokens = random.tokens(n, model.config.vocab_size);
      const std::vector<float> logits = actual.run(*a, tokens);
      EXPECT_LE(max_relative_error(logits, expected.run(*b, tokens)), tolerance)
          << "after " << a->position() << " tokens";
    }
    EXPECT_LE(max_relative_error(actual.canonical(*a), expected.canonical(*b)), tolerance);
    std::size_t steps = 0;
    for (const auto& [shader, entry] : profile->by_shader) {
      if (!shader.starts_with(shader_of(row))) continue;
      steps += entry.count;
      EXPECT_EQ(shader.find(".dot") != std::string::npos, rounded);
    }
    EXPECT_EQ(steps, 5U) << "passes of one token";
  }

  /// Why `row` does not take a model on such a device, or "".
  std::string refused(const RandomModel& model, const vulkan::FeatureMask& features,
                      const char* row) {
    const auto device = backend(features);
    const auto loaded = device->load({.config = model.config,
                                      .weights = *model.weights,
                                      .keep_alive = model.storage,
                                      .pass = forward_of(model.config, *model.weights),
                                      .step_program = row});
    return loaded ? "" : loaded.error().message;
  }

  static std::string shader_of(const std::string& row) {
    return row == "narrow" || row == "shift" ? row + "_step." : "decode_" + row + ".";
  }

  /// Widths that decode_even takes, where all matrices of a layer are of one type.
  static ModelConfig even_config(std::int32_t width) {
    ModelConfig c = small_positional_config();
    c.hidden_size = width;
    set(c, &LayerSpec::intermediate_size, width);
    set(c, &LayerSpec::num_heads, 4);
    set(c, &LayerSpec::num_kv_heads, 2);
    set(c, &LayerSpec::head_k_dim, 64);
    set(c, &LayerSpec::head_v_dim, 64);
    return c;
  }

  static RandomModel model_of(BlockType type, std::int32_t kv_heads = 4,
                              BlockType table = BlockType::f32, bool tied = true) {
    ModelConfig c = small_positional_config();
    c.hidden_size = 256;
    set(c, &LayerSpec::intermediate_size, 512);
    set(c, &LayerSpec::num_heads, 12);
    set(c, &LayerSpec::num_kv_heads, kv_heads);
    set(c, &LayerSpec::head_k_dim, 64);
    set(c, &LayerSpec::head_v_dim, 64);
    return make_random_model(c,
                             {.linear = type,
                              .table = table,
                              .small = BlockType::f16,
                              .tied = tied,
                              .gate_bias = true,
                              .read_biases = true},
                             62);
  }
};

TEST_F(VulkanDecodeStep, RowsThatDivideEvenlyMatchTheReference) {
  // The software driver takes seconds to make such a shader.
  const bool software = vulkan::find_devices().front().software;
  const std::vector<std::uint32_t> groups =
      software ? std::vector<std::uint32_t>{1} : std::vector<std::uint32_t>{1, 2, 16};
  for (const BlockType type : {BlockType::q4_k, BlockType::q5_0, BlockType::bf16, BlockType::q4_0,
                               BlockType::q4_1, BlockType::q5_k, BlockType::q8_0, BlockType::f16}) {
    if (software && type == BlockType::q4_0) break;
    SCOPED_TRACE(quant::format_of(type).name);
    const RandomModel model = make_random_model(
        even_config(256), {.linear = type, .small = type, .read_biases = true}, 65);
    const bool rounded = quant::is_block_type(type);
    for (const std::uint32_t n : groups) {
      expect_parity(model, {.integer_dot = rounded, .tuning = {.step_groups = n}}, "even",
                    kEvenTolerance);
    }
    if (type != BlockType::q4_k) continue;
    expect_parity(model, {.integer_dot = true, .addresses = false, .tuning = {.step_groups = 1}},
                  "step", kEvenTolerance);
  }
}

TEST_F(VulkanDecodeStep, RowsThatDivideEvenlyWithGatesOfAnotherTypeMatchTheReference) {
  const auto expect = [&](std::int32_t width, BlockType linear, BlockType gates,
                          const vulkan::Tuning& tuning) {
    SCOPED_TRACE(std::string(quant::format_of(linear).name) + ", gates " +
                 std::string(quant::format_of(gates).name));
    const RandomParts parts{
        .linear = linear, .small = gates, .gate_bias = true, .read_biases = true};
    expect_parity(make_random_model(even_config(width), parts, 68),
                  {.integer_dot = quant::is_block_type(linear), .tuning = tuning}, "even",
                  kEvenTolerance);
  };
  // The software driver's subgroups are small, so that some have two rows of the gates.
  expect(256, BlockType::q4_0, BlockType::f16, {.step_groups = 1});
  expect(256, BlockType::f16, BlockType::bf16, {.step_groups = 1});
  if (vulkan::find_devices().front().software) return;
  expect(256, BlockType::q4_k, BlockType::f16, {.step_groups = 2});
  // Lanes with two vectors of columns.
  expect(1024, BlockType::q4_0, BlockType::f16, {.step_groups = 16, .step_threads = 128});
}

TEST_F(VulkanDecodeStep, WideInputsOfWhichSomeSubgroupsHaveNoneMatchTheReference) {
  const bool software = vulkan::find_devices().front().software;
  for (const BlockType type : {BlockType::q8_0, BlockType::q4_0}) {
    if (software && type != BlockType::q8_0) break;
    SCOPED_TRACE(quant::format_of(type).name);
    ModelConfig c = even_config(128);
    set(c, &LayerSpec::num_heads, 12);
    set(c, &LayerSpec::num_kv_heads, 1);
    set(c, &LayerSpec::head_k_dim, 16);
    expect_parity(make_random_model(c, {.linear = type, .small = type}, 66),
                  {.tuning = {.step_groups = 1, .step_threads = 128}}, "even", kEvenTolerance);
  }
}

TEST_F(VulkanDecodeStep, EvenRowsWithBiasesAndASliceThatIsNotWholeMatchTheReference) {
  struct Rows {
    std::int32_t width;
    BlockType type, gates;
    std::uint32_t groups, threads = 128;
    std::int32_t inner = 1088;  // of slices of 128 or 512
    std::int32_t heads = 4;
  };
  const auto expect = [&](const Rows& of) {
    SCOPED_TRACE(std::string(quant::format_of(of.type).name) + ", width " +
                 std::to_string(of.width) + ", workgroups " + std::to_string(of.groups) + " of " +
                 std::to_string(of.threads));
    ModelConfig c = even_config(of.width);
    set(c, &LayerSpec::qkv_bias, true);
    set(c, &LayerSpec::intermediate_size, of.inner);
    set(c, &LayerSpec::num_heads, of.heads);
    set(c, &LayerSpec::num_kv_heads, of.heads % 2 == 0 ? 2 : 1);
    set(c, &MixerSpec::num_memory_slots, 16);
    const RandomParts parts{
        .linear = of.type, .small = of.gates, .gate_bias = true, .read_biases = true};
    expect_parity(make_random_model(c, parts, 81),
                  {.integer_dot = quant::is_block_type(of.type),
                   .tuning = {.step_groups = of.groups, .step_threads = of.threads}},
                  "even", kEvenTolerance);
  };
  // Subgroups of 8 lanes have slices of 32 or 128 columns here, of 32 lanes 128 or 512.
  expect({64, BlockType::q4_0, BlockType::f16, 1});
  expect({64, BlockType::q5_0, BlockType::q5_0, 1});  // f beside q, k and v; upper bits
  if (vulkan::find_devices().front().software) {
    // Two subgroups without columns, which are too few to show 192 rows.
    expect({192, BlockType::q4_0, BlockType::f16, 1, 256, 320, 3});
    return;
  }
  // There are four of 32 lanes: for no more rows than registers hold items of.
  for (const std::uint32_t groups : {2, 16}) {
    expect({64, BlockType::q4_0, BlockType::f16, groups});
    expect({64, BlockType::q8_0, BlockType::bf16, groups});
  }
  expect({192, BlockType::q4_0, BlockType::f16, 16});
  expect({192, BlockType::q8_0, BlockType::bf16, 16});
  // Two subgroups of eight without columns show the rows.
  expect({384, BlockType::q4_0, BlockType::f16, 16, 256});
  expect({384, BlockType::q8_0, BlockType::bf16, 16, 256});
}

TEST_F(VulkanDecodeStep, EightValueColumnsOfAQueryHeadMatchTheReference) {
  const bool software = vulkan::find_devices().front().software;
  struct Slots {
    std::int32_t sinks, window, memory;
  };
  struct Heads {
    std::int32_t heads, kv_heads, columns, width;  // of a head the value columns
  };
  const auto model_of_slots = [](const Slots& n, const Heads& h) {
    ModelConfig c = even_config(h.width);
    set(c, &LayerSpec::qkv_bias, true);
    set(c, &LayerSpec::num_heads, h.heads);
    set(c, &LayerSpec::num_kv_heads, h.kv_heads);
    set(c, &LayerSpec::head_v_dim, h.columns);
    set(c, &SlotSpec::num_sink_slots, n.sinks);
    set(c, &SlotSpec::num_window_slots, n.window);
    set(c, &SlotSpec::sink_distance, n.sinks + n.window);
    set(c, &MixerSpec::num_memory_slots, n.memory);
    return make_random_model(
        c,
        {.linear = BlockType::f16, .small = BlockType::f16, .gate_bias = true, .read_biases = true},
        82);
  };
  const auto expect = [&](const RandomModel& model, const vulkan::Tuning& tuning) {
    expect_parity(model, {.integer_dot = false, .tuning = tuning}, "even");
  };
  // More slots than are read at once; an odd number; rings that wrap around.
  const Slots many{4, 252, 128}, odd{4, 61, 64}, few{2, 3, 32};
  const Heads whole{8, 2, 8, 64}, alone{8, 8, 8, 64};  // in one workgroup
  expect(model_of_slots(many, whole), {.step_groups = 1});
  expect(model_of_slots(few, alone), {.step_groups = 1});
  if (software) return;
  // All workgroups have eight columns, or half of them.
  const Heads shared{4, 2, 64, 64};
  for (const Slots& n : {many, odd, few}) expect(model_of_slots(n, shared), {.step_groups = 32});
  for (const Slots& n : {many, odd}) expect(model_of_slots(n, shared), {.step_groups = 64});
  // Seven queries of a kv head, 112 of 128 workgroups.
  const RandomModel seven = model_of_slots(many, {14, 2, 64, 128});
  if (const std::string why = refused(seven, {.integer_dot = false}, "even"); !why.empty())
    GTEST_SKIP() << "only seven queries of a kv head: " << why;
  expect(seven, {});
}

TEST_F(VulkanDecodeStep, PositionalSlotsAndGroupedQueriesMatchTheReference) {
  expect_parity(model_of(BlockType::q4_0), 1);
}

TEST_F(VulkanDecodeStep, ProductsOfIntegersMatchTheReferenceThatRounds) {
  for (const BlockType type : kBlockTypes) {
    SCOPED_TRACE(quant::format_of(type).name);
    expect_parity(model_of(type), 1, true);
  }
}

TEST_F(VulkanDecodeStep, EachTypeOfBlocksMatchesTheReference) {
  for (const BlockType type : kBlockTypes) {
    SCOPED_TRACE(quant::format_of(type).name);
    expect_parity(model_of(type), 1);
  }
}

TEST_F(VulkanDecodeStep, WorkgroupsHandEachOtherActivations) {
  if (vulkan::find_devices().front().software)
    GTEST_SKIP() << "a software driver ends loops that wait";
  std::vector<BlockType> types(std::begin(kBlockTypes), std::end(kBlockTypes));
  types.insert(types.end(), {BlockType::f16, BlockType::bf16});
  for (const BlockType type : types) {
    SCOPED_TRACE(quant::format_of(type).name);
    for (const std::uint32_t groups : {0, 2, 7}) expect_parity(model_of(type), groups);
    expect_parity(model_of(type, 1), 0);
    if (quant::is_block_type(type)) expect_parity(model_of(type), 0, true);
  }
}

TEST_F(VulkanDecodeStep, ShiftedProjectionsMatchTheReference) {
  const bool software = vulkan::find_devices().front().software;
  // As many workgroups as the device runs at a time, and fewer; than there are matrices, as many as these.
  const auto groups_of = [software](BlockType type) -> std::vector<std::uint32_t> {
    if (software) return {1};
    return type == BlockType::q4_0 ? std::vector<std::uint32_t>{0, 1, 2, 7, 40}
                                   : std::vector<std::uint32_t>{0, 40};
  };
  std::vector<BlockType> types(std::begin(kBlockTypes), std::end(kBlockTypes));
  types.insert(types.end(), {BlockType::f16, BlockType::bf16});
  // The software driver takes seconds to make such a shader; those that the ladder's rows have none of.
  if (software) types = {BlockType::q8_0, BlockType::q5_k, BlockType::q6_k, BlockType::f16};
  for (const BlockType type : types) {
    SCOPED_TRACE(quant::format_of(type).name);
    const bool rounded = quant::is_block_type(type);
    const RandomModel model =
        make_random_model(shifted_config(256, 768, 2),
                          {.linear = type, .table = BlockType::q8_0, .small = BlockType::f16}, 69);
    for (const std::uint32_t n : groups_of(type)) {
      SCOPED_TRACE(n);
      expect_parity(model, {.integer_dot = rounded, .tuning = {.step_groups = n}}, "shift",
                    kEvenTolerance);
    }
  }
}

TEST_F(VulkanDecodeStep, ShiftedProjectionsOfThreadsWithTwoVectorsMatchTheReference) {
  if (vulkan::find_devices().front().software)
    GTEST_SKIP() << "one workgroup with all rows has no room for them";
  const RandomModel model = make_random_model(
      shifted_config(1280, 320, 2),
      {.linear = BlockType::q8_0, .table = BlockType::q8_0, .small = BlockType::bf16}, 70);
  expect_parity(model, {.tuning = {.step_threads = 256}}, "shift", kEvenTolerance);
}

TEST_F(VulkanDecodeStep, MixersOfNarrowModelsMatchTheReference) {
  const auto expect = [&](const RandomModel& model, std::uint32_t groups) {
    expect_parity(model, {.tuning = {.step_groups = groups}}, "narrow");
  };
  // Rows of whole teams and with a rest, three queries of a kv head and one, gates of both types.
  for (const BlockType gates : {BlockType::f16, BlockType::bf16}) {
    SCOPED_TRACE(quant::format_of(gates).name);
    ModelConfig c = gates == BlockType::f16 ? narrow_config(320, 2) : narrow_config(256, 6);
    const RandomParts parts{
        .linear = BlockType::q4_0, .small = gates, .gate_bias = true, .read_biases = true};
    expect(make_random_model(c, parts, 75), 1);
    if (vulkan::find_devices().front().software) continue;
    expect(make_random_model(c, parts, 75), 13);
    set(c, &SlotSpec::num_sink_slots, 4);
    set(c, &SlotSpec::num_window_slots, 60);
    set(c, &MixerSpec::num_memory_slots, 64);
    expect(make_random_model(c, parts, 76), 0);
  }
}

TEST_F(VulkanDecodeStep, BitsOfATokenDoNotDependOnThoseBefore) {
  const auto expect = [&](const RandomModel& model, const char* row) {
    SCOPED_TRACE(row);
    auto device = backend({.tuning = {.step_groups = 1}});
    const LoadedModel loaded = load_on(*device, model, 16, row);
    // An odd number of passes: exchanged values are marked as of the other kind the second time.
    const std::vector<TokenId> tokens = Random(67).tokens(3, model.config.vocab_size);
    const auto run = [&] {
      auto state = loaded.state();
      std::vector<float> logits;
      for (const TokenId token : tokens) logits = loaded.run(*state, std::span(&token, 1));
      return std::pair(logits, loaded.canonical(*state));
    };
    EXPECT_EQ(run(), run());
  };
  expect(model_of(BlockType::q4_0), "step");
  expect(make_random_model(even_config(256), {.linear = BlockType::q4_k, .small = BlockType::q4_k},
                           65),
         "even");
  expect(make_random_model(narrow_config(256, 6),
                           {.linear = BlockType::q4_0, .small = BlockType::bf16}, 75),
         "narrow");
  expect(make_random_model(shifted_config(256, 768, 2),
                           {.linear = BlockType::q4_0, .small = BlockType::bf16}, 76),
         "shift");
}

TEST_F(VulkanDecodeStep, HeadsOfEachTypeMatchTheReference) {
  std::vector<BlockType> types(std::begin(kBlockTypes), std::end(kBlockTypes));
  types.insert(types.end(), {BlockType::f16, BlockType::bf16});
  for (const BlockType type : types) {
    SCOPED_TRACE(quant::format_of(type).name);
    expect_parity(model_of(BlockType::q4_0, 4, type), 1, true);
  }
}

TEST_F(VulkanDecodeStep, TheHeadDrawsTheLikeliestTokenAndEmbedsIt) {
  const auto expect = [&](const RandomModel& model) {
    auto device = backend({.tuning = {.step_groups = 1}});
    const LoadedModel loaded = load_on(*device, model, 16);
    auto plain = loaded.state(), drawn = loaded.state(), other = loaded.state();
    std::vector<TokenId> expected = {5};
    std::vector<float> logits;
    for (int i = 0; i < 8; ++i) {
      logits = loaded.run(*plain, std::span(expected).last(1));
      const auto best = std::max_element(logits.begin(), logits.end());
      expected.push_back(static_cast<TokenId>(best - logits.begin()));
    }
    auto steps = loaded.plan->sampled_steps(*drawn, std::span(expected).first(1), {});
    ASSERT_TRUE(steps && *steps != nullptr && (*steps)->queue());
    for (std::size_t i = 1; i < expected.size(); ++i) {
      if (i == 3) loaded.run(*other, std::span(expected).first(1));  // on the same buffers
      ASSERT_TRUE(i + 1 == expected.size() || (*steps)->queue());
      const auto token = (*steps)->drawn();
      ASSERT_TRUE(token) << token.error().message;
      EXPECT_EQ(*token, expected[i]) << "token " << i;
    }
    std::vector<float> last(logits.size());
    ASSERT_TRUE((*steps)->logits(last));
    EXPECT_LE(max_relative_error(last, logits), kRoundedTolerance);
  };
  std::vector<BlockType> types(std::begin(kBlockTypes), std::end(kBlockTypes));
  types.push_back(BlockType::bf16);
  for (const BlockType type : types) {
    for (const bool tied : {true, false}) {
      SCOPED_TRACE(quant::format_of(type).name);
      expect(model_of(BlockType::q4_0, 4, type, tied));
    }
  }
  // A norm behind the embedding, and LayerNorms.
  SCOPED_TRACE("shifted projections");
  expect(make_random_model(
      shifted_config(256, 768, 2),
      {.linear = BlockType::q4_0, .table = BlockType::q8_0, .small = BlockType::f16}, 77));
}

TEST_F(VulkanDecodeStep, WideHeadsAndOneMatrixOfProjectionsMatchTheReference) {
  ModelConfig c = small_config();
  c.layers.resize(2);
  c.hidden_size = 96;
  set(c, &LayerSpec::intermediate_size, 160);
  set(c, &LayerSpec::num_heads, 2);
  set(c, &LayerSpec::num_kv_heads, 2);
  set(c, &LayerSpec::head_k_dim, 132);
  set(c, &LayerSpec::head_v_dim, 128);
  set(c, &MixerSpec::num_memory_slots, 33);
  set(c, &LayerSpec::output_activation, Activation::swish);
  expect_parity(make_random_model(c, {.linear = BlockType::bf16, .small = BlockType::bf16}, 63), 1);
}

TEST_F(VulkanDecodeStep, MoreSlotsAndRowsThanAreHeldAtOnceMatchTheReference) {
  ModelConfig c = small_config();
  c.layers.resize(2);
  c.hidden_size = 256;
  set(c, &LayerSpec::intermediate_size, 2048);
  set(c, &LayerSpec::num_heads, 2);
  set(c, &LayerSpec::num_kv_heads, 1);
  set(c, &LayerSpec::head_k_dim, 256);
  set(c, &LayerSpec::head_v_dim, 64);
  set(c, &MixerSpec::num_memory_slots, 130);
  expect_parity(make_random_model(c, {.linear = BlockType::bf16, .small = BlockType::bf16}, 64), 1);
}

TEST_F(VulkanDecodeStep, BiasesAndSevenQueriesOfAKvHeadMatchTheReference) {
  ModelConfig c = small_positional_config();
  c.hidden_size = 128;
  set(c, &LayerSpec::intermediate_size, 160);
  set(c, &LayerSpec::num_heads, 14);
  set(c, &LayerSpec::num_kv_heads, 2);
  set(c, &LayerSpec::head_k_dim, 64);
  set(c, &LayerSpec::head_v_dim, 64);
  set(c, &LayerSpec::qkv_bias, true);
  set(c, &SlotSpec::num_sink_slots, 4);
  set(c, &SlotSpec::num_window_slots, 252);
  set(c, &SlotSpec::sink_distance, 256);
  set(c, &MixerSpec::num_memory_slots, 128);
  for (const BlockType gates : {BlockType::f16, BlockType::bf16}) {
    const RandomModel model = make_random_model(
        c, {.linear = BlockType::q4_0, .table = BlockType::q4_0, .small = gates, .gate_bias = true},
        78);
    for (const bool rounded : {false, true}) expect_parity(model, 1, rounded);
    if (vulkan::find_devices().front().software) break;
    for (const bool rounded : {false, true}) expect_parity(model, 0, rounded);
  }
  // The biases' place in the table is not that of the upper bits.
  expect_parity(make_random_model(c, {.linear = BlockType::q5_0, .small = BlockType::f16}, 80), 1,
                true);
  c.hidden_size = 256;
  set(c, &LayerSpec::intermediate_size, 256);
  set(c, &LayerSpec::num_heads, 4);
  expect_parity(make_random_model(c, {.linear = BlockType::q5_k, .small = BlockType::f16}, 83), 1,
                true);
}

TEST_F(VulkanDecodeStep, ProgramsAreAskedForByName) {
  auto device = backend({.tuning = {.step_groups = 1}});
  const RandomModel taken = model_of(BlockType::q4_0);
  const RandomModel refused = make_random_model(small_config(), {}, 79);
  const auto load = [&](const RandomModel& model, const char* row) {
    return device->load({.config = model.config,
                         .weights = *model.weights,
                         .keep_alive = model.storage,
                         .pass = forward_of(model.config, *model.weights),
                         .step_program = row});
  };
  for (const char* row : {"step", "ops"}) {
    const auto loaded = load(taken, row);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ((*loaded)->step_program().name, row);
  }
  EXPECT_EQ(load(taken, "cluster").error().code, ErrorCode::not_found);
  const auto forced = load(refused, "step");
  ASSERT_FALSE(forced);
  EXPECT_EQ(forced.error().code, ErrorCode::unsupported);
  EXPECT_NE(forced.error().message.find("weights of f32"), std::string::npos)
      << forced.error().message;
  const auto any = load(refused, "");
  ASSERT_TRUE(any);
  EXPECT_EQ((*any)->step_program().name, "ops");
  EXPECT_EQ((*any)->step_program().refused.size(), 4U);
}

TEST_F(VulkanDecodeStep, PlansOfOtherOpsDoNotTakeTheProgram) {
  const auto profile = std::make_shared<vulkan::DispatchProfile>();
  auto device = backend({.tuning = {.step_groups = 1}}, {}, profile);
  LoadedModel loaded = load_on(*device, model_of(BlockType::q4_0), 16, "step");
  const Weights& weights = *loaded.source.weights;
  auto plan = loaded.model->record(16, [&](Ops& ops) -> Status {
    if (Status s = ops.embed(weights.embeddings); !s) return s;
    return ops.logits(loaded.source.config.final_norm, weights.final_norm, weights.head);
  });
  ASSERT_TRUE(plan) << plan.error().message;
  loaded.plan = std::move(*plan);
  auto state = loaded.state();
  loaded.run(*state, std::vector<TokenId>{3});
  for (const auto& [shader, entry] : profile->by_shader)
    EXPECT_FALSE(shader.starts_with("decode_")) << shader;
}

TEST_F(VulkanDecodeStep, WhoWaitsInVainReportsIt) {
  if (!vulkan::find_devices().front().software) GTEST_SKIP() << "the device runs all of them";
  // The second makes its logits, too, in the dispatch that times out.
  const RandomParts parts{
      .linear = BlockType::q4_0, .table = BlockType::q8_0, .small = BlockType::f16, .tied = true};
  for (const RandomModel& model :
       {model_of(BlockType::q4_0), make_random_model(narrow_config(256, 6), parts, 75),
        make_random_model(shifted_config(256, 768, 2), parts, 76)}) {
    // More workgroups than a software driver has threads: the last begin when the first are over.
    auto device = backend({.tuning = {.step_groups = 64, .step_poll_limit = 2000}});
    const LoadedModel loaded = load_on(*device, model, 16);
    auto state = loaded.state();
    const std::vector<TokenId> token = {3};
    std::vector<float> logits(static_cast<std::size_t>(loaded.source.config.vocab_size));
    const PlanItem item{
        .state = state.get(), .tokens = token, .wanted = LogitsWanted::last, .logits = logits};
    const Status ran = loaded.plan->run(std::span(&item, 1), {});
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, ErrorCode::device);
    auto steps = loaded.plan->sampled_steps(*state, token, {});
    ASSERT_TRUE(steps && *steps != nullptr && (*steps)->queue());
    const auto drawn = (*steps)->drawn();
    ASSERT_FALSE(drawn);
    EXPECT_EQ(drawn.error().code, ErrorCode::device);
  }
}

}  // namespace
}  // namespace runnel::test
