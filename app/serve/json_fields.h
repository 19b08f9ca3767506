// SPDX-License-Identifier: Apache-2.0
// Reads the fields of a request one by one and refuses by name those that were not read.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"

namespace runnel::serve {

/// Where a kept conversation stands. The generation grows with every change of any conversation and
/// never comes back, not even after a deletion or a restart.
struct StateMark {
  std::uint64_t generation = 0;
  std::uint64_t position = 0;  // tokens
};

/// Where a client takes a conversation to stand, as far as it says so. 0: nowhere yet.
struct Expectation {
  std::optional<std::uint64_t> generation = {};
  std::optional<std::uint64_t> position = {};

  bool given() const { return generation || position; }
  /// Whether a conversation at `mark` is meant; none: there is none yet.
  bool fits(const std::optional<StateMark>& mark) const {
    const StateMark at = mark.value_or(StateMark{});
    return generation.value_or(at.generation) == at.generation &&
           position.value_or(at.position) == at.position;
  }
};

/// What a client is told: an HTTP status and OpenAI's error object.
struct HttpError {
  int status = 400;
  std::string message;
  std::string param = {};                // the field at fault, or empty
  std::string code = {};                 // for programs, e.g. "unsupported_field"
  std::optional<StateMark> exists = {};  // of the conversation it is about
};

/// The body of an error answer.
std::string to_json(const HttpError& error);

/// JSON text of `value`; text that is not UTF-8 is repaired.
std::string dump(const nlohmann::ordered_json& value);

/// The fields of one JSON object. The first mistake wins; readers after it return their defaults. A
/// field that is null counts as absent.
class Fields {
 public:
  explicit Fields(const nlohmann::json& object) : object_(object) {}

  std::optional<double> number(const char* name, double least, double most);
  std::optional<std::int64_t> integer(const char* name, std::int64_t least, std::int64_t most);
  std::optional<bool> boolean(const char* name);
  std::optional<std::string> text(const char* name);
  /// A text or a list of texts.
  std::vector<std::string> texts(const char* name, std::size_t most);
  /// Any value, or null.
  const nlohmann::json* value(const char* name);

  /// The field may be there if it asks for nothing: it equals `neutral`.
  void only(const char* name, const nlohmann::json& neutral);
  /// The field is not read and changes nothing.
  void ignore(const char* name) { known_.insert(name); }

  void refuse(std::string message, std::string param, std::string code = "invalid_value");
  /// Refuses fields that were not asked for. Call last.
  void finish();
  const std::optional<HttpError>& error() const { return error_; }

 private:
  const nlohmann::json& object_;
  std::set<std::string, std::less<>> known_;
  std::optional<HttpError> error_;
};

}  // namespace runnel::serve
