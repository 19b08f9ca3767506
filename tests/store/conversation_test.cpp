// SPDX-License-Identifier: Apache-2.0
// Conversations on a session: opened, gone back in and branched at no cost, and never refused.
#include "runnel/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/store/chat_model.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;
using test::open_store;
using test::short_answer;
using ::testing::HasSubstr;

class ConversationTest : public ::testing::Test {
 protected:
  Conversation create(const std::string& name = "talk", const std::string& system = "") {
    auto made = Conversation::create(store_, model_, {.name = name, .system = system});
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }
  Conversation open(ConversationId id, std::shared_ptr<const Model> model = nullptr,
                    const ReplayOptions& replay = {}) {
    auto opened = Conversation::open(store_, model ? model : model_, id, 0, replay);
    if (!opened) throw std::runtime_error(opened.error().message);
    return std::move(*opened);
  }
  static Turn send(Conversation& chat, const std::string& text, std::uint64_t seed = 7) {
    auto turn = chat.send(text, short_answer(seed));
    if (!turn) throw std::runtime_error(turn.error().message);
    return *std::move(turn);
  }
  static std::vector<float> logits(Conversation& chat) {
    const auto view = *chat.session().logits();
    return {view.begin(), view.end()};
  }
  std::vector<fs::path> snapshot_files() const {
    std::vector<fs::path> files;
    const fs::path folder = directory_.path() / "chats.db.snapshots";
    if (!fs::exists(folder)) return files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    return files;
  }

  test::TemporaryDirectory directory_;
  std::shared_ptr<const Model> model_ = test::chat_model();
  ConversationStore store_ = open_store(directory_.path());
};

TEST_F(ConversationTest, OpensAtOnceWhereItWasLeft) {
  Conversation first = create();
  send(first, "Hello");
  const Turn second = send(first, "And now?");
  Conversation again = open(first.id());
  EXPECT_EQ(again.cost().replayed, 0U);
  EXPECT_EQ(again.head(), second.answer);
  EXPECT_EQ(again.session().position(), first.session().position());
  EXPECT_EQ(logits(again), logits(first));
  EXPECT_EQ(send(again, "Go on").result.text, send(first, "Go on").result.text);
}

TEST_F(ConversationTest, ReadsAnewWithAnotherWindowAndAtOnceWhenItIsBack) {
  Conversation first = create();
  send(first, "Hello");
  send(first, "And now?");
  const auto narrow = test::chat_model(1, 2);
  Conversation there = open(first.id(), narrow);
  EXPECT_GT(there.cost().replayed, 0U);
  EXPECT_NE(logits(there), logits(first));
  EXPECT_EQ(open(first.id(), narrow).cost().replayed, 0U);
  Conversation back = open(first.id());
  EXPECT_EQ(back.cost().replayed, 0U);
  EXPECT_EQ(logits(back), logits(first));
}

TEST_F(ConversationTest, ReadsOnlyNewTokens) {
  Conversation chat = create();
  const Turn first = send(chat, "Hello");
  EXPECT_EQ(first.cost.replayed, 0U);
  EXPECT_EQ(first.cost.generated, 12U);
  EXPECT_EQ(first.cost.fed + 12, chat.session().position());
  const std::uint64_t before = chat.session().position();
  const Turn second = send(chat, "More");
  EXPECT_EQ(second.cost.replayed, 0U);
  EXPECT_EQ(before + second.cost.fed + second.cost.generated, chat.session().position());
}

TEST_F(ConversationTest, RegeneratesWithoutReadingAnything) {
  Conversation chat = create();
  const Turn first = send(chat, "Hello", 1);
  const auto other = chat.regenerate(short_answer(2));
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->cost.replayed + other->cost.fed, 0U);
  EXPECT_NE(other->result.text, first.result.text);
  const auto same = chat.regenerate(short_answer(1));
  ASSERT_TRUE(same);
  EXPECT_EQ(same->result.text, first.result.text);
  const auto branches = store_.branches(chat.id());
  ASSERT_TRUE(branches);
  ASSERT_EQ(branches->size(), 3U);
  EXPECT_EQ((*branches)[0].leaf, same->answer);
  EXPECT_TRUE((*branches)[0].current);
  EXPECT_EQ((*branches)[2].fork, first.user);
}

