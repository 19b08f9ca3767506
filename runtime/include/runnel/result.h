// SPDX-License-Identifier: Apache-2.0
// Errors as values: Result<T> holds a T or an Error; Status is Result<void>.
//
// Example, in a function that returns a Result:
//   runnel::Result<std::shared_ptr<const runnel::Model>> model = runnel::Model::load("model.gguf");
//   if (!model) return model.error();    // a code, and a message naming thing, value and expectation
//   std::cout << (*model)->info().name << '\n';
//
// Member names follow std::expected, so that the type can become an alias of it one day.
//
// STOPPING. One rule for every call that a stop token, a runnel_stop or a callback can end early. Where part of the work
// stays (prefill, generate, generate_several, SessionGeneration, SessionBatch::run, and of a Conversation add_user,
// answer, send, resume, regenerate and edit), a stop is no error: the result says that it came, and how many tokens were
// consumed or which messages were saved. Where nothing stays (Model::load, embedding, score_choices, make_pack, and of a
// Conversation create, open, rewind and forget_after), the error is `cancelled`, and everything is as it was before.
// The C API keeps the same rule but for runnel_session_prefill(), which is as old programs know it.
//
// EXCEPTIONS. The library throws none. One that a caller's callback throws is the caller's: it passes through the call,
// which leaves sessions after their last completed token or chunk, and of use.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace runnel {

/// Why a call failed, for programs; the message is for people.
enum class ErrorCode {
  invalid_argument = 1,  ///< the caller passed a value outside its documented range
  not_found,             ///< a file, tensor, key or device does not exist
  io,                    ///< the operating system refused a read or a write
  malformed,             ///< a file or a text is not what its format says it must be
  unsupported,           ///< well-formed, but this build does not run it
  mismatch,              ///< well-formed, but it belongs to another model or version
  out_of_memory,         ///< an allocation on the host or a device failed
  device,                ///< a driver or device failed or was lost
  cancelled,             ///< a stop was requested, and nothing of the call stays
  internal,              ///< a defect of the library; please report the message
};

/// The code's name as written above, for logs ("invalid_argument").
constexpr const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::io:
      return "io";
    case ErrorCode::malformed:
      return "malformed";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::device:
      return "device";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

/// What went wrong: a code for programs and one sentence for people.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
};

/// A value of T or the Error that prevented it. Reading `*r` without a value is a programming error.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  template <class U = T>
  requires(std::constructible_from<T, U&&> && !std::same_as<std::remove_cvref_t<U>, Result> &&
           !std::same_as<std::remove_cvref_t<U>, Error>) Result(U&& value)
      : value_(std::in_place_index<0>, std::forward<U>(value)) {}
  Result(Error error) : value_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const noexcept { return value_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& operator*() & { return *std::get_if<0>(&value_); }
  const T& operator*() const& { return *std::get_if<0>(&value_); }
  /// By value: `for (auto& x : *f())` would outlive a reference into the temporary.
  T operator*() && { return std::move(*std::get_if<0>(&value_)); }
  T* operator->() { return std::get_if<0>(&value_); }
  const T* operator->() const { return std::get_if<0>(&value_); }

  const Error& error() const& { return *std::get_if<1>(&value_); }
  Error error() && { return std::move(*std::get_if<1>(&value_)); }

  template <class U>
  T value_or(U&& other) const& {
    return has_value() ? **this : static_cast<T>(std::forward<U>(other));
  }

  /// f(value) → Result<U> if there is a value, else this error.
  template <class F>
  auto and_then(F&& f) && -> std::invoke_result_t<F, T&&> {
    if (has_value()) return std::forward<F>(f)(std::move(**this));
    return std::move(*this).error();
  }

  /// f(value) → U wrapped into a Result<U> if there is a value, else this error.
  template <class F>
  auto transform(F&& f) && -> Result<std::invoke_result_t<F, T&&>> {
    if (has_value()) return std::forward<F>(f)(std::move(**this));
    return std::move(*this).error();
  }

 private:
  std::variant<T, Error> value_;
};

/// Success, or the Error that prevented it.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }

  const Error& error() const& { return *error_; }
  Error error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace runnel
