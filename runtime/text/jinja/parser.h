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
    constant,      // value
    name,          // text
    list,          // items; text "(" for a tuple
    dict,          // key, value, key, value, …
    attribute,     // object; text
    item,          // object, index
    slice,         // object, start, stop, step
    call,          // callee, arguments; names: of each argument, empty for positional ones
    filter,        // subject (null in {% filter %}), arguments; text: which, names as in call
    test,          // subject, arguments; text: which, names as in call
    negate,        // operand
    invert,        // operand of `not`
    both,          // a and b
    either,        // a or b
    binary,        // a, b; text: the operator
    compare,       // a, b, c, …; names: the operators between them
    conditional,   // then, condition, else
    text,          // value
    output,        // expression
    body,          // statements
    branch,        // condition, body, condition, body, …, [else body]
    loop,          // iterated, condition, body, else body; names: targets
    set,           // expression; names: targets, or text: a namespace and names[0] its member
    set_block,     // body, filter; names[0]: target
    macro,         // defaults of the last parameters, body; text: its name, names: parameters
    filter_block,  // filter, body
    leave,         // break
    next,          // continue
  };
  Kind kind = Kind::constant;
  int line = 1;
  int depth = 1;  // of the tree below
  std::string text;
  Value value;
  std::vector<std::unique_ptr<Node>> kids;
  std::vector<std::string> names;
};

/// @return malformed or unsupported, with the line.
Result<std::unique_ptr<Node>> parse(std::string_view source);

}  // namespace runnel::jinja
