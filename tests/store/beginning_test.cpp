// SPDX-License-Identifier: Apache-2.0
// Conversations that begin from a state before the first token, such as a tuned one, wherever they are taken back to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "app/chat/engine/shared_store.h"
#include "runnel/conversation.h"
#include "runtime/base/base64.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/initial_state.h"
#include "runtime/store/store_impl.h"
#include "tests/store/chat_model.h"
#include "tests/support/initial_state.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;
using chat::SharedStore;
using test::open_store;
using test::short_answer;
using ::testing::HasSubstr;

constexpr std::uint64_t kBudget = 1'000'000'000;
constexpr std::size_t kPage = 4096;

class Beginnings : public ::testing::Test {
 protected:
  Conversation create(const std::optional<Snapshot>& initial, const std::string& system = "") {
    auto made = Conversation::create(store_, model_, {.system = system, .pack = initial});
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }
  Conversation open(ConversationId id, const std::shared_ptr<const Model>& model = nullptr) {
    auto opened = Conversation::open(store_, model ? model : model_, id);
    if (!opened) throw std::runtime_error(opened.error().message);
    return std::move(*opened);
  }
  static std::string say(Conversation& chat, const std::string& text) {
    const auto turn = chat.send(text, short_answer());
    return turn ? turn->result.text : "failed: " + turn.error().message;
  }
  /// What a session answers that was brought to the tuned state by hand.
  std::string by_hand(const std::string& text) const {
    Session session = *Session::create(model_);
    EXPECT_TRUE(session.restore(tuned_));
    const ChatMessage message{"user", text};
    EXPECT_TRUE(session.prefill(*model_->encode_chat({&message, 1})));
    return generate(session, short_answer())->text;
  }
  static std::vector<float> state(Conversation& chat) {
    return data_of(*chat.session().snapshot()).state;
  }
  std::int64_t kept_states() const {
    return impl_of(store_).database.number("SELECT count(*) FROM initial_states")->value_or(-1);
  }
  fs::path file() const { return directory_.path() / "chats.db"; }
  /// What it answers to the first message, in the library that store_ is now.
  std::string says_first(ConversationId id) {
    Conversation chat = open(id);
    EXPECT_TRUE(chat.rewind(0));
    return say(chat, "Hello");
  }
  /// The page that its row is in becomes noise: who reads row after row comes no further.
  void overwrite_row_of_state(ConversationId id) {
    auto rows = impl_of(store_).database.prepare(
        "SELECT s.snapshot FROM beginnings b JOIN initial_states s ON s.hash = b.state "
        "WHERE b.conversation = ?1");
    ASSERT_TRUE(rows && *rows->bind(id).step());
    const std::vector<std::byte> state = rows->blob(0);
    ASSERT_GT(state.size(), kPage) << "it is to have a page of its own";
    const std::string part(reinterpret_cast<const char*>(&state[kPage / 4]), 64);
    const std::size_t at = test::read_text(file()).find(part);
    ASSERT_NE(at, std::string::npos);
    overwrite_page(at / kPage);
  }
  void overwrite_page(std::size_t number) const {
    std::fstream out(file(), std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(number * kPage));
    out << std::string(kPage, 'z');
  }
  static Status salvages(ConversationStore& made, const fs::path& old) {
    const auto report = made.salvage(old);
    return report ? Status() : Status(report.error());
  }
  static Status fills_nothing(ConversationStore& /*made*/, const fs::path& /*old*/) { return {}; }

  test::TemporaryDirectory directory_;
  std::shared_ptr<const Model> model_ = test::chat_model();
  Snapshot tuned_ = test::random_initial_state(model_);
  ConversationStore store_ = open_store(directory_.path());
};

TEST_F(Beginnings, AConversationAnswersAsASessionBehindTheState) {
  Conversation chat = create(tuned_);
  EXPECT_EQ(chat.head(), 0);
  EXPECT_EQ(chat.session().position(), 0U);
  EXPECT_EQ(say(chat, "Hello"), by_hand("Hello"));
  Conversation empty = create({});
  EXPECT_NE(say(empty, "Hello"), by_hand("Hello")) << "the case is not one where it matters";
}

