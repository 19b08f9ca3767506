// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 on one thread: any number of connections, none of which can hold up another.
//
//   RUNNEL_TRY(auto http, HttpServer::create({.port = 8080, .handle = handle}));
//   http->run();                       // until stop()
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/serve/net/http.h"
#include "runnel/result.h"

namespace runnel::serve {

/// An answer that has ended, for a log: nothing of what was said.
struct AccessEntry {
  std::string id;
  std::string address;
  std::string method;
  std::string path;
  int status = 0;
  std::uint64_t bytes = 0;  // of the answer, its head included
  std::chrono::microseconds time{0};
  bool whole = true;  // false: the client went away before the end
};

struct HttpSettings {
  std::string host = "127.0.0.1";
  int port = 0;                                    // 0: any free one
  std::size_t body_bytes = 1 << 20;                // of one request
  std::chrono::milliseconds request_time{10'000};  // from a request's first byte to its last
  std::chrono::milliseconds idle_time{5'000};      // between requests on one connection
  std::chrono::milliseconds write_time{5'000};     // for a client to take anything of what is sent
  std::size_t connections = 2048;                  // in all
  std::size_t connections_per_address = 512;       // of one client address
  std::size_t requests_per_connection = 10'000;

  /// Called when a head was read and its body was not: an answer refuses the request.
  std::function<std::optional<HttpReply>(const HttpRequest&)> admit;
  /// Called with a whole request.
  std::function<void(std::shared_ptr<Exchange>)> handle;
  /// The body of an answer that this server gives by itself.
  std::function<std::string(int status, const std::string& message, const char* code)> error_body;
  /// Called for every answer that has ended.
  std::function<void(const AccessEntry&)> log;
  // All of them on the thread of run().
};

/// run() on one thread; the other calls from any.
class HttpServer {
 public:
  /// Binds the address. @return io if it cannot be had.
  static Result<std::unique_ptr<HttpServer>> create(HttpSettings settings);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

  /// Serves until stop().
  Status run();

  /// From now on every answer ends its connection.
  void close_after_answers();

  /// Cuts all connections and ends run().
  void stop();

  struct Counts {
    std::size_t connections = 0;
    std::size_t answering = 0;  // requests without their whole answer
    std::uint64_t refused = 0;  // connections: too many
  };
  Counts counts() const;

  struct Impl;  // internal

 private:
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace runnel::serve
