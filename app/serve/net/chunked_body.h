// SPDX-License-Identifier: Apache-2.0
// A body in chunks (RFC 9112, section 7.1), read strictly: whoever reads a line's end in another way than the next reader
// can be made to disagree where the request ends.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace runnel::serve {

/// Bytes of the line before a chunk, with its extensions, or of a trailer.
constexpr std::size_t kMostChunkLine = 1024;

/// The body of one request. Extensions and trailers are read over; a size is hexadecimal digits alone, every line ends
/// with CR LF, and no line holds a control character but tabs.
class ChunkedBody {
 public:
  enum class State {
    more,       // what came is not enough
    done,       // body() is whole
    too_large,  // it would have more than the bytes allowed
    wrong,      // message()
  };
  struct Step {
    State state = State::more;
    std::size_t taken = 0;  // bytes that belong to the body, or to what stands between its chunks
  };

  explicit ChunkedBody(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Goes on with `bytes`, of which the caller drops those taken. It makes no difference how bytes are cut.
  Step read(std::string_view bytes);

  std::string& body() { return body_; }
  const std::string& message() const { return message_; }

 private:
  enum class Part { size, data, data_end, trailer };
  struct Line {
    std::string_view text;
    bool whole = false;
  };

  State read_part(std::string_view& rest);
  State read_size(std::string_view line);
  State read_trailer(std::string_view line);
  State take_line(std::string_view& rest, Line& line);
  State wrong(const char* message);

  const std::size_t most_bytes_;
  Part part_ = Part::size;
  std::size_t left_ = 0;      // bytes of the chunk, or of its end
  std::size_t trailers_ = 0;  // bytes of trailers so far
  std::string body_, message_;
};

}  // namespace runnel::serve
