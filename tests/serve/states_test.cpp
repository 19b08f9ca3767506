// SPDX-License-Identifier: Apache-2.0
// Kept states never go back unasked, and deleted is deleted.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "app/serve/state_folder.h"
#include "tests/serve/fixture.h"
#include "tests/support/chat_model.h"
#include "tests/support/small_disk.h"

namespace runnel {
namespace {

using test::Json;
using test::Reply;

class ServeStates : public test::Serving {
 protected:
  Reply say(const std::string& id, const std::string& words, const Json& more = {}) {
    Json body = {{"conversation", id}};
    if (!more.is_null()) body.update(more);
    return chat(words, body);
  }
  static std::uint64_t generation(const Reply& reply) {
    return reply.body.at("conversation").at("generation").get<std::uint64_t>();
  }
  static std::uint64_t position(const Reply& reply) {
    return reply.body.at("conversation").at("position").get<std::uint64_t>();
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (entry.path().filename() != ".lock") names.push_back(entry.path().filename().string());
    return names;
  }
  void SetUp() override { std::filesystem::create_directory(folder_); }

  const std::filesystem::path folder_ = directory_.path() / "states";
};

TEST_F(ServeStates, GenerationsGrowAndAreTold) {
  start({.states = folder_});
  const Reply first = say("c", "one");
  ASSERT_EQ(first.status, 200) << first.raw;
  EXPECT_EQ(first.header("ETag"), '"' + std::to_string(generation(first)) + '"');
  const Reply second = say("c", "two");
  EXPECT_GT(generation(second), generation(first));
  ASSERT_EQ(post("/v1/states/delete", {{"conversation", "c"}}).status, 200);
  start({.states = folder_});
  EXPECT_GT(generation(say("c", "three")), generation(second)) << "also over deletion and restart";
}

TEST_F(ServeStates, AnotherGenerationThanExpectedIsRefused) {
  start({.states = folder_});
  const std::uint64_t seen = generation(say("c", "one"));
  const Json expecting = {{"conversation", {{"id", "c"}, {"expect", seen}}}};
  EXPECT_EQ(chat("two", expecting).status, 200);
  const Reply behind = chat("three", expecting);
  EXPECT_EQ(behind.status, 412) << behind.raw;
  EXPECT_EQ(behind.body.at("error").at("code"), "generation_differs");
  EXPECT_GT(behind.body.at("error").at("conversation").at("generation"), seen);
  const Json messages = {{{"role", "user"}, {"content", "three"}}};
  EXPECT_EQ(post("/v1/chat/completions", {{"messages", messages}, {"conversation", "c"}},
                 {{"If-Match", '"' + std::to_string(seen) + '"'}})
                .status,
            412);
  EXPECT_EQ(chat("four", {{"conversation", {{"id", "c"}, {"expect", 0}}}}).status, 412)
      << "it is not new";
  EXPECT_EQ(chat("four", {{"conversation", {{"id", "d"}, {"expect", seen}}}}).status, 412)
      << "it is not there";
  EXPECT_EQ(chat("four", {{"conversation", {{"id", "d"}, {"expect", 0}}}}).status, 200);
}

TEST_F(ServeStates, AnotherPositionThanExpectedIsRefused) {
  start();
  const std::uint64_t seen = position(say("c", "one"));
  const auto at = [](std::uint64_t place) {
    return Json{{"conversation", {{"id", "c"}, {"position", place}}}};
  };
  EXPECT_EQ(chat("two", at(seen)).status, 200);
  const Reply behind = chat("three", at(seen));
  EXPECT_EQ(behind.status, 412) << behind.raw;
  EXPECT_GT(behind.body.at("error").at("conversation").at("position"), seen);
  EXPECT_EQ(chat("three", at(0)).status, 412) << "it is not new";
}

TEST_F(ServeStates, AConversationThatIsGoneIsSaidToBegin) {
  start();  // without a folder: a restart forgets
  const Reply first = say("c", "one"), second = say("c", "two");
  EXPECT_EQ(first.body.at("conversation").at("begun"), true);
  EXPECT_EQ(second.body.at("conversation").at("begun"), false);
  start();
  for (const Json& seen : {Json{{"id", "c"}, {"expect", generation(second)}},
                           Json{{"id", "c"}, {"position", position(second)}}}) {
    const Reply refused = chat("three", {{"conversation", seen}});
    EXPECT_EQ(refused.status, 412) << refused.raw;
    EXPECT_EQ(refused.body.at("error").at("conversation").at("position"), 0);
    EXPECT_EQ(refused.header("ETag"), "\"0\"");
  }
  const Reply streamed = chat("three", {{"conversation", "c"}, {"stream", true}});
  ASSERT_EQ(streamed.status, 200);
  const std::vector<Json> events = test::events(streamed.raw);
  EXPECT_EQ(events.front().at("conversation").at("begun"), true) << "before any text";
  EXPECT_EQ(events.back().at("conversation").at("begun"), true);
}

TEST_F(ServeStates, EveryAnswerOutlivesTheServer) {
  start({.states = folder_});
  say("c", "one");
  const Reply last = say("c", "two");
  start({.states = folder_});
  const Reply next = say("c", "three");
  EXPECT_EQ(next.body.at("conversation").at("cached_tokens"), position(last));
}

TEST_F(ServeStates, AnEvictedStateIsWrittenFirst) {
  const std::uint64_t each = model()->info().state_bytes + 264 * sizeof(float) + 32'768;
  start({.parallel = 1, .state_memory = each * 3, .states = folder_, .autosave = false});
  ASSERT_EQ(say("c", "one").status, 200);
  ASSERT_EQ(post("/v1/states/save", {{"conversation", "c"}}).status, 200);
  const Reply third = say("c", "two");
  for (const char* other : {"d", "e", "f"}) ASSERT_EQ(say(other, "x").status, 200);
  const Reply next = say("c", "three");
  ASSERT_EQ(next.status, 200) << next.raw;
  EXPECT_EQ(next.body.at("conversation").at("cached_tokens"), position(third))
      << "not from what was saved before";
}

TEST_F(ServeStates, SavingAnEvictedOneSaysWhereItsFileStandsAndEvictsNoOther) {
  const std::uint64_t each = model()->info().state_bytes + 264 * sizeof(float) + 32'768;
  start({.parallel = 1, .state_memory = each * 3, .states = folder_});
  const Reply first = say("c", "one");
  for (const char* other : {"d", "e", "f"}) ASSERT_EQ(say(other, "x").status, 200);
  const Json before = get("/health").body;
  const Reply saved = post("/v1/states/save", {{"conversation", "c"}});
  ASSERT_EQ(saved.status, 200) << saved.raw;
  EXPECT_EQ(saved.body.at("generation"), generation(first));
  EXPECT_EQ(saved.body.at("position"), position(first));
  const Json after = get("/health").body;
  EXPECT_EQ(after.at("idle_states"), before.at("idle_states"));
  EXPECT_EQ(after.at("dropped_states"), before.at("dropped_states"));
}

TEST_F(ServeStates, FilesAreForTheirOwnerAlone) {
  start({.states = folder_});
  say("c", "one");
  ASSERT_EQ(files(), std::vector<std::string>{"c.state"});
  EXPECT_EQ(
      std::filesystem::status(folder_ / "c.state").permissions() & std::filesystem::perms::mask,
      std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ServeStates, WhatAKilledServerLeftIsSwept) {
  std::ofstream(folder_ / ".runnel-0123456789abcdef.tmp") << "half a state";
  start({.states = folder_});
  EXPECT_TRUE(files().empty());
}

TEST_F(ServeStates, AFolderHasOneOwner) {
  start({.states = folder_});
  const auto second = serve::Server::create(model(), {.port = 0, .states = folder_});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("another server"), std::string::npos);
}

TEST_F(ServeStates, ADamagedFileIsNotBelieved) {
  start({.states = folder_});
  say("c", "one");
  stop();
  std::filesystem::resize_file(folder_ / "c.state", 100);
  start({.states = folder_});
  const Reply next = say("c", "two");
  EXPECT_EQ(next.status, 200);
  EXPECT_EQ(next.body.at("conversation").at("cached_tokens"), 0);
}

TEST_F(ServeStates, ADamagedFileIsPutAsideAndItIsSaid) {
  start({.states = folder_});
  say("c", "one");
  stop();
  std::filesystem::resize_file(folder_ / "c.state", 100);
  const std::string damaged = test::read_text(folder_ / "c.state");
  std::vector<std::string> notes;
  start({.states = folder_, .note = [&](const std::string& note) { notes.push_back(note); }});
  EXPECT_EQ(say("c", "two").body.at("conversation").at("begun"), true);
  EXPECT_EQ(say("c", "three").status, 200);
  stop();
  EXPECT_EQ(test::read_text(folder_ / "c.state.damaged"), damaged);
  EXPECT_EQ(notes, std::vector<std::string>{
                       "conversation c begins anew: c.state: is cut off; its file is put aside as "
                       "c.state.damaged"});
}

TEST_F(ServeStates, WhatIsPutAsideIsBounded) {
  constexpr int kDamaged = static_cast<int>(serve::StateFolder::kMostAside) + 4;
  std::ofstream(folder_ / "keep.damaged") << "somebody else's";
  const auto now = std::filesystem::file_time_type::clock::now();
  for (int i = 0; i < kDamaged; ++i) {
    const std::filesystem::path file = folder_ / ("c" + std::to_string(i) + ".state");
    std::ofstream(file) << "damaged";
    std::filesystem::last_write_time(file, now - std::chrono::hours(i));
  }
  start({.states = folder_});
  for (int i = 0; i < kDamaged; ++i) say("c" + std::to_string(i), "one");
  const std::vector<std::string> all = files();
  EXPECT_EQ(
      static_cast<std::size_t>(std::count_if(
          all.begin(), all.end(), [](auto& name) { return name.ends_with(".state.damaged"); })),
      serve::StateFolder::kMostAside);
  for (int i = 0; i < kDamaged; ++i) {
    EXPECT_EQ(
        std::filesystem::exists(folder_ / serve::StateFolder::name_aside("c" + std::to_string(i))),
        i >= 4)
        << i << ": those stay that were put aside last, whenever they were written";
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "keep.damaged"));
}

TEST_F(ServeStates, DeletingAConversationDeletesWhatWasPutAside) {
  std::ofstream(folder_ / "c.state") << "damaged";
  start({.states = folder_});
  say("c", "one");
  ASSERT_EQ(files().size(), 2U);
  EXPECT_EQ(post("/v1/states/delete", {{"conversation", "c"}}).status, 200);
  EXPECT_TRUE(files().empty());
}

TEST_F(ServeStates, TheFileOfAnotherModelIsLeftAsItIs) {
  const std::shared_ptr<const Model> first = model();
  start({.states = folder_});
  const Reply one = say("c", "one");
  ASSERT_EQ(say("d", "one").status, 200);
  const std::string before = test::read_text(folder_ / "c.state");
  test::write_chat_model(directory_ / "other.gguf", {}, 5);
  use_model(*Model::load(directory_ / "other.gguf", {.device = "cpu", .threads = 1}));
  start({.states = folder_});
  ASSERT_EQ(say("e", "one").status, 200);
  for (const Reply& refused :
       {say("c", "two"), chat("two", {{"conversation", {{"id", "c"}, {"expect", 0}}}}),
        post("/v1/states/save", {{"conversation", "c"}}),
        post("/v1/states/fork", {{"conversation", "c"}, {"into", "f"}}),
        post("/v1/states/fork", {{"conversation", "e"}, {"into", "c"}})}) {
    EXPECT_EQ(refused.status, 409) << refused.raw;
    EXPECT_EQ(refused.body.at("error").at("code"), "conversation_does_not_fit");
    const std::string message = refused.body.at("error").at("message");
    EXPECT_NE(message.find("conversation c does not fit this server"), std::string::npos);
    EXPECT_NE(message.find("fingerprint"), std::string::npos) << message;
  }
  EXPECT_EQ(test::read_text(folder_ / "c.state"), before);
  EXPECT_EQ(post("/v1/states/delete", {{"conversation", "d"}}).status, 200) << "if it is asked for";
  EXPECT_EQ(say("d", "one").status, 200);
  use_model(first);
  start({.states = folder_});
  const Reply two = say("c", "two");
  ASSERT_EQ(two.status, 200) << two.raw;
  EXPECT_EQ(two.body.at("conversation").at("cached_tokens"), position(one));
}

TEST_F(ServeStates, AFileThatCannotBeReadIsNotWrittenOver) {
  std::filesystem::create_directory(folder_ / "c.state");
  start({.states = folder_});
  const Reply refused = say("c", "one");
  EXPECT_EQ(refused.status, 500) << refused.raw;
  EXPECT_NE(refused.raw.find("is a directory"), std::string::npos) << refused.raw;
  EXPECT_EQ(say("d", "one").status, 200);
}

// What a killed server leaves: the folder as it is while another one still runs.
TEST_F(ServeStates, AKilledServerThatDidNotSaveIsNotGoneBackBehind) {
  const std::filesystem::path killed = directory_.path() / "killed";
  start({.states = folder_, .autosave = false});
  const Reply saved = say("c", "one");
  ASSERT_EQ(post("/v1/states/save", {{"conversation", "c"}}).status, 200);
  ASSERT_EQ(say("c", "two").status, 200);
  ASSERT_EQ(say("never-saved", "one").status, 200);
  ASSERT_EQ(say("saved", "one").status, 200);
  ASSERT_EQ(post("/v1/states/save", {{"conversation", "saved"}}).status, 200);
  ASSERT_EQ(say("deleted", "one").status, 200);
  ASSERT_EQ(post("/v1/states/delete", {{"conversation", "deleted"}}).status, 200);
  std::filesystem::copy(folder_, killed);
  start({.states = killed, .autosave = false});
  const Reply behind = say("c", "three");
  EXPECT_EQ(behind.status, 410) << behind.raw;
  EXPECT_EQ(behind.body.at("error").at("conversation").at("generation"), generation(saved));
  EXPECT_EQ(behind.body.at("error").at("conversation").at("position"), position(saved));
  EXPECT_EQ(say("never-saved", "two").status, 410);
  EXPECT_EQ(say("saved", "two").status, 200);
  EXPECT_EQ(say("deleted", "two").status, 200);
  const Json older = {{"conversation", {{"id", "c"}, {"expect", generation(saved)}}}};
  EXPECT_EQ(chat("three", older).status, 200) << "who asks for the older one gets it";
  EXPECT_EQ(say("c", "four").status, 200);
}

TEST_F(ServeStates, AFullDiskIsSaidAndStillDeletes) {
  const test::SmallDisk disk(1 << 20);
  RUNNEL_NEEDS_DISK(disk);
  start({.states = disk.path()});
  const Reply first = say("c", "one");
  ASSERT_EQ(first.status, 200) << first.raw;
  disk.fill_all_but(0);
  const Reply full = say("c", "two");
  EXPECT_EQ(full.status, 507) << full.raw;
  const std::string message = full.body.at("error").at("message");
  EXPECT_NE(message.find(disk.path().native()), std::string::npos) << message;
  EXPECT_NE(message.find("No space left on device"), std::string::npos) << message;
  EXPECT_EQ(full.body.at("error").at("conversation").at("generation"), generation(first));
  EXPECT_EQ(chat("Hello").status, 200) << "who keeps nothing is answered";
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(post("/v1/states/delete", {{"conversation", "c"}}).status, 200);
  EXPECT_FALSE(std::filesystem::exists(disk.path() / "c.state"));
  stop();
  start({.states = disk.path()});
  EXPECT_EQ(chat("Hello").status, 200) << "it starts on a full disk, too";
  stop();
}

TEST_F(ServeStates, AFolderForReadingOnlyIsReadOnly) {
  const test::SmallDisk disk(1 << 20);
  RUNNEL_NEEDS_DISK(disk);
  start({.states = disk.path()});
  const Reply first = say("c", "one");
  stop();
  ASSERT_TRUE(disk.make_read_only());
  start({.states = disk.path(), .autosave = false});
  const Reply second = say("c", "two");
  ASSERT_EQ(second.status, 200) << second.raw;
  EXPECT_EQ(second.body.at("conversation").at("cached_tokens"), position(first));
  const Reply saved = post("/v1/states/save", {{"conversation", "c"}});
  EXPECT_EQ(saved.status, 507);
  EXPECT_NE(saved.raw.find("Read-only file system"), std::string::npos) << saved.raw;
  const Reply deleted = post("/v1/states/delete", {{"conversation", "c"}});
  EXPECT_EQ(deleted.status, 500);
  EXPECT_NE(deleted.raw.find("Read-only file system"), std::string::npos) << deleted.raw;
  ASSERT_TRUE(disk.make_read_only(false)) << "so that it can end well";
  stop();
}

TEST_F(ServeStates, ADamagedFileInAFolderForReadingOnlyStaysAndItsConversationBeginsAnew) {
  const test::SmallDisk disk(1 << 20);
  RUNNEL_NEEDS_DISK(disk);
  std::ofstream(disk.path() / "c.state") << "damaged";
  ASSERT_TRUE(disk.make_read_only());
  std::vector<std::string> notes;
  start({.states = disk.path(), .autosave = false, .note = [&](const std::string& note) {
           notes.push_back(note);
         }});
  const Reply first = say("c", "one");
  ASSERT_EQ(first.status, 200) << first.raw;
  EXPECT_EQ(first.body.at("conversation").at("begun"), true);
  EXPECT_EQ(say("c", "two").body.at("conversation").at("cached_tokens"), position(first));
  EXPECT_EQ(test::read_text(disk.path() / "c.state"), "damaged");
  ASSERT_TRUE(disk.make_read_only(false)) << "so that it can end well";
  stop();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("; its file stays, the folder is for reading only"), std::string::npos)
      << notes[0];
}

}  // namespace
}  // namespace runnel
