// SPDX-License-Identifier: Apache-2.0
#include "app/serve/completions.h"

#include <algorithm>
#include <atomic>
#include <iterator>
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

std::variant<std::vector<TokenId>, HttpError> tokens_of_prompt(const Model& model,
                                                               const Prompt& prompt,
                                                               const char* name) {
  if (const auto* given = std::get_if<std::vector<TokenId>>(&prompt)) {
    for (const TokenId token : *given) {
      if (token < model.info().vocab_size) continue;
      return HttpError{400,
                       std::string(name) + " names token " + std::to_string(token) +
                           ", which the model does not have",
                       name, "invalid_value"};
    }
    return *given;
  }
  const auto& text = std::get<std::string>(prompt);
  Result<std::vector<TokenId>> tokens =
      text.empty() ? std::vector<TokenId>{} : model.encode(text, false);
  if (!tokens) return of_error(tokens.error());
  return *std::move(tokens);
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
    bool anew = false;  // the session went back to read earlier messages again
    KeptState state;
    MessageTrail trail;  // with this request's messages
  };

  /// @param jobs  one for every prompt; only one if there is a conversation
  void begin(Request request, Answer::Jobs jobs, Before before) {
    request_ = std::move(request);
    jobs_ = std::move(jobs);
    ended_.resize(jobs_.size());
    begun_.resize(jobs_.size());
    if (request_.tools.may_call()) {
      for (std::size_t i = 0; i < jobs_.size(); ++i)
        calls_.push_back({ToolCallReader(owner_.model_->tool_format()), {}});
    }
    offsets_.resize(jobs_.size());
    before_ = std::move(before);
    answer_ = std::make_unique<Answer>(request_, owner_.model_,
                                       owner_.settings_.limits.name_of(request_.model),
                                       exchange_->request().id);
    // The jobs let go of these when they are over.
    if (!request_.conversation.empty()) {
      jobs_[0]->when_over = [self = shared_from_this()](Job&, std::unique_ptr<Session> session) {
        self->session_ = std::move(session);
      };
    }
    for (const std::shared_ptr<Job>& job : jobs_) {
      job->client = exchange_->request().address;
      job->on_news = [self = shared_from_this()] { self->news(); };
    }
  }

  // The answer's head goes out; from here on the client may leave.
  void open() {
    exchange_->on_gone([jobs = jobs_] {
      for (const std::shared_ptr<Job>& job : jobs) job->cancel();
    });
    if (!request_.stream) return;
    exchange_->stream({.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}},
                      [self = shared_from_this()] { return self->next(); });
  }

  void take_back() {
    for (const std::shared_ptr<Job>& job : jobs_) {
      job->on_news = nullptr;
      job->refuse();
    }
    if (!request_.conversation.empty()) keep();
  }

 private:
  void news() {
    const auto over = [](const std::shared_ptr<Job>& job) { return job->over(); };
    if (!std::all_of(jobs_.begin(), jobs_.end(), over)) return exchange_->wake();
    if (request_.conversation.empty()) return finish();
    owner_.workers_.run([self = shared_from_this()] {
      self->keep();
      self->finish();
    });
  }

  // The answer as the client will send it back.
  ChatMessage said(const Job& job) const {
    const std::string text = job.result().text + job.result().held_back;
    if (!request_.tools.may_call()) return {"assistant", text};
    const bool cut = job.result().reason == FinishReason::length;
    return answer_of(owner_.model_->tool_format(), text, cut,
                     [this](std::size_t call) { return answer_->call_id(0, call); })
        .message();
  }

  // Gives the conversation back as this request left it.
  void keep() {
    const Job& job = *jobs_[0];
    const std::string& id = request_.conversation;
    const bool stands = session_ && session_->position() == job.position_before();
    if (stands && before_.anew)  // gone back, and nothing read
      return owner_.states_.release(id, before_.state.generation);
    const bool untouched = stands;
    if (!session_ || (untouched && !before_.was_kept) || (job.error() && !untouched))
      return owner_.states_.release(id, before_.state.generation);
    KeptState after = std::move(before_.state);
    after.session = std::move(session_);
    if (!untouched) {
      if (const Status settled = jobs_[0]->settle(*after.session); !settled) {
        failure_ = of_error(settled.error());
        return owner_.states_.release(id, before_.state.generation);
      }
      const bool silent = job.result().tokens.empty();
      after.trail = request_.chat ? before_.trail : MessageTrail{};
      if (request_.chat && !silent) after.trail.add(said(job));
      after.closed = job.result().reason == FinishReason::end &&
                     request_.generation.answer.follows.empty();  // else its end was undone
      after.awaiting = request_.chat && silent;
      after.before_answer = silent ? std::nullopt : job.start();
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
    for (const std::shared_ptr<Job>& job : jobs_) {
      if (job->error() && !failure_) failure_ = of_error(*job->error());
    }
    finished_ = true;  // publishes what keep() wrote
    if (request_.stream) return exchange_->wake();
    if (failure_) return exchange_->reply(error_reply(*failure_));
    HttpReply reply{.body = answer_->whole(jobs_, mark_)};
    if (mark_) reply.headers.emplace_back("ETag", '"' + std::to_string(mark_->generation) + '"');
    exchange_->reply(std::move(reply));
  }

  // On the reactor's thread.
  BodyPiece next() {
    const bool over = finished_;
    BodyPiece piece;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const Job::News news = jobs_[i]->look();
      // A conversation's last event says where it stands, which is known when all is kept.
      const bool ends = news.over && (over || request_.conversation.empty()) && !ended_[i];
      const bool answers = !news.text.empty() || !news.logprobs.empty();
      const bool says = answers || !news.thought.empty();
      if ((says || ends) && !std::exchange(opened_, true))
        piece.bytes = answer_->opening(*jobs_[0]);
      if ((says || ends) && !std::exchange(begun_[i], true))
        piece.bytes += answer_->echo(i, *jobs_[i], offsets_[i]);
      if (!news.thought.empty()) piece.bytes += answer_->thought_event(i, news.thought);
      if (answers && calls_.empty())
        piece.bytes += answer_->event(i, news.text, news.logprobs, offsets_[i]);
      if (answers && !calls_.empty()) {
        piece.bytes += answer_->tool_events(i, calls_[i].reader.push(news.text), news.logprobs,
                                            offsets_[i], calls_[i].answer);
      }
      if (!ends || failure_of(i)) continue;
      ended_[i] = true;
      if (!calls_.empty()) piece.bytes += calls_end(i);
      piece.bytes +=
          answer_->choice_end(i, *jobs_[i], mark_, calls_.empty() ? nullptr : &calls_[i].answer);
    }
    if (!over) return piece;
    piece.last = true;
    piece.bytes +=
        failure_ ? "data: " + to_json(*failure_) + "\n\ndata: [DONE]\n\n" : answer_->closing(jobs_);
    return piece;
  }

  // What is left of a choice's text when its job is over.
  std::string calls_end(std::size_t i) {
    const bool cut = jobs_[i]->result().reason == FinishReason::length;
    std::vector<ToolEvent> last = calls_[i].reader.push(answer_->unshown(*jobs_[i]));
    std::ranges::move(calls_[i].reader.finish(cut), std::back_inserter(last));
    std::size_t offset = 0;  // of no token
    return answer_->tool_events(i, last, {}, offset, calls_[i].answer);
  }

  // Whether choice `i`, whose job is over, has no end of its own: the whole answer ends with an
  // error.
  bool failure_of(std::size_t i) const {
    return jobs_[i]->error().has_value() || (finished_ && failure_);
  }

  Completions& owner_;
  const std::shared_ptr<Exchange> exchange_;
  Request request_;
  Answer::Jobs jobs_;
  std::vector<std::size_t> offsets_;  // of each choice's next token in its text, in characters
  struct Calls {
    ToolCallReader reader;
    CallAnswer answer;
  };
  std::vector<Calls> calls_;  // of each choice's stream, with tools; of the reactor's thread
  std::vector<char> begun_;   // choices of which something was sent; of the reactor's thread
  std::vector<bool> ended_;   // choices whose end was sent; of the reactor's thread
  std::unique_ptr<Answer> answer_;
  Before before_;
  std::unique_ptr<Session> session_;  // from the job
  std::optional<StateMark> mark_;
  std::optional<HttpError> failure_;
  std::atomic<bool> finished_{false};
  bool opened_ = false;
};

