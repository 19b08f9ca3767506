// SPDX-License-Identifier: Apache-2.0
// A template's text and the tokens in its tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"
#include "runtime/text/jinja/value.h"

namespace runnel::jinja {

struct Token {
  enum class Kind { output, statement, close, name, constant, sign, end };
  Kind kind = Kind::end;
  int line = 1;           // from 1
  std::string text = {};  // as written
  Value value = {};       // of a constant; the text between tags is one

  bool is(Kind of, std::string_view as) const { return kind == of && text == as; }
};

/// Cuts a template as chat templates are rendered: trim_blocks, lstrip_blocks, comments dropped. `output` ({{) and
/// `statement` ({%) open what the next `close` ends; the last token is `end`.
/// @return malformed, with the line, if a tag or a text is not closed or a character fits nowhere.
Result<std::vector<Token>> lex(std::string_view source);

/// The error `message` at a line of the template.
Error error_at(int line, const std::string& message, ErrorCode code = ErrorCode::malformed);

}  // namespace runnel::jinja
