// SPDX-License-Identifier: Apache-2.0
// runnel chat: a conversation on the terminal, or through pipes.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/chat_input.h"
#include "app/cli/chat_store.h"
#include "app/cli/command.h"
#include "app/cli/constraint_options.h"
#include "app/cli/interrupt.h"
#include "app/cli/model_options.h"
#include "app/cli/sampling_options.h"
#include "app/cli/terminal.h"
#include "app/cli/tools.h"
#include "app/cli/word_wrap.h"
#include "runnel/session.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel::cli {
namespace {

constexpr const char* kHelp =
    "/help        this list\n"
    "/reset       forget the conversation and start over\n"
    "/save FILE   write what the model remembers to a snapshot\n"
    "/load FILE   continue from a snapshot\n"
    "/thought     what the model thought before its last answer\n"
    "/stats       length of the conversation, speed, memory\n"
    "/quit        leave (so does Ctrl-D, or Ctrl-C twice)\n"
    "Ctrl-C stops an answer. A line that ends in \\ continues on the next; // at its start sends a "
    "message that begins with /.\n";

struct Options {
  const CLI::App* parser = nullptr;  // knows which options were given
  ModelChoice model;
  GenerationChoice generation;
  ConstraintChoice constraint;
  ToolsChoice tools;
  std::string system;
  std::string load;
  std::string save;
  ConversationChoice conversation;
  std::string think;
  bool has_system = false;
};

Thinking thinking_of(const std::string& think) {
  return think == "on" ? Thinking::on : think == "off" ? Thinking::off : Thinking::as_trained;
}

class Chat {
 public:
  Chat(const Options& options, GenerationOptions generation, std::vector<Tool> tools,
       Session session, std::optional<ChatStore> stored, InterruptHandler& interrupts)
      : options_(options),
        generation_(std::move(generation)),
        tools_(std::move(tools)),
        own_session_(std::move(session)),
        stored_(std::move(stored)),
        interrupts_(interrupts),
        input_(interrupts),
        decorated_(stdin_is_terminal() && stdout_is_terminal()) {
    // Thoughts are folded: a remark while they last, their text on request.
    generation_.on_thought = [this](std::string_view) {
      if (decorated_ && !std::exchange(thinking_, true))
        output_closed_ = !write_out("(thinking …) ");
      return !output_closed_;
    };
  }

  Status load(const std::string& file) {
    RUNNEL_TRY(const Snapshot snapshot, start_from(file, session()));
    start_ = snapshot.position() == 0 ? file : "";
    said_.clear();
    knows_all_ = snapshot.position() == 0;  // else something was said before it was taken
    return {};
  }

  Status save(const std::string& file) {
    RUNNEL_TRY(const Snapshot snapshot, session().snapshot());
    return snapshot.save(file);
  }

  Status begin_with_pack(const std::string& file) {
    RUNNEL_TRY(pack_, start_from_pack(session(), file));
    return {};
  }

  /// Until the input ends or the user leaves.
  /// @return an exit code.
  int converse() {
    if (decorated_) greet();
    bool leaving = false;  // Ctrl-C was pressed at an empty prompt
    std::string message;
    std::string line;
    for (;;) {
      if (decorated_) write_out(message.empty() ? "> " : "… ");
      const ChatInput::Event event = input_.read_line(line);
      if (event == ChatInput::Event::end) {
        if (decorated_) write_out("\n");
        if (message.empty()) return kOk;
        line.clear();  // the input ended after a line that was to go on
      }
      if (event == ChatInput::Event::interrupt) {
        write_out("\n");
        if (leaving || !decorated_) return kInterrupted;
        if (message.empty()) {
          leaving = true;
          write_out("(Ctrl-C again leaves, or type /quit)\n");
        }
        message.clear();
        continue;
      }
      leaving = false;
      if (!line.empty() && line.back() == '\\') {
        message += line.substr(0, line.size() - 1) + "\n";
        continue;
      }
      message += line;
      if (message.find_first_not_of(" \t\n") == std::string::npos) {
        message.clear();
        continue;
      }
      if (message.starts_with("/") && !message.starts_with("//")) {
        if (!run_command(message)) return kOk;
      } else {
        const Status answered = answer(message.starts_with("//") ? message.substr(1) : message);
        if (!answered) {
          report_error(answered.error());
          if (answered.error().code == ErrorCode::device) return kFailed;
        }
        if (output_closed_) return kFailed;
      }
      message.clear();
    }
  }

