// SPDX-License-Identifier: Apache-2.0
#include "app/serve/server.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>
#include <variant>

#include "app/serve/answer.h"
#include "app/serve/connection.h"
#include "app/serve/kept_states.h"
#include "app/serve/request.h"
#include "app/serve/scheduler.h"
#include "runtime/base/try.h"

namespace runnel::serve {
namespace {

constexpr std::chrono::milliseconds kLook{100};  // how soon a vanished client is noticed
constexpr std::size_t kSpareConnections = 32;    // beyond those that requests in the queue hold

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

// The name in a Host header: a page of another site that resolves to this machine has another one.
bool names_this_machine(std::string host) {
  const std::size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos &&
      (host.find(':') == colon || host[0] == '[')) {
    host.resize(colon);
  }
  return is_loopback(host);
}

// Takes the same time wherever the first difference is.
bool same_key(std::string_view given, std::string_view key) {
  unsigned different = given.size() == key.size() ? 0U : 1U;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char c = i < given.size() ? given[i] : '\0';
    different |= static_cast<unsigned char>(c ^ key[i]);
  }
  return different == 0;
}

void answer_error(httplib::Response& response, const HttpError& error) {
  response.status = error.status;
  if (error.status == 429) response.set_header("Retry-After", "1");
  if (error.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  response.set_content(to_json(error), "application/json");
}

HttpError of_error(const Error& error) {
  const bool clients =
      error.code == ErrorCode::invalid_argument || error.code == ErrorCode::malformed;
  return {clients ? 400 : 500, error.message, "", to_string(error.code)};
}

}  // namespace

struct Server::Impl {
  Impl(std::shared_ptr<const Model> loaded, ServerSettings given, std::size_t idle_states)
      : model(std::move(loaded)),
        settings(std::move(given)),
        name(model->info().name.empty() ? "default" : model->info().name),
        states(model, {.most = idle_states, .directory = settings.states}),
        scheduler({.parallel = settings.parallel, .queue = settings.queue}),
        http({.request = settings.request_time}) {}

  const std::shared_ptr<const Model> model;
  const ServerSettings settings;
  const std::string name;
  KeptStates states;
  Scheduler scheduler;
  PatientServer http;
  int port = 0;
  std::atomic<std::uint64_t> requests{0};

  // A request on its way: what was read, what works on it.
  struct Started {
    Request request;
    std::shared_ptr<Job> job;
  };

  void add_routes();
  std::optional<HttpError> check(const httplib::Request& request) const;
  void complete(const httplib::Request& request, httplib::Response& response, bool chat);
  std::variant<Started, HttpError> start(Request request);
  std::variant<std::vector<TokenId>, HttpError> tokens_of(const Request& request,
                                                          KeptStates::Taken& taken,
                                                          MessageTrail& trail) const;
  void change_state(const httplib::Request& request, httplib::Response& response,
                    std::string_view what);
  std::string health() const;
};

// What comes before any route: who may ask, and what for.
std::optional<HttpError> Server::Impl::check(const httplib::Request& request) const {
  if (settings.api_key.empty() && !names_this_machine(request.get_header_value("Host"))) {
    return HttpError{403, "the Host header names another machine", "", "wrong_host"};
  }
  if (request.path == "/health") return {};
  if (!settings.api_key.empty()) {
    const std::string given = request.get_header_value("Authorization");
    constexpr std::string_view kBearer = "Bearer ";
    if (!given.starts_with(kBearer) ||
        !same_key(std::string_view(given).substr(kBearer.size()), settings.api_key)) {
      return HttpError{401, "the API key is missing or wrong", "", "invalid_api_key"};
    }
  }
  // A page in a browser can post other types to this machine without being asked.
  if (request.method == "POST" &&
      !request.get_header_value("Content-Type").starts_with("application/json")) {
    return HttpError{415, "the Content-Type is not application/json", "", "wrong_content_type"};
  }
  return {};
}

