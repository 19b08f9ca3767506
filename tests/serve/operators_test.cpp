// SPDX-License-Identifier: Apache-2.0
// What those who run a server rely on: ending, logs, names, fields that change nothing.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/serve/fixture.h"

namespace runnel {
namespace {

using test::Json;
using test::Reply;

class ServeOperators : public test::Serving {};

TEST_F(ServeOperators, ADrainLetsRunningAnswersEndAndIsNotReadyFirst) {
  start({.most_tokens = 100'000});
  EXPECT_EQ(get("/ready").status, 200);
  Reply answer;
  std::thread client([&] { answer = chat("Hello", {{"max_tokens", 4000}}); });
  ASSERT_TRUE(wait_for([](const Json& h) { return h.at("active") == 1; }));
  std::thread draining([&] { EXPECT_TRUE(server().stop(std::chrono::seconds(60))); });
  bool unready = false, refused = false;
  for (int i = 0; i < 1000 && !(unready && refused); ++i) {
    const Reply ready = get("/ready");
    if (ready.status != 503 && ready.status != 200) break;  // it has ended
    unready = ready.status == 503;
    refused = unready && chat("Hello").status != 200;
  }
  EXPECT_TRUE(unready && refused) << "before the running answer has ended";
  client.join();
  draining.join();
  EXPECT_EQ(answer.status, 200) << answer.raw;
  EXPECT_EQ(answer.body.at("usage").at("completion_tokens"), 4000);
}

TEST_F(ServeOperators, ADrainWritesStatesThatAreNotOnTheDisk) {
  const std::filesystem::path folder = directory_.path() / "states";
  std::filesystem::create_directory(folder);
  start({.states = folder, .autosave = false});
  ASSERT_EQ(chat("one", {{"conversation", "c"}}).status, 200);
  EXPECT_FALSE(std::filesystem::exists(folder / "c.state"));
  stop();
  EXPECT_TRUE(std::filesystem::exists(folder / "c.state"));
}

TEST_F(ServeOperators, TheLogHasEveryAnswerAndNoTexts) {
  std::mutex mutex;
  std::vector<serve::AccessEntry> entries;
  start({.log = [&](const serve::AccessEntry& entry) {
    const std::lock_guard lock(mutex);
    entries.push_back(entry);
  }});
  const Reply reply =
      send("POST", "/v1/completions?secret=1", R"({"prompt": "secret words", "max_tokens": 2})");
  ASSERT_EQ(reply.status, 200) << reply.raw;
  stop();
  const std::string id = reply.header("X-Request-Id");
  std::string line;
  for (const serve::AccessEntry& entry : entries) {
    if (entry.id == id) line = serve::to_json_line(entry, "now");
  }
  ASSERT_FALSE(line.empty()) << "no entry of " << id;
  const Json logged = Json::parse(line);
  EXPECT_EQ(logged.at("path"), "/v1/completions");
  EXPECT_EQ(logged.at("status"), 200);
  EXPECT_EQ(logged.at("address"), "127.0.0.1");
  EXPECT_EQ(line.find("secret"), std::string::npos) << line;
}

TEST_F(ServeOperators, FieldsThatChangeNothingAreTaken) {
  start();
  const Json messages = {{{"role", "user"}, {"content", "Hi"}},
                         {{"role", "assistant"}, {"content", nullptr}},
                         {{"role", "user"}, {"content", "Go on"}}};
  const Reply reply = chat("", {{"messages", messages},
                                {"metadata", {{"a", "b"}}},
                                {"parallel_tool_calls", true},
                                {"store", true},
                                {"user", "me"},
                                {"service_tier", "auto"}});
  EXPECT_EQ(reply.status, 200) << reply.raw;
}

TEST_F(ServeOperators, TooManyTokensAreClippedAndItIsSaid) {
  start({.most_tokens = 16});
  const Reply reply = chat("Hello", {{"max_tokens", 1000}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_EQ(reply.body.at("usage").at("completion_tokens"), 16);
  EXPECT_EQ(reply.body.at("warnings").at(0),
            "max_tokens is 1000, at most 16 are generated for one request");
}

TEST_F(ServeOperators, TheModelCanHaveAnotherNameOrAny) {
  start({.model_name = "gpt-4"});
  EXPECT_EQ(chat("Hello", {{"model", "gpt-4"}}).body.at("model"), "gpt-4");
  EXPECT_EQ(chat("Hello", {{"model", "tiny"}}).status, 404);
  start({.any_model = true});
  EXPECT_EQ(chat("Hello", {{"model", "whatever"}}).body.at("model"), "whatever");
}

}  // namespace
}  // namespace runnel
