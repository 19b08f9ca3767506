// SPDX-License-Identifier: Apache-2.0
// The program `runnel`: parses the command line and runs one command.
#include <csignal>
#include <cstdio>
#include <exception>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/terminal.h"

namespace runnel::cli {
namespace {

int run_program(int argc, char** argv) {
  CLI::App program(
      "Runs recurrent language models whose memory has one fixed size, on the device in front of "
      "you.",
      "runnel");
  program.set_version_flag("--version", "runnel " RUNNEL_VERSION);
  program.require_subcommand(1);
  program.failure_message([](const CLI::App* app, const CLI::Error& error) {
    return "runnel: " + std::string(error.what()) + "\nTry '" + app->get_display_name() +
           " --help'.\n";
  });
  program.footer(
      "Examples:\n"
      "  runnel chat                                   talk to the default model\n"
      "  runnel run model.gguf -p \"Once upon a time\"   continue a text\n"
      "  runnel COMMAND --help                         all options of a command");

  const std::vector<Command> commands = {
      add_chat(program),       add_run(program),      add_convert(program),
      add_quantize(program),   add_inspect(program),  add_bench(program),
      add_perplexity(program), add_snapshot(program), add_devices(program),
  };
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
  // A reader that goes away (`runnel run … | head`) ends the output with an error instead of
  // killing us unsaved.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return runnel::cli::run_program(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "runnel: %s\n", error.what());
    return runnel::cli::kFailed;
  }
}
