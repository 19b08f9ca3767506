// SPDX-License-Identifier: Apache-2.0
// Requests with tools: calls, their results, streams of both, and conversations that go on over them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "runnel/constraint.h"
#include "tests/serve/fixture.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const Json kRoll = {{"type", "function"},
                    {"function",
                     {{"name", "roll"},
                      {"description", "Rolls a die"},
                      {"parameters",
                       {{"type", "object"},
                        {"properties", {{"sides", {{"enum", {6, 20}}}}}},
                        {"required", {"sides"}}}}}}};
const Json kNow = {{"type", "function"}, {"function", {{"name", "now"}}}};
const Json kTools = Json::array({kRoll, kNow});
const Json kNamedRoll = {{"type", "function"}, {"function", {{"name", "roll"}}}};

class Tools : public Serving {
 protected:
  void SetUp() override {
    if (!has_constraints()) GTEST_SKIP() << "this build has no RUNNEL_GRAMMAR";
    start();
  }
  Reply ask(const Json& messages, Json more = {}) const {
    Json body = {{"messages", messages},         {"tools", kTools},   {"tool_choice", "required"},
                 {"parallel_tool_calls", false}, {"max_tokens", 300}, {"temperature", 0}};
    if (!more.is_null()) body.update(more);
    return post("/v1/chat/completions", body);
  }
  static Json user(const char* said) { return {{"role", "user"}, {"content", said}}; }
  static Json message(const Reply& reply) { return reply.body.at("choices").at(0).at("message"); }
};