 private:
  Session& session() { return stored_ ? stored_->session() : own_session_; }

  void greet() {
    const ModelInfo& info = session().model().info();
    std::string text = info.name.empty() ? "Model" : printable(info.name);
    text += " on " + info.device + ", " + format_bytes(info.state_bytes) +
            " of memory, whatever the length";
    if (session().position() > 0)
      text += ", continuing after " + format_count(session().position()) + " tokens";
    if (stored_) text += "; " + options_.conversation.name + ": " + stored_->greeting();
    text += ".\n";
    if (!info.memory_note.empty()) text += "Note: " + info.memory_note + ".\n";
    text += "Type a message. /help lists the commands.\n\n";
    write_out(text + (stored_ ? stored_->recap() : ""));
  }

  static void report_error(const Error& error) { report(error); }

  // The state of the conversation follows from the session alone, so that a loaded snapshot continues correctly.
  ChatContinuation continuation() {
    if (session().position() == 0) return ChatContinuation::start;
    const auto recent = session().recent_tokens();
    return !recent.empty() && session().model().is_end(recent.back())
               ? ChatContinuation::after_closed_answer
               : ChatContinuation::after_cut_answer;
  }

  // What shows an answer as it comes; finish_answer() shows its end.
  TextCallback show_text() {
    thinking_ = false;
    wrap_.emplace(decorated_ ? terminal_columns() : 0);
    calls_.reset();
    if (!tools_.empty()) calls_.emplace(session().model(), called_ + 1);
    return [this](std::string_view text) {
      if (std::exchange(thinking_, false)) write_out("\n");
      output_closed_ = !write_out(calls_ ? wrap_->push(calls_->push(text)) : wrap_->push(text));
      return !output_closed_;
    };
  }

  // The tokens to read for a message or for results of calls, with the session where they follow it.
  Result<std::vector<TokenId>> encode_messages(const std::vector<ChatMessage>& fresh) {
    if (pack_ && session().position() == pack_->tokens) {
      // The first message after a pack is separated from it as in the model's training.
      said_ = {{.role = "system", .content = pack_->system}, fresh.front()};
      RUNNEL_TRY(std::vector<TokenId> tokens, session().model().encode_chat(said_, true));
      tokens.erase(tokens.begin(),
                   tokens.begin() + static_cast<std::ptrdiff_t>(
                                        std::min<std::size_t>(pack_->tokens, tokens.size())));
      return tokens;
    }
    if (!knows_all_)
      return session().model().encode_chat(fresh, true, continuation(), session().unread_text(),
                                           tools_);
    std::vector<ChatMessage> talk = said_;
    const std::size_t read = talk.size();
    if (talk.empty() && options_.has_system)
      talk.push_back({.role = "system", .content = options_.system});
    talk.insert(talk.end(), fresh.begin(), fresh.end());
    const bool closed = continuation() == ChatContinuation::after_closed_answer;
    RUNNEL_TRY(ChatReading reading,
               session().model().read_chat(talk, read, closed, session().unread_text(), tools_));
    if (reading.kept < read) {
      if (before_answer_ && reading.kept == read - 1) {
        RUNNEL_CHECK_OK(session().restore(*before_answer_));
      } else {
        RUNNEL_CHECK_OK(begin_again());
        RUNNEL_TRY(reading, session().model().read_chat(talk, 0, false, {}, tools_));
      }
      say_relaid(reading.tokens.size());
    }
    said_ = std::move(talk);
    return std::move(reading.tokens);
  }

  // To where the session stood before the first message of a chat without a pack.
  Status begin_again() { return start_.empty() ? session().reset() : load(start_); }

  void say_relaid(std::uint64_t tokens) const {
    if (decorated_ && tokens > 0)
      write_out("(" + format_count(tokens) +
                " tokens read: the chat template lays out earlier turns anew)\n");
  }

