// SPDX-License-Identifier: Apache-2.0
// Calls of tools in answers: found wherever the text is cut, never lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runnel/tools.h"
#include "runtime/text/tool_format.h"

namespace runnel {
namespace {

using Kind = ToolEvent::Kind;

const ToolFormat kBare{.style = ToolStyle::bare,
                       .begin = "{\"name\": \"",
                       .middle = "\", \"parameters\": ",
                       .end = "}"};
const ToolFormat kList{.style = ToolStyle::list,
                       .open = "[TOOL_CALLS]",
                       .begin = "[TOOL_CALLS][{\"name\": \"",
                       .middle = "\", \"arguments\": ",
                       .between = "}, {\"name\": \"",
                       .end = "}]"};
const ToolFormat kNamed{.style = ToolStyle::named,
                        .open = "[TOOL_CALLS]",
                        .begin = "[TOOL_CALLS]",
                        .middle = "[ARGS]",
                        .between = "[TOOL_CALLS]"};

ToolAnswer read(const std::string& text, bool cut = false) {
  return read_tool_calls(tagged_tool_format(), text, cut);
}

std::vector<std::string> names(const ToolAnswer& answer) {
  std::vector<std::string> all;
  for (const ToolCall& call : answer.calls) all.push_back(call.name);
  return all;
}

TEST(ToolCalls, TextWithoutCallsStaysAsItIs) {
  for (const char* text : {"", "  ", "Hello. ", "a <tool_cal b\n", "<tool_call", "{\"name\": 1}"}) {
    const ToolAnswer answer = read(text);
    EXPECT_EQ(answer.text, text);
    EXPECT_TRUE(answer.calls.empty() && answer.broken.empty()) << text;
  }
}

TEST(ToolCalls, ACallIsReadWithTheTextBeforeIt) {
  const ToolAnswer answer = read(
      "I will look.\n<tool_call>\n{\"name\": \"find\", \"arguments\": {\"q\": \"a \\\"b\\\" "
      "</tool_call>\"}}\n</tool_call>");
  EXPECT_EQ(answer.text, "I will look.");
  ASSERT_EQ(answer.calls.size(), 1U);
  EXPECT_EQ(answer.calls[0].name, "find");
  EXPECT_EQ(answer.calls[0].arguments, "{\"q\": \"a \\\"b\\\" </tool_call>\"}");
}

TEST(ToolCalls, SeveralCallsInAnyOrderOfTheirKeys) {
  const ToolAnswer answer = read(
      "<tool_call>{\"arguments\": {\"n\": [1, {\"m\": 2}]}, \"name\": \"a\"}</tool_call>\n"
      "<tool_call>{\"id\": 5, \"name\": \"b\", \"parameters\": \"{\\\"x\\\": 1}\"}</tool_call>"
      "<tool_call> {\"name\": \"c\"} </tool_call>\nDone.");
  EXPECT_EQ(names(answer), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(answer.calls[0].arguments, "{\"n\": [1, {\"m\": 2}]}");
  EXPECT_EQ(answer.calls[1].arguments, "{\"x\": 1}");
  EXPECT_EQ(answer.calls[2].arguments, "{}");
  EXPECT_EQ(answer.text, "Done.");
}

TEST(ToolCalls, OneThatWasCutIsAnErrorWithItsText) {
  const std::string text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b";
  const ToolAnswer answer = read("So: " + text, true);
  EXPECT_EQ(answer.text, "So:");
  EXPECT_TRUE(answer.calls.empty());
  ASSERT_EQ(answer.broken.size(), 1U);
  EXPECT_EQ(answer.broken[0].text, text);
  EXPECT_EQ(answer.broken[0].reason, "was cut");
  EXPECT_EQ(read(text).broken.at(0).reason, "ends before it is whole");
}

TEST(ToolCalls, OnlyItsClosingTagMayLack) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}";
  for (const char* rest : {"", "\n", "\n</tool_"})
    EXPECT_EQ(read(call + rest).calls.size(), 1U) << rest;
}

TEST(ToolCalls, WhatDoesNotParseIsAnErrorWithItsTextAndTheNextIsRead) {
  const std::string next = "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";
  for (const char* wrong : {
           "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": b}}</tool_call>",
           "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
           "<tool_call>{\"name\": \"f\", \"arguments\": \"no JSON\"}</tool_call>",
           "<tool_call>{\"name\": \"f\", \"arguments\": {}, \"arguments\": {}}</tool_call>",
           "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
           "<tool_call>{\"name\": 3}</tool_call>",
           "<tool_call>{\"arguments\": {}}</tool_call>",
           "<tool_call>f(1)</tool_call>",
           "<tool_call></tool_call>",
           "<tool_call>{\"name\": \"f\", \"arguments\": {}}}</tool_call>",
           "<tool_call>{\"name\": \"f\xff\", \"arguments\": {}}</tool_call>",
       }) {
    const ToolAnswer answer = read(wrong + next);
    ASSERT_EQ(answer.broken.size(), 1U) << wrong;
    EXPECT_EQ(answer.broken[0].text, wrong);
    EXPECT_FALSE(answer.broken[0].reason.empty());
    EXPECT_EQ(names(answer), std::vector<std::string>{"g"}) << wrong;
  }
}

