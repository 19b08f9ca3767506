// SPDX-License-Identifier: Apache-2.0
// Runs a template's tree.
#pragma once

#include <ctime>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runnel/result.h"
#include "runtime/text/jinja/parser.h"
#include "runtime/text/jinja/value.h"

namespace runnel::jinja {

/// The variables of a block; inner ones hide outer ones.
struct Scope {
  std::vector<std::pair<std::string, Value>> variables;
  std::shared_ptr<Scope> outer;

  void set(const std::string& name, Value value);
  const Value* find(std::string_view name) const;
};

/// What one run may take, whatever the template does.
struct Limits {
  std::uint64_t steps = 3'000'000;                // nodes evaluated
  std::uint64_t bytes = std::uint64_t{64} << 20;  // written, copied or looked through
  int depth = 400;                                // of calls and expressions
};

/// One run. The first error is kept; after it every step gives nothing.
class Interpreter {
 public:
  Interpreter(Limits limits, std::tm now) : limits_(limits), now_(now) {}

  Result<Text> run(const Node& body, std::vector<std::pair<std::string, Value>> variables);

  // For filters, tests, methods and functions:

  /// Keeps the error, with the line. @return undefined
  Value wrong(const std::string& message, ErrorCode code = ErrorCode::invalid_argument);
  bool failed() const { return error_.has_value(); }
  /// Counts bytes that are about to be made or looked at. @return false beyond the limit
  bool charge(std::uint64_t bytes);
  Value member(const Value& object, std::string_view name);  // object.name
  Value item(const Value& object, const Value& index);       // object[index]
  /// What a for loop goes over. Undefined is empty.
  std::vector<Value> items(const Value& value);
  bool contains(const Value& container, const Value& value);
  Value apply(bool filter, const std::string& name, const Value& subject,
              const Arguments& arguments);
  Value make_namespace(const Arguments& arguments);
  const std::tm& now() const { return now_; }

 private:
  enum class Flow { on, next, leave };

  Value evaluate(const Node& node);
  Value evaluate_kind(const Node& node);
  Flow execute(const Node& node);
  Flow execute_kind(const Node& node);
  Flow execute_loop(const Node& node);
  Flow execute_branch(const Node& node);
  void execute_set(const Node& node);
  Text captured(const Node& body);
  void assign(const std::vector<std::string>& names, const Value& value);

  Value name_value(const Node& node);
  Value list_value(const Node& node);
  Value dict_value(const Node& node);
  Value slice_value(const Node& node);
  Value compare_value(const Node& node);
  Value binary_value(const std::string& sign, const Value& a, const Value& b);
  Value number_value(const std::string& sign, const Value& a, const Value& b);
  Arguments arguments_of(const Node& node);
  Value call(const Value& callee, Arguments arguments);
  Value call_macro(const Callable& macro, Arguments arguments);

  const Limits limits_;
  const std::tm now_;
  std::optional<Error> error_;
  std::uint64_t steps_ = 0;
  std::uint64_t bytes_ = 0;
  int depth_ = 0;
  int line_ = 1;
  std::shared_ptr<Scope> scope_;
  std::deque<Namespace> spaces_;
  Text* out_ = nullptr;
};

}  // namespace runnel::jinja
