// SPDX-License-Identifier: Apache-2.0
// One rule for every call that can be stopped (result.h): where part of the work stays, a stop is no error and the result
// says so; where nothing stays, it is `cancelled`. The table has every such call of the headers, in C++ and in C, and a
// test that it has.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "runnel/batch.h"
#include "runnel/conversation.h"
#include "runnel/generation.h"
#include "runnel/runnel_store.h"
#include "runnel/scoring.h"
#include "runtime/c/support.h"
#include "runtime/store/c/handles.h"
#include "tests/store/chat_model.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;
using test::short_answer;

enum class Rule { part_stays, nothing_stays };

/// What a call that was stopped said.
struct Said {
  std::optional<ErrorCode> error;
  bool stopped = false;        // the result says so
  std::uint64_t consumed = 0;  // and how much there is: none of these calls gets to do any
};

Said of(const Status& status, bool stopped = false, std::uint64_t consumed = 0) {
  if (!status) return {.error = status.error().code};
  return {.error = {}, .stopped = stopped, .consumed = consumed};
}
template <class T>
Status status_of(const Result<T>& result) {
  return result ? Status() : Status(result.error());
}
Said of(const Result<Turn>& turn, MessageId before = 0) {
  if (!turn) return of(status_of(turn));
  EXPECT_EQ(turn->answer, before);
  EXPECT_EQ(turn->result.reason, FinishReason::cancelled);
  return of({}, turn->cancelled, turn->cost.fed + turn->cost.generated);
}
Said of(runnel_status status, bool stopped = false, std::uint64_t consumed = 0) {
  if (status != RUNNEL_OK) return {.error = static_cast<ErrorCode>(status)};
  return {.error = {}, .stopped = stopped, .consumed = consumed};
}

/// A model, sessions and a conversation of two turns, which has to be read again wherever one goes in it.
class Stopping : public ::testing::Test {
 protected:
  Stopping() {
    test::write_chat_model(file_);
    runnel_model_options options;
    RUNNEL_INIT(runnel_model_options, options);
    options.device = "cpu";
    if (runnel_model_load(file_.c_str(), &options, &model_, &error_) != RUNNEL_OK)
      throw std::runtime_error(error_.message);
    session_ = new runnel_session{*Session::create(model_->model)};
    if (!session_->session.prefill(kPrompt)) throw std::runtime_error("prompt");
    auto store = ConversationStore::open({.file = folder_ / "chats.db", .budget_bytes = 0});
    if (!store) throw std::runtime_error(store.error().message);
    store_ = new runnel_store{*store};
    chat_ = new runnel_conversation{
        *Conversation::create(store_->store, model_->model, {.name = "talk"})};
    first_ = *chat_->conversation.send("Hello", short_answer());
    second_ = *chat_->conversation.send("More", short_answer());
    stop_.source.request_stop();
    RUNNEL_INIT(runnel_generation_options, generation_);
    generation_.max_tokens = 5;
    generation_.stop = &stop_;
    RUNNEL_INIT(runnel_turn_options, turns_);
    turns_.stop = &stop_;
    RUNNEL_INIT(runnel_conversation_options, opening_);
    opening_.stop = &stop_;
    opening_.system = "Be brief.";
    RUNNEL_INIT(runnel_model_options, loading_);
    loading_.on_progress = [](float, void*) { return false; };
  }
  ~Stopping() override {
    runnel_conversation_free(chat_);
    runnel_store_free(store_);
    runnel_session_free(session_);
    runnel_model_free(model_);
  }

  Session& session() { return session_->session; }
  Conversation& chat() { return chat_->conversation; }
  std::stop_token token() const { return stop_.source.get_token(); }
  ReplayOptions replay() const { return {.progress = {}, .stop = token()}; }
  std::string bytes() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  ModelOptions refusing() const {
    return {.device = "cpu", .progress = [](float) { return false; }};
  }
  template <class Load>
  Said with_descriptor(const Load& load) {
    const int descriptor = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
    const Said said = load(descriptor);
    ::close(descriptor);
    return said;
  }
  /// A turn of the C API.
  template <class Take>
  Said turn(const Take& take) {
    runnel_turn turn;
    RUNNEL_INIT(runnel_turn, turn);
    const runnel_status status = take(&turn);
    return of(status, turn.stopped, turn.fed + turn.generated);
  }
  template <class Open>
  Said opened(const Open& open) {
    runnel_conversation* made = nullptr;
    const runnel_status status = open(&made);
    EXPECT_EQ(made, nullptr);
    return of(status);
  }

