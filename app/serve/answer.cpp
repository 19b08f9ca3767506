// SPDX-License-Identifier: Apache-2.0
#include "app/serve/answer.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "runtime/text/utf8.h"

namespace runnel::serve {
namespace {

const char* finish_reason(const GenerationResult& result, const CallAnswer* answer = nullptr) {
  if (result.reason == FinishReason::length) return "length";
  const bool calls = answer != nullptr && !answer->whole.empty() && !answer->half_call;
  return calls ? "tool_calls" : "stop";
}

// What looked like calls and is none.
void add_broken(nlohmann::ordered_json& choice, const CallAnswer& answer) {
  for (const BrokenCall& call : answer.broken)
    choice["tool_call_errors"].push_back(
        {{"message", "the call " + call.reason}, {"text", call.text}});
}

/// As OpenAI writes what could not come; null for the first token of a text.
nlohmann::ordered_json number_of(float logprob) {
  if (std::isnan(logprob)) return nullptr;
  return std::isinf(logprob) ? -9999.0 : double{logprob};
}

}  // namespace

std::string sse(const nlohmann::ordered_json& data) { return "data: " + dump(data) + "\n\n"; }

Answer::Answer(const Request& request, std::shared_ptr<const Model> model, std::string name,
               const std::string& id)
    : chat_(request.chat),
      calls_(request.tools.may_call()),
      shows_logprobs_(request.shows_logprobs),
      echo_(request.echo),
      answers_(request.answers),
      best_of_(request.best_of),
      include_usage_(request.include_usage),
      conversation_(request.conversation),
      warnings_(request.warnings),
      model_(std::move(model)),
      name_(std::move(name)),
      id_((chat_ ? "chatcmpl-" : "cmpl-") + id),
      created_(static_cast<std::int64_t>(std::time(nullptr))) {}

Answer::Jobs Answer::chosen(const Jobs& jobs) const {
  if (best_of_ <= answers_) return jobs;
  Jobs out;
  for (std::size_t first = 0; first < jobs.size(); first += best_of_) {
    const auto begin = jobs.begin() + static_cast<std::ptrdiff_t>(first);
    Jobs all(begin, begin + static_cast<std::ptrdiff_t>(best_of_));
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return mean_logprob(a->result()) > mean_logprob(b->result());
    });
    out.insert(out.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(answers_));
  }
  return out;
}

std::string Answer::text_of(TokenId token) const {
  const Result<std::string> text = model_->decode(std::span(&token, 1), true);
  return text ? *text : std::string();
}

