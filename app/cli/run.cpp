// SPDX-License-Identifier: Apache-2.0
// runnel run: continues a text. Standard output carries the continuation and nothing else.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/chat_input.h"
#include "app/cli/command.h"
#include "app/cli/constraint_options.h"
#include "app/cli/interrupt.h"
#include "app/cli/model_options.h"
#include "app/cli/sampling_options.h"
#include "app/cli/terminal.h"
#include "app/cli/tools.h"
#include "runnel/session.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/model_impl.h"
#include "runtime/text/transcript_end.h"

namespace runnel::cli {
namespace {

struct Options {
  ModelChoice model;
  GenerationChoice generation;
  ConstraintChoice constraint;
  ToolsChoice tools;
  std::string prompt;
  std::string tokens;
  std::string load;
  std::string save;
  bool stats = false;
  std::int32_t logprobs = -1;
  bool logprobs_of_draw = false;
  std::size_t answers = 1;
  std::size_t best_of = 0;  // 0: as many as answers
  CLI::App* parser = nullptr;

  bool ids() const { return parser->count("--tokens") > 0; }
};

// "1,2,3" or "1 2 3" → ids.
Result<std::vector<TokenId>> parse_ids(const std::string& text) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == ',' || *at == ' ' || *at == '\n' || *at == '\t') {
      ++at;
      continue;
    }
    TokenId id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc()) {
      return fail(ErrorCode::invalid_argument, "--tokens has \"",
                  std::string(at, std::min(end, at + 12)), "\", expected token ids such as 1,2,3");
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

// What is read before the first token is drawn: text that a loaded answer left unread, and the prompt.
Result<std::vector<TokenId>> prompt_tokens(const Options& o, const Session& session) {
  const Model& model = session.model();
  const std::string unread(session.unread_text());
  if (o.ids() || o.parser->count("--prompt") == 0) {
    std::vector<TokenId> tokens;
    if (!unread.empty()) {
      RUNNEL_TRY(tokens, model.encode(unread));
    }
    if (o.ids()) {
      RUNNEL_TRY(const std::vector<TokenId> ids, parse_ids(o.tokens));
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    }
    return tokens;
  }
  if (!model.has_tokenizer()) {
    return fail(ErrorCode::unsupported,
                "the model's file has no tokenizer, so it cannot read a prompt: give token ids "
                "with --tokens 1,2,3");
  }
  std::string text = o.prompt;
  if (text == "-") text.assign(std::istreambuf_iterator<char>(std::cin), {});
  // Together: both may be in one token. What was shown spells no special token.
  Result<std::vector<TokenId>> tokens = tokens_around(*tokenizer_of(model), {}, unread, text);
  if (!tokens) return with_context(tokens.error(), "prompt: ");
  return tokens;
}

void print_stats(const Session& session, std::size_t prompt, double prefill_s,
                 std::size_t generated, double decode_s) {
  std::fprintf(stderr,
               "prompt      %zu tokens, %.0f tokens/s\n"
               "generated   %zu tokens, %.1f tokens/s\n"
               "memory      %s of state after %s tokens, %s at most in this process\n",
               prompt, prompt == 0 ? 0.0 : static_cast<double>(prompt) / prefill_s, generated,
               generated == 0 ? 0.0 : static_cast<double>(generated) / decode_s,
               format_bytes(session.model().info().state_bytes).c_str(),
               format_count(session.position()).c_str(), format_bytes(peak_memory_bytes()).c_str());
}

/// A line for each token: its log-probability, its text, and the likeliest at its place.
Status print_logprobs(const Model& model, const GenerationResult& result) {
  const auto shown = [&model](const TokenLogprob& one) -> Result<std::string> {
    std::string piece = std::to_string(one.token);
    if (model.has_tokenizer()) {
      RUNNEL_TRY(const std::string bytes, model.decode(std::span(&one.token, 1), true));
      piece = in_quotes(bytes);
    }
    char number[32];
    std::snprintf(number, sizeof(number), "%9.4f ", static_cast<double>(one.logprob));
    return number + piece;
  };
  std::string text;
  for (const TokenLogprobs& at : result.logprobs) {
    RUNNEL_TRY(std::string line, shown(at.chosen));
    if (!at.top.empty()) line += "  |";
    for (const TokenLogprob& one : at.top) {
      RUNNEL_TRY(const std::string other, shown(one));
      line += " " + other;
    }
    text += line + "\n";
  }
  std::fputs(text.c_str(), stderr);
  return {};
}

// Text or ids of one answer.
Result<std::string> shown(const Options& o, const GenerationResult& result) {
  if (!o.ids()) return result.text + result.held_back;
  std::string ids;
  for (const TokenId id : result.tokens) ids += (ids.empty() ? "" : ",") + std::to_string(id);
  return ids;
}

// --answers: each with its number and its mean log-probability before it, the likeliest first with --best-of.
Result<int> run_several(const Options& o, const Session& session, GenerationOptions generation,
                        std::stop_token stop) {
  const bool best = o.best_of > o.answers;
  generation.logprobs = std::max(generation.logprobs, 0);
  RUNNEL_TRY(std::vector<GenerationResult> results,
             generate_several(session, std::max(o.answers, o.best_of), generation, {}, stop));
  if (best) {
    std::stable_sort(results.begin(), results.end(), [](const auto& a, const auto& b) {
      return mean_logprob(a) > mean_logprob(b);
    });
    results.resize(o.answers);
  }
  bool written = true;
  for (std::size_t i = 0; i < results.size(); ++i) {
    RUNNEL_TRY(const std::string text, shown(o, results[i]));
    const std::string head = o.answers == 1 ? "" : "[" + std::to_string(i + 1) + "]\n";
    written = written && write_out(head + text + "\n");
    if (o.logprobs >= 0) RUNNEL_CHECK_OK(print_logprobs(session.model(), results[i]));
  }
  if (stop.stop_requested()) return kInterrupted;
  return written ? kOk : kFailed;
}

// --tools: the prompt is a user's message. Answers with calls are followed by what the user says of their results, until
// there is one without.
Result<int> run_with_tools(const Options& o, Session& session, GenerationOptions generation) {
  const Model& model = session.model();
  RUNNEL_TRY(const std::vector<Tool> tools, chosen_tools(o.tools, model, generation));
  RUNNEL_TRY(generation.answer, model.answer_form());
  InterruptHandler interrupts;
  ChatInput input(interrupts);
  std::vector<ChatMessage> talk = {{.role = "user", .content = o.prompt}};
  std::size_t read = 0;
  std::size_t called = 0;
  const auto is_closed = [&] {
    return !session.recent_tokens().empty() && model.is_end(session.recent_tokens().back());
  };
  while (true) {
    RUNNEL_TRY(ChatReading reading,
               model.read_chat(talk, read, is_closed(), session.unread_text(), tools));
    if (reading.kept < read) {
      RUNNEL_CHECK_OK(session.reset());
      RUNNEL_TRY(reading, model.read_chat(talk, 0, is_closed(), session.unread_text(), tools));
    }
    ShownCalls calls(model, called + 1);
    GenerationResult result;
    {
      const StopOnInterrupt stop(interrupts);
      RUNNEL_TRY(const PrefillResult done, session.prefill(reading.tokens, stop.token()));
      if (done.cancelled) return kInterrupted;
      const TextCallback show = [&calls](std::string_view text) {
        return write_out(calls.push(text));
      };
      RUNNEL_TRY(result, generate(session, generation, show, stop.token()));
    }
    std::string rest = calls.push(result.held_back);
    rest += calls.finish(result.reason == FinishReason::length);
    const bool written =
        write_out(rest + (calls.message().content.empty() ? "" : "\n") + calls.lines());
    if (result.reason == FinishReason::cancelled) return kInterrupted;
    if (!written) return kFailed;
    if (calls.problem()) return *calls.problem();
    const std::vector<ChatMessage> results = read_results(
        calls.message().tool_calls, [&](const ToolCall& call) -> std::optional<std::string> {
          if (stdin_is_terminal() && stdout_is_terminal())
            write_out("Result of " + call.name + ": ");
          std::string line;
          const bool given = input.read_line(line) == ChatInput::Event::line;
          return given ? std::optional(line) : std::nullopt;
        });
    if (results.empty()) return kOk;
    called += results.size();
    talk.push_back(calls.message());
    read = talk.size();
    talk.insert(talk.end(), results.begin(), results.end());
  }
}

Result<int> run(const Options& o) {
  RUNNEL_TRY(GenerationOptions generation, generation_options(o.generation));
  generation.logprobs = o.logprobs;
  generation.logprobs_of_draw = o.logprobs_of_draw;
  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(o.model));
  RUNNEL_TRY(Session session, Session::create(model));
  if (!o.load.empty()) {
    RUNNEL_CHECK_OK(start_from(o.load, session));
    keep_given_options(*o.parser, last_sampling(session), generation.sampling);
    RUNNEL_TRY(generation.constraint, last_constraint(session));
  }
  if (o.constraint.any()) {
    RUNNEL_TRY(generation.constraint, chosen_constraint(o.constraint, *model));
  }
  RUNNEL_CHECK_OK(add_text_biases(o.generation, *model, generation.sampling));
  if (o.tools.any()) return run_with_tools(o, session, std::move(generation));
  RUNNEL_TRY(const std::vector<TokenId> tokens, prompt_tokens(o, session));
  if (tokens.empty() && session.position() == 0) {
    return fail(ErrorCode::invalid_argument,
                "the prompt is empty, expected at least one token to start from");
  }

  InterruptHandler interrupts;
  const StopOnInterrupt stop(interrupts);
  const Stopwatch prefill_time;
  {
    ProgressBar bar("Reading");
    RUNNEL_TRY(const PrefillResult read,
               session.prefill(tokens, stop.token(), [&bar](auto done, auto total) {
                 bar.update(static_cast<double>(done) / static_cast<double>(total));
               }));
    if (read.cancelled) return kInterrupted;
  }
  const double prefill_s = prefill_time.seconds();
  if (o.answers > 1 || o.best_of > 1) return run_several(o, session, generation, stop.token());

  const Stopwatch decode_time;
  const TextCallback show = [](std::string_view text) { return write_out(text); };
  RUNNEL_TRY(const GenerationResult result,
             generate(session, generation, o.ids() ? TextCallback() : show, stop.token()));
  const double decode_s = decode_time.seconds();
  bool written = result.reason != FinishReason::callback;
  if (o.ids()) {
    RUNNEL_TRY(const std::string ids, shown(o, result));
    written = write_out(ids + "\n");
  } else {
    // What may begin a stop string is shown now, unless a snapshot carries it to the next run.
    if (o.save.empty() && written) written = write_out(result.held_back);
    if (stdout_is_terminal()) write_out("\n");
  }
  if (!o.save.empty()) {
    RUNNEL_TRY(const Snapshot snapshot, session.snapshot());
    RUNNEL_CHECK_OK(snapshot.save(o.save));
  }
  if (o.logprobs >= 0) RUNNEL_CHECK_OK(print_logprobs(*model, result));
  if (o.stats) print_stats(session, tokens.size(), prefill_s, result.tokens.size(), decode_s);
  if (result.reason == FinishReason::cancelled) return kInterrupted;
  return written ? kOk : kFailed;
}

}  // namespace

