// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/source_check.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/try.h"

namespace runnel {

Status check_depth(std::string_view text, std::string_view name) {
  int depth = 0;
  char inside = 0;  // the end of a quote or a class
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (inside != 0) {
      if (c == inside) inside = 0;
    } else if (c == '"' && name == "grammar") {
      inside = '"';
    } else if (c == '#' && name == "grammar") {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '[') {
      inside = ']';
    } else if (c == '(' || c == '{') {
      if (++depth > kMostSourceDepth) {
        return fail(ErrorCode::invalid_argument, name, ": brackets are nested more than ",
                    kMostSourceDepth, " deep at byte ", i);
      }
    } else if (c == ')' || c == '}') {
      depth = std::max(0, depth - 1);
    }
  }
  return {};
}

Result<std::vector<std::string>> read_choices(std::string_view json) {
  const nlohmann::json list = nlohmann::json::parse(json, nullptr, false);
  const bool texts = list.is_array() && std::ranges::all_of(list, [](const nlohmann::json& text) {
                       return text.is_string() && !text.get_ref<const std::string&>().empty();
                     });
  if (!texts) {
    return fail(ErrorCode::invalid_argument,
                "choice: expected a JSON list of texts, none of them empty");
  }
  if (list.empty() || list.size() > ConstraintSource::kMostChoices) {
    return fail(ErrorCode::invalid_argument, "choice: has ", list.size(), " texts, expected 1 to ",
                std::size_t{ConstraintSource::kMostChoices});
  }
  std::vector<std::string> choices;
  for (const nlohmann::json& text : list) choices.push_back(text.get<std::string>());
  return choices;
}

std::string choice_grammar(const std::vector<std::string>& texts) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string grammar = "root ::= ";
  bool first = true;
  for (const std::string& text : texts) {
    grammar += first ? "\"" : " | \"";
    first = false;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || byte == 0x7f) {
        grammar += std::string("\\x") + kDigits[byte >> 4U] + kDigits[byte & 15U];
      } else {
        if (c == '"' || c == '\\') grammar += '\\';
        grammar += c;
      }
    }
    grammar += '"';
  }
  return grammar + "\n";
}

}  // namespace runnel