TEST_F(ConversationTest, EditReadsOnlyTheEditedMessage) {
  Conversation chat = create();
  send(chat, "Hello");
  const std::uint64_t before = chat.session().position();
  const Turn second = send(chat, "What is a river?");
  send(chat, "Thanks");
  const auto edited = chat.edit(second.user, "What is a brook?");
  ASSERT_TRUE(edited) << edited.error().message;
  EXPECT_EQ(edited->cost.replayed, 0U);
  EXPECT_EQ(edited->cost.fed, chat.session().position() - before);
  const auto answered = chat.answer(short_answer());
  ASSERT_TRUE(answered);
  // The same as if it had been said so at first.
  Conversation other = create("other");
  send(other, "Hello");
  EXPECT_EQ(send(other, "What is a brook?").result.text, answered->result.text);
}

TEST_F(ConversationTest, RewindsToAnyMessageExactly) {
  Conversation chat = create();
  struct Point {
    MessageId message;
    std::vector<float> logits;
    std::uint64_t position;
  };
  std::vector<Point> points;
  for (int i = 0; i < 5; ++i) {
    const Turn turn = send(chat, "Message " + std::to_string(i));
    points.push_back({turn.answer, logits(chat), chat.session().position()});
  }
  for (const int i : {2, 0, 4, 3, 1}) {
    const Point& point = points[static_cast<std::size_t>(i)];
    const auto cost = chat.rewind(point.message);
    ASSERT_TRUE(cost) << cost.error().message;
    EXPECT_EQ(cost->replayed, 0U);
    EXPECT_EQ(chat.session().position(), point.position);
    EXPECT_EQ(logits(chat), point.logits);
  }
  ASSERT_TRUE(chat.rewind(0));
  EXPECT_EQ(chat.session().position(), 0U);
  EXPECT_EQ(chat.rewind(999).error().code, ErrorCode::not_found);
}

TEST_F(ConversationTest, BranchesKeepBothWays) {
  Conversation chat = create();
  const Turn first = send(chat, "Hello");
  const Turn left = send(chat, "Left");
  ASSERT_TRUE(chat.rewind(first.answer));
  const Turn right = send(chat, "Right");
  ASSERT_TRUE(chat.rewind(left.answer));
  EXPECT_EQ(open(chat.id()).head(), left.answer);
  const auto branches = store_.branches(chat.id());
  ASSERT_EQ(branches->size(), 2U);
  for (const BranchInfo& branch : *branches) {
    EXPECT_EQ(branch.fork, first.answer);
    EXPECT_EQ(branch.messages, 4);
    EXPECT_EQ(branch.current, branch.leaf == left.answer);
    EXPECT_EQ(branch.preview, branch.leaf == left.answer ? "Left" : "Right");
  }
  EXPECT_EQ(store_.path(right.answer)->size(), 4U);
}

TEST_F(ConversationTest, SharesASystemPromptBetweenConversations) {
  const std::string system = "You speak like a lighthouse keeper.";
  Conversation first = create("one", system);
  EXPECT_GT(first.cost().fed, 0U);
  Conversation second = create("two", system);
  EXPECT_EQ(second.cost().fed + second.cost().replayed, 0U);
  EXPECT_EQ(snapshot_files().size(), 1U);
  EXPECT_EQ(send(first, "Hi").result.text, send(second, "Hi").result.text);
}