TEST_F(Beginnings, GoingBackBeforeTheFirstMessageGoesThere) {
  Conversation chat = create(tuned_);
  say(chat, "Hello");
  say(chat, "More");
  ASSERT_TRUE(chat.rewind(0));
  EXPECT_EQ(say(chat, "Other"), by_hand("Other"));
  const auto path = store_.path(chat.head());
  ASSERT_TRUE(path);
  ASSERT_TRUE(chat.edit(path->front().id, "Hello"));
  EXPECT_EQ(chat.answer(short_answer())->result.text, by_hand("Hello"));
}

TEST_F(Beginnings, AReopenedConversationIsReadFromThereAgain) {
  ConversationId id = 0;
  std::vector<float> stood;
  {
    Conversation chat = create(tuned_);
    say(chat, "Hello");
    stood = state(chat);
    id = chat.id();
  }
  store_ = open_store(directory_.path());
  Conversation again = open(id);
  EXPECT_EQ(again.cost().replayed, 0U);
  EXPECT_EQ(state(again), stood);
  ASSERT_TRUE(again.rewind(0));
  EXPECT_EQ(say(again, "Hello"), by_hand("Hello"));
}

TEST_F(Beginnings, OneThatNothingWasSaidInStandsThereAfterARestart) {
  const ConversationId id = create(tuned_).id();
  store_ = open_store(directory_.path());
  Conversation again = open(id);
  EXPECT_EQ(say(again, "Hello"), by_hand("Hello"));
}

TEST_F(Beginnings, AStoredMessageIsReadBehindIt) {
  const ConversationId id = create(tuned_).id();
  ASSERT_TRUE(store_.add({.conversation = id, .text = "Hello"}));
  Conversation chat = open(id);
  EXPECT_EQ(chat.answer(short_answer())->result.text, by_hand("Hello"));
}

TEST_F(Beginnings, TheBudgetNeverDropsIt) {
  Conversation chat = create(tuned_);
  say(chat, "Hello");
  say(chat, "More");
  ASSERT_TRUE(store_.set_budget(0));
  ASSERT_TRUE(chat.rewind(0));
  EXPECT_EQ(say(chat, "Hello"), by_hand("Hello"));
}

TEST_F(Beginnings, TheSameSystemPromptBehindAnotherStateIsReadByItself) {
  const std::string system = "Be kind.";
  Conversation empty = create({}, system);
  Conversation tuned = create(tuned_, system);
  EXPECT_NE(state(tuned), state(empty));
  Conversation other = create(test::random_initial_state(model_, 8), system);
  EXPECT_NE(state(tuned), state(other));
  Conversation same = create(tuned_, system);
  EXPECT_EQ(same.cost().fed, 0U) << "it was read";
  EXPECT_EQ(state(same), state(tuned));
}

TEST_F(Beginnings, APackCarriesItToAnotherLibrary) {
  Conversation chat = create(tuned_);
  say(chat, "Hello");
  const fs::path file = directory_.path() / "place.rnlpack";
  ASSERT_TRUE(chat.pack()->save(file, {.state = StateEncoding::f16, .compress = true}));
  const test::TemporaryDirectory elsewhere;
  store_ = open_store(elsewhere.path());
  Conversation there = create(*Snapshot::load(file));
  EXPECT_EQ(there.session().position(), chat.session().position());
  ASSERT_TRUE(there.rewind(0));
  EXPECT_EQ(say(there, "Hello"), by_hand("Hello"));
}

TEST_F(Beginnings, APackFromBeforeTheFirstMessageIsTheStateItself) {
  const auto pack = create(tuned_).pack();
  ASSERT_TRUE(pack) << pack.error().message;
  Conversation again = create(*pack);
  EXPECT_EQ(say(again, "Hello"), by_hand("Hello"));
}

TEST_F(Beginnings, AnExportCarriesIt) {
  Conversation chat = create(tuned_);
  say(chat, "Hello");
  const auto text = store_.export_json(chat.id());
  ASSERT_TRUE(text) << text.error().message;
  const test::TemporaryDirectory elsewhere;
  store_ = open_store(elsewhere.path());
  const auto id = store_.import_json(*text);
  ASSERT_TRUE(id) << id.error().message;
  Conversation there = open(*id);
  ASSERT_TRUE(there.rewind(0));
  EXPECT_EQ(say(there, "Hello"), by_hand("Hello"));
}