  using Calls = std::map<std::string, std::pair<Rule, std::function<Said()>>>;
  Calls cpp_sessions();
  Calls cpp_conversations();
  Calls c_sessions();
  Calls c_conversations();
  Calls all() {
    Calls all = cpp_sessions();
    all.merge(cpp_conversations());
    all.merge(c_sessions());
    all.merge(c_conversations());
    return all;
  }

  static inline const std::vector<TokenId> kPrompt = {3, 14, 15};

  test::TemporaryDirectory folder_;
  std::string file_ = (folder_ / "m.gguf").string();
  runnel_error error_{};
  runnel_model* model_ = nullptr;
  runnel_session* session_ = nullptr;
  runnel_store* store_ = nullptr;
  runnel_conversation* chat_ = nullptr;
  Turn first_, second_;
  runnel_stop stop_;
  runnel_generation_options generation_;
  runnel_turn_options turns_;
  runnel_conversation_options opening_;
  runnel_model_options loading_;
};

Stopping::Calls Stopping::cpp_sessions() {
  constexpr Rule stays = Rule::part_stays, nothing = Rule::nothing_stays;
  return {
      {"load", {nothing, [&] { return of(status_of(Model::load(file_, refusing()))); }}},
      {"load_bytes",
       {nothing,
        [&] {
          const std::string all = bytes();
          return of(status_of(Model::load_bytes(std::as_bytes(std::span(all)), refusing())));
        }}},
      {"load_descriptor",
       {nothing,
        [&] {
          return with_descriptor(
              [&](int d) { return of(status_of(Model::load_descriptor(d, 0, 0, refusing()))); });
        }}},
      {"prefill",
       {stays,
        [&] {
          const auto read = session().prefill(kPrompt, token());
          return of(status_of(read), read && read->cancelled, read ? read->consumed : 0);
        }}},
      {"embedding",
       {nothing, [&] { return of(status_of(session().embedding(kPrompt, {}, token()))); }}},
      {"score_choices",
       {nothing,
        [&] {
          const std::vector<std::vector<TokenId>> choices = {{1, 2, 3}};
          return of(status_of(score_choices(session(), choices, token())));
        }}},
      {"generate",
       {stays,
        [&] {
          const auto made = generate(session(), {.max_tokens = 5}, {}, token());
          return of(status_of(made), made && made->reason == FinishReason::cancelled,
                    made ? made->tokens.size() : 0);
        }}},
      {"generate_several",
       {stays,
        [&] {
          const auto made = generate_several(session(), 2, {.max_tokens = 5}, {}, token());
          return of(status_of(made), made && made->at(1).reason == FinishReason::cancelled,
                    made ? made->at(1).tokens.size() : 0);
        }}},
      {"choose",
       {stays,
        [&] {
          auto made = *SessionGeneration::create(session(), {.max_tokens = 5});
          const auto token = made.choose(true);
          return of(status_of(token), made.finish()->reason == FinishReason::cancelled);
        }}},
      {"step",
       {stays,
        [&] {
          auto made = *SessionGeneration::create(session(), {.max_tokens = 5});
          const auto token = made.step(this->token());
          return of(status_of(token), made.finish()->reason == FinishReason::cancelled);
        }}},
      {"run",
       {stays,
        [&] {
          SessionBatch batch(model_->model);
          const SessionFeed feed{.session = &session(), .tokens = kPrompt};
          const FeedResult& result = batch.run(std::span(&feed, 1), token())[0];
          return of(result.status, result.cancelled, result.consumed);
        }}},
  };
}

