// SPDX-License-Identifier: Apache-2.0
// Sessions in the C API.
#include "runnel/session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runnel/scoring.h"
#include "runtime/c/generation_options.h"
#include "runtime/c/support.h"

using namespace runnel;
using namespace runnel::c;

namespace {

Error stopped() { return {ErrorCode::cancelled, "prefill: a stop was requested"}; }

}  // namespace

runnel_status runnel_session_create(const runnel_model* model, runnel_session** session,
                                    runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(model, "model"));
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_TRY(Session made, Session::create(model->model));
    *session = new runnel_session{std::move(made)};
    return {};
  });
}

void runnel_session_free(runnel_session* session) { delete session; }

runnel_status runnel_session_prefill(runnel_session* session, const runnel_token* tokens,
                                     size_t token_count, const runnel_stop* stop,
                                     uint64_t* consumed, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_TRY(const std::span<const TokenId> ids, span_of(tokens, token_count, "tokens"));
    RUNNEL_TRY(const PrefillResult read, session->session.prefill(ids, stop_of(stop)));
    if (consumed != nullptr) *consumed = read.consumed;
    if (read.cancelled) return stopped();
    return {};
  });
}

void runnel_feed_options_init(runnel_feed_options* options, size_t size) {
  init_struct(options, size, runnel_feed_options{});
}

runnel_status runnel_session_feed(runnel_session* session, const runnel_token* tokens,
                                  size_t token_count, const runnel_feed_options* options,
                                  uint64_t* consumed, bool* stopped, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_TRY(const std::span<const TokenId> ids, span_of(tokens, token_count, "tokens"));
    RUNNEL_TRY(const runnel_feed_options o,
               known_struct(options, runnel_feed_options{}, sizeof(runnel_feed_options),
                            "runnel_feed_options"));
    PrefillProgress progress;
    if (o.on_progress != nullptr) {
      progress = [o](std::uint64_t done, std::uint64_t total) {
        o.on_progress(done, total, o.user);
      };
    }
    RUNNEL_TRY(const PrefillResult read, session->session.prefill(ids, stop_of(o.stop), progress));
    if (consumed != nullptr) *consumed = read.consumed;
    if (stopped != nullptr) *stopped = read.cancelled;
    return {};
  });
}

runnel_status runnel_session_prefill_text(runnel_session* session, const char* text, size_t bytes,
                                          bool parse_special, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_TRY(const std::string_view words, text_of(text, bytes, "text"));
    RUNNEL_TRY(const std::vector<TokenId> ids,
               session->session.model().encode(words, parse_special));
    RUNNEL_CHECK_OK(session->session.prefill(ids));
    return {};
  });
}

runnel_status runnel_session_score(runnel_session* session, const runnel_token* tokens,
                                   size_t token_count, float* logits, size_t capacity,
                                   size_t* count, runnel_error* error) {
  std::vector<float> scores;
  bool fits = true;
  const runnel_status status = guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_TRY(const std::span<const TokenId> ids, span_of(tokens, token_count, "tokens"));
    const auto vocab = static_cast<std::size_t>(session->session.model().info().vocab_size);
    if (ids.size() > SIZE_MAX / sizeof(float) / vocab) {
      return fail(ErrorCode::invalid_argument, "score: ", ids.size(), " tokens are too many");
    }
    const std::size_t wanted = ids.size() * vocab;
    fits = wanted <= capacity && (logits != nullptr || wanted == 0);
    if (!fits) {  // before anything is fed
      if (count != nullptr) *count = wanted;
      return {};
    }
    RUNNEL_TRY(scores, session->session.score(ids));
    return {};
  });
  if (status != RUNNEL_OK) return status;
  if (!fits) return report(RUNNEL_TOO_SMALL, "score: the array is too small", error);
  return copy_out(std::span<const float>(scores), logits, capacity, count, error);
}

