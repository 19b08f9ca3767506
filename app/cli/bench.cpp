// SPDX-License-Identifier: Apache-2.0
// runnel bench: tokens per second of prefill and decode, at any depth of the conversation.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/constraint_options.h"
#include "app/cli/model_options.h"
#include "app/cli/sampling_options.h"
#include "app/cli/terminal.h"
#include "runnel/device.h"
#include "runnel/generation.h"
#include "runnel/session.h"
#include "runtime/backend/cpu/roofline.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/gguf.h"
#include "runtime/model/kept_weights.h"
#include "runtime/model/model_file.h"
#include "runtime/model/state_layout.h"
#include "runtime/model/weight_table.h"

namespace runnel::cli {
namespace {

struct Options {
  ModelChoice model;
  std::vector<std::uint64_t> depths = {0};
  std::vector<std::uint64_t> prefills = {512};
  std::uint64_t decode = 128;
  int repetitions = 5;
  bool sampled = false;
  bool json = false;
  const CLI::App* parser = nullptr;  // knows which options were given
  GenerationChoice generation;       // of sampled decode
  ConstraintChoice constraint;       // of constrained decode, which is sampled, too
};

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

struct Measurement {
  std::string test;  // "prefill", "decode", "sampled" or "constrained"
  std::uint64_t tokens = 0;
  std::uint64_t depth = 0;
  std::vector<double> rates;  // tokens/s of each repetition
  // Shares of what the host could do just before and after each; nothing where it does not compute.
  std::vector<double> shares = {};
  // Why each token is drawn on the host; empty: the device draws ahead.
  std::string host_draws = {};