Command add_run(CLI::App& program) {
  CLI::App* parser = program.add_subcommand("run", "Continue a text");
  parser->footer(
      "The prompt is taken as it is, without a chat template (but with --tools); the texts of "
      "special tokens in it "
      "become those tokens.\n"
      "Output ends at the model's end of text or after N tokens. Ctrl-C ends it after a whole "
      "token.\n\n"
      "Examples:\n"
      "  runnel run model.gguf -p \"Once upon a time\" -n 100\n"
      "  runnel run model.gguf -p - --temp 0.8 --top-p 0.95 --seed 7 < story.txt\n"
      "  runnel run model.gguf -p \"Chapter 1\" --save state.snap     keep what the model "
      "remembers …\n"
      "  runnel run model.gguf --load state.snap                    … and continue, without "
      "reading "
      "anything again\n"
      "  runnel run model.gguf --tokens 1,17,52                     token ids in, token ids out\n"
      "  runnel run model.gguf -p \"What time is it?\" --tools tools.json    the prompt is a "
      "message "
      "to answer\n"
      "  runnel run model.gguf -p \"The sky is\" --choice \" blue\" --choice \" grey\"");
  auto o = std::make_shared<Options>();
  o->parser = parser;
  add_model_options(*parser, o->model);
  CLI::Option* prompt =
      parser->add_option("-p,--prompt", o->prompt, "Text to continue; - reads standard input")
          ->type_name("TEXT");
  parser
      ->add_option("--tokens", o->tokens,
                   "Token ids to continue, separated by commas; prints token ids")
      ->type_name("IDS")
      ->excludes(prompt);
  parser
      ->add_option(
          "--load", o->load,
          "Start from a snapshot, or from a tuned state of RWKV (.pth); a prompt is read after it, "
          "and after what an answer of a chat left unread")
      ->type_name("SNAPSHOT");
  parser->add_option("--save", o->save, "Write a snapshot at the end")->type_name("SNAPSHOT");
  parser->add_flag("--stats", o->stats, "Report tokens, speed and memory on standard error");
  CLI::Option* logprobs =
      parser
          ->add_option("--logprobs", o->logprobs,
                       "Report on standard error the log-probability of each token and of the N "
                       "likeliest at its place")
          ->type_name("N")
          ->check(CLI::Range(0, GenerationOptions::kMostLogprobs))
          ->default_str("");
  parser
      ->add_flag("--logprobs-of-draw", o->logprobs_of_draw,
                 "With --logprobs: of what was drawn from, after penalties, temperature and the "
                 "rest, not of the model's own distribution")
      ->needs(logprobs);
  parser
      ->add_option(
          "--answers", o->answers,
          "Write N continuations, drawn with the seeds from --seed on and computed together")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMostAnswers))
      ->capture_default_str();
  parser
      ->add_option("--best-of", o->best_of,
                   "Compute N continuations and write the likeliest --answers of them, by their "
                   "mean log-probability")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMostAnswers))
      ->default_str("");
  add_generation_options(*parser, o->generation);
  add_constraint_options(*parser, o->constraint);
  add_tools_options(*parser, o->tools);
  CLI::Option* tools = parser->get_option("--tools")->needs(prompt);
  for (const char* other :
       {"--tokens", "--load", "--save", "--logprobs", "--answers", "--best-of", "--stats"})
    tools->excludes(parser->get_option(other));
  return {parser, [o] {
            if (o->best_of != 0 && o->best_of < o->answers) {
              return report_usage("--best-of is " + std::to_string(o->best_of) +
                                  ", expected at least --answers, which is " +
                                  std::to_string(o->answers));
            }
            if ((o->answers > 1 || o->best_of > 1) && (!o->save.empty() || o->stats)) {
              return report_usage(
                  "--save and --stats are of one continuation, expected no --answers and no "
                  "--best-of");
            }
            if (o->tools.any() && o->prompt == "-") {
              return report_usage(
                  "-p - and --tools both read standard input, expected -p TEXT: its lines are "
                  "the results of calls");
            }
            if (o->parser->count("--prompt") + o->parser->count("--tokens") +
                    o->parser->count("--load") ==
                0) {
              return report_usage(
                  "run needs something to continue: -p TEXT, --tokens IDS or --load SNAPSHOT");
            }
            const Result<int> code = run(*o);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