TEST_F(ConversationTest, ReadsTheSameTokensAsOneChat) {
  // A stored conversation is the chat the model was taught, message by message.
  Conversation chat = create("talk", "Be brief.");
  send(chat, "Hi");
  const ChatMessage messages[] = {{"system", "Be brief."}, {"user", "Hi"}};
  auto session = Session::create(model_);
  ASSERT_TRUE(session->prefill(*model_->encode_chat(messages)));
  const auto direct = generate(*session, short_answer());
  ASSERT_TRUE(direct);
  const auto closed = ChatContinuation::after_cut_answer;
  const ChatMessage next{"user", "More"};
  ASSERT_TRUE(session->prefill(*model_->encode_chat(std::span(&next, 1), true, closed)));
  ASSERT_TRUE(chat.add_user("More"));
  const auto expected = *session->logits();
  EXPECT_EQ(logits(chat), std::vector<float>(expected.begin(), expected.end()));
}

TEST_F(ConversationTest, ReadsAgainWhatWasDropped) {
  Conversation chat = create();
  const Turn first = send(chat, "A first message that is not short at all");
  const std::uint64_t first_end = chat.session().position();
  send(chat, "Second");
  ASSERT_TRUE(store_.set_budget(0));  // only the latest boundary is left
  EXPECT_EQ(snapshot_files().size(), 1U);
  EXPECT_EQ(open(chat.id()).cost().replayed, 0U);

  std::uint64_t shown = 0;
  const auto cost = chat.rewind(
      first.answer, {.progress = [&](std::uint64_t, std::uint64_t total) { shown = total; }});
  ASSERT_TRUE(cost) << cost.error().message;
  EXPECT_EQ(cost->replayed, first_end);
  EXPECT_EQ(shown, first_end);
  EXPECT_EQ(open(chat.id()).cost().replayed, 0U) << "what was read again is kept";
}

TEST_F(ConversationTest, ReadsFromTheNearestSnapshotThatIsLeft) {
  Conversation chat = create();
  const Turn first = send(chat, "First");
  ASSERT_TRUE(store_.pin_message(first.answer, true));
  const std::uint64_t first_end = chat.session().position();
  const Turn second = send(chat, "Second");
  const std::uint64_t second_end = chat.session().position();
  send(chat, "Third");
  ASSERT_TRUE(store_.set_budget(0));
  EXPECT_EQ(snapshot_files().size(), 2U);
  const auto cost = chat.rewind(second.answer);
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->replayed, second_end - first_end);
}

TEST_F(ConversationTest, ReadsAgainWhatIsDamagedOrGone) {
  Conversation chat = create();
  send(chat, "Hello");
  const std::uint64_t tokens = chat.session().position();
  const auto expected = logits(chat);
  for (const bool gone : {true, false}) {
    for (const fs::path& file : snapshot_files()) {
      if (gone) {
        fs::remove(file);
      } else {
        std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(3000).put('?');
      }
    }
    Conversation again = open(chat.id());
    EXPECT_EQ(again.cost().replayed, tokens);
    EXPECT_EQ(again.session().position(), tokens);
    // Read in one go, not token by token: near, not equal.
    const auto actual = logits(again);
    for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-3);
    EXPECT_EQ(open(chat.id()).cost().replayed, 0U) << "mended";
  }
}

TEST_F(ConversationTest, GoesOnWithAnotherModelAndBack) {
  Conversation chat = create("talk", "Be brief.");
  send(chat, "Hello");
  const auto other = test::chat_model(2);
  Conversation moved = open(chat.id(), other);
  EXPECT_GT(moved.cost().replayed, 0U);
  EXPECT_EQ(open(chat.id(), other).cost().replayed, 0U);
  send(moved, "And you?");
  Conversation back = open(chat.id());
  EXPECT_GT(back.cost().replayed, 0U) << "the new turn was never read by this model";
  EXPECT_LT(back.cost().replayed, back.session().position()) << "but the older ones were";
  EXPECT_EQ(store_.tree(chat.id())->size(), 5U);
}

TEST_F(ConversationTest, StoppingAReplayLosesNothing) {
  Conversation chat = create();
  const Turn first = send(chat, "Hello");
  const Turn second = send(chat, "More");
  ASSERT_TRUE(store_.set_budget(0));
  std::stop_source stop;
  stop.request_stop();
  const auto rewound = chat.rewind(first.answer, {.progress = {}, .stop = stop.get_token()});
  ASSERT_FALSE(rewound);
  EXPECT_EQ(rewound.error().code, ErrorCode::cancelled);
  EXPECT_EQ(chat.head(), second.answer);
  EXPECT_EQ(send(chat, "Still there?").cost.replayed, 0U) << "the head's snapshot was kept";
}