namespace {

// A constraint that takes too much, or that this build does not have, is the client's matter.
HttpError of_constraint_error(const Error& error, const std::string& field) {
  const bool unsupported = error.code == ErrorCode::unsupported;
  return {400, field + ": " + error.message, field,
          unsupported ? "unsupported_field" : "invalid_value"};
}

// Answers with tools: what they may be, or why they cannot be kept to it.
std::optional<HttpError> constrain_calls(const Model& model, Request& request) {
  const AskedTools& asked = request.tools;
  if (asked.tools.empty()) return {};
  if (const ToolFormat format = model.tool_format(); format.style == ToolStyle::none) {
    return HttpError{400, "tools: " + format.reason, "tools", "unsupported_field"};
  }
  if (request.generation.constraint != nullptr) return {};  // and none may be called
  using Kind = ToolChoice::Kind;
  if (!has_constraints()) {
    const bool free = asked.choice.kind == Kind::automatic || asked.choice.kind == Kind::none;
    if (free && (asked.choice.parallel || asked.choice.kind == Kind::none)) return {};
    const char* field = free ? "parallel_tool_calls" : "tool_choice";
    return HttpError{400,
                     std::string(field) +
                         ": this build cannot keep answers to it, since it has no RUNNEL_GRAMMAR",
                     field, "unsupported_field"};
  }
  Result<std::shared_ptr<const Constraint>> made =
      tool_constraint(model, asked.tools, asked.choice);
  if (!made) return of_constraint_error(made.error(), "tools");
  request.generation.constraint = *std::move(made);
  return {};
}

HttpError state_dropped(const Request& request, const KeptStates::Taken& taken,
                        const char* advice) {
  return {410,
          "the last state of conversation " + request.conversation + " is lost" +
              (taken.exists
                   ? "; its file stands at generation " + std::to_string(taken.exists->generation)
                   : "") +
              advice,
          "conversation", "state_dropped",
          taken.exists ? taken.exists : std::optional(StateMark{})};
}

}  // namespace

