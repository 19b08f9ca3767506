// SPDX-License-Identifier: Apache-2.0
#include "app/serve/net/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "app/serve/net/http.h"

namespace runnel::serve {

std::optional<std::string_view> host_without_port(std::string_view host) {
  std::string_view port;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    port = host.substr(end + 1);
    host = host.substr(0, end + 1);
    if (port.empty()) return host;
    if (port.front() != ':') return {};
    port.remove_prefix(1);
  } else if (const std::size_t colon = host.find(':'); colon != std::string_view::npos) {
    port = host.substr(colon + 1);
    host = host.substr(0, colon);
  }
  const bool digits = port.size() <= 5 && std::all_of(port.begin(), port.end(),
                                                      [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || host.empty()) return {};
  return host;
}

bool is_loopback(std::string_view host) {
  if (same_name(host, "localhost")) return true;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string literal(host);
  in_addr four = {};
  if (::inet_pton(AF_INET, literal.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six = {};
  return ::inet_pton(AF_INET6, literal.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool is_allowed_host(std::string_view header, std::span<const std::string> names) {
  const std::optional<std::string_view> host = host_without_port(header);
  if (!host) return false;
  return is_loopback(*host) ||
         std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return same_name(name, *host); });
}

std::string url_of(std::string_view host, int port) {
  const bool bare_six = host.find(':') != std::string_view::npos && !host.starts_with('[');
  return "http://" + (bare_six ? "[" + std::string(host) + "]" : std::string(host)) + ":" +
         std::to_string(port);
}

}  // namespace runnel::serve
