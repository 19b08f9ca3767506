// SPDX-License-Identifier: Apache-2.0
#include "app/serve/access.h"

#include <string_view>

#include "app/serve/net/host.h"

namespace runnel::serve {
namespace {

// Takes the same time wherever the first difference is.
bool same_key(std::string_view given, std::string_view key) {
  unsigned different = given.size() == key.size() ? 0U : 1U;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char c = i < given.size() ? given[i] : '\0';
    different |= static_cast<unsigned char>(c ^ key[i]);
  }
  return different == 0;
}

bool bears_key(std::string_view authorization, std::string_view key) {
  const std::size_t space = authorization.find(' ');
  if (space == std::string_view::npos || !same_name(authorization.substr(0, space), "Bearer"))
    return false;
  std::string_view given = authorization.substr(space);
  while (given.starts_with(' ')) given.remove_prefix(1);
  return same_key(given, key);
}

bool is_json(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return same_name(type, "application/json");
}

}  // namespace

std::optional<HttpError> check_access(const HttpRequest& request, const AccessRules& rules) {
  if (rules.api_key.empty() && !is_allowed_host(request.header("Host"), rules.hosts)) {
    return HttpError{403, "the Host header names another machine", "", "wrong_host"};
  }
  if (request.path == "/health" || request.path == "/ready") return {};
  if (!rules.api_key.empty() && !bears_key(request.header("Authorization"), rules.api_key))
    return HttpError{401, "the API key is missing or wrong", "", "invalid_api_key"};
  if (request.method == "POST" && !is_json(request.header("Content-Type")))
    return HttpError{415, "the Content-Type is not application/json", "", "wrong_content_type"};
  return {};
}

}  // namespace runnel::serve
