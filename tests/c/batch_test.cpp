// SPDX-License-Identifier: Apache-2.0
// Steps, batches, feeding and loading in the C API against the C++ one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "runnel/generation.h"
#include "runnel/runnel.h"
#include "runtime/c/support.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using ::testing::HasSubstr;

const std::vector<TokenId> kPrompt = {3, 14, 15, 92, 65};

class CBatch : public ::testing::Test {
 protected:
  void SetUp() override {
    test::write_chat_model(file_);
    runnel_model_options options;
    RUNNEL_INIT(runnel_model_options, options);
    options.device = "cpu";
    ASSERT_EQ(runnel_model_load(file_.c_str(), &options, &model_, &error_), RUNNEL_OK)
        << error_.message;
    session_ = session();
  }
  void TearDown() override {
    for (runnel_session* one : sessions_) runnel_session_free(one);
    runnel_model_free(model_);
  }
  runnel_session* session() {
    runnel_session* made = nullptr;
    EXPECT_EQ(runnel_session_create(model_, &made, &error_), RUNNEL_OK) << error_.message;
    sessions_.push_back(made);
    return made;
  }
  runnel_status feed(runnel_session* to, const std::vector<TokenId>& tokens) {
    return runnel_session_feed(to, tokens.data(), tokens.size(), nullptr, nullptr, nullptr,
                               &error_);
  }
  static std::vector<std::byte> memory(const runnel_session* of) {
    return *of->session.snapshot()->to_bytes();
  }

  test::TemporaryDirectory folder_;
  std::string file_ = (folder_ / "model.gguf").string();
  runnel_error error_{};
  runnel_model* model_ = nullptr;
  runnel_session* session_ = nullptr;
  std::vector<runnel_session*> sessions_;
};

TEST_F(CBatch, StepsAreRunnelGenerate) {
  runnel_session* other = session();
  ASSERT_EQ(feed(session_, kPrompt), RUNNEL_OK);
  ASSERT_EQ(feed(other, kPrompt), RUNNEL_OK);
  runnel_generation_options options;
  RUNNEL_INIT(runnel_generation_options, options);
  options.max_tokens = 20;
  options.temperature = 1.2F;
  options.seed = 4;
  std::string told;
  options.user = &told;
  options.on_text = [](const char* text, size_t bytes, void* user) {
    static_cast<std::string*>(user)->append(text, bytes);
    return true;
  };
  ASSERT_EQ(runnel_generate(other, &options, nullptr, &error_), RUNNEL_OK) << error_.message;
  const std::string expected = std::exchange(told, "");

  runnel_generation* generation = nullptr;
  ASSERT_EQ(runnel_generation_create(session_, &options, &generation, &error_), RUNNEL_OK);
  std::string pieces;
  std::vector<runnel_token> tokens;
  for (bool over = false; !over;) {
    runnel_token token = -1;
    ASSERT_EQ(runnel_generation_step(generation, &token, &over, &error_), RUNNEL_OK);
    if (over) break;
    tokens.push_back(token);
    size_t bytes = 0;
    const char* text = runnel_generation_text(generation, &bytes);
    pieces.append(text, bytes);
  }
  runnel_generation_result result;
  RUNNEL_INIT(runnel_generation_result, result);
  std::vector<runnel_token> given(20);
  result.tokens = given.data();
  result.token_capacity = given.size();
  ASSERT_EQ(runnel_generation_finish(generation, &result, &error_), RUNNEL_OK) << error_.message;
  given.resize(result.token_count);
  EXPECT_EQ(given, tokens);
  EXPECT_EQ(told, expected);
  EXPECT_EQ(pieces, expected);
  EXPECT_EQ(memory(session_), memory(other));
  EXPECT_EQ(runnel_generation_finish(generation, nullptr, &error_), RUNNEL_INVALID_ARGUMENT);
  runnel_generation_free(generation);
  runnel_generation_free(nullptr);
}

