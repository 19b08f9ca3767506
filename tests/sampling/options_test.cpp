// SPDX-License-Identifier: Apache-2.0
// Ranges of the options beyond the first ones, and the order of the chain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "runnel/sampling.h"

namespace runnel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Wrong {
  const char* says;
  SamplingOptions options;
};

TEST(SamplingRanges, NameTheOptionItsValueAndWhatWasExpected) {
  const Wrong cases[] = {
      {"top_n_sigma is -0.5, expected a finite number above 0, or 0 or -1 (off)",
       {.top_n_sigma = -0.5F}},
      {"top_n_sigma is inf", {.top_n_sigma = kInf}},
      {"top_n_sigma is nan", {.top_n_sigma = kNan}},
      {"typical_p is 0, expected more than 0 and at most 1 (off)", {.typical_p = 0.0F}},
      {"typical_p is 1.5", {.typical_p = 1.5F}},
      {"xtc_probability is -0.25, expected 0 (off) to 1", {.xtc_probability = -0.25F}},
      {"xtc_probability is nan", {.xtc_probability = kNan}},
      {"xtc_threshold is 2, expected 0 to 1", {.xtc_threshold = 2.0F}},
      {"dynatemp_range is -1, expected a finite number from 0 (off) up", {.dynatemp_range = -1.0F}},
      {"dynatemp_exponent is inf", {.dynatemp_exponent = kInf}},
      {"mirostat is 1, expected 0 (off) or 2", {.mirostat = 1}},
      {"mirostat_tau is -3", {.mirostat_tau = -3.0F}},
      {"mirostat_eta is 1.5, expected 0 to 1", {.mirostat_eta = 1.5F}},
      {"no_repeat_ngram is -1, expected 0 (off) to 1024", {.no_repeat_ngram = -1}},
      {"no_repeat_ngram is 1025", {.no_repeat_ngram = 1025}},
      {"banned_texts has a text of 0 bytes, expected 1 to 256", {.banned_texts = {"a", ""}}},
      {"banned_texts has a text of 257 bytes", {.banned_texts = {std::string(257, 'x')}}},
      {"banned_texts has 257 texts, expected at most 256",
       {.banned_texts = std::vector<std::string>(257, "x")}},
      {"order has top_k twice, expected each sampler once",
       {.order = {ChainSampler::top_k, ChainSampler::top_p, ChainSampler::top_k}}},
      {"order has sampler 200, expected 0 to 8", {.order = {static_cast<ChainSampler>(200)}}},
  };
  for (const Wrong& wrong : cases) {
    const Status status = validate(wrong.options);
    ASSERT_FALSE(status) << wrong.says;
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(status.error().message, HasSubstr(wrong.says));
  }
}

TEST(SamplingRanges, TakeBothEnds) {
  EXPECT_TRUE(validate({.top_n_sigma = -1.0F,
                        .xtc_probability = 1.0F,
                        .xtc_threshold = 0.0F,
                        .dynatemp_exponent = 0.0F,
                        .mirostat = 2,
                        .mirostat_tau = 0.0F,
                        .mirostat_eta = 0.0F,
                        .no_repeat_ngram = 1024,
                        .banned_texts = {std::string(256, 'x')}}));
}

TEST(SamplerOrder, ReadsTheNamesThatItGives) {
  std::string names;
  std::vector<ChainSampler> all;
  for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(ChainSampler::xtc); ++i) {
    all.insert(all.begin(), static_cast<ChainSampler>(i));
    names = std::string(to_string(all.front())) + (names.empty() ? "" : ";") + names;
  }
  const auto order = parse_sampler_order(names);
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(*order, all);
}

TEST(SamplerOrder, KnowsOtherSpellings) {
  const auto order = parse_sampler_order("temp;top-k;typical;top-nsigma;min-p;");
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_THAT(*order,
              ElementsAre(ChainSampler::temperature, ChainSampler::top_k, ChainSampler::typical,
                          ChainSampler::top_n_sigma, ChainSampler::min_p));
}

TEST(SamplerOrder, RefusesWhatIsNoOrder) {
  const auto message = [](const char* names) {
    const auto order = parse_sampler_order(names);
    return order ? std::string() : order.error().message;
  };
  EXPECT_THAT(message("top_k;top_q"), HasSubstr("has 'top_q', expected names of penalties, dry"));
  EXPECT_THAT(message("top_k;;top_p"), HasSubstr("has '', expected names"));
  EXPECT_THAT(message("top_k;top-k"), HasSubstr("has top_k twice"));
  EXPECT_THAT(message("typ_p;typical"), HasSubstr("has typ_p twice"));
  EXPECT_THAT(message(""), HasSubstr("is empty"));
}

}  // namespace
}  // namespace runnel
