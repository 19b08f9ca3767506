// SPDX-License-Identifier: Apache-2.0
// The program `runnel`: parses the command line and runs one command.
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/help.h"
#include "app/cli/terminal.h"

namespace runnel::cli {
namespace {

// A mistake on the command line, and where to read what is right.
std::string describe(const CLI::App* program, const CLI::Error& error) {
  std::string command = "runnel";
  for (const CLI::App* parsed : program->get_subcommands()) {
    command += " " + parsed->get_name();
    for (const CLI::App* inner : parsed->get_subcommands()) command += " " + inner->get_name();
  }
  std::string what = error.what();
  if (error.get_name() == "RequiredError" && command == "runnel") {
    const std::vector<std::string> rest = program->remaining();
    what = rest.empty() ? "a command is needed, such as chat" : "there is no command " + rest[0];
  } else if (what == "A subcommand is required") {
    what = "a command is needed, see its help";
  }
  return "runnel: " + what + "\nTry '" + command + " --help'.\n";
}

int run_program(int argc, char** argv) {
  CLI::App program(
      "Runs recurrent language models, whose memory has one fixed size, on the device in front of "
      "you",
      "runnel");
  program.formatter(std::make_shared<HelpFormatter>());
  program.set_help_flag("-h,--help", "Show this help");
  program.set_version_flag("--version", "runnel " RUNNEL_VERSION, "Show the version");
  program.require_subcommand(1);
  program.failure_message(describe);
  std::vector<Command> commands = {
      add_chat(program),         add_run(program),   add_convert(program),    add_quantize(program),
      add_inspect(program),      add_bench(program), add_perplexity(program), add_snapshot(program),
      add_conversation(program), add_pack(program),  add_devices(program),    add_score(program),
  };
#ifdef RUNNEL_SERVE
  commands.push_back(add_serve(program));
#endif
  program.get_formatter()->label("Positionals", "Arguments");
  for (CLI::App* command : program.get_subcommands([](CLI::App*) { return true; })) {
    command->group("Commands");
  }
  program.footer(
      "Examples:\n"
      "  runnel chat                                   talk to the default model\n"
      "  runnel run model.gguf -p \"Once upon a time\"   continue a text\n"
      "  runnel COMMAND --help                         all options of a command");
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? kOk : kUsage;
  }
  for (const Command& command : commands) {
    if (command.parser->parsed()) return command.run();
  }
  return kUsage;
}

}  // namespace
}  // namespace runnel::cli

int main(int argc, char** argv) {
  // A reader that closes the pipe (`runnel run … | head`) makes writes fail instead of killing the process before it
  // has saved.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return runnel::cli::run_program(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "runnel: %s\n", error.what());
    return runnel::cli::kFailed;
  }
}
