// SPDX-License-Identifier: Apache-2.0
// The tokenizer "qwen2" (the 0.5B model's) against its reference encodings, and its expression word by word.
#include <gtest/gtest.h>

#include "runtime/text/chat_template.h"
#include "runtime/text/nfc.h"
#include "runtime/text/pre_tokenizer.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/utf8.h"
#include "tests/text/tokenizer_fixture.h"

namespace runnel {
namespace {

using Ids = std::vector<TokenId>;
using Words = std::vector<std::string>;

std::string nfc(std::string_view text) {
  std::string storage;
  return std::string(normalise_nfc(text, storage));
}

class Qwen2 : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    file_ = test::qwen2_metadata().open();
    auto tokenizer = Tokenizer::from_gguf(*file_, test::kQwen2Rows);
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    tokenizer_ = tokenizer.value_or(nullptr);
  }
  static void TearDownTestSuite() {
    tokenizer_.reset();
    file_.reset();
  }
  void SetUp() override { ASSERT_NE(tokenizer_, nullptr); }
  static Ids encode(std::string_view text, bool parse_special = false) {
    return test::encode(*tokenizer_, text, parse_special);
  }
  static std::shared_ptr<const GgufFile> file_;
  static std::shared_ptr<const Tokenizer> tokenizer_;
};
std::shared_ptr<const GgufFile> Qwen2::file_;
std::shared_ptr<const Tokenizer> Qwen2::tokenizer_;

TEST_F(Qwen2, EncodesAllReferenceTexts) {
  const nlohmann::json cases = test::read_json("default_model_05b/tokenizer.json");
  ASSERT_EQ(cases.size(), 251U);
  for (const auto& c : cases) {
    EXPECT_EQ(encode(c["text"].get<std::string>(), true), c["ids"].get<Ids>()) << c["text"];
  }
}

TEST_F(Qwen2, DecodesAllReferenceTexts) {
  const nlohmann::json cases = test::read_json("default_model_05b/tokenizer.json");
  for (const auto& c : cases) {
    EXPECT_EQ(tokenizer_->decode(c["ids"].get<Ids>(), true), nfc(c["text"].get<std::string>()));
  }
}

TEST_F(Qwen2, TextsInOtherFormsAreOneText) {
  EXPECT_EQ(encode("Cafe\xCC\x81 \xE2\x84\xAB"), encode("Café Å"));
  // The text between special tokens is normalised by itself.
  EXPECT_EQ(encode("e<|im_end|>\xCC\x81", true).size(), 2 + encode("\xCC\x81").size());
}

TEST_F(Qwen2, RandomTextComesBackInFormC) {
  test::Random random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      const std::uint32_t kind = random() % 6;
      if (kind == 0) append_utf8(text, 0x300U + random() % 0x70U);
      if (kind == 1) append_utf8(text, 0x80U + random() % 0x2000U);
      if (kind == 2) append_utf8(text, 0xAC00U + random() % 0x2B00U);
      if (kind == 3) append_utf8(text, 0x10000U + random() % 0x20000U);
      if (kind > 3) text += static_cast<char>(random() % 128);
    }
    EXPECT_EQ(tokenizer_->decode(encode(text)), nfc(text));
  }
}

TEST_F(Qwen2, EveryByteHasAToken) {
  for (std::uint32_t c = 0; c < 0x800; ++c) {
    std::string text;
    append_utf8(text, c);
    EXPECT_EQ(tokenizer_->decode(encode(text)), nfc(text)) << c;
  }
}

TEST_F(Qwen2, RepliesEndAtBothEnds) {
  EXPECT_TRUE(tokenizer_->is_end(65527)) << "<|im_end|>";
  EXPECT_TRUE(tokenizer_->is_end(65525)) << "<|endoftext|>";
  EXPECT_FALSE(tokenizer_->is_end(65526));
  EXPECT_EQ(tokenizer_->begin_token(), -1);
}

