// SPDX-License-Identifier: Apache-2.0
// runnel serve: an OpenAI-compatible HTTP interface on this machine.
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "app/cli/command.h"
#include "app/cli/model_options.h"
#include "app/cli/sampling_options.h"
#include "app/cli/terminal.h"
#include "app/serve/server.h"
#include "runtime/base/try.h"

namespace runnel::cli {
namespace {

struct Options {
  ModelChoice model;
  GenerationChoice generation;
  serve::ServerSettings settings;
  std::string key_file;
  std::string states;
  std::uint64_t state_megabytes = 256;
};

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

Result<int> run(const Options& o) {
  serve::ServerSettings settings = o.settings;
  RUNNEL_TRY(settings.defaults, generation_options(o.generation));
  RUNNEL_TRY(settings.api_key, read_key(o.key_file));
  settings.state_memory = o.state_megabytes * 1'000'000;
  settings.states = o.states;

  // Before any thread exists, so that all of them leave the signals to the wait below.
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);

  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(o.model));
  RUNNEL_TRY(const std::unique_ptr<serve::Server> server, serve::Server::create(model, settings));
  write_out("Serving " + model->info().name + " on http://" + settings.host + ":" +
            std::to_string(server->port()) + "/v1, Ctrl-C ends\n");
  Status served;
  std::thread serving([&] {
    served = server->run();
    if (!served) ::kill(::getpid(), SIGTERM);
  });
  int signal = 0;
  sigwait(&ending, &signal);
  server->stop();
  serving.join();
  RUNNEL_CHECK_OK(served);
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
      "  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"conversation\": "
      "\"first\"}'");
  auto o = std::make_shared<Options>();
  SamplingOptions& sampling = o->generation.options.sampling;
  sampling.temperature = 0.7F;
  sampling.top_p = 0.95F;
  sampling.repetition_penalty = 1.15F;
  o->generation.options.max_tokens = 512;
  add_model_options(*parser, o->model);
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
  add("--states", o->states, "Folder for states that clients save; without it saving is refused",
      "DIR");
  add("--most-tokens", s.most_tokens, "Most tokens generated for one request", "N");
  add("--most-prompt", s.most_prompt, "Most tokens of one request's prompt", "N");
  add("--body-bytes", s.body_bytes, "Most bytes of one request", "N");
  add_generation_options(*parser, o->generation);
  return {parser, [o] {
            const Result<int> code = run(*o);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