// What to feed for every prompt: all of a new conversation, what is new of a kept one.
std::variant<std::vector<Completions::Tokens>, HttpError> Completions::tokens_of(
    const Request& request, const KeptStates::Taken& taken, MessageTrail& trail, Back& back) const {
  trail = taken.state ? taken.state->trail : MessageTrail{};
  std::vector<Tokens> all;
  if (request.chat) {
    std::variant<Tokens, HttpError> tokens = chat_tokens(request, taken, trail, back);
    if (const auto* error = std::get_if<HttpError>(&tokens)) return *error;
    all.push_back(std::get<Tokens>(std::move(tokens)));
    return all;
  }
  if (taken.forgotten) return state_dropped(request, taken, "");
  for (const Prompt& prompt : request.prompts) {
    std::variant<Tokens, HttpError> tokens = tokens_of_prompt(*model_, prompt, "prompt");
    if (const auto* error = std::get_if<HttpError>(&tokens)) return *error;
    all.push_back(std::get<Tokens>(std::move(tokens)));
    if (!all.back().empty() || taken.state) continue;
    return HttpError{400, "the prompt is empty, and so is the conversation", "prompt",
                     "invalid_value"};
  }
  return all;
}

std::variant<Completions::Tokens, HttpError> Completions::chat_tokens(
    const Request& request, const KeptStates::Taken& taken, MessageTrail& trail, Back& back) const {
  std::span<const ChatMessage> fresh(request.messages);
  const bool whole = std::any_of(fresh.begin(), fresh.end(), [](const ChatMessage& m) {
    return m.role != "user" && m.role != "tool";
  });
  const std::span<const Tool> tools(request.tools.tools);
  if (!taken.state) trail.tools = request.tools.hash;
  if (taken.state) {
    if (trail.tools != request.tools.hash && (whole || !tools.empty())) {
      return HttpError{
          409, "the tools are not those that conversation " + request.conversation + " has read",
          "tools", "conversation_differs"};
    }
    MessageTrail begun{.tools = trail.tools};
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
    if (fresh.empty() && taken.state->awaiting) return Tokens{};
    if (fresh.empty())
      return HttpError{400, "messages: none of them is new", "messages", "invalid_value"};
  } else if (taken.forgotten && !whole) {
    return state_dropped(request, taken, ": send the whole conversation");
  }
  for (const ChatMessage& message : fresh) trail.add(message);
  const bool goes_on = taken.state && taken.state->session;
  const std::string_view unread =
      goes_on ? taken.state->session->unread_text() : std::string_view();
  const std::size_t known = request.messages.size() - fresh.size();
  if ((model_->chat_format().style == ChatStyle::jinja || trail.tools != 0) && known > 0) {
    Result<ChatReading> reading =
        model_->read_chat(request.messages, known, taken.state->closed, unread, tools);
    if (reading && reading->kept < known) {
      back = reading->kept + 1 == known && taken.state->before_answer ? Back::before_answer
                                                                      : Back::to_beginning;
      // There is no other state between the beginning and here.
      if (back == Back::to_beginning)
        reading = model_->read_chat(request.messages, 0, false, {}, tools);
    }
    if (!reading) return of_error(reading.error());
    return std::move(reading->tokens);
  }
  const ChatContinuation continuation = !taken.state ? ChatContinuation::start
                                        : taken.state->closed
                                            ? ChatContinuation::after_closed_answer
                                            : ChatContinuation::after_cut_answer;
  Result<Tokens> tokens = model_->encode_chat(fresh, true, continuation, unread, tools);
  if (!tokens) return of_error(tokens.error());
  return *std::move(tokens);
}

