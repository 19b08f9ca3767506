// SPDX-License-Identifier: Apache-2.0
#include "app/cli/snapshot_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "app/cli/command.h"
#include "app/cli/terminal.h"
#include "runnel/session.h"
#include "runtime/base/byte_reader.h"
#include "runtime/base/file_map.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"

namespace runnel::cli {
namespace {

constexpr std::size_t kDriftTokens = 64;  // read after a restore, to see what rounding changed

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

// As many as are read first, and those that follow.
Result<std::vector<TokenId>> tokens_of(const SnapshotBenchOptions& o, const Model& model) {
  const std::size_t wanted = static_cast<std::size_t>(o.tokens) + kDriftTokens;
  std::vector<TokenId> tokens;
  if (o.text.empty()) {
    tokens.reserve(wanted);
    for (std::size_t i = 0; i < wanted; ++i)
      tokens.push_back(static_cast<TokenId>((static_cast<std::int64_t>(i) * 7919 + 13) %
                                            model.info().vocab_size));
    return tokens;
  }
  RUNNEL_TRY(const FileMap map, FileMap::open(o.text));
  RUNNEL_TRY(tokens, model.encode(as_text(map.bytes()), false));
  if (tokens.size() < wanted) {
    return fail(ErrorCode::invalid_argument, o.text, ": has ", tokens.size(), " tokens, expected ",
                wanted, " for --tokens ", o.tokens);
  }
  tokens.resize(wanted);
  return tokens;
}

struct LogitDrift {
  double first = 0.0;       // relative rms after one token
  double mean = 0.0;        // of kDriftTokens positions
  double same_first = 0.0;  // share of positions with the same likeliest token
};

LogitDrift drift_of(const std::vector<float>& exact, const std::vector<float>& rounded,
                    std::size_t vocab) {
  LogitDrift drift;
  const std::size_t positions = exact.size() / vocab;
  for (std::size_t i = 0; i < positions; ++i) {
    const auto row = [&](const std::vector<float>& all) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * vocab);
      return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(vocab));
    };
    const std::vector<float> a = row(exact);
    const std::vector<float> b = row(rounded);
    const double d = compare(a, b).relative_rms;
    if (i == 0) drift.first = d;
    drift.mean += d / static_cast<double>(positions);
    const auto likeliest = [](const std::vector<float>& v) {
      return std::max_element(v.begin(), v.end()) - v.begin();
    };
    if (likeliest(a) == likeliest(b)) drift.same_first += 1.0 / static_cast<double>(positions);
  }
  return drift;
}

// One encoding: a row of the table.
Status measure(const Snapshot& snapshot, SnapshotEncoding how, const std::filesystem::path& file,
               Session& session, std::span<const TokenId> following,
               const std::vector<float>& expected) {
  Status failed;
  const double encoding_ms = median_ms(
      [&]() -> Status {
        RUNNEL_CHECK_OK(snapshot.to_bytes(how));
        return {};
      },
      failed);
  const double saving = median_ms([&] { return snapshot.save(file, how); }, failed);
  RUNNEL_CHECK_OK(failed);
  const double loading = median_ms(
      [&]() -> Status {
        RUNNEL_TRY(const Snapshot loaded, Snapshot::load(file));
        return session.restore(loaded);
      },
      failed);
  RUNNEL_CHECK_OK(failed);
  RUNNEL_TRY(const Snapshot loaded, Snapshot::load(file));
  RUNNEL_TRY(const std::vector<float> logits, session.score(following));
  const LogitDrift drift = drift_of(expected, logits, expected.size() / following.size());
  char row[256];
  std::snprintf(row, sizeof row,
                "| %s%s | %s | %.1f | %.1f | %.1f | %.2g | %.2g | %.2g | %.0f %% |\n",
                name_of(how.state), how.compress ? " packed" : "",
                format_count(std::filesystem::file_size(file)).c_str(), encoding_ms, saving,
                loading, compare(data_of(snapshot).state, data_of(loaded).state).relative_rms,
                drift.first, drift.mean, 100.0 * drift.same_first);
  write_out(row);
  return {};
}

}  // namespace

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

Result<int> bench_snapshots(const SnapshotBenchOptions& o) {
  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(o.model));
  RUNNEL_TRY(Session session, Session::create(model));
  RUNNEL_TRY(const std::vector<TokenId> tokens, tokens_of(o, *model));
  const std::span<const TokenId> read = std::span(tokens).first(tokens.size() - kDriftTokens);
  const std::span<const TokenId> following = std::span(tokens).last(kDriftTokens);
  RUNNEL_CHECK_OK(session.prefill(read));
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
      "| state | bytes | to bytes, ms | save with sync, ms | restore from cache, ms | state drift "
      "| logit drift after 1 token | mean of " +
      std::to_string(kDriftTokens) +
      " tokens | same likeliest token |\n|---|---|---|---|---|---|---|---|---|\n");
  RUNNEL_TRY(const std::vector<float> expected, session.score(following));
  const std::filesystem::path file = std::filesystem::path(o.directory) / "runnel-bench.snap";
  for (const StateEncoding encoding :
       {StateEncoding::f32, StateEncoding::f16, StateEncoding::int8}) {
    for (const bool compress : {false, true}) {
      RUNNEL_CHECK_OK(measure(snapshot, {.state = encoding, .compress = compress}, file, session,
                              following, expected));
    }
  }
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return kOk;
}

}  // namespace runnel::cli