TEST_F(Beginnings, AnImportNamesWhatIsWrongWithIt) {
  const auto refusal = [this](const std::string& begins_from) {
    const auto id = store_.import_json(
        R"({"format": "runnel-conversation", "version": 1, "messages": [], "begins_from": )" +
        begins_from + "}");
    return id ? "" : id.error().message;
  };
  EXPECT_EQ(refusal("7"), "begins_from: is no base64");
  EXPECT_EQ(refusal("\"AA=A\""), "begins_from: is no base64");
  EXPECT_THAT(refusal("\"AAAA\""), HasSubstr("begins_from: "));
  Session session = *Session::create(model_);
  const TokenId token = 1;
  ASSERT_TRUE(session.prefill({&token, 1}));
  EXPECT_EQ(refusal('"' + to_base64(*session.snapshot()->to_bytes()) + '"'),
            "begins_from: is no state before the first token");
  EXPECT_EQ(store_.list()->size(), 0U);
}

TEST_F(Beginnings, ASalvagedConversationHasItStill) {
  const ConversationId id = create(tuned_).id();
  ASSERT_TRUE(store_.add({.conversation = id, .text = "Hello"}));
  const test::TemporaryDirectory elsewhere;
  ConversationStore saved = open_store(elsewhere.path());
  ASSERT_TRUE(saved.salvage(directory_.path() / "chats.db"));
  store_ = std::move(saved);
  Conversation chat = open(store_.list()->at(0).id);
  EXPECT_EQ(chat.answer(short_answer())->result.text, by_hand("Hello"));
}

TEST_F(Beginnings, SalvagedBesideOthersEachHasItsOwn) {
  const ConversationId id = create(tuned_).id();
  ASSERT_TRUE(store_.add({.conversation = id, .text = "Hello"}));
  const test::TemporaryDirectory elsewhere;
  store_ = open_store(elsewhere.path());
  Conversation other = create(test::random_initial_state(model_, 8));
  const std::string answer = say(other, "Hello");
  ASSERT_NE(answer, by_hand("Hello"));
  ASSERT_EQ(other.id(), id) << "the salvaged one needs another id";
  ASSERT_TRUE(store_.salvage(file()));
  ASSERT_EQ(store_.list()->size(), 2U);
  for (const ConversationInfo& chat : *store_.list())
    EXPECT_EQ(says_first(chat.id), chat.id == other.id() ? answer : by_hand("Hello"));
}

TEST_F(Beginnings, OneThatWasDeletedHasItStillWhenItComesBackFromASalvage) {
  const ConversationId id = create(tuned_).id();
  ASSERT_TRUE(store_.trash_conversation(id));
  const test::TemporaryDirectory elsewhere;
  store_ = open_store(elsewhere.path());
  ASSERT_TRUE(store_.salvage(file()));
  ASSERT_TRUE(store_.undo(store_.trash()->at(0).id));
  EXPECT_EQ(says_first(id), by_hand("Hello"));
}

TEST_F(Beginnings, ASalvagedConversationWhoseRowIsLostHasItStill) {
  const ConversationId id = create(tuned_).id();
  ASSERT_TRUE(store_.add({.conversation = id, .text = "Hello"}));
  ASSERT_TRUE(impl_of(store_).database.run(
      "PRAGMA foreign_keys = OFF; DELETE FROM conversations; PRAGMA foreign_keys = ON"));
  const test::TemporaryDirectory elsewhere;
  store_ = open_store(elsewhere.path());
  ASSERT_TRUE(store_.salvage(file()));
  EXPECT_EQ(says_first(id), by_hand("Hello"));
}

TEST_F(Beginnings, ADamagedOneTakesNoOtherWithItInASalvage) {
  const ConversationId damaged = create(test::random_initial_state(model_, 8)).id();
  const ConversationId whole = create(tuned_).id();
  ASSERT_TRUE(store_.vacuum());
  overwrite_row_of_state(damaged);
  const test::TemporaryDirectory elsewhere;
  store_ = open_store(elsewhere.path());
  const auto report = store_.salvage(file());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->conversations, 2);
  EXPECT_EQ(says_first(whole), by_hand("Hello"));
  Conversation empty = create({});
  EXPECT_EQ(says_first(damaged), say(empty, "Hello"));
}

TEST_F(Beginnings, ADamagedIndexOfThemTakesNoneInASalvage) {
  const ConversationId id = create(tuned_).id();
  ASSERT_TRUE(store_.vacuum());
  const auto root = impl_of(store_).database.number(
      "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_initial_states_1'");
  ASSERT_TRUE(root && *root);
  overwrite_page(static_cast<std::size_t>(**root) - 1);
  const test::TemporaryDirectory elsewhere;
  store_ = open_store(elsewhere.path());
  ASSERT_TRUE(store_.salvage(file()));
  EXPECT_EQ(says_first(id), by_hand("Hello"));
}

