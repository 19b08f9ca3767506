// SPDX-License-Identifier: Apache-2.0
#include "app/serve/net/head_check.h"

#include <algorithm>
#include <array>

#include "app/serve/net/http.h"

namespace runnel::serve {
namespace {

constexpr std::array<std::string_view, 6> kOnce = {
    "Host", "Content-Length", "Authorization", "Transfer-Encoding", "Content-Type", "If-Match"};
enum : std::size_t { kHost = 0, kLength = 1, kEncoding = 3 };

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Whether every line so far ends as it must; the first byte decides early about what is no HTTP.
std::string wrong_bytes(std::string_view bytes, std::size_t from) {
  if (!bytes.empty() && !(bytes[0] >= 'A' && bytes[0] <= 'Z'))
    return "the request does not begin with a method";
  for (std::size_t i = from; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (c == '\n' && (i == 0 || bytes[i - 1] != '\r')) return "a line ends with LF, expected CR LF";
    if (c == '\r' && i + 1 < bytes.size() && bytes[i + 1] != '\n')
      return "a CR is not followed by LF";
    if (c == '\0') return "the head holds a NUL";
    if (c == '\n' && i + 1 < bytes.size() && (bytes[i + 1] == ' ' || bytes[i + 1] == '\t'))
      return "a header is folded over lines";
  }
  return {};
}

struct Headers {
  std::array<std::size_t, kOnce.size()> count = {};
  std::array<std::string_view, kOnce.size()> value = {};
};

std::string read_headers(std::string_view lines, Headers& headers) {
  while (!lines.empty()) {
    const std::size_t end = lines.find("\r\n");
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 2);
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return "a header line has no name";
    const std::string_view name = line.substr(0, colon);
    if (name.back() == ' ' || name.back() == '\t') return "a space stands before a header's colon";
    for (std::size_t i = 0; i < kOnce.size(); ++i) {
      if (!same_name(name, kOnce[i])) continue;
      if (++headers.count[i] > 1) return "the header " + std::string(kOnce[i]) + " comes twice";
      headers.value[i] = trimmed(line.substr(colon + 1));
    }
  }
  return {};
}

}  // namespace

HeadVerdict check_head(std::string_view bytes, std::size_t checked) {
  HeadVerdict verdict;
  const std::size_t from = checked < 4 ? 0 : checked - 4;  // what the last bytes mean comes after
  const std::size_t end = bytes.find("\r\n\r\n", from);
  const std::string_view head = end == std::string_view::npos ? bytes : bytes.substr(0, end + 4);
  if (head.size() > kMostHeadBytes) {
    verdict.too_long = true;
    verdict.wrong =
        "the request's head is longer than " + std::to_string(kMostHeadBytes) + " bytes";
    return verdict;
  }
  verdict.wrong = wrong_bytes(head, from);
  if (!verdict.wrong.empty() || end == std::string_view::npos) return verdict;
  verdict.size = head.size();

  const std::size_t first = head.find("\r\n");
  const bool old = head.substr(0, first).ends_with("HTTP/1.0");
  Headers headers;
  verdict.wrong = read_headers(head.substr(first + 2), headers);
  if (!verdict.wrong.empty()) return verdict;
  const std::string_view length = headers.value[kLength];
  if (headers.count[kHost] == 0 && !old) {
    verdict.wrong = "the header Host is missing";
  } else if (headers.count[kLength] != 0 && headers.count[kEncoding] != 0) {
    verdict.wrong = "Content-Length and Transfer-Encoding come together";
  } else if (headers.count[kLength] != 0 && (length.empty() || length.size() > 18 ||
                                             !std::all_of(length.begin(), length.end(), [](char c) {
                                               return c >= '0' && c <= '9';
                                             }))) {
    verdict.wrong = "the Content-Length is no number";
  } else if (headers.count[kEncoding] != 0 &&
             (old || !same_name(headers.value[kEncoding], "chunked"))) {
    verdict.wrong = "the Transfer-Encoding is not chunked";
  }
  return verdict;
}

}  // namespace runnel::serve
