// SPDX-License-Identifier: Apache-2.0
#include "runnel/session.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/hidden_pool.h"
#include "runtime/model/session_impl.h"

namespace runnel {
namespace {

constexpr std::size_t kScoreChunk = 64;  // tokens whose logits are held at once by score()

// Feeds `tokens` to a session that is thrown away.
Result<std::vector<float>> embed_in(SessionImpl& reader, std::span<const TokenId> tokens,
                                    const EmbeddingOptions& options, std::stop_token stop) {
  const auto width = static_cast<std::size_t>(reader.engine().config().hidden_size);
  HiddenPool pool(width, options);
  std::vector<float> hidden;
  for (std::size_t done = 0; done < tokens.size();) {
    const std::span<const TokenId> piece =
        tokens.subspan(done, std::min(std::size_t{Engine::kHiddenTokens}, tokens.size() - done));
    hidden.resize(piece.size() * width);
    RUNNEL_CHECK_OK(reader.hidden(piece, hidden, stop));
    pool.add(hidden);
    done += piece.size();
  }
  return pool.finish();
}

}  // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const Model& Session::model() const { return *impl_->model(); }
const std::shared_ptr<const Model>& Session::shared_model() const { return impl_->model(); }
Result<std::span<const float>> Session::logits() const {
  RUNNEL_CHECK_OK(impl_->catch_up());
  return impl_->logits();
}
std::uint64_t Session::position() const { return impl_->state().position(); }
std::span<const TokenId> Session::recent_tokens() const { return impl_->recent_tokens(); }
std::string_view Session::unread_text() const { return impl_->carry().unread; }

Result<Session> Session::create(std::shared_ptr<const Model> model) try {
  if (!model) return fail(ErrorCode::invalid_argument, "session: the model is null");
  RUNNEL_TRY(std::unique_ptr<Impl> impl, Impl::create(std::move(model)));
  return Session(std::move(impl));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "session: not enough memory for its state");
}

Result<PrefillResult> Session::prefill(std::span<const TokenId> tokens, std::stop_token stop,
                                       const PrefillProgress& progress) try {
  RUNNEL_CHECK_OK(impl_->check(tokens));
  PrefillResult result;
  const auto chunk = static_cast<std::size_t>(impl_->engine().max_tokens());
  std::vector<float> after;
  while (result.consumed < tokens.size()) {
    if (stop.stop_requested()) {
      result.cancelled = true;
      return result;
    }
    // Every chunk leaves its logits, so that a session stopped between chunks can continue.
    const std::span<const TokenId> piece =
        tokens.subspan(result.consumed, std::min(chunk, tokens.size() - result.consumed));
    if (Status fed = impl_->prefill(piece, after, stop); !fed) {
      if (fed.error().code != ErrorCode::cancelled) return fed.error();
      result.cancelled = true;
      return result;
    }
    result.consumed += piece.size();
    if (progress) progress(result.consumed, tokens.size());
  }
  return result;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "prefill: not enough memory");
}

Result<std::vector<float>> Session::score(std::span<const TokenId> tokens) try {
  RUNNEL_CHECK_OK(impl_->check(tokens));
  const auto vocab = static_cast<std::size_t>(impl_->engine().config().vocab_size);
  std::vector<float> all(tokens.size() * vocab);
  for (std::size_t done = 0; done < tokens.size();) {
    const std::span<const TokenId> piece =
        tokens.subspan(done, std::min(kScoreChunk, tokens.size() - done));
    RUNNEL_CHECK_OK(
        impl_->score(piece, std::span(all).subspan(done * vocab, piece.size() * vocab)));
    done += piece.size();
  }
  return all;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "score: not enough memory for the logits of ",
              tokens.size(), " tokens");
}

Result<std::vector<float>> Session::embedding(std::span<const TokenId> tokens,
                                              const EmbeddingOptions& options,
                                              std::stop_token stop) const try {
  RUNNEL_CHECK_OK(impl_->check(tokens));
  RUNNEL_TRY(Session reader, fork());
  return embed_in(*reader.impl_, tokens, options, std::move(stop));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "embedding: not enough memory for another state");
}

Status Session::reset() { return impl_->reset(); }

Result<Snapshot> Session::snapshot() const try {
  RUNNEL_CHECK_OK(impl_->check({}));
  RUNNEL_CHECK_OK(impl_->catch_up());
  auto data = std::make_shared<SnapshotData>();
  data->model_fingerprint = impl_->engine().fingerprint();
  const WindowChoice window = impl_->engine().window();
  if (window.chosen()) data->window_slots = window.slots;
  data->backend = impl_->engine().device().backend;
  RUNNEL_CHECK_OK(impl_->copy_to(*data));
  return make_snapshot(std::move(data));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "snapshot: not enough memory");
}

Status Session::restore(const Snapshot& snapshot) try {
  return impl_->restore(data_of(snapshot));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "restore: not enough memory");
}

Result<Session> Session::fork() const try {
  RUNNEL_CHECK_OK(impl_->check({}));
  RUNNEL_CHECK_OK(impl_->catch_up());
  RUNNEL_TRY(std::unique_ptr<Impl> copy, impl_->fork());
  return Session(std::move(copy));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "fork: not enough memory for another state");
}

}  // namespace runnel
