// SPDX-License-Identifier: Apache-2.0
// What is looked at before a source goes to the compiler: depths and lists of choices. Schemas: schema_rewrite.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runnel/constraint.h"
#include "runnel/result.h"

namespace runnel {

/// Levels of brackets in a source: the compiler's parsers recurse.
inline constexpr int kMostSourceDepth = 64;

/// Brackets ([{ of an expression or a grammar: how deep, outside of quotes and character classes.
/// @return invalid_argument if that is more than kMostSourceDepth; `name` is put before the message
Status check_depth(std::string_view text, std::string_view name);

/// The texts of a `choice` source.
/// @return invalid_argument unless it is a list of 1 to ConstraintSource::kMostChoices texts, none empty
Result<std::vector<std::string>> read_choices(std::string_view json);

/// A grammar of those texts.
std::string choice_grammar(const std::vector<std::string>& texts);

}  // namespace runnel
