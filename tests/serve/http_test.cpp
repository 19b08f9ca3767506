// SPDX-License-Identifier: Apache-2.0
// The HTTP layer by raw sockets: one request, one answer, whatever is sent.
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "app/serve/net/head_check.h"
#include "app/serve/net/host.h"
#include "tests/serve/fixture.h"

namespace runnel {
namespace {

using test::answers;
using test::Json;
using test::Reply;

constexpr const char* kHost = "Host: localhost\r\n";
constexpr const char* kJson = "Content-Type: application/json\r\n";
const std::string kSmuggled = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";

class ServeHttp : public test::Serving {
 protected:
  static std::string post(const std::string& headers, const std::string& body,
                          const std::string& path = "/v1/completions") {
    return "POST " + path + " HTTP/1.1\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  // The one answer to `bytes`; the server closes behind it.
  Reply only_answer(const std::string& bytes) const {
    const std::vector<Reply> all = answers(conversation(bytes));
    EXPECT_EQ(all.size(), 1U) << "to: " << bytes.substr(0, 200);
    return all.empty() ? Reply{} : all.front();
  }
};

TEST_F(ServeHttp, ABodyThatWasNotReadIsNeverARequest) {
  start({.body_bytes = 4096});
  const std::string host = kHost, json = kJson;
  const struct {
    std::string request;
    int status;
  } cases[] = {
      {post(host + "Content-Type: text/plain\r\n", kSmuggled), 415},
      {post("Host: 127.evil.com\r\n" + json, kSmuggled), 403},
      {post(host + json, kSmuggled, "/nowhere"), 404},
      {post(host + json, kSmuggled, "/v1/models"), 405},
      {post(host + json, std::string(5000, 'x') + kSmuggled), 413},
  };
  for (const auto& c : cases) EXPECT_EQ(only_answer(c.request).status, c.status) << c.request;
}

TEST_F(ServeHttp, ABodyWithoutTheKeyIsNeverARequest) {
  start({.api_key = "secret"});
  const std::string inner =
      "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n";
  EXPECT_EQ(only_answer(post(std::string(kHost) + kJson, inner)).status, 401);
}

TEST_F(ServeHttp, HeadsThatCanBeReadInTwoWaysAreRefused) {
  start();
  const std::string begin = "POST /v1/completions HTTP/1.1\r\n" + std::string(kHost) + kJson;
  const std::string chunk = "0\r\n\r\n";
  for (const std::string& request : {
           begin + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk,
           begin + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + chunk,
           begin + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n" + chunk,
           begin + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + chunk,
           begin + "Content-Length: 5, 5\r\n\r\n" + chunk,
           begin + "Content-Length: +5\r\n\r\n" + chunk,
           begin + "Content-Length: 0x5\r\n\r\n" + chunk,
           begin + "Content-Length: 99999999999999999999\r\n\r\n" + chunk,
           begin + "Content-Length : 5\r\n\r\n" + chunk,
           begin + "Content-Length:\r\n\r\n" + chunk,
           begin + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunk,
           begin + "Transfer-Encoding: xchunked\r\n\r\n" + chunk,
           begin + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunk,
           begin + "X: a\r\n folded\r\nContent-Length: 5\r\n\r\n" + chunk,
           begin + "X: a\r\n\tfolded\r\n\r\n",
           begin + "X: a\rContent-Length: 5\r\n\r\n" + chunk,
           begin + std::string("X: a\0b\r\n\r\n", 10),
           begin + "Host: other\r\n\r\n",
           begin + "no colon\r\n\r\n",
           begin + ": no name\r\n\r\n",
           std::string("GET /health HTTP/1.1\nHost: localhost\n\n"),
           std::string("GET /health HTTP/1.1\r\nHost: localhost\n\r\n\r\n"),
           std::string("GET /health HTTP/1.1\r\n\r\n"),
           std::string("GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n"),
           std::string("GET  /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
           std::string("POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") +
               chunk,
           std::string("\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
           std::string("\x16\x03\x01\x02\x00\x01", 6),
       }) {
    EXPECT_EQ(only_answer(request + kSmuggled).status, 400) << request;
  }
}

TEST_F(ServeHttp, ChunksThatAreNoneAreRefused) {
  start();
  const std::string begin = "POST /v1/completions HTTP/1.1\r\n" + std::string(kHost) + kJson +
                            "Transfer-Encoding: chunked\r\n\r\n";
  for (const std::string& chunks :
       {std::string("x\r\n\r\n"), std::string("-1\r\n\r\n"), std::string("5\nhello\n0\n\n"),
        std::string("3\r\nhello\r\n0\r\n\r\n"), std::string("fffffffffffffffff\r\n"),
        std::string("1;e=\"\n\"\r\na\r\n0\r\n\r\n"), std::string("1 1\r\na\r\n0\r\n\r\n"),
        std::string("0\r\nno name\r\n\r\n"), std::string("0\r\nX: a\n\r\n"),
        "1;" + std::string(40'000, 'e')}) {
    EXPECT_EQ(only_answer(begin + chunks + kSmuggled).status / 100, 4) << chunks.substr(0, 40);
  }
}

TEST_F(ServeHttp, AChunkedBodyIsReadAsOne) {
  start();
  const std::string request =
      "POST /v1/completions HTTP/1.1\r\n" + std::string(kHost) + kJson +
      "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
      "10\r\n{\"prompt\": \"abc\"\r\n12\r\n, \"max_tokens\": 2}\r\n0\r\n\r\n";
  EXPECT_EQ(only_answer(request).status, 200);
}

TEST_F(ServeHttp, ExtensionsAndTrailersOfChunksAreReadOver) {
  start();
  const std::string request = "POST /v1/completions HTTP/1.1\r\n" + std::string(kHost) + kJson +
                              "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                              "10;signed=\"a; b\"\r\n{\"prompt\": \"abc\"\r\n012 ;x\r\n, "
                              "\"max_tokens\": 2}\r\n0\r\nSum: 1\r\n\r\n";
  EXPECT_EQ(only_answer(request).status, 200);
}

TEST_F(ServeHttp, RequestsOnOneConnectionAreAnsweredInTheirOrder) {
  start();
  const std::string body = R"({"prompt": "abc", "max_tokens": 2})";
  const std::vector<Reply> all = answers(conversation(
      kSmuggled + post(std::string(kHost) + kJson, body) + kSmuggled +
      "HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n" +
      "GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" + kSmuggled));
  ASSERT_GE(all.size(), 3U);
  EXPECT_EQ(all[0].body.at("object"), "list");
  EXPECT_EQ(all[1].body.at("object"), "text_completion");
  EXPECT_EQ(all[2].body.at("object"), "list");
}

TEST_F(ServeHttp, ARefusedRequestWithoutABodyKeepsItsConnection) {
  start();
  const std::vector<Reply> all =
      answers(conversation("GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n" + kSmuggled +
                           "GET /health HTTP/1.1\r\nHost: evil.com\r\nConnection: close\r\n\r\n"));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].status, 404);
  EXPECT_EQ(all[1].status, 200);
  EXPECT_EQ(all[2].status, 403);
}

TEST_F(ServeHttp, NamesAndTypesHaveNoCase) {
  start({.api_key = "secret"});
  EXPECT_EQ(send("POST", "/v1/completions", R"({"prompt": "abc", "max_tokens": 1})",
                 {{"authorization", "bEARER secret"},
                  {"Content-Type", "Application/JSON; charset=utf-8"}})
                .status,
            200);
  EXPECT_EQ(get("/v1/models", {{"Authorization", "Basic secret"}}).status, 401);
}

TEST_F(ServeHttp, OnlyNamesOfThisMachineAreAnswered) {
  start({.hosts = {"box.local"}});
  for (const char* host : {"localhost", "LocalHost:99", "127.0.0.1", "127.9.8.7:80", "[::1]",
                           "[::1]:8080", "box.local", "BOX.local:1"}) {
    EXPECT_EQ(get("/health", {{"Host", host}}).status, 200) << host;
  }
  for (const char* host : {"127.evil.com", "127.0.0.1.evil.com", "localhost.evil.com", "evil.com",
                           "127.0.0", "127.0.0.1:80:80", "[::1", "[::1]x", "[::2]", "128.0.0.1",
                           "localhost:", "box.local.evil.com", "0.0.0.0"}) {
    if (host == std::string("localhost:")) continue;  // an empty port is none
    EXPECT_EQ(get("/health", {{"Host", host}}).status, 403) << host;
  }
}

TEST(ServeHost, UrlsHoldIpv6BetweenBrackets) {
  EXPECT_EQ(serve::url_of("::1", 80), "http://[::1]:80");
  EXPECT_EQ(serve::url_of("[::1]", 80), "http://[::1]:80");
  EXPECT_EQ(serve::url_of("127.0.0.1", 80), "http://127.0.0.1:80");
}

TEST(ServeHead, IsReadTheSameInAnyPieces) {
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n";
  for (std::size_t cut = 1; cut < head.size(); ++cut) {
    const serve::HeadVerdict part = serve::check_head(head.substr(0, cut));
    EXPECT_EQ(part.size, 0U) << cut;
    EXPECT_EQ(part.wrong, "") << cut;
    EXPECT_EQ(serve::check_head(head + "{}", cut).size, head.size()) << cut;
  }
}

TEST_F(ServeHttp, SlowConnectionsStallNobody) {
  start();
  std::vector<int> slow;
  for (int i = 0; i < 300; ++i)
    slow.push_back(raw_connection("POST /v1/chat/completions HTTP/1.1\r\nHost: local"));
  std::chrono::milliseconds worst{0};
  for (int i = 0; i < 50; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(get("/health").status, 200);
    worst = std::max(worst, std::chrono::duration_cast<std::chrono::milliseconds>(
                                std::chrono::steady_clock::now() - begin));
  }
  EXPECT_LT(worst.count(), 500) << "milliseconds; on a busy machine with sanitizers";
  EXPECT_EQ(chat("Hello").status, 200);
  for (const int client : slow) ::close(client);
}

TEST_F(ServeHttp, OneAddressHasItsShareOfConnections) {
  start({.connections_per_address = 20});
  const std::string begun = "POST /v1/completions HTTP/1.1\r\nHost: local";
  std::vector<int> greedy;
  for (int i = 0; i < 20; ++i) greedy.push_back(raw_connection(begun, "127.0.0.2"));
  ASSERT_TRUE(wait_for([](const Json& h) { return h.at("connections") >= 20; }));
  const int refused = raw_connection(begun, "127.0.0.2");
  const std::string said = read_to_end(refused);
  ASSERT_EQ(answers(said).size(), 1U) << said;
  EXPECT_EQ(answers(said).front().status, 429);
  EXPECT_EQ(chat("Hello").status, 200) << "another address";
  ::close(refused);
  for (const int client : greedy) ::close(client);
}

TEST_F(ServeHttp, IdleConnectionsMakeRoomForNewOnes) {
  start({.connections = 16});
  std::vector<int> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(raw_connection(""));
  EXPECT_EQ(chat("Hello").status, 200);
  for (const int client : idle) ::close(client);
}

TEST_F(ServeHttp, TooManyConnectionsAreToldSo) {
  start({.connections = 8});
  std::vector<int> slow;
  for (int i = 0; i < 8; ++i) slow.push_back(raw_connection("POST / HTTP/1.1\r\nHost: local"));
  std::string said;
  for (int i = 0; i < 100 && said.empty(); ++i) {  // until the server has seen all of them
    const std::vector<Reply> all = answers(
        conversation(kSmuggled.substr(0, kSmuggled.size() - 2) + "Connection: close\r\n\r\n"));
    ASSERT_EQ(all.size(), 1U) << "never a reset";
    if (all.front().status == 503) said = all.front().raw;
  }
  EXPECT_NE(said.find("too_many_connections"), std::string::npos);
  for (const int client : slow) ::close(client);
}

TEST_F(ServeHttp, HeadsAreBounded) {
  start();
  const std::string begin = "GET /health HTTP/1.1\r\nHost: localhost\r\nX: ";
  EXPECT_EQ(only_answer(begin + std::string(20'000, 'x')).status, 431) << "before it has ended";
  EXPECT_EQ(only_answer(begin + std::string(15'000, 'x') + "\r\nConnection: close\r\n\r\n").status,
            200);
}

TEST_F(ServeHttp, IdleConnectionsAreClosed) {
  start({.idle_time = std::chrono::milliseconds(200)});
  EXPECT_EQ(conversation(""), "");
  EXPECT_EQ(answers(conversation(kSmuggled)).size(), 1U) << "after an answer too";
}

TEST_F(ServeHttp, AConnectionEndsAfterManyRequests) {
  start();
  const std::string one = "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const int client = raw_connection("");
  std::thread asking([&] {  // the server reads on as its answers are taken
    std::string all;
    for (int i = 0; i < 10'001; ++i) all += one;
    for (std::size_t sent = 0; sent < all.size();) {
      const ssize_t now = ::send(client, all.data() + sent, all.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) break;
      sent += static_cast<std::size_t>(now);
    }
  });
  const std::string said = read_to_end(client);
  ::shutdown(client, SHUT_RDWR);  // whatever it still sends
  asking.join();
  ::close(client);
  const std::vector<Reply> all = answers(said);
  ASSERT_EQ(all.size(), 10'000U);
  EXPECT_EQ(all.back().header("Connection"), "close");
}

TEST_F(ServeHttp, AnswersBearAnId) {
  start();
  const Reply first = get("/health"), second = get("/health");
  EXPECT_FALSE(first.header("X-Request-Id").empty());
  EXPECT_NE(first.header("X-Request-Id"), second.header("X-Request-Id"));
}

}  // namespace
}  // namespace runnel
