// SPDX-License-Identifier: Apache-2.0
// What an answer must be, as clients of this kind of server ask for it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "app/serve/json_fields.h"
#include "runnel/constraint.h"

namespace runnel::serve {

/// A constraint, and the field that asked for it.
struct AskedConstraint {
  ConstraintSource source;
  std::string field;
};

/// The fields response_format, grammar, json_schema, guided_json, guided_regex, guided_choice and guided_grammar: one of
/// them at most.
/// @param body  the same object as text, since the order of a schema's properties is that of the answer's
std::optional<AskedConstraint> read_constraint(Fields& fields, std::string_view body);

}  // namespace runnel::serve