  double median() const { return median_of(rates); }
};

// Any tokens do, because the cost does not depend on them; but they must not all read the same row of the table.
std::vector<TokenId> some_tokens(std::uint64_t count, std::int32_t vocab) {
  std::vector<TokenId> tokens(count);
  std::uint32_t state = 1;
  for (TokenId& token : tokens) {
    state = state * 1664525U + 1013904223U;
    token = static_cast<TokenId>((state >> 8) % static_cast<std::uint32_t>(vocab));
  }
  return tokens;
}

/// Constrained texts, one after the other, until they have so many tokens in all.
Status measure_constrained(const Session& start, GenerationOptions options, Measurement& m) {
  double seconds = 0.0;
  std::uint64_t tokens = 0;
  while (tokens < m.tokens) {
    RUNNEL_TRY(Session session, start.fork());
    if (session.position() == 0)
      RUNNEL_CHECK_OK(session.prefill(some_tokens(1, session.model().info().vocab_size)));
    options.max_tokens = m.tokens - tokens;
    ++options.sampling.seed;
    const Stopwatch time;
    RUNNEL_TRY(const GenerationResult made, generate(session, options));
    seconds += time.seconds();
    tokens += std::max<std::uint64_t>(made.tokens.size(), 1);
  }
  m.rates.push_back(static_cast<double>(tokens) / seconds);
  return {};
}

/// @param chosen  of "sampled" and "constrained"
Status measure(const Session& start, const GenerationOptions& chosen, Measurement& m) {
  if (m.test == "constrained") return measure_constrained(start, chosen, m);
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
  if (m.test == "sampled") options.sampling = chosen.sampling;
  options.max_tokens = m.tokens;
  options.ignore_end = true;
  const Stopwatch time;
  RUNNEL_CHECK_OK(generate(session, options));
  m.rates.push_back(static_cast<double>(m.tokens) / time.seconds());
  return {};
}

// What one token costs.
struct Work {
  // Bytes that a decoded token moves: the weights once, as they are kept in memory (of a token table that is not the head
  // one row), the state in, and out what changes of it.
  std::uint64_t decode_bytes = 0;
  // Operations of a prefilled token: a multiplication and an addition for each weight of the layers' matrices.
  std::uint64_t prefill_ops = 0;
};

/// What a token writes of a state: memory slots and the one of its position, or all of a recurrence.
std::uint64_t changed_bytes(const ModelConfig& config, std::uint64_t state_bytes) {
  double all = 0.0, changed = 0.0;
  for (const LayerSpec& layer : config.layers) {
    const auto floats = static_cast<double>(LayerState::of(layer).floats());
    all += floats;
    double share = 1.0;
    switch (layer.kind()) {
      case Mixer::recurrence:
        break;
      case Mixer::slots: {
        const SlotSpec& slots = layer.slots();
        const int written = slots.num_memory_slots + (slots.num_positional_slots() > 0 ? 1 : 0);
        share = static_cast<double>(written) / slots.num_slots();
        break;
      }
    }
    changed += floats * share;
  }
  return all > 0.0 ? static_cast<std::uint64_t>(static_cast<double>(state_bytes) * changed / all)
                   : 0;
}

Result<Work> work_per_token(const ModelChoice& choice, std::uint64_t state_bytes) {
  RUNNEL_TRY(const std::string path, model_file(choice));
  RUNNEL_TRY(std::shared_ptr<const GgufFile> gguf, GgufFile::open(path));
  Result<ModelFile> file = ModelFile::from_gguf(gguf);
  if (!file) return of_file(file.error(), path);
  Work work{.decode_bytes = state_bytes + changed_bytes(file->config, state_bytes)};
  const std::byte* const table =
      file->weights.tied() ? nullptr : file->weights.embeddings.data.data();
  for (const GgufTensor& tensor : gguf->tensors()) {
    if (tensor.data.data() != table) work.decode_bytes += kept_bytes(tensor);
  }
  for (std::size_t i = 0; i < file->config.layers.size(); ++i) {
    for (const LayerTensor& t : layer_tensors(file->config.layers[i], file->config.hidden_size)) {
      const WeightView& w = t.view_of(file->weights.layers[i]);
      if (t.role != WeightRole::small && t.role != WeightRole::vector)
        work.prefill_ops += 2 * static_cast<std::uint64_t>(w.rows * w.cols);
    }
  }
  return work;
}

// One depth of a conversation and what is measured there.
struct Stand {
  Session start;
  GenerationOptions chosen;  // of "sampled" and "constrained"
  std::vector<Measurement> tests;
};

Result<Stand> stand_at(const std::shared_ptr<const Model>& model, std::uint64_t depth,
                       const Options& o) {
  RUNNEL_TRY(Session start, Session::create(model));
  RUNNEL_CHECK_OK(start.prefill(some_tokens(depth, model->info().vocab_size)));
  RUNNEL_TRY(const GenerationOptions generation,
             model_generation_options(*o.parser, o.generation, *model));
  Stand stand{.start = std::move(start), .chosen = {.sampling = generation.sampling}, .tests = {}};
  RUNNEL_TRY(stand.chosen.constraint, chosen_constraint(o.constraint, *model));
  for (const std::uint64_t tokens : o.prefills) {
    if (tokens > 0)
      stand.tests.push_back({.test = "prefill", .tokens = tokens, .depth = depth, .rates = {}});
  }
  if (o.decode > 0)
    stand.tests.push_back({.test = "decode",
                           .tokens = o.decode,
                           .depth = depth,
                           .rates = {},
                           .host_draws = why_not_drawn_ahead(*model, {})});
  if (o.decode > 0 && o.sampled)
    stand.tests.push_back({.test = "sampled",
                           .tokens = o.decode,
                           .depth = depth,
                           .rates = {},
                           .host_draws = why_not_drawn_ahead(*model, stand.chosen)});
  if (o.decode > 0 && o.constraint.any())
    stand.tests.push_back({.test = "constrained",
                           .tokens = o.decode,
                           .depth = depth,
                           .rates = {},
                           .host_draws = why_not_drawn_ahead(*model, stand.chosen)});
  for (const Measurement& m : stand.tests) {
    // Once unmeasured: first passes record, touch pages, raise clocks.
    Measurement warm_up = m;
    warm_up.tokens = std::min<std::uint64_t>(m.tokens, 64);
    RUNNEL_CHECK_OK(measure(stand.start, stand.chosen, warm_up));
  }
  return stand;
}

/// What the host can do, asked before and after each measurement; nothing on other devices.
class Limits {
 public:
  static Result<Limits> create(bool on_host, int threads, std::uint64_t weight_bytes) {
    Limits limits;
    if (!on_host) return limits;
    RUNNEL_TRY(limits.meter_, cpu::RooflineMeter::create(threads, weight_bytes));
    return limits;
  }

  /// Before the first repetition; what is found behind one stands before the next, too.
  void begin() {
    if (meter_) look();
  }

  /// The share of the bandwidth for decode, of the int8 arithmetic for prefill, that the last repetition of `m` had.
  void hold_against(Measurement& m, const Work& work) {
    if (!meter_) return;
    const cpu::Roofline before = last_;
    look();
    const double read = (before.read_bytes_per_second + last_.read_bytes_per_second) / 2;
    const double ops = (before.int8_ops_per_second + last_.int8_ops_per_second) / 2;
    m.shares.push_back(m.rates.back() * (m.test != "prefill"
                                             ? static_cast<double>(work.decode_bytes) / read
                                             : static_cast<double>(work.prefill_ops) / ops));
  }

