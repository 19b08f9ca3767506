// SPDX-License-Identifier: Apache-2.0
#include "tests/serve/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <stdexcept>

#include "tests/support/chat_model.h"

namespace runnel::test {
namespace {

constexpr std::chrono::seconds kPatience{10};

}  // namespace

const std::shared_ptr<const Model>& Serving::model() {
  if (!model_) {
    const std::filesystem::path file = directory_.path() / "tiny.gguf";
    write_chat_model(file);
    auto loaded = Model::load(file, {.device = "cpu", .threads = 1});
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
  wait_for([](const Json&) { return true; });
}

void Serving::stop() {
  if (!server_) return;
  server_->stop();
  thread_.join();
  server_.reset();
}

Reply Serving::get(const std::string& path) const {
  httplib::Client client("127.0.0.1", port());
  const httplib::Result result = client.Get(path);
  if (!result) return {};
  return {result->status, Json::parse(result->body, nullptr, false), result->body};
}

Reply Serving::post(const std::string& path, const Json& body,
                    const httplib::Headers& headers) const {
  httplib::Client client("127.0.0.1", port());
  client.set_read_timeout(60);
  const httplib::Result result = client.Post(path, headers, body.dump(), "application/json");
  if (!result) return {};
  return {result->status, Json::parse(result->body, nullptr, false), result->body};
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
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    const Reply health = get("/health");
    if (health.status == 200 && ready(health.body)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "not within ten seconds; /health says " << get("/health").raw;
  return false;
}

int Serving::raw_connection(const std::string& bytes) const {
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("cannot connect to the server");
  }
  return client;
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
