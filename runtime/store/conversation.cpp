// SPDX-License-Identifier: Apache-2.0
// Sending, going back and branching in one stored conversation.
#include "runnel/conversation.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/initial_state.h"
#include "runtime/model/session_impl.h"
#include "runtime/store/remind.h"
#include "runtime/store/replay.h"

namespace runnel {

struct Conversation::Impl {
  Impl(const ConversationStore& opened, Session made) : store(opened), session(std::move(made)) {}

  ConversationStore store;
  Session session;
  ConversationId id = 0;
  Beginning beginning = {};
  std::vector<PathStep> path;  // to the head
  bool in_place = true;        // the session stands at the head
  TokenCost opening;

  const Model& model() const { return session.model(); }
  MessageId head() const { return path.empty() ? 0 : path.back().message.id; }

  /// The path to a message of this conversation.
  Result<std::vector<PathStep>> path_to(MessageId message) {
    RUNNEL_TRY(std::vector<PathStep> steps,
               impl_of(store).read_path(message, model().info().fingerprint));
    for (const PathStep& step : steps) {
      if (step.message.conversation != id) {
        return fail(ErrorCode::not_found, "message ", message, ": is none of conversation ", id);
      }
    }
    return steps;
  }

  /// Brings the session to the end of `to`, which becomes the path. On failure the path stays, and
  /// the session is brought back before its next use.
  Status move_to(std::vector<PathStep> to, const ReplayOptions& replay, TokenCost& cost,
                 std::string& warning) {
    in_place = false;
    RUNNEL_CHECK_OK(replay_path(impl_of(store), session, beginning, to, replay, cost, warning));
    path = std::move(to);
    in_place = true;
    return {};
  }

  /// After a failed operation: back to where the handle stands.
  Status settle(const ReplayOptions& replay, Turn& turn) {
    if (in_place) return {};
    RUNNEL_TRY(std::vector<PathStep> to, path_to(head()));  // read again, with its snapshots
    return move_to(std::move(to), replay, turn.cost, turn.warning);
  }

  /// Stores what the session has just read or generated as a message after the head.
  Result<MessageId> append(const std::string& role, std::string text, std::vector<TokenId> tokens,
                           std::string& warning) {
    return append({.role = role, .text = std::move(text)}, std::move(tokens), warning);
  }

  Result<MessageId> append(NewMessage message, std::vector<TokenId> tokens, std::string& warning) {
    RUNNEL_TRY(const NewBoundary boundary,
               boundary_of(session, std::move(tokens), impl_of(store).options.encoding));
    message.conversation = id;
    message.parent = head();
    RUNNEL_TRY(const MessageId added, impl_of(store).add_message(message, boundary, warning));
    path.push_back({.message = {.id = added,
                                .parent = message.parent,
                                .conversation = id,
                                .role = message.role,
                                .text = message.text,
                                .complete = message.complete,
                                .cut = message.cut,
                                .thought = message.thought,
                                .thought_ms = message.thought_ms},
                    .has_tokens = true,
                    .tokens = boundary.tokens,
                    .position = boundary.position,
                    .history = boundary.history});
    return added;
  }

  /// Brings the session to the end of the first `kept` steps. The others keep their place, but their text is read with
  /// the next message: they have no tokens any more.
  Status go_back_to(std::size_t kept, const ReplayOptions& replay, Turn& turn) {
    std::vector<PathStep> first(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(kept));
    in_place = false;
    RUNNEL_CHECK_OK(
        replay_path(impl_of(store), session, beginning, first, replay, turn.cost, turn.warning));
    RUNNEL_TRY(const NewBoundary boundary,
               boundary_of(session, {}, impl_of(store).options.encoding));
    for (std::size_t i = kept; i < path.size(); ++i) {
      PathStep& step = path[i];
      if (Status put = impl_of(store).put_boundary(step.message.id, boundary, turn.warning); !put)
        turn.warning = put.error().message;
      step.has_tokens = true;
      step.tokens.clear();
      step.position = boundary.position;
      step.history = boundary.history;
    }
    std::copy(first.begin(), first.end(), path.begin());
    return {};
  }

