// SPDX-License-Identifier: Apache-2.0
// The one-token kernel of shifted projections, thread by thread on the host, against the reference backend: needs no GPU.
#include "tests/cuda/simt.h"
// After the emulator, whose functions it calls.
#include <gtest/gtest.h>

#include <cstdio>

#include "cuda/device/step/shift.cuh"
#include "runtime/backend/cuda/step/matrix_shapes.h"
#include "runtime/backend/cuda/step/shift_program.h"
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/model/forward.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/step_rows.h"

namespace runnel::test {
namespace {

using quant::BlockType;

constexpr int kShared = 227 * 1024;  // of a block
constexpr double kPlainTolerance = 2e-5, kRoundedTolerance = 2e-2;

struct Case {
  const char* name;
  BlockType type;
  int d, inner, blocks;
  int layers = 3;
  bool norms = true;  // LayerNorms, one of each head, a gate; else RMSNorms and neither
  std::int32_t vocab = 300;
};

ModelConfig config_of(const Case& c) {
  ModelConfig config = shifted_config(c.d, c.inner, c.layers);
  config.vocab_size = c.vocab;
  return c.norms ? config : without_norms(std::move(config));
}

/// `blocks` blocks of one token. @return false: stuck
bool run_blocks(const cuda::ShiftStep& s, int blocks, unsigned seed) {
  simt::Grid grid(blocks, cuda::kShiftAllThreads, static_cast<std::size_t>(s.shared.total), seed,
                  [&s] {
                    if (s.d > 4 * cuda::kShiftThreads) {
                      cuda::shift_thread<~0U, 2>(s);
                    } else {
                      cuda::shift_thread<~0U, 1>(s);
                    }
                  });
  return grid.run();
}

/// Five tokens of `model` on `blocks` blocks beside the reference, in `shared` bytes of a block's shared memory.
void compare_with_reference(const RandomModel& model, const char* name, int blocks, bool plain,
                            int shared = kShared) {
  const std::int32_t vocab = model.config.vocab_size;
  const auto reference = reference::make_backend(plain ? reference::Activations::exact
                                                       : reference::Activations::rounded);
  const LoadedModel host = load_on(*reference, model);
  auto expected = host.state();

  auto weights =
      cuda::DeviceWeights::create(model.config, *model.weights, {}, cuda::WeightPlace::host);
  ASSERT_TRUE(weights) << weights.error().message;
  const StepModel step = record_step_model(forward_of(model.config, *model.weights));
  cuda::ShiftProgram program = cuda::make_shift_program(step, *weights, {blocks, shared});
  ASSERT_EQ(program.why_not, "");
  std::vector<float4> exchange(program.exchange_floats() / 4, float4{});
  std::vector<float4> shifted(program.shifted_floats() / 4, float4{});
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  std::vector<float4> state(StateLayout::of(model.config).total_floats() / 4, float4{});
  const std::span<const float> state_floats(reinterpret_cast<const float*>(state.data()),
                                            4 * state.size());
  std::uint32_t timed_out = 0;
  cuda::ShiftStep s = program.step;
  std::printf("[ layout   ] %s: %d blocks, %d splits, %d bytes\n", name, s.grid, s.splits,
              s.shared.total);
  ASSERT_EQ(s.grid, blocks);
  s.layers = program.layers.data();
  s.sources = program.sources.data(), s.items = program.items.data();
  s.exchange = reinterpret_cast<float*>(exchange.data());
  s.shifted = reinterpret_cast<float*>(shifted.data());
  s.timed_out = &timed_out;
  s.poll_limit = 1U << 16;
  s.logits = logits.data();
  Random random(192);
  for (std::uint64_t i = 0; i < 5; ++i) {
    const std::vector<TokenId> token = random.tokens(1, vocab);
    const std::vector<float> wanted = host.run(*expected, token);
    const cuda::Segment segment{.state_in = state_floats.data(),
                                .state_out = reinterpret_cast<float*>(state.data()),
                                .position = i,
                                .first = 0,
                                .count = 1};
    std::fill(logits.begin(), logits.end(), NAN);
    s.token = token.data();
    s.segment = &segment;
    ASSERT_TRUE(run_blocks(s, s.grid, static_cast<unsigned>(i))) << "stuck at token " << i;
    ASSERT_EQ(timed_out, 0U);
    s.use += static_cast<std::uint32_t>(s.num_layers);
    s.mix_use += static_cast<std::uint32_t>(s.num_layers - 1);
    const double error = rms_relative_error(logits, wanted);
    const double state_error = rms_relative_error(state_floats, host.canonical(*expected));
    if (i == 4)
      std::printf("[ parity   ] %-14s: logits %.2e state %.2e\n", name, error, state_error);
    const double tolerance = plain ? kPlainTolerance : kRoundedTolerance;
    ASSERT_LE(error, tolerance) << "token " << i;
    ASSERT_LE(state_error, tolerance) << "token " << i;
  }
}

class ShiftEmulated : public testing::TestWithParam<Case> {};

TEST_P(ShiftEmulated, MatchesTheReference) {
  const Case& each = GetParam();
  const bool plain = !quant::is_block_type(each.type);
  compare_with_reference(
      make_random_model(
          config_of(each),
          {.linear = each.type, .table = each.type, .small = plain ? each.type : BlockType::f16},
          191),
      each.name, each.blocks, plain);
}

TEST(ShiftEmulatedRows, MatchTheReference) {
  int taken = 0;
  for (const StepRowModel& each : step_row_models()) {
    if (!std::string_view(each.name).starts_with("shifted")) continue;
    SCOPED_TRACE(each.name);
    const RandomModel model = each.make();
    compare_with_reference(model, each.name.c_str(), 8, !has_blocks(model));
    ++taken;
  }
  EXPECT_GT(taken, 0);
}

std::vector<Case> cases() {
  std::vector<Case> all = {
      {"f32", BlockType::f32, 128, 256, 3},
      {"f16", BlockType::f16, 128, 512, 9},
      {"bf16", BlockType::bf16, 192, 256, 4},
      {"q8_0", BlockType::q8_0, 128, 512, 5},
      {"q4_0", BlockType::q4_0, 256, 1024, 17},
      {"q4_0_two_blocks", BlockType::q4_0, 128, 256, 2},
      {"q4_0_two_rounds", BlockType::q4_0, 2112, 1088, 34, 1},
      {"rms_without_norms", BlockType::f32, 128, 256, 6, 2, false},
      {"one_layer", BlockType::f16, 128, 256, 7, 1},
      {"long_vocabulary", BlockType::q8_0, 64, 128, 1, 2, true, 4096},
      {"q4_k", BlockType::q4_k, 256, 512, 8, 1},
      {"q6_k", BlockType::q6_k, 256, 512, 8, 1},
      {"wide", BlockType::q5_1, 256, 512, 8},
  };
  return all;
}

/// The layers of a model whose matrices have sizes and no values.
struct Sizes {
  RecurrenceWeights mixer;
  OutputWeights output;
  ChannelMixWeights channel_mix;
  WeightView table;

