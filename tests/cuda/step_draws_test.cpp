// SPDX-License-Identifier: Apache-2.0
// Tokens drawn by the one-token kernels of fixed shapes, or from what their blocks keep, against the host's sampler: the same, always. Skips
// without a GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cuda/cuda_backends.h"
#include "tests/support/host_draws.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random.h"
#include "tests/support/step_rows.h"

namespace runnel::test {
namespace {

using quant::BlockType;

constexpr std::size_t kTokens = 60;

struct Case {
  const char* name;
  const char* shape;  // of step_row_models()
  std::int32_t vocab;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<SamplingKind> kinds() {
  SamplingOptions dry;
  dry.dry_multiplier = 100.0F;
  dry.dry_allowed_length = 1;
  const auto with = [](SamplingOptions o, float temperature, float min_p) {
    o.temperature = temperature, o.min_p = min_p, o.seed = 12;
    return o;
  };
  SamplingOptions broken = dry;
  broken.dry_breakers = {"x"};
  broken.dry_range = 20;
  return {{"greedy", {}},
          {"dry", dry},
          {"dry_with_breakers", broken, drawn_piece},
          {"min_p", with({}, 0.3F, 0.1F)},
          {"min_p_dry", with(dry, 0.3F, 0.1F)},
          {"min_p_dry_with_breakers", with(broken, 0.7F, 0.05F), drawn_piece},
          {"more_than_the_list_holds", with(dry, 100.0F, 0.01F)},
          {"by_the_sampler", {.temperature = 0.9F, .top_k = 40, .seed = 2}}};
}

class StepDraws : public testing::TestWithParam<Case> {};

TEST_P(StepDraws, AreTheHosts) {
  if (cuda::devices().empty()) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked";
  if (cuda::facts_of(0).major < 9) GTEST_SKIP() << "compute capability below 9.0: no such kernel";
  const std::unique_ptr<Backend> backend = cuda_backend("grid-even");
  ASSERT_NE(backend, nullptr);
  const auto& models = step_row_models();
  const auto shape = std::ranges::find(models, GetParam().shape, &StepRowModel::name);
  ASSERT_NE(shape, models.end());
  ModelConfig config = shape->make().config;
  config.vocab_size = GetParam().vocab;
  const LoadedModel loaded = load_on(
      *backend,
      make_random_model(
          config, {.linear = BlockType::q4_0, .table = BlockType::q8_0, .small = BlockType::f16},
          121));
  for (const SamplingKind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    Random random(122);
    // Every token was said before, many times.
    std::vector<TokenId> recent = random.tokens(30, 4);
    auto plain = loaded.state(), drawn = loaded.state();
    std::vector<float> logits;
    for (const TokenId token : recent) {
      logits = loaded.run(*plain, std::span(&token, 1));
      loaded.run(*drawn, std::span(&token, 1));
    }
    const std::vector<TokenId> expected =
        host_draws(loaded, *plain, recent, logits, kind, kTokens + 1);
    ASSERT_EQ(expected.size(), kTokens + 1);
    recent.push_back(expected[0]);
    auto steps = loaded.plan->sampled_steps(*drawn, recent, kind.sampling, kind.piece);
    ASSERT_TRUE(steps && *steps != nullptr);
    ASSERT_TRUE((*steps)->queue());
    for (std::size_t i = 1; i < kTokens; ++i) {
      ASSERT_TRUE((*steps)->queue());
      const auto token = (*steps)->drawn();
      ASSERT_TRUE(token) << token.error().message;
      ASSERT_EQ(*token, expected[i]) << "token " << i;
    }
    std::vector<float> last(static_cast<std::size_t>(config.vocab_size), NAN);
    ASSERT_TRUE((*steps)->logits(last));
    EXPECT_EQ(last, logits);
    EXPECT_EQ(*(*steps)->drawn(), expected.back());
    steps->reset();
    EXPECT_EQ(loaded.canonical(*drawn), loaded.canonical(*plain));
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, StepDraws,
                         testing::Values(Case{"wide", "wide", 5000},
                                         // More rows of the head than a block has threads.
                                         Case{"half_b", "0.5B", 70001},
                                         Case{"one_and_a_half_b", "1.5B", 5003}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace runnel::test
