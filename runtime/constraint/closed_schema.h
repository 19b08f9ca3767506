// SPDX-License-Identifier: Apache-2.0
// JSON schemas as people write them for models: an object that lists properties means those alone.
#pragma once

#include <nlohmann/json.hpp>

namespace runnel {

/// `schema` with "additionalProperties": false in each object that lists properties and says nothing of others; one that
/// lists none stays free, but for the outermost. Nothing is changed where objects are put together of several schemas
/// (allOf, or properties beside $ref, anyOf, oneOf or if): each would forbid what the others have.
nlohmann::ordered_json closed_schema(nlohmann::ordered_json schema);

}  // namespace runnel
