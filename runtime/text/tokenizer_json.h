// SPDX-License-Identifier: Apache-2.0
// Hugging Face's tokenizer.json: byte-level BPE is converted exactly, every other part is refused by name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runnel/result.h"
#include "runnel/types.h"
#include "runtime/text/token_table.h"

namespace runnel {

/// What a tokenizer.json describes.
struct TokenizerJson {
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;
  std::vector<std::string> merges;  // "a b"
  std::string pre_tokenizer;        // a name that PreTokenizer knows
  TokenId begin = -1;               // put before a text by the post-processor; -1: none
};

/// @return malformed for broken data; unsupported, naming the part and its value, for what would not run exactly.
Result<TokenizerJson> read_tokenizer_json(const nlohmann::json& json);

/// An entry of `added_tokens`.
struct AddedToken {
  std::string text;
  TokenId id = -1;
  bool special = false;
};
/// @return unsupported for tokens that take spaces around them or match whole words only.
Result<std::vector<AddedToken>> read_added_tokens(const nlohmann::json& json);

}  // namespace runnel
