// SPDX-License-Identifier: Apache-2.0
// Laying out conversations: ChatML, plain, RWKV's World, and what a template says.
#include "runtime/text/chat_template.h"

#include <algorithm>
#include <utility>

#include "runtime/base/file_map.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/utf8.h"
#include "runtime/text/world_chat.h"

namespace runnel {

namespace {

using jinja::Value;

constexpr const char* kStart = "<|im_start|>";
constexpr const char* kEnd = "<|im_end|>";
constexpr const char* kStyleKey = "gsa.chat.style";
constexpr const char* kPromptKey = "gsa.chat.default_system_prompt";
constexpr const char* kTemplateKey = "tokenizer.chat_template";

ChatFormat no_format(std::string reason) { return {ChatStyle::none, {}, std::move(reason), {}}; }

Status check(const ChatMessage& message) {
  if (message.role != "system" && message.role != "user" && message.role != "assistant" &&
      message.role != "tool")
    return fail(ErrorCode::invalid_argument, "chat message: role ", in_quotes(message.role),
                ", expected system, user, assistant or tool");
  if (const std::size_t at = first_invalid_utf8(message.content); at != std::string_view::npos)
    return fail(ErrorCode::malformed, "chat message: the text is not UTF-8 at byte ", at);
  return check_calls(message);
}

MarkedText chatml(const std::string& default_prompt, std::span<const ChatMessage> messages,
                  bool add_generation_prompt) {
  MarkedText out;
  const auto add = [&](const std::string& role, const MarkedText& content) {
    out += marked_text(kStart + role + "\n") + content + marked_text(std::string(kEnd) + "\n");
  };
  if (!default_prompt.empty() && !messages.empty() && messages[0].role != "system")
    add("system", marked_text(default_prompt, true));
  for (const ChatMessage& message : messages) add(message.role, marked_text(message.content, true));
  if (add_generation_prompt) out += marked_text(std::string(kStart) + "assistant\n");
  return out;
}

MarkedText plain(const std::string& default_prompt, std::span<const ChatMessage> messages,
                 bool add_generation_prompt) {
  MarkedText out;
  if (!default_prompt.empty() && !messages.empty() && messages[0].role != "system")
    out += marked_text(default_prompt + "\n\n", true);
  for (const ChatMessage& message : messages) {
    // An answer as the model gave it may begin with the space that follows the colon.
    const char* space = message.content.starts_with(' ') && message.role == "assistant" ? "" : " ";
    if (message.role != "system")
      out += marked_text((message.role == "user" ? "User:" : "Assistant:") + std::string(space));
    out += marked_text(message.content, true);
    out += message.role == "system" ? U"\n\n" : U"\n";
  }
  if (add_generation_prompt) out += U"Assistant:";
  return out;
}

/// The name of the tool whose call a message answers, or empty.
std::string called_by(std::span<const ChatMessage> before, const std::string& id) {
  for (auto message = before.rbegin(); message != before.rend() && !id.empty(); ++message) {
    for (const ToolCall& call : message->tool_calls) {
      if (call.id == id) return call.name;
    }
  }
  return {};
}

Result<MarkedText> run_template(const ChatTemplate& chat, const ChatTalk& talk,
                                bool add_generation_prompt,
                                Thinking thinking = Thinking::as_trained) {
  const std::span<const ChatMessage> messages = talk.messages;
  // Those of ids of nine letters refuse others. Before it is known the samples have such.
  const bool nine =
      (chat.tools.middle + chat.tools.between + chat.tools.end).find(ToolFormat::kIdMark) !=
      std::string::npos;
  jinja::List list;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    jinja::Dict entry;
    entry.set(Value("role"), Value(message.role));
    entry.set(Value("content"), Value(marked_text(message.content, true)));
    if (!message.tool_calls.empty())
      entry.set(Value("tool_calls"), calls_value(message.tool_calls, nine));
    if (message.role == "tool") {
      const std::string name = called_by(messages.first(i), message.tool_call_id);
      if (!name.empty()) entry.set(Value("name"), Value(marked_text(name, true)));
      entry.set(Value("tool_call_id"),
                Value(marked_text(call_id(message.tool_call_id, nine), true)));
    }
    list.items.emplace_back(std::move(entry));
    bytes += message.content.size();
    for (const ToolCall& call : message.tool_calls) bytes += call.arguments.size();
  }
  jinja::Limits limits;
  limits.steps += std::uint64_t{5000} * (messages.size() + talk.tools.size());
  for (const Tool& tool : talk.tools) bytes += tool.description.size() + tool.parameters.size();
  limits.bytes += std::uint64_t{256} * bytes;
  // What the transformers library passes, with none for what there is not.
  std::vector<std::pair<std::string, Value>> variables = {
      {"messages", std::move(list)},      {"add_generation_prompt", Value(add_generation_prompt)},
      {"tools", tools_value(talk.tools)}, {"documents", Value(nullptr)},
      {"bos_token", Value(chat.begin)},   {"eos_token", Value(chat.end)}};
  // The two names that templates have for it.
  if (thinking != Thinking::as_trained) {
    for (const char* name : {"enable_thinking", "thinking"})
      variables.emplace_back(name, Value(thinking == Thinking::on));
  }
  return chat.parsed.render(std::move(variables), chat.now, limits);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\r\f\v";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

/// Finds out how `chat` makes a model think, from sample conversations. Without tags of thoughts, or where earlier turns
/// are not laid out behind what makes the model answer, its answers have no form.
void find_answer_form(ChatTemplate& chat) {
  const std::vector<ChatMessage> talk = {
      {"user", "Question 1?"}, {"assistant", "Answer 1."}, {"user", "Question 2?"}};
  const auto text = [&](const std::vector<ChatMessage>& messages, bool prompt,
                        Thinking thinking = Thinking::as_trained) {
    const Result<MarkedText> laid_out = run_template(chat, {messages}, prompt, thinking);
    return laid_out ? bytes_of(*laid_out) : std::string();
  };
  const auto tag_in = [](std::string_view in, std::size_t from) {
    return std::min(in.find("<think>", from), in.find("</think>", from));
  };
  if (tag_in(chat.source, 0) == std::string::npos) return;
  const std::string asked = text({talk[0]}, false);
  const std::string prompt = text({talk[0]}, true);
  const auto tail = std::mismatch(prompt.begin(), prompt.end(), asked.begin(), asked.end()).first;
  // Up to here it makes the model answer, be it with a thought or not.
  const std::string stem =
      prompt.substr(0, tag_in(prompt, static_cast<std::size_t>(tail - prompt.begin())));
  const std::string all = text(talk, false);
  const std::size_t said = all.find(talk[1].content);
  const std::size_t next = all.find(talk[2].content);
  if (stem.empty() || !all.starts_with(stem) || said == all.npos || next == all.npos ||
      said < stem.size())
    return;
  const auto opening = [&](Thinking thinking) -> std::optional<std::string> {
    const std::string other = text({talk[0]}, true, thinking);
    if (!other.starts_with(stem)) return {};
    return other.substr(stem.size());
  };
  std::vector<ChatMessage> spaced = talk;
  spaced[1].content = " " + talk[1].content + "\n";
  const std::size_t end = said + talk[1].content.size();
  chat.answer = {.opening = prompt.substr(stem.size()),
                 .stop = {},
                 .follows = all.substr(end, next - end),
                 .lead = all.substr(stem.size(), said - stem.size()),
                 .trims = text(spaced, false) == all,
                 .thinks = true};
  chat.on = opening(Thinking::on);
  chat.off = opening(Thinking::off);
  // Not so where it says the same without being told, unless that is an empty thought.
  if (chat.off == chat.answer.opening && chat.off->find("</think>") == std::string::npos)
    chat.off.reset();
}

/// Finds out how `chat` has a model call tools.
void find_tools(ChatTemplate& chat) {
  chat.tools.reason = "the chat template does not lay out tools";
  if (chat.source.find("tools") == std::string::npos) return;
  const LayOut lay_out = [&chat](std::span<const ChatMessage> messages, std::span<const Tool> tools,
                                 bool prompt) {
    const Result<MarkedText> laid_out = run_template(chat, {messages, tools}, prompt);
    return laid_out ? bytes_of(*laid_out) : std::string();
  };
  chat.tools = find_tool_format(lay_out, chat.answer.opening, chat.closing);
}

Result<std::vector<TokenId>> tokens_of(const Tokenizer& tokenizer, const MarkedText& text) {
  return tokenizer.encode_marked(bytes_of(text), given_in(text));
}

Status check_markers(const Tokenizer& tokenizer, const ChatFormat& format) {
  return runnel::check_markers(
      format, [&](std::string_view marker) { return tokenizer.special_id(marker) >= 0; });
}

/// The template that lays out `talk`; null: the built-in style does.
const ChatTemplate* template_for(const ChatFormat& format, const ChatTalk& talk) {
  if (format.style == ChatStyle::jinja) return format.jinja.get();
  const bool of_tools = format.style == ChatStyle::chatml && format.tools && talk.has_tools();
  return of_tools ? format.tools.get() : nullptr;
}

/// lay_out_chat() but for what AnswerForm::opening says, be it as the model was trained.
Result<MarkedText> lay_out_prompt(const ChatFormat& format, const ChatTalk& talk,
                                  bool add_generation_prompt) {
  RUNNEL_TRY(MarkedText text, lay_out_chat(format, talk, add_generation_prompt));
  if (!add_generation_prompt || format.style != ChatStyle::jinja) return text;
  const MarkedText opening = marked_text(format.jinja->answer.opening);
  if (text.ends_with(opening)) text.resize(text.size() - opening.size());
  return text;
}

/// Where `closing`, written by the template, stands first in `text` from `from` on.
std::size_t find_written(const MarkedText& text, std::string_view closing, std::size_t from) {
  const MarkedText wanted = marked_text(closing);
  std::size_t at = text.find(wanted, from);
  while (at < text.size() && (text[at] & kGiven) != 0) at = text.find(wanted, at + 1);
  return at;
}

/// What a session has read that stands after all of `talk`: an answer as it was given, or the prompt for one.
/// @param whole  the conversation that `talk` begins
Result<MarkedText> text_after(const ChatFormat& format, const ChatTalk& talk,
                              const MarkedText& whole) {
  const std::span<const ChatMessage> messages = talk.messages;
  if (messages.empty()) return MarkedText();
  const ChatMessage& last = messages.back();
  if (last.role == "system") return lay_out_chat(format, talk, false);
  if (last.role != "assistant") return lay_out_prompt(format, talk, true);
  if (format.style == ChatStyle::rwkv) return lay_out_chat(format, talk, false);
  const ChatTalk asked{messages.first(messages.size() - 1), talk.tools};
  RUNNEL_TRY(MarkedText text, lay_out_prompt(format, asked, true));
  const ChatTemplate* chat = template_for(format, talk);
  if (!last.tool_calls.empty() && chat != nullptr) {
    // As the model wrote its calls, which may be otherwise than the template writes them.
    if (!whole.starts_with(text))
      return fail(ErrorCode::unsupported, "chat: the template lays out a call anew");
    const std::size_t end = find_written(whole, chat->closing, text.size());
    return whole.substr(0, end);
  }
  std::string_view answer = last.content;
  std::vector<ChatMessage> words;
  if (!last.tool_calls.empty()) {
    words = in_words({std::span(&last, 1)}, {});
    answer = words.front().content;
  }
  if (format.style == ChatStyle::jinja) {
    const AnswerForm& form = format.jinja->answer;
    if (form.trims) answer = trimmed(answer);
    if (!answer.empty()) text += marked_text(form.lead);
  }
  text += marked_text(answer, true);
  return text;
}

/// The tokens that begin a conversation.
Result<std::vector<TokenId>> beginning(const Tokenizer& tokenizer, const ChatFormat& format,
                                       const MarkedText& whole) {
  RUNNEL_TRY(std::vector<TokenId> tokens, tokens_of(tokenizer, whole));
  // A template writes its own begin token.
  if (format.style == ChatStyle::plain && tokenizer.begin_token() >= 0)
    tokens.insert(tokens.begin(), tokenizer.begin_token());
  return tokens;
}

/// The tokens of what follows something that was read but for `unread`.
/// @param closed  that ended with an answer's end-of-message
Result<std::vector<TokenId>> following(const Tokenizer& tokenizer, std::string_view unread,
                                       const MarkedText& rest, bool closed) {
  RUNNEL_TRY(std::vector<TokenId> tokens, tokens_of(tokenizer, marked_text(unread, true) + rest));
  if (closed && !tokens.empty() && tokenizer.is_end(tokens[0])) tokens.erase(tokens.begin());
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
    case ChatStyle::jinja:
      return "jinja";
  }
  return "none";
}

ChatFormat chat_format_of(std::string_view source, std::string begin, std::string end) {
  Result<jinja::Template> parsed = jinja::Template::parse(source);
  if (!parsed) return no_format(parsed.error().message);
  auto made = std::make_shared<ChatTemplate>(ChatTemplate{*std::move(parsed),
                                                          std::string(source),
                                                          std::move(begin),
                                                          std::move(end),
                                                          {},
                                                          {},
                                                          {},
                                                          {},
                                                          {},
                                                          {}});
  const std::time_t now = std::time(nullptr);
  static_cast<void>(localtime_r(&now, &made->now));
  find_answer_form(*made);
  find_tools(*made);
  return {ChatStyle::jinja, {}, {}, std::move(made)};
}

ChatFormat simplified(const ChatFormat& format) {
  if (format.style != ChatStyle::jinja) return format;
  const std::vector<ChatMessage> talk = {{"user", " a\n"},    {"assistant", "b <think>c</think> "},
                                         {"user", "d"},       {"assistant", "e"},
                                         {"system", "late "}, {"user", "f"}};
  const std::vector<ChatMessage> briefed = {{"system", " s\n"}, {"user", "x"}};
  const std::vector<ChatMessage> turns = {
      {"system", "s"}, {"user", " a\n"}, {"assistant", "b\n\nc"}, {"user", "d"}};
  const auto text = [](const ChatFormat& f, std::span<const ChatMessage> messages, bool prompt) {
    const Result<MarkedText> laid_out = lay_out_chat(f, {messages}, prompt);
    return laid_out ? bytes_of(*laid_out) : "error: " + laid_out.error().message;
  };
  ChatFormat world{ChatStyle::rwkv, {}, {}, {}};
  bool is_world = true;
  for (std::size_t n = 2; n <= turns.size(); n += 2) {
    for (const std::size_t from : {0U, 1U}) {
      const auto some = std::span(turns).subspan(from, n - from);
      is_world = is_world && text(format, some, true) == text(world, some, true);
    }
  }
  if (is_world) return world;
  // A default prompt is what stands before the first message.
  const std::string opening = std::string(kStart) + "system\n";
  const std::string first = text(format, std::span(talk).first(1), false);
  ChatFormat out{ChatStyle::chatml, {}, {}, {}};
  const std::string alone = text(out, std::span(talk).first(1), false);
  const std::string closing = std::string(kEnd) + "\n" + alone;
  if (first != alone && first.starts_with(opening) && first.ends_with(closing) &&
      first.size() > opening.size() + closing.size())
    out.default_system_prompt =
        first.substr(opening.size(), first.size() - opening.size() - closing.size());
  for (const bool prompt : {false, true}) {
    for (std::size_t n = 1; n <= talk.size(); ++n)
      if (text(format, std::span(talk).first(n), prompt) !=
          text(out, std::span(talk).first(n), prompt))
        return format;
    if (text(format, briefed, prompt) != text(out, briefed, prompt)) return format;
  }
  if (format.jinja->tools.style != ToolStyle::none) out.tools = format.jinja;
  return out;
}

namespace {

/// The text of the token that a key names, or empty.
std::string token_text(const GgufFile& file, const char* key) {
  const auto id = file.get_int(key);
  const auto texts = file.get_array<std::string>("tokenizer.ggml.tokens");
  if (!id || !texts || *id < 0 || static_cast<std::size_t>(*id) >= (*texts)->size()) return {};
  return (**texts)[static_cast<std::size_t>(*id)];
}

std::string tokenizer_of(const GgufFile& file) {
  const auto name = file.get_string("tokenizer.ggml.model", "");
  return name ? *name : std::string();
}

ChatFormat with_tokens_of(const GgufFile& file, std::string_view source) {
  // Texts of World models begin with nothing, whatever token their files name.
  if (tokenizer_of(file) == "rwkv") return chat_format_of(source);
  return chat_format_of(source, token_text(file, "tokenizer.ggml.bos_token_id"),
                        token_text(file, "tokenizer.ggml.eos_token_id"));
}

}  // namespace

Result<ChatFormat> chat_format_from_gguf(const GgufFile& file) {
  std::string style = "none";
  if (file.find(kStyleKey) != nullptr) {
    RUNNEL_TRY(style, file.get_string(kStyleKey));
    RUNNEL_TRY(std::string prompt, file.get_string(kPromptKey, ""));
    if (style == "plain") return ChatFormat{ChatStyle::plain, std::move(prompt), {}, {}};
    if (style == "chatml") {
      RUNNEL_TRY(const std::string own, file.get_string(kTemplateKey, ""));
      const ChatFormat of_own = own.empty() ? ChatFormat{} : with_tokens_of(file, own);
      const bool has_tools = of_own.jinja && of_own.jinja->tools.style != ToolStyle::none;
      return ChatFormat{
          ChatStyle::chatml, std::move(prompt), {}, {}, has_tools ? of_own.jinja : nullptr};
    }
    if (style == "rwkv") return ChatFormat{ChatStyle::rwkv, std::move(prompt), {}, {}};
    if (style != "none" && style != "jinja")
      return fail(ErrorCode::unsupported, kStyleKey, ": ", in_quotes(style),
                  " is not one of plain, chatml, rwkv, jinja, none");
    if (style == "none") return no_format("the model file says that it has no chat format");
  }
  RUNNEL_TRY(const std::string source, file.get_string(kTemplateKey, ""));
  if (is_world_chat(tokenizer_of(file), source)) return ChatFormat{ChatStyle::rwkv, {}, {}, {}};
  if (file.find(kTemplateKey) == nullptr) return ChatFormat{};
  return simplified(with_tokens_of(file, source));
}

Result<ChatFormat> chat_format_named(const std::string& name, const GgufFile& own) {
  if (name == "plain") return ChatFormat{ChatStyle::plain, {}, {}, {}};
  if (name == "chatml") return ChatFormat{ChatStyle::chatml, {}, {}, {}};
  if (name == "rwkv") return ChatFormat{ChatStyle::rwkv, {}, {}, {}};
  Result<FileMap> map = FileMap::open(name);
  if (!map)
    return with_context(std::move(map).error(),
                        "chat template (none of chatml, plain and rwkv, so a file): ");
  const std::string_view source(reinterpret_cast<const char*>(map->bytes().data()),
                                map->bytes().size());
  ChatFormat format = with_tokens_of(own, source);
  if (format.style == ChatStyle::none) return fail(ErrorCode::malformed, name, ": ", format.reason);
  return simplified(format);
}

void chat_format_to_gguf(const ChatFormat& format,
                         const std::function<void(std::string, std::string)>& set) {
  set(kStyleKey, to_string(format.style));
  set(kPromptKey, format.default_system_prompt);
}

Status check_markers(const ChatFormat& format,
                     const std::function<bool(std::string_view)>& has_special) {
  if (format.style != ChatStyle::chatml) return {};
  for (const char* marker : {kStart, kEnd}) {
    if (!has_special(marker))
      return fail(ErrorCode::unsupported, "chat style chatml: the vocabulary has no special token ",
                  marker);
  }
  return {};
}

ToolFormat tool_format(const ChatFormat& format) {
  switch (format.style) {
    case ChatStyle::chatml:
      return format.tools ? format.tools->tools : tagged_tool_format();
    case ChatStyle::rwkv:
      return tagged_tool_format();
    case ChatStyle::jinja:
      return format.jinja->tools;
    case ChatStyle::plain:
    case ChatStyle::none:
      break;
  }
  return {.style = ToolStyle::none, .reason = "the model has no chat format that knows tools"};
}

Result<MarkedText> lay_out_chat(const ChatFormat& format, const ChatTalk& talk,
                                bool add_generation_prompt) {
  for (const ChatMessage& message : talk.messages) RUNNEL_CHECK_OK(check(message));
  RUNNEL_CHECK_OK(check_tools(talk.tools));
  const bool has_tools = talk.has_tools();
  if (has_tools && tool_format(format).style == ToolStyle::none)
    return fail(ErrorCode::unsupported, "tools: ", tool_format(format).reason);
  if (const ChatTemplate* chat = template_for(format, talk))
    return run_template(*chat, talk, add_generation_prompt);
  std::vector<ChatMessage> words;
  if (has_tools) words = in_words(talk, format.default_system_prompt);
  const std::span<const ChatMessage> messages =
      has_tools ? std::span<const ChatMessage>(words) : talk.messages;
  switch (format.style) {
    case ChatStyle::chatml:
      return chatml(format.default_system_prompt, messages, add_generation_prompt);
    case ChatStyle::plain:
      return plain(format.default_system_prompt, messages, add_generation_prompt);
    case ChatStyle::rwkv:
      return lay_out_world_chat(format.default_system_prompt, messages, add_generation_prompt);
    case ChatStyle::jinja:
    case ChatStyle::none:
      break;
  }
  return fail(ErrorCode::unsupported, "chat: ", format.reason);
}

Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatFormat& format,
                                         const ChatTalk& talk, const ChatPlace& place) {
  RUNNEL_CHECK_OK(check_markers(tokenizer, format));
  if (place.continuation == ChatContinuation::start) {
    RUNNEL_TRY(const MarkedText text, lay_out_prompt(format, talk, place.generation_prompt));
    return beginning(tokenizer, format, text);
  }
  // What comes after any earlier turn, whether answers begin with a space or not: it must be the same after both.
  const std::span<const ChatMessage> messages = talk.messages;
  const bool of_call = !messages.empty() && messages.front().role == "tool";
  const ToolCall call{.id = of_call ? messages.front().tool_call_id : std::string(),
                      .name = talk.tools.empty() ? "x" : talk.tools.front().name,
                      .arguments = "{}"};
  std::vector<MarkedText> rests;
  for (const char* answer : {"y", " y"}) {
    rests.clear();
    std::vector<ChatMessage> all;
    for (int turn = 0; turn < 2; ++turn) {
      all.push_back({"user", "x"});
      all.push_back({"assistant", answer});
      std::vector<ChatMessage> before = all;
      if (of_call) before.back() = {"assistant", "", {call}};
      std::vector<ChatMessage> later = before;
      later.insert(later.end(), messages.begin(), messages.end());
      RUNNEL_TRY(const MarkedText whole,
                 lay_out_prompt(format, {later, talk.tools}, place.generation_prompt));
      RUNNEL_TRY(const MarkedText read, text_after(format, {before, talk.tools}, whole));
      if (whole.starts_with(read)) rests.push_back(whole.substr(read.size()));
    }
    if (rests.size() == 2 && rests[0] == rests[1]) break;
    rests.clear();
  }
  if (rests.empty())
    return fail(ErrorCode::unsupported,
                "chat: this template lays out earlier turns anew when others follow, so messages "
                "cannot be read without those before them");
  return following(tokenizer, place.unread, rests[0],
                   place.continuation == ChatContinuation::after_closed_answer);
}