TEST_F(Beginnings, AStateUnderTheNameOfAnotherIsNotTakenInASalvage) {
  const ConversationId id = create(tuned_).id();
  const ConversationId other = create(test::random_initial_state(model_, 8)).id();
  ASSERT_TRUE(impl_of(store_).database.run_with(
      "UPDATE initial_states SET snapshot = (SELECT s.snapshot FROM beginnings b JOIN "
      "initial_states s ON s.hash = b.state WHERE b.conversation = ?1)",
      other));
  ASSERT_TRUE(store_.vacuum());
  const test::TemporaryDirectory elsewhere;
  store_ = open_store(elsewhere.path());
  ASSERT_TRUE(store_.salvage(file()));
  Conversation empty = create({});
  EXPECT_EQ(says_first(id), say(empty, "Hello"));
}

TEST_F(Beginnings, ALibrarySalvagedIntoItsOwnPlaceHasItStill) {
  const ConversationId id = create(tuned_).id();
  SharedStore shared(file(), kBudget);
  ASSERT_TRUE(shared.begin_anew("damaged-1", {}, salvages));
  store_ = *shared.get();
  EXPECT_EQ(says_first(id), by_hand("Hello"));
}

TEST_F(Beginnings, TheLibraryThatAnotherOneReplacedHasItStill) {
  const ConversationId id = create(tuned_).id();
  SharedStore shared(file(), kBudget);
  const auto kept = shared.begin_anew("kept-1", {}, fills_nothing);
  ASSERT_TRUE(kept) << kept.error().message;
  store_ = *ConversationStore::open({.file = *kept});
  EXPECT_EQ(says_first(id), by_hand("Hello"));
}

TEST_F(Beginnings, OneThatIsOpenGoesBackThereThoughItsLibraryIsReplaced) {
  Conversation chat = create(tuned_);
  say(chat, "Hello");
  SharedStore shared(file(), kBudget);
  ASSERT_TRUE(shared.begin_anew("kept-1", {}, fills_nothing));
  ASSERT_TRUE(chat.rewind(0));
  EXPECT_EQ(say(chat, "Hello"), by_hand("Hello"));
}

TEST_F(Beginnings, AHandleFromBeforeFindsItInTheLibraryThatReplacedItsOwn) {
  const ConversationId id = create(tuned_).id();
  SharedStore other_window(file(), kBudget);
  ASSERT_TRUE(other_window.get());
  SharedStore shared(file(), kBudget);
  ASSERT_TRUE(shared.begin_anew("damaged-1", {}, salvages));
  store_ = *other_window.get();
  EXPECT_EQ(other_window.generation(), 1);
  EXPECT_EQ(says_first(id), by_hand("Hello"));
}

TEST_F(Beginnings, ALibraryBegunAnewTakesOne) {
  const ConversationId old = create(tuned_).id();
  SharedStore shared(file(), kBudget);
  ASSERT_TRUE(shared.begin_anew("kept-1", {}, fills_nothing));
  store_ = *shared.get();
  EXPECT_EQ(kept_states(), 0);
  const ConversationId id = create(tuned_).id();
  ASSERT_EQ(id, old) << "the numbers begin again";
  store_ = open_store(directory_.path());
  EXPECT_EQ(says_first(id), by_hand("Hello"));
}

TEST_F(Beginnings, ALibrarySalvagedToAnotherPlaceHasItStill) {
  const ConversationId id = create(tuned_).id();
  const test::TemporaryDirectory elsewhere;
  SharedStore shared(file(), kBudget);
  ASSERT_TRUE(shared.move_to({elsewhere.path() / "look.db"}, salvages));
  store_ = *shared.get();
  EXPECT_EQ(says_first(id), by_hand("Hello"));
}

TEST_F(Beginnings, AModelThatIsNotLoadedYetFindsIt) {
  const auto id = store_.add_pack(tuned_, "tuned");
  ASSERT_TRUE(id) << id.error().message;
  Conversation chat = open(*id);
  EXPECT_EQ(say(chat, "Hello"), by_hand("Hello"));
}

