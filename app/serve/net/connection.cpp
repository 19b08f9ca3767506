// SPDX-License-Identifier: Apache-2.0
#include "app/serve/net/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/status.hpp>
#include <cstdio>
#include <utility>

#include "app/serve/net/connection_exchange.h"

namespace runnel::serve {
namespace {

namespace http = boost::beast::http;
namespace asio = boost::asio;

constexpr std::chrono::milliseconds kLingerTime{1'000};  // for a client to read a last answer
constexpr std::size_t kMostLingerBytes = 1 << 20;        // thrown away meanwhile
constexpr std::size_t kMostAhead = 65'536;  // bytes of requests taken while one is answered

std::string chunk_of(const std::string& bytes) {
  char size[20];
  std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
  return size + bytes + "\r\n";
}

bool names_close(std::string_view header) {
  while (!header.empty()) {
    const std::size_t comma = header.find(',');
    std::string_view one = header.substr(0, comma);
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    if (same_name(one, "close")) return true;
    header.remove_prefix(comma == std::string_view::npos ? header.size() : comma + 1);
  }
  return false;
}

}  // namespace

// ---- Reading ----

void Connection::begin() {
  wait_until(reactor_.settings.idle_time);
  read();
}

void Connection::refuse(int status, const char* message, const char* code) {
  begun_ = Clock::now();
  error_reply(status, message, code);
}

void Connection::read() {
  if (reading_ || left_ || state_ == State::closed) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this()](const ErrorCodeOf& error, std::size_t size) {
                            self->reading_ = false;
                            self->took(error, size);
                          });
}

void Connection::took(const ErrorCodeOf& error, std::size_t size) {
  if (state_ == State::closed) return;
  if (error) {
    left_ = true;
    return client_left();
  }
  if (state_ == State::lingering) {
    lingered_ += size;
    if (lingered_ > kMostLingerBytes) return close();
    return read();
  }
  reader_.append({chunk_.data(), size});
  if (state_ != State::answering) return advance();
  if (reader_.waiting() < kMostAhead) read();
}

void Connection::client_left() {
  // A whole answer that is on its way already may still be read by a client
  // that only sends no more.
  if (state_ == State::answering && answer_begun_ && !next_) {
    close_ = true;
    return;
  }
  close();
}

void Connection::advance() {
  while (state_ == State::head || state_ == State::body) {
    if (state_ == State::head && !timing_ && reader_.waiting() != 0) {
      timing_ = true;
      wait_until(reactor_.settings.request_time);
      begun_ = since_ = Clock::now();
    }
    switch (reader_.next()) {
      case RequestReader::Event::more:
        return read();
      case RequestReader::Event::head:
        take_head();
        break;
      case RequestReader::Event::whole:
        dispatch();
        break;
      case RequestReader::Event::wrong:
        return error_reply(reader_.problem().status, reader_.problem().message,
                           reader_.problem().code);
    }
  }
  if (reader_.waiting() < kMostAhead) read();
}

// Refuses the request or waits for its body.
void Connection::take_head() {
  HttpRequest& request = reader_.request();
  request.address = address_;
  request.id = reactor_.id_prefix + std::to_string(++reactor_.requests);
  old_ = reader_.is_old();
  head_only_ = request.method == "HEAD";
  entry_ = {.id = request.id, .address = address_, .method = request.method, .path = request.path};
  close_ = old_ || names_close(request.header("Connection")) ||
           ++requests_ >= reactor_.settings.requests_per_connection;
  state_ = State::body;
  if (reactor_.settings.admit) {
    if (std::optional<HttpReply> refusal = reactor_.settings.admit(request)) {
      close_ = close_ || reader_.has_body();    // what was not read must never become a request
      if (!reader_.has_body()) reader_.next();  // its end
      state_ = State::answering;
      ++reactor_.answering;
      return say(std::move(*refusal));
    }
  }
  if (reader_.has_body() && reader_.waiting() == 0 &&
      same_name(request.header("Expect"), "100-continue")) {
    ErrorCodeOf ignored;
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    // It fits: nothing else is on its way.
    socket_.write_some(asio::buffer(kContinue), ignored);
  }
}

void Connection::dispatch() {
  state_ = State::answering;
  since_ = Clock::now();
  deadline_.reset();
  answer_begun_ = last_ = woken_ = false;
  ++reactor_.answering;
  exchange_ =
      std::make_shared<ConnectionExchange>(shared_from_this(), std::move(reader_.request()));
  reactor_.settings.handle(exchange_);
}

// ---- Answering ----

