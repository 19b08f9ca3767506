// SPDX-License-Identifier: Apache-2.0
#include "app/serve/completions.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "app/serve/answer.h"

namespace runnel::serve {

HttpError of_error(const Error& error) {
  if (error.code == ErrorCode::cancelled) return {503, error.message, "", "stopping"};
  const bool clients =
      error.code == ErrorCode::invalid_argument || error.code == ErrorCode::malformed;
  return {clients ? 400 : 500, error.message, "", to_string(error.code)};
}

HttpReply error_reply(const HttpError& error) {
  HttpReply reply{.status = error.status, .body = to_json(error)};
  if (error.status == 429 || error.status == 503) reply.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.exists) {
    reply.headers.emplace_back("ETag", '"' + std::to_string(error.exists->generation) + '"');
  }
  return reply;
}

// One request from its start to its answer. The scheduler's thread tells it of text and of the end,
// a worker keeps its state, the reactor's thread sends what there is.
class Completions::Running : public std::enable_shared_from_this<Running> {
 public:
  Running(Completions& owner, std::shared_ptr<Exchange> exchange)
      : owner_(owner), exchange_(std::move(exchange)) {}

  // What the conversation was like before, but for its session.
  struct Before {
    bool was_kept = false;
    KeptState state;
    MessageTrail trail;  // with this request's messages
  };

  void begin(Request request, std::shared_ptr<Job> job, Before before) {
    request_ = std::move(request);
    job_ = std::move(job);
    before_ = std::move(before);
    answer_ = std::make_unique<Answer>(request_, owner_.settings_.limits.name_of(request_.model),
                                       exchange_->request().id);
    job_->client = exchange_->request().address;
    // The job lets go of both when it is over.
    if (!request_.conversation.empty()) {
      job_->when_over = [self = shared_from_this()](Job&, std::unique_ptr<Session> session) {
        self->session_ = std::move(session);
      };
    }
    job_->on_news = [self = shared_from_this()] { self->news(); };
  }

  // The answer's head goes out; from here on the client may leave.
  void open() {
    exchange_->on_gone([job = job_] { job->cancel(); });
    if (!request_.stream) return;
    exchange_->stream({.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}},
                      [self = shared_from_this()] { return self->next(); });
  }

  void take_back() {
    job_->on_news = nullptr;
    job_->refuse();
    if (!request_.conversation.empty()) keep();
  }

 private:
  void news() {
    if (!job_->over()) return exchange_->wake();
    if (request_.conversation.empty()) return finish();
    owner_.workers_.run([self = shared_from_this()] {
      self->keep();
      self->finish();
    });
  }

  // Gives the conversation back as this request left it.
  void keep() {
    const Job& job = *job_;
    const std::string& id = request_.conversation;
    const bool untouched = session_ && session_->position() == job.position_before();
    if (!session_ || (untouched && !before_.was_kept) || (job.error() && !untouched))
      return owner_.states_.release(id, before_.state.generation);
    KeptState after = std::move(before_.state);
    after.session = std::move(session_);
    if (!untouched) {
      const bool silent = job.result().tokens.empty();
      after.trail = request_.chat ? before_.trail : MessageTrail{};
      if (request_.chat && !silent)
        after.trail.add({"assistant", job.result().text + job.result().held_back});
      after.closed = job.result().reason == FinishReason::end;
      after.awaiting = request_.chat && silent;
    }
    std::variant<StateMark, HttpError> kept =
        owner_.states_.give_back(id, std::move(after), before_.was_kept, !untouched);
    if (const auto* error = std::get_if<HttpError>(&kept)) {
      failure_ = *error;
    } else {
      mark_ = std::get<StateMark>(kept);
    }
  }

  void finish() {
    if (job_->error() && !failure_) failure_ = of_error(*job_->error());
    finished_ = true;  // publishes what keep() wrote
    if (request_.stream) return exchange_->wake();
    if (failure_) return exchange_->reply(error_reply(*failure_));
    HttpReply reply{
        .body = answer_->whole(*job_, job_->result().text + answer_->unshown(*job_), mark_)};
    if (mark_) reply.headers.emplace_back("ETag", '"' + std::to_string(mark_->generation) + '"');
    exchange_->reply(std::move(reply));
  }

  // On the reactor's thread.
  BodyPiece next() {
    const bool over = finished_;
    const Job::News news = job_->look();
    BodyPiece piece;
    if ((!news.text.empty() || over) && !std::exchange(opened_, true))
      piece.bytes = answer_->opening();
    if (!news.text.empty()) piece.bytes += answer_->event(news.text);
    if (!over) return piece;
    piece.last = true;
    piece.bytes += failure_ ? "data: " + to_json(*failure_) + "\n\ndata: [DONE]\n\n"
                            : answer_->closing(*job_, mark_);
    return piece;
  }

  Completions& owner_;
  const std::shared_ptr<Exchange> exchange_;
  Request request_;
  std::shared_ptr<Job> job_;
  std::unique_ptr<Answer> answer_;
  Before before_;
  std::unique_ptr<Session> session_;  // from the job
  std::optional<StateMark> mark_;
  std::optional<HttpError> failure_;
  std::atomic<bool> finished_{false};
  bool opened_ = false;
};

