// SPDX-License-Identifier: Apache-2.0
// Every usage example in the public headers, in the README and in docs, as extract_examples.py finds it: it compiles, and it
// runs on a tiny model.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/batch.h"
#include "runnel/chat.h"
#include "runnel/constraint.h"
#include "runnel/device.h"
#include "runnel/generation.h"
#include "runnel/model.h"
#include "runnel/result.h"
#include "runnel/sampling.h"
#include "runnel/scoring.h"
#include "runnel/session.h"
#include "runnel/snapshot.h"
#include "runnel/tools.h"
#ifdef RUNNEL_HAS_STORE
#include "runnel/conversation.h"
#include "runnel/store.h"
#endif
#include "tests/include/example_c99.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace {

// What the examples take for granted: the files they name in the current directory, a model, a session with a prompt.
class HeaderExamples : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(directory_ / "models");
    runnel::test::write_chat_model(directory_ / "model.gguf");
    std::filesystem::copy_file(directory_ / "model.gguf",
                               directory_ / "models/runnel-gsa-135m-instruct.gguf");
    std::filesystem::current_path(directory_.path());
    model_ = *runnel::Model::load("model.gguf", {.device = "cpu", .threads = 1});
    session_ = *runnel::Session::create(model_);
    const std::vector<runnel::TokenId> prompt = *model_->encode("Once");
    ASSERT_TRUE(session_->prefill(prompt));
  }
  void TearDown() override { std::filesystem::current_path(before_); }

  const std::shared_ptr<const runnel::Model>& loaded() const { return model_; }
  runnel::Session& prefilled() { return *session_; }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
  runnel::test::TemporaryDirectory directory_;
  std::shared_ptr<const runnel::Model> model_;
  std::optional<runnel::Session> session_;
};

void expect_ok(const runnel::Status& status) {
  EXPECT_TRUE(status) << (status ? std::string() : status.error().message);
}

