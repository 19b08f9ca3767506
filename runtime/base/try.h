// SPDX-License-Identifier: Apache-2.0
// Propagating errors: RUNNEL_TRY for values, RUNNEL_CHECK_OK for Status, fail() to make an Error.
#pragma once

#include <sstream>
#include <string>

#include "runnel/result.h"

namespace runnel {

/// Makes an Error whose message is the concatenation of `parts`, as operator<< writes them.
///   return fail(ErrorCode::malformed, "tensor ", name, ": has ", n, " bytes, expected ", want);
template <class... Parts>
Error fail(ErrorCode code, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return Error{code, std::move(text).str()};
}

/// The same error with `prefix` put before its message: says where it happened.
inline Error with_context(Error error, std::string_view prefix) {
  error.message.insert(0, prefix);
  return error;
}

}  // namespace runnel

#define RUNNEL_CONCAT_INNER(a, b) a##b
#define RUNNEL_CONCAT(a, b) RUNNEL_CONCAT_INNER(a, b)
#define RUNNEL_TRY_INNER(result, declaration, ...)           \
  auto result = (__VA_ARGS__);                               \
  if (!result.has_value()) return std::move(result).error(); \
  declaration = *std::move(result)

/// RUNNEL_TRY(auto x, f()); binds the value of a Result or returns its error from this function.
#define RUNNEL_TRY(declaration, ...) \
  RUNNEL_TRY_INNER(RUNNEL_CONCAT(runnel_try_, __LINE__), declaration, __VA_ARGS__)

/// RUNNEL_CHECK_OK(f()); returns the error of a Status (or any Result) from this function.
#define RUNNEL_CHECK_OK(...)                                              \
  do {                                                                    \
    if (auto runnel_checked = (__VA_ARGS__); !runnel_checked.has_value()) \
      return std::move(runnel_checked).error();                           \
  } while (false)
