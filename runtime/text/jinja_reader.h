// SPDX-License-Identifier: Apache-2.0
// Cuts a Jinja template into statements and outputs, without interpreting them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"

namespace runnel {

/// One step of a template, in a normal form: no spaces outside texts, single quotes, a.b for a['b'].
struct JinjaStep {
  enum class Kind {
    statement,   // {% text %}
    text,        // literal text, or a string literal in {{ }}
    expression,  // any other operand of a sum in {{ }}
  };
  Kind kind = Kind::text;
  std::string text;

  bool operator==(const JinjaStep&) const = default;
};

/// Neighbouring texts are joined; comments are dropped; block tags remove the newline after them and the spaces
/// before them on their line, as chat templates are rendered (trim_blocks, lstrip_blocks).
/// @return malformed if a tag or a string is not closed; unsupported if the template is longer than 64 KiB.
Result<std::vector<JinjaStep>> read_jinja(std::string_view source);

}  // namespace runnel