TEST_F(HeaderExamples, Result) {
  expect_ok([]() -> runnel::Status {
#include "result_1.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, Device){
#include "device_1.inc"
}

TEST_F(HeaderExamples, Model) {
  const int status = []() {
#include "model_1.inc"
    return 0;
  }();
  EXPECT_EQ(status, 0);
}

TEST_F(HeaderExamples, Chat) {
  const auto& model = loaded();
  runnel::Session session = *runnel::Session::create(model);
  expect_ok([&]() -> runnel::Status {
#include "chat_1.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, Session) {
  const auto& model = loaded();
  expect_ok([&]() -> runnel::Status {
#include "session_1.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, Snapshot) {
  runnel::Session& session = prefilled();
  expect_ok([&]() -> runnel::Status {
#include "snapshot_1.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, Sampling) {
  runnel::Session& session = prefilled();
  expect_ok([&]() -> runnel::Status {
#include "sampling_1.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, Generation) {
  runnel::Session& session = prefilled();
  expect_ok([&]() -> runnel::Status {
#include "generation_1.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, Constraint) {
  if (!runnel::has_constraints()) GTEST_SKIP() << "this build has no RUNNEL_GRAMMAR";
  const auto& model = loaded();
  runnel::Session& session = prefilled();
  expect_ok([&]() -> runnel::Status {
#include "constraint_1.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, Tools) {
  if (!runnel::has_constraints()) GTEST_SKIP() << "this build has no RUNNEL_GRAMMAR";
  const auto& model = loaded();
  runnel::Session& session = prefilled();
  expect_ok([&]() -> runnel::Status {
#include "tools_1.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, Scoring) {
  const auto& model = loaded();
  runnel::Session& session = prefilled();
  expect_ok([&]() -> runnel::Status {
#include "scoring_1.inc"
    return {};
  }());
}

#ifdef RUNNEL_HAS_STORE
TEST_F(HeaderExamples, Conversation) {
  const auto& model = loaded();
  const runnel::ConversationStore store = *runnel::ConversationStore::open({.file = "chats.db"});
  expect_ok([&]() -> runnel::Status {
#include "conversation_1.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, Store) {
  {
    const runnel::ConversationStore store = *runnel::ConversationStore::open({.file = "chats.db"});
    runnel::Conversation chat = *runnel::Conversation::create(store, loaded(), {.name = "sea"});
    ASSERT_TRUE(chat.add_user("Who lives in the lighthouse?"));
  }
  expect_ok([]() -> runnel::Status {
#include "store_1.inc"
    return {};
  }());
  const runnel::ConversationStore store = *runnel::ConversationStore::open({.file = "chats.db"});
  EXPECT_TRUE(store.list(true)->empty());
}
#endif

TEST_F(HeaderExamples, Batch) {
  runnel::Session& session = prefilled();
  expect_ok([&]() -> runnel::Status {
#include "batch_1.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, CFromC99) { runnel_example_c99(); }

TEST_F(HeaderExamples, Readme) {
  expect_ok([]() -> runnel::Status {
#include "README_cpp_1.inc"
    return result ? back : runnel::Status(result.error());
  }());
}

TEST_F(HeaderExamples, LibraryLoadsFromMemory) {
  expect_ok([]() -> runnel::Status {
#include "library_cpp_1.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, LibraryGeneratesInSteps) {
  runnel::Session& session = prefilled();
  expect_ok([&]() -> runnel::Status {
#include "library_cpp_2.inc"
    return {};
  }());
}

TEST_F(HeaderExamples, LibraryFeedsABatch) {
  runnel::Session& session = prefilled();
  const std::uint64_t before = session.position();
  expect_ok([&]() -> runnel::Status {
#include "library_cpp_3.inc"
    return {};
  }());
  EXPECT_EQ(session.position(), before + 3);
}

TEST_F(HeaderExamples, LibraryStops) {
  runnel::Session& session = prefilled();
  expect_ok([&]() -> runnel::Status {
#include "library_cpp_4.inc"
    return {};
  }());
}

// What the examples in C take for granted.
class CExamples : public HeaderExamples {
 protected:
  void SetUp() override {
    HeaderExamples::SetUp();
    ASSERT_EQ(runnel_model_load("model.gguf", nullptr, &c_model_, nullptr), RUNNEL_OK);
    ASSERT_EQ(runnel_session_create(c_model_, &c_session_, nullptr), RUNNEL_OK);
    ASSERT_EQ(runnel_session_prefill_text(c_session_, "Once", RUNNEL_NUL, false, nullptr),
              RUNNEL_OK);
  }
  void TearDown() override {
    runnel_session_free(c_session_);
    runnel_model_free(c_model_);
    HeaderExamples::TearDown();
  }
  runnel_model* model() { return c_model_; }
  runnel_session* session() { return c_session_; }

 private:
  runnel_model* c_model_ = nullptr;
  runnel_session* c_session_ = nullptr;
};

TEST_F(CExamples, Readme) {
  const std::uint64_t before = runnel_session_position(session());
  runnel_example_readme(session());
  EXPECT_GT(runnel_session_position(session()), before);
}

TEST_F(CExamples, LibraryLoadsFromADescriptor) { runnel_example_loading(); }

TEST_F(CExamples, LibraryGeneratesInSteps) {
  const std::uint64_t before = runnel_session_position(session());
  runnel_example_steps(session());
  EXPECT_GT(runnel_session_position(session()), before);
}

TEST_F(CExamples, ToolsAreToldToTheModel) { runnel_example_tools(model()); }

#ifdef RUNNEL_HAS_STORE
TEST_F(CExamples, Store) {
  runnel_example_store(model());
  const auto store = runnel::ConversationStore::open({.file = "chats.db"});
  ASSERT_TRUE(store);
  const auto kept = store->list();
  ASSERT_TRUE(kept);
  ASSERT_EQ(kept->size(), 1U);
  EXPECT_EQ((*kept)[0].name, "plans");
  EXPECT_EQ((*kept)[0].messages, 2);
}
#endif

}  // namespace
