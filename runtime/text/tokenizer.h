// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back: byte-level BPE (GPT-2 family) and sentencepiece, behind one
// interface.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"
#include "runnel/types.h"
#include "runtime/io/gguf.h"

namespace runnel {

/// Immutable after load; all methods are const and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::int32_t vocab_size() const = 0;

  /// UTF-8 text → ids. With `parse_special`, texts of special tokens become those tokens (longest
  /// match first).
  /// @return malformed if `text` is not UTF-8 (names the byte offset).
  virtual Result<std::vector<TokenId>> encode(std::string_view text, bool parse_special) const = 0;

  /// The bytes of one token as it is streamed, after `first` = whether it opens the text
  /// (sentencepiece drops one leading space there). Special tokens give an empty string unless
  /// `show_special`. `token` must be in [0, vocab_size).
  virtual std::string piece(TokenId token, bool first, bool show_special) const = 0;

  /// Bytes of a whole sequence.
  std::string decode(std::span<const TokenId> tokens, bool show_special = false) const;

  /// The id of a special token by its text, or -1.
  virtual TokenId special_id(std::string_view text) const = 0;

  virtual bool is_end(TokenId token) const = 0;  // end of text or of message
  virtual TokenId begin_token()
      const = 0;  // put before a document by this model's convention, or -1

  /// Reads the `tokenizer.ggml.*` and `gsa.tokenizer.*` keys of a model file; nullptr if it carries
  /// no tokenizer.
  /// @param vocab_size  rows of the embedding; the tokenizer may not have more entries.
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufFile& file,
                                                            std::int32_t vocab_size);
};

/// Tokenizer files of a Hugging Face directory → GGUF keys (tokenizer.json, tokenizer_config.json,
/// tokenizer.model).
/// @return the number of keys set: 0 if the directory has no tokenizer; unsupported, naming the
/// part, if it has one that
///         this library cannot run exactly.
Result<int> tokenizer_to_gguf(const std::filesystem::path& directory, std::int32_t vocab_size,
                              GgufWriter& writer);

}  // namespace runnel
