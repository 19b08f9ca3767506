// SPDX-License-Identifier: Apache-2.0
// Jinja templates as chat models publish them: parsed once, rendered with limits.
//
// The language is Jinja 3's as the transformers library sets it up (trim_blocks, lstrip_blocks, break and continue,
// tojson without escapes, strftime_now, raise_exception), less what no published chat template uses: inheritance,
// includes, raw text, filter blocks, recursive loops, * arguments, powers, methods that are not called. Upper and lower
// case are ASCII's.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runnel/result.h"
#include "runtime/text/jinja/run.h"
#include "runtime/text/jinja/value.h"

namespace runnel::jinja {

/// Immutable; render() may be called by several threads at a time.
class Template {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{256} << 10;

  /// @return malformed (or unsupported, for a statement that is not known) with the line; invalid_argument for more
  ///         than kMostBytes.
  static Result<Template> parse(std::string_view source);

  /// @param variables  what the template sees; texts among them should say that they were given (text.h)
  /// @param now        for strftime_now
  /// @return invalid_argument with the line for what the template itself refuses (raise_exception) or gets wrong and
  ///         for what goes beyond `limits`; unsupported for filters and tests that are not known.
  Result<Text> render(std::vector<std::pair<std::string, Value>> variables, const std::tm& now,
                      Limits limits = {}) const;

 private:
  explicit Template(std::shared_ptr<const Node> body) : body_(std::move(body)) {}
  std::shared_ptr<const Node> body_;
};

}  // namespace runnel::jinja
