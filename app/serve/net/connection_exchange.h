// SPDX-License-Identifier: Apache-2.0
// An answer on its way to its connection. For connection.cpp alone.
#pragma once

#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "app/serve/net/connection.h"
#include "app/serve/net/http.h"

namespace runnel::serve {

/// Hands what other threads say to the reactor's.
class ConnectionExchange final : public Exchange,
                                 public std::enable_shared_from_this<ConnectionExchange> {
 public:
  ConnectionExchange(std::shared_ptr<Connection> connection, HttpRequest request)
      : connection_(std::move(connection)), request_(std::move(request)) {}

  HttpRequest& request() override { return request_; }

  void reply(HttpReply reply) override {
    on_reactor([self = shared_from_this(), reply = std::move(reply)]() mutable {
      if (self->answers()) self->connection_->say(std::move(reply));
    });
  }

  void stream(HttpReply head, std::function<BodyPiece()> next) override {
    on_reactor(
        [self = shared_from_this(), head = std::move(head), next = std::move(next)]() mutable {
          if (self->answers()) self->connection_->stream(std::move(head), std::move(next));
        });
  }

  void wake() override {
    if (waking_.exchange(true)) return;
    on_reactor([self = shared_from_this()] {
      self->waking_ = false;
      if (self->current()) self->connection_->pull();
    });
  }

  void on_gone(std::function<void()> gone) override {
    on_reactor([self = shared_from_this(), gone = std::move(gone)]() mutable {
      if (self->current()) {
        self->connection_->gone_ = std::move(gone);
      } else {
        gone();
      }
    });
  }

 private:
  bool current() const { return connection_->exchange_.get() == this; }
  bool answers() const { return current() && !connection_->answer_begun_; }
  template <class Work>
  void on_reactor(Work work) {
    boost::asio::dispatch(connection_->reactor_.io, std::move(work));
  }

  const std::shared_ptr<Connection> connection_;
  HttpRequest request_;
  std::atomic<bool> waking_{false};
};

}  // namespace runnel::serve
