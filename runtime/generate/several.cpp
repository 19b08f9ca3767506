// SPDX-License-Identifier: Apache-2.0
// generate_several(): forks of a session, of which each pass computes a token of all.
#include <memory>
#include <new>
#include <utility>

#include "runnel/batch.h"
#include "runnel/generation.h"
#include "runtime/base/try.h"
#include "runtime/generate/session_generation.h"

namespace runnel {
namespace {

/// One of the answers. It stays where it is: what generates refers to its parts.
struct Answer {
  explicit Answer(Session fork) : session(std::move(fork)) {}

  Session session;
  std::optional<SessionGeneration> generation;
  TokenId next = 0;
};

/// A token of every answer that goes on. False: none does.
Result<bool> step(std::span<const std::unique_ptr<Answer>> answers, SessionBatch& batch,
                  bool stopped) {
  std::vector<SessionFeed> feeds;
  std::vector<Answer*> fed;
  for (const std::unique_ptr<Answer>& answer : answers) {
    if (answer->generation->over()) continue;
    RUNNEL_TRY(const std::optional<TokenId> token, answer->generation->choose(stopped));
    if (!token) continue;
    answer->next = *token;
    fed.push_back(answer.get());
    feeds.push_back(
        {.session = &answer->session, .tokens = std::span(&answer->next, 1), .generated = true});
  }
  for (const FeedResult& result : batch.run(feeds)) RUNNEL_CHECK_OK(result.status);
  for (Answer* answer : fed) answer->generation->took(answer->next);
  return !fed.empty();
}

}  // namespace

double mean_logprob(const GenerationResult& result) {
  double sum = 0;
  for (const TokenLogprobs& at : result.logprobs) sum += double{at.chosen.logprob};
  return result.logprobs.empty() ? 0.0 : sum / static_cast<double>(result.logprobs.size());
}

Result<std::vector<GenerationResult>> generate_several(const Session& session, std::size_t n,
                                                       const GenerationOptions& options,
                                                       const AnswerCallback& on_text,
                                                       std::stop_token stop) try {
  if (n < 1 || n > kMostAnswers) {
    return fail(ErrorCode::invalid_argument, "n is ", n, ", expected 1 to ",
                std::size_t{kMostAnswers});
  }
  std::vector<std::unique_ptr<Answer>> answers;
  for (std::size_t i = 0; i < n; ++i) {
    RUNNEL_TRY(Session fork, session.fork());
    answers.push_back(std::make_unique<Answer>(std::move(fork)));
    Answer& answer = *answers.back();
    GenerationOptions own = options;
    own.sampling.seed += i;
    TextCallback show;
    if (on_text) show = [&on_text, i](std::string_view text) { return on_text(i, text); };
    RUNNEL_TRY(SessionGeneration made,
               SessionGeneration::create(answer.session, std::move(own), std::move(show)));
    answer.generation.emplace(std::move(made));
  }
  SessionBatch batch(session.shared_model());
  for (bool more = true; more;) {
    RUNNEL_TRY(more, step(answers, batch, stop.stop_requested()));
  }
  std::vector<GenerationResult> results;
  results.reserve(answers.size());
  for (const std::unique_ptr<Answer>& answer : answers)
    results.push_back(Access::impl(*answer->generation).end());
  return results;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "generate: not enough memory for ", n, " answers");
}

}  // namespace runnel