// The tokens to feed: all of a new conversation, what is new of a kept one.
std::variant<std::vector<TokenId>, HttpError> Server::Impl::tokens_of(const Request& request,
                                                                      KeptStates::Taken& taken,
                                                                      MessageTrail& trail) const {
  const bool goes_on = taken.state.has_value();
  trail = goes_on ? taken.state->trail : MessageTrail{};
  if (!request.chat) {
    if (taken.forgotten) {
      return HttpError{410,
                       "the state of conversation " + request.conversation + " had to make room",
                       "conversation", "state_dropped"};
    }
    Result<std::vector<TokenId>> tokens =
        request.prompt.empty() ? std::vector<TokenId>{} : model->encode(request.prompt, false);
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
    return HttpError{410,
                     "the state of conversation " + request.conversation +
                         " had to make room: send the whole conversation",
                     "conversation", "state_dropped"};
  }
  for (const ChatMessage& message : fresh) trail.add(message);
  const ChatContinuation continuation = !goes_on ? ChatContinuation::start
                                        : taken.state->closed
                                            ? ChatContinuation::after_closed_answer
                                            : ChatContinuation::after_cut_answer;
  Result<std::vector<TokenId>> tokens = model->encode_chat(fresh, true, continuation);
  if (!tokens) return of_error(tokens.error());
  return *std::move(tokens);
}

std::variant<Server::Impl::Started, HttpError> Server::Impl::start(Request request) {
  KeptStates::Taken taken;
  if (!request.conversation.empty()) {
    std::variant<KeptStates::Taken, HttpError> got = states.take(request.conversation);
    if (const auto* error = std::get_if<HttpError>(&got)) return *error;
    taken = std::move(std::get<KeptStates::Taken>(got));
  }
  const auto give_up = [&](HttpError error) {
    if (!request.conversation.empty()) {
      if (taken.state) {
        states.give_back(request.conversation, std::move(*taken.state), true);
      } else {
        states.release(request.conversation, false);
      }
    }
    return error;
  };
  MessageTrail trail;
  std::variant<std::vector<TokenId>, HttpError> tokens = tokens_of(request, taken, trail);
  if (const auto* error = std::get_if<HttpError>(&tokens)) return give_up(*error);
  const std::size_t count = std::get<std::vector<TokenId>>(tokens).size();
  if (count > settings.most_prompt) {
    return give_up({400,
                    "the prompt has " + std::to_string(count) + " tokens, at most " +
                        std::to_string(settings.most_prompt) + " are read for one request",
                    request.chat ? "messages" : "prompt", "context_length_exceeded"});
  }
  for (const auto& [token, bias] : request.generation.sampling.logit_bias) {
    if (token >= model->info().vocab_size) {
      return give_up(
          {400,
           "logit_bias names token " + std::to_string(token) + ", which the model does not have",
           "logit_bias", "invalid_value"});
    }
  }
  const bool was_kept = taken.state.has_value();
  KeptState before;  // but for its session
  if (was_kept) before = std::move(*taken.state);
  auto job =
      std::make_shared<Job>(model, std::move(before.session),
                            std::get<std::vector<TokenId>>(std::move(tokens)), request.generation);
  if (!request.conversation.empty()) {
    // Copyable, as std::function wants it: what the state was like before, and what this request
    // adds.
    job->when_over = [this, id = request.conversation, trail, chat = request.chat, was_kept,
                      old_trail = before.trail, old_closed = before.closed,
                      old_awaiting = before.awaiting](Job& done,
                                                      std::unique_ptr<Session> left) mutable {
      const bool untouched = left && left->position() == done.position_before();
      if (!left || (untouched && !was_kept) || (done.error() && !untouched))
        return states.release(id, was_kept);
      KeptState after{.session = std::move(left),
                      .trail = old_trail,
                      .closed = old_closed,
                      .awaiting = old_awaiting};
      if (!untouched) {
        const bool silent = done.result().tokens.empty();
        after.trail = chat ? trail : MessageTrail{};
        if (chat && !silent)
          after.trail.add({"assistant", done.result().text + done.result().held_back});
        after.closed = done.result().reason == FinishReason::end;
        after.awaiting = chat && silent;
      }
      states.give_back(id, std::move(after), was_kept);
    };
  }
  if (!scheduler.submit(job)) {
    job->refuse();
    return HttpError{
        429, "the queue is full: " + std::to_string(settings.queue) + " requests wait already", "",
        "queue_full"};
  }
  return Started{std::move(request), std::move(job)};
}

