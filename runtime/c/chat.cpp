// SPDX-License-Identifier: Apache-2.0
// Chats in the C API, with tools and without.
#include "runnel/chat.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runnel/model.h"
#include "runtime/c/support.h"

using namespace runnel;
using namespace runnel::c;

namespace {

Result<ChatMessage> message_of(const char* role, const char* text, std::size_t bytes) {
  RUNNEL_CHECK_OK(check_not_null(role, "role"));
  RUNNEL_TRY(const std::string_view content, text_of(text, bytes, "content"));
  return ChatMessage{role, std::string(content)};
}

Result<ChatMessage> message_of(const runnel_chat_message& m) {
  return message_of(m.role, m.content, m.bytes);
}

Result<ChatMessage> message_of(const runnel_tool_message& m) {
  RUNNEL_TRY(ChatMessage message, message_of(m.role, m.content, m.bytes));
  if (m.call_id != nullptr) message.tool_call_id = m.call_id;
  RUNNEL_TRY(const std::span<const runnel_tool_call> calls,
             span_of(m.calls, m.call_count, "calls"));
  for (const runnel_tool_call& call : calls) {
    RUNNEL_CHECK_OK(check_not_null(call.name, "name of a call"));
    RUNNEL_CHECK_OK(check_not_null(call.arguments, "arguments of a call"));
    message.tool_calls.push_back(
        {.id = call.id != nullptr ? call.id : "", .name = call.name, .arguments = call.arguments});
  }
  return message;
}

template <class Message>
Result<std::vector<ChatMessage>> messages_of(const Message* messages, std::size_t count) {
  RUNNEL_TRY(const std::span<const Message> given, span_of(messages, count, "messages"));
  std::vector<ChatMessage> list;
  for (const Message& m : given) {
    RUNNEL_TRY(ChatMessage message, message_of(m));
    list.push_back(std::move(message));
  }
  return list;
}

std::span<const Tool> tools_of(const runnel_tools* tools) {
  return tools != nullptr ? std::span<const Tool>(tools->tools) : std::span<const Tool>();
}

// After the prompt for an answer: what the model reads besides, where it does as it was trained.
Status add_opening(const Model& model, std::vector<TokenId>& tokens) {
  RUNNEL_TRY(const AnswerForm form, model.answer_form());
  if (form.opening.empty()) return {};
  RUNNEL_TRY(const std::vector<TokenId> opening, model.encode(form.opening, true));
  tokens.insert(tokens.end(), opening.begin(), opening.end());
  return {};
}

using Tokens = std::vector<TokenId>;

Result<Tokens> encode(const runnel_model* model, const Result<std::vector<ChatMessage>>& messages,
                      const runnel_tools* tools, bool add_prompt, int32_t continuation) {
  RUNNEL_CHECK_OK(check_not_null(model, "model"));
  if (continuation < RUNNEL_CHAT_START || continuation > RUNNEL_CHAT_AFTER_CUT_ANSWER) {
    return fail(ErrorCode::invalid_argument, "continuation is ", continuation,
                ", expected 0, 1 or 2");
  }
  if (!messages) return messages.error();
  RUNNEL_TRY(Tokens all, model->model->encode_chat(*messages, add_prompt,
                                                   static_cast<ChatContinuation>(continuation), {},
                                                   tools_of(tools)));
  if (add_prompt) RUNNEL_CHECK_OK(add_opening(*model->model, all));
  return all;
}

Result<Tokens> read_on(const runnel_model* model, const Result<std::vector<ChatMessage>>& messages,
                       const runnel_tools* tools, std::size_t read, bool closed,
                       std::size_t* kept) {
  RUNNEL_CHECK_OK(check_not_null(model, "model"));
  if (!messages) return messages.error();
  RUNNEL_TRY(ChatReading reading,
             model->model->read_chat(*messages, read, closed, {}, tools_of(tools)));
  RUNNEL_CHECK_OK(add_opening(*model->model, reading.tokens));
  if (kept != nullptr) *kept = reading.kept;
  return std::move(reading.tokens);
}

Result<std::string> text_of_chat(const runnel_model* model,
                                 const Result<std::vector<ChatMessage>>& messages,
                                 const runnel_tools* tools, bool add_prompt) {
  RUNNEL_CHECK_OK(check_not_null(model, "model"));
  if (!messages) return messages.error();
  return model->model->chat_text(*messages, add_prompt, tools_of(tools));
}

}  // namespace

// NOLINTBEGIN(readability-function-size): in C a text, a buffer and an error are many parameters
runnel_status runnel_model_encode_chat(const runnel_model* model,
                                       const runnel_chat_message* messages, size_t message_count,
                                       bool add_prompt, int32_t continuation, runnel_token* tokens,
                                       size_t capacity, size_t* count, runnel_error* error) {
  return give<Tokens>(tokens, capacity, count, error, [&] {
    return encode(model, messages_of(messages, message_count), nullptr, add_prompt, continuation);
  });
}

runnel_status runnel_model_read_chat(const runnel_model* model, const runnel_chat_message* messages,
                                     size_t message_count, size_t read, bool closed, size_t* kept,
                                     runnel_token* tokens, size_t capacity, size_t* count,
                                     runnel_error* error) {
  return give<Tokens>(tokens, capacity, count, error, [&] {
    return read_on(model, messages_of(messages, message_count), nullptr, read, closed, kept);
  });
}

runnel_status runnel_model_chat_text(const runnel_model* model, const runnel_chat_message* messages,
                                     size_t message_count, bool add_prompt, char* text,
                                     size_t capacity, size_t* count, runnel_error* error) {
  return give<std::string>(text, capacity, count, error, [&] {
    return text_of_chat(model, messages_of(messages, message_count), nullptr, add_prompt);
  });
}

runnel_status runnel_model_encode_tool_chat(const runnel_model* model,
                                            const runnel_tool_message* messages,
                                            size_t message_count, const runnel_tools* tools,
                                            bool add_prompt, int32_t continuation,
                                            runnel_token* tokens, size_t capacity, size_t* count,
                                            runnel_error* error) {
  return give<Tokens>(tokens, capacity, count, error, [&] {
    return encode(model, messages_of(messages, message_count), tools, add_prompt, continuation);
  });
}

runnel_status runnel_model_read_tool_chat(const runnel_model* model,
                                          const runnel_tool_message* messages, size_t message_count,
                                          const runnel_tools* tools, size_t read, bool closed,
                                          size_t* kept, runnel_token* tokens, size_t capacity,
                                          size_t* count, runnel_error* error) {
  return give<Tokens>(tokens, capacity, count, error, [&] {
    return read_on(model, messages_of(messages, message_count), tools, read, closed, kept);
  });
}

runnel_status runnel_model_tool_chat_text(const runnel_model* model,
                                          const runnel_tool_message* messages, size_t message_count,
                                          const runnel_tools* tools, bool add_prompt, char* text,
                                          size_t capacity, size_t* count, runnel_error* error) {
  return give<std::string>(text, capacity, count, error, [&] {
    return text_of_chat(model, messages_of(messages, message_count), tools, add_prompt);
  });
}
// NOLINTEND(readability-function-size)
