// SPDX-License-Identifier: Apache-2.0
// Sentencepiece tokenizers (byte-pair encoding with byte fallback, as Mistral's) through libsentencepiece.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/token_table.h"
#include "runtime/text/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace runnel {

/// Each stretch of text between special tokens is encoded on its own, with the leading space that the model adds.
class SentencepieceTokenizer final : public Tokenizer {
 public:
  /// From `gsa.tokenizer.sentencepiece` (the bytes of a tokenizer.model) and `tokenizer.ggml.*`
  /// keys with model "llama".
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufFile& file,
                                                            std::int32_t vocab_size);

  ~SentencepieceTokenizer() override;

  std::int32_t vocab_size() const override { return table_.size(); }
  Result<std::vector<TokenId>> encode_marked(std::string_view text,
                                             std::span<const ByteRange> plain) const override;
  std::string_view piece(TokenId token, bool first, bool show_special) const override;
  TokenId special_id(std::string_view text) const override { return specials_.exact(text); }
  TokenKind kind(TokenId token) const override { return table_.kind(token); }
  bool is_special(TokenId token) const override {
    return table_.contains(token) && table_.is_hidden(token);
  }
  bool is_end(TokenId token) const override { return roles_.is_end(token); }
  TokenId begin_token() const override { return roles_.add_begin ? roles_.begin : -1; }

 private:
  SentencepieceTokenizer();

  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  TokenTable table_;
  TokenRoles roles_;
  SpecialMatcher specials_;
  bool drops_first_space_ = true;
};

}  // namespace runnel