  Status add_user(std::string_view text, const ReplayOptions& replay, Turn& turn) {
    RUNNEL_TRY(AddedTokens added,
               encode_after(model(), path, "user", text, std::string(session.unread_text())));
    const bool anew = added.kept < path.size();
    if (anew) RUNNEL_CHECK_OK(go_back_to(added.kept, replay, turn));
    std::vector<TokenId>& tokens = added.tokens;
    in_place = false;
    RUNNEL_TRY(const PrefillResult read, session.prefill(tokens, replay.stop, replay.progress));
    (anew ? turn.cost.relaid : turn.cost.fed) += read.consumed;
    if (read.cancelled) return fail(ErrorCode::cancelled, "stopped in the message");
    RUNNEL_TRY(turn.user, append("user", std::string(text), std::move(tokens), turn.warning));
    in_place = true;
    return {};
  }

  /// Generates the turn's result. @return milliseconds up to the first text of the answer: what its thought took
  Result<std::int64_t> say(const GenerationOptions& options, const TextCallback& on_text,
                           const std::stop_token& stop, Turn& turn) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begun = Clock::now();
    std::optional<Clock::time_point> answering;
    const TextCallback timed = [&](std::string_view text) {
      if (!answering) answering = Clock::now();
      return !on_text || on_text(text);
    };
    RUNNEL_TRY(turn.result,
               generate(session, options, options.answer.thinks ? timed : on_text, stop));
    turn.cancelled = turn.result.reason == FinishReason::cancelled;
    turn.cost.generated += turn.result.tokens.size();
    return std::chrono::duration_cast<std::chrono::milliseconds>(answering.value_or(Clock::now()) -
                                                                 begun)
        .count();
  }

  Status answer(const GenerationOptions& options, const TextCallback& on_text,
                const std::stop_token& stop, Turn& turn) {
    if (path.empty() || path.back().message.role != "user") {
      return fail(ErrorCode::invalid_argument,
                  "conversation: its last message is not a user's, there is nothing to answer");
    }
    in_place = false;
    RUNNEL_TRY(const std::int64_t thought_ms, say(options, on_text, stop, turn));
    if (!turn.result.tokens.empty()) {
      // Text that a stop string might have begun in was consumed too: the next message follows it.
      RUNNEL_TRY(turn.answer, append({.role = "assistant",
                                      .text = turn.result.text + turn.result.held_back,
                                      .complete = is_whole(turn.result),
                                      .cut = cut_of(turn.result),
                                      .thought = turn.result.thought,
                                      .thought_ms = thought_ms},
                                     turn.result.kept, turn.warning));
    }
    in_place = true;
    return {};
  }

  static bool is_whole(const GenerationResult& result) {
    return result.reason == FinishReason::end || result.reason == FinishReason::stop_text;
  }

  static CutReason cut_of(const GenerationResult& result) {
    if (is_whole(result)) return CutReason::none;
    return result.reason == FinishReason::length ? CutReason::length : CutReason::stopped;
  }

  Status resume(GenerationOptions options, const TextCallback& on_text, const std::stop_token& stop,
                Turn& turn) {
    if (path.empty() || path.back().message.role != "assistant" || path.back().message.complete) {
      return fail(
          ErrorCode::invalid_argument,
          "conversation: its last message is no answer that was cut short, there is nothing "
          "to go on with");
    }
    PathStep step = path.back();
    std::string& text = step.message.text;
    // What a stop string might have begun in was stored, and the next text begins with it.
    const std::string& held = impl_of(session).carry().stop;
    if (!held.empty() && text.ends_with(held)) text.resize(text.size() - held.size());
    in_place = false;
    if (const std::string unread(session.unread_text()); !unread.empty()) {
      RUNNEL_TRY(const std::vector<TokenId> rest, model().encode(unread));
      RUNNEL_CHECK_OK(feed(session, rest, {}));
      step.tokens.insert(step.tokens.end(), rest.begin(), rest.end());
    }
    // An answer that was cut in its thought leaves nothing to go on from: it begins again.
    if (!text.empty() || step.message.thought.empty()) {
      options.answer.opening.clear();  // it was read
      options.answer.lead.clear();
      options.answer.thinks = false;
    }
    RUNNEL_TRY(const std::int64_t thought_ms, say(options, on_text, stop, turn));
    if (!turn.result.thought.empty()) {
      step.message.thought = turn.result.thought;
      step.message.thought_ms = thought_ms;
    }
    step.tokens.insert(step.tokens.end(), turn.result.kept.begin(), turn.result.kept.end());
    text += turn.result.text + turn.result.held_back;
    step.message.complete = is_whole(turn.result);
    step.message.cut = cut_of(turn.result);
    return keep_longer(std::move(step), turn);
  }