// The tokens to feed: all of a new conversation, what is new of a kept one.
std::variant<std::vector<TokenId>, HttpError> Completions::tokens_of(const Request& request,
                                                                     const KeptStates::Taken& taken,
                                                                     MessageTrail& trail) const {
  const bool goes_on = taken.state.has_value();
  trail = goes_on ? taken.state->trail : MessageTrail{};
  const auto dropped = [&](const char* advice) {
    return HttpError{
        410,
        "the last state of conversation " + request.conversation + " is lost" +
            (taken.exists
                 ? "; its file stands at generation " + std::to_string(taken.exists->generation)
                 : "") +
            advice,
        "conversation", "state_dropped", taken.exists ? taken.exists : std::optional(StateMark{})};
  };
  if (!request.chat) {
    if (taken.forgotten) return dropped("");
    Result<std::vector<TokenId>> tokens =
        request.prompt.empty() ? std::vector<TokenId>{} : model_->encode(request.prompt, false);
    if (!tokens) return of_error(tokens.error());
    if (tokens->empty() && !goes_on) {
      return HttpError{400, "the prompt is empty, and so is the conversation", "prompt",
                       "invalid_value"};
    }
    return *std::move(tokens);
  }

  std::span<const ChatMessage> fresh(request.messages);
  const bool whole = std::any_of(fresh.begin(), fresh.end(),
                                 [](const ChatMessage& m) { return m.role != "user"; });
  if (goes_on) {
    MessageTrail begun;
    const std::size_t known = std::min<std::uint64_t>(trail.count, fresh.size());
    for (const ChatMessage& message : fresh.first(known)) begun.add(message);
    if (trail.count > 0 && begun == trail) {
      fresh = fresh.subspan(known);
    } else if (whole) {
      return HttpError{409,
                       "the messages neither begin with what conversation " + request.conversation +
                           " has read and said nor are they new ones of the user alone",
                       "messages", "conversation_differs"};
    }
    if (fresh.empty() && taken.state->awaiting) return std::vector<TokenId>{};
    if (fresh.empty())
      return HttpError{400, "messages: none of them is new", "messages", "invalid_value"};
  } else if (taken.forgotten && !whole) {
    return dropped(": send the whole conversation");
  }
  for (const ChatMessage& message : fresh) trail.add(message);
  const ChatContinuation continuation = !goes_on ? ChatContinuation::start
                                        : taken.state->closed
                                            ? ChatContinuation::after_closed_answer
                                            : ChatContinuation::after_cut_answer;
  Result<std::vector<TokenId>> tokens = model_->encode_chat(fresh, true, continuation);
  if (!tokens) return of_error(tokens.error());
  return *std::move(tokens);
}

std::optional<HttpError> Completions::check(const Request& request, std::size_t tokens) const {
  if (tokens > settings_.most_prompt) {
    return HttpError{400,
                     "the prompt has " + std::to_string(tokens) + " tokens, at most " +
                         std::to_string(settings_.most_prompt) + " are read for one request",
                     request.chat ? "messages" : "prompt", "context_length_exceeded"};
  }
  for (const auto& [token, bias] : request.generation.sampling.logit_bias) {
    if (token >= model_->info().vocab_size) {
      return HttpError{
          400,
          "logit_bias names token " + std::to_string(token) + ", which the model does not have",
          "logit_bias", "invalid_value"};
    }
  }
  return {};
}

std::optional<HttpError> Completions::start(const std::shared_ptr<Running>& running,
                                            Request request) {
  const std::string id = request.conversation;
  KeptStates::Taken taken;
  if (!id.empty()) {
    std::variant<KeptStates::Taken, HttpError> got = states_.take(id, request.expect);
    if (const auto* error = std::get_if<HttpError>(&got)) return *error;
    taken = std::move(std::get<KeptStates::Taken>(got));
  }
  MessageTrail trail;
  std::variant<std::vector<TokenId>, HttpError> got = tokens_of(request, taken, trail);
  std::optional<HttpError> wrong;
  if (const auto* error = std::get_if<HttpError>(&got)) {
    wrong = *error;
  } else {
    wrong = check(request, std::get<std::vector<TokenId>>(got).size());
  }
  if (wrong) {
    if (taken.state) {
      states_.give_back(id, *std::move(taken.state), true, false);
    } else if (!id.empty()) {
      states_.release(id, 0);
    }
    return wrong;
  }
  Running::Before before{.was_kept = taken.state.has_value(), .trail = trail};
  if (taken.state) before.state = *std::move(taken.state);
  auto job =
      std::make_shared<Job>(model_, std::move(before.state.session),
                            std::get<std::vector<TokenId>>(std::move(got)), request.generation);
  running->begin(std::move(request), job, std::move(before));
  if (scheduler_.submit(job)) {
    running->open();
    return {};
  }
  running->take_back();
  return HttpError{
      429, "the queue is full: " + std::to_string(settings_.queue) + " requests wait already", "",
      "queue_full"};
}

void Completions::answer(const std::shared_ptr<Exchange>& exchange, bool chat) {
  std::variant<Request, HttpError> request =
      read_request(exchange->request().body, chat, settings_.limits);
  std::optional<HttpError> error;
  if (const auto* wrong = std::get_if<HttpError>(&request)) {
    error = *wrong;
  } else {
    const std::string_view match = exchange->request().header("If-Match");
    error = std::get<Request>(request).match(match);
  }
  if (!error) {
    error =
        start(std::make_shared<Running>(*this, exchange), std::get<Request>(std::move(request)));
  }
  if (error) exchange->reply(error_reply(*error));
}

}  // namespace runnel::serve