TEST_F(ConversationTest, KeepsAnAnswerThatWasStopped) {
  Conversation chat = create();
  std::stop_source stop;
  int pieces = 0;
  const auto turn = chat.send(
      "Hello", short_answer(),
      [&](std::string_view) {
        if (++pieces == 3) stop.request_stop();
        return true;
      },
      stop.get_token());
  ASSERT_TRUE(turn) << turn.error().message;
  EXPECT_EQ(turn->result.reason, FinishReason::cancelled);
  const auto path = store_.path(chat.head());
  ASSERT_EQ(path->size(), 2U);
  EXPECT_FALSE((*path)[1].complete);
  EXPECT_EQ((*path)[1].text, turn->result.text + turn->result.held_back);
  EXPECT_EQ(open(chat.id()).cost().replayed, 0U);
}

TEST_F(ConversationTest, StoresNothingWithOptionsThatAreRefused) {
  Conversation chat = create();
  send(chat, "Hello");
  const MessageId head = chat.head();
  const std::uint64_t position = chat.session().position();
  const GenerationOptions refused[] = {{.sampling = {.temperature = -1}},
                                       {.sampling = {.top_p = 2}},
                                       {.sampling = {.logit_bias = {{1'000'000, 1.0F}}}},
                                       {.stop = {""}},
                                       {.logprobs = 21}};
  for (const GenerationOptions& options : refused) {
    const auto sent = chat.send("A second question", options);
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, ErrorCode::invalid_argument) << sent.error().message;
    const auto again = chat.regenerate(options);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message, sent.error().message);
    EXPECT_FALSE(chat.ask("Aside", options));
    EXPECT_EQ(chat.head(), head);
    EXPECT_EQ(chat.session().position(), position);
    EXPECT_EQ(store_.tree(chat.id())->size(), 2U);
  }
  EXPECT_EQ(send(chat, "A second question").cost.replayed, 0U);
}

TEST_F(ConversationTest, StartsFromAPackWithNothingToRead) {
  const std::string documents[] = {"The tower has 199 steps.", "The lamp turns once in 12 s."};
  const auto pack = make_pack(model_, "You keep a lighthouse.", documents);
  ASSERT_TRUE(pack) << pack.error().message;
  const fs::path file = directory_.path() / "keeper.rnlpack";
  ASSERT_TRUE(pack->save(file, {StateEncoding::f32, true}));
  const auto loaded = Snapshot::load(file);
  ASSERT_TRUE(loaded) << loaded.error().message;

  auto with_pack = Conversation::create(store_, model_, {.name = "p", .pack = *loaded});
  ASSERT_TRUE(with_pack) << with_pack.error().message;
  EXPECT_EQ(with_pack->cost().fed + with_pack->cost().replayed, 0U);
  Conversation by_hand = create(
      "h", "You keep a lighthouse.\n\nThe tower has 199 steps.\n\nThe lamp turns once in 12 s.");
  EXPECT_EQ(send(*with_pack, "How many?").result.text, send(by_hand, "How many?").result.text);
  EXPECT_THAT((*store_.path(with_pack->head()))[0].text, HasSubstr("199 steps"));
}

TEST_F(ConversationTest, ReadsThePackOfAnotherModelAgain) {
  const auto pack = make_pack(test::chat_model(2), "You keep a lighthouse.", {});
  ASSERT_TRUE(pack);
  auto chat = Conversation::create(store_, model_, {.name = "p", .pack = *pack});
  ASSERT_TRUE(chat) << chat.error().message;
  EXPECT_EQ(chat->cost().replayed, chat->session().position());
  EXPECT_EQ(chat->cost().fed, 0U);
  EXPECT_FALSE(
      Conversation::create(store_, model_, {.name = "q", .pack = *chat->session().snapshot()}))
      << "a snapshot without texts is no pack";
  EXPECT_EQ(store_.list()->size(), 1U) << "nothing is left of a conversation that did not begin";
}

