// SPDX-License-Identifier: Apache-2.0
#include "app/serve/server.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "app/serve/access.h"
#include "app/serve/completions.h"
#include "app/serve/embeddings.h"
#include "app/serve/kept_states.h"
#include "app/serve/net/host.h"
#include "app/serve/request.h"
#include "app/serve/scheduler.h"
#include "app/serve/workers.h"
#include "runtime/base/try.h"
#include "runtime/model/initial_state.h"

namespace runnel::serve {
namespace {

constexpr std::size_t kWorkers = 4;                     // some of them may wait for a disk
constexpr std::chrono::milliseconds kLastWords{2'000};  // to send the ends of answers in
constexpr std::string_view kModels = "/v1/models/";

}  // namespace

struct Server::Impl {
  Impl(std::shared_ptr<const Model> loaded, ServerSettings given)
      : model(std::move(loaded)),
        settings(std::move(given)),
        name(!settings.model_name.empty() ? settings.model_name
             : model->info().name.empty() ? "default"
                                          : model->info().name),
        access{.api_key = settings.api_key, .hosts = settings.hosts} {}

  Status open(std::size_t idle_states, std::size_t extra);
  std::optional<HttpReply> admit(const HttpRequest& request) const;
  void handle(const std::shared_ptr<Exchange>& exchange);
  void change_state(Exchange& exchange, std::string_view what);
  std::string health() const;
  std::string models(bool list) const;
  Status stop(std::chrono::milliseconds grace);

  const std::shared_ptr<const Model> model;
  const ServerSettings settings;
  const std::string name;
  const AccessRules access;
  std::atomic<bool> stopping{false};
  // The later ones go first: what the scheduler ends is kept by workers, for the completions.
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<KeptStates> states;
  std::unique_ptr<Completions> completions;
  std::unique_ptr<Embeddings> embeddings;
  std::unique_ptr<Workers> workers;
  std::unique_ptr<Scheduler> scheduler;
};

Status Server::Impl::open(std::size_t idle_states, std::size_t extra) {
  const std::optional<Snapshot>& initial = settings.initial;
  RUNNEL_TRY(states,
             KeptStates::open(model, {.most = idle_states,
                                      .directory = settings.states,
                                      .autosave = settings.autosave,
                                      .initial_state = initial ? initial_state_id(*initial) : 0,
                                      .note = settings.note}));
  RUNNEL_TRY(http, HttpServer::create(
                       {.host = settings.host,
                        .port = settings.port,
                        .body_bytes = settings.body_bytes,
                        .request_time = settings.request_time,
                        .idle_time = settings.idle_time,
                        .write_time = settings.write_time,
                        .connections = settings.connections,
                        .connections_per_address = settings.connections_per_address,
                        .admit = [this](const HttpRequest& request) { return admit(request); },
                        .handle = [this](const std::shared_ptr<Exchange>& e) { handle(e); },
                        .error_body =
                            [](int status, const std::string& message, const char* code) {
                              return to_json({status, message, "", code});
                            },
                        .log = settings.log}));
  workers = std::make_unique<Workers>(kWorkers);
  scheduler = std::make_unique<Scheduler>(Scheduler::Settings{
      .parallel = settings.parallel, .extra = extra, .queue = settings.queue, .initial = initial});
  const Completions::Settings answers = {.limits = {.defaults = settings.defaults,
                                                    .most_tokens = settings.most_tokens,
                                                    .model = name,
                                                    .any_model = settings.any_model},
                                         .most_prompt = settings.most_prompt,
                                         .queue = settings.queue,
                                         .most_prompts = settings.parallel + settings.queue,
                                         .initial = initial};
  completions = std::make_unique<Completions>(model, answers, *states, *scheduler, *workers);
  embeddings = std::make_unique<Embeddings>(model, answers, *scheduler, *workers);
  return {};
}

// Whether there is anything at that path, and who asks. Before the body is read.
std::optional<HttpReply> Server::Impl::admit(const HttpRequest& request) const {
  if (const auto error = check_access(request, access)) return error_reply(*error);
  const std::string_view path = request.path;
  const bool get =
      path == "/health" || path == "/ready" || path == "/v1/models" || path.starts_with(kModels);
  const bool post = path == "/v1/chat/completions" || path == "/v1/completions" ||
                    path == "/v1/embeddings" || path == "/v1/states/save" ||
                    path == "/v1/states/fork" || path == "/v1/states/delete";
  if (!get && !post) {
    return error_reply({404, "there is nothing at " + request.path.substr(0, 80), "", "not_found"});
  }
  if (get ? request.method != "GET" && request.method != "HEAD" : request.method != "POST") {
    HttpReply reply = error_reply(
        {405,
         "the method is " + request.method.substr(0, 20) + ", expected " + (get ? "GET" : "POST"),
         "", "method_not_allowed"});
    reply.headers.emplace_back("Allow", get ? "GET, HEAD" : "POST");
    return reply;
  }
  if (post && stopping) return error_reply({503, "the server is stopping", "", "stopping"});
  return {};
}

// On the reactor's thread: what takes time goes to a worker.
void Server::Impl::handle(const std::shared_ptr<Exchange>& exchange) {
  const std::string& path = exchange->request().path;
  if (path == "/health") return exchange->reply({.body = health()});
  if (path == "/ready") {
    const bool ready = !stopping;
    return exchange->reply(
        {.status = ready ? 200 : 503, .body = dump({{"status", ready ? "ready" : "stopping"}})});
  }
  if (path == "/v1/models") return exchange->reply({.body = models(true)});
  if (path.starts_with(kModels)) {
    if (path.substr(kModels.size()) == name) return exchange->reply({.body = models(false)});
    return exchange->reply(error_reply(
        {404, "there is no such model here, only " + name, "model", "model_not_found"}));
  }
  workers->run([this, exchange] {
    const std::string& at = exchange->request().path;
    try {
      if (at.starts_with("/v1/states/")) {
        change_state(*exchange,
                     std::string_view(at).substr(std::string_view("/v1/states/").size()));
      } else if (at == "/v1/embeddings") {
        embeddings->answer(exchange);
      } else {
        completions->answer(exchange, at == "/v1/chat/completions");
      }
    } catch (const std::exception&) {  // out of memory: nothing else throws
      exchange->reply(error_reply({500, "the request failed inside the server", "", "internal"}));
    }
  });
}

void Server::Impl::change_state(Exchange& exchange, std::string_view what) {
  const auto refuse = [&](const HttpError& error) { exchange.reply(error_reply(error)); };
  std::variant<nlohmann::json, HttpError> object = read_object(exchange.request().body);
  if (const auto* error = std::get_if<HttpError>(&object)) return refuse(*error);
  Fields fields(std::get<nlohmann::json>(object));
  const std::string id = fields.text("conversation").value_or("");
  const std::string into = what == "fork" ? fields.text("into").value_or("") : "-";
  fields.finish();
  if (!is_conversation_id(id)) {
    fields.refuse(std::string("conversation: expected ") + kConversationIdRule, "conversation");
  }
  if (!is_conversation_id(into))
    fields.refuse(std::string("into: expected ") + kConversationIdRule, "into");
  if (fields.error()) return refuse(*fields.error());
  nlohmann::ordered_json done = {{"conversation", id}, {"done", what}};
  if (what == "fork") done["into"] = into;
  HttpReply reply;
  if (what == "delete") {
    if (const auto error = states->remove(id)) return refuse(*error);
  } else {
    const auto result = what == "save" ? states->save(id) : states->fork(id, into);
    if (const auto* error = std::get_if<HttpError>(&result)) return refuse(*error);
    const StateMark& mark = std::get<StateMark>(result);
    done["generation"] = mark.generation;
    done["position"] = mark.position;
    reply.headers.emplace_back("ETag", '"' + std::to_string(mark.generation) + '"');
  }
  reply.body = dump(done);
  exchange.reply(std::move(reply));
}

std::string Server::Impl::health() const {
  const Scheduler::Counts work = scheduler->counts();
  const KeptStates::Counts kept = states->counts();
  const HttpServer::Counts net = http->counts();
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
               {"state_bytes", model->info().state_bytes},
               {"connections", net.connections},
               {"refused_connections", net.refused}});
}

