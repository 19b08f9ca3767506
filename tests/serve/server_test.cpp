// SPDX-License-Identifier: Apache-2.0
// OpenAI's interface: forms of answers, streams, many clients, what is refused.
#include <thread>

#include "tests/serve/fixture.h"

namespace runnel {
namespace {

using test::Json;
using test::Reply;

class Serve : public test::Serving {};

TEST_F(Serve, AnswersAChatInOpenAisForm) {
  start();
  const Reply reply = chat("Hello");
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_EQ(reply.body.at("object"), "chat.completion");
  EXPECT_EQ(reply.body.at("model"), "tiny");
  const Json& choice = reply.body.at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("role"), "assistant");
  EXPECT_EQ(choice.at("finish_reason"), "length");
  EXPECT_EQ(reply.body.at("usage").at("completion_tokens"), 8);
  EXPECT_EQ(reply.body.at("usage").at("prompt_tokens_details").at("cached_tokens"), 0);
}

TEST_F(Serve, CompletesAText) {
  start();
  const Reply reply =
      post("/v1/completions",
           {{"prompt", "abc"}, {"max_tokens", 5}, {"temperature", 0}, {"ignore_end", true}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_EQ(reply.body.at("object"), "text_completion");
  EXPECT_TRUE(reply.body.at("choices").at(0).at("text").is_string());
  EXPECT_EQ(reply.body.at("usage").at("prompt_tokens"), 3);
}

TEST_F(Serve, StreamsTheSameTextInEvents) {
  start();
  const std::string whole = text(chat("Hello", {{"max_tokens", 40}}));
  const Reply reply =
      chat("Hello",
           {{"max_tokens", 40}, {"stream", true}, {"stream_options", {{"include_usage", true}}}});
  ASSERT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.raw.ends_with("data: [DONE]\n\n"));
  std::string streamed;
  const std::vector<Json> events = test::events(reply.raw);
  ASSERT_GE(events.size(), 4U);
  EXPECT_EQ(events.front().at("choices").at(0).at("delta").at("role"), "assistant");
  for (const Json& event : events) {
    for (const Json& choice : event.at("choices"))
      streamed += choice.at("delta").value("content", "");
  }
  EXPECT_EQ(streamed, whole);
  EXPECT_EQ(events[events.size() - 2].at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(events.back().at("usage").at("completion_tokens"), 40);
}

TEST_F(Serve, ManyClientsAtOnceGetWhatEachWouldGetAlone) {
  start({.parallel = 4});
  constexpr int kClients = 12;
  std::vector<std::string> alone(kClients), together(kClients);
  const auto ask = [&](int i) {
    return text(chat("question " + std::to_string(i),
                     {{"temperature", 0.9}, {"seed", i}, {"max_tokens", 20 + i}}));
  };
  for (int i = 0; i < kClients; ++i) alone[static_cast<std::size_t>(i)] = ask(i);
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] { together[static_cast<std::size_t>(i)] = ask(i); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(together, alone);
  EXPECT_TRUE(wait_for([](const Json& h) { return h.at("finished") == 2 * kClients; }));
}

TEST_F(Serve, RefusesByNameWhatItDoesNotSupport) {
  start();
  const std::vector<std::pair<const char*, Json>> fields = {
      {"response_format", {{"type", "json_object"}}},
      {"tools", Json::array({{{"type", "function"}}})},
      {"tool_choice", "auto"},
      {"n", 2},
      {"logprobs", true},
      {"audio", Json::object()},
      {"reasoning_effort", "low"},
  };
  for (const auto& [name, value] : fields) {
    const Reply reply = chat("Hello", {{name, value}});
    EXPECT_EQ(reply.status, 400) << name;
    EXPECT_EQ(reply.body.at("error").at("param"), name);
    EXPECT_EQ(reply.body.at("error").at("code"), "unsupported_field");
    EXPECT_NE(reply.body.at("error").at("message").get<std::string>().find(name),
              std::string::npos);
  }
  EXPECT_EQ(
      chat("Hello", {{"response_format", {{"type", "text"}}}, {"n", 1}, {"tools", nullptr}}).status,
      200)
      << "values that ask for nothing";
}

TEST_F(Serve, RefusesValuesOutsideTheirRanges) {
  start();
  for (const Json& wrong :
       {Json{{"temperature", -1}}, Json{{"temperature", "warm"}}, Json{{"top_p", 0}},
        Json{{"max_tokens", 0}}, Json{{"max_tokens", 1e18}}, Json{{"stop", 5}}, Json{{"stop", ""}},
        Json{{"stream", "yes"}}, Json{{"logit_bias", {{"999999", 1}}}}, Json{{"seed", 0.5}},
        Json{{"messages", Json::array()}}, Json{{"conversation", "../up"}}}) {
    const Reply reply = chat("Hello", wrong);
    EXPECT_EQ(reply.status, 400) << wrong << reply.raw;
    EXPECT_EQ(reply.body.at("error").at("param"), wrong.begin().key());
  }
  EXPECT_EQ(chat("Hello", {{"model", "gpt-4"}}).status, 404);
}

TEST_F(Serve, ListsItsModel) {
  start();
  EXPECT_EQ(get("/v1/models").body.at("data").at(0).at("id"), "tiny");
  EXPECT_EQ(get("/v1/models/tiny").status, 200);
  EXPECT_EQ(get("/v1/models/other").status, 404);
  EXPECT_EQ(get("/nowhere").body.at("error").at("code"), "not_found");
}

}  // namespace
}  // namespace runnel
