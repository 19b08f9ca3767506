// SPDX-License-Identifier: Apache-2.0
// Who may ask: decided from a request's head, before its body is read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/serve/json_fields.h"
#include "app/serve/net/http.h"

namespace runnel::serve {

struct AccessRules {
  std::string api_key;             // empty: none is asked for
  std::vector<std::string> hosts;  // names of this machine besides localhost and its addresses
};

/// @return 403 for another host's name, 401 for a missing or wrong key, 415 for a post that a page
/// in a browser could send without being asked.
std::optional<HttpError> check_access(const HttpRequest& request, const AccessRules& rules);

}  // namespace runnel::serve