Stopping::Calls Stopping::cpp_conversations() {
  constexpr Rule stays = Rule::part_stays, nothing = Rule::nothing_stays;
  const auto options = short_answer();
  return {
      {"create",
       {nothing,
        [&] {
          return of(status_of(Conversation::create(
              store_->store, model_->model, {.name = "x", .system = "Be brief."}, replay())));
        }}},
      {"open",
       {nothing,
        [&] {
          return of(status_of(Conversation::open(store_->store, model_->model, chat().id(),
                                                 first_.answer, replay())));
        }}},
      {"open_or_create",
       {nothing,
        [&] {
          return of(status_of(Conversation::open_or_create(
              store_->store, model_->model, {.name = "y", .system = "Be brief."}, replay())));
        }}},
      {"send", {stays, [this, options] { return of(chat().send("x", options, {}, token())); }}},
      {"add_user", {stays, [&] { return of(chat().add_user("x", token())); }}},
      {"answer",
       {stays,
        [this, options] {
          EXPECT_TRUE(chat().add_user("x"));
          const Said said = of(chat().answer(options, {}, token()));
          EXPECT_TRUE(chat().rewind(second_.answer));
          return said;
        }}},
      {"regenerate",
       {stays, [this, options] { return of(chat().regenerate(options, {}, token())); }}},
      {"resume",
       {stays,
        [this, options] {
          GenerationOptions few = options;
          few.max_tokens = 2;
          few.ignore_end = true;  // cut, so that there is something to go on with
          EXPECT_TRUE(chat().add_user("x"));
          EXPECT_TRUE(chat().answer(few));
          const MessageId cut = chat().head();
          const Said said = of(chat().resume(options, {}, token()), cut);
          EXPECT_TRUE(chat().rewind(second_.answer));
          return said;
        }}},
      {"ask",
       {nothing, [this, options] { return of(status_of(chat().ask("x", options, {}, token()))); }}},
      {"edit", {stays, [&] { return of(chat().edit(second_.user, "x", replay())); }}},
      {"rewind", {nothing, [&] { return of(status_of(chat().rewind(first_.answer, replay()))); }}},
      {"forget_after",
       {nothing, [&] { return of(status_of(chat().forget_after(first_.answer, replay()))); }}},
      {"make_pack",
       {nothing, [&] { return of(status_of(make_pack(model_->model, "x", {}, replay()))); }}},
  };
}

Stopping::Calls Stopping::c_sessions() {
  constexpr Rule stays = Rule::part_stays, nothing = Rule::nothing_stays;
  const auto finished = [&](runnel_generation* generation, runnel_status status) {
    runnel_generation_result result;
    RUNNEL_INIT(runnel_generation_result, result);
    EXPECT_EQ(runnel_generation_finish(generation, &result, &error_), RUNNEL_OK);
    runnel_generation_free(generation);
    return of(status, result.finish == RUNNEL_FINISH_CANCELLED, result.token_count);
  };
  const auto stepped = [this, finished](auto step) {
    runnel_generation* made = nullptr;
    EXPECT_EQ(runnel_generation_create(session_, &generation_, &made, &error_), RUNNEL_OK);
    runnel_token token = 0;
    bool over = false;
    const runnel_status status = step(made, &token, &over, &error_);
    EXPECT_TRUE(over);
    return finished(made, status);
  };
  return {
      {"runnel_model_load",
       {nothing,
        [&] {
          runnel_model* made = nullptr;
          return of(runnel_model_load(file_.c_str(), &loading_, &made, &error_));
        }}},
      {"runnel_model_load_bytes",
       {nothing,
        [&] {
          runnel_model* made = nullptr;
          const std::string all = bytes();
          return of(runnel_model_load_bytes(all.data(), all.size(), &loading_, &made, &error_));
        }}},
      {"runnel_model_load_descriptor",
       {nothing,
        [&] {
          return with_descriptor([&](int d) {
            runnel_model* made = nullptr;
            return of(runnel_model_load_descriptor(d, 0, 0, &loading_, &made, &error_));
          });
        }}},
      {"runnel_session_feed",
       {stays,
        [&] {
          runnel_feed_options options;
          RUNNEL_INIT(runnel_feed_options, options);
          options.stop = &stop_;
          uint64_t consumed = 7;
          bool stopped = false;
          const runnel_status status = runnel_session_feed(session_, kPrompt.data(), 3, &options,
                                                           &consumed, &stopped, &error_);
          return of(status, stopped, consumed);
        }}},
      // Older than the rule, and as old programs know it.
      {"runnel_session_prefill",
       {nothing,
        [&] {
          uint64_t consumed = 7;
          const Said said =
              of(runnel_session_prefill(session_, kPrompt.data(), 3, &stop_, &consumed, &error_));
          EXPECT_EQ(consumed, 0U);
          return said;
        }}},
      {"runnel_generate",
       {stays,
        [&] {
          runnel_generation_result result;
          RUNNEL_INIT(runnel_generation_result, result);
          const runnel_status status = runnel_generate(session_, &generation_, &result, &error_);
          return of(status, result.finish == RUNNEL_FINISH_CANCELLED, result.token_count);
        }}},
      {"runnel_generate_several",
       {stays,
        [&] {
          runnel_generation_result result;
          RUNNEL_INIT(runnel_generation_result, result);
          runnel_generation_result* const results[] = {&result, nullptr};
          const runnel_status status =
              runnel_generate_several(session_, 2, &generation_, nullptr, results, &error_);
          return of(status, result.finish == RUNNEL_FINISH_CANCELLED, result.token_count);
        }}},
      // Its stop is asked at each step.
      {"runnel_generation_create", {stays, [stepped] { return stepped(runnel_generation_step); }}},
      {"runnel_generation_choose",
       {stays, [stepped] { return stepped(runnel_generation_choose); }}},
      {"runnel_batch_run",
       {stays,
        [&] {
          runnel_batch* batch = nullptr;
          EXPECT_EQ(runnel_batch_create(model_, &batch, &error_), RUNNEL_OK);
          const runnel_feed feed = {session_, kPrompt.data(), 3, false};
          runnel_feed_result result;
          const runnel_status status = runnel_batch_run(batch, &feed, 1, &stop_, &result, &error_);
          EXPECT_EQ(result.error.status, RUNNEL_OK);
          runnel_batch_free(batch);
          return of(status, result.stopped, result.consumed);
        }}},
  };
}

