// SPDX-License-Identifier: Apache-2.0
// Utf8Stream over utf8_step().
#include "runtime/text/utf8_stream.h"

#include "runtime/base/try.h"
#include "runtime/text/utf8.h"

namespace runnel {

namespace {
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
}

std::string_view Utf8Stream::push(std::string_view bytes) {
  if (!carry_.empty()) {
    joined_ = carry_;
    joined_ += bytes;
    bytes = joined_;
  }
  whole_.clear();
  while (!bytes.empty()) {
    const Utf8Step step = utf8_step(bytes);
    if (step.kind == Utf8Step::Kind::truncated) break;
    if (step.kind == Utf8Step::Kind::character) {
      whole_ += bytes.substr(0, step.length);
    } else {
      whole_ += kReplacement;
    }
    bytes.remove_prefix(step.length);
  }
  carry_.assign(bytes);
  return whole_;
}

std::string Utf8Stream::flush() {
  const bool cut = !carry_.empty();
  carry_.clear();
  return cut ? std::string(kReplacement) : std::string();
}

Status Utf8Stream::restore(std::string_view carry) {
  if (!carry.empty()) {
    const Utf8Step step = utf8_step(carry);
    if (step.kind != Utf8Step::Kind::truncated)
      return fail(ErrorCode::malformed, "text carry of ", carry.size(),
                  " bytes: expected at most 3, the beginning of a UTF-8 character");
  }
  carry_.assign(carry);
  return {};
}

}  // namespace runnel
