// SPDX-License-Identifier: Apache-2.0
// runnel snapshot: looks at snapshot files.
#include "runnel/snapshot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/model_options.h"
#include "app/cli/terminal.h"
#include "runnel/session.h"
#include "runtime/base/file_map.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/io/snapshot_file.h"

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

const char* name_of(StateEncoding encoding) {
  switch (encoding) {
    case StateEncoding::f32:
      return "f32";
    case StateEncoding::f16:
      return "f16";
    case StateEncoding::int8:
      return "int8";
  }
  return "?";
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

struct Difference {
  double largest = 0.0;
  double relative_rms = 0.0;
  std::size_t unequal = 0;
};

Difference compare(const std::vector<float>& a, const std::vector<float>& b) {
  Difference d;
  double squares = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    const double y = b[i];
    if (a[i] != b[i]) ++d.unequal;
    d.largest = std::max(d.largest, std::fabs(x - y));
    squares += (x - y) * (x - y);
    norm += x * x;
  }
  d.relative_rms = norm > 0.0 ? std::sqrt(squares / norm) : std::sqrt(squares);
  return d;
}

// Exit code 0: equal, 1: they differ.
Result<int> diff(const std::string& left, const std::string& right) {
  RUNNEL_TRY(const Snapshot a, Snapshot::load(left));
  RUNNEL_TRY(const Snapshot b, Snapshot::load(right));
  const SnapshotData& x = a.data();
  const SnapshotData& y = b.data();
  std::string text;
  const auto line = [&text](const std::string& what, const std::string& of_x,
                            const std::string& of_y) {
    if (of_x != of_y) text += what + of_x + " | " + of_y + "\n";
  };
  line("model          ", hex(x.model_fingerprint), hex(y.model_fingerprint));
  line("taken on       ", x.backend, y.backend);
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
  write_out(text.empty() ? "equal\n" : text);
  return text.empty() ? kOk : kFailed;
}

struct BenchOptions {
  ModelChoice model;
  std::string directory = ".";
  int tokens = 300;
};

double median_ms(const std::function<Status()>& work, Status& failed) {
  constexpr int kRuns = 15;
  std::vector<double> times;
  for (int i = 0; i < kRuns && failed; ++i) {
    const Stopwatch watch;
    failed = work();
    times.push_back(watch.seconds() * 1e3);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

// Times and sizes of saving and restoring, and what rounding the state changes.
Result<int> bench(const BenchOptions& o) {
  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(o.model));
  RUNNEL_TRY(Session session, Session::create(model));
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<std::size_t>(std::max(o.tokens, 0)));
  for (int i = 0; i < o.tokens; ++i)
    tokens.push_back(static_cast<TokenId>((static_cast<std::int64_t>(i) * 7919 + 13) %
                                          model->info().vocab_size));
  RUNNEL_CHECK_OK(session.prefill(tokens));
  RUNNEL_TRY(Snapshot snapshot, session.snapshot());
  Status failed;
  const double taking = median_ms(
      [&]() -> Status {
        RUNNEL_TRY(snapshot, session.snapshot());
        return {};
      },
      failed);
  const double restoring = median_ms([&] { return session.restore(snapshot); }, failed);
  RUNNEL_CHECK_OK(failed);
  write_out("in memory: snapshot " + format_number(taking, 2) + " ms, restore " +
            format_number(restoring, 2) + " ms\n\n");
  write_out(
      "| state | bytes | to bytes, ms | save with sync, ms | restore from cache, ms | state "
      "drift | logit drift after a token |\n|---|---|---|---|---|---|---|\n");
  const TokenId next = tokens[0];
  RUNNEL_TRY(Session exact, session.fork());
  RUNNEL_CHECK_OK(exact.prefill(std::span(&next, 1)));
  const std::vector<float> expected(exact.logits().begin(), exact.logits().end());
  const std::filesystem::path file = std::filesystem::path(o.directory) / "runnel-bench.snap";
  for (const StateEncoding encoding :
       {StateEncoding::f32, StateEncoding::f16, StateEncoding::int8}) {
    for (const bool compress : {false, true}) {
      const SnapshotEncoding how{.state = encoding, .compress = compress};
      const double encoding_ms = median_ms(
          [&]() -> Status {
            RUNNEL_CHECK_OK(snapshot.to_bytes(how));
            return {};
          },
          failed);
      const double saving = median_ms([&] { return snapshot.save(file, how); }, failed);
      RUNNEL_CHECK_OK(failed);
      Session back = std::move(exact);
      const double loading = median_ms(
          [&]() -> Status {
            RUNNEL_TRY(const Snapshot loaded, Snapshot::load(file));
            return back.restore(loaded);
          },
          failed);
      RUNNEL_CHECK_OK(failed);
      RUNNEL_TRY(const Snapshot loaded, Snapshot::load(file));
      RUNNEL_CHECK_OK(back.prefill(std::span(&next, 1)));
      const std::vector<float> logits(back.logits().begin(), back.logits().end());
      char row[256];
      std::snprintf(row, sizeof row, "| %s%s | %s | %.1f | %.1f | %.1f | %.2g | %.2g |\n",
                    name_of(encoding), compress ? " packed" : "",
                    format_count(std::filesystem::file_size(file)).c_str(), encoding_ms, saving,
                    loading, compare(snapshot.data().state, loaded.data().state).relative_rms,
                    compare(expected, logits).relative_rms);
      write_out(row);
      exact = std::move(back);
    }
  }
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return kOk;
}

}  // namespace

Command add_snapshot(CLI::App& program) {
  struct Options {
    std::string file;
    std::string other;
    BenchOptions bench;
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
  CLI::App* verifier = parser->add_subcommand("verify", "Check every section of a snapshot file");
  verifier->add_option("FILE", o->file, "Snapshot file")->required();
  CLI::App* differ =
      parser->add_subcommand("diff", "Compare two snapshot files; exit code 1 if they differ");
  differ->add_option("FILE", o->file, "Snapshot file")->required();
  differ->add_option("OTHER", o->other, "Another")->required();
  CLI::App* timer = parser->add_subcommand("bench", "Time saving and restoring, measure drift");
  add_model_options(*timer, o->bench.model);
  timer->add_option("--directory", o->bench.directory, "Where to write")->type_name("DIR");
  timer->add_option("--tokens", o->bench.tokens, "Tokens to read first")
      ->check(CLI::Range(1, 1000000));
  return {parser, [o, verifier, differ, timer] {
            const Result<int> code = verifier->parsed() ? verify(o->file)
                                     : differ->parsed() ? diff(o->file, o->other)
                                     : timer->parsed()  ? bench(o->bench)
                                                        : inspect(o->file, o->json);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
