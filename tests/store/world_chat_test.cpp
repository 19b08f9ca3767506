// SPDX-License-Identifier: Apache-2.0
// Stored conversations with a World model are one transcript, however their states come back.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "runnel/conversation.h"
#include "runtime/io/snapshot_data.h"
#include "tests/store/chat_model.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using Ids = std::vector<TokenId>;

constexpr const char* kTranscript =
    "System: Be kind.\n\nUser: a\n\nAssistant: one\xE3\x80\x82\n\nUser: b\n\nAssistant: two";

class WorldConversations : public ::testing::Test {
 protected:
  void SetUp() override {
    test::write_world_chat_model(directory_.path() / "world.gguf");
    auto model = Model::load(directory_.path() / "world.gguf", {.device = "cpu", .threads = 2});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_ = *model;
  }

  Ids encode(const std::string& text) const { return *model_->encode(text); }

  /// Sends `text`; the answer is `forced` and token 0.
  void send(Conversation& chat, const std::string& text, const std::string& forced) const {
    Ids tokens = encode(forced);
    tokens.push_back(0);
    GenerationOptions options{.max_tokens = tokens.size()};
    options.answer = *model_->answer_form();
    options.on_logits = [&](std::span<float> logits, std::span<const TokenId> generated) {
      std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
      logits[static_cast<std::size_t>(tokens[generated.size()])] = 0;
      return true;
    };
    const auto turn = chat.send(text, options);
    ASSERT_TRUE(turn.has_value()) << turn.error().message;
  }

  Conversation talk(const std::string& name) const {
    auto chat = Conversation::create(store_, model_, {.name = name, .system = "Be kind."});
    EXPECT_TRUE(chat.has_value()) << chat.error().message;
    send(*chat, "a", " one\xE3\x80\x82");
    send(*chat, "b", " two");
    return std::move(*chat);
  }

  void expect_reading(const Conversation& chat, const std::string& transcript) const {
    Session reader = *Session::create(model_);
    ASSERT_TRUE(reader.prefill(encode(transcript)).has_value());
    const Snapshot read = *reader.snapshot();
    const Snapshot stands = *const_cast<Conversation&>(chat).session().snapshot();
    EXPECT_EQ(stands.position(), read.position());
    EXPECT_EQ(data_of(stands).history_hash, data_of(read).history_hash);
    EXPECT_EQ(data_of(stands).state, data_of(read).state);
  }

  test::TemporaryDirectory directory_;
  ConversationStore store_ = test::open_store(directory_.path());
  std::shared_ptr<const Model> model_;
};

TEST_F(WorldConversations, AreOneTranscript) { expect_reading(talk("talk"), kTranscript); }

TEST_F(WorldConversations, ReadAgainTheyAreTheSameTranscript) {
  Conversation chat = talk("talk");
  const auto path = *store_.path(chat.head());
  ASSERT_EQ(path.size(), 5U);
  EXPECT_EQ(path[2].text, "one\xE3\x80\x82");
  ASSERT_TRUE(store_.set_budget(0));  // the states in between go
  ASSERT_TRUE(chat.rewind(path[2].id).has_value());
  send(chat, "b", " two");
  expect_reading(chat, kTranscript);
}

TEST_F(WorldConversations, ReadByAnotherModelTheyAreTheSameTranscript) {
  Conversation chat = talk("talk");
  auto narrow = Model::load(directory_.path() / "world.gguf",
                            {.device = "cpu", .threads = 2, .window_slots = 2});
  ASSERT_TRUE(narrow.has_value()) << narrow.error().message;
  model_ = *narrow;
  auto there = Conversation::open(store_, model_, chat.id());
  ASSERT_TRUE(there.has_value()) << there.error().message;
  EXPECT_GT(there->cost().replayed, 0U);
  expect_reading(*there, kTranscript);
}

}  // namespace
}  // namespace runnel