TEST(ToolCalls, AnAnswerThatIsACall) {
  const auto all = [](const std::string& text) { return read_tool_calls(kBare, text); };
  const ToolAnswer one = all("\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}");
  ASSERT_EQ(one.calls.size(), 1U);
  EXPECT_EQ(one.calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(one.text, "");
  EXPECT_EQ(
      names(all("{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}")),
      (std::vector<std::string>{"f", "g"}));
  for (const char* text :
       {"{\"name\": \"Ada\", \"age\": 36}", "{ no", "Say {\"name\": \"f\", \"parameters\": {}}"}) {
    EXPECT_EQ(all(text).text, text);
    EXPECT_TRUE(all(text).calls.empty() && all(text).broken.empty());
  }
  EXPECT_EQ(all("{\"name\": \"f\", \"parameters\": {\"a\"").broken.size(), 1U);
}

TEST(ToolCalls, AListOfCalls) {
  const ToolAnswer answer =
      read_tool_calls(kList,
                      "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}, \"id\": \"123456789\"}, "
                      "{\"name\": \"g\", \"arguments\": {\"a\": 1}}]");
  EXPECT_EQ(names(answer), (std::vector<std::string>{"f", "g"}));
  EXPECT_EQ(answer.calls[1].arguments, "{\"a\": 1}");
  EXPECT_EQ(names(read_tool_calls(kList, "x [TOOL_CALLS] {\"name\": \"f\", \"arguments\": {}}")),
            std::vector<std::string>{"f"});
  EXPECT_EQ(read_tool_calls(kList, "[TOOL_CALLS][]").broken.size(), 1U);
}

TEST(ToolCalls, CallsOfANameBeforeTheirArguments) {
  const ToolAnswer answer = read_tool_calls(
      kNamed, "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}");
  EXPECT_EQ(names(answer), (std::vector<std::string>{"f", "g"}));
  EXPECT_EQ(answer.calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(read_tool_calls(kNamed, "[TOOL_CALLS]f {}").broken.size(), 1U);
}

TEST(ToolCalls, ArgumentsComeAsTheyAreWritten) {
  ToolCallReader reader(tagged_tool_format());
  EXPECT_TRUE(reader.push("<tool_call>\n{\"name\": \"f").empty());
  EXPECT_EQ(reader.push("\", \"arg"), (std::vector<ToolEvent>{{.kind = Kind::begin, .text = "f"}}));
  EXPECT_EQ(reader.push("uments\": {\"a\""),
            (std::vector<ToolEvent>{{.kind = Kind::arguments, .text = "{\"a\""}}));
  EXPECT_EQ(reader.push(": 1}}"),
            (std::vector<ToolEvent>{{.kind = Kind::arguments, .text = ": 1}"}}));
  EXPECT_EQ(reader.push("\n</tool_call>"),
            (std::vector<ToolEvent>{{.kind = Kind::end, .text = ""}}));
  EXPECT_TRUE(reader.finish().empty());
}

// The texts of neighbours of a kind joined, whatever the pieces were.
std::vector<ToolEvent> in_pieces(const ToolFormat& format, std::string_view text,
                                 std::mt19937& random) {
  ToolCallReader reader(format);
  std::vector<ToolEvent> all;
  const auto add = [&all](std::vector<ToolEvent> events) {
    for (ToolEvent& event : events) {
      const bool joins = event.kind == Kind::text || event.kind == Kind::arguments;
      if (joins && !all.empty() && all.back().kind == event.kind) {
        all.back().text += event.text;
      } else {
        all.push_back(std::move(event));
      }
    }
  };
  while (!text.empty()) {
    const std::size_t n = std::min<std::size_t>(1 + random() % 7, text.size());
    add(reader.push(text.substr(0, n)));
    text.remove_prefix(n);
  }
  add(reader.finish());
  return all;
}

TEST(ToolCalls, WhereTheTextIsCutDoesNotMatter) {
  const std::vector<std::string> parts = {"Hello. ",
                                          "\n",
                                          "é€ ",
                                          "<tool_call>",
                                          "</tool_call>",
                                          "{\"name\": \"f\", ",
                                          "\"arguments\": ",
                                          "{\"a\": [1, \"x\"]}",
                                          "}",
                                          "[TOOL_CALLS]",
                                          "[",
                                          "]",
                                          ", ",
                                          "g[ARGS]{}",
                                          "{\"name\": \"h\", \"parameters\": {}}",
                                          "<tool",
                                          ";",
                                          "\"",
                                          "\\"};
  std::mt19937 random(5);
  const ToolFormat tagged = tagged_tool_format();
  for (const ToolFormat* format : {&tagged, &kBare, &kList, &kNamed}) {
    for (int round = 0; round < 3000; ++round) {
      std::string text;
      for (unsigned i = 0; i < 1 + random() % 12; ++i) text += parts[random() % parts.size()];
      ToolCallReader reader(*format);
      std::vector<ToolEvent> whole = reader.push(text);
      for (ToolEvent& event : reader.finish()) {
        const bool joins = event.kind == Kind::text || event.kind == Kind::arguments;
        if (joins && !whole.empty() && whole.back().kind == event.kind) {
          whole.back().text += event.text;
        } else {
          whole.push_back(std::move(event));
        }
      }
      ASSERT_EQ(in_pieces(*format, text, random), whole) << text;
    }
  }
}

TEST(ToolCalls, NothingButWhiteSpaceIsLost) {
  const std::vector<std::string> parts = {
      "a", " ", "<tool_call>", "</tool_call>", "{\"name\": \"f\"}", "{", "}", "\"", "b\n"};
  std::mt19937 random(9);
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (unsigned i = 0; i < 1 + random() % 10; ++i) text += parts[random() % parts.size()];
    const ToolAnswer answer = read(text);
    auto letters = static_cast<std::size_t>(std::count(text.begin(), text.end(), 'b'));
    letters -= static_cast<std::size_t>(std::count(answer.text.begin(), answer.text.end(), 'b'));
    for (const BrokenCall& call : answer.broken)
      letters -= static_cast<std::size_t>(std::count(call.text.begin(), call.text.end(), 'b'));
    EXPECT_EQ(letters, 0U) << text;
  }
}

TEST(ReadTools, TakesOpenAisListAndBareFunctions) {
  const auto tools = read_tools(R"([
    {"type": "function", "function": {"name": "a", "description": "A.", "strict": true,
      "parameters": {"type": "object", "properties": {"z": {}, "b": {}}}}},
    {"name": "b"}])");
  ASSERT_TRUE(tools.has_value()) << tools.error().message;
  ASSERT_EQ(tools->size(), 2U);
  EXPECT_EQ((*tools)[0], (Tool{.name = "a",
                               .description = "A.",
                               .parameters = R"({"type":"object","properties":{"z":{},"b":{}}})",
                               .strict = true}));
  EXPECT_EQ((*tools)[1], (Tool{.name = "b", .description = {}, .parameters = {}}));
}