TEST_F(ConversationTest, GoesOnFromAPackOfItselfInAnotherLibrary) {
  Conversation chat = create();
  send(chat, "Hello");
  const Turn second = send(chat, "And now?");
  auto pack = chat.pack();
  ASSERT_TRUE(pack) << pack.error().message;
  const fs::path file = directory_.path() / "place.rnlpack";
  ASSERT_TRUE(pack->save(file, {StateEncoding::f32, true}));
  const auto loaded = Snapshot::load(file);
  ASSERT_TRUE(loaded) << loaded.error().message;

  test::TemporaryDirectory elsewhere;
  const ConversationStore other = open_store(elsewhere.path());
  auto there = Conversation::create(other, model_, {.name = "p", .pack = *loaded});
  ASSERT_TRUE(there) << there.error().message;
  EXPECT_EQ(there->cost().fed + there->cost().replayed, 0U);
  EXPECT_EQ(logits(*there), logits(chat));
  const auto here_path = store_.path(second.answer);
  const auto path = other.path(there->head());
  ASSERT_TRUE(path);
  ASSERT_EQ(path->size(), here_path->size());
  for (std::size_t i = 0; i < path->size(); ++i) {
    EXPECT_EQ((*path)[i].text, (*here_path)[i].text);
    EXPECT_EQ((*path)[i].role, (*here_path)[i].role);
  }
  EXPECT_EQ(send(*there, "Go on").result.text, send(chat, "Go on").result.text);
  // Its earlier places are places too.
  ASSERT_TRUE(there->rewind((*path)[1].id));
  send(*there, "Something else");
}

TEST_F(ConversationTest, ReadsTheMessagesOfAnotherModelsPack) {
  Conversation chat = create();
  send(chat, "Hello");
  const auto pack = chat.pack();
  ASSERT_TRUE(pack);
  const auto other = test::chat_model(2);
  auto there = Conversation::create(store_, other, {.name = "p", .pack = *pack});
  ASSERT_TRUE(there) << there.error().message;
  EXPECT_GT(there->cost().replayed, 0U);
  const auto id = store_.add_pack(*pack, "q");
  ASSERT_TRUE(id) << id.error().message;
  const auto tree = store_.tree(*id);
  ASSERT_EQ(tree->size(), 2U);
  EXPECT_FALSE((*tree)[1].has_snapshot);
  const auto opened = Conversation::open(store_, other, *id);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_GT(opened->cost().fed, 0U);
  EXPECT_FALSE(store_.add_pack(*chat.session().snapshot(), "r")) << "it has no messages";
}

TEST_F(ConversationTest, IsAskedAsideAndKeepsNothingOfIt) {
  Conversation chat = create();
  const Turn turn = send(chat, "Hello");
  const auto before = logits(chat);
  const auto aside = chat.ask("What do you still know?", short_answer(7));
  ASSERT_TRUE(aside) << aside.error().message;
  EXPECT_FALSE(aside->text.empty());
  EXPECT_EQ(logits(chat), before);
  EXPECT_EQ(chat.head(), turn.answer);
  EXPECT_EQ(store_.tree(chat.id())->size(), 2U);
  Conversation twin = open(chat.id());
  EXPECT_EQ(send(twin, "What do you still know?").result.text, aside->text);
}

TEST_F(ConversationTest, TwoHandlesOnOneConversationBranch) {
  Conversation first = create();
  const Turn shared = send(first, "Hello");
  Conversation second = open(first.id());
  send(first, "Left");
  send(second, "Right");
  const auto branches = store_.branches(first.id());
  ASSERT_EQ(branches->size(), 2U);
  EXPECT_EQ((*branches)[0].fork, shared.answer);
}

