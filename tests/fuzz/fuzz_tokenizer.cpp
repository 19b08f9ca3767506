// SPDX-License-Identifier: Apache-2.0
// Any metadata as a tokenizer, any text as its input; the same text as tokenizer.json, tokenizer.model.
//   input: 2 bytes n, 6 bytes unused, a GGUF file; the last n bytes are the text
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "runtime/io/gguf.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/json_file.h"
#include "runtime/text/sentencepiece_proto.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_json.h"
#include "runtime/text/utf8.h"
#include "runtime/text/utf8_stream.h"
#include "runtime/text/world_tokenizer.h"
#include "runtime/text/world_vocabulary.h"

namespace {

using runnel::TokenId;

void require(bool condition) {
  if (!condition) std::abort();
}

void use(const runnel::Tokenizer& tokenizer, std::string_view text) {
  const bool is_taken = runnel::first_invalid_utf8(text) == std::string_view::npos ||
                        dynamic_cast<const runnel::WorldTokenizer*>(&tokenizer) != nullptr;
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.encode(text, parse_special);
    require(ids.has_value() == is_taken);
    if (!ids) continue;
    runnel::Utf8Stream stream;
    for (const TokenId id : *ids) {
      require(id >= 0 && id < tokenizer.vocab_size());
      require(parse_special || !tokenizer.is_special(id));
      require(runnel::first_invalid_utf8(stream.push(tokenizer.piece(id, false, true))) ==
              std::string_view::npos);
    }
    (void)tokenizer.decode(*ids, true);
  }
  const std::vector<runnel::ChatMessage> messages = {{"user", std::string(text)}};
  for (const auto style :
       {runnel::ChatStyle::plain, runnel::ChatStyle::chatml, runnel::ChatStyle::rwkv}) {
    (void)encode_chat(tokenizer, {style, {}, {}, {}}, messages,
                      {true, runnel::ChatContinuation::start});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size <= 8) return 0;
  const std::size_t wanted = data[0] | static_cast<std::size_t>(data[1]) << 8;
  const std::size_t n = std::min(wanted, size - 8);
  const std::string_view text(reinterpret_cast<const char*>(data) + size - n, n);

  (void)runnel::parse_world_vocabulary(text);
  if (const auto token = runnel::unescape_world_token(text)) {
    const auto again = runnel::unescape_world_token(runnel::escape_world_token(*token));
    require(again && *again == *token);
  }
  if (const auto model = runnel::SentencepieceModel::parse(text)) {
    require(runnel::SentencepieceModel::parse(model->serialize()).has_value());
  }
  if (const auto json = runnel::parse_json(text, "input")) {
    (void)runnel::read_tokenizer_json(*json);
    (void)runnel::read_added_tokens(*json);
  }

  std::vector<std::uint64_t> aligned((size - 8 + 7) / 8);
  std::memcpy(aligned.data(), data + 8, size - 8);
  const auto file = runnel::GgufFile::parse(std::as_bytes(std::span(aligned)).first(size - 8));
  if (!file) return 0;
  (void)runnel::chat_format_from_gguf(**file);
  const auto tokenizer = runnel::Tokenizer::from_gguf(**file, 1 << 16);
  if (tokenizer && *tokenizer) use(**tokenizer, text);
  return 0;
}
