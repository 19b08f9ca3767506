// SPDX-License-Identifier: Apache-2.0
// ChatML and plain: reading their templates, writing their tokens.
#include "runtime/text/chat_template.h"

#include <utility>

#include "runtime/base/try.h"
#include "runtime/text/jinja_reader.h"
#include "runtime/text/world_chat.h"

namespace runnel {

namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";
constexpr const char* kStyleKey = "gsa.chat.style";
constexpr const char* kPromptKey = "gsa.chat.default_system_prompt";

/// Goes over the steps of a template and remembers where it stopped fitting.
class StepReader {
 public:
  explicit StepReader(const std::vector<JinjaStep>& steps) : steps_(steps) {}

  bool take(JinjaStep::Kind kind, std::string_view text) {
    if (at_ >= steps_.size() || steps_[at_].kind != kind || steps_[at_].text != text) return false;
    ++at_;
    return true;
  }
  bool statement(std::string_view text) { return take(JinjaStep::Kind::statement, text); }
  bool text(std::string_view text) { return take(JinjaStep::Kind::text, text); }
  bool expression(std::string_view text) { return take(JinjaStep::Kind::expression, text); }
  const std::string* any_text() {
    if (at_ >= steps_.size() || steps_[at_].kind != JinjaStep::Kind::text) return nullptr;
    return &steps_[at_++].text;
  }
  /// Skips what stands before the `elif`, `else` or `endif` of the condition that has just been taken.
  void skip_branch() {
    int depth = 0;
    for (; at_ < steps_.size(); ++at_) {
      if (steps_[at_].kind != JinjaStep::Kind::statement) continue;
      const std::string& s = steps_[at_].text;
      const bool ends = s == "else" || s == "endif" || s.starts_with("elif");
      if (depth == 0 && ends) return;
      if (s.starts_with("if ") || s.starts_with("if(") || s.starts_with("for ")) ++depth;
      if (s == "endif" || s == "endfor") --depth;
    }
  }
  bool done() const { return at_ == steps_.size(); }

  std::string reason() const {
    std::string out = "the chat template is not ChatML as this library writes it: ";
    if (done()) return out + "it ends early";
    const JinjaStep& step = steps_[at_];
    out += step.kind == JinjaStep::Kind::statement ? "statement '"
           : step.kind == JinjaStep::Kind::text    ? "text '"
                                                   : "expression '";
    return out + step.text.substr(0, 80) + "' does not fit";
  }

