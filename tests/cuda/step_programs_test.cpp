// SPDX-License-Identifier: Apache-2.0
// Which one-token program computes which model on which device, and why not the better ones. Needs no GPU, and no
// weights: shapes decide.
#include <gtest/gtest.h>

#include "runtime/backend/cuda/step/programs.h"
#include "runtime/model/forward.h"
#include "tests/cuda/bench_models.h"

namespace runnel::test {
namespace {

using cuda::StepDevice;
using quant::BlockType;

constexpr StepDevice kOrin{.major = 8,
                           .minor = 7,
                           .multiprocessors = 16,
                           .shared_bytes = 166912,
                           .largest_cluster = 1,
                           .cooperative = true};
constexpr StepDevice kHopper{.major = 9,
                             .minor = 0,
                             .multiprocessors = 132,
                             .shared_bytes = 232448,
                             .largest_cluster = 16,
                             .cooperative = true};
constexpr StepDevice kThor{.major = 11,
                           .minor = 0,
                           .multiprocessors = 20,
                           .shared_bytes = 232448,
                           .largest_cluster = 16,
                           .cooperative = true};

struct Types {
  BlockType linear = BlockType::q4_0;
  BlockType gates = BlockType::f16;
  BlockType table = BlockType::q8_0;
  bool tied = true;
};

WeightView view(BlockType type, std::int64_t rows, std::int64_t cols) {
  static constexpr std::byte kPresent{};
  return {.name = "w", .type = type, .rows = rows, .cols = cols, .data = std::span(&kPresent, 1)};
}

/// A model's shapes: tensors that are there but have no values.
struct Shapes {
  ModelConfig config;
  Weights weights;

  Shapes(const ModelConfig& c, const Types& t) : config(c) {
    const std::int64_t d = c.hidden_size;
    const auto floats = [](std::int64_t n) { return view(BlockType::f32, 1, n); };
    weights.embeddings = view(t.table, c.vocab_size, d);
    weights.head = view(t.table, c.vocab_size, d);
    weights.final_norm.weight = floats(d);
    for (const LayerSpec& l : c.layers) {
      SlotWeights m;
      m.norm.weight = floats(d);
      m.q_proj = view(t.linear, l.q_channels(), d);
      m.k_proj = view(t.linear, l.k_channels(), d);
      m.v_proj = view(t.linear, l.v_channels(), d);
      m.f_proj = view(t.gates, l.gate_channels(), d);
      if (l.qkv_bias) {
        m.q_bias = floats(l.q_channels()), m.k_bias = floats(l.k_channels());
        m.v_bias = floats(l.v_channels());
      }
      const std::int64_t inner = l.intermediate_size;
      weights.layers.push_back(
          {.mixer = m,
           .output = {.g_norm =
                          l.output_norm == OutputNorm::none ? WeightView() : floats(l.o_channels()),
                      .o_proj = view(t.linear, d, l.o_channels())},
           .channel_mix = {.norm = {.weight = floats(d), .bias = {}},
                           .gate_proj = view(t.linear, inner, d),
                           .up_proj = view(t.linear, inner, d),
                           .down_proj = view(t.linear, d, inner)}});
    }
  }