TEST_F(CBatch, FeedsEachAsAloneAndNamesWhatItCannotFeed) {
  runnel_batch* batch = nullptr;
  ASSERT_EQ(runnel_batch_create(model_, &batch, &error_), RUNNEL_OK);
  runnel_session* other = session();
  runnel_session* alone = session();
  const std::vector<TokenId> wrong = {3, 100'000};
  const runnel_feed feeds[] = {{session_, kPrompt.data(), kPrompt.size(), false},
                               {other, wrong.data(), wrong.size(), false},
                               {nullptr, kPrompt.data(), kPrompt.size(), false}};
  runnel_feed_result results[3];
  ASSERT_EQ(runnel_batch_run(batch, feeds, 3, nullptr, results, &error_), RUNNEL_OK)
      << error_.message;
  ASSERT_EQ(feed(alone, kPrompt), RUNNEL_OK);
  EXPECT_EQ(results[0].error.status, RUNNEL_OK);
  EXPECT_EQ(results[0].consumed, kPrompt.size());
  EXPECT_EQ(memory(session_), memory(alone));
  EXPECT_EQ(results[1].error.status, RUNNEL_INVALID_ARGUMENT);
  EXPECT_THAT(results[1].error.message, HasSubstr("feed 1: token 1: is 100000"));
  EXPECT_EQ(runnel_session_position(other), 0U);
  EXPECT_EQ(results[2].error.status, RUNNEL_INVALID_ARGUMENT);
  EXPECT_EQ(runnel_batch_run(batch, feeds, 3, nullptr, nullptr, &error_), RUNNEL_INVALID_ARGUMENT);
  runnel_batch_free(batch);
}

TEST_F(CBatch, FeedingReportsItsProgress) {
  std::vector<TokenId> text(700, 5);
  std::vector<std::uint64_t> seen;
  runnel_feed_options options;
  RUNNEL_INIT(runnel_feed_options, options);
  options.user = &seen;
  options.on_progress = [](uint64_t done, uint64_t total, void* user) {
    EXPECT_EQ(total, 700U);
    static_cast<std::vector<std::uint64_t>*>(user)->push_back(done);
  };
  uint64_t consumed = 0;
  bool stopped = true;
  ASSERT_EQ(runnel_session_feed(session_, text.data(), text.size(), &options, &consumed, &stopped,
                                &error_),
            RUNNEL_OK);
  EXPECT_EQ(consumed, 700U);
  EXPECT_FALSE(stopped);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back(), 700U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  const float* logits = nullptr;
  size_t count = 0;
  ASSERT_EQ(runnel_session_get_logits(session_, &logits, &count, &error_), RUNNEL_OK);
  EXPECT_EQ(count, session_->session.logits()->size());
  EXPECT_EQ(logits, runnel_session_logits(session_, &count));
}

TEST_F(CBatch, LoadsFromMemoryAndFromADescriptor) {
  std::ifstream in(file_, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  runnel_model_options options;
  RUNNEL_INIT(runnel_model_options, options);
  options.device = "cpu";
  runnel_model *from_bytes = nullptr, *from_descriptor = nullptr;
  ASSERT_EQ(runnel_model_load_bytes(bytes.data(), bytes.size(), &options, &from_bytes, &error_),
            RUNNEL_OK)
      << error_.message;
  bytes.assign(bytes.size(), '\xff');
  const int descriptor = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(runnel_model_load_descriptor(descriptor, 0, 0, &options, &from_descriptor, &error_),
            RUNNEL_OK)
      << error_.message;
  ::close(descriptor);
  for (runnel_model* one : {from_bytes, from_descriptor}) {
    EXPECT_EQ(one->model->info().fingerprint, model_->model->info().fingerprint);
    runnel_model_free(one);
  }
  EXPECT_EQ(runnel_model_load_bytes(nullptr, 3, &options, &from_bytes, &error_),
            RUNNEL_INVALID_ARGUMENT);
  EXPECT_EQ(runnel_model_load_descriptor(-1, 0, 0, &options, &from_bytes, &error_), RUNNEL_IO);
}

TEST_F(CBatch, AModelSaysWhatItIsAndWhatItsTokensAre) {
  runnel_model_info info;
  RUNNEL_INIT(runnel_model_info, info);
  ASSERT_EQ(runnel_model_get_info(model_, &info, &error_), RUNNEL_OK);
  EXPECT_STREQ(info.architecture, "gsa");
  EXPECT_EQ(info.chat_style, RUNNEL_CHAT_STYLE_CHATML);
  EXPECT_STREQ(info.chat_reason, "");
  EXPECT_STREQ(info.step_program, model_->model->info().step_program.c_str());
  std::vector<runnel_token> ends(8);
  size_t count = 0;
  ASSERT_EQ(runnel_model_end_tokens(model_, ends.data(), ends.size(), &count, &error_), RUNNEL_OK);
  ASSERT_GT(count, 0U);
  ends.resize(count);
  EXPECT_EQ(ends, model_->model->end_tokens());
  int kinds[8] = {};
  for (runnel_token token = 0; token < info.vocab_size; ++token) {
    runnel_token_info one;
    RUNNEL_INIT(runnel_token_info, one);
    ASSERT_EQ(runnel_model_get_token(model_, token, &one, &error_), RUNNEL_OK) << error_.message;
    ++kinds[one.kind];
    EXPECT_EQ(one.is_end, runnel_model_is_end(model_, token));
    if (one.kind == RUNNEL_TOKEN_UNUSED) continue;
    const auto bytes = model_->model->decode(std::span(&token, 1), true);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(std::string(one.bytes, one.byte_count), *bytes);
  }
  EXPECT_GE(kinds[RUNNEL_TOKEN_NORMAL], 256);
  EXPECT_GT(kinds[RUNNEL_TOKEN_CONTROL], 0);
  runnel_token_info one;
  RUNNEL_INIT(runnel_token_info, one);
  EXPECT_EQ(runnel_model_get_token(model_, info.vocab_size, &one, &error_),
            RUNNEL_INVALID_ARGUMENT);
}

TEST_F(CBatch, TheChatFormatCanBeChosenAndSaysWhyThereIsNone) {
  runnel_model_options options;
  RUNNEL_INIT(runnel_model_options, options);
  options.device = "cpu";
  options.chat_template = "plain";
  options.cache_directory = folder_.path().c_str();
  options.step_program = "no such program";
  runnel_model* model = nullptr;
  EXPECT_EQ(runnel_model_load(file_.c_str(), &options, &model, &error_), RUNNEL_NOT_FOUND)
      << error_.message;
  options.step_program = nullptr;
  ASSERT_EQ(runnel_model_load(file_.c_str(), &options, &model, &error_), RUNNEL_OK)
      << error_.message;
  runnel_model_info info;
  RUNNEL_INIT(runnel_model_info, info);
  ASSERT_EQ(runnel_model_get_info(model, &info, &error_), RUNNEL_OK);
  EXPECT_EQ(info.chat_style, RUNNEL_CHAT_STYLE_PLAIN);
  const runnel_chat_message hello = {"user", "Hello", RUNNEL_NUL};
  char text[128];
  size_t count = 0;
  ASSERT_EQ(runnel_model_chat_text(model, &hello, 1, true, text, sizeof(text), &count, &error_),
            RUNNEL_OK);
  EXPECT_THAT(std::string(text, count), HasSubstr("User: Hello"));
  runnel_model_free(model);
}

// A template that drops what an earlier answer said: the answer, and what follows it, is to be read again.
TEST_F(CBatch, TurnsThatATemplateLaysOutAnewAreSaidAndReadAgain) {
  const std::filesystem::path source = folder_.path() / "t.jinja";
  std::ofstream(source) << "{% for m in messages %}<{{ m.role }}>"
                           "{{ m.content if m.role == 'user' else '(said)' }}"
                           "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  const std::string named = source.string();
  runnel_model_options options;
  RUNNEL_INIT(runnel_model_options, options);
  options.device = "cpu";
  options.chat_template = named.c_str();
  runnel_model* model = nullptr;
  ASSERT_EQ(runnel_model_load(file_.c_str(), &options, &model, &error_), RUNNEL_OK)
      << error_.message;
  const runnel_chat_message talk[] = {{"user", "Hello", RUNNEL_NUL},
                                      {"assistant", "Good day", RUNNEL_NUL},
                                      {"user", "And now?", RUNNEL_NUL}};
  std::array<runnel_token, 64> tokens{};
  size_t kept = 0, count = 0;
  ASSERT_EQ(runnel_model_read_chat(model, talk, 3, 2, true, &kept, tokens.data(), tokens.size(),
                                   &count, &error_),
            RUNNEL_OK)
      << error_.message;
  EXPECT_EQ(kept, 1U) << "the first message stays as it was read, its answer does not";
  const auto text = model->model->decode(std::span(tokens.data(), count), true);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "(said)<user>And now?<assistant>");
  runnel_model_free(model);
}

}  // namespace
}  // namespace runnel
