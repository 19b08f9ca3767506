// SPDX-License-Identifier: Apache-2.0
// runnel snapshot: looks at snapshot files.
#include "runnel/snapshot.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/cli/command.h"
#include "app/cli/terminal.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"

namespace runnel::cli {
namespace {

std::string hex(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

Result<int> inspect(const std::string& file, bool json) {
  RUNNEL_TRY(const Snapshot snapshot, Snapshot::load(file));
  const SnapshotData& data = snapshot.data();
  std::string text;
  if (json) {
    nlohmann::ordered_json out = {{"position", data.position},
                                  {"model_fingerprint", hex(data.model_fingerprint)},
                                  {"history", hex(data.history_hash)},
                                  {"backend", data.backend},
                                  {"state_bytes", data.state.size() * sizeof(float)},
                                  {"vocab_size", data.logits.size()},
                                  {"recent_tokens", data.recent_tokens.size()},
                                  {"bytes", snapshot.bytes()}};
    if (data.has_sampler) {
      const SamplerState& s = data.sampler;
      out["sampler"] = {{"seed", s.seed},
                        {"temperature", s.temperature},
                        {"top_k", s.top_k},
                        {"top_p", s.top_p},
                        {"min_p", s.min_p},
                        {"repetition_penalty", s.repetition_penalty},
                        {"presence_penalty", s.presence_penalty},
                        {"frequency_penalty", s.frequency_penalty},
                        {"penalty_window", s.penalty_window}};
    }
    text = out.dump(2) + "\n";
  } else {
    text = "position       " + format_count(data.position) + " tokens\n" +
           "model          fingerprint " + hex(data.model_fingerprint) + "\n" + "history        " +
           hex(data.history_hash) + "\n" + "taken on       " + data.backend + "\n" +
           "state          " + format_bytes(data.state.size() * sizeof(float)) + "\n" +
           "recent tokens  " + std::to_string(data.recent_tokens.size()) + "\n";
    if (data.has_sampler) {
      text += "sampling       temperature " + format_number(data.sampler.temperature, 2) +
              ", top-p " + format_number(data.sampler.top_p, 2) + ", seed " +
              std::to_string(data.sampler.seed) + "\n";
    }
  }
  return write_out(text) ? kOk : kFailed;
}

}  // namespace

Command add_snapshot(CLI::App& program) {
  struct Options {
    std::string file;
    bool json = false;
  };
  CLI::App* parser = program.add_subcommand("snapshot", "Look at snapshot files");
  parser->require_subcommand(1);
  parser->footer("Example:\n  runnel snapshot inspect talk.snap");
  CLI::App* look = parser->add_subcommand("inspect", "Check a snapshot file and say what it holds");
  look->group("Commands");
  look->footer("Example:\n  runnel snapshot inspect talk.snap");
  auto o = std::make_shared<Options>();
  look->add_option("FILE", o->file, "Snapshot file")->required();
  look->add_flag("--json", o->json, "Print JSON");
  return {parser, [o] {
            const Result<int> code = inspect(o->file, o->json);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
