// SPDX-License-Identifier: Apache-2.0
// Whose name a Host header may bear. A page whose name is made to resolve to this machine (DNS
// rebinding) sends its own name there.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace runnel::serve {

/// "name", "name:80", "[::1]:80" without the port; none for what is no host.
std::optional<std::string_view> host_without_port(std::string_view host);

/// Whether it is the literal 127.x.y.z, ::1 or [::1], or the name localhost in any case.
bool is_loopback(std::string_view host);

/// Whether a Host header names this machine: is_loopback() or one of `names`, with any port.
bool is_allowed_host(std::string_view header, std::span<const std::string> names);

/// "http://127.0.0.1:8080", with an IPv6 address between brackets.
std::string url_of(std::string_view host, int port);

}  // namespace runnel::serve
