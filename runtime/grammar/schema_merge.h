// SPDX-License-Identifier: Apache-2.0
// Two sets of keywords for values of one type: both at once, or proven apart.
#pragma once

#include <string>

#include "runnel/result.h"
#include "runtime/grammar/schema_document.h"

namespace runnel {

/// Whether the keywords of an alternative have the forms that they should.
Status check_keywords(const SchemaJson& alternative, const std::string& path);

/// What meets `a` and `b`, which are of one type.
/// @return invalid_argument naming keywords that cannot be put together
Result<SchemaJson> merge_schemas(const SchemaJson& a, const SchemaJson& b, const std::string& path);

/// A schema that both hold of.
SchemaJson every_of(const SchemaJson& a, const SchemaJson& b);

/// Whether no number meets both: their bounds do not meet.
bool numbers_apart(const SchemaJson& a, const SchemaJson& b);

/// Whether no object meets both: `a` requires what `b` does not let be, or a value that `b` has not.
bool objects_apart(const SchemaDocument& document, const SchemaJson& a, const SchemaJson& b,
                   bool strict);

}  // namespace runnel
