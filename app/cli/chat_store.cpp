// SPDX-License-Identifier: Apache-2.0
#include "app/cli/chat_store.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "app/cli/model_options.h"
#include "app/cli/terminal.h"
#include "runtime/base/number.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/store/replay.h"

namespace runnel::cli {
namespace {

std::string one_line(const std::string& text, std::size_t limit = 72) {
  std::string line;
  for (const char c : text) {
    if (line.size() >= limit && (static_cast<unsigned char>(c) & 0xc0) != 0x80) return line + "…";
    line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return line;
}

std::string list_line(std::size_t number, const MessageInfo& message) {
  return std::to_string(number) + (message.role == "user" ? "  you    " : "  model  ") +
         one_line(message.text) + (message.complete ? "" : " (cut short)") + "\n";
}

std::string tokens_read(const TokenCost& cost) {
  if (const std::uint64_t first = cost.fed + cost.relaid; first > 0 && cost.replayed == 0)
    return format_count(first) + " tokens read";
  return cost.replayed == 0 ? "nothing to read again"
                            : format_count(cost.replayed) + " tokens read again";
}

void write_remark(const std::string& text) {
  if (stdout_is_terminal()) write_out(text);
}

ReplayOptions with_bar(ProgressBar& bar) {
  return {.progress = [&bar](std::uint64_t done, std::uint64_t total) {
    bar.update(static_cast<double>(done) / static_cast<double>(total));
  }};
}

}  // namespace

void add_library_option(CLI::App& parser, std::string& library) {
  parser
      .add_option("--library", library,
                  "Library of conversations, instead of "
                  "$XDG_DATA_HOME/runnel/conversations.db")
      ->type_name("FILE");
}

Result<ConversationStore> open_library(const std::string& library) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  return ConversationStore::open(
      {.file = library.empty() ? default_store_file(variable("XDG_DATA_HOME"), variable("HOME"))
                               : std::filesystem::path(library)});
}

void add_conversation_options(CLI::App& parser, ConversationChoice& choice) {
  parser
      .add_option("--conversation", choice.name,
                  "Keep the conversation under this name, and continue it if it exists")
      ->type_name("NAME");
  parser
      .add_option("--pack", choice.pack,
                  "Begin after a state pack (see `runnel pack make`); with --conversation also "
                  "from a tuned state (.pth, or `runnel snapshot make`)")
      ->type_name("PACK");
  add_library_option(parser, choice.library);
}

Result<ChatStore> ChatStore::open(const ConversationChoice& choice,
                                  const std::shared_ptr<const Model>& model,
                                  const std::string& system) {
  RUNNEL_TRY(const ConversationStore store, open_library(choice.library));
  NewConversation made{.name = choice.name, .system = system};
  if (!choice.pack.empty()) {
    RUNNEL_TRY(made.pack, load_start(choice.pack, model));
  }
  ProgressBar bar("Reading");
  RUNNEL_TRY(Conversation conversation,
             Conversation::open_or_create(store, model, std::move(made), with_bar(bar)));
  return ChatStore(std::move(conversation));
}

std::string ChatStore::greeting() const {
  const auto messages = shown_messages();
  return (messages ? std::to_string(messages->size()) : "?") + " messages, " +
         tokens_read(conversation_.cost());
}

std::string ChatStore::recap() const {
  constexpr std::size_t kShown = 2;  // what was said last, and the answer
  const auto messages = shown_messages();
  if (!messages || messages->empty()) return "";
  std::string text;
  const std::size_t first = messages->size() - std::min(kShown, messages->size());
  for (std::size_t i = first; i < messages->size(); ++i) text += list_line(i + 1, (*messages)[i]);
  if (messages->back().role == "user") text += "(not answered yet; /again answers it)\n";
  return text + "\n";
}

const char* ChatStore::help() {
  return "/list        the messages so far\n"
         "/rewind [N]  go back to the end of message N; without N to before your last one\n"
         "/branch [N]  the branches of this conversation; with N switch to branch N\n"
         "/again       another answer to your last message\n"
         "/edit TEXT   replace your last message\n"
         "/forget N    delete everything after message N for good\n"
         "/search TEXT look in all conversations\n";
}

bool ChatStore::run_command(const std::string& command, const std::string& argument,
                            const GenerationOptions& options, const AnswerView& view,
                            std::stop_token stop) {
  Status status;
  if (command == "/list") {
    status = list();
  } else if (command == "/rewind") {
    status = rewind(argument);
  } else if (command == "/branch") {
    status = branch(argument);
  } else if (command == "/again") {
    status = again(options, view, std::move(stop));
  } else if (command == "/edit") {
    status = edit(argument, options, view, std::move(stop));
  } else if (command == "/forget") {
    status = forget(argument);
  } else if (command == "/search") {
    status = search(argument);
  } else if (command == "/reset") {
    status = start_over();
  } else {
    return false;
  }
  if (!status) report(status.error());
  return true;
}

Result<std::vector<MessageInfo>> ChatStore::shown_messages() const {
  std::vector<MessageInfo> path;
  if (conversation_.head() != 0) {
    RUNNEL_TRY(path, conversation_.store().path(conversation_.head()));
  }
  if (!path.empty() && path.front().role == "system") path.erase(path.begin());
  return path;
}

Result<MessageId> ChatStore::numbered(const std::string& argument) const {
  RUNNEL_TRY(const std::vector<MessageInfo> messages, shown_messages());
  const auto number = number_in<std::size_t>(argument);
  if (argument.empty()) {
    return Error{ErrorCode::invalid_argument, "which message? /list numbers them"};
  }
  if (!number || *number > messages.size()) {
    return Error{ErrorCode::invalid_argument, "there is no message \"" + argument +
                                                  "\", expected 0 to " +
                                                  std::to_string(messages.size()) + " (see /list)"};
  }
  if (*number > 0) return messages[*number - 1].id;
  return messages.empty() ? conversation_.head() : messages.front().parent;
}

Status ChatStore::list() {
  RUNNEL_TRY(const std::vector<MessageInfo> messages, shown_messages());
  std::string text;
  for (std::size_t i = 0; i < messages.size(); ++i) text += list_line(i + 1, messages[i]);
  if (text.empty()) write_remark("No messages yet.\n");
  write_out(text);
  return {};
}

Status ChatStore::rewind(const std::string& argument) {
  MessageId to = 0;
  if (argument.empty()) {
    RUNNEL_TRY(const std::vector<MessageInfo> messages, shown_messages());
    auto last = messages.rbegin();
    while (last != messages.rend() && last->role != "user") ++last;
    if (last == messages.rend()) {
      return Error{ErrorCode::invalid_argument, "there is no message yet"};
    }
    to = last->parent;
  } else {
    RUNNEL_TRY(to, numbered(argument));
  }
  ProgressBar bar("Reading");
  RUNNEL_TRY(const TokenCost cost, conversation_.rewind(to, with_bar(bar)));
  write_remark("Back after " + format_count(session().position()) + " tokens, " +
               tokens_read(cost) + ".\n");
  return {};
}

Status ChatStore::branch(const std::string& argument) {
  RUNNEL_TRY(const std::vector<BranchInfo> branches,
             conversation_.store().branches(conversation_.id()));
  if (argument.empty()) {
    std::string text;
    for (std::size_t i = 0; i < branches.size(); ++i) {
      text += std::to_string(i + 1) + (branches[i].current ? " *  " : "    ") +
              std::to_string(branches[i].messages) + " messages: " + one_line(branches[i].preview) +
              "\n";
    }
    write_out(text);
    return {};
  }
  const auto number = number_in<std::size_t>(argument);
  if (!number || *number == 0 || *number > branches.size()) {
    return Error{ErrorCode::invalid_argument, "there is no branch \"" + argument +
                                                  "\", expected 1 to " +
                                                  std::to_string(branches.size())};
  }
  ProgressBar bar("Reading");
  RUNNEL_TRY(const TokenCost cost, conversation_.rewind(branches[*number - 1].leaf, with_bar(bar)));
  write_remark("On branch " + argument + ", " + tokens_read(cost) + ".\n");
  return {};
}

Status ChatStore::again(GenerationOptions options, const AnswerView& view, std::stop_token stop) {
  options.sampling.seed += ++repeats_;  // the same seed would give the same answer
  ProgressBar bar("Reading");
  RUNNEL_TRY(const Turn turn,
             conversation_.regenerate(options, view.text, std::move(stop), with_bar(bar)));
  view.finished(turn.result);
  return {};
}

Status ChatStore::edit(const std::string& text, const GenerationOptions& options,
                       const AnswerView& view, std::stop_token stop) {
  RUNNEL_TRY(const std::vector<MessageInfo> messages, shown_messages());
  auto last = messages.rbegin();
  while (last != messages.rend() && last->role != "user") ++last;
  if (last == messages.rend() || text.empty()) {
    return Error{ErrorCode::invalid_argument, "/edit needs an earlier message and its new text"};
  }
  ProgressBar bar("Reading");
  RUNNEL_CHECK_OK(conversation_.edit(last->id, text, with_bar(bar)));
  bar.clear();
  RUNNEL_TRY(const Turn turn, conversation_.answer(options, view.text, std::move(stop)));
  view.finished(turn.result);
  return {};
}

Status ChatStore::forget(const std::string& argument) {
  RUNNEL_TRY(const MessageId after, numbered(argument));
  if (after == 0) {
    // The whole conversation: every first message goes, the name stays.
    return Error{ErrorCode::invalid_argument,
                 "to forget the whole conversation leave and use `runnel conversation delete`"};
  }
  RUNNEL_TRY(const ForgetReport forgotten, conversation_.forget_after(after));
  write_remark("Forgot " + std::to_string(forgotten.messages) + " messages.\n");
  return {};
}

Status ChatStore::search(const std::string& words) {
  if (words.empty()) {
    return Error{ErrorCode::invalid_argument, "/search needs words to look for"};
  }
  RUNNEL_TRY(const std::vector<SearchHit> hits, conversation_.store().search(words));
  if (hits.empty()) write_remark("Nothing found.\n");
  std::string text;
  for (const SearchHit& hit : hits) text += hit.name + ": " + one_line(hit.excerpt, 160) + "\n";
  write_out(text);
  return {};
}

Status ChatStore::start_over() {
  RUNNEL_TRY(const MessageId start, numbered("0"));
  RUNNEL_CHECK_OK(conversation_.rewind(start));
  write_remark("Started over; the earlier messages are a branch.\n");
  return {};
}

Result<PackStart> start_from_pack(Session& session, const std::string& file) {
  RUNNEL_TRY(const Snapshot pack, Snapshot::load(file));
  const SnapshotContext& context = data_of(pack).context;
  if (context.messages.size() != 1) {
    return Error{ErrorCode::invalid_argument,
                 file +
                     ": is a snapshot but no state pack; --load continues from it, and with "
                     "--conversation a state before the first token begins one"};
  }
  PackStart start{.system = context.messages[0].content, .tokens = context.tokens.size()};
  if (!context.tokens.empty() && session.restore(pack)) return start;
  // The pack belongs to another model: read its text again.
  RUNNEL_TRY(const std::vector<TokenId> tokens, encode_system(session.model(), start.system));
  ProgressBar bar("Reading");
  RUNNEL_CHECK_OK(feed(session, tokens, with_bar(bar)));
  start.tokens = tokens.size();
  return start;
}

}  // namespace runnel::cli