// As OpenAI shows a token that is no text by itself.
std::string Answer::shown(const std::string& bytes) {
  if (first_invalid_utf8(bytes) == std::string_view::npos) return bytes;
  std::string out = "bytes:";
  for (const char c : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

nlohmann::ordered_json Answer::chat_logprobs(std::span<const TokenLogprobs> all) const {
  const auto entry = [this](const TokenLogprob& one) {
    const std::string text = text_of(one.token);
    nlohmann::ordered_json bytes = nlohmann::ordered_json::array();
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    return nlohmann::ordered_json{
        {"token", shown(text)}, {"logprob", number_of(one.logprob)}, {"bytes", std::move(bytes)}};
  };
  nlohmann::ordered_json content = nlohmann::ordered_json::array();
  for (const TokenLogprobs& at : all) {
    nlohmann::ordered_json one = entry(at.chosen);
    one["top_logprobs"] = nlohmann::ordered_json::array();
    for (const TokenLogprob& top : at.top) one["top_logprobs"].push_back(entry(top));
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

nlohmann::ordered_json Answer::logprobs_of(std::span<const TokenLogprobs> all,
                                           std::size_t& offset) const {
  if (!shows_logprobs_) return nullptr;
  if (chat_) return chat_logprobs(all);
  using Json = nlohmann::ordered_json;
  Json out = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
  for (const TokenLogprobs& at : all) {
    const std::string text = text_of(at.chosen.token);
    out["tokens"].push_back(shown(text));
    out["token_logprobs"].push_back(number_of(at.chosen.logprob));
    Json top = Json::object();
    for (const TokenLogprob& one : at.top) top[shown(text_of(one.token))] = number_of(one.logprob);
    out["top_logprobs"].push_back(std::isnan(at.chosen.logprob) ? Json(nullptr) : std::move(top));
    out["text_offset"].push_back(offset);
    for (const char c : text) offset += (static_cast<unsigned char>(c) & 0xc0U) != 0x80 ? 1 : 0;
  }
  return out;
}

nlohmann::ordered_json Answer::head(const char* object) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", name_}};
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

std::string Answer::call_id(std::size_t index, std::size_t call) const {
  return "call_" + id_.substr(id_.find('-') + 1) + "_" + std::to_string(index) + "_" +
         std::to_string(call);
}

void Answer::add_calls(nlohmann::ordered_json& choice, std::size_t index, const Job& job,
                       const std::string& text) const {
  const bool cut = job.result().reason == FinishReason::length;
  const CallAnswer answer =
      answer_of(model_->tool_format(), text, cut,
                [this, index](std::size_t call) { return call_id(index, call); });
  nlohmann::ordered_json& message = choice["message"];
  message["content"] = answer.content;
  if (answer.content.empty() && !answer.whole.empty()) message["content"] = nullptr;
  for (const std::size_t at : answer.whole) {
    const ToolCall& call = answer.calls[at];
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  choice["finish_reason"] = finish_reason(job.result(), &answer);
  add_broken(choice, answer);
}

std::string Answer::whole(const Jobs& jobs, const std::optional<StateMark>& mark) const {
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (const std::shared_ptr<Job>& job : chosen(jobs)) {
    std::string text = job->result().text + unshown(*job);
    std::vector<TokenLogprobs> logprobs = job->result().logprobs;
    if (echo_) {
      logprobs.insert(logprobs.begin(), job->prompt_logprobs().begin(),
                      job->prompt_logprobs().end());
      const Result<std::string> prompt = model_->decode(job->prompt(), true);
      if (prompt) text.insert(0, *prompt);
    }
    nlohmann::ordered_json choice = {{"index", choices.size()}};
    if (chat_) {
      choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
      if (const std::string& thought = job->result().thought; !thought.empty())
        choice["message"]["reasoning_content"] = thought;
    } else {
      choice["text"] = text;
    }
    std::size_t offset = 0;
    choice["logprobs"] = logprobs_of(logprobs, offset);
    choice["finish_reason"] = finish_reason(job->result());
    if (calls_) add_calls(choice, choices.size(), *job, text);
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

std::string Answer::event(std::size_t index, std::string_view text,
                          std::span<const TokenLogprobs> logprobs, std::size_t& offset) const {
  nlohmann::ordered_json choice = {{"index", index}};
  if (chat_) {
    choice["delta"] = {{"content", text}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] =
      logprobs.empty() ? nlohmann::ordered_json(nullptr) : logprobs_of(logprobs, offset);
  choice["finish_reason"] = nullptr;
  return sse(chunk(nlohmann::ordered_json::array({choice})));
}

std::string Answer::delta(std::size_t index, nlohmann::ordered_json delta,
                          nlohmann::ordered_json logprobs) const {
  nlohmann::ordered_json choice = {{"index", index},
                                   {"delta", std::move(delta)},
                                   {"logprobs", std::move(logprobs)},
                                   {"finish_reason", nullptr}};
  return sse(chunk(nlohmann::ordered_json::array({choice})));
}

std::string Answer::thought_event(std::size_t index, std::string_view text) const {
  return delta(index, {{"reasoning_content", text}});
}

std::string Answer::tool_events(std::size_t index, const std::vector<ToolEvent>& events,
                                std::span<const TokenLogprobs> logprobs, std::size_t& offset,
                                CallAnswer& answer) const {
  using Json = nlohmann::ordered_json;
  using Kind = ToolEvent::Kind;
  std::string out;
  if (!logprobs.empty()) out += delta(index, Json::object(), logprobs_of(logprobs, offset));
  for (const ToolEvent& event : events) {
    answer.take(event, [this, index](std::size_t call) { return call_id(index, call); });
    Json call = {{"index", event.call}};
    switch (event.kind) {
      case Kind::text:
      case Kind::broken:
        out += delta(index, {{"content", event.text}});
        break;
      case Kind::begin:
        call["id"] = answer.calls.back().id;
        call["type"] = "function";
        call["function"] = {{"name", event.text}, {"arguments", ""}};
        out += delta(index, {{"tool_calls", Json::array({std::move(call)})}});
        break;
      case Kind::arguments:
        call["function"] = {{"arguments", event.text}};
        out += delta(index, {{"tool_calls", Json::array({std::move(call)})}});
        break;
      case Kind::end:
        break;
    }
  }
  return out;
}

std::string Answer::echo(std::size_t index, const Job& job, std::size_t& offset) const {
  if (!echo_) return {};
  const Result<std::string> prompt = model_->decode(job.prompt(), true);
  return event(index, prompt ? *prompt : std::string(), job.prompt_logprobs(), offset);
}

std::string Answer::choice_end(std::size_t index, const Job& job,
                               const std::optional<StateMark>& mark,
                               const CallAnswer* answer) const {
  std::string events;
  std::size_t offset = 0;  // of no token
  if (const std::string rest = unshown(job); !rest.empty() && answer == nullptr)
    events += event(index, rest, {}, offset);
  nlohmann::ordered_json choice = {{"index", index}};
  if (chat_) {
    choice["delta"] = nlohmann::ordered_json::object();
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason(job.result(), answer);
  if (answer != nullptr) add_broken(choice, *answer);
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
