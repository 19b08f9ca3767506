// SPDX-License-Identifier: Apache-2.0
#include "tests/serve/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <stdexcept>

#include "tests/support/chat_model.h"

namespace runnel::test {
namespace {

constexpr std::chrono::seconds kTimeout{10};

}  // namespace

void Serving::write_model(const std::filesystem::path& file) const { write_chat_model(file); }

void Serving::use_template(std::string_view text) {
  chat_template_ = (directory_.path() / "t.jinja").string();
  std::ofstream(chat_template_) << text;
}

const std::shared_ptr<const Model>& Serving::model() {
  if (!model_) {
    const std::filesystem::path file = directory_.path() / "tiny.gguf";
    write_model(file);
    auto loaded =
        Model::load(file, {.device = "cpu", .threads = 1, .chat_template = chat_template_});
    if (!loaded) throw std::runtime_error(loaded.error().message);
    model_ = *loaded;
  }
  return model_;
}

void Serving::start(serve::ServerSettings settings) {
  stop();
  settings.port = 0;
  auto server = serve::Server::create(model(), std::move(settings));
  if (!server) throw std::runtime_error(server.error().message);
  server_ = std::move(*server);
  thread_ = std::thread([this] { EXPECT_TRUE(server_->run()); });
  ASSERT_TRUE(wait_for([](const Json&) { return true; }));
}

void Serving::stop() {
  if (!server_) return;
  const Status stopped = server_->stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
  thread_.join();
  server_.reset();
}

Reply Serving::get(const std::string& path, const Headers& headers) const {
  return send("GET", path, "", headers);
}

Reply Serving::post(const std::string& path, const Json& body, const Headers& headers) const {
  return send("POST", path, body.dump(), headers);
}

Reply Serving::send(const std::string& method, const std::string& path, const std::string& body,
                    const Headers& headers) const {
  std::string request = method + " " + path + " HTTP/1.1\r\n";
  Headers all = {{"Host", "localhost"}, {"Connection", "close"}};
  if (!body.empty() || method == "POST") {
    all.emplace_back("Content-Type", "application/json");
    all.emplace_back("Content-Length", std::to_string(body.size()));
  }
  for (const auto& [name, value] : headers) {
    std::erase_if(all, [&name = name](const auto& one) { return one.first == name; });
    all.emplace_back(name, value);
  }
  for (const auto& [name, value] : all) request += name + ": " + value + "\r\n";
  const std::vector<Reply> replies =
      answers(conversation(request + "\r\n" + body, std::chrono::seconds(60)));
  return replies.empty() ? Reply{} : replies.front();
}

Reply Serving::chat(const std::string& text, const Json& more) const {
  Json body = {{"messages", {{{"role", "user"}, {"content", text}}}},
               {"max_tokens", 8},
               {"temperature", 0},
               {"ignore_end", true}};
  if (!more.is_null()) body.update(more);
  return post("/v1/chat/completions", body);
}

std::string Serving::text(const Reply& reply) {
  if (reply.status != 200) return "status " + std::to_string(reply.status) + ": " + reply.raw;
  return reply.body.at("choices").at(0).at("message").at("content").get<std::string>();
}

bool Serving::wait_for(const std::function<bool(const Json&)>& ready) const {
  const auto deadline = std::chrono::steady_clock::now() + kTimeout;
  while (std::chrono::steady_clock::now() < deadline) {
    const Reply health = get("/health");
    if (health.status == 200 && ready(health.body)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "not within ten seconds; /health says " << get("/health").raw;
  return false;
}

int Serving::raw_connection(const std::string& bytes, const char* from) const {
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (from != nullptr) {
    ::inet_pton(AF_INET, from, &address.sin_addr);
    if (::bind(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("cannot be another client");
  }
  address.sin_port = htons(static_cast<std::uint16_t>(port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    throw std::runtime_error("cannot connect to the server");
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t now = ::send(client, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) break;  // a server that refuses need not read all
    sent += static_cast<std::size_t>(now);
  }
  return client;
}

std::string Serving::conversation(const std::string& bytes, std::chrono::seconds timeout) const {
  const int client = raw_connection(bytes);
  std::string said = read_to_end(client, timeout);
  ::close(client);
  return said;
}

std::string Serving::read_to_end(int client, std::chrono::seconds timeout) {
  const timeval time{.tv_sec = timeout.count(), .tv_usec = 0};
  ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  std::string said;
  char piece[16'384];
  ssize_t got = 0;
  while ((got = ::recv(client, piece, sizeof(piece), 0)) > 0)
    said.append(piece, static_cast<std::size_t>(got));
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    ADD_FAILURE() << "the server did not close the connection after: " << said;
  return said;
}

std::string Reply::header(const std::string& name) const {
  const std::size_t at = head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size() + 4;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

std::vector<Reply> answers(const std::string& said) {
  std::vector<Reply> all;
  std::size_t at = 0;
  while (at < said.size()) {
    Reply reply;
    const std::size_t end = said.find("\r\n\r\n", at);
    if (end == std::string::npos) break;
    reply.head = said.substr(at, end + 2 - at);
    reply.status = std::stoi(reply.head.substr(9, 3));
    at = end + 4;
    if (reply.status == 100) continue;
    if (reply.header("Transfer-Encoding") == "chunked") {
      while (true) {
        const std::size_t line = said.find("\r\n", at);
        if (line == std::string::npos) return all;
        const std::size_t size = std::stoul(said.substr(at, line - at), nullptr, 16);
        reply.raw += said.substr(line + 2, size);
        at = line + 2 + size + 2;
        if (size == 0) break;
      }
    } else {
      const std::string length = reply.header("Content-Length");
      reply.raw = said.substr(at, length.empty() ? std::string::npos : std::stoul(length));
      at += reply.raw.size();
    }
    reply.body = Json::parse(reply.raw, nullptr, false);
    all.push_back(std::move(reply));
  }
  return all;
}

std::vector<Json> events(const std::string& raw) {
  std::vector<Json> all;
  for (std::size_t at = 0; (at = raw.find("data: ", at)) != std::string::npos;) {
    at += 6;
    const std::string line = raw.substr(at, raw.find('\n', at) - at);
    if (line != "[DONE]") all.push_back(Json::parse(line));
  }
  return all;
}

}  // namespace runnel::test
