// SPDX-License-Identifier: Apache-2.0
// A JSON schema as it was written: its parts, what its references lead to, and which values meet a part of it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "runnel/result.h"
#include "runtime/base/try.h"

namespace runnel {

/// Keeps the order of an object's names, which is the order they are generated in.
using SchemaJson = nlohmann::ordered_json;

/// "null", "boolean", "number", "string", "array" or "object": integers are numbers here.
std::string_view json_type(const SchemaJson& value);

/// Whether two values are the same to JSON Schema: 1 is 1.0, and the order of an object's names means nothing.
bool same_value(const SchemaJson& a, const SchemaJson& b);

/// The value with whole numbers written without a fraction: 1.0 becomes 1.
SchemaJson plainly_written(const SchemaJson& value);

/// invalid_argument: "schema: PATH: words"
template <class... Parts>
Error schema_error(std::string_view path, const Parts&... parts) {
  return fail(ErrorCode::invalid_argument, "schema: ", path.substr(0, 200), ": ", parts...);
}

/// A keyword of ours: schemas that were put together, all of which hold. No text can have it by accident.
inline constexpr const char* kEveryOf = "\x01every";

class SchemaDocument {
 public:
  /// @return invalid_argument for a text that is no JSON, has a key twice in one object, or is nested too deeply
  static Result<SchemaDocument> parse(std::string_view text);

  const SchemaJson& root() const { return *root_; }

  /// What `$ref` leads to: a part of this schema.
  /// @param path  where the reference stands, for the message
  /// @return invalid_argument if it leads nowhere or out of this schema
  Result<const SchemaJson*> find(std::string_view reference, std::string_view path) const;

  /// Whether a value meets a schema; nothing where this cannot tell (patterns, and keywords that are not supported).
  std::optional<bool> holds(const SchemaJson& value, const SchemaJson& schema, int depth = 0) const;

 private:
  SchemaDocument() = default;
  void note_anchors(const SchemaJson& part);
  std::optional<bool> holds_keyword(const SchemaJson& value, const SchemaJson& schema,
                                    const std::string& name, int depth) const;
  std::optional<bool> holds_lists(const SchemaJson& value, const SchemaJson& list,
                                  const std::string& name, int depth) const;
  std::optional<bool> holds_array(const SchemaJson& value, const SchemaJson& schema,
                                  const std::string& name, int depth) const;
  std::optional<bool> holds_object(const SchemaJson& value, const SchemaJson& schema,
                                   const std::string& name, int depth) const;

  std::unique_ptr<const SchemaJson> root_;
  std::map<std::string, const SchemaJson*, std::less<>> anchors_;
};

}  // namespace runnel
