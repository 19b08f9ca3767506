// SPDX-License-Identifier: Apache-2.0
// The tokenizer of RWKV's World models: from left to right the longest token that the bytes begin with.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/token_table.h"
#include "runtime/text/tokenizer.h"

namespace runnel {

/// No merges, no words, no normal form, nothing added. Works on bytes, so encode() takes any.
class WorldTokenizer final : public Tokenizer {
 public:
  /// Most bytes of one token: a text of n bytes costs at most n times that many steps. The published vocabulary's
  /// longest has 128, and no text makes it take more than 33 steps a byte.
  static constexpr std::size_t kMaxTokenBytes = 1024;
  // Nodes of the tree; the published vocabulary needs 116,078.
  static constexpr std::size_t kMaxNodes = 1U << 22;

  /// From `tokenizer.ggml.*` keys with model "rwkv". The one end token is 0: what such files name as the end of a turn,
  /// a blank line, ends paragraphs.
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufFile& file,
                                                            std::int32_t vocab_size);

  std::int32_t vocab_size() const override { return table_.size(); }
  Result<std::vector<TokenId>> encode_marked(std::string_view text,
                                             std::span<const ByteRange> plain) const override;
  std::string_view piece(TokenId token, bool first, bool show_special) const override;
  TokenId special_id(std::string_view text) const override { return specials_.exact(text); }
  TokenKind kind(TokenId token) const override { return table_.kind(token); }
  bool is_special(TokenId token) const override {
    return table_.contains(token) && table_.is_hidden(token);
  }
  bool is_end(TokenId token) const override { return token == 0; }
  TokenId begin_token() const override { return -1; }

 private:
  /// A prefix of tokens. Its children are neighbours in nodes_ and labels_, in the order of their bytes.
  struct Node {
    std::uint32_t first_child = 0;
    std::uint16_t children = 0;
    TokenId token = -1;  // that ends here, -1: none does
  };
  struct Range;  // of the sorted tokens that share a prefix

  Status build_tree();
  Status add_children(const std::vector<TokenId>& sorted, std::vector<Range>& ranges,
                      std::size_t index);
  void encode_plain(std::string_view text, std::vector<TokenId>& tokens) const;

  TokenTable table_;
  SpecialMatcher specials_;
  std::vector<Node> nodes_;                 // 0: the root
  std::vector<std::uint8_t> labels_;        // of each node: the byte that leads to it
  std::array<std::uint32_t, 256> roots_{};  // the root's children by byte; 0: none
};

/// The escapes with which files spell the bytes of a token: \t \n \r \xHH, and \ before a character itself.
/// @return malformed if an escape is cut or has no two hexadecimal digits.
Result<std::string> unescape_world_token(std::string_view escaped);

/// The spelling that unescape_world_token() reads; that of Python's repr() of bytes without its quotes.
std::string escape_world_token(std::string_view bytes);

}  // namespace runnel
