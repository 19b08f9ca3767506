// SPDX-License-Identifier: Apache-2.0
// runnel score: choices ranked by how likely they are after a prompt. JSON lines in, JSON lines out.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/model_options.h"
#include "app/cli/terminal.h"
#include "runnel/scoring.h"
#include "runnel/session.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/json_file.h"

namespace runnel::cli {
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<TokenId>;

constexpr std::size_t kMostChoices = 1000;
constexpr std::size_t kMostLine = std::size_t{16} << 20;  // bytes

struct Options {
  ModelChoice model;
  std::string input = "-";
  std::string prompt;
  std::vector<std::string> choices;
  std::string by = "sum";
  CLI::App* parser = nullptr;
};

/// One line of input.
struct Question {  // NOLINT(bugprone-exception-escape): moves of JSON throw nothing
  Json id;         // given back as it came, null if there was none
  std::string prompt;
  std::vector<std::string> choices;
};

Result<Question> read_question(const std::string& line, const std::string& name) {
  RUNNEL_TRY(Json given, parse_json(line, name, {.bytes = kMostLine, .unique_keys = true}));
  const auto wrong = [&name] {
    return fail(
        ErrorCode::malformed, name,
        ": expected {\"prompt\": \"…\", \"choices\": [\"…\", …]}, with an \"id\" if wanted");
  };
  if (!given.is_object()) return wrong();
  Question question;
  for (auto& [key, value] : given.items()) {
    if (key == "id") {
      question.id = value;
    } else if (key == "prompt" && value.is_string()) {
      question.prompt = value.get<std::string>();
    } else if (key == "choices" && value.is_array() && !value.empty() &&
               value.size() <= kMostChoices &&
               std::all_of(value.begin(), value.end(),
                           [](const Json& v) { return v.is_string(); })) {
      question.choices = value.get<std::vector<std::string>>();
    } else if (key == "choices" && value.size() > kMostChoices) {
      return fail(ErrorCode::malformed, name, ": has ", value.size(), " choices, expected at most ",
                  kMostChoices);
    } else if (key == "prompt" || key == "choices") {
      return wrong();
    } else {
      return fail(ErrorCode::malformed, name, ": the field ", in_quotes(key),
                  " is unknown, expected prompt, choices and id");
    }
  }
  if (question.choices.empty()) return wrong();
  return question;
}

/// Reads prompts, each once as long as the same one comes.
class Scorer {
 public:
  Scorer(std::shared_ptr<const Model> model, bool by_mean)
      : model_(std::move(model)), by_mean_(by_mean) {}

  /// The line of output.  @param name  of the question, for errors
  Result<std::string> answer(const Question& question, const std::string& name) {
    RUNNEL_CHECK_OK(read_prompt(question.prompt, name));
    std::vector<Tokens> choices;
    for (const std::string& text : question.choices) {
      Result<Tokens> tokens = model_->encode(text, true);
      if (!tokens) return with_context(tokens.error(), name + ": ");
      if (tokens->empty()) return fail(ErrorCode::invalid_argument, name, ": a choice is empty");
      choices.push_back(*std::move(tokens));
    }
    RUNNEL_TRY(const std::vector<ChoiceScore> scores, score_choices(*session_, choices));
    std::vector<std::size_t> ranking(scores.size());
    std::iota(ranking.begin(), ranking.end(), 0);
    std::stable_sort(ranking.begin(), ranking.end(), [&](std::size_t a, std::size_t b) {
      return by_mean_ ? scores[a].mean() > scores[b].mean() : scores[a].total() > scores[b].total();
    });
    nlohmann::ordered_json out;
    if (!question.id.is_null()) out["id"] = question.id;
    out["best"] = question.choices[ranking[0]];
    out["ranking"] = ranking;
    out["choices"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < scores.size(); ++i) {
      out["choices"].push_back({{"text", question.choices[i]},
                                {"logprob", scores[i].total()},
                                {"mean_logprob", scores[i].mean()},
                                {"tokens", choices[i].size()}});
    }
    return out.dump() + "\n";
  }

