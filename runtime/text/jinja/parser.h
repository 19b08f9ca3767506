// SPDX-License-Identifier: Apache-2.0
// A template as a tree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
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

/// @return malformed or unsupported, with the line.
Result<std::unique_ptr<Node>> parse(std::string_view source);

}  // namespace runnel::jinja
