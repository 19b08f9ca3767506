// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/world_tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "runtime/text/world_vocabulary.h"
#include "tests/text/tokenizer_fixture.h"

namespace runnel::test {
namespace {

constexpr std::int32_t kRows = 65'536;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

Metadata world_metadata(const std::vector<std::string>& tokens, std::int32_t rows) {
  Metadata metadata;
  const Status set = world_to_gguf(tokens, rows, [&](std::string key, GgufValue value) {
    metadata.set(std::move(key), std::move(value));
  });
  EXPECT_TRUE(set.has_value()) << set.error().message;
  return metadata;
}

/// The published vocabulary, loaded once.
const Tokenizer& world() {
  static const std::shared_ptr<const Tokenizer> tokenizer = [] {
    const auto tokens = world_vocabulary();
    EXPECT_TRUE(tokens.has_value());
    auto loaded = load_tokenizer(world_metadata(*tokens, kRows), kRows);
    EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
    return *loaded;
  }();
  return *tokenizer;
}

TEST(WorldTokenizer, EncodesWhatTheOriginalEncodes) {
  const nlohmann::json cases = read_json("world/encodings.json");
  ASSERT_EQ(cases.size(), 500U);
  for (const auto& c : cases) {
    const std::string bytes = from_hex(c.at("bytes"));
    const auto ids = c.at("ids").get<std::vector<TokenId>>();
    EXPECT_EQ(encode(world(), bytes), ids) << c.at("bytes");
    EXPECT_EQ(world().decode(ids), bytes) << c.at("bytes");
  }
}

TEST(WorldTokenizer, HasTheIdsOfThePublishedVocabulary) {
  EXPECT_EQ(encode(world(), "\n\n"), std::vector<TokenId>{261});
  EXPECT_EQ(encode(world(), "\xE3\x80\x82\n"), std::vector<TokenId>{28329});
  EXPECT_EQ(encode(world(), " \n\n"), std::vector<TokenId>{3336});
  EXPECT_EQ(encode(world(), "\n\n "), std::vector<TokenId>{3329});
  EXPECT_EQ(encode(world(), std::string(128, ' ')), std::vector<TokenId>{65529});
}

TEST(WorldTokenizer, EndsAtTokenZeroAlone) {
  EXPECT_TRUE(world().is_end(0));
  EXPECT_FALSE(world().is_end(261));  // the file's eot
  EXPECT_FALSE(world().is_special(261));
  EXPECT_TRUE(world().is_special(0));
  EXPECT_TRUE(world().is_special(kRows - 1));  // unused
  EXPECT_EQ(world().begin_token(), -1);
  EXPECT_EQ(world().piece(0, false, false), "");
  EXPECT_EQ(world().piece(0, false, true), "<s>");
}

TEST(WorldTokenizer, TextDoesNotSpellSpecialTokens) {
  EXPECT_EQ(encode(world(), "a<s>b", true), (std::vector<TokenId>{98, 0, 99}));
  for (const TokenId id : encode(world(), "a<s>b[PAD65530]")) EXPECT_FALSE(world().is_special(id));
}

TEST(WorldTokenizer, EveryTokenIsEncodedAsItself) {
  for (TokenId id = 1; id < 65'530; ++id) {
    const auto ids = encode(world(), world().piece(id, false, false));
    ASSERT_EQ(ids, std::vector<TokenId>{id});
  }
}

// Walks down the longest branch that holds no token, again and again.
TEST(WorldTokenizer, TextThatAlmostMatchesTakesBoundedTime) {
  std::string text;
  while (text.size() < 4U << 20U) text += "//" + std::string(63, '-') + "//";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(encode(world(), text).empty());
  // Generous: a hundred times what it takes. Quadratic time would be hours.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(WorldTokenizer, DropsBytesThatNoTokenSpells) {
  const auto tokenizer = load_tokenizer(world_metadata({"a", "abcd"}, 3), 3);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_EQ(encode(**tokenizer, "abcabcd-"), (std::vector<TokenId>{1, 1 + 1}));
}

TEST(WorldTokenizer, EscapesAsPythonDoes) {
  const std::map<std::string, std::string> spelled = {{"a b", "a b"},
                                                      {"\n\t\r\\", "\\n\\t\\r\\\\"},
                                                      {"it's", "it's"},
                                                      {"\"", "\""},
                                                      {"'\"", "\\'\""},
                                                      {std::string("\0\x7F", 2), "\\x00\\x7f"},
                                                      {"\xC3\xA9", "\\xc3\\xa9"}};
  for (const auto& [bytes, escaped] : spelled) {
    EXPECT_EQ(escape_world_token(bytes), escaped);
    const auto back = unescape_world_token(escaped);
    ASSERT_TRUE(back.has_value()) << escaped;
    EXPECT_EQ(*back, bytes);
  }
}

struct Broken {
  std::vector<std::string> texts;
  std::string message;
};

TEST(WorldTokenizer, RefusesBrokenVocabulariesByEntry) {
  const Broken cases[] = {
      {{"<s>", "a\\"}, "tokenizer.ggml.tokens[1]: 'a\\' ends in a backslash, expected an escape"},
      {{"<s>", "\\x4"}, "tokenizer.ggml.tokens[1]: '\\x4' has \\x without two hexadecimal digits"},
      {{"<s>", "\\xg0"},
       "tokenizer.ggml.tokens[1]: '\\xg0' has \\x without two hexadecimal digits"},
      {{"<s>", "\x1b[31m\\"},
       "tokenizer.ggml.tokens[1]: '\\x1b[31m\\' ends in a backslash, expected an escape"},
      {{"<s>", "ab", "a\\x62"}, "tokenizer.ggml.tokens[2]: is the same as [1]"},
      {{"<s>", std::string(1025, 'a')},
       "tokenizer.ggml.tokens[1]: has 1025 bytes, at most 1024 are read"},
  };
  for (const Broken& c : cases) {
    Metadata metadata;
    metadata.set("tokenizer.ggml.model", std::string("rwkv"))
        .set("tokenizer.ggml.tokens", GgufArray(c.texts));
    const auto tokenizer = load_tokenizer(metadata, 3);
    ASSERT_FALSE(tokenizer.has_value()) << c.message;
    EXPECT_EQ(tokenizer.error().message, c.message);
  }
}

TEST(WorldVocabulary, ReadsPythonLiterals) {
  const auto tokens = parse_world_vocabulary(
      "1 '\\x00' 1\n2 b'\\x80' 1\n3 \"it's\" 4\n4 '\\u3000' 3\r\n5 '\xE4\xB8\xAD' 3\n6 '\\xe9' 2\n"
      "7 ' ' 1\n8 '\\\\\\'\"' 3\n9 '\\U0001f600' 4");
  ASSERT_TRUE(tokens.has_value()) << tokens.error().message;
  EXPECT_EQ(*tokens, (std::vector<std::string>{std::string(1, '\0'), "\x80", "it's", "\xE3\x80\x80",
                                               "\xE4\xB8\xAD", "\xC3\xA9", " ", "\\'\"",
                                               "\xF0\x9F\x98\x80"}));
}

TEST(WorldVocabulary, NamesTheBrokenLine) {
  for (const char* line : {"2 'a' 2", "3 'a' 1", "2 'a", "2 a 1", "2 '\\u12' 1", "2 '\\ud800' 3",
                           "2 b'\\u0041' 1", "2 '' 0", "", "2", "2 '\\' 1"}) {
    const auto tokens = parse_world_vocabulary(std::string("1 'x' 1\n") + line + "\n");
    ASSERT_FALSE(tokens.has_value()) << line;
    EXPECT_EQ(tokens.error().message,
              "line 2: expected this number, a Python literal and its bytes");
  }
}

TEST(WorldVocabulary, HasToFitTheEmbedding) {
  const Status set = world_to_gguf({"a", "b"}, 2, [](const std::string&, const GgufValue&) {});
  ASSERT_FALSE(set.has_value());
  EXPECT_EQ(set.error().code, ErrorCode::mismatch);
}

}  // namespace
}  // namespace runnel::test
