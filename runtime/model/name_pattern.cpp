// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "runtime/base/try.h"

namespace runnel {

void NamePattern::Free::operator()(pcre2_real_code_8* code) const noexcept {
  pcre2_code_free(code);
}

Result<NamePattern> NamePattern::compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), 0,
                                   &error, &offset, nullptr);
  if (code == nullptr) {
    PCRE2_UCHAR text[128] = {};
    pcre2_get_error_message(error, text, sizeof text);
    return fail(ErrorCode::invalid_argument, "pattern ", pattern, ": ",
                reinterpret_cast<const char*>(text), " at character ", offset);
  }
  return NamePattern(code);
}

bool NamePattern::found_in(std::string_view name) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(code_.get(), nullptr), pcre2_match_data_free);
  if (match == nullptr) return false;
  return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0,
                     match.get(), nullptr) >= 0;
}

}  // namespace runnel
