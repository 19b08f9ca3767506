// SPDX-License-Identifier: Apache-2.0
// Names for the integers of the API, and what a token is.
#pragma once

#include <cstdint>
#include <string_view>

namespace runnel {

/// Index of a vocabulary entry, in [0, ModelInfo::vocab_size).
using TokenId = std::int32_t;

/// What an entry of the vocabulary is: the values of `tokenizer.ggml.token_type` in model files.
enum class TokenKind : std::uint8_t {
  normal = 1,
  unknown = 2,       ///< stands for text that the vocabulary cannot spell
  control = 3,       ///< no text: begins or ends a document, a message
  user_defined = 4,  ///< ordinary text that is never split
  unused = 5,        ///< an id that nothing makes, such as a padding row of the embedding
  byte = 6,          ///< one byte
};

/// One entry of the vocabulary.
struct TokenInfo {
  TokenKind kind = TokenKind::normal;
  bool is_end = false;  ///< generation ends at it
  /// May end inside a UTF-8 character; a control token's name; valid as long as the model.
  std::string_view bytes;
};

}  // namespace runnel