TEST_F(ConversationTest, SaysWhenAnotherHandleDeletedWhereItStands) {
  Conversation chat = create();
  const Turn first = send(chat, "Hello");
  send(chat, "More");
  ASSERT_TRUE(store_.forget_after(first.user));
  const auto turn = chat.send("Again", short_answer());
  ASSERT_FALSE(turn);
  EXPECT_EQ(turn.error().code, ErrorCode::not_found);
  ASSERT_TRUE(chat.rewind(first.user));
  EXPECT_TRUE(chat.answer(short_answer()));
}

TEST_F(ConversationTest, ImportedTextIsReadOnFirstOpening) {
  Conversation chat = create("talk", "Be brief.");
  send(chat, "Hello");
  const auto json = store_.export_json(chat.id());
  ASSERT_TRUE(json);
  const auto id = store_.import_json(*json);
  ASSERT_TRUE(id) << id.error().message;
  Conversation imported = open(*id);
  EXPECT_GT(imported.cost().fed, 0U);
  // Another chat has read the system prompt.
  EXPECT_LT(imported.cost().fed, imported.session().position());
  EXPECT_EQ(open(*id).cost().fed, 0U);
  EXPECT_TRUE(imported.send("More", short_answer()));
}

TEST_F(ConversationTest, TurnsThatATemplateLaysOutAnewAreReadAgain) {
  const test::TemporaryDirectory files;
  test::write_chat_model(files.path() / "m.gguf");
  std::ofstream(files.path() / "t.jinja")
      << "{% for m in messages %}<|im_start|>{{ m.role }}\n"
         "{{ m.content if m.role == 'user' else '(said)' }}<|im_end|>\n{% endfor %}"
         "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  auto loaded = Model::load(
      files.path() / "m.gguf",
      {.device = "cpu", .threads = 1, .chat_template = (files.path() / "t.jinja").string()});
  ASSERT_TRUE(loaded) << loaded.error().message;
  model_ = *loaded;
  Conversation chat = create();
  const Turn first = send(chat, "Hello");
  EXPECT_EQ(first.cost.relaid, 0U);
  const Turn second = send(chat, "And now?");
  EXPECT_GT(second.cost.relaid, 0U);
  EXPECT_EQ(second.cost.fed, 0U);

  // The session has read what the template writes, and nothing else.
  const std::vector<ChatMessage> said = {
      {"user", "Hello"}, {"assistant", first.result.text}, {"user", "And now?"}};
  const auto whole = model_->encode_chat(said);
  ASSERT_TRUE(whole);
  EXPECT_EQ(chat.session().position(), whole->size() + second.result.tokens.size());

  // What was stored brings another session to the same place.
  Conversation again = open(chat.id());
  EXPECT_EQ(again.cost().replayed, 0U);
  EXPECT_EQ(logits(again), logits(chat));
  for (const fs::path& file : snapshot_files()) fs::remove(file);
  Conversation replayed = open(chat.id());
  EXPECT_EQ(replayed.cost().replayed, chat.session().position());
  // Back at the first answer, the next message is laid out as the template wants it, too.
  ASSERT_TRUE(replayed.rewind(first.answer));
  EXPECT_EQ(send(replayed, "And now?").result.text, second.result.text);
}

