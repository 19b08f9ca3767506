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

  /// @param id  of the request
  Answer(const Request& request, std::string model, const std::string& id);

  /// The whole answer. Each of `jobs` is over and has no error; `mark` is where a conversation
  /// stands.
  std::string whole(const Jobs& jobs, const std::optional<StateMark>& mark) const;

  /// Events of a stream: before the first text, for a text of a choice, after a choice's last text
  /// (`mark` as above), after all.
  std::string opening(const Job& first) const;
  std::string event(std::size_t index, std::string_view text) const;
  std::string thought_event(std::size_t index, std::string_view text) const;
  std::string choice_end(std::size_t index, const Job& job,
                         const std::optional<StateMark>& mark) const;
  std::string closing(const Jobs& jobs) const;

 private:
  nlohmann::ordered_json head(const char* object) const;
  nlohmann::ordered_json chunk(nlohmann::ordered_json choices) const;
  static nlohmann::ordered_json usage(const Jobs& jobs);
  /// The text that a stop string might have begun and that nobody will see otherwise.
  std::string unshown(const Job& job) const;
  void add_state(nlohmann::ordered_json& body, const Job& job,
                 const std::optional<StateMark>& mark) const;

  const bool chat_;
  const bool include_usage_;
  const std::string conversation_;
  const std::vector<std::string> warnings_;
  const std::string model_;
  const std::string id_;
  const std::int64_t created_;  // seconds since 1970
};

/// One server-sent event.
std::string sse(const nlohmann::ordered_json& data);

}  // namespace runnel::serve
