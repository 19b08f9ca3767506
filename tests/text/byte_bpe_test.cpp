// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE against the default model's reference encodings, and against itself.
#include <gtest/gtest.h>

#include <chrono>

#include "runtime/text/tokenizer.h"
#include "runtime/text/utf8.h"
#include "tests/text/tokenizer_fixture.h"

namespace runnel {
namespace {

using Ids = std::vector<TokenId>;
using Random = test::Random;

std::shared_ptr<const Tokenizer> load(const test::Metadata& file,
                                      std::int32_t rows = test::kDefaultRows) {
  auto tokenizer = test::load_tokenizer(file, rows);
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return tokenizer ? *tokenizer : nullptr;
}

class DefaultModel : public testing::Test {
 protected:
  static void SetUpTestSuite() { tokenizer_ = load(test::default_model_metadata()); }
  static void TearDownTestSuite() { tokenizer_.reset(); }
  void SetUp() override { ASSERT_NE(tokenizer_, nullptr); }
  static Ids encode(std::string_view text, bool parse_special = false) {
    return test::encode(*tokenizer_, text, parse_special);
  }
  static std::shared_ptr<const Tokenizer> tokenizer_;
};
std::shared_ptr<const Tokenizer> DefaultModel::tokenizer_;

TEST_F(DefaultModel, EncodesAllReferenceTexts) {
  const nlohmann::json cases = test::read_json("default_model/tokenizer.json");
  ASSERT_EQ(cases.size(), 238U);
  for (const auto& c : cases) {
    EXPECT_EQ(encode(c["text"].get<std::string>(), true), c["ids"].get<Ids>()) << c["text"];
  }
}

TEST_F(DefaultModel, DecodesAllReferenceTexts) {
  for (const auto& c : test::read_json("default_model/tokenizer.json")) {
    EXPECT_EQ(tokenizer_->decode(c["ids"].get<Ids>(), true), c["text"].get<std::string>());
  }
}

TEST_F(DefaultModel, PiecesOfASequenceJoinToItsText) {
  const Ids ids = encode("Hello, wörld 👋🏽 12");
  std::string joined;
  for (const TokenId id : ids) joined += tokenizer_->piece(id, joined.empty(), false);
  EXPECT_EQ(joined, "Hello, wörld 👋🏽 12");
}

TEST_F(DefaultModel, MarkersInPlainTextStayText) {
  const Ids ids = encode("a<|im_end|>b<|endoftext|>");
  for (const TokenId id : ids) EXPECT_FALSE(tokenizer_->is_special(id)) << id;
  EXPECT_EQ(tokenizer_->decode(ids), "a<|im_end|>b<|endoftext|>");
}

TEST_F(DefaultModel, SpecialTokensAreHiddenUnlessAsked) {
  const Ids ids = {1, 4093, 198, 2};
  EXPECT_EQ(tokenizer_->decode(ids), "user\n");
  EXPECT_EQ(tokenizer_->decode(ids, true), "<|im_start|>user\n<|im_end|>");
}

TEST_F(DefaultModel, KnowsItsRoles) {
  EXPECT_EQ(tokenizer_->vocab_size(), 49152);
  EXPECT_EQ(tokenizer_->special_id("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer_->special_id("user"), -1);
  EXPECT_TRUE(tokenizer_->is_end(2));
  EXPECT_TRUE(tokenizer_->is_end(0));
  EXPECT_FALSE(tokenizer_->is_end(1));
  EXPECT_EQ(tokenizer_->begin_token(), -1) << "add_bos_token is false";
}

TEST_F(DefaultModel, EveryDigitIsATokenOfItsOwn) {
  for (const TokenId id : encode("x1234567890 2024"))
    EXPECT_LE(tokenizer_->piece(id, false, false).size(), 1U);
}

TEST_F(DefaultModel, InvalidUtf8IsRefusedByOffset) {
  const auto ids = tokenizer_->encode("abc\xC3(", false);
  ASSERT_FALSE(ids.has_value());
  EXPECT_EQ(ids.error().code, ErrorCode::malformed);
  EXPECT_NE(ids.error().message.find("byte 3"), std::string::npos) << ids.error().message;
}

TEST_F(DefaultModel, IdsOutsideTheVocabularyAreEmpty) {
  EXPECT_EQ(tokenizer_->piece(-1, true, true), "");
  EXPECT_EQ(tokenizer_->piece(49152, true, true), "");
}

TEST_F(DefaultModel, BytesWithoutATokenAreLeftOut) {
  EXPECT_EQ(tokenizer_->decode(encode("a\x04z")), "az") << "the vocabulary has no U+0004";
}

TEST_F(DefaultModel, RandomTextComesBack) {
  Random random(1);
  std::uniform_int_distribution<int> kind(0, 5);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      switch (kind(random)) {
        case 0:
          text += ' ';
          break;
        case 1:
          append_utf8(text, 0x80U + random() % 0x700U);
          break;
        case 2:
          append_utf8(text, 0xE000U + random() % 0x1F00U);
          break;
        case 3:
          append_utf8(text, 0x10000U + random() % 0x20000U);
          break;
        default:
          text += static_cast<char>(32 + random() % 95);
      }
    }
    EXPECT_EQ(tokenizer_->decode(encode(text)), text);
  }
}

TEST_F(DefaultModel, CachedWordsEncodeAsTheFirstTime) {
  // Long enough for the cache; each sentence alone is not.
  const std::string sentence = " The quick brown fox, it's said, jumps over 13 lazy dogs naïvely.";
  const Ids once = encode(sentence);
  std::string many;
  Ids expected;
  for (int i = 0; i < 400; ++i) {
    many += sentence;
    expected.insert(expected.end(), once.begin(), once.end());
  }
  EXPECT_EQ(encode(many), expected);
}

// The heap must make the same choices as the scan: a repeated word of 63 and of 650 tokens under the same merges.
TEST(ByteBpe, LongWordsMergeByTheSameRule) {
  const auto tokenizer = load(test::small_metadata());
  ASSERT_NE(tokenizer, nullptr);
  const auto repeat = [](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "abcabaacb";
    return text;
  };
  const Ids short_ids = test::encode(*tokenizer, repeat(7), false);
  const Ids unit(short_ids.begin(), short_ids.begin() + static_cast<int>(short_ids.size()) / 7);
  Ids expected;
  for (int i = 0; i < 72; ++i) expected.insert(expected.end(), unit.begin(), unit.end());
  EXPECT_EQ(test::encode(*tokenizer, repeat(72), false), expected);
}

TEST_F(DefaultModel, AMillionLettersWithoutASpaceAreNotQuadratic) {
  constexpr std::size_t kLength = 1000000;
  for (const char* pattern : {"a", "A", "ab", "=", " ", "\n", "xq"}) {
    std::string text;
    while (text.size() < kLength) text += pattern;
    const auto start = std::chrono::steady_clock::now();
    const Ids ids = encode(text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20.0)
        << pattern;  // sanitizers and emulators included; quadratic would be hours
    EXPECT_EQ(tokenizer_->decode(ids), text);
  }
}

TEST(ByteBpe, UserDefinedTokensAreFoundInEveryText) {
  test::Metadata m = test::small_metadata();
  m.array<std::string>("tokenizer.ggml.tokens").push_back("  x");
  m.array<std::int32_t>("tokenizer.ggml.token_type").push_back(4);
  const auto tokenizer = load(m);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(test::encode(*tokenizer, "a  xb", false), (Ids{2, 13, 3}));
  EXPECT_EQ(tokenizer->decode(Ids{2, 13, 3}), "a  xb");
}

TEST(ByteBpe, TheLongestSpecialTokenWins) {
  test::Metadata m = test::small_metadata();
  for (const char* text : {"<a", "<ab>", "<ab"}) {
    m.array<std::string>("tokenizer.ggml.tokens").push_back(text);
    m.array<std::int32_t>("tokenizer.ggml.token_type").push_back(3);
  }
  const auto tokenizer = load(m);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(test::encode(*tokenizer, "<ab><abc<ac", true), (Ids{14, 15, 4, 13, 4}));
}

// The merge has its turn by rank, so it takes the "b" from the one after it.
TEST(ByteBpe, WhatMergesIntoNoTokenIsSpelledInBytes) {
  test::Metadata m = test::small_metadata();
  m.array<std::string>("tokenizer.ggml.merges") = {"b c", "a b"};
  const auto tokenizer = load(m);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(test::encode(*tokenizer, "abc ab", false), (Ids{2, 3, 4, 5, 6}));
}

TEST(ByteBpe, WhatMergesIntoNoTokenTakesItsWholePartsWithIt) {
  test::Metadata m = test::small_metadata();
  m.array<std::string>("tokenizer.ggml.merges") = {"a b", "ab ab"};
  const auto tokenizer = load(m);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(test::encode(*tokenizer, "ababab", false), (Ids{2, 3, 2, 3, 6}));
}

// Words of more than 64 bytes merge in a heap.
TEST(ByteBpe, LongWordsSpellWhatMergesIntoNoTokenToo) {
  test::Metadata m = test::small_metadata();
  m.array<std::string>("tokenizer.ggml.merges") = {"b c", "a b"};
  const auto tokenizer = load(m);
  ASSERT_NE(tokenizer, nullptr);
  std::string text;
  Ids expected;
  for (int i = 0; i < 50; ++i) {
    text += "abcab";
    expected.insert(expected.end(), {2, 3, 4, 6});
  }
  EXPECT_EQ(test::encode(*tokenizer, text, false), expected);
}

TEST(ByteBpe, ChatMarkersAreSpecialWhateverTheFileSays) {
  test::Metadata m = test::small_metadata();
  // user-defined: would be found in messages
  m.array<std::int32_t>("tokenizer.ggml.token_type")[1] = 4;
  const auto tokenizer = load(m);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(test::encode(*tokenizer, "<|im_end|>", true), Ids{1});
  EXPECT_NE(test::encode(*tokenizer, "<|>", false), Ids{1});
  EXPECT_TRUE(tokenizer->is_special(1));
}

TEST(Tokenizer, AFileWithoutOneHasNone) {
  const auto tokenizer = test::load_tokenizer(test::Metadata(), 10);
  ASSERT_TRUE(tokenizer.has_value());
  EXPECT_EQ(*tokenizer, nullptr);
}

#ifndef RUNNEL_SENTENCEPIECE
TEST(Tokenizer, WithoutSentencepieceItsModelsAreUnsupportedByOption) {
  test::Metadata m = test::small_metadata();
  m.set("tokenizer.ggml.model", std::string("llama"));
  const auto tokenizer = test::load_tokenizer(m, 64);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::unsupported);
  EXPECT_NE(tokenizer.error().message.find("RUNNEL_SENTENCEPIECE"), std::string::npos);
}
#endif

struct Hostile {
  const char* name;
  void (*spoil)(test::Metadata&);
  ErrorCode code;
  const char* says;
};

class HostileData : public testing::TestWithParam<Hostile> {};

TEST_P(HostileData, IsAnErrorThatNamesIt) {
  test::Metadata m = test::small_metadata();
  GetParam().spoil(m);
  const auto tokenizer = test::load_tokenizer(m, 64);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_EQ(tokenizer.error().code, GetParam().code) << tokenizer.error().message;
  EXPECT_NE(tokenizer.error().message.find(GetParam().says), std::string::npos)
      << tokenizer.error().message;
}

using M = test::Metadata;
constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";
constexpr const char* kMerges = "tokenizer.ggml.merges";
using Strings = std::vector<std::string>;

INSTANTIATE_TEST_SUITE_P(
    ByteBpe, HostileData,
    testing::Values(
        Hostile{"UnknownModel", [](M& m) { m.set("tokenizer.ggml.model", std::string("bert")); },
                ErrorCode::unsupported, "bert"},
        Hostile{"ModelOfAnotherType", [](M& m) { m.set("tokenizer.ggml.model", std::uint8_t{1}); },
                ErrorCode::malformed, "tokenizer.ggml.model"},
        Hostile{"TokensWithoutModel", [](M& m) { m.erase("tokenizer.ggml.model"); },
                ErrorCode::malformed, "tokenizer.ggml.model"},
        Hostile{"UnknownPreTokenizer",
                [](M& m) { m.set("tokenizer.ggml.pre", std::string("llama-bpe")); },
                ErrorCode::unsupported, "llama-bpe"},
        Hostile{"NoTokens", [](M& m) { m.erase(kTokens); }, ErrorCode::malformed, kTokens},
        Hostile{"TokensOfAnotherType",
                [](M& m) { m.set(kTokens, GgufArray(std::vector<float>{1})); },
                ErrorCode::malformed, kTokens},
        Hostile{"NoEntries", [](M& m) { m.set(kTokens, GgufArray(Strings{})); },
                ErrorCode::malformed, "empty"},
        Hostile{"EmptyToken", [](M& m) { m.array<std::string>(kTokens)[4] = ""; },
                ErrorCode::malformed, "[4]"},
        Hostile{"TokenNotUtf8", [](M& m) { m.array<std::string>(kTokens)[4] = "\xFF"; },
                ErrorCode::malformed, "[4]"},
        Hostile{"TokenTwice", [](M& m) { m.array<std::string>(kTokens)[4] = "a"; },
                ErrorCode::malformed, "twice"},
        Hostile{"MoreTokensThanRows",
                [](M& m) {
                  for (int i = 0; i < 60; ++i)
                    m.array<std::string>(kTokens).push_back("x" + std::to_string(i));
                },
                ErrorCode::mismatch, "73"},
        Hostile{"TypesOfAnotherLength", [](M& m) { m.array<std::int32_t>(kTypes).pop_back(); },
                ErrorCode::malformed, kTypes},
        Hostile{"TypeOutOfRange", [](M& m) { m.array<std::int32_t>(kTypes)[3] = 7; },
                ErrorCode::malformed, "[3]"},
        Hostile{"TypesOfAnotherType", [](M& m) { m.set(kTypes, std::string("x")); },
                ErrorCode::malformed, kTypes},
        Hostile{"NoMerges", [](M& m) { m.erase(kMerges); }, ErrorCode::malformed, kMerges},
        Hostile{"MergesOfAnotherType",
                [](M& m) { m.set(kMerges, GgufArray(std::vector<std::int32_t>{1})); },
                ErrorCode::malformed, kMerges},
        Hostile{"MergeWithoutSpace", [](M& m) { m.array<std::string>(kMerges)[1] = "abc"; },
                ErrorCode::malformed, "[1]"},
        Hostile{"MergeWithTwoSpaces", [](M& m) { m.array<std::string>(kMerges)[1] = "a b c"; },
                ErrorCode::malformed, "[1]"},
        Hostile{"ModelOfControlBytes",
                [](M& m) { m.set("tokenizer.ggml.model", std::string("\x1b[31mx")); },
                ErrorCode::unsupported, "'\\x1b[31mx'"},
        Hostile{"PreTokenizerOfControlBytes",
                [](M& m) { m.set("tokenizer.ggml.pre", std::string("\x1b[31mx")); },
                ErrorCode::unsupported, "'\\x1b[31mx'"},
        Hostile{"TokenOfControlBytesTwice",
                [](M& m) {
                  m.array<std::string>(kTokens)[4] = m.array<std::string>(kTokens)[5] = "\x1b";
                },
                ErrorCode::malformed, "'\\x1b'"},
        Hostile{"MergeOfControlBytes", [](M& m) { m.array<std::string>(kMerges)[1] = "\x1b c"; },
                ErrorCode::malformed, "'\\x1b c'"},
        Hostile{"MergeOfUnknownLeft", [](M& m) { m.array<std::string>(kMerges)[1] = "q c"; },
                ErrorCode::malformed, "left"},
        Hostile{"MergeOfUnknownRight", [](M& m) { m.array<std::string>(kMerges)[1] = "a q"; },
                ErrorCode::malformed, "right"},
        Hostile{"MergeOfEmpty", [](M& m) { m.array<std::string>(kMerges)[1] = " a"; },
                ErrorCode::malformed, "left"},
        Hostile{"MergeTwice", [](M& m) { m.array<std::string>(kMerges)[1] = "a b"; },
                ErrorCode::malformed, "twice"},
        Hostile{"MergeToSpecial",
                [](M& m) {
                  m.array<std::string>(kTokens)[6] = "<|im_end|";
                  m.array<std::string>(kMerges) = {"<|im_end| >"};
                },
                ErrorCode::malformed, "special"},
        Hostile{"SpecialTooLong",
                [](M& m) { m.array<std::string>(kTokens)[0] = std::string(2000, 'x'); },
                ErrorCode::malformed, "2000"},
        Hostile{"EndOutOfRange",
                [](M& m) { m.set("tokenizer.ggml.eos_token_id", std::uint32_t{13}); },
                ErrorCode::malformed, "13"},
        Hostile{"EndOfAnotherType",
                [](M& m) { m.set("tokenizer.ggml.eos_token_id", std::string("</s>")); },
                ErrorCode::malformed, "eos_token_id"},
        Hostile{"AddBeginOfAnotherType", [](M& m) { m.set("tokenizer.ggml.add_bos_token", 1.5F); },
                ErrorCode::malformed, "add_bos_token"}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace runnel
