// SPDX-License-Identifier: Apache-2.0
#include "app/serve/answer.h"

#include <ctime>
#include <utility>

namespace runnel::serve {
namespace {

const char* finish_reason(const GenerationResult& result) {
  return result.reason == FinishReason::length ? "length" : "stop";
}

}  // namespace

std::string sse(const nlohmann::ordered_json& data) { return "data: " + dump(data) + "\n\n"; }

Answer::Answer(const Request& request, std::string model, const std::string& id)
    : chat_(request.chat),
      include_usage_(request.include_usage),
      conversation_(request.conversation),
      warnings_(request.warnings),
      model_(std::move(model)),
      id_((chat_ ? "chatcmpl-" : "cmpl-") + id),
      created_(static_cast<std::int64_t>(std::time(nullptr))) {}

nlohmann::ordered_json Answer::head(const char* object) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

// Tokens that the state had read before count as cached: nothing is read twice.
nlohmann::ordered_json Answer::usage(const Job& job) const {
  const std::uint64_t prompt = job.position_before() + job.fed();
  const std::uint64_t completion = job.result().tokens.size();
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", job.position_before()}}}};
}

// What only the end knows: where the conversation stands, what was done otherwise than asked.
void Answer::add_state(nlohmann::ordered_json& body, const Job& job,
                       const std::optional<StateMark>& mark) const {
  if (!conversation_.empty()) {
    body["conversation"] = {
        {"id", conversation_}, {"cached_tokens", job.position_before()}, {"fed_tokens", job.fed()}};
    if (mark) {
      body["conversation"]["position"] = mark->position;
      body["conversation"]["generation"] = mark->generation;
    }
  }
  if (!warnings_.empty()) body["warnings"] = warnings_;
}

std::string Answer::unshown(const Job& job) const {
  // A completion that is kept goes on with it.
  return chat_ || conversation_.empty() ? job.result().held_back : std::string();
}

std::string Answer::whole(const Job& job, const std::string& text,
                          const std::optional<StateMark>& mark) const {
  nlohmann::ordered_json choice = {{"index", 0}};
  if (chat_) {
    choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason(job.result());
  nlohmann::ordered_json body = head(chat_ ? "chat.completion" : "text_completion");
  body["choices"] = nlohmann::ordered_json::array({choice});
  body["usage"] = usage(job);
  add_state(body, job, mark);
  return dump(body);
}

std::string Answer::opening() const {
  if (!chat_) return {};
  nlohmann::ordered_json chunk = head("chat.completion.chunk");
  chunk["choices"] =
      nlohmann::ordered_json::array({{{"index", 0},
                                      {"delta", {{"role", "assistant"}, {"content", ""}}},
                                      {"logprobs", nullptr},
                                      {"finish_reason", nullptr}}});
  return sse(chunk);
}

std::string Answer::event(std::string_view text) const {
  nlohmann::ordered_json choice = {{"index", 0}};
  if (chat_) {
    choice["delta"] = {{"content", text}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = nullptr;
  nlohmann::ordered_json chunk = head(chat_ ? "chat.completion.chunk" : "text_completion");
  chunk["choices"] = nlohmann::ordered_json::array({choice});
  return sse(chunk);
}

std::string Answer::closing(const Job& job, const std::optional<StateMark>& mark) const {
  std::string events;
  if (const std::string rest = unshown(job); !rest.empty()) events += event(rest);
  nlohmann::ordered_json choice = {{"index", 0}};
  if (chat_) {
    choice["delta"] = nlohmann::ordered_json::object();
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason(job.result());
  nlohmann::ordered_json chunk = head(chat_ ? "chat.completion.chunk" : "text_completion");
  chunk["choices"] = nlohmann::ordered_json::array({choice});
  add_state(chunk, job, mark);
  events += sse(chunk);
  if (include_usage_) {
    nlohmann::ordered_json last = head(chat_ ? "chat.completion.chunk" : "text_completion");
    last["choices"] = nlohmann::ordered_json::array();
    last["usage"] = usage(job);
    events += sse(last);
  }
  return events + "data: [DONE]\n\n";
}

}  // namespace runnel::serve