 private:
  const std::vector<JinjaStep>& steps_;
  std::size_t at_ = 0;
};

/// The prompt within "<|im_start|>system\n…<|im_end|>\n".
bool read_prompt(const std::string* text, std::string& prompt) {
  const std::string opening = std::string(kStart) + "system\n";
  const std::string closing = std::string(kEnd) + "\n";
  if (text == nullptr || text->size() <= opening.size() + closing.size() ||
      !text->starts_with(opening) || !text->ends_with(closing))
    return false;
  prompt = text->substr(opening.size(), text->size() - opening.size() - closing.size());
  return prompt.find("<|") == std::string::npos;  // markers within: more than one message
}

/// {% for message in messages %}[{% if loop.first and … %}system prompt{% endif %}]message{% endfor %}
/// {% if add_generation_prompt %}…{% endif %}
bool read_chatml(StepReader& reader, std::string& prompt) {
  if (reader.statement("if not add_generation_prompt is defined") &&
      !(reader.statement("set add_generation_prompt=false") && reader.statement("endif")))
    return false;
  if (!reader.statement("for message in messages")) return false;
  if (reader.statement("if loop.first and messages[0].role!='system'")) {
    if (!read_prompt(reader.any_text(), prompt) || !reader.statement("endif")) return false;
  }
  return reader.text(kStart) && reader.expression("message.role") && reader.text("\n") &&
         reader.expression("message.content") && reader.text(std::string(kEnd) + "\n") &&
         reader.statement("endfor") && reader.statement("if add_generation_prompt") &&
         reader.text(std::string(kStart) + "assistant\n") && reader.statement("endif") &&
         reader.done();
}

/// Qwen2.5's: the first system message or the default prompt, then the messages. What it does with tools and their
/// results is skipped: there are none here.
bool read_chatml_with_tools(StepReader& reader, std::string& prompt) {
  const std::string closing = std::string(kEnd) + "\n";
  if (!reader.statement("if tools")) return false;
  reader.skip_branch();
  if (!reader.statement("else") || !reader.statement("if messages[0].role=='system'") ||
      !reader.text(std::string(kStart) + "system\n") || !reader.expression("messages[0].content") ||
      !reader.text(closing) || !reader.statement("else") ||
      !read_prompt(reader.any_text(), prompt) || !reader.statement("endif") ||
      !reader.statement("endif"))
    return false;
  if (!reader.statement("for message in messages") ||
      !reader.statement("if(message.role=='user')or(message.role=='system'and not loop.first)or"
                        "(message.role=='assistant'and not message.tool_calls)") ||
      !reader.text(kStart) || !reader.expression("message.role") || !reader.text("\n") ||
      !reader.expression("message.content") || !reader.text(closing) ||
      !reader.statement("elif message.role=='assistant'"))
    return false;
  reader.skip_branch();
  if (!reader.statement("elif message.role=='tool'")) return false;
  reader.skip_branch();
  return reader.statement("endif") && reader.statement("endfor") &&
         reader.statement("if add_generation_prompt") &&
         reader.text(std::string(kStart) + "assistant\n") && reader.statement("endif") &&
         reader.done();
}

ChatFormat no_format(std::string reason) { return {ChatStyle::none, {}, std::move(reason)}; }

Status check_role(const ChatMessage& message) {
  if (message.role == "system" || message.role == "user" || message.role == "assistant") return {};
  return fail(ErrorCode::invalid_argument, "chat message: role '", message.role.substr(0, 64),
              "', expected system, user or assistant");
}

Result<std::vector<TokenId>> encode_chatml(const Tokenizer& tokenizer,
                                           const std::string& default_prompt,
                                           std::span<const ChatMessage> messages,
                                           bool add_generation_prompt,
                                           ChatContinuation continuation) {
  const TokenId start = tokenizer.special_id(kStart);
  const TokenId end = tokenizer.special_id(kEnd);
  if (start < 0 || end < 0)
    return fail(ErrorCode::unsupported, "chat style chatml: the vocabulary has no special token ",
                start < 0 ? kStart : kEnd);
  std::vector<TokenId> tokens;
  const auto add_text = [&](std::string_view text) -> Status {
    RUNNEL_TRY(const std::vector<TokenId> ids, tokenizer.encode(text, false));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    return {};
  };
  const auto add_message = [&](std::string_view role, std::string_view content) -> Status {
    tokens.push_back(start);
    std::string text(role);
    text += '\n';
    text += content;
    RUNNEL_CHECK_OK(add_text(text));
    tokens.push_back(end);
    return add_text("\n");
  };
  if (continuation == ChatContinuation::after_cut_answer) tokens.push_back(end);
  if (continuation != ChatContinuation::start) {
    RUNNEL_CHECK_OK(add_text("\n"));  // follows every end of message, so that of the answer too
  } else if (!default_prompt.empty() && !messages.empty() && messages[0].role != "system") {
    RUNNEL_CHECK_OK(add_message("system", default_prompt));
  }
  for (const ChatMessage& message : messages)
    RUNNEL_CHECK_OK(add_message(message.role, message.content));
  if (add_generation_prompt) {
    tokens.push_back(start);
    RUNNEL_CHECK_OK(add_text("assistant\n"));
  }
  return tokens;
}

Result<std::vector<TokenId>> encode_plain(const Tokenizer& tokenizer,
                                          const std::string& default_prompt,
                                          std::span<const ChatMessage> messages,
                                          bool add_generation_prompt,
                                          ChatContinuation continuation) {
  std::string text;
  if (continuation != ChatContinuation::start) {
    text = "\n";
  } else if (!default_prompt.empty() && !messages.empty() && messages[0].role != "system") {
    text = default_prompt + "\n\n";
  }
  for (const ChatMessage& message : messages) {
    if (message.role == "system") {
      text += message.content + "\n\n";
    } else {
      text += (message.role == "user" ? "User: " : "Assistant: ") + message.content + "\n";
    }
  }
  if (add_generation_prompt) text += "Assistant:";
  RUNNEL_TRY(std::vector<TokenId> tokens, tokenizer.encode(text, false));
  if (continuation == ChatContinuation::start && tokenizer.begin_token() >= 0)
    tokens.insert(tokens.begin(), tokenizer.begin_token());
  return tokens;
}

}  // namespace

