// SPDX-License-Identifier: Apache-2.0
// Answers with a constraint in conversations: cut and resumed, gone back from, branched off.
#include "runnel/constraint.h"

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>

#include "runnel/conversation.h"
#include "tests/store/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

class ConstrainedConversation : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_constraints()) GTEST_SKIP() << "this build has no RUNNEL_GRAMMAR";
    auto made = Constraint::regex(*model_, "start (left|right){3} [a-f]{4} and the end");
    ASSERT_TRUE(made) << made.error().message;
    constraint_ = *made;
    auto chat = Conversation::create(store_, model_, {.name = "talk"});
    ASSERT_TRUE(chat) << chat.error().message;
    chat_.emplace(*std::move(chat));
  }
  GenerationOptions options(std::uint64_t tokens = 400) const {
    return {.sampling = {.temperature = 1.5F, .seed = 4},
            .max_tokens = tokens,
            .constraint = constraint_};
  }
  std::string text_at_head() {
    const auto path = store_.path(chat_->head());
    if (!path || path->empty()) throw std::runtime_error("no path");
    return path->back().text;
  }

  test::TemporaryDirectory directory_;
  std::shared_ptr<const Model> model_ = test::chat_model();
  ConversationStore store_ = test::open_store(directory_.path());
  std::shared_ptr<const Constraint> constraint_;
  std::optional<Conversation> chat_;
};

TEST_F(ConstrainedConversation, IsResumedWithinItsConstraintAfterItWasOpenedAgain) {
  for (const std::uint64_t cut : {2U, 9U, 21U}) {
    const auto first = chat_->send("Hello", options(cut));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->result.reason, FinishReason::length);
    const ConversationId id = chat_->id();
    chat_.reset();
    auto again = Conversation::open(store_, model_, id);
    ASSERT_TRUE(again) << again.error().message;
    chat_.emplace(*std::move(again));
    const auto rest = chat_->resume(options());
    ASSERT_TRUE(rest) << rest.error().message;
    EXPECT_TRUE(constraint_->accepts(text_at_head())) << cut << ": " << text_at_head();
  }
}

TEST_F(ConstrainedConversation, IsResumedWithinItsConstraintAfterAStop) {
  std::stop_source stop;
  std::size_t bytes = 0;
  const auto cut = chat_->send(
      "Hello", options(),
      [&](std::string_view piece) {
        bytes += piece.size();
        if (bytes > 8) stop.request_stop();
        return true;
      },
      stop.get_token());
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(cut->result.reason, FinishReason::cancelled);
  ASSERT_TRUE(chat_->resume(options()));
  EXPECT_TRUE(constraint_->accepts(text_at_head())) << text_at_head();
}

TEST_F(ConstrainedConversation, BeginsAnewWhereTheTalkWentBackTo) {
  const auto cut = chat_->send("Hello", options(9));
  ASSERT_TRUE(cut) << cut.error().message;
  const auto other = chat_->regenerate(options());
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_TRUE(constraint_->accepts(other->result.text)) << other->result.text;
  ASSERT_TRUE(chat_->rewind(cut->answer));
  ASSERT_TRUE(chat_->resume(options()));
  EXPECT_TRUE(constraint_->accepts(text_at_head())) << text_at_head();
  ASSERT_TRUE(chat_->rewind(0));
  const auto anew = chat_->send("Once more", options());
  ASSERT_TRUE(anew) << anew.error().message;
  EXPECT_TRUE(constraint_->accepts(anew->result.text)) << anew->result.text;
}

}  // namespace
}  // namespace runnel
