// SPDX-License-Identifier: Apache-2.0
// One stored conversation on a session: send, go back, branch, and read only new tokens.
//
// Example, in a function that returns a Result:
//   auto chat = runnel::Conversation::open_or_create(store, model, {.name = "plans"});
//   if (!chat) return chat.error();
//   auto turn = chat->send("What shall we plant?", {.max_tokens = 100});    // message and answer, both saved
//   if (!turn) return turn.error();
//   auto again = chat->regenerate({.sampling = {.temperature = 0.8F}});     // another answer: no token read again
//   if (!again) return again.error();
//   auto cost = chat->rewind(turn->user);    // what follows becomes another branch
//   if (!cost) return cost.error();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "runnel/export.h"
#include "runnel/generation.h"
#include "runnel/model.h"
#include "runnel/result.h"
#include "runnel/session.h"
#include "runnel/snapshot.h"
#include "runnel/store.h"

namespace runnel {

/// What an operation cost, in tokens.
struct TokenCost {
  std::uint64_t replayed = 0;  ///< read again, because a snapshot was gone or of another model
  /// read again together with the new message, because the chat template lays out earlier turns anew now that it follows
  std::uint64_t relaid = 0;
  std::uint64_t fed = 0;  ///< read for the first time: the new message, or one that was only stored
  std::uint64_t generated = 0;  ///< written
};

/// A user message and the answer to it, or one of them.
struct Turn {
  MessageId user = 0;    ///< 0 if this call added none
  MessageId answer = 0;  ///< 0 if nothing was generated
  GenerationResult result;
  TokenCost cost;
  /// A stop was requested before the end. A message that was not read to its end is not saved (`user` is 0), an answer
  /// is saved as far as it was written; the handle goes on from what was saved.
  bool cancelled = false;
  /// A warning for the user although nothing failed: e.g. that a snapshot could not be written, so
  /// that reopening will read the tokens again. Usually empty.
  std::string warning;
};

/// A conversation to make.
struct NewConversation {
  std::string name;
  std::string system;  ///< the system prompt; empty: the model's own
  /// A state pack (make_pack, Conversation::pack): begin after it; `system` is ignored. Or a snapshot before the first
  /// token, such as a tuned state: begin from it, with `system`, and again whenever it goes back before its first
  /// message; such a state of another model is a mismatch.
  std::optional<Snapshot> pack;
};

/// How an operation that reads tokens is stopped and reports its progress.
struct ReplayOptions {
  PrefillProgress progress;  ///< tokens read again so far and in total
  std::stop_token stop;      ///< ends it as result.h says; nothing stored is lost
};

/// A conversation with a session that stands at its head. Move-only, one thread at a time. Several
/// handles, in several processes, may have the same conversation open: each continues from its own head, and their
/// additions become branches.
///
/// Every call may fail as ConversationStore's and as Session's do. In a conversation that began from a state, open,
/// rewind, edit, pack and whatever else begins there again fail with malformed, io or unsupported if that state is lost
/// or cannot be read. After a failure, and after a stop that saved nothing, the handle is where it was before.
class RUNNEL_API Conversation {
 public:
  /// @return of `made.pack`: invalid_argument for a later snapshot without messages, malformed for a message of another
  ///         role than a chat has, mismatch for a state before the first token that is of another model or window.
  static Result<Conversation> create(const ConversationStore& store,
                                     std::shared_ptr<const Model> model, NewConversation made,
                                     const ReplayOptions& replay = {});

  /// Opens it at `message` (0: where it was left). cost() says how many tokens were read again: 0
  /// if there is a snapshot for this model; and how many of messages that were only stored (ConversationStore::add).
  static Result<Conversation> open(const ConversationStore& store,
                                   std::shared_ptr<const Model> model, ConversationId id,
                                   MessageId message = 0, const ReplayOptions& replay = {});

  /// The conversation of that name, made if there is none.
  static Result<Conversation> open_or_create(const ConversationStore& store,
                                             std::shared_ptr<const Model> model,
                                             NewConversation made,
                                             const ReplayOptions& replay = {});

  Conversation(Conversation&&) noexcept;
  Conversation& operator=(Conversation&&) noexcept;
  ~Conversation();

  ConversationId id() const;
  MessageId head() const;         ///< the message the session stands after; 0: before the first
  const TokenCost& cost() const;  ///< of opening it
  const ConversationStore& store() const;
  /// For reading (logits, position) only: tokens that are fed to it directly are not stored.
  Session& session();
  const Session& session() const;

  /// add_user() and answer(); nothing is answered after a stop, and with options that are refused nothing is saved.
  Result<Turn> send(std::string_view text, const GenerationOptions& options,
                    const TextCallback& on_text = {}, std::stop_token stop = {});

  /// Saves a user message and reads it; the session is ready to answer.
  Result<Turn> add_user(std::string_view text, std::stop_token stop = {});
  Result<Turn> add_user(std::string_view text, const ReplayOptions& replay);

  /// Generates an answer to the head, which must be a user's message, and saves it, cut short or not.
  Result<Turn> answer(const GenerationOptions& options, const TextCallback& on_text = {},
                      std::stop_token stop = {});

  /// Goes on with the answer at the head, which must have been cut short: what is generated is added to its text, or, if
  /// something follows it already, to a copy beside it. Turn::answer is that message.
  /// @return invalid_argument if the head is no answer or is complete.
  Result<Turn> resume(const GenerationOptions& options, const TextCallback& on_text = {},
                      std::stop_token stop = {});

  /// Another answer beside the one at the head (or to the user's message there): a new branch.
  Result<Turn> regenerate(const GenerationOptions& options, const TextCallback& on_text = {},
                          std::stop_token stop = {}, const ReplayOptions& replay = {});

  /// Replaces a user's message by another text: a new branch beside it, read but not answered yet.
  Result<Turn> edit(MessageId message, std::string_view text, const ReplayOptions& replay = {});

  /// Goes to any message of the conversation (0: before the first). The next message starts a branch there; nothing
  /// is deleted.
  Result<TokenCost> rewind(MessageId message, const ReplayOptions& replay = {});

  /// Asks a copy of the state: what it says is given back, and nothing of it is stored or read by the conversation.
  /// @return as send(); cancelled if a stop was requested before `text` was read
  Result<GenerationResult> ask(std::string_view text, const GenerationOptions& options,
                               const TextCallback& on_text = {}, std::stop_token stop = {});

  /// Where it stands, with all messages up to there: a state pack. Saved as a .rnlpack it goes on at once in another
  /// library, on another machine, on this model; on another one its messages are read again. It carries what the
  /// conversation began from; before the first message it is that state.
  /// @return invalid_argument before the first message of one that began from the empty state; out_of_memory
  Result<Snapshot> pack();

  /// Deletes everything after `message` for good, on all branches, and goes there.
  Result<ForgetReport> forget_after(MessageId message, const ReplayOptions& replay = {});

 private:
  struct Impl;
  explicit Conversation(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Reads `messages` (a system prompt, documents) once: a snapshot that conversations begin with at
/// no cost, on this model; on another one the messages are read again. Save it as a .rnlpack.
/// @return unsupported without a tokenizer; cancelled; malformed if a text is not UTF-8.
RUNNEL_API Result<Snapshot> make_pack(const std::shared_ptr<const Model>& model,
                                      std::string_view system,
                                      std::span<const std::string> documents,
                                      const ReplayOptions& replay = {});

}  // namespace runnel
