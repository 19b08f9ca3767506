// SPDX-License-Identifier: Apache-2.0
// Model metadata in memory, and the default model's tokenizer rebuilt from its list of merges.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/io/gguf.h"
#include "runtime/text/byte_alphabet.h"
#include "runtime/text/tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {

/// std::mt19937 whose results are 32-bit by type too.
class Random {
 public:
  using result_type = std::uint32_t;
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(engine_()); }
  static constexpr std::uint32_t min() { return 0; }
  static constexpr std::uint32_t max() { return 0xFFFFFFFF; }

 private:
  std::mt19937 engine_;
};

/// Keys of a model file to be.
class Metadata {
 public:
  Metadata& set(std::string key, GgufValue value) {
    values_[std::move(key)] = std::move(value);
    return *this;
  }
  Metadata& erase(const std::string& key) {
    values_.erase(key);
    return *this;
  }
  template <class T>
  std::vector<T>& array(const std::string& key) {
    return std::get<std::vector<T>>(std::get<GgufArray>(values_.at(key)));
  }

  /// A file with these keys, written and opened again.
  std::shared_ptr<const GgufFile> open() const {
    const TemporaryDirectory directory;
    GgufWriter writer;
    for (const auto& [key, value] : values_) writer.set(key, value);
    const Status written = writer.write(directory.path() / "keys.gguf");
    EXPECT_TRUE(written.has_value()) << written.error().message;
    auto file = GgufFile::open(directory.path() / "keys.gguf");
    EXPECT_TRUE(file.has_value()) << file.error().message;
    return file.value_or(nullptr);
  }

 private:
  std::map<std::string, GgufValue> values_;
};

inline Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const Metadata& metadata,
                                                               std::int32_t rows) {
  const auto file = metadata.open();
  if (file == nullptr) return Error{ErrorCode::internal, "the test wrote no file"};
  return Tokenizer::from_gguf(*file, rows);
}

inline std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text,
                                   bool parse_special = false) {
  auto ids = tokenizer.encode(text, parse_special);
  EXPECT_TRUE(ids.has_value()) << ids.error().message;
  return ids ? *std::move(ids) : std::vector<TokenId>();
}

inline std::string read_data(const std::string& name) {
  std::ifstream in(std::string(RUNNEL_TEST_DATA "/") + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}

inline std::vector<std::string> read_lines(const std::string& name) {
  std::istringstream in(read_data(name));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline nlohmann::json read_json(const std::string& name) {
  return nlohmann::json::parse(read_data(name));
}

/// Entries of the default model's vocabulary, in order: 17 special tokens, the bytes it knows, what each merge makes.
struct DefaultVocabulary {
  std::vector<std::string> specials = read_lines("default_model/special_tokens.txt");
  std::vector<std::string> merges = read_lines("default_model/merges.txt");
  std::vector<std::string> tokens = specials;

  DefaultVocabulary() {
    const ByteAlphabet alphabet;
    const auto add_byte = [&](int byte) {
      // Bytes that its training text did not contain.
      for (const int absent : {0x04, 0x06, 0x13, 0x14, 0x16, 0x1d, 0xc0, 0xc1, 0xf1, 0xf2})
        if (byte == absent) return;
      if (byte >= 0xf5) return;
      std::string spelled;
      alphabet.spell(static_cast<std::uint8_t>(byte), spelled);
      tokens.push_back(spelled);
    };
    // In the order of the characters that spell them: printable bytes first.
    const auto printable = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
    for (int b = 0; b < 256; ++b)
      if (printable(b)) add_byte(b);
    for (int b = 0; b < 256; ++b)
      if (!printable(b)) add_byte(b);
    for (std::string merge : merges) tokens.push_back(merge.erase(merge.find(' '), 1));
  }
};

inline Metadata default_model_metadata() {
  DefaultVocabulary v;
  std::vector<std::int32_t> types(v.tokens.size(), 1);
  std::fill_n(types.begin(), v.specials.size(), 3);
  Metadata m;
  m.set("tokenizer.ggml.model", std::string("gpt2"))
      .set("tokenizer.ggml.pre", std::string("smollm"))
      .set("tokenizer.ggml.tokens", GgufArray(std::move(v.tokens)))
      .set("tokenizer.ggml.token_type", GgufArray(std::move(types)))
      .set("tokenizer.ggml.merges", GgufArray(std::move(v.merges)))
      .set("tokenizer.ggml.bos_token_id", std::uint32_t{1})
      .set("tokenizer.ggml.eos_token_id", std::uint32_t{2})
      .set("tokenizer.ggml.add_bos_token", false)
      .set("tokenizer.chat_template",
           read_json("default_model/tokenizer_config.json")["chat_template"].get<std::string>());
  return m;
}
inline constexpr std::int32_t kDefaultRows = 49152;

/// Twenty tokens or so: letters, a few merges, one special token.
inline Metadata small_metadata() {
  Metadata m;
  m.set("tokenizer.ggml.model", std::string("gpt2"))
      .set("tokenizer.ggml.pre", std::string("gpt-2"))
      .set("tokenizer.ggml.tokens",
           GgufArray(std::vector<std::string>{"<|im_start|>", "<|im_end|>", "a", "b", "c", "Ġ",
                                              "ab", "abc", "Ġa", "<", "|", ">", "Ċ"}))
      .set("tokenizer.ggml.token_type",
           GgufArray(std::vector<std::int32_t>{3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}))
      .set("tokenizer.ggml.merges", GgufArray(std::vector<std::string>{"a b", "ab c", "Ġ a"}))
      .set("tokenizer.ggml.eos_token_id", std::uint32_t{1});
  return m;
}

}  // namespace runnel::test