void Server::Impl::complete(const httplib::Request& http_request, httplib::Response& response,
                            bool chat) {
  std::variant<Request, HttpError> request = read_request(
      http_request.body, chat,
      {.defaults = settings.defaults, .most_tokens = settings.most_tokens, .model = name});
  if (const auto* error = std::get_if<HttpError>(&request)) return answer_error(response, *error);
  std::variant<Started, HttpError> got = start(std::get<Request>(std::move(request)));
  if (const auto* error = std::get_if<HttpError>(&got)) return answer_error(response, *error);
  const auto started = std::make_shared<Started>(std::get<Started>(std::move(got)));
  const auto answer = std::make_shared<Answer>(started->request, name, ++requests);
  const auto job = started->job;
  const auto stop = [job](bool) { job->cancel(); };

  if (!started->request.stream) {
    // Also as a provider: only so is a client noticed that has gone before its answer.
    response.set_chunked_content_provider(
        "application/json",
        [job, answer, text = std::make_shared<std::string>()](std::size_t,
                                                              httplib::DataSink& sink) {
          const Job::News news = job->wait(kLook);
          *text += news.text;
          if (!news.over) return sink.is_writable();
          const std::string body = job->error()
                                       ? to_json(of_error(*job->error()))
                                       : answer->whole(*job, *text + answer->unshown(*job));
          if (!sink.write(body.data(), body.size())) return false;
          sink.done();
          return true;
        },
        stop);
    return;
  }
  response.set_header("Cache-Control", "no-cache");
  response.set_chunked_content_provider(
      "text/event-stream",
      [job, answer, opened = std::make_shared<bool>(false)](std::size_t, httplib::DataSink& sink) {
        const auto write = [&sink](const std::string& events) {
          return sink.write(events.data(), events.size());
        };
        const Job::News news = job->wait(kLook);
        if (news.text.empty() && !news.over) return sink.is_writable();
        std::string events;
        if (!std::exchange(*opened, true)) events += answer->opening();
        if (!news.text.empty()) events += answer->event(news.text);
        if (news.over) {
          events += job->error() ? "data: " + to_json(of_error(*job->error())) + "\n\n"
                                 : answer->closing(*job);
        }
        if (!sink.is_writable() || !write(events)) return false;
        if (news.over) sink.done();
        return true;
      },
      stop);
}

void Server::Impl::change_state(const httplib::Request& request, httplib::Response& response,
                                std::string_view what) {
  std::variant<nlohmann::json, HttpError> object = read_object(request.body);
  if (const auto* error = std::get_if<HttpError>(&object)) return answer_error(response, *error);
  Fields fields(std::get<nlohmann::json>(object));
  const std::string id = fields.text("conversation").value_or("");
  const std::string into = what == "fork" ? fields.text("into").value_or("") : "-";
  fields.finish();
  if (!is_conversation_id(id)) {
    fields.refuse(std::string("conversation: expected ") + kConversationIdRule, "conversation");
  }
  if (!is_conversation_id(into))
    fields.refuse(std::string("into: expected ") + kConversationIdRule, "into");
  if (fields.error()) return answer_error(response, *fields.error());
  const std::optional<HttpError> error = what == "save"   ? states.save(id)
                                         : what == "fork" ? states.fork(id, into)
                                                          : states.remove(id);
  if (error) return answer_error(response, *error);
  nlohmann::ordered_json done = {{"conversation", id}, {"done", what}};
  if (what == "fork") done["into"] = into;
  response.set_content(dump(done), "application/json");
}

std::string Server::Impl::health() const {
  const Scheduler::Counts work = scheduler.counts();
  const KeptStates::Counts kept = states.counts();
  return dump({{"status", "ok"},
               {"model", name},
               {"active", work.active},
               {"waiting", work.waiting},
               {"finished", work.finished},
               {"generated_tokens", work.generated},
               {"decode_passes", work.passes},
               {"idle_states", kept.idle},
               {"most_idle_states", kept.most},
               {"dropped_states", kept.dropped},
               {"state_bytes", model->info().state_bytes}});
}