Stopping::Calls Stopping::c_conversations() {
  constexpr Rule stays = Rule::part_stays, nothing = Rule::nothing_stays;
  return {
      {"runnel_conversation_create",
       {nothing,
        [&] {
          return opened([&](auto** made) {
            return runnel_conversation_create(store_, model_, "v", &opening_, made, &error_);
          });
        }}},
      {"runnel_conversation_open",
       {nothing,
        [&] {
          return opened([&](auto** made) {
            return runnel_conversation_open(store_, model_, chat().id(), first_.answer, &opening_,
                                            made, &error_);
          });
        }}},
      {"runnel_conversation_open_named",
       {nothing,
        [&] {
          return opened([&](auto** made) {
            return runnel_conversation_open_named(store_, model_, "w", &opening_, made, &error_);
          });
        }}},
      {"runnel_conversation_send",
       {stays,
        [&] {
          return turn([&](runnel_turn* turn) {
            return runnel_conversation_send(chat_, "x", 1, &turns_, turn, &error_);
          });
        }}},
      {"runnel_conversation_add_user",
       {stays,
        [&] {
          return turn([&](runnel_turn* turn) {
            return runnel_conversation_add_user(chat_, "x", 1, &turns_, turn, &error_);
          });
        }}},
      {"runnel_conversation_answer",
       {stays,
        [&] {
          EXPECT_TRUE(chat().add_user("x"));
          const Said said = turn([&](runnel_turn* turn) {
            return runnel_conversation_answer(chat_, &turns_, turn, &error_);
          });
          EXPECT_TRUE(chat().rewind(second_.answer));
          return said;
        }}},
      {"runnel_conversation_resume",
       {stays,
        [&] {
          GenerationOptions few = short_answer();
          few.max_tokens = 2;
          few.ignore_end = true;  // cut, so that there is something to go on with
          EXPECT_TRUE(chat().add_user("x"));
          EXPECT_TRUE(chat().answer(few));
          const Said said = turn([&](runnel_turn* turn) {
            return runnel_conversation_resume(chat_, &turns_, turn, &error_);
          });
          EXPECT_TRUE(chat().rewind(second_.answer));
          return said;
        }}},
      {"runnel_conversation_regenerate",
       {stays,
        [&] {
          return turn([&](runnel_turn* turn) {
            return runnel_conversation_regenerate(chat_, &turns_, turn, &error_);
          });
        }}},
      {"runnel_conversation_edit",
       {stays,
        [&] {
          return turn([&](runnel_turn* turn) {
            return runnel_conversation_edit(chat_, second_.user, "x", 1, &turns_, turn, &error_);
          });
        }}},
      {"runnel_conversation_rewind",
       {nothing,
        [&] {
          return of(runnel_conversation_rewind(chat_, first_.answer, &opening_, nullptr, &error_));
        }}},
      {"runnel_conversation_forget_after",
       {nothing,
        [&] {
          return of(
              runnel_conversation_forget_after(chat_, first_.answer, &opening_, nullptr, &error_));
        }}},
      {"runnel_pack_make",
       {nothing,
        [&] {
          runnel_snapshot* made = nullptr;
          return of(runnel_pack_make(model_, "x", nullptr, 0, &opening_, &made, &error_));
        }}},
  };
}