const char* to_string(ChatStyle style) {
  switch (style) {
    case ChatStyle::plain:
      return "plain";
    case ChatStyle::chatml:
      return "chatml";
    case ChatStyle::rwkv:
      return "rwkv";
    case ChatStyle::none:
      return "none";
  }
  return "none";
}

ChatFormat recognise_chat_template(std::string_view jinja) {
  const Result<std::vector<JinjaStep>> steps = read_jinja(jinja);
  if (!steps) return no_format(steps.error().message);
  const auto first = JinjaStep{JinjaStep::Kind::statement, "if tools"};
  StepReader reader(*steps);
  std::string prompt;
  const bool tools = !steps->empty() && steps->front() == first;
  if (!(tools ? read_chatml_with_tools : read_chatml)(reader, prompt))
    return no_format(reader.reason());
  return {ChatStyle::chatml, std::move(prompt), {}};
}

Result<ChatFormat> chat_format_from_gguf(const GgufFile& file) {
  if (file.find(kStyleKey) != nullptr) {
    RUNNEL_TRY(const std::string style, file.get_string(kStyleKey));
    RUNNEL_TRY(std::string prompt, file.get_string(kPromptKey, ""));
    if (style == "plain") return ChatFormat{ChatStyle::plain, std::move(prompt), {}};
    if (style == "chatml") return ChatFormat{ChatStyle::chatml, std::move(prompt), {}};
    if (style == "rwkv") return ChatFormat{ChatStyle::rwkv, std::move(prompt), {}};
    if (style != "none")
      return fail(ErrorCode::unsupported, kStyleKey, ": '", style.substr(0, 64),
                  "' is not one of plain, chatml, rwkv, none");
    return no_format("the model file says that it has no chat format");
  }
  RUNNEL_TRY(const std::string jinja, file.get_string("tokenizer.chat_template", ""));
  RUNNEL_TRY(const std::string tokenizer, file.get_string("tokenizer.ggml.model", ""));
  if (is_world_chat(tokenizer, jinja)) return ChatFormat{ChatStyle::rwkv, {}, {}};
  if (file.find("tokenizer.chat_template") == nullptr) return ChatFormat{};
  return recognise_chat_template(jinja);
}

void chat_format_to_gguf(const ChatFormat& format,
                         const std::function<void(std::string, std::string)>& set) {
  set(kStyleKey, to_string(format.style));
  set(kPromptKey, format.default_system_prompt);
}

Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatFormat& format,
                                         std::span<const ChatMessage> messages,
                                         const ChatPlace& place) {
  for (const ChatMessage& message : messages) RUNNEL_CHECK_OK(check_role(message));
  switch (format.style) {
    case ChatStyle::chatml:
      return encode_chatml(tokenizer, format.default_system_prompt, messages,
                           place.generation_prompt, place.continuation);
    case ChatStyle::plain:
      return encode_plain(tokenizer, format.default_system_prompt, messages,
                          place.generation_prompt, place.continuation);
    case ChatStyle::rwkv:
      return encode_world_chat(tokenizer, format.default_system_prompt, messages, place);
    case ChatStyle::none:
      break;
  }
  return fail(ErrorCode::unsupported, "chat: ", format.reason);
}

Result<AnswerForm> answer_form(const ChatFormat& format, Thinking thinking) {
  if (format.style == ChatStyle::rwkv) return world_answer_form(thinking);
  if (thinking == Thinking::on)
    return fail(ErrorCode::unsupported, "thinking: the model's chat format (",
                to_string(format.style), ") has no thoughts");
  AnswerForm form;
  if (format.style == ChatStyle::plain) form.stop.push_back("\nUser:");
  return form;
}

}  // namespace runnel
