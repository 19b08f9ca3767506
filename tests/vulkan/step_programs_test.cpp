// SPDX-License-Identifier: Apache-2.0
// Which program computes one token, and why not another: for invented devices, without a driver.
#include <gtest/gtest.h>

#include <string>

#include "runtime/backend/vulkan/step/programs.h"
#include "runtime/backend/vulkan/step/step_shape.h"
#include "runtime/base/integers.h"
#include "runtime/model/forward.h"
#include "tests/support/step_rows.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

WeightView view(BlockType type, std::int64_t rows, std::int64_t cols) {
  return {.name = {}, .type = type, .rows = rows, .cols = cols, .data = {}};
}

/// A model of views without bytes behind them.
struct Shape {
  ModelConfig config;
  BlockType linear = BlockType::q4_0, gates = BlockType::f16, table = BlockType::q8_0;
  Weights weights = {};

  StepModel recorded() {
    const std::int64_t d = config.hidden_size;
    weights.layers.clear();
    weights.embeddings = weights.head = view(table, config.vocab_size, d);
    for (const LayerSpec& l : config.layers) {
      SlotWeights mixer;
      mixer.q_proj = view(linear, l.q_channels(), d);
      mixer.k_proj = view(linear, l.k_channels(), d);
      mixer.v_proj = view(linear, l.v_channels(), d);
      mixer.f_proj = view(gates, l.gate_channels(), d);
      LayerWeights& w = weights.layers.emplace_back();
      w.mixer = mixer;
      w.output.o_proj = view(linear, d, l.o_channels());
      w.channel_mix.gate_proj = w.channel_mix.up_proj = view(linear, l.intermediate_size, d);
      w.channel_mix.down_proj = view(linear, d, l.intermediate_size);
    }
    return record_step_model(forward_of(config, weights));
  }
};

/// The same of shifted projections.
struct ShiftedShape {
  ModelConfig config;
  BlockType linear = BlockType::q4_0, low = BlockType::f16, table = BlockType::q8_0;
  Weights weights = {};

  StepModel recorded() {
    const std::int64_t d = config.hidden_size;
    weights.layers.clear();
    weights.embeddings = weights.head = view(table, config.vocab_size, d);
    for (const LayerSpec& l : config.layers) {
      const RecurrenceSpec& r = l.recurrence();
      RecurrenceWeights mixer;
      mixer.q_proj = mixer.k_proj = mixer.v_proj = view(linear, d, d);
      mixer.f_down = view(low, r.gate_rank, d), mixer.f_proj = view(low, d, r.gate_rank);
      mixer.r_down = view(low, r.rate_rank, d), mixer.r_proj = view(low, d, r.rate_rank);
      mixer.out_gate_down = view(low, r.output_gate_rank, d);
      mixer.out_gate = view(low, d, r.output_gate_rank);
      if (r.value_rank > 0)
        mixer.v_down = view(low, r.value_rank, d), mixer.v_mix = view(low, d, r.value_rank);
      LayerWeights& w = weights.layers.emplace_back();
      w.mixer = mixer;
      w.output.g_norm = w.output.g_norm_bias = view(BlockType::f32, 1, d);
      w.output.o_proj = view(linear, d, d);
      w.channel_mix.up_proj = view(linear, l.intermediate_size, d);
      w.channel_mix.down_proj = view(linear, d, l.intermediate_size);
    }
    return record_step_model(forward_of(config, weights));
  }
};

/// RWKV-7 1.5B.
ShiftedShape model_rwkv7() {
  ShiftedShape m{.config = test::shifted_config(2048, 8192, 24)};
  m.config.vocab_size = 65536;
  for (LayerSpec& l : m.config.layers) {
    RecurrenceSpec& r = l.recurrence();
    r.gate_rank = r.rate_rank = 96, r.output_gate_rank = 256;
    r.value_rank = l.index == 0 ? 0 : 64;
  }
  return m;
}

LayerSpec slot_layer(std::int32_t heads, std::int32_t kv_heads, std::int32_t dim,
                     const SlotSpec& slots) {
  LayerSpec l;
  l.num_heads = heads;
  l.num_kv_heads = kv_heads;
  l.head_k_dim = l.head_v_dim = dim;
  l.mixer = slots;
  return l;
}

