// SPDX-License-Identifier: Apache-2.0
// Regular expressions of JSON schemas, which look for a match within a text, as expressions of whole texts.
#pragma once

#include <string>

#include "runnel/result.h"
#include "runtime/grammar/schema_document.h"

namespace runnel {

/// @param strict  an end that has no anchor ends the text; else any text may stand there
/// @return invalid_argument for an anchor that is not at an end
Result<SchemaJson> whole_pattern(const std::string& pattern, bool strict, const std::string& path);

}  // namespace runnel