  StepModel model() const { return record_step_model(forward_of(config, weights)); }
};

ModelConfig with_heads_of_80() {
  ModelConfig c = bench::config_135m();
  for (LayerSpec& l : c.layers) l.num_heads = 6, l.head_k_dim = l.head_v_dim = 80;
  return c;
}

StepProgram chosen(const ModelConfig& config, const Types& types, const StepDevice& device) {
  const Shapes shapes(config, types);
  auto choice = cuda::choose_step_program(shapes.model(), device);
  EXPECT_TRUE(choice) << choice.error().message;
  if (!choice) return {};
  EXPECT_EQ(choice->row->fits(shapes.model(), device), "");
  for (const StepProgram::Refused& r : choice->program.refused)
    EXPECT_EQ(cuda::step_program(r.name)->fits(shapes.model(), device), r.reason);
  return choice->program;
}

std::string reason(const StepProgram& program, const std::string& row) {
  for (const StepProgram::Refused& r : program.refused) {
    if (r.name == row) return r.reason;
  }
  return "";
}

TEST(CudaStepProgramsEmulated, TheDefaultModelHasAClusterOfItsOwn) {
  const StepProgram hopper = chosen(bench::config_135m(), {}, kHopper);
  EXPECT_EQ(hopper.name, "cluster-fixed");
  EXPECT_EQ(hopper.detail, "16 blocks, fixed 576");
  EXPECT_TRUE(hopper.refused.empty());
  const StepProgram thor = chosen(bench::config_135m(), {}, kThor);
  EXPECT_EQ(thor.name, "cluster-fixed");
  EXPECT_EQ(thor.detail, "16 blocks");  // too few are left for the head's own kernel
}

TEST(CudaStepProgramsEmulated, WithoutClustersTokensAreAGraphOfOps) {
  for (const ModelConfig& config :
       {bench::config_135m(), bench::config_1380m(), bench::config_500m()}) {
    const StepProgram orin = chosen(config, {}, kOrin);
    EXPECT_EQ(orin.name, "ops");
    EXPECT_EQ(orin.detail, "");
    ASSERT_EQ(orin.refused.size(), 5U);
    for (const StepProgram::Refused& r : orin.refused)
      EXPECT_EQ(r.reason, "compute capability 8.7, expected 9.0 or newer") << r.name;
  }
}

TEST(CudaStepProgramsEmulated, OtherShapesThanTheDefaultModelsTakeTheGeneralCluster) {
  ModelConfig config = bench::config_135m();
  for (LayerSpec& l : config.layers) l.slots().num_window_slots = 28;
  const StepProgram program = chosen(config, {}, kHopper);
  EXPECT_EQ(program.name, "cluster");
  EXPECT_EQ(program.detail, "16 blocks, fixed 576");
  EXPECT_EQ(reason(program, "cluster-fixed"), "another shape than the 135M's");
}

TEST(CudaStepProgramsEmulated, TheWideModelHasAnEvenKernelOnAllOfAHopper) {
  for (const Types& types :
       {Types{}, Types{.linear = BlockType::q4_k, .table = BlockType::q6_k},
        Types{.linear = BlockType::q8_0},
        Types{.linear = BlockType::bf16, .gates = BlockType::bf16, .table = BlockType::bf16}}) {
    const StepProgram hopper = chosen(bench::config_1380m(), types, kHopper);
    EXPECT_EQ(hopper.name, "grid-even");
    EXPECT_EQ(hopper.detail, "128 blocks");
    EXPECT_EQ(reason(hopper, "cluster"), "layers of 5632 channels, expected at most 2048");
  }
  const StepProgram thor = chosen(bench::config_1380m(), {}, kThor);
  EXPECT_EQ(thor.name, "grid");
  EXPECT_EQ(reason(thor, "grid-even"), "20 blocks, expected at least 128");
  const StepProgram mixed = chosen(bench::config_1380m(), {.table = BlockType::q6_k}, kHopper);
  EXPECT_EQ(mixed.name, "grid");
  EXPECT_EQ(reason(mixed, "grid-even"), "a head of a type that goes with other products");
}

TEST(CudaStepProgramsEmulated, TheNextDefaultModelAndItsLargerSisterHaveEvenKernels) {
  for (const BlockType table : {BlockType::q4_0, BlockType::q8_0}) {
    const StepProgram half = chosen(bench::config_500m(), {.table = table}, kHopper);
    EXPECT_EQ(half.name, "grid-even");
    EXPECT_EQ(half.detail, "112 blocks");
    EXPECT_EQ(reason(half, "cluster"), "biases on q, k and v");
    const StepProgram sister = chosen(bench::config_1500m(), {.table = table}, kHopper);
    EXPECT_EQ(sister.name, "grid-even");
    EXPECT_EQ(sister.detail, "128 blocks");
  }
  ModelConfig config = bench::config_500m();
  for (LayerSpec& l : config.layers) l.qkv_bias = false;
  EXPECT_EQ(chosen(config, {}, kHopper).name, "grid-even");
}

TEST(CudaStepProgramsEmulated, BiasesAndManySlotsOfOtherShapesTakeTheGeneralKernel) {
  EXPECT_EQ(chosen(bench::config_500m(), {}, kThor).name, "grid");
  StepProgram program = chosen(bench::config_500m(), {.linear = BlockType::q8_0}, kHopper);
  EXPECT_EQ(program.name, "grid");
  EXPECT_EQ(reason(program, "grid-even"), "products of another type than Q4_0");
  ModelConfig config = bench::config_500m();
  for (LayerSpec& l : config.layers) l.slots().num_window_slots = 124;
  program = chosen(config, {}, kHopper);
  EXPECT_EQ(program.name, "grid");
  EXPECT_EQ(
      reason(program, "grid-even"),
      "128 positional and 128 memory slots, expected 384 in all and of each kind a multiple of "
      "128");
  config = bench::config_500m();
  for (LayerSpec& l : config.layers) l.intermediate_size = 2816;
  program = chosen(config, {}, kHopper);
  EXPECT_EQ(program.name, "grid");
  EXPECT_EQ(reason(program, "grid-even"),
            "channels, SwiGLU and heads of 896, 2816, 14 of 64, expected one of: 2048, 5632, 4 of "
            "512; 896, 4864, "
            "14 of 64; 1536, 8960, 12 of 128");
  for (LayerSpec& l : config.layers) l.qkv_bias = false;
  EXPECT_EQ(reason(chosen(config, {}, kHopper), "cluster"),
            "layers of 2816 channels, expected at most 2048");
}

TEST(CudaStepProgramsEmulated, SaysWhyAShapeIsAGraphOfOps) {
  for (const StepDevice& device : {kHopper, kThor}) {
    const StepProgram eighty = chosen(with_heads_of_80(), {}, device);
    EXPECT_EQ(eighty.name, "ops");
    for (const char* row : {"cluster-fixed", "cluster", "grid-even", "grid"})
      EXPECT_EQ(reason(eighty, row), "heads of 80, expected a power of two") << row;
  }
  ModelConfig config = bench::config_500m();
  for (LayerSpec& l : config.layers) l.slots().num_window_slots = 300;
  EXPECT_EQ(reason(chosen(config, {}, kHopper), "grid"),
            "304 sink and window slots, expected at most 256");
  config = bench::config_1380m();
  config.final_norm.eps = 1e-3F;
  EXPECT_EQ(reason(chosen(config, {}, kHopper), "grid"), "norms of different epsilons");
}

TEST(CudaStepProgramsEmulated, ARowCanBeAskedForByName) {
  const Shapes shapes(bench::config_135m(), {});
  const StepModel model = shapes.model();
  for (const char* name : {"cluster-fixed", "cluster", "grid", "ops"}) {
    const auto choice = cuda::choose_step_program(model, kHopper, name);
    ASSERT_TRUE(choice) << choice.error().message;
    EXPECT_EQ(choice->program.name, name);
    EXPECT_TRUE(choice->program.refused.empty());
  }
  const auto even = cuda::choose_step_program(model, kHopper, "grid-even");
  ASSERT_FALSE(even);
  EXPECT_EQ(even.error().code, ErrorCode::unsupported);
  EXPECT_EQ(even.error().message, "step program grid-even: does not fit: " +
                                      cuda::step_program("grid-even")->fits(model, kHopper));
  const auto unknown = cuda::choose_step_program(model, kHopper, "even");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::not_found);
  EXPECT_EQ(unknown.error().message,
            "step program even: cuda has cluster-fixed, cluster, grid-even, grid, shift, ops");
}

TEST(CudaStepProgramsEmulated, ARowThatTheDeviceRefusesLeavesItToTheNext) {
  const Shapes shapes(bench::config_135m(), {});
  const auto choice = cuda::choose_step_program(
      shapes.model(), kHopper, "", [](const cuda::StepRow& row) -> Result<std::string> {
        return std::string(std::string(row.name).starts_with("cluster") ? "no room" : "");
      });
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->program.name, "grid");
  EXPECT_EQ(reason(choice->program, "cluster-fixed"), "no room");
  EXPECT_EQ(reason(choice->program, "cluster"), "no room");
}

TEST(CudaStepProgramsEmulated, WithoutAPassTokensAreAGraphOfOps) {
  const auto choice = cuda::choose_step_program(record_step_model({}), kHopper);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->program.name, "ops");
  EXPECT_EQ(reason(choice->program, "grid"), "no pass was recorded at load");
}

TEST(CudaStepProgramsEmulated, AProgramIsForThePassThatItWasBuiltFromAlone) {
  const Shapes a(bench::config_135m(), {}), b(bench::config_135m(), {});
  EXPECT_TRUE(a.model() == a.model());
  EXPECT_FALSE(a.model() == b.model()) << "the same shapes, other weights";
}

}  // namespace
}  // namespace runnel::test
