// SPDX-License-Identifier: Apache-2.0
// What a question refers to beyond the window: found, bounded, kept with the question, read exactly once more.
#include "runtime/store/remind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "runnel/conversation.h"
#include "tests/store/chat_model.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using test::open_store;
using test::short_answer;
using ::testing::HasSubstr;
using ::testing::Not;

// A token for each word.
Result<std::size_t> count_words(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')) + 1;
}

class Remind : public ::testing::Test {
 protected:
  void say(const std::string& role, const std::string& text) {
    texts_.push_back(std::make_unique<std::string>(text));
    roles_.push_back(std::make_unique<std::string>(role));
    said_.push_back({static_cast<MessageId>(said_.size() + 1), *roles_.back(), *texts_.back()});
  }
  // Turns of about 40 words each.
  void talk(int turns) {
    for (int i = 0; i < turns; ++i) {
      say("user", "Tell me about rivers and lakes in the north.");
      say("assistant",
          "Rivers begin in the mountains and end in the sea. Some of them are short, and others "
          "cross a whole continent before they reach it. Lakes are fed by them.");
    }
  }
  std::vector<Quotation> ask(const std::string& question, RemindLimits limits = {.window = 60}) {
    auto found = remind(said_, question, count_words, limits);
    if (!found) throw std::runtime_error(found.error().message);
    return *std::move(found);
  }

  std::vector<std::unique_ptr<std::string>> texts_, roles_;
  std::vector<Said> said_;
};

TEST_F(Remind, FindsWhatAQuestionRefersTo) {
  say("user", "My sister's name is Maeve.");
  say("assistant", "Thank you for telling me.");
  talk(5);
  const auto found = ask("What is my sister's name?");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], (Quotation{1, "My sister's name is Maeve."}));
}

TEST_F(Remind, FindsWhatTheAnswersSaidToo) {
  say("user", "Suggest a gift for my brother.");
  say("assistant", "Your brother might like a brass telescope.");
  talk(5);
  const auto found = ask("What might my brother like?");
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back().message, 2);
}

TEST_F(Remind, FindsItInADocumentAndInGerman) {
  std::string document = "Der Leuchtturm wurde 1872 von Anna Petersen gebaut.";
  while (document.size() < 1200) document += " Die Wellen schlagen an die Felsen der Insel.";
  say("system", document);
  talk(3);
  const auto found = ask("Wer hat den Leuchtturm gebaut?");
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found[0].text, HasSubstr("Anna Petersen"));
}

TEST_F(Remind, ReadsNothingAgainForAQuestionAboutNothingPast) {
  say("user", "My sister's name is Maeve and she lives in a house by a lake.");
  talk(5);
  for (const char* question :
       {"What is the capital of France?", "How do I build a house?", "Write a poem for my sister.",
        "Can you help me with my house?", "Why?", ""})
    EXPECT_TRUE(ask(question).empty()) << question;
}

TEST_F(Remind, LeavesOutWhatTheWindowStillHolds) {
  talk(5);
  say("user", "My sister's name is Maeve.");
  EXPECT_TRUE(ask("What is my sister's name?").empty());
  talk(1);
  EXPECT_TRUE(ask("What is my sister's name?").empty());
  EXPECT_EQ(ask("What is my sister's name?", {.window = 20}).size(), 1U);
  talk(1);
  EXPECT_EQ(ask("What is my sister's name?").size(), 1U);
  // Marks around messages count: with ten tokens each it is beyond the window earlier.
  said_.resize(said_.size() - 2);
  EXPECT_EQ(ask("What is my sister's name?", {.window = 60, .around = 10}).size(), 1U);
}

TEST_F(Remind, LeavesOutWhatWasReadAgainWithinTheWindow) {
  say("user", "My sister's name is Maeve.");
  talk(5);
  const std::vector<Quotation> earlier = ask("What is my sister's name?");
  ASSERT_EQ(earlier.size(), 1U);
  say("user", "What is my sister's name?");
  said_.back().quotations = earlier;
  say("assistant", "Maeve.");
  EXPECT_TRUE(ask("And what is my sister's name?").empty());
}

