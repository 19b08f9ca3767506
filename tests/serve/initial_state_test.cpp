// SPDX-License-Identifier: Apache-2.0
// A server that begins everything from a state before the first token, such as a tuned one.
#include "tests/support/initial_state.h"

#include "tests/serve/fixture.h"
#include "tests/support/chat_model.h"

namespace runnel {
namespace {

using test::Json;
using test::Reply;

class ServeInitialState : public test::Serving {
 protected:
  void start_from(std::uint64_t seed = 7) {
    start({.initial = test::random_initial_state(model(), seed), .states = folder_});
  }
  // A session that stands where the server begins.
  Session begun() {
    Session session = *Session::create(model());
    EXPECT_TRUE(session.restore(test::random_initial_state(model())));
    return session;
  }
  static std::string said(Session& session) {
    return generate(session, {.max_tokens = 8, .ignore_end = true})->text;
  }
  void SetUp() override { std::filesystem::create_directory(folder_); }

  const std::filesystem::path folder_ = directory_.path() / "states";
};

TEST_F(ServeInitialState, RequestsBeginFromIt) {
  start();
  const std::string before = text(chat("Hello"));
  start_from();
  const ChatMessage message{"user", "Hello"};
  Session session = begun();
  ASSERT_TRUE(session.prefill(*model()->encode_chat({&message, 1})));
  const std::string expected = said(session);
  EXPECT_NE(expected, before) << "the case is not one in which the state matters";
  for (int times = 0; times < 2; ++times) EXPECT_EQ(text(chat("Hello")), expected);
}

TEST_F(ServeInitialState, EveryPromptAndEveryAnswerToItBeginsFromIt) {
  start_from();
  const Reply reply = post("/v1/completions", {{"prompt", {"abc", "Hello"}},
                                               {"n", 2},
                                               {"max_tokens", 8},
                                               {"temperature", 0},
                                               {"ignore_end", true}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  ASSERT_EQ(reply.body.at("choices").size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    Session session = begun();
    ASSERT_TRUE(session.prefill(*model()->encode(i < 2 ? "abc" : "Hello")));
    EXPECT_EQ(reply.body.at("choices").at(i).at("text"), said(session)) << i;
  }
}

TEST_F(ServeInitialState, EmbeddingsBeginFromIt) {
  start_from();
  const Reply reply = post("/v1/embeddings", {{"input", "Hello"}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  const auto expected = begun().embedding(*model()->encode("Hello"));
  EXPECT_EQ(reply.body.at("data").at(0).at("embedding").get<std::vector<float>>(), *expected);
}

TEST_F(ServeInitialState, ConversationsBeginFromItAndGoOnAfterARestart) {
  Session session = begun();
  auto place = ChatContinuation::start;
  for (const char* words : {"one", "two"}) {
    start_from();
    const Reply reply = chat(words, {{"conversation", "c"}});
    ASSERT_EQ(reply.status, 200) << reply.raw;
    const ChatMessage message{"user", words};
    ASSERT_TRUE(session.prefill(*model()->encode_chat({&message, 1}, true, place)));
    EXPECT_EQ(text(reply), said(session));
    EXPECT_EQ(reply.body.at("conversation").at("position"), session.position());
    place = ChatContinuation::after_cut_answer;
  }
}

TEST_F(ServeInitialState, AConversationThatIsReadAnewBeginsFromItAgain) {
  use_template(test::kLastAloneTemplate);
  start_from();
  Json talk = {{"conversation", "talk"}, {"max_tokens", 8}};
  const Reply first = chat("Hello", talk);
  ASSERT_EQ(first.status, 200) << first.raw;
  talk["messages"] = {{{"role", "user"}, {"content", "Hello"}},
                      {{"role", "assistant"}, {"content", text(first)}},
                      {{"role", "user"}, {"content", "And now?"}}};
  const Reply second = chat("", talk);
  ASSERT_EQ(second.status, 200) << second.raw;
  EXPECT_EQ(second.body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  Session session = begun();
  ASSERT_TRUE(session.prefill(
      *model()->encode("<|im_start|>user\n(said)<|im_end|>\n<|im_start|>assistant\n(said)"
                       "<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n",
                       true)));
  EXPECT_EQ(text(second), said(session));
}

TEST_F(ServeInitialState, AConversationOfAnotherOneIsLeftAsItIs) {
  start_from();
  ASSERT_EQ(chat("one", {{"conversation", "c"}}).status, 200);
  const std::string before = test::read_text(folder_ / "c.state");
  const auto refused = [&](const char* what) {
    const Reply reply = chat("two", {{"conversation", "c"}});
    EXPECT_EQ(reply.status, 409) << reply.raw;
    EXPECT_EQ(reply.body.at("error").at("code"), "conversation_does_not_fit");
    const std::string message = reply.body.at("error").at("message");
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  start_from(8);
  refused("this server's conversations begin from initial state ");
  start({.states = folder_});
  refused("this server's conversations begin from the empty state");
  EXPECT_EQ(test::read_text(folder_ / "c.state"), before);
  start_from();
  EXPECT_EQ(chat("two", {{"conversation", "c"}}).body.at("conversation").at("begun"), false);
}

TEST_F(ServeInitialState, AConversationOfTheEmptyStateIsNotMixedUpWithIt) {
  start({.states = folder_});
  ASSERT_EQ(chat("one", {{"conversation", "c"}}).status, 200);
  start_from();
  EXPECT_EQ(chat("two", {{"conversation", "c"}}).status, 409);
}

TEST_F(ServeInitialState, AnotherSnapshotIsRefusedAtTheStart) {
  Session session = *Session::create(model());
  const TokenId token = 1;
  ASSERT_TRUE(session.prefill({&token, 1}));
  const auto behind = serve::Server::create(model(), {.port = 0, .initial = *session.snapshot()});
  ASSERT_FALSE(behind);
  EXPECT_EQ(behind.error().code, ErrorCode::invalid_argument);
  test::write_chat_model(directory_ / "other.gguf", {}, 5);
  const auto other = *Model::load(directory_ / "other.gguf", {.device = "cpu", .threads = 1});
  const auto mixed =
      serve::Server::create(model(), {.port = 0, .initial = test::random_initial_state(other)});
  ASSERT_FALSE(mixed);
  EXPECT_EQ(mixed.error().code, ErrorCode::mismatch);
}

}  // namespace
}  // namespace runnel
