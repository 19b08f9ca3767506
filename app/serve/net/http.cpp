// SPDX-License-Identifier: Apache-2.0
#include "app/serve/net/http.h"

#include <algorithm>

namespace runnel::serve {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [given, value] : headers) {
    if (same_name(given, name)) return value;
  }
  return {};
}

}  // namespace runnel::serve