TEST_F(Tools, ARequiredCallHasArgumentsOfItsSchema) {
  const Reply reply = ask(Json::array({user("Roll")}), {{"tool_choice", kNamedRoll}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_EQ(reply.body.at("choices").at(0).at("finish_reason"), "tool_calls");
  const Json said = message(reply);
  EXPECT_TRUE(said.at("content").is_null());
  ASSERT_EQ(said.at("tool_calls").size(), 1U);
  const Json& call = said.at("tool_calls").at(0);
  EXPECT_EQ(call.at("type"), "function");
  EXPECT_THAT(call.at("id").get<std::string>(), StartsWith("call_"));
  EXPECT_EQ(call.at("function").at("name"), "roll");
  const Json arguments = Json::parse(call.at("function").at("arguments").get<std::string>());
  EXPECT_TRUE(arguments.at("sides") == 6 || arguments.at("sides") == 20);
}

TEST_F(Tools, AStreamPutsTheSameCallTogether) {
  const Json at_once = message(ask(Json::array({user("Roll")}), {{"tool_choice", kNamedRoll}}))
                           .at("tool_calls")
                           .at(0);
  const Reply reply =
      ask(Json::array({user("Roll")}), {{"tool_choice", kNamedRoll}, {"stream", true}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  std::string name, arguments, id, reason;
  int pieces = 0;
  for (const Json& event : events(reply.raw)) {
    const Json& choice = event.at("choices").at(0);
    if (choice.at("finish_reason").is_string()) reason = choice.at("finish_reason");
    const Json& delta = choice.at("delta");
    EXPECT_EQ(delta.value("content", ""), "");
    if (!delta.contains("tool_calls")) continue;
    const Json& call = delta.at("tool_calls").at(0);
    EXPECT_EQ(call.at("index"), 0);
    if (call.contains("id")) {
      EXPECT_EQ(call.at("type"), "function");
      id += call.at("id").get<std::string>();
      name += call.at("function").at("name").get<std::string>();
    }
    arguments += call.at("function").at("arguments").get<std::string>();
    ++pieces;
  }
  EXPECT_EQ(reason, "tool_calls");
  EXPECT_THAT(id, StartsWith("call_"));
  EXPECT_EQ(name, at_once.at("function").at("name"));
  EXPECT_EQ(arguments, at_once.at("function").at("arguments"));
  EXPECT_GE(pieces, 2) << "the name first, then arguments";
}

TEST_F(Tools, SeveralAnswersHaveTheirOwnCalls) {
  for (const bool stream : {false, true}) {
    const Reply reply = ask(Json::array({user("Roll")}),
                            {{"n", 3}, {"temperature", 1.5}, {"seed", 3}, {"stream", stream}});
    ASSERT_EQ(reply.status, 200) << reply.raw;
    std::set<std::string> ids;
    if (stream) {
      for (const Json& event : events(reply.raw)) {
        const Json& delta = event.at("choices").at(0).at("delta");
        if (delta.contains("tool_calls") && delta["tool_calls"][0].contains("id"))
          ids.insert(delta["tool_calls"][0]["id"].get<std::string>());
      }
    } else {
      for (const Json& choice : reply.body.at("choices"))
        ids.insert(choice.at("message").at("tool_calls").at(0).at("id").get<std::string>());
    }
    EXPECT_EQ(ids.size(), 3U);
  }
}

TEST_F(Tools, NoneIsTextAlone) {
  const Reply reply =
      ask(Json::array({user("Roll")}), {{"tool_choice", "none"}, {"max_tokens", 8}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_FALSE(message(reply).contains("tool_calls"));
  EXPECT_TRUE(message(reply).at("content").is_string());
}

TEST_F(Tools, FreeTextIsTextWithoutCalls) {
  const Reply reply = ask(Json::array({user("Hi")}), {{"tool_choice", "auto"}, {"max_tokens", 8}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_FALSE(message(reply).contains("tool_calls"));
  EXPECT_EQ(reply.body.at("choices").at(0).at("finish_reason"), "length");
}

TEST_F(Tools, ACutCallIsAnErrorWithItsText) {
  for (const bool stream : {false, true}) {
    const Reply reply = ask(Json::array({user("Roll")}),
                            {{"tool_choice", kNamedRoll}, {"max_tokens", 45}, {"stream", stream}});
    ASSERT_EQ(reply.status, 200) << reply.raw;
    Json last;
    std::string content;
    if (stream) {
      for (const Json& event : events(reply.raw)) {
        last = event.at("choices").at(0);
        content += last.at("delta").value("content", "");
      }
    } else {
      last = reply.body.at("choices").at(0);
      content = message(reply).at("content");
      EXPECT_FALSE(message(reply).contains("tool_calls"));
    }
    EXPECT_EQ(last.at("finish_reason"), "length");
    ASSERT_EQ(last.at("tool_call_errors").size(), 1U);
    EXPECT_EQ(last.at("tool_call_errors").at(0).at("message"), "the call was cut");
    EXPECT_EQ(last.at("tool_call_errors").at(0).at("text"), content);
    EXPECT_THAT(content, StartsWith("<tool_call>\n{\"name\": \"roll\""));
  }
}

TEST_F(Tools, AConversationGoesOnOverCallsAndResults) {
  const Json keep = {{"conversation", "dice"}};
  Json talk = Json::array({user("Roll")});
  const Reply first = ask(talk, keep);
  ASSERT_EQ(first.status, 200) << first.raw;
  const Json call = message(first).at("tool_calls").at(0);
  const std::uint64_t position = first.body.at("conversation").at("position");
  // As clients send it back: without content, with arguments of their own white space.
  Json sent = call;
  sent["function"]["arguments"] =
      Json::parse(call["function"]["arguments"].get<std::string>()).dump(1);
  talk.push_back(
      {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array({sent})}});
  talk.push_back({{"role", "tool"}, {"tool_call_id", call.at("id")}, {"content", "4"}});
  Json more = keep;
  more["tool_choice"] = "none";
  more["max_tokens"] = 4;
  const Reply second = ask(talk, more);
  ASSERT_EQ(second.status, 200) << second.raw;
  EXPECT_EQ(second.body.at("conversation").at("cached_tokens"), position)
      << "nothing is read again";
  EXPECT_FALSE(second.body.contains("warnings"));
  // A new message alone, with and without the tools.
  const Reply third = ask(Json::array({user("Again")}), keep);
  ASSERT_EQ(third.status, 200) << third.raw;
  EXPECT_GT(third.body.at("conversation").at("cached_tokens"), position);
  const Reply plain = post(
      "/v1/chat/completions",
      {{"messages", Json::array({user("Thanks")})}, {"conversation", "dice"}, {"max_tokens", 4}});
  EXPECT_EQ(plain.status, 200) << plain.raw;
  // Other tools are not what it has read.
  const Reply other = ask(Json::array({user("Again")}),
                          {{"conversation", "dice"}, {"tools", Json::array({kRoll})}});
  EXPECT_EQ(other.status, 409) << other.raw;
  EXPECT_EQ(other.body.at("error").at("param"), "tools");
}

TEST_F(Tools, AResultAloneGoesOnAfterItsCall) {
  const Reply first = ask(Json::array({user("Roll")}), {{"conversation", "alone"}});
  ASSERT_EQ(first.status, 200) << first.raw;
  const Json call = message(first).at("tool_calls").at(0);
  const Json result = {{"role", "tool"}, {"tool_call_id", call.at("id")}, {"content", "4"}};
  const Reply second = ask(Json::array({result}),
                           {{"conversation", "alone"}, {"tool_choice", "none"}, {"max_tokens", 4}});
  ASSERT_EQ(second.status, 200) << second.raw;
  EXPECT_EQ(second.body.at("conversation").at("cached_tokens"),
            first.body.at("conversation").at("position"));
}

TEST_F(Tools, WhatIsWrongIsRefusedByItsField) {
  const Json call = {
      {"id", "a"}, {"type", "function"}, {"function", {{"name", "roll"}, {"arguments", "{}"}}}};
  const Json no_arguments = {{"id", "a"}, {"function", {{"name", "roll"}, {"arguments", "[1]"}}}};
  Json many = Json::array();
  for (int i = 0; i < 129; ++i) many.push_back({{"name", "t" + std::to_string(i)}});
  Json strict = kRoll;
  strict["function"]["strict"] = true;
  strict["function"]["parameters"]["not"] = Json::object();
  const std::vector<std::pair<std::string, Json>> wrong = {
      {"tools", {{"tools", "all"}}},
      {"tools", {{"tools", {{{"type", "web_search"}}}}}},
      {"tools", {{"tools", {kRoll, kRoll}}}},
      {"tools", {{"tools", many}}},
      {"tools", {{"tools", Json::array({strict})}}},
      {"tool_choice", {{"tool_choice", "any"}}},
      {"tool_choice", {{"tool_choice", {{"type", "function"}}}}},
      {"tool_choice", {{"tool_choice", {{"type", "function"}, {"function", {{"name", "other"}}}}}}},
      {"tool_choice", {{"tools", Json::array()}}},
      {"parallel_tool_calls", {{"parallel_tool_calls", "yes"}}},
      {"guided_regex", {{"guided_regex", "a"}}},
      {"messages", {{"messages", {user("x"), {{"role", "tool"}, {"content", "4"}}}}}},
      {"messages",
       {{"messages", {user("x"), {{"role", "tool"}, {"tool_call_id", "b"}, {"content", "4"}}}}}},
      {"messages",
       {{"messages",
         {user("x"), {{"role", "user"}, {"content", ""}, {"tool_calls", Json::array({call})}}}}}},
      {"messages",
       {{"messages",
         {user("x"), {{"role", "assistant"}, {"tool_calls", {{{"id", "a"}}}}}, user("y")}}}},
  };
  for (const auto& [param, more] : wrong) {
    const Reply reply = ask(Json::array({user("Roll")}), more);
    EXPECT_EQ(reply.status, 400) << more.dump() << ": " << reply.raw;
    EXPECT_EQ(reply.body.at("error").at("param"), param) << reply.raw;
  }
  const Reply list = ask(
      {user("x"), {{"role", "assistant"}, {"tool_calls", Json::array({no_arguments})}}, user("y")});
  EXPECT_EQ(list.status, 400);
  EXPECT_THAT(list.raw, HasSubstr("no JSON object"));
}

class ToolsOfOtherTemplates : public Tools {
 protected:
  void SetUp() override {
    if (!has_constraints()) GTEST_SKIP() << "this build has no RUNNEL_GRAMMAR";
  }
  void serve(const std::string& name) {
    chat_template_ = "tests/data/chat_templates/" + name + ".jinja";
    start();
  }
};

TEST_F(ToolsOfOtherTemplates, CallsHaveTheirForm) {
  for (const char* name : {"llama-3.1"}) {
    serve(name);
    const Reply reply = ask(Json::array({user("Roll")}), {{"tool_choice", kNamedRoll}});
    ASSERT_EQ(reply.status, 200) << name << ": " << reply.raw;
    EXPECT_EQ(message(reply).at("tool_calls").at(0).at("function").at("name"), "roll");
  }
}

TEST_F(ToolsOfOtherTemplates, OneThatKnowsNoToolsIsRefusedByName) {
  serve("gemma-2");
  const Reply reply = ask(Json::array({user("Roll")}));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body.at("error").at("param"), "tools");
  EXPECT_EQ(reply.body.at("error").at("code"), "unsupported_field");
}

}  // namespace
}  // namespace runnel::test
