// SPDX-License-Identifier: Apache-2.0
// What is looked at before a source goes to the compiler: sizes, depths, and what a JSON schema asks for.
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

/// Whether the compiler keeps everything that a schema asks for, so that no value is let through that the schema refuses.
/// @return invalid_argument naming the place ("#/properties/age") and the keyword: one that is not supported, or not
///         beside another one; a $ref that leads nowhere or around in a circle; a text that is no JSON, has a key twice or
///         is nested too deeply
Status check_schema(std::string_view schema);

/// The texts of a `choice` source.
/// @return invalid_argument unless it is a list of 1 to ConstraintSource::kMostChoices texts, none empty
Result<std::vector<std::string>> read_choices(std::string_view json);

/// A grammar of those texts.
std::string choice_grammar(const std::vector<std::string>& texts);

}  // namespace runnel