TEST(ReadTools, HostileOnesAreRefusedByPlace) {
  std::string many = "[";
  for (std::size_t i = 0; i <= kMostTools; ++i)
    many += (i > 0 ? ",{\"name\":\"t" : "{\"name\":\"t") + std::to_string(i) + "\"}";
  many += "]";
  const std::vector<std::pair<std::string, const char*>> wrong = {
      {"", "no JSON list"},
      {"{}", "no JSON list"},
      {"[1]", "tool 0: is no object"},
      {"[{\"name\": \"a\"}, {}]", "tool 1 is ''"},
      {"[{\"name\": \"a b\"}]", "'a b'"},
      {"[{\"name\": \"" + std::string(65, 'x') + "\"}]", "1 to 64"},
      {"[{\"name\": \"a\"}, {\"name\": \"a\"}]", "two of the name a"},
      {"[{\"name\": \"a\", \"parameters\": []}]", "parameters"},
      {"[{\"name\": \"a\", \"strict\": 1}]", "strict"},
      {"[{\"name\": \"a\", \"cache\": 1}]", "'cache'"},
      {"[{\"type\": \"web_search\"}]", "type is not"},
      {"[{\"type\": \"function\"}]", "\"function\""},
      {many, "at most 128"},
      {"[{\"name\": \"a\", \"parameters\": " + std::string(80, '[') + std::string(80, ']') + "}]",
       "deep"},
      {"[{\"name\": \"\xff\"}]", "UTF-8"},
  };
  for (const auto& [json, why] : wrong) {
    const auto tools = read_tools(json);
    ASSERT_FALSE(tools.has_value()) << json;
    EXPECT_EQ(tools.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(tools.error().message.find(why), std::string::npos) << tools.error().message;
  }
}

}  // namespace
}  // namespace runnel
