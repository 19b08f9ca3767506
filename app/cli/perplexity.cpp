// SPDX-License-Identifier: Apache-2.0
// runnel perplexity: how well a model predicts a text, read as one stream from an empty state.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/model_options.h"
#include "app/cli/terminal.h"
#include "runnel/session.h"
#include "runtime/base/try.h"

namespace runnel::cli {
namespace {

// tokens scored at once; their logits take 128 * vocab * 4 bytes
constexpr std::size_t kChunk = 128;

struct Options {
  ModelChoice model;
  std::string text;
  std::size_t most = 0;
  bool json = false;
};

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorCode::not_found, path, ": cannot be opened for reading");
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return fail(ErrorCode::io, path, ": cannot be read");
  return text;
}

// -log softmax(logits)[token], in nats.
double negative_log_likelihood(std::span<const float> logits, TokenId token) {
  const float max = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float x : logits) sum += static_cast<double>(std::exp(x - max));
  return std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(token)] - max);
}

Result<int> run(const Options& o) {
  RUNNEL_TRY(const std::string text, read_file(o.text));
  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(o.model));
  Result<std::vector<TokenId>> encoded = model->encode(text, true);
  if (!encoded) return with_context(encoded.error(), o.text + ": ");
  std::vector<TokenId> tokens = *std::move(encoded);
  if (o.most > 0 && tokens.size() > o.most) tokens.resize(o.most);
  if (tokens.size() < 2) {
    return fail(ErrorCode::invalid_argument, o.text, ": has ", tokens.size(),
                " tokens, expected at least 2");
  }
  RUNNEL_TRY(Session session, Session::create(model));

  const auto vocab = static_cast<std::size_t>(model->info().vocab_size);
  const std::size_t scored = tokens.size() - 1;
  double total = 0.0;
  const Stopwatch time;
  ProgressBar bar("Scoring");
  for (std::size_t at = 0; at < scored; at += kChunk) {
    const std::span<const TokenId> chunk =
        std::span(tokens).subspan(at, std::min(kChunk, scored - at));
    RUNNEL_TRY(const std::vector<float> logits, session.score(chunk));
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      total +=
          negative_log_likelihood(std::span(logits).subspan(i * vocab, vocab), tokens[at + i + 1]);
    }
    bar.update(static_cast<double>(at + chunk.size()) / static_cast<double>(scored));
  }
  bar.clear();
  const double nll = total / static_cast<double>(scored);
  if (!std::isfinite(nll)) {
    return fail(ErrorCode::internal, o.text, ": the model's logits are not numbers");
  }
  if (o.json) {
    const nlohmann::ordered_json out = {{"model", model->info().name},
                                        {"device", model->info().device},
                                        {"text", o.text},
                                        {"tokens", tokens.size()},
                                        {"nll", nll},
                                        {"perplexity", std::exp(nll)},
                                        {"seconds", time.seconds()}};
    return write_out(out.dump(2) + "\n") ? kOk : kFailed;
  }
  const std::string line =
      "perplexity " + format_number(std::exp(nll), 4) + "   (" + format_count(tokens.size()) +
      " tokens, " + format_number(nll, 4) + " nats per token, " +
      format_number(static_cast<double>(scored) / time.seconds(), 0) + " tokens/s)\n";
  return write_out(line) ? kOk : kFailed;
}

}  // namespace

Command add_perplexity(CLI::App& program) {
  CLI::App* parser =
      program.add_subcommand("perplexity", "Measure how well a model predicts a text");
  parser->footer(
      "The text is one stream from an empty state, without a begin token; texts of special tokens "
      "in it\nbecome those tokens. The first token is not scored: the mean is over tokens - 1, in "
      "nats.\n\n"
      "Example:\n"
      "  runnel perplexity model.gguf --text book.txt --json");
  auto o = std::make_shared<Options>();
  add_model_options(*parser, o->model);
  parser->add_option("--text", o->text, "Text file, UTF-8")->type_name("PATH")->required();
  parser->add_option("--max-tokens", o->most, "Score only the first N tokens, 0 for all")
      ->type_name("N")
      ->capture_default_str();
  parser->add_flag("--json", o->json, "Print JSON");
  return {parser, [o] {
            const Result<int> code = run(*o);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
