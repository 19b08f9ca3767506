// SPDX-License-Identifier: Apache-2.0
#include "app/serve/scheduler.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/base/try.h"

namespace runnel::serve {

// ---- Job ----

Job::News Job::wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return over_ || !text_.empty(); });
  return {.text = std::exchange(text_, {}), .over = over_};
}

void Job::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

bool Job::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void Job::say(std::string_view text) {
  const std::lock_guard lock(mutex_);
  text_ += text;
  changed_.notify_one();
}

void Job::refuse() { finish(Error{ErrorCode::cancelled, "the queue is full"}); }

void Job::finish(std::optional<Error> error) {
  done_ = true;
  error_ = std::move(error);
  const bool lost = error_ && error_->code == ErrorCode::device;
  if (when_over) when_over(*this, lost ? nullptr : std::move(session_));
  session_.reset();
  const std::lock_guard lock(mutex_);
  over_ = true;
  changed_.notify_one();
}

// ---- Scheduler ----

Scheduler::Scheduler(Settings settings)
    : settings_(settings), thread_([this](const std::stop_token& stop) { work(stop); }) {}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    thread_.request_stop();
  }
  arrived_.notify_all();
}

bool Scheduler::submit(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (thread_.get_stop_token().stop_requested()) return false;
    // The queue is what waits while all places are taken.
    if (waiting_.size() + counts_.active >= settings_.queue + settings_.parallel) return false;
    waiting_.push_back(std::move(job));
  }
  arrived_.notify_one();
  return true;
}

Scheduler::Counts Scheduler::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.waiting = waiting_.size();
  return counts;
}

// Fills free places; waits if there is nothing to do. False: stop.
bool Scheduler::admit(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (active_.empty()) {
    arrived_.wait(lock, [&] { return !waiting_.empty() || stop.stop_requested(); });
  }
  if (stop.stop_requested()) return false;
  while (!waiting_.empty() && active_.size() < settings_.parallel) {
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    Job& job = *active_.back();
    if (!job.session_) {
      Result<Session> made = Session::create(job.model_);
      if (!made) {
        end(job, made.error());
        continue;
      }
      job.session_ = std::make_unique<Session>(std::move(*made));
    }
    job.on_text_ = [&job](std::string_view text) {
      job.say(text);
      return true;
    };
    if (job.tokens_.empty()) begin_generation(job);
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
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Job>& job : waiting_) job->finish(stopping);
  waiting_.clear();
}

void Scheduler::begin_generation(Job& job) {
  Result<SessionGeneration> made =
      SessionGeneration::create(*job.session_, job.options_, job.on_text_);
  if (!made) return end(job, made.error());
  job.generation_.emplace(std::move(*made));
}

void Scheduler::end(Job& job, std::optional<Error> error) {
  if (job.generation_) job.result_ = job.generation_->finish();
  job.generation_.reset();
  job.finish(std::move(error));
}

// Decides for every job that is past its prompt what it says next; those that have nothing to say
// are over.
void Scheduler::choose_tokens() {
  feeds_.clear();
  fed_.clear();
  for (const std::shared_ptr<Job>& job : active_) {
    if (job->done_) continue;
    const bool cancelled = job->cancelled();
    if (!job->generation_) {
      if (cancelled && !job->when_over)
        end(*job, Error{ErrorCode::cancelled, "the client went away"});
      continue;
    }
    const Result<std::optional<TokenId>> token = job->generation_->choose(cancelled);
    if (!token) {
      end(*job, token.error());
    } else if (!token->has_value()) {
      end(*job, {});
    } else {
      job->next_ = **token;
      fed_.push_back(job.get());
      feeds_.push_back(
          {.session = job->session_.get(), .tokens = std::span(&job->next_, 1), .decodes = true});
    }
  }
}

void Scheduler::decode() {
  if (feeds_.empty()) return;
  const Status ran = batch_.run(feeds_);
  for (Job* job : fed_) {
    if (!ran) {
      end(*job, ran.error());
      continue;
    }
    job->generation_->took(job->next_);
    if (job->generation_->over()) end(*job, {});
  }
  const std::lock_guard lock(mutex_);
  ++counts_.passes;
  if (ran) counts_.generated += feeds_.size();
}

// Shares the budget of prompt tokens among those who still read, beginning with another one each
// time.
void Scheduler::read_prompts() {
  feeds_.clear();
  fed_.clear();
  std::size_t readers = 0;
  for (const std::shared_ptr<Job>& job : active_)
    readers += !job->done_ && !job->generation_ ? 1U : 0U;
  if (readers == 0) return;
  const std::size_t share = std::max<std::size_t>(1, settings_.prefill / readers);
  std::size_t left = settings_.prefill;
  ++first_reader_;
  for (std::size_t i = 0; i < active_.size() && left > 0; ++i) {
    Job& job = *active_[(first_reader_ + i) % active_.size()];
    if (job.done_ || job.generation_) continue;
    const std::size_t piece = std::min({share, left, job.tokens_.size() - job.consumed_});
    feeds_.push_back({.session = job.session_.get(),
                      .tokens = std::span(job.tokens_).subspan(job.consumed_, piece)});
    fed_.push_back(&job);
    left -= piece;
  }
  const Status ran = batch_.run(feeds_);
  for (std::size_t i = 0; i < fed_.size(); ++i) {
    Job& job = *fed_[i];
    if (!ran) {
      end(job, ran.error());
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
