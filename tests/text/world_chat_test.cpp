// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/world_chat.h"

#include <gtest/gtest.h>

#include "runtime/text/chat_template.h"
#include "runtime/text/world_vocabulary.h"
#include "tests/text/tokenizer_fixture.h"

namespace runnel::test {
namespace {

using Messages = std::vector<ChatMessage>;

class WorldChat : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Metadata metadata;
    const auto tokens = world_vocabulary();
    ASSERT_TRUE(tokens.has_value());
    ASSERT_TRUE(world_to_gguf(*tokens, 65'536, [&](std::string key, GgufValue value) {
      metadata.set(std::move(key), std::move(value));
    }));
    tokenizer_ = load_tokenizer(metadata, 65'536).value_or(nullptr);
    ASSERT_NE(tokenizer_, nullptr);
  }
  static void TearDownTestSuite() { tokenizer_.reset(); }

  static std::vector<TokenId> tokens(const Messages& messages, const ChatPlace& place = {},
                                     const std::string& prompt = "") {
    auto ids = encode_chat(*tokenizer_, {ChatStyle::rwkv, prompt, {}, {}}, messages, place);
    EXPECT_TRUE(ids.has_value()) << ids.error().message;
    return ids.value_or(std::vector<TokenId>());
  }
  static std::string text(const Messages& messages, const ChatPlace& place = {},
                          const std::string& prompt = "") {
    return tokenizer_->decode(tokens(messages, place, prompt));
  }

  static std::shared_ptr<const Tokenizer> tokenizer_;
};
std::shared_ptr<const Tokenizer> WorldChat::tokenizer_;

TEST_F(WorldChat, IsChosenByTemplatesAndByTheTokenizer) {
  const auto style_of = [](const char* tokenizer, const char* chat_template) {
    Metadata metadata;
    metadata.set("tokenizer.ggml.model", std::string(tokenizer));
    if (chat_template != nullptr)
      metadata.set("tokenizer.chat_template", std::string(chat_template));
    return chat_format_from_gguf(*metadata.open())->style;
  };
  const std::string published = read_data("chat_templates/rwkv-world.jinja");
  const char* const kTurns = published.c_str();
  // The same without switches; and one that separates turns by a single line break.
  constexpr const char* kOther =
      "{% for m in messages %}{% if m.role == 'assistant' %}Assistant: {{ "
      "m.content.split('</think>')[-1] | trim }}"
      "{% else %}{{ m.role | title }}: {{ m.content | trim }}{% endif %}{{ '\n\n' }}{% endfor %}"
      "{% if add_generation_prompt %}Assistant:{% endif %}";
  constexpr const char* kSingle =
      "{% for m in messages %}{{ m.role | title }}: {{ m.content | trim }}{{ '\n' }}{% endfor %}"
      "{% if add_generation_prompt %}Assistant:{% endif %}";
  EXPECT_EQ(style_of("rwkv", nullptr), ChatStyle::rwkv);
  EXPECT_EQ(style_of("rwkv", "rwkv-world"), ChatStyle::rwkv);
  EXPECT_EQ(style_of("gpt2", "rwkv-world"), ChatStyle::rwkv);
  EXPECT_EQ(style_of("rwkv", kTurns), ChatStyle::rwkv);
  EXPECT_EQ(style_of("rwkv", kOther), ChatStyle::rwkv);
  EXPECT_EQ(style_of("rwkv", kSingle), ChatStyle::jinja);
  EXPECT_EQ(style_of("rwkv", "{{ messages[0].content }}"), ChatStyle::jinja);
  EXPECT_EQ(style_of("rwkv", "{% User: Assistant:"), ChatStyle::none);
  EXPECT_EQ(style_of("gpt2", nullptr), ChatStyle::plain);
}

TEST_F(WorldChat, SeparatesTurnsByBlankLines) {
  EXPECT_EQ(
      text({{"system", " Be kind.\n\nAlways. "},
            {"user", "One\r\n\r\n\ntwo\n"},
            {"assistant", " Three\n\nfour\n"},
            {"user", "Five"}}),
      "System: Be kind.\nAlways.\n\nUser: One\ntwo\n\nAssistant: Three\n\nfour\n\nUser: Five\n\n"
      "Assistant:");
  EXPECT_EQ(text({{"user", "x"}}, {.generation_prompt = false}), "User: x");
}

TEST_F(WorldChat, LeavesThoughtsOut) {
  EXPECT_EQ(text({{"user", "a"}, {"assistant", "<think>\nhm</think>\nb"}, {"user", "c"}}),
            "User: a\n\nAssistant: b\n\nUser: c\n\nAssistant:");
}

TEST_F(WorldChat, BeginsWithTheDefaultPromptAtTheStartAlone) {
  EXPECT_EQ(text({{"user", "a"}}, {}, "Be brief."), "System: Be brief.\n\nUser: a\n\nAssistant:");
  EXPECT_EQ(text({{"system", "s"}, {"user", "a"}}, {}, "Be brief."),
            "System: s\n\nUser: a\n\nAssistant:");
  EXPECT_EQ(
      text({{"user", "a"}}, {.continuation = ChatContinuation::after_cut_answer}, "Be brief."),
      "\n\nUser: a\n\nAssistant:");
}

TEST_F(WorldChat, ReadsUnreadTextInOneTokenWithWhatFollows) {
  constexpr TokenId kStopAndBreak = 28329;  // U+3002, a line break
  const auto ids = tokens({{"user", "a"}}, {.continuation = ChatContinuation::after_closed_answer,
                                            .unread = "\xE3\x80\x82"});
  EXPECT_EQ(ids.front(), kStopAndBreak);
  EXPECT_EQ(tokenizer_->decode(ids), "\xE3\x80\x82\n\nUser: a\n\nAssistant:");
}

TEST_F(WorldChat, RefusesTextThatIsNotUtf8) {
  const auto ids =
      encode_chat(*tokenizer_, {ChatStyle::rwkv, "", {}, {}}, Messages{{"user", "a\xFF"}}, {});
  ASSERT_FALSE(ids.has_value());
  EXPECT_EQ(ids.error().message, "chat message: the text is not UTF-8 at byte 1");
}

TEST_F(WorldChat, AnswersBeginAsInTraining) {
  EXPECT_EQ(world_answer_form(Thinking::as_trained).opening, "");
  EXPECT_EQ(world_answer_form(Thinking::on).opening, " <think");
  EXPECT_EQ(world_answer_form(Thinking::off).opening, " <think>\n</think");
  EXPECT_EQ(world_answer_form(Thinking::on).stop,
            (std::vector<std::string>{"\n\nUser:", "\n\nSystem:"}));
}

}  // namespace
}  // namespace runnel::test