  /// Stores the answer at the head with more text and tokens than it had.
  Status keep_longer(PathStep step, Turn& turn) {
    RUNNEL_TRY(const bool followed, impl_of(store).has_children(step.message.id));
    if (followed) {
      const PathStep old = std::move(path.back());
      path.pop_back();
      const Result<MessageId> added = append({.role = "assistant",
                                              .text = step.message.text,
                                              .complete = step.message.complete,
                                              .cut = step.message.cut,
                                              .thought = step.message.thought,
                                              .thought_ms = step.message.thought_ms},
                                             step.tokens, turn.warning);
      if (!added) {
        path.push_back(old);
        return added.error();
      }
      turn.answer = *added;
    } else {
      RUNNEL_TRY(const NewBoundary boundary,
                 boundary_of(session, step.tokens, impl_of(store).options.encoding));
      RUNNEL_CHECK_OK(impl_of(store).extend_message(step.message, boundary, turn.warning));
      step.position = boundary.position;
      step.history = boundary.history;
      step.snapshot.clear();
      path.back() = std::move(step);
      turn.answer = path.back().message.id;
    }
    in_place = true;
    return {};
  }

  Status begin(NewConversation made, const ReplayOptions& replay) {
    if (made.pack && !is_before_all(*made.pack))
      return begin_with_pack(*made.pack, opening, replay);
    if (made.pack) {
      RUNNEL_TRY(const Snapshot initial, initial_state(*made.pack, session.shared_model()));
      RUNNEL_CHECK_OK(begin_from(initial));
    }
    if (made.system.empty()) return {};
    return begin_with_system(std::move(made.system), opening, replay);
  }

  Status begin_with_system(std::string text, TokenCost& cost, const ReplayOptions& replay) {
    RUNNEL_TRY(std::vector<TokenId> tokens, encode_system(model(), text));
    std::uint64_t history = beginning.history;
    for (const TokenId token : tokens) history = extend_history(history, token);
    const std::optional<Snapshot> start =
        tokens.empty() ? std::nullopt
                       : impl_of(store).find_start(model().info().fingerprint, history, tokens);
    if (!start || start->position() != tokens.size() || !session.restore(*start)) {
      RUNNEL_CHECK_OK(go_to(impl_of(store), session, beginning));
      RUNNEL_CHECK_OK(feed(session, tokens, replay));
      cost.fed += tokens.size();
    }
    std::string warning;
    RUNNEL_CHECK_OK(append("system", std::move(text), std::move(tokens), warning));
    return {};
  }

  /// The conversation begins from `initial`, if that is of this model, and the session stands there.
  Status begin_from(const Snapshot& initial) {
    RUNNEL_CHECK_OK(impl_of(store).put_beginning(id, initial));
    RUNNEL_TRY(beginning, impl_of(store).beginning(id, model().info().fingerprint));
    return go_to(impl_of(store), session, beginning);
  }

  Status begin_with_pack(const Snapshot& pack, TokenCost& cost, const ReplayOptions& replay) {
    const SnapshotContext& context = data_of(pack).context;
    RUNNEL_CHECK_OK(check_messages(context.messages));
    if (const std::optional<Snapshot> initial = initial_state_of(pack))
      RUNNEL_CHECK_OK(begin_from(*initial));
    const bool fits = pack.model_fingerprint() == model().info().fingerprint &&
                      !context.tokens.empty() && session.restore(pack);
    const bool system_alone = context.messages.size() == 1 && context.messages[0].role == "system";
    if (!fits && system_alone) {
      RUNNEL_CHECK_OK(begin_with_system(context.messages[0].content, cost, replay));
    } else if (!fits) {
      std::string warning;
      RUNNEL_TRY(const MessageId last, impl_of(store).insert_messages(id, context.messages));
      RUNNEL_TRY(std::vector<PathStep> to, path_to(last));
      RUNNEL_CHECK_OK(move_to(std::move(to), replay, cost, warning));
    } else {
      return append_pack(context);
    }
    cost.replayed += std::exchange(cost.fed, 0);
    return {};
  }