std::string Server::Impl::models(bool list) const {
  const nlohmann::ordered_json object = {
      {"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "runnel"}};
  if (!list) return dump(object);
  return dump({{"object", "list"}, {"data", nlohmann::ordered_json::array({object})}});
}

Status Server::Impl::stop(std::chrono::milliseconds grace) {
  stopping = true;
  const auto wait_until_quiet = [this](std::chrono::milliseconds time) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (http->counts().answering != 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  wait_until_quiet(grace);
  scheduler->stop();
  http->close_after_answers();
  wait_until_quiet(kLastWords);
  Status saved = states->save_all();
  http->stop();
  return saved;
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
  // A state, its logits and what else a session holds; of a model whose chat template may lay out an answer anew, what
  // was before the last one, too.
  const std::uint64_t held = model->chat_format().style == ChatStyle::jinja ? 2 : 1;
  const std::uint64_t each =
      held * (model->info().state_bytes +
              static_cast<std::uint64_t>(model->info().vocab_size) * sizeof(float) + 32'768);
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
  if (settings.initial) {
    RUNNEL_TRY(settings.initial, initial_state(*settings.initial, model));
  }
  // Half of what is left over is for requests that take turns, the rest for idle states.
  const std::size_t spare = static_cast<std::size_t>(fitting) - settings.parallel;
  const std::size_t extra = std::min(settings.parallel, (spare - 1) / 2);
  auto impl = std::make_unique<Impl>(std::move(model), std::move(settings));
  RUNNEL_CHECK_OK(impl->open(spare - extra, extra));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

int Server::port() const { return impl_->http->port(); }

Status Server::run() { return impl_->http->run(); }

Status Server::stop(std::chrono::milliseconds grace) { return impl_->stop(grace); }

std::string to_json_line(const AccessEntry& entry, const std::string& time) {
  return dump({{"time", time},
               {"id", entry.id},
               {"address", entry.address},
               {"method", entry.method.substr(0, 20)},
               {"path", entry.path.substr(0, 80)},
               {"status", entry.status},
               {"bytes", entry.bytes},
               {"milliseconds", entry.time.count() / 1000},
               {"whole", entry.whole}}) +
         "\n";
}

}  // namespace runnel::serve