  Status answer_and_keep(const std::string& message) {
    const StopOnInterrupt stop(interrupts_);
    const Stopwatch time;
    double read_s = 0.0;  // until the first text came
    const TextCallback show = show_text();
    Result<Turn> turn = stored_->send(
        message, generation_,
        [&](std::string_view text) {
          if (read_s == 0.0) read_s = time.seconds();
          return show(text);
        },
        stop.token());
    if (!turn) return turn.error();
    prefill_tokens_ = turn->cost.fed + turn->cost.replayed + turn->cost.relaid;
    decode_tokens_ = turn->cost.generated;
    prefill_s_ = read_s;
    decode_s_ = time.seconds() - read_s;
    finish_answer(turn->result);
    say_relaid(turn->cost.relaid);
    if (!turn->warning.empty()) report_error({ErrorCode::io, turn->warning});
    return {};
  }

  void finish_answer(const GenerationResult& result) {
    thought_ = result.thought;
    if (output_closed_) return;
    std::string rest = result.held_back;
    if (calls_) {
      rest = calls_->push(rest);
      rest += calls_->finish(result.reason == FinishReason::length);
    }
    write_out(wrap_->push(rest) + wrap_->finish());
    const bool silent = calls_ && calls_->message().content.empty();
    write_out((silent ? "" : "\n") + (calls_ ? calls_->lines() : ""));
    if (calls_ && calls_->problem()) report_error(*calls_->problem());
    if (!decorated_) return;
    if (result.reason == FinishReason::length) {
      write_out("(cut after " + std::to_string(result.tokens.size()) +
                " tokens; -n allows more)\n");
    } else if (result.reason == FinishReason::cancelled) {
      write_out("(stopped)\n");
    }
    write_out("\n");
  }

  Status answer(const std::string& message) {
    if (stored_) return answer_and_keep(message);
    std::vector<ChatMessage> fresh = {{.role = "user", .content = message}};
    while (!fresh.empty()) {
      RUNNEL_CHECK_OK(answer_messages(fresh));
      fresh.clear();
      if (calls_ && !output_closed_)
        fresh = read_results(calls_->message().tool_calls, ask_result());
    }
    return {};
  }

  // The user says what a call gave. An empty line is a result, too; Ctrl-C leaves the call without one.
  std::function<std::optional<std::string>(const ToolCall&)> ask_result() {
    return [this](const ToolCall& call) -> std::optional<std::string> {
      if (decorated_) write_out("Result of " + call.name + ": ");
      std::string line;
      if (input_.read_line(line) == ChatInput::Event::line) return line;
      if (decorated_) write_out("\n");
      return {};
    };
  }

  Status answer_messages(const std::vector<ChatMessage>& fresh) {
    RUNNEL_TRY(const std::vector<TokenId> tokens, encode_messages(fresh));
    const bool knew_all = std::exchange(knows_all_, false);  // until all has gone well

    const StopOnInterrupt stop(interrupts_);
    const Stopwatch prefill_time;
    {
      ProgressBar bar("Reading");
      RUNNEL_TRY(const PrefillResult read,
                 session().prefill(tokens, stop.token(), [&bar](auto done, auto total) {
                   bar.update(static_cast<double>(done) / static_cast<double>(total));
                 }));
      if (read.cancelled) {
        write_out("\n");
        return {};
      }
    }
    prefill_tokens_ = tokens.size();
    prefill_s_ = prefill_time.seconds();
    if (session().model().chat_format().style == ChatStyle::jinja) {
      RUNNEL_TRY(before_answer_, session().snapshot());
    }
    const Stopwatch decode_time;
    RUNNEL_TRY(const GenerationResult result,
               generate(session(), generation_, show_text(), stop.token()));
    decode_tokens_ = result.tokens.size();
    decode_s_ = decode_time.seconds();
    knows_all_ = knew_all;
    finish_answer(result);
    if (calls_) {
      said_.push_back(calls_->message());
      called_ += calls_->message().tool_calls.size();
    } else {
      said_.push_back({.role = "assistant", .content = result.text + result.held_back});
    }
    return {};
  }

