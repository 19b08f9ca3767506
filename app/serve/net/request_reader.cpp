// SPDX-License-Identifier: Apache-2.0
#include "app/serve/net/request_reader.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "app/serve/net/chunked_body.h"
#include "app/serve/net/head_check.h"

namespace runnel::serve {
namespace {

namespace http = boost::beast::http;

}  // namespace

struct RequestReader::Parser {
  http::request_parser<http::string_body> http;
};

RequestReader::RequestReader(std::size_t body_bytes) : body_bytes_(body_bytes) {}
RequestReader::~RequestReader() = default;

void RequestReader::append(std::string_view bytes) { in_ += bytes; }

RequestReader::Event RequestReader::next() {
  if (chunks_) return read_chunks();
  return parser_ ? read_body() : read_head();
}

RequestReader::Event RequestReader::wrong(int status, std::string message, const char* code) {
  problem_ = {status, std::move(message), code};
  return Event::wrong;
}

RequestReader::Event RequestReader::too_large_body() {
  return wrong(413, "the body has more than " + std::to_string(body_bytes_) + " bytes",
               "body_too_large");
}

RequestReader::Event RequestReader::read_head() {
  if (in_.empty()) return Event::more;
  const HeadVerdict verdict = check_head(in_, checked_);
  checked_ = in_.size();
  if (!verdict.wrong.empty()) return wrong(verdict.too_long ? 431 : 400, verdict.wrong);
  if (verdict.size == 0) return Event::more;
  parser_ = std::make_unique<Parser>();
  auto& parser = parser_->http;
  parser.header_limit(static_cast<std::uint32_t>(kMostHeadBytes));
  parser.body_limit(body_bytes_);
  boost::system::error_code error;
  parser.put(boost::asio::buffer(in_.data(), verdict.size), error);
  in_.erase(0, verdict.size);
  checked_ = 0;
  const bool too_large = error == http::error::body_limit;
  if (!too_large && (error || !parser.is_header_done()))
    return wrong(400, "the request cannot be read: " + error.message());
  const auto& message = parser.get();
  old_ = message.version() < 11;
  request_ = {};
  request_.method = std::string(message.method_string());
  const std::string_view target(message.target().data(), message.target().size());
  request_.path = std::string(target.substr(0, target.find('?')));
  for (const auto& field : message)
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  has_body_ = too_large || !parser.is_done();
  if (too_large) return too_large_body();
  if (message.chunked()) {
    chunks_ = std::make_unique<ChunkedBody>(body_bytes_);
    parser_.reset();
  }
  return Event::head;
}

RequestReader::Event RequestReader::read_chunks() {
  const ChunkedBody::Step step = chunks_->read(in_);
  in_.erase(0, step.taken);
  switch (step.state) {
    case ChunkedBody::State::more:
      return Event::more;
    case ChunkedBody::State::too_large:
      return too_large_body();
    case ChunkedBody::State::wrong:
      return wrong(400, "the body cannot be read: " + chunks_->message());
    case ChunkedBody::State::done:
      break;
  }
  request_.body = std::move(chunks_->body());
  chunks_.reset();
  return Event::whole;
}

RequestReader::Event RequestReader::read_body() {
  auto& parser = parser_->http;
  parser.eager(true);
  boost::system::error_code error;
  if (!in_.empty() && !parser.is_done()) in_.erase(0, parser.put(boost::asio::buffer(in_), error));
  if (error == http::error::body_limit) return too_large_body();
  if (error && error != http::error::need_more)
    return wrong(400, "the body cannot be read: " + error.message());
  if (!parser.is_done()) return Event::more;
  request_.body = std::move(parser.get().body());
  parser_.reset();
  return Event::whole;
}

}  // namespace runnel::serve
