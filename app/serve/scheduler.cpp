// SPDX-License-Identifier: Apache-2.0
#include "app/serve/scheduler.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/model/session_impl.h"
#include "runtime/sampling/logprobs.h"

namespace runnel::serve {
namespace {

constexpr std::uint64_t kYoung = 64;     // tokens until which the shorter answer goes first
constexpr std::size_t kLeastPiece = 16;  // of a prompt, so that a slice is not cut into crumbs

}  // namespace

// ---- Job ----

Job::News Job::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return over_ || !text_.empty() || !thought_.empty(); });
  return {.text = std::exchange(text_, {}),
          .thought = std::exchange(thought_, {}),
          .logprobs = std::exchange(logprobs_, {}),
          .over = over_};
}

void Job::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

bool Job::over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

bool Job::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void Job::say(std::string_view text, std::string Job::*where) {
  {
    const std::lock_guard lock(mutex_);
    this->*where += text;
  }
  changed_.notify_one();
  if (on_news) on_news();
}

void Job::let_copies_begin(const std::optional<Snapshot>& start) {
  for (const std::shared_ptr<Job>& copy : copies_of_it_) {
    copy->start_ = start;
    if (start) copy->prompt_logprobs_ = prompt_logprobs_;
    copy->ready_ = true;
  }
  copies_of_it_.clear();
}

void Job::refuse() { finish(Error{ErrorCode::cancelled, "the queue is full"}); }

void Job::finish(std::optional<Error> error) {
  done_ = true;
  error_ = std::move(error);
  let_copies_begin({});  // if they could not yet, they read the prompt themselves
  const bool lost = error_ && error_->code == ErrorCode::device;
  if (when_over) when_over(*this, lost ? nullptr : std::move(session_));
  session_.reset();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  if (on_news) on_news();
  when_over = nullptr;  // they may hold what holds this job
  on_news = nullptr;
}

// ---- Scheduler ----

Scheduler::Scheduler(Settings settings)
    : settings_(settings),
      pace_(settings.prefill, settings.slice, settings.pause),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

void Scheduler::stop() {
  {
    const std::lock_guard lock(mutex_);
    thread_.request_stop();
  }
  arrived_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Scheduler::submit(std::span<const std::shared_ptr<Job>> jobs) {
  {
    const std::lock_guard lock(mutex_);
    if (thread_.get_stop_token().stop_requested()) return false;
    // The queue is what waits while all places are taken.
    const std::size_t under_way = waiting_.size() + counts_.active;
    if (under_way + jobs.size() > settings_.queue + settings_.parallel) return false;
    waiting_.insert(waiting_.end(), jobs.begin(), jobs.end());
  }
  arrived_.notify_one();
  return true;
}

Scheduler::Counts Scheduler::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.active = std::min(counts_.active, settings_.parallel);
  counts.waiting = waiting_.size() + counts_.active - counts.active;
  return counts;
}

// Among those that can begin, the first of the client with the fewest jobs under way; the end if there is none.
std::deque<std::shared_ptr<Job>>::iterator Scheduler::next_waiting() {
  const auto under_way = [this](const std::shared_ptr<Job>& job) {
    return std::count_if(active_.begin(), active_.end(),
                         [&](const auto& other) { return other->client == job->client; });
  };
  auto best = std::find_if(waiting_.begin(), waiting_.end(),
                           [](const std::shared_ptr<Job>& job) { return job->ready_; });
  if (best == waiting_.end()) return best;
  auto least = under_way(*best);
  for (auto at = std::next(best); at != waiting_.end() && least > 0; ++at) {
    if (!(*at)->ready_ || (*at)->client == (*best)->client) continue;
    if (const auto count = under_way(*at); count < least) {
      best = at;
      least = count;
    }
  }
  return best;
}

void Scheduler::contend(Job& job, std::uint64_t had) {
  contenders_.push_back(
      {.client = job.client, .had = had, .arrival = job.arrival_, .skipped = job.skipped_});
  contending_.push_back(&job);
}

// Those of contending_ whose turn it is.
std::vector<Job*> Scheduler::winners(std::size_t places) {
  for (Job* job : contending_) ++job->skipped_;
  std::vector<Job*> chosen;
  for (const std::size_t i : choose_turns(contenders_, places)) {
    contending_[i]->skipped_ = 0;
    chosen.push_back(contending_[i]);
  }
  contenders_.clear();
  contending_.clear();
  return chosen;
}

Result<Session> Scheduler::new_session(const Job& job) const {
  RUNNEL_TRY(Session session, Session::create(job.model_));
  if (settings_.initial && !job.start_) RUNNEL_CHECK_OK(session.restore(*settings_.initial));
  return session;
}

