// SPDX-License-Identifier: Apache-2.0
// Constraints: text that programs can read. A constraint is compiled for a model's vocabulary; a generation with it draws
// only tokens that keep its text a beginning of what the constraint describes, and ends only where that is whole.
//
// Example, in a function that returns a Result:
//   auto person = runnel::Constraint::json_schema(
//       *model, R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
//                   "required": ["name", "age"]})");
//   if (!person) return person.error();
//   auto result = runnel::generate(session, {.max_tokens = 100, .constraint = *person});
//   if (!result) return result.error();
//   std::cout << result->text << '\n';    // {"name": "Ada", "age": 36}
//
// docs/constraints.md says what schemas, expressions and grammars may contain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/export.h"
#include "runnel/model.h"
#include "runnel/result.h"
#include "runnel/types.h"

namespace runnel {

class Access;

/// In what language a constraint is written.
enum class ConstraintKind : std::uint8_t {
  json_schema,  ///< a JSON schema: a JSON value that it describes
  json_object,  ///< any JSON object
  regex,        ///< a regular expression, which the whole text matches
  choice,       ///< one of several texts: `text` is a JSON list of them
  gbnf,         ///< a grammar in llama.cpp's GBNF; its first rule is `root`
  tags,  ///< free text and values of schemas between fixed texts: what tool_constraint() writes
};

/// "json_schema", "json_object", "regex", "choice", "gbnf", "tags".
RUNNEL_API std::string_view to_string(ConstraintKind kind);

/// What a constraint was made of.
struct ConstraintSource {
  ConstraintKind kind = ConstraintKind::json_object;
  std::string text;  ///< UTF-8; empty with json_object
  /// For json_schema: no properties or items that the schema does not name, white space of one form: ", " and ": ".
  /// Else JSON Schema's own rules (what is not forbidden may come), and any white space between tokens of JSON, at most
  /// kMostSpaces characters at a place. For json_object: the white space alone.
  bool strict = true;

  static constexpr int kMostSpaces = 8;
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;  ///< of `text`
  static constexpr std::size_t kMostChoices = 10'000;

  bool operator==(const ConstraintSource&) const = default;
};

/// A compiled constraint: immutable, shared by any number of generations and threads, for the model it was compiled for.
class RUNNEL_API Constraint {
 public:
  /// Compiles `source`, or gives what an earlier call with the same one and the same model gave, while that is kept (the
  /// last 32, of at most 64 MiB in all, and those in use). Takes at most about kCompileSeconds and kCompileBytes.
  /// @return invalid_argument for a source that is no such text, names a keyword or a construct that is not supported, or
  ///         describes nothing; out_of_memory if it takes more than the limits allow; unsupported without a tokenizer
  ///         or in a build without constraints (RUNNEL_GRAMMAR).
  static Result<std::shared_ptr<const Constraint>> compile(const Model& model,
                                                           const ConstraintSource& source);

  // The same by kind.
  static Result<std::shared_ptr<const Constraint>> json_schema(const Model& model,
                                                               std::string_view schema,
                                                               bool strict = true);
  static Result<std::shared_ptr<const Constraint>> json_object(const Model& model,
                                                               bool strict = true);
  static Result<std::shared_ptr<const Constraint>> regex(const Model& model,
                                                         std::string_view expression);
  /// @param texts  1 to ConstraintSource::kMostChoices, none empty
  static Result<std::shared_ptr<const Constraint>> choice(const Model& model,
                                                          std::span<const std::string> texts);
  static Result<std::shared_ptr<const Constraint>> gbnf(const Model& model,
                                                        std::string_view grammar);

  ~Constraint();
  Constraint(const Constraint&) = delete;
  Constraint& operator=(const Constraint&) = delete;

  const ConstraintSource& source() const;

  /// XXH3 of kind, strictness and text: the same in every build.
  std::uint64_t hash() const;

  /// ModelInfo::fingerprint of the model it was compiled for.
  std::uint64_t model_fingerprint() const;

  /// Memory that it takes, about.
  std::uint64_t bytes() const;

  /// The tokens that must follow `taken`, because each is the only one that may come: at most `most`. What the model
  /// would say does not matter. Nothing is tokenised anew: where a text is certain but not how it is cut, nothing is
  /// forced.
  /// @param taken  tokens since the constraint began
  /// @return invalid_argument if `taken` does not fit the constraint
  Result<std::vector<TokenId>> forced(std::span<const TokenId> taken,
                                      std::size_t most = kMostForced) const;

  /// Whether `text` is what the constraint describes, as a whole.
  bool accepts(std::string_view text) const;

  static constexpr std::size_t kMostForced = 16;  ///< fed in one pass
  static constexpr double kCompileSeconds = 4.0;  ///< then a compilation is given up
  static constexpr std::uint64_t kCompileBytes = std::uint64_t{256} << 20;

 private:
  friend class Access;
  struct Impl;
  explicit Constraint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Whether this build has constraints.
RUNNEL_API bool has_constraints();

}  // namespace runnel
