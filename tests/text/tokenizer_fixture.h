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

/// The printable characters that spell bytes, in the order of GPT-2's alphabet.
inline std::vector<int> bytes_in_order() {
  const auto printable = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
  std::vector<int> bytes;
  for (int b = 0; b < 256; ++b)
    if (printable(b)) bytes.push_back(b);
  for (int b = 0; b < 256; ++b)
    if (!printable(b)) bytes.push_back(b);
  return bytes;
}

/// A vocabulary rebuilt from a folder of tests/data: bytes, then what each merge makes.
struct Vocabulary {
  std::vector<std::string> specials;
  std::vector<std::string> merges;
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;

  explicit Vocabulary(const std::string& folder)
      : specials(read_lines(folder + "/special_tokens.txt")),
        merges(read_lines(folder + "/merges.txt")) {}

  void add_specials() {
    tokens.insert(tokens.end(), specials.begin(), specials.end());
    types.resize(tokens.size(), 3);
  }
  void add_text(const std::vector<int>& bytes) {
    const ByteAlphabet alphabet;
    for (const int byte : bytes) {
      std::string spelled;
      alphabet.spell(static_cast<std::uint8_t>(byte), spelled);
      tokens.push_back(spelled);
    }
    for (std::string merge : merges) tokens.push_back(merge.erase(merge.find(' '), 1));
    types.resize(tokens.size(), 1);
  }

  Metadata metadata(const char* pre_tokenizer, const std::string& folder, std::uint32_t begin,
                    std::uint32_t end) && {
    Metadata m;
    m.set("tokenizer.ggml.model", std::string("gpt2"))
        .set("tokenizer.ggml.pre", std::string(pre_tokenizer))
        .set("tokenizer.ggml.tokens", GgufArray(std::move(tokens)))
        .set("tokenizer.ggml.token_type", GgufArray(std::move(types)))
        .set("tokenizer.ggml.merges", GgufArray(std::move(merges)))
        .set("tokenizer.ggml.bos_token_id", begin)
        .set("tokenizer.ggml.eos_token_id", end)
        .set("tokenizer.ggml.add_bos_token", false)
        .set("tokenizer.chat_template",
             read_json(folder + "/tokenizer_config.json")["chat_template"].get<std::string>());
    return m;
  }
};

/// The bytes that the 135M model's training text contained.
inline std::vector<int> bytes_of_default_model() {
  std::vector<int> bytes = bytes_in_order();
  std::erase_if(bytes, [](int b) {
    for (const int absent : {0x04, 0x06, 0x13, 0x14, 0x16, 0x1d, 0xc0, 0xc1, 0xf1, 0xf2})
      if (b == absent) return true;
    return b >= 0xf5;
  });
  return bytes;
}

/// The 135M model's: 17 special tokens, the bytes it knows, the merges.
inline Metadata default_model_metadata() {
  Vocabulary v("default_model");
  v.add_specials();
  v.add_text(bytes_of_default_model());
  return std::move(v).metadata("smollm", "default_model", 1, 2);
}
inline constexpr std::int32_t kDefaultRows = 49152;

/// The 0.5B model's: all bytes, the merges, 11 special tokens, two of which are text to a decoder.
inline Metadata qwen2_metadata() {
  Vocabulary v("default_model_05b");
  v.add_text(bytes_in_order());
  v.add_specials();
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (v.tokens[i] == "<tool_call>" || v.tokens[i] == "</tool_call>") v.types[i] = 4;
  }
  return std::move(v).metadata("qwen2", "default_model_05b", 65526, 65527);
}
inline constexpr std::int32_t kQwen2Rows = 65536;

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