Result<AnswerForm> answer_form(const ChatFormat& format, Thinking thinking) {
  if (format.style == ChatStyle::rwkv) return world_answer_form(thinking);
  AnswerForm form;
  if (format.style == ChatStyle::plain) form.stop.push_back("\nUser:");
  if (format.style == ChatStyle::jinja) form = format.jinja->answer;
  if (thinking == Thinking::as_trained) return form;
  if (!form.thinks) {
    if (thinking == Thinking::off) return form;
    return fail(ErrorCode::unsupported, "thinking: the model's chat format (",
                to_string(format.style), ") has no thoughts");
  }
  const std::optional<std::string>& opening =
      thinking == Thinking::on ? format.jinja->on : format.jinja->off;
  if (!opening)
    return fail(ErrorCode::unsupported, "thinking: the model's chat template cannot switch it ",
                thinking == Thinking::on ? "on" : "off");
  form.opening = *opening;
  return form;
}

Result<ChatReading> read_chat(const Tokenizer& tokenizer, const ChatFormat& format,
                              const ChatTalk& talk, const ChatRead& read) {
  RUNNEL_CHECK_OK(check_markers(tokenizer, format));
  const std::span<const ChatMessage> messages = talk.messages;
  if (read.messages > messages.size())
    return fail(ErrorCode::invalid_argument, "chat: ", read.messages, " messages read, of ",
                messages.size());
  RUNNEL_TRY(const MarkedText whole, lay_out_prompt(format, talk, true));
  ChatReading out;
  for (out.kept = read.messages; out.kept > 0; --out.kept) {
    const Result<MarkedText> text =
        text_after(format, {messages.first(out.kept), talk.tools}, whole);
    if (!text || !whole.starts_with(*text)) continue;
    const bool all = out.kept == read.messages;
    RUNNEL_TRY(out.tokens, following(tokenizer, all ? read.unread : std::string_view(),
                                     whole.substr(text->size()), all && read.closed));
    return out;
  }
  RUNNEL_TRY(out.tokens, beginning(tokenizer, format, whole));
  return out;
}

}  // namespace runnel