std::string Connection::head_of(const HttpReply& reply, std::optional<std::size_t> length) {
  close_ = close_ || reactor_.closing || (!length && old_);
  entry_.status = reply.status;
  const auto reason = http::obsolete_reason(static_cast<http::status>(reply.status));
  std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " ";
  head.append(reason.data(), reason.size());
  head += "\r\nContent-Type: " + reply.type;
  if (length) head += "\r\nContent-Length: " + std::to_string(*length);
  chunked_ = !length && !old_;
  if (chunked_) head += "\r\nTransfer-Encoding: chunked";
  if (!entry_.id.empty()) head += "\r\nX-Request-Id: " + entry_.id;
  for (const auto& [name, value] : reply.headers)
    head.append("\r\n").append(name).append(": ").append(value);
  head += close_ ? "\r\nConnection: close\r\n\r\n" : "\r\n\r\n";
  return head;
}

// What is wrong came before the request was read whole.
void Connection::error_reply(int status, const std::string& message, const char* code) {
  close_ = true;
  state_ = State::answering;
  ++reactor_.answering;
  HttpReply reply{.status = status};
  if (reactor_.settings.error_body)
    reply.body = reactor_.settings.error_body(status, message, code);
  if (status == 429 || status == 503) reply.headers.emplace_back("Retry-After", "1");
  say(std::move(reply));
}

void Connection::say(HttpReply reply) {
  answer_begun_ = last_ = true;
  std::string bytes = head_of(reply, reply.body.size());
  if (!head_only_) bytes += reply.body;
  send(std::move(bytes));
}

void Connection::stream(HttpReply head, std::function<BodyPiece()> next) {
  answer_begun_ = true;
  next_ = std::move(next);
  woken_ = true;
  send(head_of(head, {}));
}

void Connection::pull() {
  woken_ = true;
  if (!next_ || writing_ || last_) return;
  woken_ = false;
  BodyPiece piece = next_();
  std::string bytes;
  if (!piece.bytes.empty()) bytes = chunked_ ? chunk_of(piece.bytes) : std::move(piece.bytes);
  last_ = piece.last;
  if (last_ && chunked_) bytes += "0\r\n\r\n";
  if (!bytes.empty()) {
    send(std::move(bytes));
  } else if (last_) {
    answered(true);
  }
}

void Connection::send(std::string bytes) {
  out_ = std::move(bytes);
  out_done_ = 0;
  entry_.bytes += out_.size();
  write();
}

void Connection::write() {
  writing_ = true;
  wait_until(reactor_.settings.write_time);
  socket_.async_write_some(asio::buffer(out_.data() + out_done_, out_.size() - out_done_),
                           [self = shared_from_this()](const ErrorCodeOf& error, std::size_t size) {
                             self->writing_ = false;
                             if (self->state_ == State::closed) return;
                             if (error) return self->close();
                             self->out_done_ += size;
                             if (self->out_done_ < self->out_.size()) return self->write();
                             self->sent();
                           });
}

void Connection::sent() {
  deadline_.reset();
  out_.clear();
  if (last_) return answered(true);
  if (woken_) pull();
}

void Connection::answered(bool whole) {
  entry_.whole = whole;
  entry_.time = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begun_);
  if (reactor_.settings.log) reactor_.settings.log(entry_);
  --reactor_.answering;
  entry_ = {};
  exchange_.reset();
  next_ = nullptr;
  gone_ = nullptr;
  answer_begun_ = last_ = woken_ = head_only_ = false;
  if (!whole) return;
  if (close_ || reactor_.closing) return linger();
  state_ = State::head;
  timing_ = false;
  since_ = Clock::now();
  wait_until(reactor_.settings.idle_time);
  advance();
}

// Closing at once with bytes unread would reset the connection, and the client
// might never see the answer.
void Connection::linger() {
  if (left_) return close();
  ErrorCodeOf ignored;
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  state_ = State::lingering;
  reader_.clear();
  wait_until(kLingerTime);
  read();
}

void Connection::look(Clock::time_point now) {
  if (!deadline_ || now < *deadline_) return;
  if ((state_ == State::head && reader_.waiting() != 0) || state_ == State::body)
    return error_reply(408, "the request did not come whole in time", "request_timeout");
  close();
}

void Connection::close() {
  if (state_ == State::closed) return;
  const auto self = shared_from_this();
  const bool unanswered = state_ == State::answering;
  state_ = State::closed;
  ErrorCodeOf ignored;
  socket_.close(ignored);
  if (unanswered) {
    const std::function<void()> gone = std::move(gone_);
    answered(false);
    if (gone) gone();
  }
  reactor_.forget(*this);
}

}  // namespace runnel::serve
