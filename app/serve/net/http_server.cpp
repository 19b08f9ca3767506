// SPDX-License-Identifier: Apache-2.0
// Accepts connections and holds them to their number and their time.
#include "app/serve/net/http_server.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <random>
#include <unordered_map>

#include "app/serve/net/connection.h"
#include "runtime/base/try.h"

namespace runnel::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failure = boost::system::error_code;

constexpr int kBacklog = 1024;
constexpr std::chrono::milliseconds kLook{100};  // between looks at deadlines
// The system's buffer for a client that does not read; 4 MB if the system may choose.
constexpr int kSendBuffer = 131'072;
constexpr std::chrono::milliseconds kNoSocket{20};  // before another try to accept
constexpr std::size_t kEndingConnections = 512;     // being closed, beyond the limit

std::string random_prefix() {
  std::random_device entropy;
  char text[16];
  std::snprintf(text, sizeof(text), "%08x-", static_cast<unsigned>(entropy()));
  return text;
}

}  // namespace

struct HttpServer::Impl {
  explicit Impl(HttpSettings settings) : reactor(std::move(settings)) {
    reactor.id_prefix = random_prefix();
    reactor.forget = [this](Connection& connection) { forget(connection); };
  }

  Status listen();
  void accept();
  void take(tcp::socket socket);
  bool make_room(const std::string* address);
  void forget(Connection& connection);
  void look();

  Reactor reactor;
  tcp::acceptor acceptor{reactor.io};
  asio::steady_timer looking{reactor.io};
  asio::steady_timer pause{reactor.io};
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
  std::map<std::string, std::size_t> by_address;
  std::atomic<std::size_t> count{0};
  std::atomic<std::uint64_t> refused{0};
  int port = 0;
};

Status HttpServer::Impl::listen() {
  const HttpSettings& s = reactor.settings;
  std::string host = s.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  Failure failure;
  tcp::resolver resolver(reactor.io);
  const auto found =
      resolver.resolve(host, std::to_string(s.port),
                       tcp::resolver::numeric_service | tcp::resolver::passive, failure);
  if (!failure && !found.empty()) {
    const tcp::endpoint endpoint = *found.begin();
    acceptor.open(endpoint.protocol(), failure);
    if (!failure) acceptor.set_option(tcp::acceptor::reuse_address(true), failure);
    if (!failure) acceptor.bind(endpoint, failure);
    if (!failure) acceptor.listen(kBacklog, failure);
    if (!failure) port = acceptor.local_endpoint(failure).port();
  }
  if (failure || port == 0) {
    return fail(ErrorCode::io, "cannot listen on ", s.host, " port ", s.port, ": ",
                failure.message());
  }
  return {};
}

void HttpServer::Impl::accept() {
  acceptor.async_accept([this](const Failure& failure, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (failure && failure != asio::error::connection_aborted) {
      make_room(nullptr);  // no socket to be had
      pause.expires_after(kNoSocket);
      pause.async_wait([this](const Failure& stopped) {
        if (!stopped && acceptor.is_open()) accept();
      });
      return;
    }
    if (!failure) take(std::move(socket));
    accept();
  });
}

void HttpServer::Impl::take(tcp::socket socket) {
  Failure failure;
  const tcp::endpoint from = socket.remote_endpoint(failure);
  if (failure) return;  // it has gone already
  socket.set_option(tcp::no_delay(true), failure);
  socket.set_option(tcp::socket::send_buffer_size(kSendBuffer), failure);
  socket.non_blocking(true, failure);
  const HttpSettings& s = reactor.settings;
  if (connections.size() >= s.connections + kEndingConnections) {
    ++refused;
    return;
  }
  const std::string address = from.address().to_string();
  const auto connection = std::make_shared<Connection>(reactor, std::move(socket), address);
  const bool crowd = by_address[address] >= s.connections_per_address && !make_room(&address);
  const bool full = connections.size() >= s.connections && !make_room(nullptr);
  connections.emplace(connection.get(), connection);
  ++by_address[address];
  count = connections.size();
  if (!crowd && !full) return connection->begin();
  ++refused;
  if (crowd) {
    connection->refuse(429, "too many connections from this address", "too_many_connections");
  } else {
    connection->refuse(503, "too many connections", "too_many_connections");
  }
}

// Closes the connection that has waited longest between two requests, of one address or of all.
bool HttpServer::Impl::make_room(const std::string* address) {
  std::shared_ptr<Connection> oldest;
  for (const auto& [raw, connection] : connections) {
    if (!connection->idle() || (address != nullptr && connection->address() != *address)) continue;
    if (!oldest || connection->since() < oldest->since()) oldest = connection;
  }
  if (oldest) oldest->close();
  return oldest != nullptr;
}

void HttpServer::Impl::forget(Connection& connection) {
  const auto found = connections.find(&connection);
  if (found == connections.end()) return;
  const auto address = by_address.find(connection.address());
  if (address != by_address.end() && --address->second == 0) by_address.erase(address);
  connections.erase(found);
  count = connections.size();
}

void HttpServer::Impl::look() {
  looking.expires_after(kLook);
  looking.async_wait([this](const Failure& stopped) {
    if (stopped) return;
    std::vector<std::shared_ptr<Connection>> all;  // looking may close some
    all.reserve(connections.size());
    for (const auto& [raw, connection] : connections) all.push_back(connection);
    const Clock::time_point now = Clock::now();
    for (const auto& connection : all) connection->look(now);
    look();
  });
}

Result<std::unique_ptr<HttpServer>> HttpServer::create(HttpSettings settings) {
  auto impl = std::make_unique<Impl>(std::move(settings));
  RUNNEL_CHECK_OK(impl->listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port; }

Status HttpServer::run() {
  impl_->accept();
  impl_->look();
  try {
    impl_->reactor.io.run();
  } catch (const std::exception& error) {
    return fail(ErrorCode::internal, "the server stopped: ", error.what());
  }
  return {};
}

void HttpServer::close_after_answers() {
  asio::post(impl_->reactor.io, [this] {
    impl_->reactor.closing = true;
    std::vector<std::shared_ptr<Connection>> idle;
    for (const auto& [raw, connection] : impl_->connections) {
      if (connection->idle()) idle.push_back(connection);
    }
    for (const auto& connection : idle) connection->close();
  });
}

void HttpServer::stop() {
  asio::post(impl_->reactor.io, [this] {
    Failure ignored;
    impl_->acceptor.close(ignored);
    impl_->looking.cancel();
    impl_->pause.cancel();
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [raw, connection] : impl_->connections) all.push_back(connection);
    for (const auto& connection : all) connection->close();
    impl_->reactor.io.stop();
  });
}

HttpServer::Counts HttpServer::counts() const {
  return {.connections = impl_->count,
          .answering = impl_->reactor.answering,
          .refused = impl_->refused};
}

}  // namespace runnel::serve
