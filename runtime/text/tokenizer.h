// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back: byte-level BPE (GPT-2 family), sentencepiece and RWKV's World, behind one interface.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/chat.h"
#include "runnel/result.h"
#include "runnel/types.h"
#include "runtime/base/text.h"
#include "runtime/io/gguf.h"

namespace runnel {

/// Immutable after load; all methods are const and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Entries of the tokenizer: at most the rows of the embedding. Rows past it are padding and have empty pieces.
  virtual std::int32_t vocab_size() const = 0;

  /// UTF-8 text → ids. With `parse_special`, texts of special tokens become those tokens (longest
  /// match first). Tokenizers that normalise (qwen2: form C) encode the normalised text between special tokens.
  /// A byte for which the vocabulary has no token is dropped, as in the original tokenizers.
  /// @return malformed if `text` is not UTF-8 (names the byte offset; World works on bytes and takes any);
  ///         invalid_argument if it is longer than max_text().
  Result<std::vector<TokenId>> encode(std::string_view text, bool parse_special) const;

  /// The same where texts of special tokens become those tokens unless a byte of them lies in `plain`.
  /// @param plain  ascending, not touching
  virtual Result<std::vector<TokenId>> encode_marked(std::string_view text,
                                                     std::span<const ByteRange> plain) const = 0;

  /// The bytes of one token as it is streamed, after `first` = whether it opens the text
  /// (sentencepiece drops one leading space there). Special tokens give an empty string unless
  /// `show_special`; ids outside the vocabulary too.
  /// The bytes live as long as the tokenizer.
  virtual std::string_view piece(TokenId token, bool first, bool show_special) const = 0;

  /// Bytes of a whole sequence.
  std::string decode(std::span<const TokenId> tokens, bool show_special = false) const;

  /// The id of a special token by its text, or -1.
  virtual TokenId special_id(std::string_view text) const = 0;

  /// The kind of an entry, in [0, vocab_size()).
  virtual TokenKind kind(TokenId token) const = 0;

  virtual bool is_special(TokenId token) const = 0;
  virtual bool is_end(TokenId token) const = 0;  // end of text or of message
  /// The one put before a document by this model's convention, or -1.
  virtual TokenId begin_token() const = 0;

  /// Longest text that encode() takes at once, in bytes: intermediate offsets have 32 bits.
  static constexpr std::size_t max_text() { return std::size_t{1} << 30; }

  /// Reads the `tokenizer.ggml.*` and `gsa.tokenizer.*` keys of a model file; nullptr if it carries no tokenizer.
  /// @param vocab_size  rows of the embedding; the tokenizer may not have more entries.
  /// @return malformed (which key, which entry), unsupported (a kind or pre-tokenizer not known), mismatch (too
  ///         large).
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufFile& file,
                                                            std::int32_t vocab_size);
};

/// What tokenizer_to_gguf() did.
struct TokenizerConversion {
  int keys = 0;                       ///< GGUF keys set; 0 if the directory has no tokenizer
  std::vector<std::string> warnings;  ///< for people: e.g. why the file will have no chat format
};

/// Tokenizer files of a Hugging Face directory → GGUF keys (tokenizer.json, tokenizer_config.json, tokenizer.model).
/// @param vocab_size  rows of the embedding; the tokenizer may not have more entries.
/// @param style  the chat format to write; by default the directory's template, or the style that it comes to.
/// @return unsupported, naming the part, if the directory has a tokenizer that this library cannot run exactly;
///         malformed or mismatch for broken files.
Result<TokenizerConversion> tokenizer_to_gguf(const std::filesystem::path& directory,
                                              std::int32_t vocab_size, GgufWriter& writer,
                                              const std::optional<ChatFormat>& style = {});

}  // namespace runnel
