// SPDX-License-Identifier: Apache-2.0
// Constraints through the C API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runnel/runnel.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class CConstraint : public ::testing::Test {
 protected:
  CConstraint() {
    const TemporaryDirectory folder;
    write_chat_model(folder / "m.gguf");
    runnel_model_options options;
    RUNNEL_INIT(runnel_model_options, options);
    options.device = "cpu";
    options.threads = 1;
    EXPECT_EQ(runnel_model_load((folder / "m.gguf").c_str(), &options, &model_, &error_), RUNNEL_OK)
        << error_.message;
    EXPECT_EQ(runnel_session_create(model_, &session_, &error_), RUNNEL_OK) << error_.message;
    const runnel_token prompt[] = {72, 105};
    EXPECT_EQ(runnel_session_prefill(session_, prompt, 2, nullptr, nullptr, &error_), RUNNEL_OK)
        << error_.message;
  }
  ~CConstraint() override {
    runnel_session_free(session_);
    runnel_model_free(model_);
  }
  runnel_constraint* make(int32_t kind, const std::string& text) {
    runnel_constraint* made = nullptr;
    EXPECT_EQ(
        runnel_constraint_create(model_, kind, text.data(), text.size(), true, &made, &error_),
        RUNNEL_OK)
        << error_.message;
    return made;
  }

  /// What the session says under a constraint.
  std::string generated(runnel_constraint* constraint) {
    runnel_generation_options options;
    RUNNEL_INIT(runnel_generation_options, options);
    options.constraint = constraint;
    std::string text;
    options.user = &text;
    options.on_text = [](const char* piece, size_t bytes, void* user) {
      static_cast<std::string*>(user)->append(piece, bytes);
      return true;
    };
    EXPECT_EQ(runnel_generate(session_, &options, nullptr, &error_), RUNNEL_OK) << error_.message;
    return text;
  }

  runnel_error error_{};
  runnel_model* model_ = nullptr;
  runnel_session* session_ = nullptr;
};

TEST_F(CConstraint, ShapesWhatIsGenerated) {
  runnel_constraint* const digits = make(RUNNEL_CONSTRAINT_REGEX, "[0-9]{4}");
  const std::string text = generated(digits);
  EXPECT_THAT(text, MatchesRegex("[0-9]{4}"));
  runnel_constraint_free(digits);
}

TEST_F(CConstraint, TellsForcedTokens) {
  runnel_constraint* const word = make(RUNNEL_CONSTRAINT_CHOICE, R"(["abc"])");
  runnel_token tokens[8];
  size_t count = 0;
  ASSERT_EQ(runnel_constraint_forced(word, nullptr, 0, tokens, 8, &count, &error_), RUNNEL_OK)
      << error_.message;
  EXPECT_EQ(count, 3U);  // the end is one of several tokens
  runnel_constraint_free(word);
}

// What the model says when it must call `roll`.
TEST_F(CConstraint, KeepsAnswersToToolsAndReadsTheirCalls) {
  const std::string json =
      R"([{"name": "roll", "parameters": {"type": "object", "properties": {"sides": {"enum": [6, 20]}},
                                          "required": ["sides"]}}, {"name": "now"}])";
  runnel_tools* tools = nullptr;
  ASSERT_EQ(runnel_tools_read(json.data(), json.size(), &tools, &error_), RUNNEL_OK)
      << error_.message;
  ASSERT_EQ(runnel_model_tool_style(model_), RUNNEL_TOOL_STYLE_TAGGED);
  runnel_constraint* call = nullptr;
  ASSERT_EQ(
      runnel_tools_constraint(tools, model_, RUNNEL_TOOLS_NAMED, "roll", false, &call, &error_),
      RUNNEL_OK)
      << error_.message;
  const std::string text = generated(call);

  runnel_tool_reader* reader = nullptr;
  ASSERT_EQ(runnel_tool_reader_create(model_, &reader, &error_), RUNNEL_OK) << error_.message;
  std::string told;
  const auto tell = [](const runnel_tool_event* event, void* user) {
    static_cast<std::string*>(user)->append(std::to_string(event->kind) + event->text + ";");
  };
  for (const char c : text) {
    ASSERT_EQ(runnel_tool_reader_push(reader, &c, 1, tell, &told, &error_), RUNNEL_OK);
  }
  ASSERT_EQ(runnel_tool_reader_finish(reader, false, tell, &told, &error_), RUNNEL_OK);
  EXPECT_TRUE(told.starts_with("1roll;2{")) << told;
  EXPECT_TRUE(told.ends_with("3;")) << told;

  EXPECT_EQ(
      runnel_tools_constraint(tools, model_, RUNNEL_TOOLS_NAMED, "other", false, &call, &error_),
      RUNNEL_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("other"));
  EXPECT_EQ(runnel_tools_constraint(tools, model_, 4, nullptr, false, &call, &error_),
            RUNNEL_INVALID_ARGUMENT);
  runnel_tool_reader_free(reader);
  runnel_constraint_free(call);
  runnel_tools_free(tools);
}

TEST_F(CConstraint, RefusesInWords) {
  runnel_constraint* made = nullptr;
  EXPECT_EQ(runnel_constraint_create(model_, 9, "a", 1, true, &made, &error_),
            RUNNEL_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("kind"));
  EXPECT_EQ(runnel_constraint_create(model_, RUNNEL_CONSTRAINT_REGEX, "(", 1, true, &made, &error_),
            RUNNEL_INVALID_ARGUMENT);
  EXPECT_EQ(runnel_constraint_create(nullptr, 0, "a", 1, true, &made, &error_),
            RUNNEL_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
  runnel_constraint_free(nullptr);
}

}  // namespace
}  // namespace runnel::test