  /// The messages of a pack whose state the session has. Each has the tokens that its text gives, as far as those are
  /// the pack's; from where they are not, the last message has them all.
  Status append_pack(const SnapshotContext& context) {
    std::uint64_t history = beginning.history;
    std::size_t begin = 0;
    bool agrees = true;
    for (std::size_t i = 0; i < context.messages.size(); ++i) {
      const ChatMessage& said = context.messages[i];
      const auto rest = std::span(context.tokens).subspan(begin);
      std::string warning;
      if (i + 1 == context.messages.size()) {
        const Result<MessageId> last =
            append(said.role, said.content, {rest.begin(), rest.end()}, warning);
        return last ? Status() : Status(last.error());
      }
      std::vector<TokenId> tokens;
      if (agrees) {
        const auto added = encode_after(model(), path, said.role, said.content);
        agrees = added && added->kept == path.size() && added->tokens.size() < rest.size() &&
                 std::equal(added->tokens.begin(), added->tokens.end(), rest.begin());
        if (agrees) tokens = added->tokens;
      }
      begin += tokens.size();
      for (const TokenId token : tokens) history = extend_history(history, token);
      const NewMessage message{
          .conversation = id, .parent = head(), .role = said.role, .text = said.content};
      const NewBoundary boundary{.model = model().info().fingerprint,
                                 .tokens = tokens,
                                 .position = begin,
                                 .history = history};
      RUNNEL_TRY(const MessageId added, impl_of(store).add_message(message, boundary, warning));
      path.push_back({.message = {.id = added,
                                  .parent = message.parent,
                                  .conversation = id,
                                  .role = said.role,
                                  .text = said.content},
                      .has_tokens = true,
                      .tokens = tokens,
                      .position = begin,
                      .history = history});
    }
    return {};
  }
};

namespace {

// Part of a turn may stay: a stop is no error of it.
Status unless_stopped(Status status, Turn& turn) {
  if (status || status.error().code != ErrorCode::cancelled) return status;
  turn.cancelled = true;
  turn.result.reason = FinishReason::cancelled;
  return {};
}

}  // namespace

