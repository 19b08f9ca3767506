// SPDX-License-Identifier: Apache-2.0
// Reads a sentencepiece tokenizer.model without protobuf and checks everything that the library trusts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"
#include "runtime/text/token_table.h"

namespace runnel {

/// The parts of sentencepiece's ModelProto that encoding and decoding depend on.
///
/// libsentencepiece logs, dereferences null or reads past arrays on some models that are valid
/// protobuf but not valid models, so it never reads a file directly, only serialize() of what parse() has checked.
struct SentencepieceModel {
  struct Piece {
    std::string text;
    float score = 0.0F;
    TokenKind kind = TokenKind::normal;
  };
  std::vector<Piece> pieces;
  bool byte_fallback = false;
  bool whitespace_is_suffix = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  std::string unknown_surface = " \xE2\x81\x87 ";  // what an unknown token decodes to
  std::int32_t unknown_id = 0, begin_id = 1, end_id = 2, padding_id = -1;  // -1: none

  /// @return malformed (where, what) or unsupported (a unigram model; a normalizer that rewrites characters).
  static Result<SentencepieceModel> parse(std::string_view bytes);

  /// A ModelProto with these fields and no other.
  std::string serialize() const;
};

}  // namespace runnel
