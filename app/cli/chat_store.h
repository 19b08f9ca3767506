// SPDX-License-Identifier: Apache-2.0
// What chat does with the library of conversations: --conversation, --pack, and the commands that
// go back, branch and search.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "runnel/conversation.h"
#include "runnel/result.h"

namespace runnel::cli {

struct ConversationChoice {
  std::string name;     // empty: none is kept
  std::string pack;     // empty: none
  std::string library;  // empty: the user's
};

/// Adds --library.
void add_library_option(CLI::App& parser, std::string& library);

/// Opens the file given, or the user's ($XDG_DATA_HOME/runnel/conversations.db).
Result<ConversationStore> open_library(const std::string& library);

/// Adds --conversation, --pack and --library.
void add_conversation_options(CLI::App& parser, ConversationChoice& choice);

/// Shows an answer as it comes, and its end.
struct AnswerView {
  TextCallback text;
  std::function<void(const GenerationResult&)> finished;
};

/// One conversation of the library, open in a chat.
class ChatStore {
 public:
  /// Opens or makes the conversation `choice` names; shows a bar if tokens must be read again.
  static Result<ChatStore> open(const ConversationChoice& choice,
                                const std::shared_ptr<const Model>& model,
                                const std::string& system);

  Session& session() { return conversation_.session(); }

  /// What opening it cost, for the greeting: "3 messages, nothing to read".
  std::string greeting() const;

  /// What was said last, as /list shows it; empty for a new conversation.
  std::string recap() const;

  /// A user's message and its answer.
  Result<Turn> send(const std::string& text, const GenerationOptions& options,
                    const TextCallback& on_text, std::stop_token stop) {
    return conversation_.send(text, options, on_text, std::move(stop));
  }

  static const char* help();

  /// Carries out one of its commands.
  /// @return false if `command` is none of them
  bool run_command(const std::string& command, const std::string& argument,
                   const GenerationOptions& options, const AnswerView& view, std::stop_token stop);

 private:
  explicit ChatStore(Conversation conversation) : conversation_(std::move(conversation)) {}

  Status list();
  Status rewind(const std::string& argument);
  Status branch(const std::string& argument);
  Status again(GenerationOptions options, const AnswerView& view, std::stop_token stop);
  Status edit(const std::string& text, const GenerationOptions& options, const AnswerView& view,
              std::stop_token stop);
  Status forget(const std::string& argument);
  Status search(const std::string& words);
  Status start_over();

  /// The message with a number of /list. 0 is before the first but after the system prompt.
  Result<MessageId> numbered(const std::string& argument) const;
  /// The messages of the path, without the system prompt.
  Result<std::vector<MessageInfo>> shown_messages() const;

  Conversation conversation_;
  std::uint64_t repeats_ = 0;
};

/// The text of a pack, and its tokens if they are of this model: how a chat that is not kept begins.
struct PackStart {
  std::string system;
  std::size_t tokens = 0;  // behind the session
};

/// Brings `session` behind the pack in `file`.
Result<PackStart> start_from_pack(Session& session, const std::string& file);

}  // namespace runnel::cli
