// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/replay.h"

#include <algorithm>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/model/session_impl.h"
#include "runtime/store/remind.h"
#include "runtime/text/transcript_end.h"

namespace runnel {
namespace {

bool begins_with(std::span<const TokenId> tokens, std::span<const TokenId> prefix) {
  return tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

// Steps up to the last that has tokens: what a session after them has read.
std::size_t steps_read(std::span<const PathStep> steps) {
  std::size_t n = steps.size();
  while (n > 0 && steps[n - 1].tokens.empty()) --n;
  return n;
}

// The end of a last answer that its tokens lack, because it is read in one token with the message that follows.
std::string unread_of(const Model& model, std::span<const PathStep> before) {
  if (before.empty() || before.back().message.role != "assistant") return {};
  const auto form = model.answer_form();
  const auto read = model.decode(before.back().tokens);
  if (!form || form->follows.empty() || !read) return {};
  const std::string& text = before.back().message.text;
  const std::string_view known =
      std::string_view(*read).substr(std::min(read->find_first_not_of(' '), read->size()));
  return text.starts_with(known) ? text.substr(known.size()) : std::string();
}

// The user's message after earlier turns.
Result<AddedTokens> encode_user(const Model& model, std::span<const PathStep> before,
                                const ChatMessage& said, const std::optional<std::string>& unread) {
  std::vector<ChatMessage> messages;
  std::vector<std::size_t> ends = {0};  // messages up to each step
  const auto add = [&messages](const ChatMessage& message) {
    if (message.role == "user" && !messages.empty() && messages.back().role == "user")
      messages.push_back({"assistant", ""});  // a question that nobody answered
    messages.push_back(message);
  };
  for (const PathStep& step : before) {
    add({step.message.role, text_read(step.message)});
    ends.push_back(messages.size());
  }
  add(said);
  std::size_t kept = steps_read(before);
  for (;;) {
    const bool closed = kept > 0 && before[kept - 1].message.role == "assistant" &&
                        model.is_end(before[kept - 1].tokens.back());
    const bool last = unread && kept == before.size();
    RUNNEL_TRY(ChatReading reading,
               model.read_chat(messages, ends[kept], closed,
                               last ? *unread : unread_of(model, before.first(kept))));
    if (reading.kept == ends[kept]) return AddedTokens{kept, std::move(reading.tokens)};
    // Back to the last step with tokens that stands.
    while (kept > 0 && (ends[kept] > reading.kept || before[kept - 1].tokens.empty())) --kept;
  }
}

// How many of the first steps the session has just read: it stands at the end of the last of them. 0: at none.
std::size_t steps_behind(const Session& session, std::span<const PathStep> path) {
  if (session.position() == 0) return 0;
  for (std::size_t i = path.size(); i > 0; --i) {
    if (path[i - 1].position == session.position() &&
        path[i - 1].history == impl_of(session).history_hash())
      return i;
  }
  return 0;
}

void count(const PathStep& step, std::size_t tokens, TokenCost& cost) {
  (!step.never_read ? cost.replayed : step.lays_anew ? cost.relaid : cost.fed) += tokens;
}

// A conversation whose system prompt was only stored: its state is kept, for others that begin with the same.
Status read_system(StoreImpl& store, Session& session, const Beginning& beginning, PathStep& first,
                   const ReplayOptions& replay, TokenCost& cost, std::string& warning) {
  std::uint64_t history = beginning.history;
  for (const TokenId token : first.tokens) history = extend_history(history, token);
  const std::optional<Snapshot> start =
      store.find_start(session.model().info().fingerprint, history, first.tokens);
  if (!start || start->position() != first.tokens.size() || !session.restore(*start)) {
    RUNNEL_CHECK_OK(go_to(store, session, beginning));
    RUNNEL_CHECK_OK(feed(session, first.tokens, replay));
    count(first, first.tokens.size(), cost);
  }
  RUNNEL_TRY(const NewBoundary boundary,
             boundary_of(session, first.tokens, store.options.encoding));
  if (Status put = store.put_boundary(first.message.id, boundary, warning); !put)
    warning = put.error().message;
  first.has_tokens = true;
  first.position = boundary.position;
  first.history = boundary.history;
  return {};
}

}  // namespace

Result<std::vector<TokenId>> encode_system(const Model& model, std::string_view text) {
  const ChatMessage system{"system", std::string(text)};
  const ChatMessage conversation[] = {system, {"user", "x"}};
  RUNNEL_TRY(const std::vector<TokenId> together, model.encode_chat(conversation, true));
  Result<std::vector<TokenId>> alone = model.encode_chat(std::span(&system, 1), false);
  // Some templates refuse a system prompt without a question.
  if (!alone || !begins_with(together, *alone)) return std::vector<TokenId>();
  return alone;
}

Result<AddedTokens> encode_after(const Model& model, std::span<const PathStep> before,
                                 std::string_view role, std::string_view text,
                                 const std::optional<std::string>& unread) {
  const ChatMessage said{std::string(role), std::string(text)};
  AddedTokens out{.kept = before.size(), .tokens = {}};
  if (before.empty() && role == "system") {
    RUNNEL_TRY(out.tokens, encode_system(model, text));
  } else if (role == "assistant" && !before.empty() && before.back().message.role == "user") {
    // The user's message ends with what makes the model answer.
    RUNNEL_TRY(const AnswerForm form, model.answer_form());
    if (form.follows.empty() || !model.has_tokenizer()) {
      RUNNEL_TRY(out.tokens, model.encode(text));
    } else {
      RUNNEL_TRY(TranscriptEnd end, read_transcript_end(*tokenizer_of(model), text, form));
      out.tokens = std::move(end.tokens);
    }
  } else if (role == "user") {
    RUNNEL_TRY(out, encode_user(model, before, said, unread));
    if (before.size() == 1 && before[0].message.role == "system") {
      // Read together, so that the system prompt is separated as in the model's training.
      const ChatMessage conversation[] = {{"system", before[0].message.text}, said};
      RUNNEL_TRY(std::vector<TokenId> together, model.encode_chat(conversation, true));
      if (begins_with(together, before[0].tokens)) {
        together.erase(together.begin(),
                       together.begin() + static_cast<std::ptrdiff_t>(before[0].tokens.size()));
        out = {.kept = 1, .tokens = std::move(together)};
      }
    }
    if (out.kept == steps_read(before)) out.kept = before.size();  // those after it have no tokens
  } else {
    RUNNEL_TRY(out.tokens, model.encode_chat(std::span(&said, 1), false,
                                             before.empty() ? ChatContinuation::start
                                                            : ChatContinuation::after_cut_answer));
  }
  return out;
}

Result<NewBoundary> boundary_of(const Session& session, std::vector<TokenId> tokens,
                                SnapshotEncoding encoding) {
  NewBoundary boundary{.model = session.model().info().fingerprint,
                       .tokens = std::move(tokens),
                       .position = session.position(),
                       .history = impl_of(session).history_hash()};
  if (boundary.position > 0) {
    RUNNEL_TRY(const Snapshot snapshot, session.snapshot());
    RUNNEL_TRY(boundary.snapshot, snapshot.to_bytes(encoding));
  }
  return boundary;
}

Status feed(Session& session, std::span<const TokenId> tokens, const ReplayOptions& replay) {
  RUNNEL_TRY(const PrefillResult read, session.prefill(tokens, replay.stop, replay.progress));
  if (read.cancelled) {
    return fail(ErrorCode::cancelled, "stopped after ", read.consumed, " of ", tokens.size(),
                " tokens");
  }
  return {};
}

Status go_to(StoreImpl& store, Session& session, const Beginning& beginning) {
  if (beginning.state.empty()) return session.reset();
  RUNNEL_TRY(const Snapshot initial, store.read_beginning(beginning));
  return session.restore(initial);
}

Status replay_path(StoreImpl& store, Session& session, const Beginning& beginning,
                   std::vector<PathStep>& path, const ReplayOptions& replay, TokenCost& cost,
                   std::string& warning) {
  std::size_t known = 0;  // steps from the first on whose tokens are known for this model
  while (known < path.size() && path[known].has_tokens) ++known;
  const std::size_t behind = steps_behind(session, std::span(path).first(known));
  for (std::size_t i = known, from = known; i < path.size(); ++i) {
    // What the session showed and did not read is known better to it than to its tokens.
    const std::optional<std::string> unread =
        behind > 0 && behind == i ? std::optional(std::string(session.unread_text()))
                                  : std::nullopt;
    RUNNEL_TRY(AddedTokens added,
               encode_after(session.model(), std::span(path).first(i), path[i].message.role,
                            text_read(path[i].message), unread));
    path[i].lays_anew = added.kept < std::min(i, known);
    for (std::size_t anew = added.kept; anew < i; ++anew) path[anew].tokens.clear();
    path[i].tokens = std::move(added.tokens);
    from = std::min(from, added.kept);
    known = from;  // what follows is stored anew
  }

  std::size_t done = behind <= known ? behind : 0;  // steps that the session has consumed
  for (std::size_t i = known; i > done; --i) {
    if (path[i - 1].snapshot.empty()) continue;
    const std::optional<Snapshot> snapshot = store.read_snapshot(path[i - 1].snapshot);
    if (snapshot && snapshot->position() == path[i - 1].position && session.restore(*snapshot)) {
      done = i;
      break;
    }
  }
  if (done == 0 && known == 0 && path.size() > 1 && path[0].never_read &&
      path[0].message.role == "system" && !path[0].tokens.empty()) {
    RUNNEL_CHECK_OK(read_system(store, session, beginning, path[0], replay, cost, warning));
    known = done = 1;
  }
  if (done == 0) RUNNEL_CHECK_OK(go_to(store, session, beginning));
  if (done == path.size()) return {};

  // The rest is read in one go; boundaries on the way are kept as tokens alone.
  std::vector<TokenId> rest;
  for (std::size_t i = done; i < path.size(); ++i) {
    const PathStep& step = path[i];
    rest.insert(rest.end(), step.tokens.begin(), step.tokens.end());
  }
  const std::string unread = unread_of(session.model(), path);
  std::uint64_t position = session.position();
  std::uint64_t history = impl_of(session).history_hash();
  RUNNEL_CHECK_OK(feed(session, rest, replay));
  impl_of(session).keep_unread(unread);
  for (std::size_t i = done; i < path.size(); ++i) count(path[i], path[i].tokens.size(), cost);

  for (std::size_t i = done; i < path.size(); ++i) {
    PathStep& step = path[i];
    position += step.tokens.size();
    for (const TokenId token : step.tokens) history = extend_history(history, token);
    const bool last = i + 1 == path.size();
    if (i < known && !last) continue;
    NewBoundary boundary{.model = session.model().info().fingerprint,
                         .tokens = step.tokens,
                         .position = position,
                         .history = history};
    if (last) {
      RUNNEL_TRY(boundary, boundary_of(session, step.tokens, store.options.encoding));
    }
    step.has_tokens = true;
    step.position = position;
    step.history = history;
    // The replay worked: that it could not be stored is a warning, not a failure.
    if (Status put = store.put_boundary(step.message.id, boundary, warning); !put) {
      warning = put.error().message;
    }
  }
  return {};
}

}  // namespace runnel
