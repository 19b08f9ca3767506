// SPDX-License-Identifier: Apache-2.0
// Which tokens a mask has: none that is no text, none that ends a text too soon, and only such bytes as are UTF-8.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/constraint/grammar_engine.h"

namespace runnel::test {
namespace {

class Mask : public ::testing::Test {
 protected:
  enum : TokenId { kSpecial = 256, kEnd, kHalf, kRest, kSurrogate, kTwo, kCount };

  void SetUp() override {
    GrammarVocabulary all;
    for (int b = 0; b < 256; ++b) all.pieces.emplace_back(1, static_cast<char>(b));
    all.pieces.emplace_back();                // kSpecial
    all.pieces.emplace_back();                // kEnd
    all.pieces.emplace_back("x\xC3");         // kHalf: ends inside a character
    all.pieces.emplace_back("\xA4y");         // kRest: begins inside one
    all.pieces.emplace_back("\xED\xA0\x80");  // kSurrogate
    all.pieces.emplace_back("ab");            // kTwo
    all.ends = {kEnd};
    auto made = runnel_grammar_engine()->compiler(all);
    ASSERT_TRUE(made) << made.error().message;
    compiler_ = *made;
  }
  void begin(const std::string& expression) {
    auto grammar = compiler_->compile({.kind = ConstraintKind::regex, .text = expression});
    ASSERT_TRUE(grammar) << grammar.error().message;
    grammar_ = *grammar;
    auto matcher = grammar_->begin();
    ASSERT_TRUE(matcher) << matcher.error().message;
    matcher_ = *std::move(matcher);
  }
  bool may(TokenId token) {
    std::vector<std::uint32_t> words((kCount + 31) / 32);
    EXPECT_TRUE(matcher_->mask(words));
    return ((words[static_cast<std::size_t>(token) / 32] >> (token % 32)) & 1U) != 0;
  }

  std::shared_ptr<const GrammarCompiler> compiler_;
  std::shared_ptr<const CompiledGrammar> grammar_;
  std::unique_ptr<GrammarMatcher> matcher_;
};

TEST_F(Mask, HasTheEndOnlyWhereTheTextMayEnd) {
  begin("[0-9]{2,3}");
  EXPECT_FALSE(may(kEnd));
  ASSERT_TRUE(matcher_->accept('1'));
  EXPECT_FALSE(may(kEnd));
  EXPECT_FALSE(matcher_->accept(kEnd));
  ASSERT_TRUE(matcher_->accept('2'));
  EXPECT_TRUE(may(kEnd));
  EXPECT_TRUE(may('3'));
  ASSERT_TRUE(matcher_->accept('3'));
  EXPECT_TRUE(may(kEnd));
  EXPECT_FALSE(may('4'));
}

TEST_F(Mask, HasNoSpecialToken) {
  begin(".*");
  EXPECT_FALSE(may(kSpecial));
  EXPECT_FALSE(matcher_->accept(kSpecial));
  EXPECT_TRUE(may(kTwo));
}

TEST_F(Mask, HasTokensThatEndInsideACharacterAndWhatCompletesIt) {
  begin("x[äö]y");
  EXPECT_TRUE(may(kHalf));
  ASSERT_TRUE(matcher_->accept(kHalf));
  EXPECT_FALSE(matcher_->complete());
  EXPECT_FALSE(may(kEnd));
  EXPECT_TRUE(may(kRest));
  EXPECT_TRUE(may(0xB6));   // ö
  EXPECT_FALSE(may(0xBC));  // ü
  ASSERT_TRUE(matcher_->accept(kRest));
  EXPECT_TRUE(matcher_->complete());
}

TEST_F(Mask, HasNoBytesThatMakeNoCharacter) {
  begin("[^a]*");
  EXPECT_FALSE(may(kSurrogate));
  struct Pair {
    int lead, good, bad;
  };
  for (const auto& [lead, good, bad] : {Pair{0xED, 0x9F, 0xA0}, Pair{0xE0, 0xA0, 0x9F},
                                        Pair{0xF0, 0x90, 0x8F}, Pair{0xF4, 0x8F, 0x90}}) {
    begin("[^a]*");
    ASSERT_TRUE(matcher_->accept(lead));
    EXPECT_TRUE(may(good)) << lead;
    EXPECT_FALSE(may(bad)) << lead;
    const auto copy = matcher_->clone();
    ASSERT_TRUE(copy);
    EXPECT_FALSE((*copy)->accept(bad)) << lead;
    EXPECT_FALSE((*copy)->accept_bytes(std::string(1, static_cast<char>(bad)))) << lead;
    EXPECT_TRUE((*copy)->accept(good)) << lead;
  }
}

}  // namespace
}  // namespace runnel::test