  // A line that begins with /. @return false to leave.
  bool run_command(const std::string& line) {
    const std::size_t space = line.find(' ');
    const std::string command = line.substr(0, space);
    const std::size_t start =
        space == std::string::npos ? space : line.find_first_not_of(' ', space);
    std::string argument = start == std::string::npos ? "" : line.substr(start);
    while (!argument.empty() && argument.back() == ' ') argument.pop_back();

    if (command == "/quit" || command == "/exit") return false;
    if (command == "/help") {
      write_out((stored_ ? ChatStore::help() : "") + std::string(kHelp));
    } else if (stored_ && run_stored_command(command, argument)) {
      return true;
    } else if (stored_ && command == "/load") {
      report_error({ErrorCode::invalid_argument,
                    "/load would leave the kept conversation; start without --conversation"});
    } else if (command == "/reset") {
      said_.clear();
      knows_all_ = true;
      before_answer_.reset();
      finish(pack_ ? begin_with_pack(options_.conversation.pack) : begin_again(), "Started over.");
    } else if (command == "/stats") {
      print_stats();
    } else if (command == "/thought") {
      write_out(thought_.empty() ? "There was no thought.\n" : thought_ + "\n");
    } else if (command == "/save" || command == "/load") {
      if (argument.empty()) {
        report_error({ErrorCode::invalid_argument,
                      command + " needs a file, such as " + command + " talk.snap"});
      } else if (command == "/save") {
        finish(save(argument), "Saved " + argument + ".");
      } else {
        finish(load(argument), "Loaded " + argument + ".");
      }
    } else {
      report_error({ErrorCode::invalid_argument, "no command " + command + "; /help lists them"});
    }
    return true;
  }

  bool run_stored_command(const std::string& command, const std::string& argument) {
    const StopOnInterrupt stop(interrupts_);
    return stored_->run_command(
        command, argument, generation_,
        {.text = show_text(), .finished = [this](const GenerationResult& r) { finish_answer(r); }},
        stop.token());
  }

  void finish(const Status& status, const std::string& done) const {
    if (!status) {
      report_error(status.error());
    } else if (decorated_) {
      write_out(done + "\n");
    }
  }

  void print_stats() {
    const auto rate = [](std::size_t tokens, double seconds) {
      return tokens == 0 ? std::string("-")
                         : format_number(static_cast<double>(tokens) / seconds, 1) + " tokens/s";
    };
    write_out("conversation  " + format_count(session().position()) + " tokens\n" +
              "last message  " + format_count(prefill_tokens_) + " tokens, " +
              rate(prefill_tokens_, prefill_s_) + "\n" + "last answer   " +
              format_count(decode_tokens_) + " tokens, " + rate(decode_tokens_, decode_s_) + "\n" +
              "state         " + format_bytes(session().model().info().state_bytes) +
              ", whatever the length\n" + "weights       " +
              format_bytes(session().model().info().weight_bytes) + "\n" + "process       " +
              format_bytes(peak_memory_bytes()) + " at most so far\n");
  }

  const Options& options_;
  GenerationOptions generation_;
  const std::vector<Tool> tools_;
  std::optional<ShownCalls> calls_;  // of the answer that is being shown, with tools
  std::size_t called_ = 0;           // calls so far
  Session own_session_;              // of a chat that is not kept
  std::optional<ChatStore> stored_;
  std::optional<PackStart> pack_;  // what the session began with
  std::string start_;              // file of a state before the first token that it began with
  std::vector<ChatMessage> said_;  // of a chat that is not kept: all that the session has read
  bool knows_all_ = true;          // it is all indeed
  std::optional<Snapshot> before_answer_;  // the last one, of a model with a template of its own
  InterruptHandler& interrupts_;
  ChatInput input_;
  const bool decorated_;  // prompts and remarks, only on a terminal
  bool output_closed_ = false;
  std::optional<WordWrap> wrap_;  // of the answer that is being shown
  std::string thought_;           // before the last answer
  bool thinking_ = false;         // a thought goes on

