// SPDX-License-Identifier: Apache-2.0
// Who may ask, how much, and that clients who are slow or vanish harm nobody.
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <sstream>
#include <thread>

#include "tests/serve/fixture.h"

namespace runnel {
namespace {

using test::Json;
using test::Reply;

class ServeLimits : public test::Serving {
 protected:
  // A request that would run for a very long time.
  static std::string endless(bool stream) {
    const std::string body = Json{
        {"messages", {{{"role", "user"}, {"content", "go"}}}},
        {"max_tokens", 1'000'000},
        {"ignore_end", true},
        {"stream", stream}}.dump();
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }
};

TEST_F(ServeLimits, AVanishedClientStopsCostingAnything) {
  start({.most_tokens = 1'000'000, .parallel = 2});
  for (const bool stream : {true, false}) {
    const int client = raw_connection(endless(stream));
    ASSERT_TRUE(wait_for([](const Json& h) { return h.at("active") == 1; }));
    ::close(client);
    EXPECT_TRUE(wait_for([](const Json& h) { return h.at("active") == 0; }))
        << "stream: " << stream;
  }
}

TEST_F(ServeLimits, AClientThatDoesNotReadHarmsNobody) {
  start({.most_tokens = 1'000'000, .parallel = 2});
  const int client = raw_connection(endless(true));  // never reads what it gets
  ASSERT_TRUE(wait_for([](const Json& h) { return h.at("active") == 1; }));
  EXPECT_EQ(chat("Hello").status, 200);
  ::close(client);
  EXPECT_TRUE(wait_for([](const Json& h) { return h.at("active") == 0; }));
}

TEST_F(ServeLimits, AClientThatDoesNotReadIsCutOff) {
  start({.most_tokens = 1'000'000, .parallel = 2, .write_time = std::chrono::milliseconds(200)});
  const int client = raw_connection(endless(true));  // stays, and never reads what it gets
  ASSERT_TRUE(wait_for([](const Json& h) { return h.at("active") == 1; }));
  EXPECT_TRUE(wait_for([](const Json& h) { return h.at("active") == 0; }))
      << "when its buffers are full";
  ::close(client);
}

TEST_F(ServeLimits, AClientThatNeverEndsItsRequestIsCutOff) {
  start({.request_time = std::chrono::milliseconds(500)});
  std::vector<int> slow;
  for (int i = 0; i < 20; ++i)
    slow.push_back(raw_connection("POST /v1/chat/completions HTTP/1.1\r\nHost: local"));
  EXPECT_EQ(chat("Hello").status, 200);
  for (const int client : slow) {
    const std::string said = read_to_end(client);
    ASSERT_EQ(test::answers(said).size(), 1U) << "and the server closes";
    EXPECT_EQ(test::answers(said).front().status, 408);
    ::close(client);
  }
}

TEST_F(ServeLimits, AFullQueueSaysSo) {
  start({.most_tokens = 1'000'000, .parallel = 1, .queue = 1});
  const int running = raw_connection(endless(true));
  ASSERT_TRUE(wait_for([](const Json& h) { return h.at("active") == 1; }));
  const int waiting = raw_connection(endless(true));
  ASSERT_TRUE(wait_for([](const Json& h) { return h.at("waiting") == 1; }));
  const Reply reply = chat("Hello");
  EXPECT_EQ(reply.status, 429) << reply.raw;
  EXPECT_EQ(reply.body.at("error").at("code"), "queue_full");
  ::close(running);
  ::close(waiting);
  EXPECT_TRUE(wait_for([](const Json& h) { return h.at("active") == 0 && h.at("waiting") == 0; }));
  EXPECT_EQ(chat("Hello").status, 200);
}

TEST_F(ServeLimits, StoppingEndsRunningRequests) {
  start({.most_tokens = 1'000'000});
  const int client = raw_connection(endless(true));
  ASSERT_TRUE(wait_for([](const Json& h) { return h.at("active") == 1; }));
  stop();
  const std::string said = read_to_end(client);
  ASSERT_EQ(test::answers(said).size(), 1U) << "the whole stream";
  const std::string events = test::answers(said).front().raw;
  EXPECT_NE(events.find("\"code\":\"stopping\""), std::string::npos);
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));
  ::close(client);
}

