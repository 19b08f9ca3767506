// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <string>
#include <vector>

#include "tests/text/tokenizer_fixture.h"

namespace runnel::test {
namespace {

using Words = std::vector<std::string>;

Words cut(std::string_view name, std::string_view text) {
  auto rule = PreTokenizer::create(name);
  EXPECT_TRUE(rule.has_value()) << rule.error().message;
  auto cutter = rule->cutter();
  EXPECT_TRUE(cutter.has_value());
  (*cutter)->start(text);
  Words words;
  while (true) {
    const auto word = (*cutter)->next();
    EXPECT_TRUE(word.has_value()) << word.error().message;
    if (!word || word->empty()) return words;
    words.emplace_back(*word);
  }
}

TEST(PreTokenizer, OlmoAndMptCutAsGpt2) {
  const std::string text = "It's 2024,  isn't\n\nit? \xC3\xA9t\xC3\xA9 12\xC2\xBD";
  const Words words = {"It",         "'s", " 2024", ",",  " ", " isn",
                       "'t",         "\n", "\n",    "it", "?", " \xC3\xA9t\xC3\xA9",
                       " 12\xC2\xBD"};
  for (const char* name : {"gpt-2", "olmo", "mpt"}) EXPECT_EQ(cut(name, text), words) << name;
}

TEST(PreTokenizer, DefaultKeepsPunctuationAndThreeDigitsApart) {
  EXPECT_EQ(cut("default", "It's $1234567  now.. \xE2\x82\xAC 5"),
            (Words{"It", "'", "s", " ", "$", "123", "456", "7", " ", " now", "..", " \xE2\x82\xAC",
                   " ", "5"}));
  // Digits beyond ASCII come in runs, three ASCII digits among them apart.
  EXPECT_EQ(cut("default",
                "\xEF\xBC\x91"
                "23456 12\xC2\xBD"
                "345"),
            (Words{"\xEF\xBC\x91", "234", "56", " ", "12\xC2\xBD", "345"}));
}

/// The pieces of `text` by a rule that says how long the match at a place is, 0: none; what lies between matches is a
/// piece, too.
using Rule = std::function<std::size_t(std::string_view text, std::size_t at)>;
Words split(const Words& pieces, const Rule& rule) {
  Words out;
  for (const std::string& piece : pieces) {
    std::size_t gap = 0;
    for (std::size_t at = 0; at <= piece.size();) {
      const std::size_t length = at < piece.size() ? rule(piece, at) : 0;
      if (at < piece.size() && length == 0) {
        ++at;
        continue;
      }
      if (at > gap) out.push_back(piece.substr(gap, at - gap));
      if (length > 0) out.push_back(piece.substr(at, length));
      at += length > 0 ? length : 1;
      gap = at;
    }
  }
  return out;
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_other(char c) { return !is_letter(c) && !is_digit(c) && !is_space(c); }
bool is_mark(char c) {
  return is_other(c) && c != '`' && c != '\x01';
}  // of ASCII: a symbol, a control

std::size_t run(std::string_view text, std::size_t at, bool (*kind)(char)) {
  std::size_t n = 0;
  while (at + n < text.size() && kind(text[at + n])) ++n;
  return n;
}

/// GPT-2's expression without PCRE2, for ASCII.
std::size_t gpt2(std::string_view text, std::size_t at) {
  for (const std::string_view end : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.substr(at).starts_with(end)) return end.size();
  const std::size_t space = text[at] == ' ' ? 1 : 0;
  for (bool (*kind)(char) : {is_letter, is_digit, is_other})
    if (const std::size_t n = run(text, at + space, kind); n > 0) return space + n;
  const std::size_t spaces = run(text, at, is_space);
  return at + spaces == text.size() || spaces == 1 ? spaces : spaces - 1;
}

TEST(PreTokenizer, DefaultIsFourExpressionsInTurn) {
  constexpr std::string_view kAlphabet = "ab1234'st.,$+`\x01  \n\t";
  Random random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    const std::size_t length = 1 + random() % 24;
    while (text.size() < length) text += kAlphabet[random() % kAlphabet.size()];
    Words words = split({text}, [](auto t, auto at) { return run(t, at, is_mark); });
    words = split(words, gpt2);
    words = split(words, [](auto t, auto at) { return run(t, at, is_digit); });
    words = split(words, [](auto t, auto at) {
      return run(t, at, is_digit) >= 3 ? std::size_t{3} : std::size_t{0};
    });
    ASSERT_EQ(cut("default", text), words) << text;
  }
}

TEST(PreTokenizer, RefusesOthersByName) {
  for (const char* name : {"llama-bpe", "tekken", "", "gpt2"}) {
    const auto rule = PreTokenizer::create(name);
    ASSERT_FALSE(rule.has_value()) << name;
    EXPECT_EQ(rule.error().code, ErrorCode::unsupported);
    EXPECT_EQ(rule.error().message.find("pre-tokenizer '" + std::string(name) + "': is not one of"),
              0U);
  }
}

}  // namespace
}  // namespace runnel::test