TEST_F(Remind, BringsTheSentencesBesideItInTheOrderOfTheChat) {
  say("user", "I have a sister in Oslo. Her name is Maeve. She is a baker.\n\nIt rained.");
  talk(3);
  say("user", "I went to see my sister in Oslo by train.");
  talk(5);
  const auto found = ask("What does my sister in Oslo do?");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].message, 1);
  EXPECT_EQ(found[0].text, "I have a sister in Oslo. Her name is Maeve.");
  EXPECT_GT(found[1].message, 1);
}

TEST_F(Remind, KeepsToItsTokens) {
  std::string filled;
  for (int i = 0; i < 50; ++i) filled += " and so on and on";
  for (int i = 0; i < 6; ++i)
    say("user", "My sister Maeve number " + std::to_string(i) + filled + ".");
  talk(5);
  const RemindLimits limits{.window = 60, .tokens = 300};
  const auto found = ask("Who is my sister?", limits);
  ASSERT_FALSE(found.empty());
  EXPECT_LE(*count_words(with_quotations(found, "")), limits.tokens);
  EXPECT_TRUE(ask("Who is my sister?", {.window = 60, .tokens = 3}).empty());
}

TEST_F(Remind, SaysWhyItCouldNotCount) {
  say("user", "My sister's name is Maeve.");
  const auto failing = [](std::string_view) -> Result<std::size_t> {
    return Error{ErrorCode::malformed, "no"};
  };
  EXPECT_EQ(remind(said_, "What is my sister's name?", failing, {}).error().code,
            ErrorCode::malformed);
}

TEST(Quotations, StandBeforeTheTextLineByLine) {
  const std::vector<Quotation> two = {{1, "One.\nTwo."}, {2, "Three."}};
  EXPECT_EQ(with_quotations(two, "Why?"),
            "Earlier in this chat:\n> One.\n> Two.\n> Three.\n\nWhy?");
  EXPECT_EQ(with_quotations({}, "Why?"), "Why?");
}

// ---- in a conversation ----

class RemindedConversation : public ::testing::Test {
 protected:
  static constexpr const char* kQuestion = "Who is she?";
  const std::vector<Quotation> quoted(MessageId message) const {
    return {{message, "My sister is Maeve."}};
  }
  // A chat whose last message, stored only, has a quotation of the first.
  MessageInfo stored() {
    auto chat = Conversation::create(store_, model_, {.name = "talk"});
    const auto turn = chat->send("My sister is Maeve.", short_answer(3));
    first_ = turn->user;
    const auto added =
        store_.add({.conversation = chat->id(), .parent = turn->answer, .text = kQuestion});
    EXPECT_TRUE(*store_.set_quotations(added->id, quoted(first_)));
    return *added;
  }
  static std::vector<float> logits(Conversation& chat) {
    const auto view = *chat.session().logits();
    return {view.begin(), view.end()};
  }

  test::TemporaryDirectory directory_;
  std::shared_ptr<const Model> model_ = test::chat_model();
  ConversationStore store_ = open_store(directory_.path());
  MessageId first_ = 0;
};

TEST_F(RemindedConversation, ReadsQuotationsAsTokensOfTheChat) {
  const MessageInfo question = stored();
  auto chat = Conversation::open(store_, model_, question.conversation);
  ASSERT_TRUE(chat) << chat.error().message;
  const auto answer = chat->answer(short_answer(4));
  ASSERT_TRUE(answer) << answer.error().message;

  // The same as if they had been typed.
  auto typed = Conversation::create(store_, model_, {.name = "typed"});
  ASSERT_TRUE(typed->send("My sister is Maeve.", short_answer(3)));
  const auto same = typed->send(with_quotations(quoted(first_), kQuestion), short_answer(4));
  EXPECT_EQ(same->result.text, answer->result.text);
  EXPECT_EQ(typed->session().position(), chat->session().position());
  EXPECT_EQ(logits(*typed), logits(*chat));

  // But they are no part of what was said.
  EXPECT_EQ(store_.path(question.id)->back().text, kQuestion);
  EXPECT_EQ(store_.path(question.id)->back().quotations, quoted(first_));
  EXPECT_TRUE(store_.search("Earlier")->size() == 1);  // typed
}

TEST_F(RemindedConversation, GoesOnBitForBitAfterItWasClosed) {
  const MessageInfo question = stored();
  auto chat = Conversation::open(store_, model_, question.conversation);
  ASSERT_TRUE(chat->answer(short_answer(4)));
  auto again = Conversation::open(store_, model_, question.conversation);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->cost().replayed, 0U);
  EXPECT_EQ(logits(*again), logits(*chat));
  EXPECT_EQ(again->send("Go on", short_answer(5))->result.text,
            chat->send("Go on", short_answer(5))->result.text);
}

