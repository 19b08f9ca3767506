// SPDX-License-Identifier: Apache-2.0
// What a request's head must be like before a parser sees it. Servers and proxies that read an odd
// head differently can be made to disagree where a request ends (RFC 9112, section 11.2), so
// nothing odd is read here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace runnel::serve {

constexpr std::size_t kMostHeadBytes = 16'384;

struct HeadVerdict {
  std::size_t size = 0;  // bytes of the head with its empty line; 0: it has not ended yet
  std::string wrong;     // what is wrong with it, for the client; empty: nothing so far
  bool too_long = false;
};

/// @param bytes    all that came so far of one request
/// @param checked  how many of them an earlier call has seen, so that a head which comes byte by
/// byte costs no more than one that comes at once
/// Refused are: a line that does not end with CR LF, a CR or a NUL elsewhere, folded lines, a space
/// before a colon, two of Host, Content-Length, Transfer-Encoding, Authorization, Content-Type or
/// If-Match, no Host, Content-Length beside Transfer-Encoding or not digits alone, any
/// Transfer-Encoding but "chunked", and that in HTTP/1.0.
HeadVerdict check_head(std::string_view bytes, std::size_t checked = 0);

}  // namespace runnel::serve