  Sizes(const StepModel& small, const ModelConfig& config, BlockType type) {
    const StepShiftLayer& layer = small.shifted.layers.back();
    mixer = *layer.mixer, output = *layer.output, channel_mix = *layer.channel_mix;
    table = *small.head;
    const LayerSpec& l = config.layers.back();
    const RecurrenceSpec& r = l.recurrence();
    const int d = config.hidden_size;
    const auto size = [](WeightView& view, BlockType t, int rows, int cols) {
      view.type = t, view.rows = rows, view.cols = cols;
    };
    for (WeightView* m : {&mixer.q_proj, &mixer.k_proj, &mixer.v_proj, &output.o_proj})
      size(*m, type, d, d);
    size(channel_mix.up_proj, type, l.intermediate_size, d);
    size(channel_mix.down_proj, type, d, l.intermediate_size);
    size(table, type, config.vocab_size, d);
    const auto low_rank = [&](WeightView& down, WeightView& up, int rank) {
      size(down, BlockType::f16, rank, d), size(up, BlockType::f16, d, rank);
    };
    low_rank(mixer.f_down, mixer.f_proj, r.gate_rank);
    low_rank(mixer.r_down, mixer.r_proj, r.rate_rank);
    low_rank(mixer.out_gate_down, mixer.out_gate, r.output_gate_rank);
    low_rank(mixer.v_down, mixer.v_mix, r.value_rank);
  }
};

TEST(ShiftEmulatedLayout, HasRoomForPublishedShapes) {
  const RandomModel small = make_random_model(shifted_config(64, 128), {}, 193);
  const StepModel recorded = record_step_model(forward_of(small.config, *small.weights));
  struct Shape {
    int d, layers;
    BlockType type;
  };
  for (const Shape& shape : {Shape{768, 12, BlockType::bf16},
                             {2048, 24, BlockType::q4_0},
                             {2048, 24, BlockType::q8_0},
                             {2048, 24, BlockType::bf16},
                             {2560, 32, BlockType::q4_0},
                             {2560, 32, BlockType::bf16},
                             {4096, 32, BlockType::q4_0}}) {
    ModelConfig config = shifted_config(shape.d, 4 * shape.d, shape.layers);
    config.vocab_size = 65536;
    for (LayerSpec& layer : config.layers) {
      RecurrenceSpec& r = layer.recurrence();
      r.gate_rank = r.rate_rank = 96, r.output_gate_rank = 256;
      if (layer.index > 0) r.value_rank = 64;
    }
    const Sizes sizes(recorded, config, shape.type);
    StepModel step = recorded;
    step.hidden_size = shape.d, step.vocab_size = config.vocab_size;
    step.embeddings = step.head = &sizes.table;
    step.shifted.layers.clear();
    for (const LayerSpec& layer : config.layers)
      step.shifted.layers.push_back({layer, &sizes.mixer, &sizes.output, &sizes.channel_mix});
    const cuda::ShiftProgram program =
        cuda::make_shift_program(step, cuda::shapes_of(step), {132, kShared});
    ASSERT_EQ(program.why_not, "") << shape.d;
    const cuda::ShiftStep& s = program.step;
    std::printf("[ layout   ] %d %s: %d blocks, %d splits, %d slots, %d bytes, rounds", shape.d,
                quant::format_of(shape.type).name.data(), s.grid, s.splits, s.slots,
                s.shared.total);
    for (const cuda::ShiftTable& t : program.layers[1].tables) std::printf(" %d", t.rounds);
    std::printf("\n");
    EXPECT_EQ(s.grid, 132);
    EXPECT_LE(s.shared.total, kShared);
  }
}

TEST(ShiftEmulatedLayout, ItemsStayInGlobalMemoryWhereThereIsNoRoom) {
  const Case each{"q8_0_no_room", BlockType::q8_0, 128, 512, 5};
  const RandomModel model = make_random_model(
      config_of(each), {.linear = each.type, .table = each.type, .small = BlockType::f16}, 191);
  const StepModel step = record_step_model(forward_of(model.config, *model.weights));
  const auto program = [&step](int shared) {
    return cuda::make_shift_program(step, cuda::shapes_of(step), {5, shared});
  };
  const int all = program(kShared).step.shared.total;
  EXPECT_GT(program(all).step.shared.items, 0);
  EXPECT_EQ(program(all - 128).step.shared.items, 0);
  EXPECT_EQ(program(all - 128).step.slots, program(all).step.slots);
  compare_with_reference(model, each.name, each.blocks, false, all - 128);
}

TEST(ShiftEmulatedTimeOut, EndsATokenThatWaitsForABlockThatIsNotThere) {
  const Case each{"q8_0", BlockType::q8_0, 128, 512, 5};
  const RandomModel model = make_random_model(
      config_of(each), {.linear = each.type, .table = each.type, .small = BlockType::f16}, 191);
  auto weights =
      cuda::DeviceWeights::create(model.config, *model.weights, {}, cuda::WeightPlace::host);
  ASSERT_TRUE(weights) << weights.error().message;
  const StepModel step = record_step_model(forward_of(model.config, *model.weights));
  const cuda::ShiftProgram program =
      cuda::make_shift_program(step, *weights, {each.blocks, kShared});
  std::vector<float4> exchange(program.exchange_floats() / 4, float4{});
  std::vector<float4> shifted(program.shifted_floats() / 4, float4{});
  std::vector<float> logits(static_cast<std::size_t>(each.vocab));
  std::vector<float4> state(StateLayout::of(model.config).total_floats() / 4, float4{});
  auto* const state_floats = reinterpret_cast<float*>(state.data());
  const TokenId token = 7;
  const cuda::Segment segment{.state_in = state_floats, .state_out = state_floats, .count = 1};
  std::uint32_t timed_out = 0;
  cuda::ShiftStep s = program.step;
  s.layers = program.layers.data();
  s.sources = program.sources.data(), s.items = program.items.data();
  s.exchange = reinterpret_cast<float*>(exchange.data());
  s.shifted = reinterpret_cast<float*>(shifted.data());
  s.token = &token, s.segment = &segment, s.logits = logits.data();
  s.timed_out = &timed_out;
  s.poll_limit = 1U << 10;
  EXPECT_TRUE(run_blocks(s, each.blocks - 1, 1));
  EXPECT_NE(timed_out, 0U);
}

INSTANTIATE_TEST_SUITE_P(Cuda, ShiftEmulated, testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace runnel::test