  std::optional<cpu::Roofline> medians() const {
    if (!meter_) return std::nullopt;
    return cpu::Roofline{.read_bytes_per_second = median_of(reads_),
                         .int8_ops_per_second = median_of(ops_)};
  }

 private:
  void look() {
    last_ = meter_->measure();
    reads_.push_back(last_.read_bytes_per_second);
    ops_.push_back(last_.int8_ops_per_second);
  }

  std::optional<cpu::RooflineMeter> meter_;
  cpu::Roofline last_;
  std::vector<double> reads_, ops_;
};

/// All tests of all depths, in turns.
Result<std::vector<Measurement>> measure_all(const std::shared_ptr<const Model>& model,
                                             const Options& o, const Work& work, Limits& limits) {
  ProgressBar bar("Measuring");
  const double steps = static_cast<double>(o.depths.size()) + o.repetitions;
  double step = 0.0;
  std::vector<Stand> stands;
  for (const std::uint64_t depth : o.depths) {
    RUNNEL_TRY(Stand stand, stand_at(model, depth, o));
    stands.push_back(std::move(stand));
    bar.update(++step / steps);
  }
  limits.begin();
  for (int i = 0; i < o.repetitions; ++i) {
    for (Stand& stand : stands) {
      for (Measurement& m : stand.tests) {
        RUNNEL_CHECK_OK(measure(stand.start, stand.chosen, m));
        limits.hold_against(m, work);
      }
    }
    bar.update(++step / steps);
  }
  bar.clear();
  std::vector<Measurement> results;
  for (const Stand& stand : stands)
    results.insert(results.end(), stand.tests.begin(), stand.tests.end());
  return results;
}

// What is printed, as text or as JSON.
struct Report {
  ModelInfo info;
  DeviceInfo device;
  int threads = 0;
  std::uint64_t memory = 0;  // of the process after loading
  Work work;
  std::optional<cpu::Roofline> roof;  // of the host, if that computes
  std::vector<Measurement> results;
};

std::string to_json(const Report& r) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Measurement& m : r.results) {
    nlohmann::ordered_json row = {{"test", m.test},
                                  {"tokens", m.tokens},
                                  {"depth", m.depth},
                                  {"tokens_per_second", m.median()},
                                  {"repetitions", m.rates}};
    if (m.test != "prefill") {
      row["drawn_ahead"] = m.host_draws.empty();
      if (!m.host_draws.empty()) row["not_drawn_ahead"] = m.host_draws;
    }
    if (!m.shares.empty())
      row[m.test != "prefill" ? "bandwidth_share" : "int8_share"] = median_of(m.shares);
    rows.push_back(std::move(row));
  }
  const nlohmann::ordered_json out = {
      {"model", r.info.name},
      {"parameters", r.info.parameters},
      {"device", r.info.device},
      {"step_program", r.info.step_program},
      {"device_name", r.device.name},
      {"device_detail", r.device.detail},
      {"threads", r.threads},
      {"weight_bytes", r.info.weight_bytes},
      {"state_bytes", r.info.state_bytes},
      {"peak_memory_bytes", r.memory},
      {"bytes_per_decoded_token", r.work.decode_bytes},
      {"operations_per_prefilled_token", r.work.prefill_ops},
      {"read_bandwidth_bytes_per_second",
       r.roof ? nlohmann::ordered_json(r.roof->read_bytes_per_second) : nullptr},
      {"int8_operations_per_second",
       r.roof ? nlohmann::ordered_json(r.roof->int8_ops_per_second) : nullptr},
      {"results", rows}};
  return out.dump(2) + "\n";
}

