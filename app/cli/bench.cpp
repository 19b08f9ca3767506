// SPDX-License-Identifier: Apache-2.0
// runnel bench: tokens a second of prefill and decode, at any depth of the conversation.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/memory_bandwidth.h"
#include "app/cli/model_options.h"
#include "app/cli/terminal.h"
#include "runnel/device.h"
#include "runnel/generation.h"
#include "runnel/session.h"
#include "runtime/base/try.h"
#include "runtime/io/gguf.h"
#include "runtime/model/model_file.h"

namespace runnel::cli {
namespace {

struct Options {
  ModelChoice model;
  std::vector<std::uint64_t> depths = {0};
  std::uint64_t prefill = 512;
  std::uint64_t decode = 128;
  int repetitions = 5;
  bool json = false;
};

struct Measurement {
  std::string test;  // "prefill" or "decode"
  std::uint64_t tokens = 0;
  std::uint64_t depth = 0;
  std::vector<double> rates;  // tokens/s of each repetition

  double median() const {
    std::vector<double> sorted = rates;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2.0;
  }
};

// Any tokens do: cost does not depend on them. They only must not be all the same row of the table.
std::vector<TokenId> some_tokens(std::uint64_t count, std::int32_t vocab) {
  std::vector<TokenId> tokens(count);
  std::uint32_t state = 1;
  for (TokenId& token : tokens) {
    state = state * 1664525U + 1013904223U;
    token = static_cast<TokenId>((state >> 8) % static_cast<std::uint32_t>(vocab));
  }
  return tokens;
}

Status measure(const Session& start, Measurement& m) {
  RUNNEL_TRY(Session session, start.fork());
  if (m.test == "prefill") {
    const std::vector<TokenId> tokens = some_tokens(m.tokens, session.model().info().vocab_size);
    const Stopwatch time;
    RUNNEL_CHECK_OK(session.prefill(tokens));
    m.rates.push_back(static_cast<double>(m.tokens) / time.seconds());
    return {};
  }
  if (session.position() == 0)
    RUNNEL_CHECK_OK(session.prefill(some_tokens(1, session.model().info().vocab_size)));
  GenerationOptions options;
  options.max_tokens = m.tokens;
  options.ignore_end = true;
  const Stopwatch time;
  RUNNEL_CHECK_OK(generate(session, options));
  m.rates.push_back(static_cast<double>(m.tokens) / time.seconds());
  return {};
}

// Bytes that one decoded token must move: the weights once (of a token table that is not the head
// one row), the state in and out.
Result<std::uint64_t> bytes_per_token(const ModelChoice& choice, std::uint64_t state_bytes) {
  RUNNEL_TRY(const std::string path, model_file(choice));
  RUNNEL_TRY(std::shared_ptr<const GgufFile> gguf, GgufFile::open(path));
  RUNNEL_TRY(const ModelFile file, ModelFile::from_gguf(gguf));
  std::uint64_t bytes = 2 * state_bytes;
  for (const GgufTensor& tensor : gguf->tensors()) bytes += tensor.data.size();
  return bytes - (file.weights.tied() ? 0 : file.weights.embeddings.data.size());
}

Result<int> run(const Options& o) {
  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(o.model));
  const ModelInfo& info = model->info();
  DeviceInfo device;
  for (const DeviceInfo& d : devices()) {
    if (d.id == info.device) device = d;
  }
  const bool on_host = device.backend == "cpu" || device.backend == "reference";
  const int threads =
      o.model.threads > 0 ? o.model.threads : static_cast<int>(std::thread::hardware_concurrency());
  const double bandwidth = on_host ? read_bandwidth(threads) : 0.0;

  std::vector<Measurement> results;
  ProgressBar bar("Measuring");
  const double steps = static_cast<double>(o.depths.size()) * (o.repetitions + 2);
  double step = 0.0;
  for (const std::uint64_t depth : o.depths) {
    RUNNEL_TRY(Session start, Session::create(model));
    RUNNEL_CHECK_OK(start.prefill(some_tokens(depth, info.vocab_size)));
    bar.update(++step / steps);
    std::vector<Measurement> here;
    if (o.prefill > 0)
      here.push_back({.test = "prefill", .tokens = o.prefill, .depth = depth, .rates = {}});
    if (o.decode > 0)
      here.push_back({.test = "decode", .tokens = o.decode, .depth = depth, .rates = {}});
    for (Measurement& m :
         here) {  // once unmeasured: first passes record, touch pages, raise clocks
      Measurement warm_up{.test = m.test,
                          .tokens = std::min<std::uint64_t>(m.tokens, 64),
                          .depth = depth,
                          .rates = {}};
      RUNNEL_CHECK_OK(measure(start, warm_up));
    }
    bar.update(++step / steps);
    for (int i = 0; i < o.repetitions; ++i) {
      for (Measurement& m : here) RUNNEL_CHECK_OK(measure(start, m));
      bar.update(++step / steps);
    }
    results.insert(results.end(), here.begin(), here.end());
  }
  bar.clear();