TEST_F(Stopping, EveryCallKeepsTheRule) {
  const std::size_t conversations = store_->store.list()->size();
  for (const auto& [name, call] : all()) {
    SCOPED_TRACE(name);
    const Said said = call.second();
    if (call.first == Rule::nothing_stays) {
      EXPECT_EQ(said.error, ErrorCode::cancelled);
    } else {
      EXPECT_FALSE(said.error.has_value());
      EXPECT_TRUE(said.stopped);
      EXPECT_EQ(said.consumed, 0U) << "the stop came before the call";
    }
    // Everything is where it was, and of use.
    EXPECT_EQ(session().position(), kPrompt.size());
    EXPECT_EQ(chat().head(), second_.answer);
    EXPECT_EQ(store_->store.list()->size(), conversations);
    EXPECT_TRUE(session().snapshot());
  }
  EXPECT_TRUE(generate(session(), {.max_tokens = 5}));
  const auto turn = chat().send("Still there?", short_answer());
  ASSERT_TRUE(turn) << turn.error().message;
  EXPECT_NE(turn->answer, 0);
  EXPECT_EQ(store_->store.path(turn->answer)->size(), 6U);
}

TEST_F(Stopping, AStopInAMessageSavesNothingAndSaysHowFarItCame) {
  std::stop_source stop;
  const std::string text(3000, 'x');
  const MessageId head = chat().head();
  const auto turn = chat().add_user(text, {.progress =
                                               [&](std::uint64_t done, std::uint64_t) {
                                                 if (done > 0) stop.request_stop();
                                               },
                                           .stop = stop.get_token()});
  ASSERT_TRUE(turn) << turn.error().message;
  EXPECT_TRUE(turn->cancelled);
  EXPECT_EQ(turn->user, 0);
  EXPECT_GT(turn->cost.fed, 0U);
  EXPECT_LT(turn->cost.fed, 3000U);
  EXPECT_EQ(chat().head(), head);
  const auto next = chat().send("More", short_answer());
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ((*store_->store.path(next->answer)).size(), 6U);
}

std::string without_comments(const fs::path& file) {
  std::ifstream in(file);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  text = std::regex_replace(text, std::regex("//[^\n]*"), "");
  return std::regex_replace(text, std::regex(R"(/\*[^*]*\*+([^/*][^*]*\*+)*/)"), "");
}

TEST_F(Stopping, TheTableHasEveryCallThatTakesAStop) {
  std::set<std::string> found;
  const std::regex takes(
      R"((\w+)\(([^()]|\(\*?\w*\)|\(size_t[^()]*\))*(std::stop_token|const ReplayOptions&|ModelOptions options|bool stop_requested|const runnel_stop\*|const runnel_(model|feed|generation|turn|conversation)_options\*))");
  for (const auto& entry : fs::directory_iterator("runtime/include/runnel")) {
    const std::string text = without_comments(entry.path());
    for (auto at = std::sregex_iterator(text.begin(), text.end(), takes);
         at != std::sregex_iterator(); ++at)
      found.insert((*at)[1]);
  }
  std::set<std::string> known;
  for (const auto& entry : all()) known.insert(entry.first);
  for (const std::string& name : found) EXPECT_TRUE(known.contains(name)) << name;
  EXPECT_GE(found.size(), 40U) << "the headers are not where this test looks";
}

}  // namespace
}  // namespace runnel
