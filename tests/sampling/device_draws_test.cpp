// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/device_draws.h"

#include <gtest/gtest.h>

namespace runnel {
namespace {

struct Case {
  SamplingOptions options;
  const char* cuda;  // "": drawn ahead
  const char* vulkan;
};

TEST(DeviceDraws, SayWhatKeepsTokensFromBeingDrawnAhead) {
  const std::vector<ChainSampler> like_llama = {
      ChainSampler::penalties, ChainSampler::dry,   ChainSampler::top_n_sigma,
      ChainSampler::top_k,     ChainSampler::top_p, ChainSampler::temperature};
  const Case cases[] = {
      {{}, "", ""},
      {{.repetition_penalty = 1.2F, .dry_multiplier = 1.0F, .logit_bias = {{1, 2.0F}}}, "", ""},
      {{.typical_p = 0.5F, .xtc_probability = 0.5F, .mirostat = 0}, "", ""},  // greedy all the same
      {{.temperature = 1.0F}, "", ""},
      {{.temperature = 1.0F, .typical_p = 0.5F},
       "typ_p is drawn on the host",
       "it has no top_k, so the host sees all logits"},
      {{.temperature = 1.0F, .top_k = 600, .typical_p = 0.5F},
       "typ_p is drawn on the host",
       "top_k and the tokens whose logits change are more than 512, so the host sees all logits"},
      {{.temperature = 1.0F, .top_k = 40, .top_p = 0.9F, .min_p = 0.1F}, "", ""},
      {{.temperature = 1.0F, .top_k = 40, .xtc_probability = 0.1F}, "", ""},
      {{.temperature = 1.0F, .top_k = 40, .typical_p = 0.5F}, "typ_p is drawn on the host", ""},
      {{.temperature = 1.0F, .top_k = 40, .top_n_sigma = 1.0F}, "", ""},
      {{.temperature = 1.0F, .top_k = 40, .top_n_sigma = 1.0F, .typical_p = 0.5F},
       "typ_p is drawn on the host",
       "top_n_sigma comes before top_k, so the host sees all logits"},
      {{.temperature = 1.0F, .top_p = 0.9F, .top_n_sigma = 1.0F, .xtc_probability = 0.1F}, "", ""},
      {{.temperature = 1.0F, .top_k = 40, .dynatemp_range = 0.5F},
       "dynatemp is drawn on the host",
       "temperature comes before top_k, so the host sees all logits"},
      {{.temperature = 1.0F, .top_k = 40, .mirostat = 2},
       "mirostat is drawn on the host",
       "mirostat is in place of top_k"},
      {{.no_repeat_ngram = 3},
       "no_repeat_ngram is drawn on the host",
       "no_repeat_ngram is drawn on the host"},
      {{.banned_texts = {"x"}},
       "banned_texts is drawn on the host",
       "banned_texts is drawn on the host"},
      {{.temperature = 1.0F, .top_k = 40, .dynatemp_range = 0.5F, .order = like_llama},
       "an order of its own is drawn on the host",
       ""},
      {{.temperature = 1.0F, .top_k = 40, .order = {ChainSampler::top_p, ChainSampler::top_k}},
       "an order of its own is drawn on the host",
       ""},
      {{.temperature = 1.0F,
        .top_k = 40,
        .top_p = 0.9F,
        .order = {ChainSampler::top_p, ChainSampler::top_k}},
       "an order of its own is drawn on the host",
       "top_p comes before top_k, so the host sees all logits"},
      {{.temperature = 1.0F,
        .top_k = 40,
        .presence_penalty = 1.0F,
        .order = {ChainSampler::top_k, ChainSampler::penalties}},
       "an order of its own is drawn on the host",
       "penalties comes after top_k"},
      {{.temperature = 1.0F, .top_k = 40, .order = {ChainSampler::temperature}},
       "an order of its own is drawn on the host",
       "top_k is not in the order"},
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    EXPECT_EQ(why_not_ahead(cases[i].options, DrawDevice::cuda), cases[i].cuda) << i;
    EXPECT_EQ(why_not_ahead(cases[i].options, DrawDevice::vulkan), cases[i].vulkan) << i;
  }
}

TEST(DeviceDraws, LargestLogitIsDrawnAsItIsWhereNothingChangesIt) {
  EXPECT_TRUE(draws_largest({}));
  EXPECT_TRUE(draws_largest({.top_k = 40, .top_p = 0.5F, .xtc_probability = 0.5F}));
  EXPECT_FALSE(draws_largest({.temperature = 0.1F}));
  EXPECT_FALSE(draws_largest({.logit_bias = {{1, 2.0F}}}));
  for (SamplingOptions o :
       {SamplingOptions{.repetition_penalty = 1.1F}, SamplingOptions{.presence_penalty = 0.5F},
        SamplingOptions{.frequency_penalty = 0.5F}}) {
    EXPECT_FALSE(draws_largest(o));
    o.penalty_window = 0;
    EXPECT_TRUE(draws_largest(o));
  }
  EXPECT_FALSE(draws_largest({.dry_multiplier = 0.8F}));
  EXPECT_TRUE(draws_largest({.dry_multiplier = 0.8F, .dry_range = 0}));
}

}  // namespace
}  // namespace runnel
