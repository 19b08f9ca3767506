// SPDX-License-Identifier: Apache-2.0
// What both kinds of tokenizer share: the bytes and the kind of every entry, special texts, begin and end tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"
#include "runnel/types.h"
#include "runtime/base/text.h"
#include "runtime/io/gguf.h"

namespace runnel {

/// Texts and kinds of all entries in two flat arrays.
class TokenTable {
 public:
  static constexpr std::size_t kMaxEntries = 1U << 21;    // no known vocabulary has an eighth of it
  static constexpr std::size_t kMaxTextBytes = 1U << 28;  // offsets have 32 bits

  void reserve(std::size_t entries, std::size_t bytes);
  void add(std::string_view bytes, TokenKind kind);

  std::int32_t size() const { return static_cast<std::int32_t>(kinds_.size()); }
  bool contains(TokenId token) const { return token >= 0 && token < size(); }
  std::string_view bytes(TokenId token) const {
    const auto i = static_cast<std::size_t>(token);
    return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  TokenKind kind(TokenId token) const { return kinds_[static_cast<std::size_t>(token)]; }
  bool is_hidden(TokenId token) const {  // not text: shown on request only
    const TokenKind k = kind(token);
    return k == TokenKind::control || k == TokenKind::unused;
  }
  /// Hidden, but for those that mark calls of tools in an answer ("[TOOL_CALLS]"), which is read by them.
  bool is_silent(TokenId token) const {
    return is_hidden(token) &&
           std::find(call_markers_.begin(), call_markers_.end(), token) == call_markers_.end();
  }

 private:
  std::string bytes_;
  std::vector<std::uint32_t> offsets_{0};
  std::vector<TokenKind> kinds_;
  std::vector<TokenId> call_markers_;
};

/// Begin and end tokens as the file's keys name them; -1 where it names none.
struct TokenRoles {
  TokenId begin = -1;
  TokenId unknown = -1;
  bool add_begin = false;     // the model's convention: `begin` opens a document
  std::vector<TokenId> ends;  // end of text, of turn, of message; sorted, distinct

  /// @param entries            ids in the file must be below it.
  /// @param add_begin_default  when the file does not say.
  static Result<TokenRoles> read(const GgufFile& file, std::int32_t entries,
                                 bool add_begin_default);
  bool is_end(TokenId token) const;
  void sort_ends();
};

/// The string array `tokenizer.ggml.tokens`, checked for type and size.
Result<const std::vector<std::string>*> read_token_texts(const GgufFile& file,
                                                         std::int32_t vocab_size);

/// `tokenizer.ggml.token_type`, or all normal if the file has none; as many as `texts`. Texts that
/// mark chat messages are control whatever the file says, so that no message can contain them;
/// those that end one are added to `roles.ends`, because a chat model ends at both, whichever its file names.
Result<std::vector<TokenKind>> read_token_kinds(const GgufFile& file,
                                                const std::vector<std::string>& texts,
                                                TokenRoles& roles);

/// The kind that read_token_kinds() gives an entry that the file gives `kind`.
TokenKind kind_in_chats(std::string_view text, TokenKind kind);

/// Finds texts of special tokens in a text, the longest first.
class SpecialMatcher {
 public:
  // bytes of one special text: bounds the work at each position
  static constexpr std::size_t kMaxLength = 1024;

  /// @return malformed for an empty, too long or repeated text.
  Status add(std::string_view text, TokenId token);
  void freeze();  // after the last add()

  struct Match {
    std::size_t offset = std::string_view::npos;  // npos: none
    std::size_t length = 0;
    TokenId token = -1;
  };
  /// The first match at or after `from`; of those that start there, the longest.
  Match find(std::string_view text, std::size_t from) const;

  /// The first match without a byte in `plain` (ascending, not touching).
  Match find_outside(std::string_view text, std::size_t from,
                     std::span<const ByteRange> plain) const;

  TokenId exact(std::string_view text) const;  // -1 if absent
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::string text;
    TokenId token;
  };
  Match longest_at(std::string_view text, std::size_t offset) const;

  std::vector<Entry> entries_;                                // sorted by text
  std::vector<bool> starts_ = std::vector<bool>(256, false);  // bytes that open some text
};

}  // namespace runnel
