// SPDX-License-Identifier: Apache-2.0
// Sources of the kind `tags`: free text, and values of JSON schemas between fixed texts. tool_constraint() writes them.
//
//   {"free": "none" | "before" | "only", "trigger": TEXT, "begin": TEXT, "tags": [TAG, …], "between": TEXT, "end": TEXT}
//   TAG: {"name": TEXT, "begin": TEXT, "schema": SCHEMA, "strict": true | false}
//
// A text of "free": "none" is `begin`, a tag (its `begin` and a value of its schema), any number of times `between` and a
// tag (none where there is no `between`), and `end`. "before" allows any text without `trigger` instead or before it;
// `begin` then begins with `trigger`. Without a trigger it is such a text or one that does not begin with `begin`.
// "only": any text without `trigger`, or one that does not begin with `begin`. kIdMark in a text stands for nine letters or
// digits. A schema that is not strict and that is not supported is taken for any object.
#pragma once

#include <xgrammar/grammar.h>

#include <string>
#include <string_view>

#include "runnel/result.h"

namespace runnel {

/// @return the source for tag_grammar(), its schemas looked at; invalid_argument naming the tag and what is wrong
Result<std::string> check_tags(std::string_view source);

/// The grammar of a source that check_tags() gave. Throws as XGrammar does.
xgrammar::Grammar tag_grammar(const std::string& checked);

}  // namespace runnel