/// Identity maps, as the models with positional slots have.
SlotSpec positional(std::int32_t sinks, std::int32_t window, std::int32_t memory) {
  SlotSpec s;
  s.num_sink_slots = sinks;
  s.num_window_slots = window;
  s.num_memory_slots = memory;
  s.sink_distance = sinks + window;
  s.feature_map = FeatureMap::identity;
  s.value_activation = Activation::identity;
  return s;
}

Shape default_model() {
  Shape m;
  m.config.vocab_size = 49152;
  m.config.hidden_size = 576;
  LayerSpec l = slot_layer(9, 3, 64, positional(4, 60, 64));
  l.intermediate_size = 1536;
  l.output_activation = Activation::identity;
  l.output_norm = OutputNorm::none;
  m.config.repeat(l, 30);
  return m;
}

Shape model_1380m(BlockType type) {
  Shape m{.config = {}, .linear = type, .gates = type, .table = type};
  m.config.vocab_size = 32000;
  m.config.hidden_size = 2048;
  SlotSpec slots;
  slots.num_memory_slots = 64;
  LayerSpec l = slot_layer(4, 4, 512, slots);
  l.intermediate_size = 5632;
  m.config.repeat(l, 24);
  return m;
}

/// 0.5B: biases, seven queries of a kv head, 384 slots.
Shape model_500m() {
  Shape m{
      .config = {}, .linear = BlockType::q4_0, .gates = BlockType::f16, .table = BlockType::q4_0};
  m.config.vocab_size = 65536;
  m.config.hidden_size = 896;
  LayerSpec l = slot_layer(14, 2, 64, positional(4, 252, 128));
  l.qkv_bias = true;
  l.intermediate_size = 4864;
  l.output_activation = Activation::identity;
  l.output_norm = OutputNorm::none;
  m.config.repeat(l, 24);
  return m;
}

StepDevice data_centre_gpu() {
  return {.subgroup = 32,
          .group_threads = 1024,
          .group_subgroups = 32,
          .resident_groups = 132,
          .shared_bytes = 48 << 10,
          .storage_range = 0xFFFFFFFF,
          .allocation_bytes = 0xFFE00000,
          .storage_alignment = 16,
          .integer_dot = true,
          .addresses = true};
}

/// Whose driver promises nothing of workgroups; `groups`: if one did.
StepDevice integrated_gpu(std::uint32_t subgroup, std::uint32_t groups) {
  StepDevice d = data_centre_gpu();
  d.subgroup = subgroup;
  d.resident_groups = groups;
  d.shared_bytes = 32 << 10;
  d.storage_range = 128U << 20;
  d.allocation_bytes = 4ULL << 30;
  return d;
}

StepDevice software_driver() {
  StepDevice d = data_centre_gpu();
  d.subgroup = 8;
  d.resident_groups = 1;
  d.shared_bytes = 32 << 10;
  d.storage_range = 128U << 20;
  d.software = true;
  return d;
}

/// "row; row above: why not; …"
template <class Model>
std::string chosen(Model model, const StepDevice& device) {
  const auto choice = choose_step(model.recorded(), device, "test");
  if (!choice) return choice.error().message;
  std::string text = choice->row->name;
  for (const StepProgram::Refused& r : choice->refused) text += "; " + r.name + ": " + r.reason;
  return text;
}

/// The same reason for every row but the last.
std::string ops_because(const std::string& why) {
  return "ops; narrow: " + why + "; even: " + why + "; step: " + why +
         "; shift: a pass without shifted projections throughout";
}

/// For a model of shifted projections: what the row that is for them says.
std::string shift_refuses(const std::string& why) {
  const std::string other = "a norm behind the embedding";
  return "ops; narrow: " + other + "; even: " + other + "; step: " + other + "; shift: " + why;
}

Shape without_biases(Shape m) {
  for (LayerSpec& l : m.config.layers) l.qkv_bias = false;
  return m;
}