  std::size_t prefill_tokens_ = 0;
  std::size_t decode_tokens_ = 0;
  double prefill_s_ = 0.0;
  double decode_s_ = 0.0;
};

/// A style that the vocabulary cannot serve is an error of the command, not of every message.
Status check_chat(const Model& model) {
  const ChatMessage first{.role = "user", .content = "x"};
  const auto tokens = model.encode_chat(std::span(&first, 1), true);
  // Else a template wants another first message, which may come.
  if (!tokens && tokens.error().code == ErrorCode::unsupported) return tokens.error();
  return {};
}

Result<int> run(const Options& o) {
  RUNNEL_CHECK_OK(generation_options(o.generation));  // said before the model is loaded
  RUNNEL_TRY(const std::shared_ptr<const Model> model, load_model(o.model));
  RUNNEL_TRY(GenerationOptions generation,
             model_generation_options(*o.parser, o.generation, *model));
  if (!model->has_tokenizer()) {
    return fail(ErrorCode::unsupported,
                "the model's file has no tokenizer, so it cannot chat: use `runnel run --tokens` "
                "with token ids");
  }
  RUNNEL_CHECK_OK(check_chat(*model));
  RUNNEL_TRY(generation.answer, model->answer_form(thinking_of(o.think)));
  RUNNEL_TRY(generation.constraint, chosen_constraint(o.constraint, *model));
  RUNNEL_TRY(std::vector<Tool> tools, chosen_tools(o.tools, *model, generation));
  RUNNEL_TRY(Session session, Session::create(model));
  std::optional<ChatStore> stored;
  if (!o.conversation.name.empty()) {
    RUNNEL_TRY(stored, ChatStore::open(o.conversation, model, o.system));
  }
  InterruptHandler interrupts;
  Chat chat(o, std::move(generation), std::move(tools), std::move(session), std::move(stored),
            interrupts);
  if (o.conversation.name.empty() && !o.conversation.pack.empty())
    RUNNEL_CHECK_OK(chat.begin_with_pack(o.conversation.pack));
  if (!o.load.empty()) RUNNEL_CHECK_OK(chat.load(o.load));
  const int code = chat.converse();
  if (!o.save.empty()) RUNNEL_CHECK_OK(chat.save(o.save));
  return code;
}

}  // namespace

Command add_chat(CLI::App& program) {
  CLI::App* parser = program.add_subcommand("chat", "Talk to a model");
  parser->footer(
      "/help inside the chat lists its commands. Ctrl-C stops an answer. In a pipe each line is a "
      "message.\n\n"
      "Examples:\n"
      "  runnel chat\n"
      "  runnel chat model.gguf --system \"You answer in rhyme.\" --temp 0.9\n"
      "  echo \"What is a river?\" | runnel chat --seed 7\n"
      "  runnel chat --conversation plans\n"
      "  runnel chat --json-schema recipe.json              answers as JSON of that form\n"
      "  runnel chat --tools tools.json                     prints calls and asks for their "
      "results\n"
      "  runnel chat --load yesterday.snap --save today.snap");
  auto o = std::make_shared<Options>();
  o->parser = parser;
  o->generation.options.max_tokens = 1024;
  add_model_options(*parser, o->model);
  add_chat_template_option(*parser, o->model);
  CLI::Option* system = parser
                            ->add_option("--system", o->system,
                                         "System prompt, instead of the one in the model's file")
                            ->type_name("TEXT");
  parser
      ->add_option("--think", o->think,
                   "Make the model think before it answers, or not. Without it: as it was trained")
      ->type_name("on|off")
      ->check(CLI::IsMember({"on", "off"}));
  parser
      ->add_option("--load", o->load, "Start from a snapshot, or from a tuned state of RWKV (.pth)")
      ->type_name("SNAPSHOT");
  parser->add_option("--save", o->save, "Write a snapshot when leaving")->type_name("SNAPSHOT");
  add_conversation_options(*parser, o->conversation);
  parser->get_option("--load")->excludes("--conversation")->excludes("--pack");
  parser->get_option("--system")->excludes("--pack");
  add_generation_options(*parser, o->generation);
  add_constraint_options(*parser, o->constraint);
  add_tools_options(*parser, o->tools);
  parser->get_option("--tools")->excludes("--conversation")->excludes("--pack");
  show_model_defaults(*parser);
  CLI::Option* seed = parser->get_option("--seed");
  seed->description("Same seed, same answers; without it they differ each time")->default_str("");
  return {parser, [o, system, seed] {
            if (seed->count() == 0) {
              o->generation.options.sampling.seed = std::random_device()();
            }
            o->has_system = system->count() > 0;
            const Result<int> code = run(*o);
            return code ? *code : report(code.error());
          }};
}

}  // namespace runnel::cli