TEST_F(RemindedConversation, IsReadAgainWithItsQuotationsByAnotherModelAndFromTokens) {
  const MessageInfo question = stored();
  auto chat = Conversation::open(store_, model_, question.conversation);
  const std::uint64_t position = chat->session().position();
  for (const auto& file :
       std::filesystem::directory_iterator(directory_.path() / "chats.db.snapshots"))
    std::filesystem::remove(file);
  auto replayed = Conversation::open(store_, model_, question.conversation);
  EXPECT_EQ(replayed->cost().replayed, position);
  const auto narrow = test::chat_model(1, 2);
  auto there = Conversation::open(store_, narrow, question.conversation);
  ASSERT_TRUE(there) << there.error().message;
  auto typed = Conversation::create(store_, model_, {.name = "typed"});
  ASSERT_TRUE(typed->send("My sister is Maeve.", short_answer(3)));
  ASSERT_TRUE(typed->add_user(with_quotations(quoted(first_), kQuestion)));
  auto same = Conversation::open(store_, narrow, typed->id());
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(there->session().position(), same->session().position());
  EXPECT_EQ(logits(*there), logits(*same));
}

TEST_F(RemindedConversation, QuotationsAreSetBeforeAModelReadsAndOnlyThen) {
  const MessageInfo question = stored();
  EXPECT_TRUE(*store_.set_quotations(question.id, {}));
  EXPECT_TRUE(store_.path(question.id)->back().quotations.empty());
  EXPECT_TRUE(*store_.set_quotations(question.id, quoted(first_)));
  ASSERT_TRUE(Conversation::open(store_, model_, question.conversation));
  EXPECT_FALSE(*store_.set_quotations(question.id, {}));
  EXPECT_EQ(store_.path(question.id)->back().quotations, quoted(first_));
  EXPECT_EQ(store_.set_quotations(question.parent, {}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(store_.set_quotations(999, {}).error().code, ErrorCode::not_found);
}

TEST_F(RemindedConversation, QuotationsGoWithExportsPacksAndSalvage) {
  const MessageInfo question = stored();
  const auto copy = store_.import_json(*store_.export_json(question.conversation));
  ASSERT_TRUE(copy) << copy.error().message;
  const auto tree = store_.tree(*copy);
  EXPECT_EQ(tree->back().quotations, quoted(tree->front().id));
  EXPECT_THAT(*store_.export_markdown(question.conversation), HasSubstr("> My sister is Maeve."));

  auto chat = Conversation::open(store_, model_, question.conversation);
  auto pack = chat->pack();
  ASSERT_TRUE(pack) << pack.error().message;
  auto other = Conversation::create(store_, model_, {.name = "pack", .pack = *pack});
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(logits(*other), logits(*chat));

  const test::TemporaryDirectory elsewhere;
  ConversationStore saved = open_store(elsewhere.path());
  ASSERT_TRUE(saved.salvage(directory_.path() / "chats.db"));
  const auto found = saved.find("talk");
  const auto kept = saved.tree(**found);
  EXPECT_EQ(kept->back().quotations, quoted(kept->front().id));
}

TEST_F(RemindedConversation, QuotationsAreForgottenWithTheirMessage) {
  const MessageInfo question = stored();
  ASSERT_TRUE(store_.forget_conversation(question.conversation));
  EXPECT_THAT(test::everything_under(directory_.path()), Not(HasSubstr("Maeve")));
}

TEST_F(RemindedConversation, BeyondTheWindowIsWhatTheModelSays) {
  std::vector<MessageInfo> path(2);
  path[0].id = 1;
  path[0].role = "user";
  path[0].text = "My sister is Maeve.";
  path[1].id = 2;
  path[1].role = "assistant";
  path[1].text = "Thank you, that is good to know.";
  const auto narrow = test::chat_model(1, 2);
  EXPECT_EQ(window_of(narrow->info()), 2U);
  const auto found = remind(path, "Who is my sister?", *narrow);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, quoted(1));
  ModelInfo none;
  EXPECT_EQ(window_of(none), 256U);
}

}  // namespace
}  // namespace runnel
