// SPDX-License-Identifier: Apache-2.0
// Bytes to requests, without a socket: what a connection reads with and what the fuzzer feeds.
//
//   reader.append(bytes);
//   switch (reader.next()) { … }
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "app/serve/net/http.h"

namespace runnel::serve {

class ChunkedBody;

/// The requests of one connection, one after the other.
class RequestReader {
 public:
  enum class Event {
    more,   // what came is not enough
    head,   // request() has a head, and possibly a body is to come: body()
    whole,  // request() is whole
    wrong,  // error(); nothing that follows can be trusted
  };
  struct Problem {
    int status = 400;
    std::string message;
    const char* code = "bad_request";
  };

  explicit RequestReader(std::size_t body_bytes);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  void append(std::string_view bytes);
  /// Goes on with what came. After `whole` the next request begins.
  Event next();

  HttpRequest& request() { return request_; }
  const Problem& problem() const { return problem_; }
  /// A body is to come, or comes.
  bool has_body() const { return has_body_; }
  bool is_old() const { return old_; }  // HTTP/1.0
  /// Bytes that came and belong to no request that was given.
  std::size_t waiting() const { return in_.size(); }
  /// Throws away what came.
  void clear() { in_.clear(); }

 private:
  struct Parser;
  Event read_head();
  Event read_body();
  Event read_chunks();
  Event too_large_body();
  Event wrong(int status, std::string message, const char* code = "bad_request");

  const std::size_t body_bytes_;
  std::unique_ptr<Parser> parser_;       // from a head to the end of its body
  std::unique_ptr<ChunkedBody> chunks_;  // instead of it, of such a body
  std::string in_;
  std::size_t checked_ = 0;  // of it by check_head()
  HttpRequest request_;
  Problem problem_;
  bool has_body_ = false;
  bool old_ = false;
};

}  // namespace runnel::serve
