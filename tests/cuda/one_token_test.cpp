// SPDX-License-Identifier: Apache-2.0
// The kernels that stay for a whole token, with as few blocks and as small a model as run all of
// them: for a race detector, which has no time for more. Against the reference; skips without a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "runtime/backend/cuda/cuda_backend.h"
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/model/forward.h"
#include "tests/cuda/prefill_support.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/shapes.h"

namespace runnel::test {
namespace {

using quant::BlockType;

// Int8 activations: ties round apart, and layers amplify.
constexpr double kRoundedTolerance = 2e-2;
// Questions before a wait is given up. Under a race detector an answer takes long.
constexpr std::uint32_t kPollLimit = 1U << 26;

struct Case {
  const char* name;
  const char* program;
  ModelConfig config;
  cuda::DecodeTuning tuning;
  int tokens = 2;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// Two layers: what is brought for the next one, and what follows the last.
ModelConfig narrow(int heads, int head) {
  ModelConfig c = small_positional_config();
  set_widths(c, 64, 64);
  set_heads(c, heads, 1, head);
  set_positional(c, 1, 2, 3);
  c.vocab_size = 32;
  return c;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // A block without slots; blocks that share a kv head.
  all.push_back({"cluster_of_2", "cluster", narrow(1, 64), {.grid = 2, .cluster_blocks = 2}});
  all.push_back({"cluster_of_4", "cluster", narrow(3, 64), {.grid = 2, .cluster_blocks = 4}});
  all.push_back({"cluster_of_8", "cluster", narrow(3, 64), {.grid = 2, .cluster_blocks = 8}});
  all.push_back({"cluster_of_16", "cluster", narrow(3, 64), {.grid = 2, .cluster_blocks = 16}});
  ModelConfig c = small_positional_config();  // has a kernel of its own
  set_widths(c, 576, 1536);
  set_default_mixer(c);
  c.vocab_size = 32;
  all.push_back({"default_model",
                 "cluster-fixed",
                 c,
                 {.grid = 2, .cluster_blocks = cuda::kClusterBlocks},
                 1});
  // One block more takes part in the head alone.
  all.push_back({"grid", "grid", narrow(2, 32), {.blocks = 2, .splits = 2, .grid = 3}});
  c = narrow(2, 32);
  set(c, &LayerSpec::qkv_bias, true);
  all.push_back({"grid_biased", "grid", c, {.blocks = 2, .splits = 2, .grid = 3}});
  c = small_config();
  c.vocab_size = 32;
  set_heads(c, 2, 2, 32);
  all.push_back({"warp_slots", "grid", c, {.blocks = 4, .splits = 2, .grid = 5}});
  return all;
}

class OneToken : public testing::TestWithParam<Case> {};

TEST_P(OneToken, MatchesTheReference) {
  if (cuda::devices().empty()) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked";
  if (cuda::facts_of(0).major < 9) GTEST_SKIP() << "no clusters here: nothing was checked";
  const ModelConfig& config = GetParam().config;
  const cuda::DecodeTuning& tuning = GetParam().tuning;
  const RandomModel source = make_random_model(config,
                                               {.linear = BlockType::q4_0,
                                                .table = BlockType::q8_0,
                                                .small = BlockType::f16,
                                                .tied = true,
                                                .gate_bias = true,
                                                .read_biases = true},
                                               61);
  const auto reference = reference::make_backend(reference::Activations::rounded);
  const LoadedModel host = load_on(*reference, source);
  const auto expected = host.state();

  const cuda::DeviceFacts facts = cuda::facts_of(0);
  auto model = cuda::load_model(facts, {.config = config, .weights = *source.weights});
  ASSERT_TRUE(model) << model.error().message;
  const cuda::StepRow* row = cuda::step_program(GetParam().program);
  ASSERT_NE(row, nullptr);
  cuda::StepLayout layout = row->lay_out(record_step_model(forward_of(config, *source.weights)),
                                         (*model)->weights, facts.step, tuning);
  ASSERT_EQ(layout.why_not, "") << "does not fit";
  auto kernel = cuda::StepKernel::create(std::move(layout), (*model)->weights,
                                         (*model)->stream.get(), kPollLimit);
  ASSERT_TRUE(kernel) << kernel.error().message;
  cuda::StepKernel& k = **kernel;
  ASSERT_EQ(k.cluster() != nullptr, tuning.cluster_blocks > 0);
  ASSERT_EQ(k.decode().grid, tuning.grid);
  ASSERT_EQ(k.decode().blocks, tuning.blocks);
  auto state = cuda::CudaState::create(*model);
  ASSERT_TRUE(state) << state.error().message;

  const cudaStream_t stream = (*model)->stream.get();
  Random random(62);
  for (int i = 0; i < GetParam().tokens; ++i) {
    const std::vector<TokenId> token = random.tokens(1, config.vocab_size);
    const std::vector<float> logits = host.run(*expected, token);
    const OnDevice<TokenId> id(token);
    const OnDevice<cuda::Segment> segment(
        std::vector<cuda::Segment>{{.state_in = (*state)->data(),
                                    .state_out = (*state)->data(),
                                    .position = static_cast<std::uint64_t>(i),
                                    .first = 0,
                                    .count = 1}});
    const OnDevice<float> made(logits.size());
    const Status launched = k.launch(stream, id.get(), segment.get(), made.get());
    ASSERT_TRUE(launched) << launched.error().message;
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    const Status finished = k.finished(stream);
    ASSERT_TRUE(finished) << finished.error().message;
    std::vector<float> floats(StateLayout::of(config).total_floats(), NAN);
    ASSERT_TRUE((*state)->export_to(floats));
    const double error = rms_relative_error(made.host(), logits);
    const double apart = rms_relative_error(floats, host.canonical(*expected));
    std::printf("[ parity   ] %-14s token %d: logits %.2e state %.2e\n", GetParam().name, i, error,
                apart);
    EXPECT_LE(error, kRoundedTolerance) << "token " << i;
    EXPECT_LE(apart, kRoundedTolerance) << "token " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, OneToken, testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace runnel::test