TEST_F(ServeLimits, AConversationAnswersOneRequestAtATime) {
  start({.most_tokens = 1'000'000});
  std::string request = endless(true);
  const std::string id = ",\"conversation\":\"c\"}";
  request.replace(request.size() - 1, 1, id);
  const std::string length = "Content-Length: ";
  const std::size_t at = request.find(length) + length.size();
  const std::size_t end = request.find("\r\n", at);
  request.replace(at, end - at, std::to_string(request.size() - request.find("\r\n\r\n") - 4));
  const int client = raw_connection(request);
  ASSERT_TRUE(wait_for([](const Json& h) { return h.at("active") == 1; }));
  EXPECT_EQ(chat("Hello", {{"conversation", "c"}}).status, 409);
  ::close(client);
  ASSERT_TRUE(wait_for([](const Json& h) { return h.at("active") == 0; }));
  // The scheduler is done with an answer a moment before its state is back.
  int status = 409;
  ASSERT_TRUE(wait_for([&](const Json&) {
    status = chat("Hello", {{"conversation", "c"}}).status;
    return status != 409;
  }));
  EXPECT_EQ(status, 200) << "its state is of use still";
}

TEST_F(ServeLimits, AnApiKeyIsAskedFor) {
  start({.api_key = "secret"});
  EXPECT_EQ(chat("Hello").status, 401);
  EXPECT_EQ(get("/v1/models").status, 401);
  EXPECT_EQ(get("/health").status, 200);
  const Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 1}};
  EXPECT_EQ(post("/v1/chat/completions", body, {{"Authorization", "Bearer secret"}}).status, 200);
  EXPECT_EQ(post("/v1/chat/completions", body, {{"Authorization", "Bearer secre"}}).status, 401);
  EXPECT_EQ(post("/v1/chat/completions", body, {{"Authorization", "Bearer secret2"}}).status, 401);
}

TEST_F(ServeLimits, OtherMachinesAreLetInOnlyWithAKey) {
  const auto open = serve::Server::create(model(), {.host = "0.0.0.0", .port = 0});
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(serve::Server::create(model(), {.host = "0.0.0.0", .port = 0, .api_key = "secret"}));
}

TEST_F(ServeLimits, PagesOfOtherSitesGetNothing) {
  start();
  EXPECT_EQ(get("/v1/models", {{"Host", "attacker.example"}}).status, 403);
  EXPECT_EQ(
      send("POST", "/v1/completions", R"({"prompt":"a"})", {{"Content-Type", "text/plain"}}).status,
      415)
      << "what a page may post without asking";
}

TEST_F(ServeLimits, BodiesAndPromptsAreBounded) {
  start({.most_prompt = 100, .body_bytes = 4096});
  EXPECT_EQ(chat(std::string(5000, 'x')).status, 413);
  const Reply reply = chat(std::string(200, 'x'));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body.at("error").at("code"), "context_length_exceeded");
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"),
        std::string(R"({"messages":{}})"), std::string(R"({"messages":[],"messages":[]})"),
        std::string(4000, '[')}) {
    EXPECT_EQ(send("POST", "/v1/chat/completions", body).status, 400) << body;
  }
}

TEST_F(ServeLimits, DeepValuesAreRefusedAndHarmNobody) {
  start();
  const std::string deep = std::string(60'000, '[') + std::string(60'000, ']');
  for (const char* field : {"n", "seed", "conversation", "stop", "metadata", "messages"}) {
    const Reply reply =
        send("POST", "/v1/chat/completions", "{\"" + std::string(field) + "\": " + deep + "}");
    EXPECT_EQ(reply.status, 400) << field;
    EXPECT_LT(reply.raw.size(), 400U) << field;
  }
  EXPECT_EQ(chat("Hello").status, 200);
}

// The table of limits in docs/server.md.
TEST(ServeDocs, EveryLimitNamesATestThatIsThere) {
  std::set<std::string> tests;
  const auto& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j)
      tests.insert(std::string(suite.name()) + "." + suite.GetTestInfo(j)->name());
  }
  std::istringstream page(test::read_text("docs/server.md"));
  bool table = false;
  int rows = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| limit |")) table = true;
    if (line.empty()) table = false;
    if (!table || !line.starts_with("| ") || line.starts_with("| limit |")) continue;
    ++rows;
    const std::string last = line.substr(line.rfind("| ", line.size() - 3));
    std::size_t named = 0;
    for (std::size_t at = 0; (at = last.find('`', at)) != std::string::npos; ++named) {
      const std::size_t end = last.find('`', at + 1);
      const std::string name = last.substr(at + 1, end - at - 1);
      EXPECT_TRUE(tests.contains(name)) << name;
      at = end + 1;
    }
    EXPECT_GT(named, 0U) << line;
  }
  EXPECT_GE(rows, 14);
}

TEST_F(ServeLimits, StateMemoryThatHoldsNothingIsRefused) {
  const auto small = serve::Server::create(model(), {.port = 0, .state_memory = 1000});
  ASSERT_FALSE(small);
  EXPECT_NE(small.error().message.find("state memory"), std::string::npos);
}

}  // namespace
}  // namespace runnel
