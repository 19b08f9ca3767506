// SPDX-License-Identifier: Apache-2.0
// The one-token kernel of shifted projections, thread by thread on the host, against the reference backend: needs no GPU.
#include "tests/cuda/simt.h"
// After the emulator, whose functions it calls.
#include <gtest/gtest.h>

#include <cstdio>

#include "cuda/device/step/shift.cuh"
#include "runtime/backend/cuda/step/shift_program.h"
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/model/forward.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"

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
  ModelConfig config = family_config("rwkv7");
  config.hidden_size = c.d;
  config.vocab_size = c.vocab;
  set_layers(config, c.layers);
  for (LayerSpec& layer : config.layers) {
    layer.num_heads = layer.num_kv_heads = c.d / cuda::kShiftHead;
    layer.head_k_dim = layer.head_v_dim = cuda::kShiftHead;
    layer.mixer_shift = layer.channel_shift = c.d;
    layer.intermediate_size = c.inner;
    RecurrenceSpec& r = layer.recurrence();
    r.first_values = layer.index == 0;
    r.gate_rank = 32, r.rate_rank = 64, r.output_gate_rank = 96;
    r.value_rank = layer.index == 0 ? 0 : 32;
    if (c.norms) continue;
    layer.norm.kind = layer.channel_norm.kind = Norm::rms;
    layer.output_norm = OutputNorm::none, layer.output_gate = false, r.output_gate_rank = 0;
    r.bonus = false;
  }
  config.final_norm = config.layers[0].norm;
  if (config.embedding_norm) config.embedding_norm = config.layers[0].norm;
  if (!c.norms) config.embedding_norm.reset();
  return config;
}

class ShiftEmulated : public testing::TestWithParam<Case> {};

TEST_P(ShiftEmulated, MatchesTheReference) {
  const Case& each = GetParam();
  const bool plain = !quant::is_block_type(each.type);
  const RandomModel model = make_random_model(
      config_of(each), {.linear = each.type, .table = each.type,
                        .small = plain ? each.type : BlockType::f16}, 191);
  const auto reference = reference::make_backend(plain ? reference::Activations::exact
                                                       : reference::Activations::rounded);
  const LoadedModel host = load_on(*reference, model);
  auto expected = host.state();

  auto weights =
      cuda::DeviceWeights::create(model.config, *model.weights, {}, cuda::WeightPlace::host);
  ASSERT_TRUE(weights) << weights.error().message;
  const StepModel step = record_step_model(forward_of(model.config, *model.weights));
  cuda::ShiftProgram program =
      cuda::make_shift_program(step, *weights, {each.blocks, kShared});
  ASSERT_EQ(program.why_not, "");
  program.place_tables(program.sources.data(), program.items.data());
  std::vector<float4> exchange(program.exchange_floats() / 4, float4{});
  std::vector<float4> shifted(program.shifted_floats() / 4, float4{});
  std::vector<float> logits(static_cast<std::size_t>(each.vocab));
  std::vector<float4> state(StateLayout::of(model.config).total_floats() / 4, float4{});
  const std::span<const float> state_floats(reinterpret_cast<const float*>(state.data()),
                                            4 * state.size());
  std::uint32_t timed_out = 0;
  cuda::ShiftStep s = program.step;
  std::printf("[ layout   ] %s: %d blocks, %d splits, %d bytes\n", each.name, s.grid, s.splits,
              s.shared.total);
  ASSERT_EQ(s.grid, each.blocks);
  s.layers = program.layers.data();
  s.exchange = reinterpret_cast<float*>(exchange.data());
  s.shifted = reinterpret_cast<float*>(shifted.data());
  s.timed_out = &timed_out;
  s.poll_limit = 1U << 30;
  s.logits = logits.data();
  Random random(192);
  for (std::uint64_t i = 0; i < 5; ++i) {
    const std::vector<TokenId> token = random.tokens(1, each.vocab);
    const std::vector<float> wanted = host.run(*expected, token);
    const cuda::Segment segment{.state_in = state_floats.data(),
                                .state_out = reinterpret_cast<float*>(state.data()),
                                .position = i,
                                .first = 0,
                                .count = 1};
    std::fill(logits.begin(), logits.end(), NAN);
    s.token = token.data();
    s.segment = &segment;
    simt::Grid grid(s.grid, cuda::kShiftThreads, static_cast<std::size_t>(s.shared.total),
                    static_cast<unsigned>(i), [&s] {
                      if (s.d > 4 * cuda::kShiftThreads) {
                        cuda::shift_thread<~0U, 2>(s);
                      } else {
                        cuda::shift_thread<~0U, 1>(s);
                      }
                    });
    ASSERT_TRUE(grid.run()) << "stuck at token " << i;
    ASSERT_EQ(timed_out, 0U);
    s.use += static_cast<std::uint32_t>(s.num_layers);
    s.mix_use += static_cast<std::uint32_t>(s.num_layers - 1);
    const double error = rms_relative_error(logits, wanted);
    const double state_error = rms_relative_error(state_floats, host.canonical(*expected));
    if (i == 4)
      std::printf("[ parity   ] %-14s: logits %.2e state %.2e\n", each.name, error, state_error);
    const double tolerance = plain ? kPlainTolerance : kRoundedTolerance;
    ASSERT_LE(error, tolerance) << "token " << i;
    ASSERT_LE(state_error, tolerance) << "token " << i;
  }
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
  };
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cuda, ShiftEmulated, testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace runnel::test
