// SPDX-License-Identifier: Apache-2.0
// A JSON schema in the words that the compiler keeps as a whole. It reads one keyword of a schema first ($ref, const, enum,
// anyOf, type) and leaves out what stands beside it, takes patterns as whole texts, and knows fewer keywords than JSON
// Schema has. What cannot be said to it is an error that names the keyword and the place: nothing is left out silently.
#pragma once

#include <string>
#include <string_view>

#include "runnel/result.h"

namespace runnel {

/// @param strict  as ConstraintSource::strict
/// @return a schema that the same values meet, or fewer of them, never more; invalid_argument naming the place
///         ("#/properties/age") and the keyword that is not supported, a $ref that leads nowhere or around in a circle, or
///         that nothing meets the schema
Result<std::string> rewrite_schema(std::string_view schema, bool strict);

}  // namespace runnel
