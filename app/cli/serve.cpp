// SPDX-License-Identifier: Apache-2.0
// runnel serve: an OpenAI-compatible HTTP interface on this machine.
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "app/cli/command.h"
#include "app/cli/model_options.h"
#include "app/cli/sampling_options.h"
#include "app/cli/terminal.h"
#include "app/serve/net/host.h"
#include "app/serve/server.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/initial_state.h"

namespace runnel::cli {
namespace {

struct Options {
  const CLI::App* parser = nullptr;  // knows which options were given
  ModelChoice model;
  GenerationChoice generation;
  serve::ServerSettings settings;
  std::string key_file;
  std::string load;
  std::string states;
  std::uint64_t state_megabytes = 256;
  std::string log = "none";
  unsigned drain_seconds = 10;
};

constexpr rlim_t kSpareFiles = 1024;  // besides connections: models, states, what is being closed

Result<std::string> read_key(const std::string& file) {
  if (file.empty()) {
    const char* key = std::getenv("RUNNEL_API_KEY");
    return std::string(key != nullptr ? key : "");
  }
  std::ifstream in(file);
  std::string key;
  if (!std::getline(in, key) || key.empty()) {
    return fail(ErrorCode::io, file, ": has no API key in its first line");
  }
  return key;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, size};
}

// One line an answer. Nothing of what was asked or said; a path is the client's and made safe.
std::string log_line(const serve::AccessEntry& e, bool json) {
  const std::string path = printable(e.path, 80);
  if (json) return serve::to_json_line(e, now_utc());
  return now_utc() + " " + e.address + " " + printable(e.method, 20) + " " + path + " " +
         std::to_string(e.status) + " " + std::to_string(e.bytes) + " bytes " +
         std::to_string(e.time.count() / 1000) + " ms " + e.id + (e.whole ? "" : " cut off") + "\n";
}

// Connections are files to the system, whose usual limit of 1,024 is lower than ours.
void allow_connections(std::size_t connections) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = connections + kSpareFiles;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<Snapshot> load_initial(const std::string& file, const std::shared_ptr<const Model>& model) {
  RUNNEL_TRY(const Snapshot loaded, load_start(file, model));
  Result<Snapshot> initial = initial_state(loaded, model);
  if (!initial) return of_file(initial.error(), file);
  return initial;
}

Result<int> run(const Options& o) {
  serve::ServerSettings settings = o.settings;
  RUNNEL_CHECK_OK(generation_options(o.generation));  // said before the model is loaded
  RUNNEL_TRY(settings.api_key, read_key(o.key_file));
  settings.state_memory = o.state_megabytes * 1'000'000;
  settings.states = o.states;
  if (o.log != "none") {
    settings.log = [json = o.log == "json"](const serve::AccessEntry& entry) {
      std::fputs(log_line(entry, json).c_str(), stderr);
    };
  }
  settings.note = [](const std::string& note) {
    std::fputs(("runnel: note: " + note + "\n").c_str(), stderr);
  };
  allow_connections(settings.connections);

  // Before any thread exists, so that all of them leave the signals to the wait below.
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);

  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(o.model));
  if (!o.load.empty()) {
    RUNNEL_TRY(settings.initial, load_initial(o.load, model));
  }
  RUNNEL_TRY(settings.defaults, model_generation_options(*o.parser, o.generation, *model));
  RUNNEL_TRY(const std::unique_ptr<serve::Server> server, serve::Server::create(model, settings));
  write_out("Serving " + printable(model->info().name) + " on " +
            serve::url_of(settings.host, server->port()) + "/v1, Ctrl-C ends\n");
  if (const std::string& note = model->info().memory_note; !note.empty())
    std::fprintf(stderr, "runnel: note: %s\n", note.c_str());
  Status served;
  std::thread serving([&] {
    served = server->run();
    if (!served) ::kill(::getpid(), SIGTERM);
  });
  int signal = 0;
  sigwait(&ending, &signal);
  const Status saved = server->stop(std::chrono::seconds(o.drain_seconds));
  serving.join();
  RUNNEL_CHECK_OK(served);
  RUNNEL_CHECK_OK(saved);
  return kOk;
}

}  // namespace

