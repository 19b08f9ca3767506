// SPDX-License-Identifier: Apache-2.0
// runnel snapshot: looks at snapshot files.
#include "runnel/snapshot.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/model_options.h"
#include "app/cli/snapshot_bench.h"
#include "app/cli/terminal.h"
#include "runtime/base/file_map.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/io/snapshot_file.h"
#include "runtime/model/initial_state.h"

namespace runnel::cli {
namespace {

std::string hex(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string beginning(const Snapshot& pack) {
  const std::optional<Snapshot> initial = initial_state_of(pack);
  return initial ? "initial state " + hex(initial_state_id(*initial)) : "the empty state";
}

Result<int> inspect(const std::string& file, bool json) {
  RUNNEL_TRY(const Snapshot snapshot, Snapshot::load(file));
  RUNNEL_TRY(const FileMap map, FileMap::open(file));
  RUNNEL_TRY(const SnapshotOutline outline, outline_snapshot(map.bytes()));
  const SnapshotData& data = data_of(snapshot);
  const std::string encoding =
      name_of(outline.encoding.state) + std::string(outline.encoding.compress ? " packed" : "");
  std::string text;
  if (json) {
    nlohmann::ordered_json out = {{"position", data.position},
                                  {"model_fingerprint", hex(data.model_fingerprint)},
                                  {"history", hex(data.history_hash)},
                                  {"backend", data.backend},
                                  {"state_bytes", data.state.size() * sizeof(float)},
                                  {"vocab_size", data.logits.size()},
                                  {"recent_tokens", data.recent_tokens.size()},
                                  {"bytes", snapshot.bytes()},
                                  {"encoding", encoding},
                                  {"file_bytes", map.bytes().size()},
                                  {"pack", !data.context.empty()}};
    if (const std::optional<Snapshot> initial = initial_state_of(snapshot))
      out["initial_state"] = hex(initial_state_id(*initial));
    if (data.window_slots) out["window_slots"] = *data.window_slots;
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
           "model          fingerprint " + hex(data.model_fingerprint) +
           (data.window_slots ? ", window of " + std::to_string(*data.window_slots) : "") + "\n" +
           "history        " + hex(data.history_hash) + "\n" + "taken on       " + data.backend +
           "\n" + "state          " + format_bytes(data.state.size() * sizeof(float)) +
           ", in the file " + encoding + "\n" + "file           " +
           format_bytes(map.bytes().size()) + (data.context.empty() ? "" : ", a state pack") +
           "\n" + "recent tokens  " + std::to_string(data.recent_tokens.size()) + "\n";
    if (!data.context.empty()) text += "began from     " + beginning(snapshot) + "\n";
    if (data.has_sampler) {
      text += "sampling       temperature " + format_number(data.sampler.temperature, 2) +
              ", top-p " + format_number(data.sampler.top_p, 2) + ", seed " +
              std::to_string(data.sampler.seed) + "\n";
    }
  }
  return write_out(text) ? kOk : kFailed;
}

// Every section with its checksum; a damaged file is named section by section.
Result<int> verify(const std::string& file) {
  RUNNEL_TRY(const FileMap map, FileMap::open(file));
  const Result<SnapshotOutline> outline = outline_snapshot(map.bytes());
  if (!outline) return Error{outline.error().code, file + ": " + outline.error().message};
  std::string text = "version " + std::to_string(outline->major) + "." +
                     std::to_string(outline->minor) + ", state " +
                     name_of(outline->encoding.state) +
                     (outline->encoding.compress ? " packed" : "") + "\n";
  for (const SnapshotSection& section : outline->sections) {
    text += (section.intact ? "ok       " : "damaged  ") + section.name + ", " +
            format_count(section.size) + " bytes at " + format_count(section.offset) +
            (section.optional ? ", optional" : "") + "\n";
  }
  write_out(text);
  const Result<SnapshotData> data = snapshot_from_bytes(map.bytes());
  if (!data) return Error{data.error().code, file + ": " + data.error().message};
  return kOk;
}

// Exit code 0: equal, 1: they differ.
Result<int> diff(const std::string& left, const std::string& right) {
  RUNNEL_TRY(const Snapshot a, Snapshot::load(left));
  RUNNEL_TRY(const Snapshot b, Snapshot::load(right));
  const SnapshotData& x = data_of(a);
  const SnapshotData& y = data_of(b);
  std::string text;
  const auto line = [&text](const std::string& what, const std::string& of_x,
                            const std::string& of_y) {
    if (of_x != of_y) text += what + of_x + " | " + of_y + "\n";
  };
  line("model          ", hex(x.model_fingerprint), hex(y.model_fingerprint));
  const auto window = [](const SnapshotData& s) {
    return s.window_slots ? std::to_string(*s.window_slots) : "that of the file";
  };
  line("window         ", window(x), window(y));
  line("taken on       ", x.backend, y.backend);
  line("began from     ", beginning(a), beginning(b));
  line("position       ", format_count(x.position), format_count(y.position));
  line("history        ", hex(x.history_hash), hex(y.history_hash));
  line("state numbers  ", format_count(x.state.size()), format_count(y.state.size()));
  line("vocabulary     ", format_count(x.logits.size()), format_count(y.logits.size()));
  if (x.recent_tokens != y.recent_tokens) text += "recent tokens  differ\n";
  if (x.has_sampler != y.has_sampler || !(x.sampler == y.sampler)) {
    text += "sampler        differs\n";
  }
  const auto numbers = [&text](const char* what, const std::vector<float>& p,
                               const std::vector<float>& q) {
    if (p.size() != q.size() || p.empty()) return;
    const Difference d = compare(p, q);
    if (d.unequal == 0) return;
    char values[160];
    std::snprintf(values, sizeof values,
                  "%s%zu of %zu differ, by %.3g at most, %.3g of their size\n", what, d.unequal,
                  p.size(), d.largest, d.relative_rms);
    text += values;
  };
  numbers("state          ", x.state, y.state);
  numbers("logits         ", x.logits, y.logits);
  numbers("initial state  ", x.initial_state, y.initial_state);
  write_out(text.empty() ? "equal\n" : text);
  return text.empty() ? kOk : kFailed;
}

// A tuned state as a file of ours, for run, chat and serve.
Result<int> make(const ModelChoice& choice, const std::string& file, const std::string& out) {
  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(choice));
  RUNNEL_TRY(const Snapshot snapshot, load_start(file, model));
  RUNNEL_CHECK_OK(snapshot.save(out));
  write_out(out + ": " + format_bytes(data_of(snapshot).state.size() * sizeof(float)) +
            " of state at position " + format_count(snapshot.position()) + "\n");
  return kOk;
}

}  // namespace

Command add_snapshot(CLI::App& program) {
  struct Options {
    std::string file;
    std::string other;
    SnapshotBenchOptions bench;
    ModelChoice model;
    bool json = false;
  };
  CLI::App* parser =
      program.add_subcommand("snapshot", "Make, inspect, verify, compare and time snapshot files");
  parser->require_subcommand(1);
  parser->footer("Example:\n  runnel snapshot inspect talk.snap");
  CLI::App* look =
      parser->add_subcommand("inspect", "Check a snapshot file and show what it holds");
  look->footer("Example:\n  runnel snapshot inspect talk.snap");
  auto o = std::make_shared<Options>();
  look->add_option("FILE", o->file, "Snapshot file")->required();
  look->add_flag("--json", o->json, "Print JSON");
  CLI::App* verifier = parser->add_subcommand("verify", "Check every section of a snapshot file");
  verifier->add_option("FILE", o->file, "Snapshot file")->required();
  CLI::App* differ =
      parser->add_subcommand("diff", "Compare two snapshot files; exit code 1 if they differ");
  differ->add_option("FILE", o->file, "Snapshot file")->required();
  differ->add_option("OTHER", o->other, "Another")->required();
  CLI::App* maker = parser->add_subcommand(
      "make", "Make a snapshot file of a tuned state of RWKV (.pth), for the model it belongs to");
  maker->footer("Example:\n  runnel snapshot make poet.pth poet.snap rwkv7-g1.gguf");
  maker->add_option("STATE", o->file, "Tuned state: blocks.i.att.time_state of every layer")
      ->required()
      ->check(CLI::ExistingFile);
  maker->add_option("OUT", o->other, "Snapshot file to write")->required();
  add_model_options(*maker, o->model);
  CLI::App* timer = parser->add_subcommand("bench", "Time saving and restoring, measure drift");
  add_model_options(*timer, o->bench.model);
  timer->add_option("--directory", o->bench.directory, "Where to write")->type_name("DIR");
  timer->add_option("--tokens", o->bench.tokens, "Tokens to read first")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  timer->add_option("--text", o->bench.text, "Text to read them from, instead of any tokens")
      ->type_name("FILE");
  return {parser, [o, verifier, differ, maker, timer] {
            const Result<int> code = verifier->parsed() ? verify(o->file)
                                     : differ->parsed() ? diff(o->file, o->other)
                                     : maker->parsed()  ? make(o->model, o->file, o->other)
                                     : timer->parsed()  ? bench_snapshots(o->bench)
                                                        : inspect(o->file, o->json);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
