// SPDX-License-Identifier: Apache-2.0
// /v1/chat/completions and /v1/completions: from a request's body to its answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "app/serve/json_fields.h"
#include "app/serve/kept_states.h"
#include "app/serve/net/http.h"
#include "app/serve/request.h"
#include "app/serve/scheduler.h"
#include "app/serve/workers.h"
#include "runnel/model.h"

namespace runnel::serve {

class Completions {
 public:
  struct Settings {
    RequestLimits limits;
    std::uint64_t most_prompt = 32'768;
    std::size_t queue = 64;                // for its message
    std::size_t most_prompts = 72;         // of one request: more would never find room
    std::optional<Snapshot> initial = {};  // the state before the first token; none: the empty one
  };

  Completions(std::shared_ptr<const Model> model, Settings settings, KeptStates& states,
              Scheduler& scheduler, Workers& workers)
      : model_(std::move(model)),
        settings_(std::move(settings)),
        states_(states),
        scheduler_(scheduler),
        workers_(workers) {}

  /// Reads the request and starts it. On a worker's thread; the answer comes later.
  void answer(const std::shared_ptr<Exchange>& exchange, bool chat);

 private:
  class Running;

  std::optional<HttpError> start(const std::shared_ptr<Running>& running, Request request);
  using Tokens = std::vector<TokenId>;
  /// Where a conversation goes before its new messages are read: a chat template may lay earlier ones out anew.
  enum class Back { nowhere, before_answer, to_beginning };
  std::variant<std::vector<Tokens>, HttpError> tokens_of(const Request& request,
                                                         const KeptStates::Taken& taken,
                                                         MessageTrail& trail, Back& back) const;
  std::variant<Tokens, HttpError> chat_tokens(const Request& request,
                                              const KeptStates::Taken& taken, MessageTrail& trail,
                                              Back& back) const;
  Status go_back(KeptState& state, Back back) const;
  std::optional<HttpError> check(const Request& request, const std::vector<Tokens>& prompts) const;

  const std::shared_ptr<const Model> model_;
  const Settings settings_;
  KeptStates& states_;
  Scheduler& scheduler_;
  Workers& workers_;
};

/// An error of the library as a client is told it.
HttpError of_error(const Error& error);

/// The tokens of a prompt that came in the field `name`. @return 400 for a token that the model does not have
std::variant<std::vector<TokenId>, HttpError> tokens_of_prompt(const Model& model,
                                                               const Prompt& prompt,
                                                               const char* name);

/// An error as an answer.
HttpReply error_reply(const HttpError& error);

}  // namespace runnel::serve
