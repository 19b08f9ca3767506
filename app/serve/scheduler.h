// SPDX-License-Identifier: Apache-2.0
// Runs the requests of many clients over one model: one thread, one pass a token for all of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "app/serve/turns.h"
#include "runnel/batch.h"
#include "runnel/generation.h"
#include "runnel/session.h"
#include "runnel/snapshot.h"
#include "runtime/generate/session_generation.h"
#include "runtime/model/hidden_pool.h"

namespace runnel::serve {

/// One request under way. The scheduler's thread works on it, any other looks at it.
class Job {
 public:
  /// What is new since the last look.
  struct News {
    std::string text;
    std::string thought;  // before it
    std::vector<TokenLogprobs> logprobs;
    bool over = false;
  };

  /// @param session  to continue; null: a new one on `model`, made when the job starts: waiting costs no state
  Job(std::shared_ptr<const Model> model, std::unique_ptr<Session> session,
      std::vector<TokenId> tokens, GenerationOptions options)
      : model_(std::move(model)),
        session_(std::move(session)),
        tokens_(std::move(tokens)),
        position_before_(session_ ? session_->position() : 0),
        options_(std::move(options)) {}

  /// Waits until there is text, the end, or `timeout` is over.
  News wait(std::chrono::milliseconds timeout);
  /// The same without waiting.
  News look() { return wait(std::chrono::milliseconds(0)); }

  /// Stops it at its next token. Idempotent, from any thread.
  void cancel();

  bool over() const;

  // Once it is over:
  const std::optional<Error>& error() const { return error_; }
  const GenerationResult& result() const { return result_; }
  /// The session behind the prompt, before what it generated; none if it was not to be kept or did not come so far.
  const std::optional<Snapshot>& start() const { return start_; }
  /// Leaves the session as a reading of the transcript would; it may read much of the answer again.
  Status settle(Session& session) { return settling_ ? settling_(session, result_) : Status(); }
  std::uint64_t fed() const { return copies_ ? 0 : tokens_.size(); }
  std::span<const TokenId> prompt() const { return tokens_; }
  /// Those of each token of the prompt, if it was asked to score it; NaN for the first.
  const std::vector<TokenLogprobs>& prompt_logprobs() const { return prompt_logprobs_; }

  /// Before it is submitted: it also gives the probabilities of its prompt's tokens.
  void score_prompt() { scores_ = true; }
  /// Before it is submitted: it makes an embedding of its prompt and generates nothing.
  void embed_prompt(const EmbeddingOptions& options) {
    pool_.emplace(static_cast<std::size_t>(model_->info().hidden_size), options);
  }
  const std::vector<float>& embedding() const { return embedding_; }
  /// Before both are submitted: it answers the same prompt as `first`, which alone reads it.
  void copy_prompt_of(Job& first, const std::shared_ptr<Job>& self) {
    copies_ = true;
    ready_ = false;
    first.copies_of_it_.push_back(self);
  }
  std::uint64_t position_before() const { return position_before_; }
  /// Before it is submitted: start() will say where the session stood behind the prompt.
  void keep_start() { keeps_start_ = true; }

  /// It could not be submitted: calls when_over().
  void refuse();

  /// Called when it is over, before the client learns of it, with the session: null if there is
  /// none or it was lost. A job that has it reads its prompt to the end even when it is cancelled,
  /// so that the session stays of use.
  std::function<void(Job&, std::unique_ptr<Session>)> when_over;

  /// Who asks: clients share the turns alike.
  std::string client;

  /// Called when there is something to see for look(), on the scheduler's thread: be quick.
  std::function<void()> on_news;

 private:
  friend class Scheduler;

  bool cancelled() const;
  void say(std::string_view text, std::string Job::*where);
  void let_copies_begin(const std::optional<Snapshot>& start);
  void finish(std::optional<Error> error);

