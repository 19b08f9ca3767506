// SPDX-License-Identifier: Apache-2.0
// Conversations with a kept state: nothing is read twice; fork, save, delete; room for a bounded number.
#include "tests/serve/fixture.h"

namespace runnel {
namespace {

using test::Json;
using test::Reply;

class ServeConversations : public test::Serving {
 protected:
  Reply say(const std::string& id, const std::string& words) {
    return chat(words, {{"conversation", id}});
  }

  // Memory for `states` kept ones besides two running requests.
  serve::ServerSettings room_for(std::size_t states) {
    const std::uint64_t each = model()->info().state_bytes + 264 * sizeof(float) + 32'768;
    return {.parallel = 2, .state_memory = each * (2 + states)};
  }
};

TEST_F(ServeConversations, GoOnWithNothingReadAgain) {
  start();
  const Reply first = say("c", "one");
  ASSERT_EQ(first.status, 200) << first.raw;
  const Json begun = first.body.at("conversation");
  EXPECT_EQ(begun.at("cached_tokens"), 0);
  const Reply second = say("c", "two");
  const Json gone_on = second.body.at("conversation");
  EXPECT_EQ(gone_on.at("cached_tokens"), begun.at("position"));
  const std::vector<ChatMessage> fresh = {{"user", "two"}};
  const auto tokens = model()->encode_chat(fresh, true, ChatContinuation::after_cut_answer);
  EXPECT_EQ(gone_on.at("fed_tokens"), tokens->size()) << "the new message and no more";
  EXPECT_EQ(second.body.at("usage").at("prompt_tokens_details").at("cached_tokens"),
            begun.at("position"));
}

TEST_F(ServeConversations, SayWhatOneWithoutKeptStateSays) {
  start();
  // Both ways begin with the same messages; the second reads them all at once.
  const Reply first = say("kept", "one");
  const Reply kept = say("kept", "two");
  auto session = Session::create(model());
  const std::vector<ChatMessage> one = {{"user", "one"}}, two = {{"user", "two"}};
  const GenerationOptions options{.max_tokens = 8, .ignore_end = true};
  ASSERT_TRUE(session && session->prefill(*model()->encode_chat(one)) &&
              generate(*session, options));
  ASSERT_TRUE(
      session->prefill(*model()->encode_chat(two, true, ChatContinuation::after_cut_answer)));
  const auto direct = generate(*session, options);
  ASSERT_TRUE(direct);
  EXPECT_EQ(text(kept), direct->text + direct->held_back);
}

TEST_F(ServeConversations, MayBeSentWholeAndAreStillNotReadAgain) {
  start();
  const Reply first = say("c", "one");
  Json messages = {{{"role", "user"}, {"content", "one"}},
                   {{"role", "assistant"}, {"content", text(first)}},
                   {{"role", "user"}, {"content", "two"}}};
  const Reply second = chat("", {{"messages", messages}, {"conversation", "c"}});
  ASSERT_EQ(second.status, 200) << second.raw;
  EXPECT_EQ(second.body.at("conversation").at("cached_tokens"),
            first.body.at("conversation").at("position"));
  messages[1]["content"] = "something else";
  const Reply differs = chat("", {{"messages", messages}, {"conversation", "c"}});
  EXPECT_EQ(differs.status, 409);
  EXPECT_EQ(differs.body.at("error").at("code"), "conversation_differs");
}

TEST_F(ServeConversations, ForksAreIndependent) {
  start();
  say("c", "one");
  ASSERT_EQ(post("/v1/states/fork", {{"conversation", "c"}, {"into", "d"}}).status, 200);
  const Reply a = say("c", "two");
  const Reply b = say("d", "two");
  EXPECT_EQ(text(a), text(b));
  EXPECT_EQ(a.body.at("conversation").at("cached_tokens"),
            b.body.at("conversation").at("cached_tokens"));
  EXPECT_EQ(post("/v1/states/fork", {{"conversation", "c"}, {"into", "d"}}).status, 409)
      << "d is taken";
  EXPECT_EQ(post("/v1/states/fork", {{"conversation", "none"}, {"into", "e"}}).status, 404);
}

TEST_F(ServeConversations, SavedOnesOutliveTheServer) {
  start({.states = directory_.path()});
  const Reply first = say("c", "one");
  ASSERT_EQ(post("/v1/states/save", {{"conversation", "c"}}).status, 200);
  start({.states = directory_.path()});
  const Reply second = say("c", "two");
  EXPECT_EQ(second.body.at("conversation").at("cached_tokens"),
            first.body.at("conversation").at("position"));
  EXPECT_EQ(post("/v1/states/delete", {{"conversation", "c"}}).status, 200);
  EXPECT_EQ(post("/v1/states/delete", {{"conversation", "c"}}).status, 404);
  EXPECT_EQ(say("c", "three").body.at("conversation").at("cached_tokens"), 0)
      << "deleted from disk too";
  start();
  say("c", "one");
  EXPECT_EQ(post("/v1/states/save", {{"conversation", "c"}}).status, 400) << "no folder given";
}

TEST_F(ServeConversations, TheOldestMakesRoomAndItsClientIsTold) {
  start(room_for(2));
  for (const char* id : {"a", "b", "c"}) ASSERT_EQ(say(id, "one").status, 200);
  EXPECT_EQ(get("/health").body.at("idle_states"), 2);
  const Reply gone = say("a", "two");
  EXPECT_EQ(gone.status, 410) << gone.raw;
  EXPECT_EQ(gone.body.at("error").at("code"), "state_dropped");
  const Json whole = {{{"role", "user"}, {"content", "one"}},
                      {{"role", "assistant"}, {"content", "ok"}},
                      {{"role", "user"}, {"content", "two"}}};
  EXPECT_EQ(chat("", {{"messages", whole}, {"conversation", "a"}}).status, 200)
      << "sent whole it begins again";
  EXPECT_EQ(say("c", "two").status, 200);
}

TEST_F(ServeConversations, ATextGoesOnWithoutAPrompt) {
  start();
  const Json options = {{"max_tokens", 6}, {"temperature", 0}, {"ignore_end", true}};
  Json whole = options, first = options, second = options;
  whole.update({{"prompt", "abc"}, {"max_tokens", 12}});
  first.update({{"prompt", "abc"}, {"conversation", "t"}});
  second.update({{"conversation", "t"}});
  const auto said = [this](const Json& body) {
    const Reply reply = post("/v1/completions", body);
    return reply.status == 200 ? reply.body.at("choices").at(0).at("text").get<std::string>()
                               : reply.raw;
  };
  const std::string all = said(whole);
  const std::string begun = said(first);
  EXPECT_EQ(begun + said(second), all);
}

}  // namespace
}  // namespace runnel