TEST_F(Beginnings, AnotherModelBeginsFromItsEmptyState) {
  Conversation chat = create(tuned_);
  say(chat, "Hello");
  const auto other = test::chat_model(2);
  Conversation there = open(chat.id(), other);
  ASSERT_TRUE(there.rewind(0));
  model_ = other;
  Conversation empty = create({});
  EXPECT_EQ(say(there, "Hello"), say(empty, "Hello"));
}

TEST_F(Beginnings, WhatFitsNoConversationIsRefused) {
  const auto refusal = [this](const Snapshot& snapshot) {
    const auto made = Conversation::create(store_, model_, {.name = "refused", .pack = snapshot});
    return made ? "" : made.error().message;
  };
  EXPECT_THAT(refusal(test::random_initial_state(test::chat_model(2))),
              HasSubstr("belongs to the model with fingerprint"));
  Session session = *Session::create(model_);
  const TokenId token = 1;
  ASSERT_TRUE(session.prefill({&token, 1}));
  EXPECT_EQ(refusal(*session.snapshot()),
            "state pack: has no messages to begin a conversation with");
  EXPECT_FALSE(store_.find("refused")->has_value());
}

TEST_F(Beginnings, OneOfAnotherSizeIsRefusedAsSoonAsThereIsAModel) {
  auto data = std::make_shared<SnapshotData>(data_of(tuned_));
  const std::string expected = ", expected " + std::to_string(data->state.size());
  data->state.resize(9);
  const Snapshot short_one = make_snapshot(std::move(data));
  const auto made = Conversation::create(store_, model_, {.name = "refused", .pack = short_one});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "snapshot: its state has 9 floats" + expected);
  EXPECT_FALSE(store_.find("refused")->has_value());
  // A library knows no model's size.
  const auto added = store_.add_pack(short_one, "added");
  ASSERT_TRUE(added) << added.error().message;
  const auto opened = Conversation::open(store_, model_, *added);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message, "snapshot: its state has 9 floats" + expected);
}

TEST_F(Beginnings, APackWhoseInitialStateHasAnotherSizeIsRefused) {
  Conversation chat = create(tuned_);
  say(chat, "Hello");
  auto data = std::make_shared<SnapshotData>(data_of(*chat.pack()));
  const std::string expected = ", expected " + std::to_string(data->state.size());
  data->initial_state.resize(9);
  const auto made = Conversation::create(
      store_, model_, {.name = "refused", .pack = make_snapshot(std::move(data))});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "snapshot: its state has 9 floats" + expected);
  EXPECT_FALSE(store_.find("refused")->has_value());
}

TEST_F(Beginnings, LosingTheSnapshotsDoesNotLoseIt) {
  Conversation chat = create(tuned_);
  say(chat, "Hello");
  fs::remove_all(directory_.path() / "chats.db.snapshots");
  store_ = open_store(directory_.path());
  Conversation again = open(chat.id());
  ASSERT_TRUE(again.rewind(0));
  EXPECT_EQ(say(again, "Hello"), by_hand("Hello"));
}

TEST_F(Beginnings, ADamagedOneIsNoEmptyState) {
  const ConversationId id = create(tuned_).id();
  ASSERT_TRUE(impl_of(store_).database.run(
      "UPDATE initial_states SET snapshot = zeroblob(length(snapshot))"));
  const auto opened = Conversation::open(store_, model_, id);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("began from cannot be read"));
}

TEST_F(Beginnings, NumbersThatAreNotFiniteAreRefused) {
  auto data = std::make_shared<SnapshotData>(data_of(tuned_));
  data->state[3] = std::numeric_limits<float>::infinity();
  const auto id = store_.add_pack(make_snapshot(std::move(data)), "infinite");
  ASSERT_FALSE(id);
  EXPECT_THAT(id.error().message, HasSubstr("a number that is not finite"));
  EXPECT_FALSE(store_.find("infinite")->has_value());
}

TEST_F(Beginnings, ForgettingTheLastConversationForgetsIt) {
  const ConversationId first = create(tuned_).id();
  const ConversationId second = create(tuned_).id();
  EXPECT_EQ(kept_states(), 1);
  ASSERT_TRUE(store_.forget_conversation(first));
  EXPECT_EQ(kept_states(), 1);
  ASSERT_TRUE(store_.forget_conversation(second));
  EXPECT_EQ(kept_states(), 0);
}

}  // namespace
}  // namespace runnel