TEST(VulkanStepPrograms, TheDataCentreGpuTakesTheBestThatFits) {
  const StepDevice d = data_centre_gpu();
  EXPECT_EQ(chosen(default_model(), d), "narrow");
  EXPECT_EQ(chosen(model_1380m(BlockType::q4_0), d),
            "even; narrow: gates of the same type as the rest, expected f16 or bf16");
  EXPECT_EQ(chosen(model_1380m(BlockType::bf16), d),
            "even; narrow: weights of another type than q4_0");
  EXPECT_EQ(
      chosen(model_1380m(BlockType::f32), d),
      ops_because("weights of f32, expected q4_0, q4_1, q5_0, q8_0, q4_k, q5_k, q6_k or 16 bits"));
  EXPECT_EQ(chosen(model_500m(), d), "even; narrow: biases on q, k and v");
  EXPECT_EQ(chosen(without_biases(model_500m()), d),
            "even; narrow: 128 memory slots, expected at most 64");
}

TEST(VulkanStepPrograms, WorkSplitsOfTheDataCentreGpu) {
  Shape narrow = default_model(), wide = model_1380m(BlockType::q4_0);
  const StepDevice d = data_centre_gpu();
  const NarrowShape shape = NarrowShape::of(narrow.recorded(), d);
  EXPECT_EQ(shape.groups, 132U);
  EXPECT_EQ(shape.threads, 512U);
  EXPECT_EQ(shape.mixers, 3U);
  EXPECT_GT(shape.head_team, 0U) << "the head is inside";
  EXPECT_EQ(StepShape::of(wide.recorded(), d).groups, 132U);
  EXPECT_EQ(StepShape::even(wide.recorded(), d).groups, 128U);
  EXPECT_EQ(StepShape::of(wide.recorded(), d).teams, 5U << 24 | 3U << 16 | 4U << 8 | 3U)
      << "lanes: 8, 16, 8, 32";
}

TEST(VulkanStepPrograms, SlicesOfColumnsMayLackSomeAtTheEnd) {
  const StepDevice d = data_centre_gpu();
  Shape m = model_500m();
  const StepShape shape = StepShape::even(m.recorded(), d);
  EXPECT_EQ(shape.why_not, "");
  EXPECT_EQ(shape.groups, 128U);
  EXPECT_TRUE(shape.biases);
  // Two items of a row in a lane: all of them or none.
  m.linear = m.gates = m.table = BlockType::bf16;
  EXPECT_EQ(StepShape::even(m.recorded(), d).why_not,
            "4864 columns, which 16 subgroups cannot share evenly");
}

TEST(VulkanStepPrograms, QueryHeadsHaveAsManyWorkgroupsAsThereAre) {
  Shape grouped = model_500m(), alone = model_1380m(BlockType::q4_0);
  const auto expect = [](const StepShape& s, std::uint32_t parts, std::uint32_t queries,
                         std::uint32_t columns) {
    EXPECT_EQ(s.parts, parts);
    EXPECT_EQ(s.queries, queries);
    EXPECT_EQ(s.columns, columns);
  };
  StepDevice d = data_centre_gpu();
  const StepModel m = grouped.recorded();
  expect(StepShape::even(m, d), 56, 1, 8);
  expect(StepShape::of(m, d), 28, 1, 16);
  d.tuned_parts = 4;
  expect(StepShape::even(m, d), 28, 1, 16);
  d.tuned_parts = 0;
  // One query of a kv head: as in `step`.
  expect(StepShape::even(alone.recorded(), d), 8, 1, 64);
  expect(StepShape::of(alone.recorded(), d), 8, 1, 64);
  // Fewer workgroups: two of a query head; fewer than query heads: all queries in one.
  d.resident_groups = 32;
  expect(StepShape::even(m, d), 14, 1, 32);
  d.resident_groups = 8;
  expect(StepShape::even(m, d), 4, 7, 16);
}

TEST(VulkanStepPrograms, ShiftedProjectionsTakeTheirOwn) {
  const StepDevice d = data_centre_gpu();
  const std::string other = "a norm behind the embedding";
  EXPECT_EQ(chosen(model_rwkv7(), d),
            "shift; narrow: " + other + "; even: " + other + "; step: " + other);
  for (const BlockType type : {BlockType::q8_0, BlockType::q4_k, BlockType::bf16}) {
    ShiftedShape m = model_rwkv7();
    m.linear = type;
    EXPECT_TRUE(chosen(m, d).starts_with("shift; ")) << quant::format_of(type).name;
  }
  for (const BlockType type : {BlockType::bf16, BlockType::f32}) {
    ShiftedShape m = model_rwkv7();
    m.low = type;
    EXPECT_TRUE(chosen(m, d).starts_with("shift; ")) << quant::format_of(type).name;
  }
}