// Fills free places; waits if there is nothing to do. False: stop.
bool Scheduler::admit(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (active_.empty()) {
    arrived_.wait(lock, [&] { return !waiting_.empty() || stop.stop_requested(); });
  }
  if (stop.stop_requested()) return false;
  while (!waiting_.empty() && active_.size() < settings_.parallel + settings_.extra) {
    const auto next = next_waiting();
    if (next == waiting_.end()) break;
    active_.push_back(std::move(*next));
    waiting_.erase(next);
    Job& job = *active_.back();
    job.arrival_ = ++arrivals_;
    if (!job.session_) {
      Result<Session> made = new_session(job);
      if (!made) {
        end(job, made.error());
        continue;
      }
      job.session_ = std::make_unique<Session>(std::move(*made));
    }
    if (job.start_) {
      if (const Status begun = job.session_->restore(*job.start_); !begun) {
        end(job, begun.error());
        continue;
      }
      job.start_.reset();
      job.consumed_ = job.tokens_.size();
    }
    job.options_.on_logprobs = [&job](const TokenLogprobs& at) {
      const std::lock_guard own(job.mutex_);
      job.logprobs_.push_back(at);
    };
    job.on_text_ = [&job](std::string_view text) {
      job.say(text, &Job::text_);
      return true;
    };
    job.options_.on_thought = [&job](std::string_view text) {
      job.say(text, &Job::thought_);
      return true;
    };
    if (job.consumed_ == job.tokens_.size()) begin_generation(job);
  }
  counts_.active = active_.size();
  return true;
}

void Scheduler::work(const std::stop_token& stop) {
  while (admit(stop)) {
    try {
      choose_tokens();
      decode();
      read_prompts();
    } catch (const std::bad_alloc&) {  // whoever it hit, all give back what they hold
      for (const std::shared_ptr<Job>& job : active_) {
        if (!job->done_) end(*job, Error{ErrorCode::out_of_memory, "the server is out of memory"});
      }
    }
    sweep();
  }
  const Error stopping{ErrorCode::cancelled, "the server is stopping"};
  for (const std::shared_ptr<Job>& job : active_) {
    if (!job->done_) end(*job, stopping);
  }
  active_.clear();
  std::deque<std::shared_ptr<Job>> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(waiting_);
    counts_.active = 0;
  }
  for (const std::shared_ptr<Job>& job : left) job->finish(stopping);
}

void Scheduler::begin_generation(Job& job) {
  if (!job.copies_of_it_.empty() || job.keeps_start_) {
    Result<Snapshot> start = job.session_->snapshot();
    if (start && job.keeps_start_) job.start_ = *start;
    job.let_copies_begin(start ? std::optional(*std::move(start)) : std::nullopt);
  }
  Result<SessionGeneration> made =
      SessionGeneration::create(*job.session_, job.options_, job.on_text_);
  if (!made) return end(job, made.error());
  job.generation_.emplace(std::move(*made));
}

// Reads a few tokens of a prompt by itself, since all of their logits are wanted.
void Scheduler::score_piece(Job& job) {
  constexpr std::size_t kMost = 16;
  const std::size_t size = std::min(kMost, job.tokens_.size() - job.consumed_);
  const std::span<const TokenId> piece = std::span(job.tokens_).subspan(job.consumed_, size);
  const Result<std::span<const float>> now = job.session_->logits();
  if (!now) return end(job, now.error());
  const std::vector<float> before(now->begin(), now->end());
  const Result<std::vector<float>> logits = job.session_->score(piece);
  if (!logits) return end(job, logits.error());
  const std::size_t vocab = logits->size() / size;
  const auto top = static_cast<std::size_t>(std::max(job.options_.logprobs, 0));
  for (std::size_t i = 0; i < size; ++i) {
    const std::span<const float> at =
        i == 0 ? std::span(before) : std::span(*logits).subspan((i - 1) * vocab, vocab);
    job.prompt_logprobs_.push_back(
        at.empty() ? TokenLogprobs{{piece[i], std::numeric_limits<float>::quiet_NaN()}, {}}
                   : token_logprobs(at, piece[i], top));
  }
  job.consumed_ += size;
  if (job.consumed_ == job.tokens_.size()) begin_generation(job);
}

// Hidden states come of one prompt at a time.
void Scheduler::embed_piece(Job& job, std::size_t most) {
  const std::size_t size =
      std::min({std::size_t{Engine::kHiddenTokens}, std::max<std::size_t>(1, most),
                job.tokens_.size() - job.consumed_});
  std::vector<float> hidden(size * static_cast<std::size_t>(job.model_->info().hidden_size));
  const Status read = impl_of(*job.session_)
                          .hidden(std::span(job.tokens_).subspan(job.consumed_, size), hidden, {});
  if (!read) return end(job, read.error());
  job.pool_->add(hidden);
  job.consumed_ += size;
  if (job.consumed_ < job.tokens_.size()) return;
  Result<std::vector<float>> made = job.pool_->finish();
  if (!made) return end(job, made.error());
  job.embedding_ = *std::move(made);
  end(job, {});
}