Status Completions::go_back(KeptState& state, Back back) const {
  if (back == Back::before_answer) return state.session->restore(*state.before_answer);
  return settings_.initial ? state.session->restore(*settings_.initial) : state.session->reset();
}

std::optional<HttpError> Completions::check(const Request& request,
                                            const std::vector<Tokens>& prompts) const {
  std::size_t tokens = 0;
  for (const Tokens& prompt : prompts) tokens += prompt.size();
  if (tokens > settings_.most_prompt) {
    return HttpError{400,
                     "the prompt has " + std::to_string(tokens) + " tokens, at most " +
                         std::to_string(settings_.most_prompt) + " are read for one request",
                     request.chat ? "messages" : "prompt", "context_length_exceeded"};
  }
  const std::size_t answers = prompts.size() * request.best_of;
  if (answers > settings_.most_prompts) {
    if (request.best_of > 1)
      return HttpError{400,
                       std::to_string(answers) + " answers are asked for, at most " +
                           std::to_string(settings_.most_prompts) +
                           " are given or wait at once on this server",
                       "n", "invalid_value"};
    return HttpError{400,
                     "prompt is a list of " + std::to_string(prompts.size()) + ", at most " +
                         std::to_string(settings_.most_prompts) +
                         " are answered or wait at once on this server",
                     "prompt", "invalid_value"};
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
  if (request.chat) {
    Result<AnswerForm> form = model_->answer_form(request.thinking);
    if (!form) {
      return HttpError{400, request.thinking_field + ": " + form.error().message,
                       request.thinking_field, "unsupported_field"};
    }
    request.generation.answer = *std::move(form);
    if (id.empty()) request.generation.answer.follows.clear();  // its state is not continued
  }
  if (request.constraint) {
    Result<std::shared_ptr<const Constraint>> made =
        Constraint::compile(*model_, request.constraint->source);
    if (!made) return of_constraint_error(made.error(), request.constraint->field);
    request.generation.constraint = *std::move(made);
  }
  if (auto wrong = constrain_calls(*model_, request)) return wrong;
  KeptStates::Taken taken;
  if (!id.empty()) {
    std::variant<KeptStates::Taken, HttpError> got = states_.take(id, request.expect);
    if (const auto* error = std::get_if<HttpError>(&got)) return *error;
    taken = std::move(std::get<KeptStates::Taken>(got));
  }
  MessageTrail trail;
  Back back = Back::nowhere;
  std::variant<std::vector<Tokens>, HttpError> got = tokens_of(request, taken, trail, back);
  std::optional<HttpError> wrong;
  if (const auto* error = std::get_if<HttpError>(&got)) {
    wrong = *error;
  } else {
    wrong = check(request, std::get<std::vector<Tokens>>(got));
    for (const auto& [text, bias] : request.text_bias) {
      const Status added = add_text_bias(*model_, text, bias, request.generation.sampling);
      if (!added && !wrong)
        wrong =
            HttpError{400, "logit_bias: " + added.error().message, "logit_bias", "invalid_value"};
    }
  }
  if (back != Back::nowhere && !wrong) {
    const bool last = back == Back::before_answer;
    if (const Status gone = go_back(*taken.state, back); !gone) wrong = of_error(gone.error());
    request.warnings.emplace_back(
        std::string("the chat template lays out earlier turns anew: the conversation was read "
                    "again from ") +
        (last ? "before its last answer" : "its beginning"));
  }
  if (wrong) {
    if (taken.state) {
      states_.give_back(id, *std::move(taken.state), true, false);
    } else if (!id.empty()) {
      states_.release(id, 0);
    }
    return wrong;
  }
  Running::Before before{
      .was_kept = taken.state.has_value(), .anew = back != Back::nowhere, .trail = trail};
  if (taken.state) before.state = *std::move(taken.state);
  Answer::Jobs jobs;
  for (Tokens& tokens : std::get<std::vector<Tokens>>(got)) {  // one, if there is a session
    jobs.push_back(
        std::make_shared<Job>(model_, std::move(before.state.session), tokens, request.generation));
    const std::shared_ptr<Job> first = jobs.back();
    if (request.echo && request.shows_logprobs) first->score_prompt();
    if (request.chat && !id.empty() && model_->chat_format().style == ChatStyle::jinja)
      first->keep_start();
    for (std::size_t i = 1; i < request.best_of; ++i) {
      GenerationOptions other = request.generation;
      other.sampling.seed += i;
      jobs.push_back(std::make_shared<Job>(model_, nullptr, tokens, std::move(other)));
      jobs.back()->copy_prompt_of(*first, jobs.back());
    }
  }
  running->begin(std::move(request), jobs, std::move(before));
  if (scheduler_.submit(jobs)) {
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