Command add_serve(CLI::App& program) {
  CLI::App* parser = program.add_subcommand("serve", "Serve an OpenAI-compatible HTTP interface");
  parser->footer(
      "Listens on this machine only, unless --host names another address, which needs an API key:\n"
      "the first line of --api-key-file, or RUNNEL_API_KEY.\n"
      "All running requests are decoded together, one token per pass. A request with\n"
      "\"conversation\": \"ID\" keeps its state, and the next one with that id continues from it "
      "and\n"
      "reads only new messages. POST /v1/states/save, fork and delete work on kept states.\n\n"
      "Examples:\n"
      "  runnel serve\n"
      "  runnel serve model.gguf --port 9000 --parallel 16 --states ~/states\n"
      "  runnel serve rwkv7.gguf --load tuned.pth\n"
      "  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"conversation\": "
      "\"first\"}'");
  auto o = std::make_shared<Options>();
  o->parser = parser;
  o->generation.options.max_tokens = 512;
  add_model_options(*parser, o->model);
  add_chat_template_option(*parser, o->model);
  constexpr const char* kGroup = "Server";
  const auto add = [&](const char* name, auto& value, const char* help, const char* type) {
    return parser->add_option(name, value, help)
        ->group(kGroup)
        ->type_name(type)
        ->capture_default_str();
  };
  serve::ServerSettings& s = o->settings;
  add("--host", s.host, "Address to listen on", "ADDRESS");
  add("--port", s.port, "Port to listen on, 0 for any free one", "N")->check(CLI::Range(0, 65535));
  add("--api-key-file", o->key_file, "File whose first line clients must give as their API key",
      "FILE");
  add("--parallel", s.parallel, "Requests that are answered together", "N")
      ->check(CLI::Range(1, 256));
  add("--queue", s.queue, "Requests that may wait; more are refused (429)", "N")
      ->check(CLI::Range(0, 4096));
  add("--state-memory", o->state_megabytes,
      "Memory for all states, in MB; the oldest idle ones make room", "MB");
  add("--states", o->states, "Folder for the states of conversations; without it they are lost",
      "DIR");
  add("--load", o->load,
      "Begin every conversation and request from this state instead of the empty one: a snapshot "
      "before the first token, or a tuned state of RWKV (.pth)",
      "FILE");
  parser
      ->add_flag("--autosave,!--no-autosave", s.autosave,
                 "With --states: an answer comes when its state is on the disk")
      ->group(kGroup);
  add("--allow-host", s.hosts, "Another name of this machine that a Host header may bear", "NAME");
  add("--connections", s.connections, "Connections at once, more get 503", "N")
      ->check(CLI::Range(1, 65536));
  add("--connections-per-address", s.connections_per_address,
      "Connections of one client address, more get 429", "N")
      ->check(CLI::Range(1, 65536));
  add("--model-name", s.model_name, "What the model is called, instead of its own name", "NAME");
  parser->add_flag("--any-model", s.any_model, "Answer whatever model name a request gives")
      ->group(kGroup);
  add("--log-format", o->log, "A line for every answer, on standard error", "none|text|json")
      ->check(CLI::IsMember({"none", "text", "json"}));
  add("--drain", o->drain_seconds, "Time for running answers when the server is told to end", "S");
  add("--most-tokens", s.most_tokens, "Most tokens generated for one request", "N");
  add("--most-prompt", s.most_prompt, "Most tokens of one request's prompt", "N");
  add("--body-bytes", s.body_bytes, "Most bytes of one request", "N");
  add_generation_options(*parser, o->generation);
  show_model_defaults(*parser);
  return {parser, [o] {
            const Result<int> code = run(*o);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
