// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/schema_pattern.h"

#include <string_view>
#include <vector>

#include "runtime/grammar/source_check.h"

namespace runnel {
namespace {

// ECMA 262 has more white space than the compiler; in a class.
constexpr std::string_view kSpaces =
    R"(\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff)";

/// What stands between the | outside of all brackets.
struct Branch {
  std::string text;
  bool begins = false, ends = false;  // anchored there
};

}  // namespace

Result<SchemaJson> whole_pattern(const std::string& pattern, bool strict, const std::string& path) {
  RUNNEL_CHECK_OK(check_depth(pattern, "schema: pattern"));
  std::vector<Branch> branches(1);
  int depth = 0;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    Branch& branch = branches.back();
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's' || (escaped == 'S' && !in_class)) {
        if (!in_class) branch.text += escaped == 's' ? "[" : "[^";
        branch.text += kSpaces;
        if (!in_class) branch.text += ']';
      } else {
        branch.text += c;
        branch.text += escaped;
      }
      continue;
    }
    if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')') {
      --depth;
    } else if (c == '|' && depth == 0) {
      branches.emplace_back();
      continue;
    } else if (c == '^' || c == '$') {
      const bool first = depth == 0 && c == '^' && branch.text.empty();
      const bool last =
          depth == 0 && c == '$' && (i + 1 == pattern.size() || pattern[i + 1] == '|');
      if (!first && !last)
        return schema_error(path, "pattern: ", c, " is supported at an end alone");
      (first ? branch.begins : branch.ends) = true;
      continue;
    }
    branch.text += c;
  }
  const auto written = [strict](const Branch& branch) {
    std::string text;
    if (!strict && !branch.begins) text += ".*";
    text += branch.text;
    if (!strict && !branch.ends) text += ".*";
    return text;
  };
  if (branches.size() == 1 && branches[0].begins && branches[0].ends)
    return SchemaJson(branches[0].text);
  std::string whole;
  for (const Branch& branch : branches)
    whole += (whole.empty() ? "(" : "|(") + written(branch) + ")";
  return SchemaJson(branches.size() == 1 ? written(branches[0]) : whole);
}

}  // namespace runnel
