// SPDX-License-Identifier: Apache-2.0
// httplib's server with our own patience: how long a client may take to ask and to listen, and how
// many may at once.
#pragma once

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace runnel::serve {

struct Patience {
  std::chrono::milliseconds request{10'000};  // from a request's first byte to its last
  std::chrono::milliseconds idle{5'000};      // between requests on one connection
  std::chrono::milliseconds write{5'000};     // for a client to take anything of what is sent
  std::size_t requests = 1000;                // on one connection
};

/// A socket with deadlines. A client that sends a byte now and then still has only so long for its
/// request.
class PatientStream final : public httplib::Stream {
 public:
  PatientStream(int socket, const Patience& patience) : socket_(socket), patience_(patience) {}

  /// Waits for the first byte of a request and starts its clock.
  bool begin_request();

  bool is_readable() const override;
  /// Also false when the client has gone.
  bool is_writable() const override;
  ssize_t read(char* to, std::size_t size) override;
  ssize_t write(const char* from, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  int socket() const override { return socket_; }

 private:
  bool wait_for(short events, std::chrono::milliseconds time) const;

  const int socket_;
  const Patience patience_;
  std::chrono::steady_clock::time_point deadline_;
  std::vector<char> buffer_ = std::vector<char>(4096);
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

class PatientServer final : public httplib::Server {
 public:
  explicit PatientServer(Patience patience) : patience_(patience) {}

 private:
  bool process_and_close_socket(socket_t socket) override;
  const Patience patience_;
};

/// Threads for connections, made when needed, at most `most`; further connections wait, and when
/// twice as many wait they are told so and closed.
class ConnectionQueue final : public httplib::TaskQueue {
 public:
  explicit ConnectionQueue(std::size_t most) : most_(most) {}
  ~ConnectionQueue() override { shutdown(); }

  void enqueue(std::function<void()> connection) override;
  void shutdown() override;

  /// Whether the connection of the calling thread is one too many.
  static bool refusing();

 private:
  void work();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace runnel::serve
