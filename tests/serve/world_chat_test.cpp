// SPDX-License-Identifier: Apache-2.0
// Chats of World models: thoughts apart, and conversations that stand where a reading of the transcript would.
#include "tests/serve/fixture.h"
#include "tests/support/chat_model.h"

namespace runnel {
namespace {

using test::Json;
using test::Reply;

class ServeWorld : public test::Serving {
 protected:
  void write_model(const std::filesystem::path& file) const override {
    test::write_world_chat_model(file);
  }
};

TEST_F(ServeWorld, ConversationsSayWhatASessionOfTheLibrarySays) {
  start();
  auto session = Session::create(model());
  ASSERT_TRUE(session);
  GenerationOptions options{.max_tokens = 8, .ignore_end = true};
  options.answer = *model()->answer_form();
  auto place = ChatContinuation::start;
  for (const char* words : {"one", "two", "three"}) {
    const Reply reply = chat(words, {{"conversation", "c"}});
    ASSERT_EQ(reply.status, 200) << reply.raw;
    const ChatMessage message{"user", words};
    ASSERT_TRUE(session->prefill(
        *model()->encode_chat({&message, 1}, true, place, session->unread_text())));
    const auto direct = generate(*session, options);
    ASSERT_TRUE(direct) << direct.error().message;
    EXPECT_EQ(text(reply), direct->text);
    EXPECT_EQ(reply.body.at("conversation").at("position"), session->position());
    place = ChatContinuation::after_closed_answer;
  }
}

TEST_F(ServeWorld, AnEndTokenIsNotPartOfTheConversation) {
  start();
  // Token 0 at once: the answer is empty, and nothing but the message was read.
  const Json ends = {{"conversation", "c"}, {"ignore_end", false}, {"logit_bias", {{"0", 100}}}};
  const Reply first = chat("one", ends);
  ASSERT_EQ(first.status, 200) << first.raw;
  EXPECT_EQ(first.body.at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(first.body.at("conversation").at("position"),
            model()->encode("User: one\n\nAssistant:")->size());
  const Reply second = chat("two", ends);
  EXPECT_EQ(second.body.at("conversation").at("position"),
            model()->encode("User: one\n\nAssistant:\n\nUser: two\n\nAssistant:")->size());
}

TEST_F(ServeWorld, ThoughtsAreReasoningContent) {
  start();
  // The model's noise never closes its thought.
  for (const Json& on : {Json{{"enable_thinking", true}}, Json{{"reasoning_effort", "high"}},
                         Json{{"chat_template_kwargs", {{"enable_thinking", true}}}}}) {
    const Reply reply = chat("one", on);
    ASSERT_EQ(reply.status, 200) << reply.raw;
    const Json& message = reply.body.at("choices").at(0).at("message");
    EXPECT_EQ(message.at("content"), "");
    EXPECT_FALSE(message.at("reasoning_content").get<std::string>().empty());
  }
  for (const Json& off : {Json{{"enable_thinking", false}}, Json{{"reasoning_effort", "none"}}}) {
    const Reply reply = chat("one", off);
    ASSERT_EQ(reply.status, 200) << reply.raw;
    EXPECT_FALSE(reply.body.at("choices").at(0).at("message").contains("reasoning_content"));
  }
}

TEST_F(ServeWorld, StreamsThoughtsApart) {
  start();
  const Json on = {{"enable_thinking", true}, {"max_tokens", 30}};
  const Reply whole = chat("one", on);
  Json streaming = on;
  streaming["stream"] = true;
  const Reply reply = chat("one", streaming);
  ASSERT_EQ(reply.status, 200);
  std::string thought, content;
  for (const Json& event : test::events(reply.raw)) {
    for (const Json& choice : event.at("choices")) {
      thought += choice.at("delta").value("reasoning_content", "");
      content += choice.at("delta").value("content", "");
    }
  }
  EXPECT_EQ(thought, whole.body.at("choices").at(0).at("message").at("reasoning_content"));
  EXPECT_EQ(content, "");
}

TEST_F(ServeWorld, TakesBackTheThoughtsItSent) {
  start();
  const Json messages = {{{"role", "user"}, {"content", "one"}},
                         {{"role", "assistant"}, {"content", "x"}, {"reasoning_content", "hm"}},
                         {{"role", "user"}, {"content", "two"}}};
  EXPECT_EQ(chat("", {{"messages", messages}}).status, 200);
}

TEST_F(ServeWorld, RefusesOtherEfforts) {
  start();
  for (const Json& wrong :
       {Json{{"reasoning_effort", "much"}}, Json{{"enable_thinking", "yes"}},
        Json{{"chat_template_kwargs", {{"think", true}}}}, Json{{"chat_template_kwargs", 1}}}) {
    const Reply reply = chat("one", wrong);
    EXPECT_EQ(reply.status, 400) << wrong.dump();
    EXPECT_EQ(reply.body.at("error").at("param").get<std::string>().substr(0, 5),
              wrong.begin().key().substr(0, 5));
  }
}

}  // namespace
}  // namespace runnel
