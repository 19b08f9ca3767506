// SPDX-License-Identifier: Apache-2.0
// Jinja templates as chat models publish them: parsed once, rendered with limits.
//
// The language is Jinja 3's as the transformers library sets it up (trim_blocks, lstrip_blocks, break and continue,
// tojson without escapes, strftime_now, raise_exception), less what no published chat template uses: inheritance,
// includes, raw text, filter blocks, recursive loops, * arguments, powers, methods that are not called. Upper and lower
// case are ASCII's.
#pragma once

#include <ctime>
#include <deque>
#include <map>

#include "runnel/result.h"
#include "runtime/text/jinja/value.h"

namespace runnel::jinja {

/// What one run may take, whatever the template does.
struct Limits {
  std::uint64_t steps = 3'000'000;                // nodes evaluated
  std::uint64_t bytes = std::uint64_t{64} << 20;  // written, copied or looked through
  int depth = 400;                                // of calls and expressions
};

class Run;

/// A statement, which gives undefined, or an expression.
class Node {
 public:
  using Part = std::function<Value(Run&)>;

  std::string name;  // before it as an argument, or as the default of a parameter

  Node() = default;  // what was left out: gives undefined
  Node(int line, Part part) : line_(line), part_(std::make_shared<const Part>(std::move(part))) {}
  explicit operator bool() const { return part_ != nullptr; }
  Value operator()(Run& run) const;

 private:
  int line_ = 1;
  std::shared_ptr<const Part> part_;
};

/// The variables of a block; inner ones hide outer ones.
struct Scope {
  std::shared_ptr<Scope> outer;
  std::map<std::string, Value, std::less<>> variables = {};
};

/// What templates can call: operators by their signs, "|trim" and other filters, "is none" and other tests, "str.split"
/// and other methods (what they are applied to is the first argument), "range()" and other functions.
using Builtins = std::map<std::string, Callable, std::less<>>;

/// One run. The first error is kept; after it every node gives undefined.
class Run {
 public:
  enum class Flow { on, next, leave };  // next and leave: up to the loop around

  Run(const Builtins& table, const Limits& most, const std::tm& time)
      : builtins(table), limits(most), now(time) {}

  /// Keeps the error, with the line. @return undefined
  Value wrong(const std::string& message, ErrorCode code = ErrorCode::invalid_argument);
  const std::optional<Error>& error() const { return error_; }
  /// Counts bytes that are about to be made or looked at. @return false beyond the limit
  bool charge(std::uint64_t bytes);
  Value step(int line, const Node::Part& part);

  /// Whether `value` is there to be used.
  bool defined(const Value& value);
  Text written(const Value& value);
  /// The text that a value must be.
  Text needed(const Value& value);
  /// What a for loop goes over. Undefined is empty.
  std::vector<Value> items(const Value& value);
  Value variable(const std::string& name) const;

  const Builtins& builtins;
  const Limits limits;
  const std::tm now;
  Flow flow = Flow::on;
  std::shared_ptr<Scope> scope = std::make_shared<Scope>();
  std::deque<Dict> spaces;  // what namespace() made
  Text out;

 private:
  /// Says so if more was taken of something than may be. @return false once there is an error
  bool within(std::uint64_t most, std::uint64_t taken, const char* what, const char* unit = "");

  std::optional<Error> error_;
  std::uint64_t steps_ = 0;
  std::uint64_t bytes_ = 0;
  int depth_ = 0;
  int line_ = 1;
};

/// Those of a call; the name, which the template holds, is empty before a positional one.
using Arguments = std::vector<std::pair<std::string_view, Value>>;

/// A call, of a macro or of what is built in.
struct Call {
  Run& run;
  Arguments arguments;
  const Value missing = {};  // what an argument is that was not passed

  /// The argument at `index` or of `name`; null if it was not passed.
  const Value* find(std::size_t index, std::string_view name = {}) const;
  /// The same; `otherwise` if it was not passed.
  Value get(std::size_t index, std::string_view name = {}, const Value& otherwise = {}) const;
  const Value& operator[](std::size_t index) const;
  /// What is written of it.
  Text text(std::size_t index, std::string_view name = {}) const {
    return run.written(get(index, name));
  }
  Text needed(std::size_t index, std::string_view name = {}) const {
    return run.needed(get(index, name));
  }
  bool flag(std::size_t index, std::string_view name) const { return get(index, name).truth(); }
};

/// object[index]
Value item(Run& run, const Value& object, const Value& index);

Builtins make_builtins();
void add_operators(Builtins& table);
/// The one of this name; if there is none, what says so when it is called.
Callable builtin(const Builtins& table, const std::string& name);

/// Immutable; render() may be called by several threads at a time.
class Template {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{256} << 10;

  /// @return malformed (or unsupported, for a statement that is not known) with the line; invalid_argument for more
  ///         than kMostBytes.
  static Result<Template> parse(std::string_view source);

  /// @param variables  what the template sees; texts among them should say that they were given (marked_text.h)
  /// @param now        for strftime_now
  /// @return invalid_argument with the line for what the template itself refuses (raise_exception) or gets wrong and
  ///         for what goes beyond `limits`; unsupported for filters and tests that are not known.
  Result<Text> render(std::vector<std::pair<std::string, Value>> variables, const std::tm& now,
                      Limits limits = {}) const;

 private:
  Template(std::shared_ptr<const Builtins> builtins, Node body)
      : builtins_(std::move(builtins)), body_(std::move(body)) {}
  std::shared_ptr<const Builtins> builtins_;
  Node body_;
};

}  // namespace runnel::jinja
