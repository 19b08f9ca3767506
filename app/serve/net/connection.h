// SPDX-License-Identifier: Apache-2.0
// One connection as a state machine on the reactor's thread. Includes Asio, which is slow to
// compile: for http_server.cpp and connection.cpp alone.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/serve/net/http.h"
#include "app/serve/net/http_server.h"
#include "app/serve/net/request_reader.h"

namespace runnel::serve {

using Clock = std::chrono::steady_clock;

class Connection;

/// What all connections of a server share.
struct Reactor {
  explicit Reactor(HttpSettings given) : settings(std::move(given)) {}

  const HttpSettings settings;
  boost::asio::io_context io{1};
  std::function<void(Connection&)> forget;  // a connection has closed
  std::string id_prefix;                    // of this process's requests
  std::uint64_t requests = 0;
  bool closing = false;  // every answer ends its connection
  std::atomic<std::size_t> answering{0};
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Reactor& reactor, boost::asio::ip::tcp::socket socket, std::string address)
      : reactor_(reactor),
        socket_(std::move(socket)),
        address_(std::move(address)),
        reader_(reactor.settings.body_bytes) {}

  void begin();
  /// Answers without having read anything, and closes.
  void refuse(int status, const char* message, const char* code);
  /// Ends what has taken too long.
  void look(Clock::time_point now);
  void close();

  /// Waiting for a request of which nothing came.
  bool idle() const { return state_ == State::head && reader_.waiting() == 0; }
  /// Being closed: counts for no limit.
  bool ending() const { return state_ >= State::lingering; }
  Clock::time_point since() const { return since_; }
  const std::string& address() const { return address_; }

 private:
  friend class ConnectionExchange;
  enum class State { head, body, answering, lingering, closed };
  using ErrorCodeOf = boost::system::error_code;

  void read();
  void took(const ErrorCodeOf& error, std::size_t size);
  void client_left();
  void advance();
  void take_head();
  void dispatch();
  void error_reply(int status, const std::string& message, const char* code);
  void say(HttpReply reply);
  void stream(HttpReply head, std::function<BodyPiece()> next);
  void pull();
  void send(std::string bytes);
  void write();
  void sent();
  void answered(bool whole);
  void linger();
  std::string head_of(const HttpReply& reply, std::optional<std::size_t> length);
  void wait_until(std::chrono::milliseconds time) { deadline_ = Clock::now() + time; }

  Reactor& reactor_;
  boost::asio::ip::tcp::socket socket_;
  const std::string address_;
  State state_ = State::head;
  Clock::time_point since_ = Clock::now();  // of the state
  std::optional<Clock::time_point> deadline_;
  std::size_t requests_ = 0;

  std::vector<char> chunk_ = std::vector<char>(8192);
  RequestReader reader_;
  bool timing_ = false;  // a request has begun
  bool reading_ = false;
  bool left_ = false;         // the client sends no more
  std::size_t lingered_ = 0;  // bytes thrown away before closing

  std::shared_ptr<class ConnectionExchange> exchange_;  // while answering
  std::function<BodyPiece()> next_;                     // of a stream
  std::function<void()> gone_;
  bool woken_ = false;
  bool last_ = false;  // all of the answer is in out_
  bool chunked_ = false;
  bool old_ = false;        // HTTP/1.0: no chunks
  bool head_only_ = false;  // HEAD
  bool close_ = false;      // after the answer
  bool answer_begun_ = false;
  bool writing_ = false;
  std::string out_;
  std::size_t out_done_ = 0;
  AccessEntry entry_;
  Clock::time_point begun_;
};

}  // namespace runnel::serve