  // Only the scheduler's thread uses these.
  const std::shared_ptr<const Model> model_;
  std::unique_ptr<Session> session_;
  std::vector<TokenId> tokens_;  // to feed before generating
  std::size_t consumed_ = 0;     // of them
  std::uint64_t position_before_;
  bool done_ = false;
  std::uint64_t arrival_ = 0;
  std::uint64_t skipped_ = 0;  // turns since its last one
  std::uint64_t said_ = 0;     // tokens
  GenerationOptions options_;
  TextCallback on_text_;
  bool scores_ = false;
  std::vector<TokenLogprobs> prompt_logprobs_;
  std::optional<HiddenPool> pool_;  // of a job that embeds
  std::vector<float> embedding_;
  bool copies_ = false;  // the prompt of another
  bool ready_ = true;    // that one has read it, or never will
  bool keeps_start_ = false;
  std::optional<Snapshot> start_;                   // after the prompt
  std::vector<std::shared_ptr<Job>> copies_of_it_;  // until they are ready
  std::optional<SessionGeneration> generation_;     // from the end of the prefill on
  TokenId next_ = 0;                                // chosen for the pass that comes
  std::optional<Error> error_;
  GenerationResult result_;
  Settling settling_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;                     // not fetched yet; at most what one generation writes
  std::string thought_;                  // likewise
  std::vector<TokenLogprobs> logprobs_;  // likewise
  bool over_ = false;
  bool cancelled_ = false;
};

/// Every pass gives a token to each of `parallel` jobs, prompts are read in slices of time between
/// the passes. When there are more jobs than turns, `extra` of them hold a session as well and
/// those go first that have had least, so that a short answer need not wait for the end of long
/// ones; clients share the turns alike.
class Scheduler {
 public:
  struct Settings {
    std::size_t parallel = 8;             // jobs that advance together
    std::size_t extra = 0;                // jobs that take turns with them
    std::size_t queue = 64;               // jobs that wait, those that take turns included
    std::size_t prefill = 128;            // most prompt tokens between two passes
    std::chrono::milliseconds slice{50};  // for reading prompts between two passes
    std::chrono::milliseconds pause{85};  // for both, where the model is not too slow for that
    std::optional<Snapshot> initial =
        {};  // where new sessions begin, see initial_state(); none: the empty state
  };

  explicit Scheduler(Settings settings);
  ~Scheduler() { stop(); }
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// All of them or none. @return false if the queue is full; they are then untouched.
  bool submit(std::span<const std::shared_ptr<Job>> jobs);
  bool submit(const std::shared_ptr<Job>& job) { return submit(std::span(&job, 1)); }

  /// Ends what runs and what waits with an error. Returns when all of it has ended; idempotent.
  void stop();

  struct Counts {
    std::size_t active = 0;
    std::size_t waiting = 0;
    std::uint64_t finished = 0;
    std::uint64_t generated = 0;  // tokens
    std::uint64_t passes = 0;     // of decoding
  };
  Counts counts() const;

 private:
  void work(const std::stop_token& stop);
  bool admit(const std::stop_token& stop);
  Result<Session> new_session(const Job& job) const;
  std::deque<std::shared_ptr<Job>>::iterator next_waiting();
  void contend(Job& job, std::uint64_t had);
  std::vector<Job*> winners(std::size_t places);
  void choose_tokens();
  std::span<const FeedResult> feed_all();
  void decode();
  void read_prompts();
  void begin_generation(Job& job);
  void score_piece(Job& job);
  void embed_piece(Job& job, std::size_t most);
  void end(Job& job, std::optional<Error> error);
  void sweep();

  const Settings settings_;
  std::vector<std::shared_ptr<Job>> active_;  // of the thread
  std::optional<SessionBatch> batch_;         // of the model whose jobs come
  std::vector<SessionFeed> feeds_;
  std::vector<Job*> fed_;
  std::vector<Contender> contenders_;
  std::vector<Job*> contending_;
  PromptPace pace_;
  std::uint64_t arrivals_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::shared_ptr<Job>> waiting_;
  Counts counts_;
  std::jthread thread_;  // last: joined before the rest goes
};

}  // namespace runnel::serve