std::string to_text(const Report& r) {
  const ModelInfo& info = r.info;
  std::string text = "model    " + printable(info.name) + ", " +
                     format_count(static_cast<std::uint64_t>(info.parameters)) + " parameters\n";
  text += "device   " + info.device + ": " + r.device.name +
          (r.device.detail.empty() ? "" : ", " + r.device.detail);
  if (r.roof) text += ", " + std::to_string(r.threads) + (r.threads == 1 ? " thread" : " threads");
  text += "\none token by " + info.step_program;
  text += "\nmemory   " + format_bytes(info.weight_bytes) + " weights, " +
          format_bytes(info.state_bytes) + " state at any depth, " + format_bytes(r.memory) +
          " process after loading\n";
  if (r.roof) {
    text += "limits   " + format_number(r.roof->read_bytes_per_second / 1e9, 1) +
            " GB/s, a decoded token moves " + format_bytes(r.work.decode_bytes) + "; " +
            format_number(r.roof->int8_ops_per_second / 1e9, 0) +
            " int8 Gop/s, a prefilled one takes " +
            format_number(static_cast<double>(r.work.prefill_ops) / 1e9, 2) + " Gop\n";
  }
  text += "\ntest          tokens      depth    tokens/s     least      most" +
          std::string(r.roof ? "   of the limit" : "") + "\n";
  for (const Measurement& m : r.results) {
    char row[160];
    const auto [least, most] = std::minmax_element(m.rates.begin(), m.rates.end());
    std::snprintf(row, sizeof(row), "%-11s %8llu %10llu %11.1f %9.1f %9.1f", m.test.c_str(),
                  static_cast<unsigned long long>(m.tokens),
                  static_cast<unsigned long long>(m.depth), m.median(), *least, *most);
    text += row;
    if (!m.shares.empty())
      text += "          " + format_number(100.0 * median_of(m.shares), 0) + " %";
    text += "\n";
  }
  const auto sampled = std::find_if(r.results.begin(), r.results.end(),
                                    [](const Measurement& m) { return m.test == "sampled"; });
  if (sampled != r.results.end()) {
    text += "sampled tokens are " +
            (sampled->host_draws.empty() ? "drawn ahead on the device"
                                         : "not drawn ahead: " + sampled->host_draws) +
            "\n";
  }
  return text;
}

Result<int> run(const Options& o) {
  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(o.model));
  Report r{.info = model->info()};
  for (const DeviceInfo& d : devices()) {
    if (d.id == r.info.device) r.device = d;
  }
  r.threads =
      o.model.threads > 0 ? o.model.threads : static_cast<int>(std::thread::hardware_concurrency());
  r.memory = peak_memory_bytes();  // before the buffers of the measurements below
  RUNNEL_TRY(r.work, work_per_token(o.model, r.info.state_bytes));
  const bool on_host = r.device.backend == "cpu" || r.device.backend == "reference";
  RUNNEL_TRY(Limits limits, Limits::create(on_host, r.threads, r.info.weight_bytes));
  RUNNEL_TRY(r.results, measure_all(model, o, r.work, limits));
  r.roof = limits.medians();
  return write_out(o.json ? to_json(r) : to_text(r)) ? kOk : kFailed;
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* parser = program.add_subcommand("bench", "Measure speed and memory");
  parser->footer(
      "All tests take turns; the median of the repetitions is reported. Decode is greedy\n"
      "generation; with --sampled also generation by the sampling options, which are the model's\n"
      "where they are not given, and with --json-schema also one JSON text after the other by\n"
      "these. A depth is how many tokens were read before. The limit of decode is the bandwidth "
      "of\n"
      "reading a buffer as large as the model (256 MiB at most), that of prefill the int8\n"
      "arithmetic of its layers; both are measured before and after each repetition.\n\n"
      "Examples:\n"
      "  runnel bench model.gguf\n"
      "  runnel bench model.gguf --depth 0 --depth 8192 -r 9 -t 2 --json\n"
      "  runnel bench model.gguf -p 0 -n 512 --temp 0 --dry-multiplier 0.8");
  auto o = std::make_shared<Options>();
  o->parser = parser;
  add_model_options(*parser, o->model);
  parser->add_option("-p,--prefill", o->prefills, "Tokens of a prefill, 0 to skip it; repeatable")
      ->type_name("N")
      ->allow_extra_args(false)
      ->default_str("512");
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
  parser->add_flag(
      "--sampled", o->sampled,
      "Decode with sampling, too, in turns with greedy decode; so does any option of it");
  parser->add_flag("--json", o->json, "Print JSON");
  add_sampling_options(*parser, o->generation);
  parser
      ->add_option("--json-schema", o->constraint.schema,
                   "Decode JSON that the schema in FILE describes, too, sampled as with --sampled")
      ->type_name("FILE");
  show_model_defaults(*parser);
  return {parser, [o] {
            // A sampling option asks for what it is of.
            for (const CLI::Option* option : o->parser->get_options()) {
              if (option->get_group() == "Generation" && option->count() > 0) o->sampled = true;
            }
            o->sampled = o->sampled || o->constraint.any();
            const Result<int> code = run(*o);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
