// SPDX-License-Identifier: Apache-2.0
// Propagating errors: RUNNEL_TRY for values, RUNNEL_CHECK_OK for Status, fail() to make an Error.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runnel/result.h"

namespace runnel {

/// One part of a message: a text or a number. Refers to the text it was made of.
class MessagePart {
 public:
  MessagePart(std::string_view text) : text_(text) {}
  MessagePart(const std::string& text) : text_(text) {}
  MessagePart(const char* text) : text_(text) {}
  MessagePart(char c) : kind_(Kind::character), integer_(c) {}
  MessagePart(double x) : kind_(Kind::real), real_(x) {}
  template <std::signed_integral T>
  MessagePart(T n) : kind_(Kind::integer), integer_(n) {}
  template <std::unsigned_integral T>
  MessagePart(T n) : kind_(Kind::natural), integer_(static_cast<std::int64_t>(n)) {}

  /// Appends it as operator<< writes it.
  void append_to(std::string& message) const;

 private:
  enum class Kind : std::uint8_t { text, character, integer, natural, real };
  Kind kind_ = Kind::text;
  std::string_view text_;
  union {
    std::int64_t integer_ = 0;
    double real_;
  };
};

Error make_error(ErrorCode code, std::span<const MessagePart> parts);

/// Makes an Error whose message is the concatenation of `parts`, as operator<< writes them.
///   return fail(ErrorCode::malformed, "tensor ", name, ": has ", n, " bytes, expected ", want);
template <class... Parts>
Error fail(ErrorCode code, const Parts&... parts) {
  const MessagePart all[] = {MessagePart(parts)...};
  return make_error(code, all);
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