  RUNNEL_TRY(const std::uint64_t moved, bytes_per_token(o.model, info.state_bytes));
  if (o.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Measurement& m : results) {
      nlohmann::ordered_json row = {{"test", m.test},
                                    {"tokens", m.tokens},
                                    {"depth", m.depth},
                                    {"tokens_per_second", m.median()},
                                    {"repetitions", m.rates}};
      if (m.test == "decode" && bandwidth > 0.0) {
        row["bandwidth_share"] = m.median() * static_cast<double>(moved) / bandwidth;
      }
      rows.push_back(std::move(row));
    }
    const nlohmann::ordered_json out = {
        {"model", info.name},
        {"parameters", info.parameters},
        {"device", info.device},
        {"device_name", device.name},
        {"device_detail", device.detail},
        {"threads", threads},
        {"weight_bytes", info.weight_bytes},
        {"state_bytes", info.state_bytes},
        {"peak_memory_bytes", peak_memory_bytes()},
        {"bytes_per_decoded_token", moved},
        {"read_bandwidth_bytes_per_second",
         bandwidth > 0.0 ? nlohmann::ordered_json(bandwidth) : nullptr},
        {"results", rows}};
    return write_out(out.dump(2) + "\n") ? kOk : kFailed;
  }

  std::string text = "model    " + info.name + ", " +
                     format_count(static_cast<std::uint64_t>(info.parameters)) + " parameters\n";
  text += "device   " + info.device + ": " + device.name +
          (device.detail.empty() ? "" : ", " + device.detail);
  if (on_host) text += ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  text += "\nmemory   " + format_bytes(info.weight_bytes) + " weights, " +
          format_bytes(info.state_bytes) + " state at any depth, " +
          format_bytes(peak_memory_bytes()) + " process at most\n";
  if (bandwidth > 0.0) {
    text += "reading  " + format_number(bandwidth / 1e9, 1) + " GB/s; a decoded token moves " +
            format_bytes(moved) + ", so at most " +
            format_number(bandwidth / static_cast<double>(moved), 0) + " tokens/s from memory\n";
  }
  text += "\ntest       tokens      depth    tokens/s     least      most" +
          std::string(bandwidth > 0.0 ? "   of bandwidth" : "") + "\n";
  for (const Measurement& m : results) {
    char row[160];
    const auto [least, most] = std::minmax_element(m.rates.begin(), m.rates.end());
    std::snprintf(row, sizeof(row), "%-8s %8llu %10llu %11.1f %9.1f %9.1f", m.test.c_str(),
                  static_cast<unsigned long long>(m.tokens),
                  static_cast<unsigned long long>(m.depth), m.median(), *least, *most);
    text += row;
    if (m.test == "decode" && bandwidth > 0.0) {
      text += "          " +
              format_number(100.0 * m.median() * static_cast<double>(moved) / bandwidth, 0) + " %";
    }
    text += "\n";
  }
  return write_out(text) ? kOk : kFailed;
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* parser = program.add_subcommand("bench", "Measure speed and memory");
  parser->footer(
      "Prefill and decode take turns; the median of the repetitions is reported. Decode is greedy "
      "generation,\nsampling included. A depth is how many tokens were read before.\n\n"
      "Examples:\n"
      "  runnel bench model.gguf\n"
      "  runnel bench model.gguf --depth 0 --depth 8192 -r 9 -t 2 --json");
  auto o = std::make_shared<Options>();
  add_model_options(*parser, o->model);
  parser->add_option("-p,--prefill", o->prefill, "Tokens of a prefill, 0 to skip it")
      ->type_name("N")
      ->capture_default_str();
  parser->add_option("-n,--decode", o->decode, "Tokens of a decode, 0 to skip it")
      ->type_name("N")
      ->capture_default_str();
  parser->add_option("--depth", o->depths, "Tokens read before; repeatable")
      ->type_name("N")
      ->allow_extra_args(false)
      ->default_str("0");
  parser->add_option("-r,--repetitions", o->repetitions, "Repetitions of each test")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  parser->add_flag("--json", o->json, "Print JSON");
  return {parser, [o] {
            const Result<int> code = run(*o);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