TEST_F(ConversationTest, AThoughtOfATemplateIsNoPartOfWhatIsReadLater) {
  const test::TemporaryDirectory files;
  test::write_chat_model(files.path() / "m.gguf");
  std::ofstream(files.path() / "t.jinja") << test::kThinkingTemplate;
  auto loaded = Model::load(
      files.path() / "m.gguf",
      {.device = "cpu", .threads = 1, .chat_template = (files.path() / "t.jinja").string()});
  ASSERT_TRUE(loaded) << loaded.error().message;
  model_ = *loaded;
  Conversation chat = create();
  const auto saying = [&](const std::string& answer) {
    std::vector<TokenId> forced = *model_->encode(answer);
    forced.push_back(model_->encode("<|im_end|>", true)->front());
    GenerationOptions options{.max_tokens = forced.size()};
    options.answer = *model_->answer_form();
    options.on_logits = [forced](std::span<float> logits, std::span<const TokenId> generated) {
      std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
      logits[static_cast<std::size_t>(forced[generated.size()])] = 0;
      return true;
    };
    return options;
  };
  const auto answered = [&](const std::string& text, const std::string& answer) {
    auto turn = chat.send(text, saying(answer));
    if (!turn) throw std::runtime_error(turn.error().message);
    return *std::move(turn);
  };
  const Turn first = answered("Hello", "hm\n</think>\n\nYes.");
  EXPECT_EQ(first.result.thought, "hm");
  EXPECT_EQ(first.result.text, "Yes.");
  const Turn second = answered("And now?", "so\n</think>\n\nNo.");
  EXPECT_EQ(second.cost.relaid, 0U);

  // It is kept beside the answer, also in an export.
  EXPECT_EQ(store_.path(second.answer)->at(1).thought, "hm");
  EXPECT_EQ(store_.path(second.answer)->at(1).text, "Yes.");
  EXPECT_GE(store_.tree(chat.id())->at(3).thought_ms, 0);
  const auto copy = store_.import_json(*store_.export_json(chat.id()));
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(store_.tree(*copy)->at(3).thought, "so");
  EXPECT_THAT(*store_.export_markdown(chat.id()), testing::Not(HasSubstr("hm")));

  Session reader = *Session::create(model_);
  const std::vector<ChatMessage> said = {
      {"user", "Hello"}, {"assistant", "Yes."}, {"user", "And now?"}};
  ASSERT_TRUE(reader.prefill(*model_->encode_chat(said)));
  ASSERT_TRUE(reader.prefill(*model_->encode("No.")));
  EXPECT_EQ(chat.session().position(), reader.position());
  const std::vector<float> read(reader.logits()->begin(), reader.logits()->end());
  EXPECT_EQ(logits(chat), read);

  // Read again from the stored texts, it is the same.
  for (const fs::path& file : snapshot_files()) fs::remove(file);
  Conversation replayed = open(chat.id());
  EXPECT_EQ(replayed.cost().replayed, reader.position());
  EXPECT_EQ(logits(replayed), read);

  // Cut in its thought, an answer begins again: its thought is no part of the text then either.
  GenerationOptions cut = saying("well well well\n</think>\n\nMaybe.");
  cut.max_tokens = 3;
  const auto unfinished = replayed.send("Sure?", cut);
  ASSERT_TRUE(unfinished) << unfinished.error().message;
  EXPECT_EQ(unfinished->result.text, "");
  const auto whole = replayed.resume(saying("all right\n</think>\n\nMaybe."));
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->answer, unfinished->answer);
  EXPECT_EQ(store_.path(whole->answer)->back().text, "Maybe.");
  EXPECT_EQ(store_.path(whole->answer)->back().thought, "all right");
}

TEST_F(ConversationTest, ACallbacksExceptionPassesThroughAndTheConversationGoesOn) {
  struct Thrown {};
  Conversation chat = create();
  const Turn first = send(chat, "Hello");
  GenerationOptions options = short_answer();
  options.ignore_end = true;
  EXPECT_THROW(static_cast<void>(
                   chat.send("More", options, [](std::string_view) -> bool { throw Thrown(); })),
               Thrown);
  const MessageId asked = chat.head();
  EXPECT_EQ(store_.path(asked)->back().text, "More") << "what was read stays";
  EXPECT_THROW(
      static_cast<void>(chat.add_user(
          "Less", {.progress = [](std::uint64_t, std::uint64_t) { throw Thrown(); }, .stop = {}})),
      Thrown);
  EXPECT_EQ(chat.head(), asked);
  // As if neither had been thrown.
  ASSERT_TRUE(chat.answer(short_answer()));
  Conversation other = create("other");
  send(other, "Hello");
  send(other, "More");
  EXPECT_EQ(chat.session().position(), other.session().position());
  EXPECT_EQ(logits(chat), logits(other));
  EXPECT_EQ(store_.path(chat.head())->size(), 4U);
  EXPECT_NE(first.answer, asked);
}

}  // namespace
}  // namespace runnel