void Scheduler::end(Job& job, std::optional<Error> error) {
  if (job.generation_) {
    job.result_ = finish_unsettled(*job.generation_, job.settling_);
  }
  job.generation_.reset();
  job.finish(std::move(error));
}

// Decides for every job that is past its prompt and has its turn what it says next; those that have
// nothing to say are over.
void Scheduler::choose_tokens() {
  feeds_.clear();
  fed_.clear();
  for (const std::shared_ptr<Job>& job : active_) {
    if (job->done_) continue;
    if (job->generation_) {
      contend(*job, std::min(job->said_, kYoung));
    } else if (!job->when_over && job->cancelled()) {
      end(*job, Error{ErrorCode::cancelled, "the client went away"});
    }
  }
  for (Job* job : winners(settings_.parallel)) {
    const Result<std::optional<TokenId>> token = job->generation_->choose(job->cancelled());
    if (!token) {
      end(*job, token.error());
    } else if (!token->has_value()) {
      end(*job, {});
    } else {
      job->next_ = **token;
      ++job->said_;
      fed_.push_back(job);
      feeds_.push_back(
          {.session = job->session_.get(), .tokens = std::span(&job->next_, 1), .generated = true});
    }
  }
}

// One pass or more with all of feeds_, which are sessions of one model.
std::span<const FeedResult> Scheduler::feed_all() {
  if (feeds_.empty()) return {};
  if (!batch_) batch_.emplace(feeds_[0].session->shared_model());
  return batch_->run(feeds_);
}

void Scheduler::decode() {
  if (feeds_.empty()) return;
  const auto begin = std::chrono::steady_clock::now();
  const std::span<const FeedResult> fed = feed_all();
  pace_.decoded(std::chrono::steady_clock::now() - begin);
  std::uint64_t generated = 0;
  for (std::size_t i = 0; i < fed_.size(); ++i) {
    Job* const job = fed_[i];
    if (!fed[i].status) {
      end(*job, fed[i].status.error());
      continue;
    }
    ++generated;
    job->generation_->took(job->next_);
    if (job->generation_->over()) end(*job, {});
  }
  const std::lock_guard lock(mutex_);
  ++counts_.passes;
  counts_.generated += generated;
}

// Reads as much of the prompts as fits a slice of time while others answer, the shortest rest
// first.
void Scheduler::read_prompts() {
  const bool others = !feeds_.empty();
  feeds_.clear();
  fed_.clear();
  for (const std::shared_ptr<Job>& job : active_) {
    if (!job->done_ && !job->generation_) contend(*job, job->tokens_.size() - job->consumed_);
  }
  if (contending_.empty()) return;
  const std::size_t budget = pace_.tokens(others);
  std::vector<Job*> readers = winners(std::max<std::size_t>(1, budget / kLeastPiece));
  const auto rest = [](const Job* job) { return job->tokens_.size() - job->consumed_; };
  std::sort(readers.begin(), readers.end(), [&](auto* x, auto* y) { return rest(x) < rest(y); });
  std::size_t left = budget;
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t share = std::max<std::size_t>(1, budget / readers.size());
  std::erase_if(readers, [&](Job* job) {
    if (!job->scores_ && !job->pool_) return false;
    const std::size_t before = job->consumed_;
    if (job->pool_) {
      embed_piece(*job, share);
    } else {
      score_piece(*job);
    }
    left -= std::min(left, job->consumed_ - before);
    return true;
  });
  for (std::size_t i = 0; i < readers.size(); ++i) {  // what short ones leave goes to longer ones
    Job& job = *readers[i];
    const std::size_t piece =
        std::min(std::max<std::size_t>(1, left / (readers.size() - i)), rest(&job));
    feeds_.push_back({.session = job.session_.get(),
                      .tokens = std::span(job.tokens_).subspan(job.consumed_, piece)});
    fed_.push_back(&job);
    left -= std::min(left, piece);
  }
  const std::span<const FeedResult> fed = feed_all();
  pace_.took(budget - left, std::chrono::steady_clock::now() - begin);
  for (std::size_t i = 0; i < fed_.size(); ++i) {
    Job& job = *fed_[i];
    if (!fed[i].status) {
      end(job, fed[i].status.error());
      continue;
    }
    job.consumed_ += feeds_[i].tokens.size();
    if (job.consumed_ == job.tokens_.size()) begin_generation(job);
  }
}

void Scheduler::sweep() {
  const std::size_t before = active_.size();
  std::erase_if(active_, [](const std::shared_ptr<Job>& job) { return job->done_; });
  const std::lock_guard lock(mutex_);
  counts_.active = active_.size();
  counts_.finished += before - active_.size();
}

}  // namespace runnel::serve
