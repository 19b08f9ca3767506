// SPDX-License-Identifier: Apache-2.0
// What a template can call by name.
#pragma once

#include <string_view>

#include "runtime/text/jinja/interpreter.h"

namespace runnel::jinja {

/// @param subject  what stands before the |, the `is` or the dot; undefined for functions
using Function = Value (*)(Interpreter& run, const Value& subject, const Arguments& arguments);

/// Null if there is none of that name.
Function find_filter(std::string_view name);
Function find_test(std::string_view name);
Function find_function(std::string_view name);
Function find_method(const Value& self, std::string_view name);

}  // namespace runnel::jinja