runnel_status runnel_session_embedding(const runnel_session* session, const runnel_token* tokens,
                                       size_t token_count, uint32_t form, float* embedding,
                                       size_t capacity, runnel_error* error) {
  std::vector<float> made;
  bool fits = true;
  const runnel_status status = guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_TRY(const std::span<const TokenId> ids, span_of(tokens, token_count, "tokens"));
    constexpr std::uint32_t kForms = RUNNEL_EMBEDDING_LAST | RUNNEL_EMBEDDING_RAW;
    if ((form & ~kForms) != 0) {
      return fail(ErrorCode::invalid_argument, "the form of an embedding is ", form,
                  ", expected bits of RUNNEL_EMBEDDING_LAST and RUNNEL_EMBEDDING_RAW");
    }
    const auto wanted = static_cast<std::size_t>(session->session.model().info().hidden_size);
    fits = wanted <= capacity && embedding != nullptr;
    if (!fits) return {};  // before anything is read
    RUNNEL_TRY(made, session->session.embedding(
                         ids, {.pooling = (form & RUNNEL_EMBEDDING_LAST) != 0 ? Pooling::last
                                                                              : Pooling::mean,
                               .normalise = (form & RUNNEL_EMBEDDING_RAW) == 0}));
    return {};
  });
  if (status != RUNNEL_OK) return status;
  if (!fits) return report(RUNNEL_TOO_SMALL, "embedding: the array is too small", error);
  std::copy(made.begin(), made.end(), embedding);
  return status;
}

runnel_status runnel_session_score_choices(const runnel_session* session,
                                           const runnel_choice* choices, size_t choice_count,
                                           double* log_likelihoods, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_TRY(const std::span<const runnel_choice> given,
               span_of(choices, choice_count, "choices"));
    if (choice_count > 0) RUNNEL_CHECK_OK(check_not_null(log_likelihoods, "log_likelihoods"));
    std::vector<std::vector<TokenId>> texts;
    for (const runnel_choice& choice : given) {
      RUNNEL_TRY(const std::span<const TokenId> ids,
                 span_of(choice.tokens, choice.token_count, "a choice's tokens"));
      texts.emplace_back(ids.begin(), ids.end());
    }
    RUNNEL_TRY(const std::vector<ChoiceScore> scores, score_choices(session->session, texts));
    for (std::size_t i = 0; i < scores.size(); ++i) log_likelihoods[i] = scores[i].total();
    return {};
  });
}

const float* runnel_session_logits(const runnel_session* session, size_t* count) {
  const float* logits = nullptr;
  if (count != nullptr) *count = 0;
  static_cast<void>(runnel_session_get_logits(session, &logits, count, nullptr));
  return logits;
}

runnel_status runnel_session_get_logits(const runnel_session* session, const float** logits,
                                        size_t* count, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_CHECK_OK(check_not_null(logits, "logits"));
    RUNNEL_TRY(const std::span<const float> now, session->session.logits());
    *logits = now.data();
    if (count != nullptr) *count = now.size();
    return {};
  });
}

const char* runnel_session_unread_text(const runnel_session* session, size_t* bytes) {
  const std::string_view text =
      session != nullptr ? session->session.unread_text() : std::string_view();
  if (bytes != nullptr) *bytes = text.size();
  return text.data();
}

uint64_t runnel_session_position(const runnel_session* session) {
  return session != nullptr ? session->session.position() : 0;
}

const runnel_token* runnel_session_recent(const runnel_session* session, size_t* count) {
  const std::span<const TokenId> recent =
      session != nullptr ? session->session.recent_tokens() : std::span<const TokenId>();
  if (count != nullptr) *count = recent.size();
  return recent.data();
}

runnel_status runnel_session_reset(runnel_session* session, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    return session->session.reset();
  });
}

runnel_status runnel_session_fork(const runnel_session* session, runnel_session** fork,
                                  runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_CHECK_OK(check_not_null(fork, "fork"));
    RUNNEL_TRY(Session copy, session->session.fork());
    *fork = new runnel_session{std::move(copy)};
    return {};
  });
}

runnel_status runnel_session_snapshot(const runnel_session* session, runnel_snapshot** snapshot,
                                      runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_CHECK_OK(check_not_null(snapshot, "snapshot"));
    RUNNEL_TRY(Snapshot taken, session->session.snapshot());
    *snapshot = new runnel_snapshot{std::move(taken)};
    return {};
  });
}

runnel_status runnel_session_restore(runnel_session* session, const runnel_snapshot* snapshot,
                                     runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(session, "session"));
    RUNNEL_CHECK_OK(check_not_null(snapshot, "snapshot"));
    return session->session.restore(snapshot->snapshot);
  });
}
