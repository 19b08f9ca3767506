// SPDX-License-Identifier: Apache-2.0
// One request and its answer as the API sees them; no network type in it.
//
//   void handle(std::shared_ptr<Exchange> exchange) {       // on the reactor's thread: be quick
//     exchange->reply({.status = 200, .body = "{}"});       // here, or later from any thread
//   }
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace runnel::serve {

struct HttpRequest {
  std::string method;  // as sent: "GET"
  std::string path;    // of the target, without the query
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::string address;  // of the client, without its port
  std::string id;       // of the request, in the answer and the log

  /// The value of a header, whatever its case; empty if there is none. No header that this server
  /// reads may come twice (head_check.h).
  std::string_view header(std::string_view name) const;
};

struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// What a stream has to say now; possibly nothing.
struct BodyPiece {
  std::string bytes;
  bool last = false;
};

/// A request that waits for its answer. All calls are thread-safe.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Does not change any more; its body may be moved out by the one who answers.
  virtual HttpRequest& request() = 0;

  /// The whole answer. The first call of reply() or stream() counts, others are ignored.
  virtual void reply(HttpReply reply) = 0;

  /// An answer made while it is sent. `next` is called on the reactor's thread when the client has
  /// taken what came before and wake() was called, so that a slow client holds up nobody and what
  /// it has not taken waits where it is made.
  virtual void stream(HttpReply head, std::function<BodyPiece()> next) = 0;
  virtual void wake() = 0;

  /// `gone` is called once if the client leaves or is cut off before its answer has ended; at once
  /// if it has already.
  virtual void on_gone(std::function<void()> gone) = 0;
};

/// Whether two names of headers, schemes or media types are the same: ASCII case is nothing.
bool same_name(std::string_view a, std::string_view b);

}  // namespace runnel::serve
