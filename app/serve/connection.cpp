// SPDX-License-Identifier: Apache-2.0
#include "app/serve/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace runnel::serve {
namespace {

thread_local bool refuse_connection = false;

constexpr std::string_view kBusy =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: "
    "1\r\nConnection: close\r\n"
    "Content-Length: 109\r\n\r\n"
    "{\"error\":{\"message\":\"too many connections\",\"type\":\"server_error\",\"param\":null,"
    "\"code\":\"too_many_connections\"}}";
constexpr std::string_view kBusyBody = kBusy.substr(kBusy.find("\r\n\r\n") + 4);
static_assert(kBusyBody.size() == 109);

std::chrono::milliseconds until(std::chrono::steady_clock::time_point deadline) {
  return std::max(std::chrono::milliseconds(0),
                  std::chrono::duration_cast<std::chrono::milliseconds>(
                      deadline - std::chrono::steady_clock::now()));
}

}  // namespace

// ---- PatientStream ----

bool PatientStream::wait_for(short events, std::chrono::milliseconds time) const {
  pollfd watched{socket_, events, 0};
  const auto deadline = std::chrono::steady_clock::now() + time;
  int ready = 0;
  while ((ready = ::poll(&watched, 1, static_cast<int>(until(deadline).count()))) < 0 &&
         errno == EINTR) {
  }
  return ready > 0 && (watched.revents & (events | POLLHUP)) != 0;
}

bool PatientStream::begin_request() {
  deadline_ = std::chrono::steady_clock::now() + patience_.idle;
  if (!is_readable()) return false;
  deadline_ = std::chrono::steady_clock::now() + patience_.request;
  return true;
}

bool PatientStream::is_readable() const {
  return begin_ < end_ || wait_for(POLLIN, until(deadline_));
}

bool PatientStream::is_writable() const {
  char next = 0;
  const ssize_t peeked = ::recv(socket_, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  if (peeked == 0 || (peeked < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
    return false;
  return true;
}

ssize_t PatientStream::read(char* to, std::size_t size) {
  if (begin_ == end_) {
    if (!wait_for(POLLIN, until(deadline_))) return -1;
    ssize_t got = 0;
    while ((got = ::recv(socket_, buffer_.data(), buffer_.size(), 0)) < 0 && errno == EINTR) {
    }
    if (got <= 0) return got;
    begin_ = 0;
    end_ = static_cast<std::size_t>(got);
  }
  const std::size_t n = std::min(size, end_ - begin_);
  std::memcpy(to, buffer_.data() + begin_, n);
  begin_ += n;
  return static_cast<ssize_t>(n);
}

ssize_t PatientStream::write(const char* from, std::size_t size) {
  if (!wait_for(POLLOUT, patience_.write)) return -1;
  ssize_t sent = 0;
  // Not blocking: a client that reads slowly may have room for a part only.
  while ((sent = ::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR) {
  }
  return sent;
}

void PatientStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip = "client";  // nothing here depends on who asks
  port = 0;
}

void PatientStream::get_local_ip_and_port(std::string& ip, int& port) const {
  ip = "server";
  port = 0;
}

// ---- PatientServer ----

bool PatientServer::process_and_close_socket(socket_t socket) {
  if (ConnectionQueue::refusing()) {
    [[maybe_unused]] const ssize_t sent =
        ::send(socket, kBusy.data(), kBusy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } else {
    PatientStream stream(socket, patience_);
    for (std::size_t left = patience_.requests;
         left > 0 && svr_sock_ != INVALID_SOCKET && stream.begin_request(); --left) {
      bool closed = false;
      if (!process_request(stream, left == 1, closed, nullptr) || closed) break;
    }
  }
  ::shutdown(socket, SHUT_RDWR);
  ::close(socket);
  return true;
}

// ---- ConnectionQueue ----

bool ConnectionQueue::refusing() { return refuse_connection; }

void ConnectionQueue::enqueue(std::function<void()> connection) {
  std::unique_lock lock(mutex_);
  if (waiting_.size() >= 2 * most_) {
    lock.unlock();
    refuse_connection = true;
    connection();
    refuse_connection = false;
    return;
  }
  waiting_.push_back(std::move(connection));
  if (idle_ < waiting_.size() && threads_.size() < most_) threads_.emplace_back([this] { work(); });
  lock.unlock();
  arrived_.notify_one();
}

void ConnectionQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    arrived_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    const std::function<void()> connection = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    connection();
    lock.lock();
  }
}

void ConnectionQueue::shutdown() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  arrived_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace runnel::serve