void Server::Impl::add_routes() {
  http.set_pre_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        const std::optional<HttpError> error = check(request);
        if (!error) return httplib::Server::HandlerResponse::Unhandled;
        answer_error(response, *error);
        return httplib::Server::HandlerResponse::Handled;
      });
  http.Post("/v1/chat/completions", [this](const auto& q, auto& r) { complete(q, r, true); });
  http.Post("/v1/completions", [this](const auto& q, auto& r) { complete(q, r, false); });
  for (const char* what : {"save", "fork", "delete"}) {
    http.Post(std::string("/v1/states/") + what,
              [this, what](const auto& q, auto& r) { change_state(q, r, what); });
  }
  const nlohmann::ordered_json model_object = {
      {"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "runnel"}};
  http.Get("/v1/models", [model_object](const auto&, auto& r) {
    r.set_content(
        dump({{"object", "list"}, {"data", nlohmann::ordered_json::array({model_object})}}),
        "application/json");
  });
  http.Get(R"(/v1/models/(.+))", [this, model_object](const auto& q, auto& r) {
    if (q.matches[1] == name) return r.set_content(dump(model_object), "application/json");
    answer_error(r, {404, "there is no such model here, only " + name, "model", "model_not_found"});
  });
  http.Get("/health",
           [this](const auto&, auto& r) { r.set_content(health(), "application/json"); });
  http.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty()) return;
    const char* code = response.status == 404   ? "not_found"
                       : response.status == 413 ? "body_too_large"
                                                : "bad_request";
    response.set_content(
        to_json({response.status,
                 response.status == 404 ? "there is nothing at " + request.path.substr(0, 80)
                                        : "the request cannot be read",
                 "", code}),
        "application/json");
  });
  http.set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
        answer_error(response, {500, "the request failed inside the server", "", "internal"});
      });
}

Result<std::unique_ptr<Server>> Server::create(std::shared_ptr<const Model> model,
                                               ServerSettings settings) {
  if (!model->has_tokenizer()) {
    return fail(ErrorCode::unsupported,
                "the model's file has no tokenizer, so it cannot be served");
  }
  if (settings.api_key.empty() && !is_loopback(settings.host)) {
    return fail(ErrorCode::invalid_argument, "listening on ", settings.host,
                " lets other machines in, expected an API key for that");
  }
  RUNNEL_CHECK_OK(validate(settings.defaults.sampling));
  if (settings.parallel < 1 || settings.parallel > 256) {
    return fail(ErrorCode::invalid_argument, "parallel is ", settings.parallel,
                ", expected 1 to 256");
  }
  // A state, its logits and what else a session holds.
  const std::uint64_t each = model->info().state_bytes +
                             static_cast<std::uint64_t>(model->info().vocab_size) * sizeof(float) +
                             32'768;
  const std::uint64_t fitting = settings.state_memory / each;
  if (fitting < settings.parallel + 1) {
    return fail(ErrorCode::invalid_argument, "state memory is ", settings.state_memory,
                " bytes, expected at least ", (settings.parallel + 1) * each, " for ",
                settings.parallel, " requests at once and one kept state");
  }
  if (!settings.states.empty() && !std::filesystem::is_directory(settings.states)) {
    return fail(ErrorCode::not_found, settings.states.string(), ": is no directory");
  }
  settings.defaults.max_tokens = std::min(settings.defaults.max_tokens, settings.most_tokens);
  if (model->chat_format().style == ChatStyle::plain) settings.defaults.stop.push_back("\nUser:");
  const auto idle = static_cast<std::size_t>(fitting - settings.parallel);
  auto impl = std::make_unique<Impl>(std::move(model), std::move(settings), idle);
  const ServerSettings& s = impl->settings;
  impl->http.set_payload_max_length(s.body_bytes);
  impl->http.set_tcp_nodelay(true);
  impl->http.new_task_queue = [most = s.parallel + s.queue + kSpareConnections] {
    return new ConnectionQueue(most);
  };
  impl->add_routes();
  impl->port = s.port == 0                               ? impl->http.bind_to_any_port(s.host)
               : impl->http.bind_to_port(s.host, s.port) ? s.port
                                                         : -1;
  if (impl->port <= 0) {
    return fail(ErrorCode::io, "cannot listen on ", s.host, " port ", s.port,
                ": it is taken or not to be had");
  }
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

int Server::port() const { return impl_->port; }

Status Server::run() {
  if (!impl_->http.listen_after_bind()) return fail(ErrorCode::io, "the server stopped listening");
  return {};
}

void Server::stop() { impl_->http.stop(); }

}  // namespace runnel::serve
