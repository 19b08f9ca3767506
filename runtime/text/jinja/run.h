// SPDX-License-Identifier: Apache-2.0
// A template as a tree, and what runs it.
#pragma once

#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runnel/result.h"
#include "runtime/text/jinja/value.h"

namespace runnel::jinja {

/// A statement or an expression. What `kids` are stands behind each kind; a null kid was left out.
struct Node {
  enum class Kind {
    constant,     // value
    name,         // text
    list,         // items; text "(" for a tuple
    dict,         // key, value, key, value, …
    item,         // object, index
    slice,        // object, start, stop, step
    call,         // callee (a method: of the item that it is), arguments
    filter,       // subject, arguments; text: which
    test,         // subject, arguments; text: which
    invert,       // operand of `not`
    binary,       // a, b; text: the operator, `and` and `or` among them
    compare,      // a, b, c, …; names: the operators between them
    conditional,  // then, condition, else
    captured,     // body: what it writes
    output,       // expression
    body,         // statements
    branch,       // condition, body, condition, body, …, else body
    loop,         // iterated, condition, body, else body; names: targets
    set,          // expression; names: targets, or text: a namespace and names[0] its member
    macro,        // defaults of the last parameters, body; text: its name, names: parameters
    leave,        // break
    next,         // continue
  };
  Kind kind = Kind::constant;
  int line = 1;
  int depth = 1;  // of the tree below
  std::string text;
  Value value;
  std::vector<std::unique_ptr<Node>> kids;
  std::vector<std::string> names;  // of call, filter, test: each argument's, or ""
};

/// What one run may take, whatever the template does.
struct Limits {
  std::uint64_t steps = 3'000'000;                // nodes evaluated
  std::uint64_t bytes = std::uint64_t{64} << 20;  // written, copied or looked through
  int depth = 400;                                // of calls and expressions
};

/// The variables of a block; inner ones hide outer ones.
struct Scope {
  std::map<std::string, Value, std::less<>> variables;
  std::shared_ptr<Scope> outer;

  const Value* find(std::string_view name) const;
};

/// One run. The first error is kept; after it every step gives nothing.
class Run {
 public:
  Run(Limits limits, const std::tm& now) : limits_(limits), now_(now) {}
  Result<Text> operator()(const Node& body,
                          std::vector<std::pair<std::string, Value>> variables) &&;

  // For what is called by name:

  /// Keeps the error, with the line. @return undefined
  Value wrong(const std::string& message, ErrorCode code = ErrorCode::invalid_argument);
  bool failed() const { return error_.has_value(); }
  /// Counts bytes that are about to be made or looked at. @return false beyond the limit
  bool charge(std::uint64_t bytes);
  Text written(const Value& value);
  /// object[index]
  Value item(const Value& object, const Value& index);
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  /// What a for loop goes over. Undefined is empty.
  std::vector<Value> items(const Value& value);
  /// a and b with == != < <= > >= in `not in` between them
  bool compare(std::string_view sign, const Value& a, const Value& b);
  Value binary(std::string_view sign, const Value& a, const Value& b);
  Value filter(const std::string& name, const Value& subject, const Arguments& arguments);
  bool test(const std::string& name, const Value& subject, const Arguments& arguments);

 private:
  enum class Flow { on, next, leave };  // next and leave: up to the loop around

  Value evaluate(const Node& node);
  Value evaluate_kind(const Node& node);
  Value evaluate_slice(const Node& node);
  Value evaluate_dict(const Node& node);
  Value evaluate_call(const Node& node);
  bool evaluate_compare(const Node& node);
  void execute(const Node& node);
  void execute_loop(const Node& node);
  void execute_set(const Node& node);
  Text captured(const Node& body);
  void assign(const std::vector<std::string>& names, const Value& value);
  Arguments arguments_of(const Node& node);
  Value call_macro(const Callable& macro, const Arguments& arguments);
  bool contains(const Value& container, const Value& value);
  Value arithmetic(std::string_view sign, const Value& a, const Value& b);

  /// The method of a text or a dict; nothing if there is none of that name.
  std::optional<Value> method(const std::string& name, const Value& self, const Arguments& a);
  static bool is_function(std::string_view name);
  Value function(const std::string& name, const Arguments& arguments);

  const Limits limits_;
  const std::tm now_;
  std::optional<Error> error_;
  std::uint64_t steps_ = 0;
  std::uint64_t bytes_ = 0;
  int depth_ = 0;
  int line_ = 1;
  Flow flow_ = Flow::on;
  std::shared_ptr<Scope> scope_ = std::make_shared<Scope>();
  std::deque<Dict> spaces_;  // what namespace() made
  Text out_;
};

}  // namespace runnel::jinja
