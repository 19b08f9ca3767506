// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/forbidden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/sampling/sampler.h"
#include "tests/support/random.h"

namespace runnel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<TokenId> forbidden(const std::vector<float>& logits) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isinf(logits[i])) ids.push_back(static_cast<TokenId>(i));
  }
  return ids;
}

std::vector<TokenId> by_ngrams(std::size_t n, const std::vector<TokenId>& generated) {
  std::vector<float> logits(10, 0.0F);
  forbid_repeated_ngrams(n, generated, logits);
  return forbidden(logits);
}

TEST(Ngrams, ForbidWhatWouldRepeatOne) {
  EXPECT_THAT(by_ngrams(3, {1, 2, 3, 4, 1, 2}), ElementsAre(3));
  EXPECT_THAT(by_ngrams(3, {1, 2, 3, 1, 2, 5, 1, 2}), ElementsAre(3, 5));
  EXPECT_THAT(by_ngrams(3, {1, 2, 3, 2}), IsEmpty());
  EXPECT_THAT(by_ngrams(2, {7, 7}), ElementsAre(7));
  EXPECT_THAT(by_ngrams(1, {3, 1, 3}), ElementsAre(1, 3));
  EXPECT_THAT(by_ngrams(3, {1, 2}), IsEmpty());
  EXPECT_THAT(by_ngrams(1, {}), IsEmpty());
  EXPECT_THAT(by_ngrams(2, {1, 99, 1}), IsEmpty()) << "an id outside the vocabulary";
}

TEST(Ngrams, AreNeverRepeatedInAGeneration) {
  SamplingOptions options{.temperature = 1.0F, .seed = 3, .no_repeat_ngram = 3};
  Result<Sampler> sampler = Sampler::create(options, 6);
  ASSERT_TRUE(sampler);
  std::vector<TokenId> tokens;
  const std::vector<float> logits = {0, 0, 0, 1, 2, 0};
  while (true) {  // until all 216 are used up, or a dead end
    const auto token = sampler->sample(logits, tokens, tokens.size());
    if (!token) break;
    tokens.push_back(*token);
  }
  EXPECT_GT(tokens.size(), 50U);
  for (std::size_t i = 0; i + 3 <= tokens.size(); ++i) {
    for (std::size_t j = i + 1; j + 3 <= tokens.size(); ++j) {
      EXPECT_FALSE(std::equal(tokens.begin() + static_cast<std::ptrdiff_t>(i),
                              tokens.begin() + static_cast<std::ptrdiff_t>(i + 3),
                              tokens.begin() + static_cast<std::ptrdiff_t>(j)))
          << i << " and " << j;
    }
  }
}

struct Banned {
  std::vector<std::string> pieces;
  std::vector<std::string> texts;

  std::vector<TokenId> after(const std::vector<TokenId>& generated) const {
    BannedTexts banned(texts, static_cast<std::int32_t>(pieces.size()), [this](TokenId t) {
      return std::string_view(pieces[static_cast<std::size_t>(t)]);
    });
    std::vector<float> logits(pieces.size(), 0.0F);
    banned.apply(generated, logits);
    return forbidden(logits);
  }
};

TEST(BannedTexts, ForbidTokensThatHoldOne) {
  const Banned banned{{"a", "bad", " badly", "ba", "d", ""}, {"bad"}};
  EXPECT_THAT(banned.after({}), ElementsAre(1, 2));
}

TEST(BannedTexts, ForbidWhatCompletesOneAcrossTokens) {
  const Banned banned{{"b", "a", "d", "dx", "ad", "ba", "", "x"}, {"bad"}};
  EXPECT_THAT(banned.after({0}), ElementsAre(4));
  EXPECT_THAT(banned.after({0, 1}), ElementsAre(2, 3));
  EXPECT_THAT(banned.after({7, 5}), ElementsAre(2, 3));
  EXPECT_THAT(banned.after({0, 6, 1, 6}), ElementsAre(2, 3)) << "tokens without text between";
  EXPECT_THAT(banned.after({0, 1, 7}), IsEmpty());
}

TEST(BannedTexts, SeeEveryBeginningThatMayStandAtTheEnd) {
  // After "aba", both "ab" + "a…" and "aba" + "…" may go on.
  const Banned banned{{"aba", "bac", "c", "bad", "cx"}, {"ababac", "abac"}};
  EXPECT_THAT(banned.after({0}), ElementsAre(1, 2, 4));
}

TEST(BannedTexts, StandForBytesOfACharacterToo) {
  const Banned banned{{"\xe6\xbc", "\xa2", "\xa3"}, {"\xe6\xbc\xa2"}};
  EXPECT_THAT(banned.after({0}), ElementsAre(1));
}

TEST(BannedTexts, NeverComeUp) {
  const std::vector<std::string> pieces = {"a", "b", "ab", "ba", "aab", "bb", "c", ""};
  const std::vector<std::string> texts = {"abba", "aaa", "cab", "bbbb"};
  const PieceOf piece = [&pieces](TokenId t) {
    return std::string_view(pieces[static_cast<std::size_t>(t)]);
  };
  SamplingOptions options{.temperature = 1.0F, .seed = 11, .banned_texts = texts};
  Result<Sampler> sampler =
      Sampler::create(options, static_cast<std::int32_t>(pieces.size()), piece);
  ASSERT_TRUE(sampler);
  options.banned_texts.clear();
  Result<Sampler> free = Sampler::create(options, static_cast<std::int32_t>(pieces.size()), piece);
  ASSERT_TRUE(free);
  const std::vector<float> logits(pieces.size(), 0.0F);
  std::vector<TokenId> tokens, free_tokens;
  std::string text, free_text;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const auto token = sampler->sample(logits, tokens, i);
    ASSERT_TRUE(token) << token.error().message;
    tokens.push_back(*token);
    text += pieces[static_cast<std::size_t>(*token)];
    free_text += pieces[static_cast<std::size_t>(*free->sample(logits, tokens, i))];
  }
  for (const std::string& banned : texts) {
    EXPECT_EQ(text.find(banned), std::string::npos) << banned;
    EXPECT_NE(free_text.find(banned), std::string::npos) << banned << " never came anyway";
  }
}

TEST(BannedTexts, NeedTextsOfTokens) {
  const auto sampler = Sampler::create({.banned_texts = {"x"}}, 10);
  ASSERT_FALSE(sampler);
  EXPECT_EQ(sampler.error().code, ErrorCode::unsupported);
  EXPECT_THAT(sampler.error().message, HasSubstr("banned texts need a tokenizer"));
}

TEST(BannedTexts, ThatLeaveNothingAreAnError) {
  const std::vector<std::string> pieces = {"a", "aa"};
  Result<Sampler> sampler = Sampler::create({.banned_texts = {"a"}}, 2, [&pieces](TokenId t) {
    return std::string_view(pieces[static_cast<std::size_t>(t)]);
  });
  ASSERT_TRUE(sampler);
  const auto token = sampler->sample(std::vector<float>{1.0F, 0.0F}, {}, 0);
  ASSERT_FALSE(token);
  EXPECT_THAT(token.error().message, HasSubstr("no token can be chosen"));
}

}  // namespace
}  // namespace runnel