TEST(VulkanStepPrograms, WorkgroupsOfShiftedProjectionsHaveOneMatrixEach) {
  ShiftedShape m = model_rwkv7();
  const ShiftShape shape = ShiftShape::of(m.recorded(), data_centre_gpu());
  EXPECT_EQ(shape.groups, 132U);
  EXPECT_EQ(shape.teams, 5U << 24 | 3U << 16 | 3U << 8 | 3U) << "lanes: 8, 8, 8, 32";
  EXPECT_EQ(shape.held, 8U);
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < kShiftOutput; ++i) {
    EXPECT_EQ(shape.shares[i].first, next) << i;
    next += shape.shares[i].groups;
    const std::uint32_t rows = divide_up(shape.shares[i].rows, shape.shares[i].groups);
    EXPECT_LE(rows, i < kShiftDown ? 64U : 16U) << "one pass of matrix " << i;
  }
  EXPECT_LE(next, 132U);
  EXPECT_EQ(shape.shares[kShiftOutput].first, 32U) << "those without a head";
  EXPECT_EQ(shape.shares[kShiftOutput].groups, 100U);
  EXPECT_EQ(shape.ahead, 1U);
  // With few workgroups each has rows of all.
  StepDevice few = data_centre_gpu();
  few.resident_groups = 2;
  const ShiftShape shared = ShiftShape::of(m.recorded(), few);
  for (const ShiftShape::Share& share : shared.shares) {
    EXPECT_EQ(share.first, 0U);
    EXPECT_EQ(share.groups, 2U);
  }
  EXPECT_EQ(shared.ahead, 0U) << "all have a head";
}

TEST(VulkanStepPrograms, ShiftedProjectionsOfOtherFormsTakeOps) {
  StepDevice d = data_centre_gpu();
  ShiftedShape m = model_rwkv7();
  m.low = BlockType::q8_0;
  EXPECT_EQ(chosen(m, d), shift_refuses("matrices of low rank of q8_0, expected 16 or 32 bits"));
  m = model_rwkv7();
  m.linear = BlockType::f32;
  EXPECT_EQ(chosen(m, d), shift_refuses("weights of f32, expected q4_0, q4_1, q5_0, q8_0, q4_k, "
                                        "q5_k, q6_k or 16 bits"));
  m = model_rwkv7();
  for (LayerSpec& l : m.config.layers) l.recurrence().rate_rank = 12;
  EXPECT_EQ(chosen(m, d), shift_refuses("a rank of 12, expected multiples of 8"));
  m = model_rwkv7();
  m.config.layers[3].output_norm_eps *= 2.0F;
  EXPECT_EQ(chosen(m, d), shift_refuses("layers of different constants"));
  m = model_rwkv7();
  for (LayerSpec& l : m.config.layers) l.gate_activation = Activation::swish;
  EXPECT_EQ(chosen(m, d), shift_refuses("an activation of the output gate"));
  m = model_rwkv7();
  for (LayerSpec& l : m.config.layers) {
    l.num_heads = l.num_kv_heads = 64;
    l.head_k_dim = l.head_v_dim = 32;
  }
  EXPECT_EQ(chosen(m, d),
            shift_refuses("64 heads of 32 and 32, expected heads of 64 that make up the channels"));
}

TEST(VulkanStepPrograms, ShiftedProjectionsOnOtherDevicesTakeOps) {
  const ShiftedShape m = model_rwkv7();
  StepDevice d = integrated_gpu(32, 0);
  EXPECT_EQ(chosen(m, d), shift_refuses("a device that promises no workgroups at the same time"));
  d = data_centre_gpu();
  d.addresses = false;
  EXPECT_EQ(chosen(m, d), shift_refuses("a device without addresses of buffers"));
  d = data_centre_gpu();
  d.integer_dot = false;
  EXPECT_EQ(chosen(m, d), shift_refuses("a device without products of four bytes"));
  d = data_centre_gpu();
  d.subgroup = 4;
  EXPECT_EQ(chosen(m, d), shift_refuses("subgroups of 4, expected 8 to 32"));
  d = data_centre_gpu();
  d.shared_bytes = 8 << 10;
  EXPECT_NE(chosen(m, d).find("bytes of shared memory, expected at most 8192"), std::string::npos);
  d = data_centre_gpu();
  d.storage_range = 512U << 20;
  EXPECT_NE(chosen(m, d).find("expected one binding of at most 536870912"), std::string::npos);
}

