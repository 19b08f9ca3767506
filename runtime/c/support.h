// SPDX-License-Identifier: Apache-2.0
// What the functions of the C API share: handles, errors, sized structs, strings and arrays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runnel/chat.h"
#include "runnel/constraint.h"
#include "runnel/result.h"
#include "runnel/runnel.h"
#include "runnel/session.h"
#include "runnel/snapshot.h"
#include "runtime/base/try.h"

namespace runnel::c {

/// Texts as C has them: an array of pointers that lives as long as this.
class TextList {
 public:
  TextList() = default;
  explicit TextList(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (const std::string& text : texts_) pointers_.push_back(text.c_str());
  }
  TextList(TextList&&) = default;  // moves the vector, so that its texts stay where they are
  TextList& operator=(TextList&&) = default;
  TextList(const TextList&) = delete;
  TextList& operator=(const TextList&) = delete;
  ~TextList() = default;

  std::span<const char* const> pointers() const { return pointers_; }

 private:
  std::vector<std::string> texts_;
  std::vector<const char*> pointers_;
};

/// The texts of sampling options, for as long as a caller may look at them.
struct SamplingTexts {
  SamplingTexts() = default;
  explicit SamplingTexts(const SamplingOptions& sampling)
      : breakers(sampling.dry_breakers), banned(sampling.banned_texts) {
    for (const ChainSampler sampler : sampling.order)
      order += (order.empty() ? "" : ";") + std::string(to_string(sampler));
  }
  TextList breakers, banned;
  std::string order;  // empty: the usual one
};

}  // namespace runnel::c

struct runnel_stop {
  std::stop_source source;
};
struct runnel_model {
  std::shared_ptr<const runnel::Model> model;
  runnel::c::SamplingTexts texts;  // of its sampling()
};
struct runnel_session {
  runnel::Session session;
  mutable runnel::c::SamplingTexts texts;  // of the last sampling that was asked for
};
struct runnel_constraint {
  std::shared_ptr<const runnel::Constraint> constraint;
};
struct runnel_snapshot {
  runnel::Snapshot snapshot;
};
struct runnel_tools {
  std::vector<runnel::Tool> tools;
};

namespace runnel::c {

inline constexpr int kTooSmall = RUNNEL_TOO_SMALL;  // a status that C++ has no code for

/// Writes status and message, cut at a character's end, and returns the status.
runnel_status report(runnel_status status, std::string_view message, runnel_error* error);

/// Runs `body` (→ Status) and turns what it returns or throws into a status.
template <class Body>
runnel_status guarded(runnel_error* error, const Body& body) noexcept {
  try {
    const Status status = body();
    if (status) return RUNNEL_OK;
    return report(static_cast<runnel_status>(status.error().code), status.error().message, error);
  } catch (const std::bad_alloc&) {
    return report(RUNNEL_OUT_OF_MEMORY, "not enough memory", error);
  } catch (const std::exception& e) {
    return report(RUNNEL_INTERNAL, e.what(), error);
  } catch (...) {
    return report(RUNNEL_INTERNAL, "an unknown exception", error);
  }
}

/// The error for a null pointer that is not allowed.
Status check_not_null(const void* pointer, std::string_view name);

/// A text with its length; RUNNEL_NUL: up to its zero byte. Null with 0 bytes is empty.
Result<std::string_view> text_of(const char* text, std::size_t bytes, std::string_view name);

/// A span over an array of C; null is allowed if it is empty.
template <class T>
Result<std::span<const T>> span_of(const T* data, std::size_t count, std::string_view name) {
  if (data == nullptr && count > 0) {
    return fail(ErrorCode::invalid_argument, name, " is null but has ", count, " elements");
  }
  return std::span<const T>(data, count);
}

/// Copies `from` out, as runnel.h promises for arrays; RUNNEL_TOO_SMALL without touching `to` unless they fit.
template <class T, class From>
runnel_status copy_out(std::span<const From> from, T* to, std::size_t capacity, std::size_t* count,
                       runnel_error* error) {
  static_assert(sizeof(T) == sizeof(From) || sizeof(T) == 1);
  if (count != nullptr) *count = from.size();
  if (from.size() > capacity || (to == nullptr && !from.empty())) {
    return report(RUNNEL_TOO_SMALL, "the array is too small for the elements there are", error);
  }
  if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
  return RUNNEL_OK;
}

/// Runs `make` (→ Result<vector of T>) and copies what it made out.
template <class T, class To, class Make>
runnel_status give(To* to, std::size_t capacity, std::size_t* count, runnel_error* error,
                   const Make& make) {
  T made;
  const runnel_status status = guarded(error, [&]() -> Status {
    RUNNEL_TRY(made, make());
    return {};
  });
  if (status != RUNNEL_OK) return status;
  return copy_out(std::span<const typename T::value_type>(made), to, capacity, count, error);
}

/// Copies `text` into a fixed array of C, cut to fit, ended by a zero byte.
template <std::size_t N>
void copy_text(std::string_view text, char (&to)[N]) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), n);
  std::memset(to + n, 0, N - n);
}

/// A caller's sized struct, converted to this library's size: members that the caller's header lacks keep
/// their defaults; members that this library does not have must be zero.
/// @param least  bytes the struct had in its first version
template <class T>
Result<T> known_struct(const T* given, const T& defaults, std::size_t least,
                       std::string_view name) {
  T known = defaults;
  if (given == nullptr) return known;
  if (given->size < least || given->size > 65536) {
    return fail(ErrorCode::invalid_argument, name, ".size is ", given->size, ", expected ",
                sizeof(T), ": initialise it with ", name, "_init");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  std::memcpy(&known, bytes, std::min(given->size, sizeof(T)));
  for (std::size_t i = sizeof(T); i < given->size; ++i) {
    if (bytes[i] != 0) {
      return fail(ErrorCode::unsupported, name, ": byte ", i,
                  " is set, which belongs to a newer version of the library");
    }
  }
  known.size = sizeof(T);
  return known;
}

/// name_init(): defaults for as much of the struct as the caller has.
template <class T>
void init_struct(T* to, std::size_t size, const T& defaults) {
  if (to == nullptr || size < sizeof(std::size_t)) return;
  std::memset(to, 0, size);
  std::memcpy(to, &defaults, std::min(size, sizeof(T)));
  std::memcpy(to, &size, sizeof(size));
}

/// Fills a caller's sized struct with `value`, as much of it as the caller has.
template <class T>
void fill_struct(T* to, const T& value) {
  const std::size_t size = to->size;
  std::memcpy(to, &value, std::min(size, sizeof(T)));
  std::memcpy(to, &size, sizeof(size));
}

}  // namespace runnel::c