TEST_F(Qwen2, ToolMarksAreText) {
  EXPECT_EQ(encode("<tool_call>", false), Ids{65528});
  EXPECT_EQ(tokenizer_->decode(Ids{65528, 65529}), "<tool_call></tool_call>");
}

TEST_F(Qwen2, ItsTemplateIsChatmlWithItsPrompt) {
  const auto format = chat_format_from_gguf(*file_);
  ASSERT_TRUE(format) << format.error().message;
  EXPECT_EQ(format->style, ChatStyle::chatml) << format->reason;
  EXPECT_EQ(format->default_system_prompt, "You are Runnel, a helpful assistant.");
}

TEST_F(Qwen2, ReproducesTheReferencePrompts) {
  const auto format = chat_format_from_gguf(*file_);
  ASSERT_TRUE(format) << format.error().message;
  const nlohmann::json cases = test::read_json("default_model_05b/greedy.json");
  ASSERT_EQ(cases.size(), 12U);
  for (const auto& c : cases) {
    const ChatMessage message{"user", c["user"].get<std::string>()};
    const auto ids =
        encode_chat(*tokenizer_, *format, std::span(&message, 1), {true, ChatContinuation::start});
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(*ids, c["prompt_ids"].get<Ids>()) << c["user"];
  }
}

Words words_of(std::string_view text) {
  const auto rule = PreTokenizer::create("qwen2");
  EXPECT_TRUE(rule) << rule.error().message;
  auto cutter = rule->cutter();
  (*cutter)->start(text);
  Words words;
  while (true) {
    const auto word = (*cutter)->next();
    EXPECT_TRUE(word) << word.error().message;
    if (!word || word->empty()) return words;
    words.emplace_back(*word);
  }
}

TEST(Qwen2Words, AreCutAsTheExpressionSays) {
  const std::pair<std::string, Words> cases[] = {
      {"Hello world", {"Hello", " world"}},
      {"a1b22", {"a", "1", "b", "2", "2"}},
      {" 12", {" ", "1", "2"}},
      {"I'm you'LL 'tis", {"I", "'m", " you", "'LL", " '", "tis"}},
      {"(foo) .bar", {"(foo", ")", " .", "bar"}},
      {"a\tb", {"a", "\tb"}},
      {"x;\n\ny", {"x", ";\n\n", "y"}},
      {"a  \n  b", {"a", "  \n", " ", " b"}},
      {"a \n \r\n  ", {"a", " \n \r\n", "  "}},
      {"\n\n  x", {"\n\n", " ", " x"}},
      {"   ", {"   "}},
      {"  !", {" ", " !"}},
      {"\xE2\x80\xAFx",
       {"\xE2\x80\xAFx"}},  // a narrow space is no letter or line break, so it joins
      {"...\n", {"...\n"}},
      {"'S", {"'S"}},
      {"'\xC5\xBFx", {"'\xC5\xBF", "x"}},  // the long s is an s whatever its case
  };
  for (const auto& [text, words] : cases) EXPECT_EQ(words_of(text), words) << text;
}

TEST(Qwen2Words, AreTheWholeText) {
  test::Random random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string text, joined;
    for (int i = 0; i < 30; ++i) text += "a1 \n\r\t'S.;é"[random() % 10];
    if (first_invalid_utf8(text) != std::string_view::npos) continue;
    for (const std::string& word : words_of(text)) joined += word;
    EXPECT_EQ(joined, text);
  }
}

TEST_F(Qwen2, AMillionCharactersAreNotQuadratic) {
  constexpr std::size_t kLength = 1'000'000;
  for (const char* pattern : {"a", "=", " ", "\n", " \n", "'", "\xCC\x81", "\xEA\xB0\x80"}) {
    std::string text;
    while (text.size() < kLength) text += pattern;
    EXPECT_EQ(tokenizer_->decode(encode(text)), nfc(text)) << pattern;
  }
}

}  // namespace
}  // namespace runnel