Conversation::Conversation(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Conversation::Conversation(Conversation&&) noexcept = default;
Conversation& Conversation::operator=(Conversation&&) noexcept = default;
Conversation::~Conversation() = default;

ConversationId Conversation::id() const { return impl_->id; }
MessageId Conversation::head() const { return impl_->head(); }
const TokenCost& Conversation::cost() const { return impl_->opening; }
const ConversationStore& Conversation::store() const { return impl_->store; }
Session& Conversation::session() { return impl_->session; }
const Session& Conversation::session() const { return impl_->session; }

Result<Conversation> Conversation::create(const ConversationStore& store,
                                          std::shared_ptr<const Model> model, NewConversation made,
                                          const ReplayOptions& replay) try {
  RUNNEL_TRY(Session session, Session::create(std::move(model)));
  auto impl = std::make_unique<Impl>(store, std::move(session));
  RUNNEL_TRY(impl->id, impl_of(store).new_conversation(made.name));
  const Status begun = impl->begin(std::move(made), replay);
  if (!begun) {
    static_cast<void>(impl->store.forget_conversation(impl->id));
    return begun.error();
  }
  return Conversation(std::move(impl));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversation: not enough memory");
}

Result<Conversation> Conversation::open(const ConversationStore& store,
                                        std::shared_ptr<const Model> model, ConversationId id,
                                        MessageId message, const ReplayOptions& replay) try {
  RUNNEL_TRY(const ConversationInfo info, store.info(id));
  RUNNEL_TRY(Session session, Session::create(std::move(model)));
  auto impl = std::make_unique<Impl>(store, std::move(session));
  impl->id = id;
  RUNNEL_TRY(impl->beginning, impl_of(store).beginning(id, impl->model().info().fingerprint));
  RUNNEL_TRY(std::vector<PathStep> path, impl->path_to(message != 0 ? message : info.head));
  std::string warning;
  RUNNEL_CHECK_OK(impl->move_to(std::move(path), replay, impl->opening, warning));
  if (message != 0) RUNNEL_CHECK_OK(impl_of(store).set_head(id, message));
  return Conversation(std::move(impl));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversation: not enough memory");
}

Result<Conversation> Conversation::open_or_create(const ConversationStore& store,
                                                  std::shared_ptr<const Model> model,
                                                  NewConversation made,
                                                  const ReplayOptions& replay) {
  RUNNEL_TRY(const std::optional<ConversationId> id, store.find(made.name));
  if (id) return open(store, std::move(model), *id, 0, replay);
  return create(store, std::move(model), std::move(made), replay);
}

Result<Turn> Conversation::send(std::string_view text, const GenerationOptions& options,
                                const TextCallback& on_text, std::stop_token stop) try {
  RUNNEL_CHECK_OK(validate(impl_->model(), options));  // before anything is stored
  Turn turn;
  const ReplayOptions replay{.progress = {}, .stop = stop};
  RUNNEL_CHECK_OK(unless_stopped(impl_->settle(replay, turn), turn));
  if (!turn.cancelled) RUNNEL_CHECK_OK(unless_stopped(impl_->add_user(text, replay, turn), turn));
  if (!turn.cancelled) RUNNEL_CHECK_OK(impl_->answer(options, on_text, stop, turn));
  return turn;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversation: not enough memory");
}

Result<Turn> Conversation::add_user(std::string_view text, std::stop_token stop) {
  return add_user(text, {.progress = {}, .stop = std::move(stop)});
}

Result<Turn> Conversation::add_user(std::string_view text, const ReplayOptions& replay) try {
  Turn turn;
  RUNNEL_CHECK_OK(unless_stopped(impl_->settle(replay, turn), turn));
  if (!turn.cancelled) RUNNEL_CHECK_OK(unless_stopped(impl_->add_user(text, replay, turn), turn));
  return turn;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversation: not enough memory");
}

Result<Turn> Conversation::answer(const GenerationOptions& options, const TextCallback& on_text,
                                  std::stop_token stop) try {
  Turn turn;
  RUNNEL_CHECK_OK(unless_stopped(impl_->settle({.progress = {}, .stop = stop}, turn), turn));
  if (!turn.cancelled) RUNNEL_CHECK_OK(impl_->answer(options, on_text, stop, turn));
  return turn;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversation: not enough memory");
}

Result<Turn> Conversation::resume(const GenerationOptions& options, const TextCallback& on_text,
                                  std::stop_token stop) try {
  RUNNEL_CHECK_OK(validate(impl_->model(), options));
  Turn turn;
  RUNNEL_CHECK_OK(impl_->settle({}, turn));
  RUNNEL_CHECK_OK(impl_->resume(options, on_text, stop, turn));
  return turn;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversation: not enough memory");
}

Result<Turn> Conversation::regenerate(const GenerationOptions& options, const TextCallback& on_text,
                                      std::stop_token stop, const ReplayOptions& replay) try {
  RUNNEL_CHECK_OK(validate(impl_->model(), options));
  Turn turn;
  const std::vector<PathStep> before = impl_->path;
  if (before.empty() || before.back().message.role != "assistant") {
    RUNNEL_CHECK_OK(unless_stopped(impl_->settle(replay, turn), turn));
    if (!turn.cancelled) RUNNEL_CHECK_OK(impl_->answer(options, on_text, stop, turn));
    return turn;
  }
  RUNNEL_TRY(std::vector<PathStep> to, impl_->path_to(before.back().message.parent));
  RUNNEL_CHECK_OK(
      unless_stopped(impl_->move_to(std::move(to), replay, turn.cost, turn.warning), turn));
  if (turn.cancelled) return turn;
  const Status answered = impl_->answer(options, on_text, stop, turn);
  if (!answered || turn.answer == 0) {
    impl_->path = before;
    impl_->in_place = false;
  }
  if (!answered) return answered.error();
  return turn;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversation: not enough memory");
}

Result<Turn> Conversation::edit(MessageId message, std::string_view text,
                                const ReplayOptions& replay) try {
  Turn turn;
  RUNNEL_TRY(std::vector<PathStep> to, impl_->path_to(message));
  if (to.empty() || to.back().message.role != "user") {
    return fail(ErrorCode::invalid_argument, "message ", message,
                ": is not a user's, expected one to edit");
  }
  to.pop_back();
  const std::vector<PathStep> before = impl_->path;
  RUNNEL_CHECK_OK(
      unless_stopped(impl_->move_to(std::move(to), replay, turn.cost, turn.warning), turn));
  if (turn.cancelled) return turn;
  if (Status added = unless_stopped(impl_->add_user(text, replay, turn), turn);
      !added || turn.cancelled) {
    impl_->path = before;
    impl_->in_place = false;
    if (added) return turn;
    return std::move(added).error();
  }
  return turn;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversation: not enough memory");
}

Result<TokenCost> Conversation::rewind(MessageId message, const ReplayOptions& replay) try {
  Turn turn;
  RUNNEL_TRY(std::vector<PathStep> to, impl_->path_to(message));
  RUNNEL_CHECK_OK(impl_->move_to(std::move(to), replay, turn.cost, turn.warning));
  RUNNEL_CHECK_OK(impl_of(impl_->store).set_head(impl_->id, message));
  return turn.cost;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversation: not enough memory");
}

Result<GenerationResult> Conversation::ask(std::string_view text, const GenerationOptions& options,
                                           const TextCallback& on_text, std::stop_token stop) try {
  RUNNEL_CHECK_OK(validate(impl_->model(), options));
  Turn turn;
  const ReplayOptions replay{.progress = {}, .stop = stop};
  RUNNEL_CHECK_OK(impl_->settle(replay, turn));
  const std::vector<PathStep>& path = impl_->path;
  RUNNEL_TRY(const AddedTokens added, encode_after(impl_->model(), path, "user", text,
                                                   std::string(impl_->session.unread_text())));
  RUNNEL_TRY(Session copy, impl_->session.fork());
  if (added.kept < path.size()) {
    std::vector<PathStep> first(path.begin(),
                                path.begin() + static_cast<std::ptrdiff_t>(added.kept));
    RUNNEL_CHECK_OK(replay_path(impl_of(impl_->store), copy, impl_->beginning, first, replay,
                                turn.cost, turn.warning));
  }
  RUNNEL_CHECK_OK(feed(copy, added.tokens, replay));
  return generate(copy, options, on_text, stop);
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversation: not enough memory");
}

Result<Snapshot> Conversation::pack() try {
  Turn turn;
  RUNNEL_CHECK_OK(impl_->settle({}, turn));
  const Beginning& beginning = impl_->beginning;
  std::optional<Snapshot> initial;
  if (!beginning.state.empty()) {
    RUNNEL_TRY(initial, impl_of(impl_->store).read_beginning(beginning));
  }
  if (impl_->path.empty() && initial) return *std::move(initial);
  if (impl_->path.empty()) {
    return fail(ErrorCode::invalid_argument,
                "state pack: the conversation stands before its first message, nothing was said");
  }
  RUNNEL_TRY(const Snapshot snapshot, impl_->session.snapshot());
  auto data = std::make_shared<SnapshotData>(data_of(snapshot));
  data->context = {};
  if (initial) data->initial_state = data_of(*initial).state;
  for (const PathStep& step : impl_->path) {
    data->context.messages.push_back({step.message.role, text_read(step.message)});
    data->context.tokens.insert(data->context.tokens.end(), step.tokens.begin(), step.tokens.end());
  }
  return make_snapshot(std::move(data));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "state pack: not enough memory");
}

Result<ForgetReport> Conversation::forget_after(MessageId message, const ReplayOptions& replay) {
  RUNNEL_CHECK_OK(rewind(message, replay));
  return impl_->store.forget_after(message);
}

}  // namespace runnel