TEST(VulkanStepPrograms, AnIntegratedGpuPromisesNothing) {
  const std::string why = "a device that promises no workgroups at the same time";
  for (const std::uint32_t subgroup : {16U, 32U}) {
    const StepDevice d = integrated_gpu(subgroup, 0);
    EXPECT_EQ(chosen(default_model(), d), ops_because(why));
    EXPECT_EQ(chosen(model_1380m(BlockType::q4_0), d), ops_because(why));
    EXPECT_EQ(chosen(model_500m(), d), ops_because(why));
  }
}

TEST(VulkanStepPrograms, AnIntegratedGpuThatPromisedWorkgroups) {
  EXPECT_EQ(chosen(default_model(), integrated_gpu(16, 16)),
            "even; narrow: 16 workgroups, expected at least 18");
  EXPECT_EQ(chosen(default_model(), integrated_gpu(32, 16)),
            "even; narrow: 16 workgroups, expected at least 18");
  EXPECT_EQ(chosen(model_1380m(BlockType::q4_0), integrated_gpu(32, 16)),
            ops_because("weights of 737624320 bytes, expected one binding of at most 134217728"));
}

TEST(VulkanStepPrograms, TheSoftwareDriverHasSmallWorkgroups) {
  EXPECT_EQ(chosen(default_model(), software_driver()),
            "step; narrow: a width of 576 on workgroups of 256; even: a width of 576, expected at "
            "most 256");
}

TEST(VulkanStepPrograms, HeadsAreOfAPowerOfTwo) {
  Shape m = default_model();
  for (LayerSpec& l : m.config.layers) {
    l.num_heads = 8;
    l.num_kv_heads = 4;
    l.head_k_dim = l.head_v_dim = 80;
  }
  EXPECT_EQ(chosen(m, data_centre_gpu()), ops_because("heads of 80, expected a power of two"));
}

TEST(VulkanStepPrograms, SharedMemoryBoundsTheWidths) {
  StepDevice d = data_centre_gpu();
  d.shared_bytes = 8 << 10;
  Shape m = default_model();
  const StepShape shape = StepShape::of(m.recorded(), d);
  EXPECT_NE(shape.why_not.find("bytes of shared memory, expected at most 8192"), std::string::npos)
      << shape.why_not;
}

TEST(VulkanStepPrograms, OtherFormsSayWhatTheyAre) {
  const StepDevice d = data_centre_gpu();
  Shape m = default_model();
  m.config.layers[3].intermediate_size = 1024;
  EXPECT_EQ(chosen(m, d), ops_because("layer 3 is not like layer 0"));
  m = default_model();
  for (LayerSpec& l : m.config.layers) l.norm.kind = Norm::layer;
  EXPECT_EQ(chosen(m, d), ops_because("a LayerNorm"));
  EXPECT_EQ(choose_step(record_step_model({}), d, "test")->row->name, std::string("ops"));
}

TEST(VulkanStepPrograms, RowsCanBeAskedForByName) {
  const StepDevice d = data_centre_gpu();
  Shape m = default_model(), other = model_500m();
  for (LayerSpec& l : other.config.layers) l.intermediate_size = 8960;
  for (const char* name : {"narrow", "step", "ops"}) {
    const auto choice = choose_step(m.recorded(), d, "test", name);
    ASSERT_TRUE(choice) << choice.error().message;
    EXPECT_EQ(choice->row->name, std::string(name));
    EXPECT_TRUE(choice->refused.empty());
  }
  const auto unknown = choose_step(m.recorded(), d, "test", "cluster");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::not_found);
  EXPECT_EQ(unknown.error().message,
            "test: step program \"cluster\": not found, expected narrow, even, step, shift, ops");
  const auto refused = choose_step(other.recorded(), d, "test", "even");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_EQ(refused.error().message,
            "test: step program \"even\" does not take the model: 8960 columns, which 16 subgroups "
            "cannot share evenly");
}

}  // namespace
}  // namespace runnel::vulkan
