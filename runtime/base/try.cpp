// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/try.h"

#include <charconv>
#include <iterator>
#include <utility>

namespace runnel {

void MessagePart::append_to(std::string& message) const {
  switch (kind_) {
    case Kind::text:
      message += text_;
      return;
    case Kind::character:
      message += static_cast<char>(integer_);
      return;
    case Kind::integer:
      message += std::to_string(integer_);
      return;
    case Kind::natural:
      message += std::to_string(static_cast<std::uint64_t>(integer_));
      return;
    case Kind::real: {
      char digits[32];
      const auto end =
          std::to_chars(digits, std::end(digits), real_, std::chars_format::general, 6);
      message.append(digits, end.ptr);
      return;
    }
  }
}

Error make_error(ErrorCode code, std::span<const MessagePart> parts) {
  std::string message;
  for (const MessagePart& part : parts) part.append_to(message);
  return Error{code, std::move(message)};
}

}  // namespace runnel
