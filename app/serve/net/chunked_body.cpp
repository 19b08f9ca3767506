// SPDX-License-Identifier: Apache-2.0
#include "app/serve/net/chunked_body.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "app/serve/net/head_check.h"

namespace runnel::serve {

ChunkedBody::State ChunkedBody::wrong(const char* message) {
  message_ = message;
  return State::wrong;
}

// The first line of `rest`, or none as long as it has not ended.
ChunkedBody::State ChunkedBody::take_line(std::string_view& rest, Line& line) {
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (i == kMostChunkLine) return wrong("a line between chunks is too long");
    if (c == '\r') {
      if (i + 1 == rest.size()) return State::more;
      if (rest[i + 1] != '\n') return wrong("a CR is not followed by LF");
      line = {rest.substr(0, i), true};
      rest.remove_prefix(i + 2);
      return State::more;
    }
    if (c == '\n') return wrong("a line ends with LF, expected CR LF");
    if (c != '\t' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7F))
      return wrong("a line between chunks holds a control character");
  }
  return State::more;
}

ChunkedBody::State ChunkedBody::read_size(std::string_view line) {
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  if (error == std::errc::result_out_of_range) return State::too_large;
  if (error != std::errc()) return wrong("a chunk has no size");
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  const std::size_t next = line.find_first_not_of(" \t");
  if (next != std::string_view::npos ? line[next] != ';' : !line.empty())
    return wrong("a chunk's size is not hexadecimal digits alone");
  if (size > most_bytes_ - body_.size()) return State::too_large;
  left_ = static_cast<std::size_t>(size);
  part_ = size == 0 ? Part::trailer : Part::data;
  return State::more;
}

ChunkedBody::State ChunkedBody::read_trailer(std::string_view line) {
  if (line.empty()) return State::done;
  trailers_ += line.size();
  if (trailers_ > kMostHeadBytes) return wrong("the trailers are too long");
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return wrong("a trailer has no name");
  return State::more;
}

// Takes one thing from the front of `rest`, or nothing.
ChunkedBody::State ChunkedBody::read_part(std::string_view& rest) {
  switch (part_) {
    case Part::data: {
      const std::size_t n = std::min(left_, rest.size());
      body_ += rest.substr(0, n);
      rest.remove_prefix(n);
      left_ -= n;
      if (left_ == 0) part_ = Part::data_end, left_ = 2;
      return State::more;
    }
    case Part::data_end:
      if (rest.front() != (left_ == 2 ? '\r' : '\n'))
        return wrong("a chunk is longer than its size");
      rest.remove_prefix(1);
      if (--left_ == 0) part_ = Part::size;
      return State::more;
    case Part::size:
    case Part::trailer: {
      Line line;
      const State state = take_line(rest, line);
      if (state != State::more || !line.whole) return state;
      return part_ == Part::size ? read_size(line.text) : read_trailer(line.text);
    }
  }
  return State::more;
}

ChunkedBody::Step ChunkedBody::read(std::string_view bytes) {
  std::string_view rest = bytes;
  State state = State::more;
  while (state == State::more && !rest.empty()) {
    const std::size_t before = rest.size();
    state = read_part(rest);
    if (rest.size() == before) break;
  }
  return {state, bytes.size() - rest.size()};
}

}  // namespace runnel::serve
