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

nlohmann::ordered_json Answer::chunk(nlohmann::ordered_json choices) const {
  nlohmann::ordered_json chunk = head(chat_ ? "chat.completion.chunk" : "text_completion");
  chunk["choices"] = std::move(choices);
  return chunk;
}

// Tokens that the state had read before count as cached: nothing is read twice.
nlohmann::ordered_json Answer::usage(const Jobs& jobs) {
  std::uint64_t prompt = 0, completion = 0, cached = 0;
  for (const std::shared_ptr<Job>& job : jobs) {
    prompt += job->position_before() + job->fed();
    completion += job->result().tokens.size();
    cached += job->position_before();
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

// Where the conversation stands.
void Answer::add_state(nlohmann::ordered_json& body, const Job& job,
                       const std::optional<StateMark>& mark) const {
  if (conversation_.empty()) return;
  body["conversation"] = {{"id", conversation_},
                          {"begun", job.position_before() == 0},
                          {"cached_tokens", job.position_before()},
                          {"fed_tokens", job.fed()}};
  if (mark) {
    body["conversation"]["position"] = mark->position;
    body["conversation"]["generation"] = mark->generation;
  }
}

std::string Answer::unshown(const Job& job) const {
  // A completion that is kept goes on with it.
  return chat_ || conversation_.empty() ? job.result().held_back : std::string();
}

std::string Answer::whole(const Jobs& jobs, const std::optional<StateMark>& mark) const {
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (const std::shared_ptr<Job>& job : jobs) {
    const std::string text = job->result().text + unshown(*job);
    nlohmann::ordered_json choice = {{"index", choices.size()}};
    if (chat_) {
      choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
      if (const std::string& thought = job->result().thought; !thought.empty())
        choice["message"]["reasoning_content"] = thought;
    } else {
      choice["text"] = text;
    }
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = finish_reason(job->result());
    choices.push_back(std::move(choice));
  }
  nlohmann::ordered_json body = head(chat_ ? "chat.completion" : "text_completion");
  body["choices"] = std::move(choices);
  body["usage"] = usage(jobs);
  add_state(body, *jobs.front(), mark);
  if (!warnings_.empty()) body["warnings"] = warnings_;
  return dump(body);
}

// Says at once whether a conversation goes on or begins.
std::string Answer::opening(const Job& first) const {
  if (!chat_ && conversation_.empty()) return {};
  nlohmann::ordered_json choice = {{"index", 0}};
  if (chat_) {
    choice["delta"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = nullptr;
  nlohmann::ordered_json begin = chunk(nlohmann::ordered_json::array({choice}));
  add_state(begin, first, {});
  return sse(begin);
}

std::string Answer::event(std::size_t index, std::string_view text) const {
  nlohmann::ordered_json choice = {{"index", index}};
  if (chat_) {
    choice["delta"] = {{"content", text}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = nullptr;
  return sse(chunk(nlohmann::ordered_json::array({choice})));
}

std::string Answer::thought_event(std::size_t index, std::string_view text) const {
  nlohmann::ordered_json choice = {{"index", index},
                                   {"delta", {{"reasoning_content", text}}},
                                   {"logprobs", nullptr},
                                   {"finish_reason", nullptr}};
  return sse(chunk(nlohmann::ordered_json::array({choice})));
}

std::string Answer::choice_end(std::size_t index, const Job& job,
                               const std::optional<StateMark>& mark) const {
  std::string events;
  if (const std::string rest = unshown(job); !rest.empty()) events += event(index, rest);
  nlohmann::ordered_json choice = {{"index", index}};
  if (chat_) {
    choice["delta"] = nlohmann::ordered_json::object();
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason(job.result());
  nlohmann::ordered_json end = chunk(nlohmann::ordered_json::array({choice}));
  add_state(end, job, mark);
  if (!warnings_.empty() && index == 0) end["warnings"] = warnings_;
  return events + sse(end);
}

std::string Answer::closing(const Jobs& jobs) const {
  std::string events;
  if (include_usage_) {
    nlohmann::ordered_json last = chunk(nlohmann::ordered_json::array());
    last["usage"] = usage(jobs);
    events += sse(last);
  }
  return events + "data: [DONE]\n\n";
}

}  // namespace runnel::serve
