// SPDX-License-Identifier: Apache-2.0
// A schema as a list of alternatives, each for values of one type: keywords beside one another, allOf, anyOf, oneOf, not,
// if, enum and references in place are worked out. What cannot be is an error that names the keyword.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"
#include "runtime/grammar/schema_document.h"

namespace runnel {

/// Each is {"enum": [values]} or {"type": one of JSON's, …} with keywords of that type alone, whose parts are schemas as
/// they were written (or kEveryOf of such). No alternative: nothing meets the schema.
using SchemaAlternatives = std::vector<SchemaJson>;

class SchemaExpander {
 public:
  /// @param strict  a schema without `type` is one of the types that its keywords speak of
  SchemaExpander(const SchemaDocument& document, bool strict)
      : document_(document), strict_(strict) {}

  /// @param path  of the schema in the document, for messages
  Result<SchemaAlternatives> expand(const SchemaJson& schema, const std::string& path);

 private:
  using Json = SchemaJson;

  Result<SchemaAlternatives> typed(const Json& schema, const std::string& path) const;
  Result<SchemaAlternatives> list(const Json& schema, const std::string& keyword,
                                  const std::string& path);
  Result<SchemaAlternatives> one_of(const Json& options, const std::string& path);
  Result<SchemaAlternatives> values(const Json& schema, const std::string& keyword,
                                    const std::string& path) const;
  Result<SchemaAlternatives> follow(const Json& reference, const std::string& path);
  Result<SchemaAlternatives> condition(SchemaAlternatives all, const Json& schema,
                                       const std::string& path);
  Result<SchemaAlternatives> minus(SchemaAlternatives all, const Json& schema,
                                   const std::string& path);
  Result<SchemaAlternatives> intersect(const SchemaAlternatives& a, const SchemaAlternatives& b,
                                       const std::string& path) const;
  Result<SchemaAlternatives> intersect(const Json& a, const Json& b, const std::string& path) const;
  Result<SchemaAlternatives> expand_exactly(const Json& schema, const std::string& path);
  bool apart(const Json& written, const Json& exact) const;

  const SchemaDocument& document_;
  bool strict_;
  int depth_ = 0;
  std::vector<const Json*> following_;  // references in place
};

/// Whether an alternative is of a type and asks for nothing more.
bool is_free(const SchemaJson& alternative);

/// "/" and "~" of a name as a JSON pointer has them.
std::string pointer_part(std::string name);

}  // namespace runnel
