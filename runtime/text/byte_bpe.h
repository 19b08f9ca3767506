// SPDX-License-Identifier: Apache-2.0
// Byte-level byte-pair encoding of the GPT-2 family (Sennrich et al., arXiv:1508.07909).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/flat_index.h"
#include "runtime/text/pre_tokenizer.h"
#include "runtime/text/token_table.h"
#include "runtime/text/tokenizer.h"

namespace runnel {

/// Text is normalised and cut into words as the PreTokenizer says; within a word the pair of lowest rank merges first,
/// the leftmost of equals. What merges into a text that is no token is spelled in single bytes again.
class ByteBpe final : public Tokenizer {
 public:
  /// From `tokenizer.ggml.*` keys with model "gpt2".
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufFile& file,
                                                            std::int32_t vocab_size);

  /// From texts and kinds of all tokens, one kind per text, and merges "a b" by rank.
  /// @return malformed, naming the entry, or unsupported (a pre-tokenizer not known).
  static Result<std::shared_ptr<const ByteBpe>> create(std::string_view pre_tokenizer,
                                                       const std::vector<std::string>& texts,
                                                       const std::vector<TokenKind>& kinds,
                                                       const std::vector<std::string>& merges,
                                                       TokenRoles roles);

  bool spells_all_bytes() const;

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
  class Encoder;

  explicit ByteBpe(PreTokenizer pre_tokenizer) : pre_tokenizer_(std::move(pre_tokenizer)) {}
  Status add_tokens(const std::vector<std::string>& texts, const std::vector<TokenKind>& kinds);
  Status add_merges(const std::vector<std::string>& merges, const std::vector<std::string>& texts,
                    const StringIndex& index);

  PreTokenizer pre_tokenizer_;
  TokenTable table_;
  TokenRoles roles_;
  SpecialMatcher specials_;        // control tokens
  SpecialMatcher always_;          // user-defined tokens: parsed in every text
  SpecialMatcher always_special_;  // both
  MergeTable merges_;
  // What merges make that is no token, as bytes; while a word is merged it has ids after the table's.
  std::vector<std::string> unlisted_;
  std::array<TokenId, 256> byte_tokens_{};  // -1: the vocabulary cannot spell this byte
};

}  // namespace runnel
