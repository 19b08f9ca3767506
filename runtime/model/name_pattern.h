// SPDX-License-Identifier: Apache-2.0
// A regular expression over tensor names.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runnel/result.h"

struct pcre2_real_code_8;

namespace runnel {

/// A compiled Perl-compatible pattern. Move-only.
class NamePattern {
 public:
  /// @return invalid_argument, saying where and why the pattern is wrong.
  static Result<NamePattern> compile(const std::string& pattern);

  /// Whether the pattern is found anywhere in `name`. Bounded work: a pattern that backtracks too
  /// much does not match.
  bool found_in(std::string_view name) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const noexcept;
  };
  explicit NamePattern(pcre2_real_code_8* code) : code_(code) {}
  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

}  // namespace runnel