 private:
  Status read_prompt(const std::string& prompt, const std::string& name) {
    if (session_ && prompt == prompt_) return {};
    Result<Tokens> tokens = prompt.empty() ? Tokens{} : model_->encode(prompt, true);
    if (!tokens) return with_context(tokens.error(), name + ": ");
    if (tokens->empty() && model_->begin_token() >= 0) tokens->push_back(model_->begin_token());
    if (tokens->empty()) {
      return fail(ErrorCode::invalid_argument, name,
                  ": the prompt is empty, expected at least one token before the choices");
    }
    session_.reset();
    RUNNEL_TRY(Session fresh, Session::create(model_));
    RUNNEL_CHECK_OK(fresh.prefill(*tokens));
    session_.emplace(std::move(fresh));
    prompt_ = prompt;
    return {};
  }

  std::shared_ptr<const Model> model_;
  bool by_mean_;
  std::optional<Session> session_;  // after prompt_
  std::string prompt_;
};

Result<int> score_lines(Scorer& scorer, std::istream& in, const std::string& name) {
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string at = name + ", line " + std::to_string(number);
    RUNNEL_TRY(const Question question, read_question(line, at));
    RUNNEL_TRY(const std::string out, scorer.answer(question, at));
    if (!write_out(out)) return kFailed;
  }
  if (in.bad()) return fail(ErrorCode::io, name, ": cannot be read");
  return kOk;
}

Result<int> run(const Options& o) {
  std::ifstream file;
  if (o.choices.empty() && o.input != "-") {
    file.open(o.input, std::ios::binary);
    if (!file) return fail(ErrorCode::not_found, o.input, ": cannot be opened for reading");
  }
  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(o.model));
  if (!model->has_tokenizer())
    return fail(ErrorCode::unsupported,
                "the model's file has no tokenizer, so it cannot read texts");
  Scorer scorer(model, o.by == "mean");
  if (!o.choices.empty()) {
    RUNNEL_TRY(const std::string out,
               scorer.answer({.id = {}, .prompt = o.prompt, .choices = o.choices}, "--choice"));
    return write_out(out) ? kOk : kFailed;
  }
  if (o.input == "-") return score_lines(scorer, std::cin, "standard input");
  return score_lines(scorer, file, o.input);
}

}  // namespace

Command add_score(CLI::App& program) {
  CLI::App* parser =
      program.add_subcommand("score", "Rank choices by how likely they are after a prompt");
  parser->footer(
      "A line of input is {\"prompt\": \"…\", \"choices\": [\"…\", …]}, with an \"id\" of any kind "
      "that "
      "comes\nback. A line of output has the best choice, the ranking (numbers of choices from 0, "
      "best "
      "first) and\nfor each choice its log-likelihood in nats, the mean of its tokens, and how "
      "many "
      "these are. A prompt\nis read once for all of its choices, and for the lines after it that "
      "have "
      "the same one; choices are\nread together. Texts of special tokens become those tokens.\n\n"
      "Prompt and choice are cut into tokens one by one: where a word begins, the choice has the "
      "space.\n\n"
      "Examples:\n"
      "  runnel score model.gguf < questions.jsonl > answers.jsonl\n"
      "  runnel score model.gguf -p \"The capital of France is\" --choice \" Paris\" --choice \" "
      "Rome\"");
  auto o = std::make_shared<Options>();
  o->parser = parser;
  add_model_options(*parser, o->model);
  CLI::Option* input = parser->add_option("--input", o->input, "JSON lines; - reads standard input")
                           ->type_name("PATH")
                           ->capture_default_str();
  CLI::Option* prompt =
      parser->add_option("-p,--prompt", o->prompt, "One question instead of lines: its prompt")
          ->type_name("TEXT")
          ->excludes(input);
  CLI::Option* choice = parser->add_option("--choice", o->choices, "… and its choices")
                            ->type_name("TEXT")
                            ->allow_extra_args(false)
                            ->needs(prompt);
  prompt->needs(choice);
  parser->add_option("--by", o->by, "Rank by the sum over a choice's tokens, or by their mean")
      ->type_name("sum|mean")
      ->check(CLI::IsMember({"sum", "mean"}))
      ->capture_default_str();
  return {parser, [o] {
            const Result<int> code = run(*o);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
