// SPDX-License-Identifier: Apache-2.0
// The commands of the program: one function per file, which adds a subcommand and its help to the parser.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace runnel::cli {

/// Exit codes. Interrupted is what shells give for SIGINT.
enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2, kInterrupted = 130 };

/// A subcommand and what runs it after parsing; `run` returns an exit code.
struct Command {
  CLI::App* parser = nullptr;
  std::function<int()> run;
};

Command add_chat(CLI::App& program);
Command add_run(CLI::App& program);
Command add_convert(CLI::App& program);
Command add_quantize(CLI::App& program);
Command add_inspect(CLI::App& program);
Command add_bench(CLI::App& program);
Command add_perplexity(CLI::App& program);
Command add_score(CLI::App& program);
Command add_pack(CLI::App& program);
Command add_conversation(CLI::App& program);
Command add_snapshot(CLI::App& program);
Command add_serve(CLI::App& program);
Command add_devices(CLI::App& program);

}  // namespace runnel::cli
