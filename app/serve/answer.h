// SPDX-License-Identifier: Apache-2.0
// What a client gets for a request: one JSON object, or a stream of events.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/serve/request.h"
#include "app/serve/scheduler.h"

namespace runnel::serve {

/// OpenAI's forms of one answer, which has a choice for every prompt.
class Answer {
 public:
  using Jobs = std::vector<std::shared_ptr<Job>>;

  /// @param name  of the model, for the client
  /// @param id    of the request
  Answer(const Request& request, std::shared_ptr<const Model> model, std::string name,
         const std::string& id);

  /// The jobs whose answers the client gets: of the best_of to each prompt the n likeliest.
  Jobs chosen(const Jobs& jobs) const;

  /// The whole answer. Each of `jobs` is over and has no error; `mark` is where a conversation
  /// stands.
  std::string whole(const Jobs& jobs, const std::optional<StateMark>& mark) const;

  /// Events of a stream: before the first text, for a text of a choice, after a choice's last text
  /// (`mark` as above), after all.
  std::string opening(const Job& first) const;
  /// `offset` is that of the logprobs' first token in the choice's text, and then that behind their last.
  std::string event(std::size_t index, std::string_view text,
                    std::span<const TokenLogprobs> logprobs, std::size_t& offset) const;
  std::string thought_event(std::size_t index, std::string_view text) const;
  /// With tools: for what a reader of calls gave of a choice's text, which it is put together from in `answer`.
  std::string tool_events(std::size_t index, const std::vector<ToolEvent>& events,
                          std::span<const TokenLogprobs> logprobs, std::size_t& offset,
                          CallAnswer& answer) const;
  /// The prompt, before a choice's first text: with `echo`.
  std::string echo(std::size_t index, const Job& job, std::size_t& offset) const;
  /// `answer`: with tools, all of it.
  std::string choice_end(std::size_t index, const Job& job, const std::optional<StateMark>& mark,
                         const CallAnswer* answer = nullptr) const;
  std::string closing(const Jobs& jobs) const;

  /// The id of a choice's call.
  std::string call_id(std::size_t index, std::size_t call) const;
  /// The text that a stop string might have begun and that nobody will see otherwise.
  std::string unshown(const Job& job) const;

 private:
  nlohmann::ordered_json head(const char* object) const;
  nlohmann::ordered_json chunk(nlohmann::ordered_json choices) const;
  static nlohmann::ordered_json usage(const Jobs& jobs);
  void add_calls(nlohmann::ordered_json& choice, std::size_t index, const Job& job,
                 const std::string& text) const;
  std::string delta(std::size_t index, nlohmann::ordered_json delta,
                    nlohmann::ordered_json logprobs = nullptr) const;
  void add_state(nlohmann::ordered_json& body, const Job& job,
                 const std::optional<StateMark>& mark) const;

  std::string text_of(TokenId token) const;
  static std::string shown(const std::string& bytes);
  /// OpenAI's form of log-probabilities, null if the client asked for none.
  /// @param offset  as of event()
  nlohmann::ordered_json logprobs_of(std::span<const TokenLogprobs> all, std::size_t& offset) const;
  nlohmann::ordered_json chat_logprobs(std::span<const TokenLogprobs> all) const;

  const bool chat_;
  const bool calls_;  // answers may have calls of tools
  const bool shows_logprobs_;
  const bool echo_;
  const std::size_t answers_;
  const std::size_t best_of_;
  const bool include_usage_;
  const std::string conversation_;
  const std::vector<std::string> warnings_;
  const std::shared_ptr<const Model> model_;
  const std::string name_;
  const std::string id_;
  const std::int64_t created_;  // seconds since 1970
};

/// One server-sent event.
std::string sse(const nlohmann::ordered_json& data);

}  // namespace runnel::serve
