// SPDX-License-Identifier: Apache-2.0
#include "runnel/session.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/session_impl.h"

namespace runnel {
namespace {

constexpr std::size_t kScoreChunk = 64;  // tokens whose logits are held at once by score()

}  // namespace

Status Session::Impl::replace_lost_state() {
  if (generation == engine().generation()) return {};
  std::uint64_t of = 0;
  RUNNEL_TRY(std::unique_ptr<RecurrentState> fresh, engine().create_state(&of));
  stop_drawing();
  state = std::move(fresh);
  generation = of;
  return {};
}

Status Session::Impl::check(std::span<const TokenId> tokens) const {
  if (lost()) {
    return fail(
        ErrorCode::device,
        "session: its device failed and its memory is lost; restore a snapshot or reset it");
  }
  const std::int32_t vocab = engine().config().vocab_size;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab) {
      return fail(ErrorCode::invalid_argument, "token ", i, ": is ", tokens[i],
                  ", expected an id in [0, ", vocab, ")");
    }
  }
  return {};
}

Status Session::Impl::feed(std::span<const TokenId> tokens, LogitsWanted wanted,
                           std::span<float> out, std::stop_token stop, Origin origin) {
  stop_drawing();
  const PlanItem item{.state = state.get(), .tokens = tokens, .wanted = wanted, .logits = out};
  Status status = engine().run(std::span(&item, 1), std::move(stop), generation);
  if (!status) {
    broken = status.error().code == ErrorCode::device;
    return status;
  }
  consumed(tokens, origin);
  return {};
}

Status Session::Impl::step(TokenId token) {
  RUNNEL_CHECK_OK(check(std::span(&token, 1)));
  logits.resize(static_cast<std::size_t>(engine().config().vocab_size));
  return feed(std::span(&token, 1), LogitsWanted::last, logits, {}, Origin::generated);
}

void Session::Impl::stop_drawing() {
  steps.reset();
  logits_behind = false;
}

Status Session::Impl::catch_up() {
  if (!logits_behind) return {};
  logits_behind = false;
  logits.resize(static_cast<std::size_t>(engine().config().vocab_size));
  Status status = steps->logits(logits);
  broken = broken || !status;
  return status;
}

void Session::Impl::consumed(std::span<const TokenId> tokens, Origin origin) {
  for (TokenId token : tokens) history_hash = extend_history(history_hash, token);
  recent.insert(recent.end(), tokens.begin(), tokens.end());
  generated = origin == Origin::generated ? generated + tokens.size() : 0;
  if (recent.size() > 2 * kHistoryWindow) {  // trimmed rarely, so that a token costs O(1)
    recent.erase(recent.begin(), recent.end() - static_cast<std::ptrdiff_t>(kHistoryWindow));
  }
  generated = std::min(generated, recent.size());
}

std::span<const TokenId> Session::Impl::generated_tokens() const {
  return std::span(recent).last(std::min({generated, recent.size(), kHistoryWindow}));
}

std::unique_ptr<Session::Impl> Session::Impl::copy_without_state() const {
  auto copy = std::make_unique<Impl>();
  copy->model = model;
  copy->logits = logits;
  copy->recent.reserve(2 * kHistoryWindow + 1);
  copy->recent = recent;
  copy->generated = generated;
  copy->history_hash = history_hash;
  copy->utf8_carry = utf8_carry;
  copy->stop_carry = stop_carry;
  copy->sampler = sampler;
  return copy;
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session::Impl& Session::impl() { return *impl_; }
const Session::Impl& Session::impl() const { return *impl_; }
const Model& Session::model() const { return *impl_->model; }
const std::shared_ptr<const Model>& Session::shared_model() const { return impl_->model; }
std::span<const float> Session::logits() const {
  static_cast<void>(impl_->catch_up());  // an error here also ends the generation
  return impl_->logits;
}
std::uint64_t Session::position() const { return impl_->state->position(); }

std::span<const TokenId> Session::recent_tokens() const {
  const std::span<const TokenId> all(impl_->recent);
  return all.last(std::min(all.size(), kHistoryWindow));
}

Result<Session> Session::create(std::shared_ptr<const Model> model) try {
  if (!model) return fail(ErrorCode::invalid_argument, "session: the model is null");
  auto impl = std::make_unique<Impl>();
  RUNNEL_TRY(impl->state, model->engine().create_state(&impl->generation));
  impl->model = std::move(model);
  impl->recent.reserve(2 * kHistoryWindow + 1);
  return Session(std::move(impl));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "session: not enough memory for its state");
}

Result<PrefillResult> Session::prefill(std::span<const TokenId> tokens, std::stop_token stop,
                                       const PrefillProgress& progress) try {
  RUNNEL_CHECK_OK(impl_->check(tokens));
  PrefillResult result;
  const std::size_t chunk = static_cast<std::size_t>(impl_->engine().max_tokens());
  std::vector<float> after(
      tokens.empty() ? 0 : static_cast<std::size_t>(impl_->engine().config().vocab_size));
  while (result.consumed < tokens.size()) {
    if (stop.stop_requested()) {
      result.cancelled = true;
      return result;
    }
    // Every chunk leaves its logits, so that a session stopped between chunks can continue.
    const std::span<const TokenId> piece =
        tokens.subspan(result.consumed, std::min(chunk, tokens.size() - result.consumed));
    if (Status fed = impl_->feed(piece, LogitsWanted::last, after, stop, Origin::prompt); !fed) {
      if (fed.error().code != ErrorCode::cancelled) return fed.error();
      result.cancelled = true;
      return result;
    }
    impl_->logits = after;
    impl_->utf8_carry.clear();
    impl_->stop_carry.clear();
    result.consumed += piece.size();
    if (progress) progress(result.consumed, tokens.size());
  }
  return result;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "prefill: not enough memory");
}

Result<std::vector<float>> Session::score(std::span<const TokenId> tokens) try {
  RUNNEL_CHECK_OK(impl_->check(tokens));
  const std::size_t vocab = static_cast<std::size_t>(impl_->engine().config().vocab_size);
  std::vector<float> all(tokens.size() * vocab);
  for (std::size_t done = 0; done < tokens.size();) {
    const std::span<const TokenId> piece =
        tokens.subspan(done, std::min(kScoreChunk, tokens.size() - done));
    const std::span<float> out = std::span(all).subspan(done * vocab, piece.size() * vocab);
    RUNNEL_CHECK_OK(impl_->feed(piece, LogitsWanted::all, out, {}, Origin::prompt));
    impl_->logits.assign(out.end() - static_cast<std::ptrdiff_t>(vocab), out.end());
    done += piece.size();
    impl_->utf8_carry.clear();
    impl_->stop_carry.clear();
  }
  return all;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "score: not enough memory for the logits of ",
              tokens.size(), " tokens");
}

Status Session::reset() {
  impl_->stop_drawing();
  RUNNEL_CHECK_OK(impl_->replace_lost_state());
  RUNNEL_CHECK_OK(impl_->state->reset());
  impl_->logits.clear();
  impl_->recent.clear();
  impl_->generated = 0;
  impl_->history_hash = 0;
  impl_->utf8_carry.clear();
  impl_->stop_carry.clear();
  impl_->sampler.reset();
  impl_->broken = false;
  return {};
}

Result<Snapshot> Session::snapshot() const try {
  RUNNEL_CHECK_OK(impl_->check({}));
  RUNNEL_CHECK_OK(impl_->catch_up());
  auto data = std::make_shared<SnapshotData>();
  data->model_fingerprint = impl_->engine().fingerprint();
  data->backend = impl_->engine().device().backend;
  data->position = position();
  data->history_hash = impl_->history_hash;
  data->state.resize(impl_->engine().layout().total_floats());
  RUNNEL_CHECK_OK(impl_->state->export_to(data->state));
  data->logits = impl_->logits;
  data->recent_tokens.assign(recent_tokens().begin(), recent_tokens().end());
  data->generated_tokens = impl_->generated_tokens().size();
  data->utf8_carry = impl_->utf8_carry;
  data->stop_carry = impl_->stop_carry;
  data->has_sampler = impl_->sampler.has_value();
  if (impl_->sampler) data->sampler = *impl_->sampler;
  return Snapshot(std::move(data));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "snapshot: not enough memory");
}

Status Session::restore(const Snapshot& snapshot) try {
  const SnapshotData& data = snapshot.data();
  const Engine& engine = impl_->engine();
  if (data.model_fingerprint != engine.fingerprint()) {
    return fail(ErrorCode::mismatch, "snapshot: belongs to the model with fingerprint ", std::hex,
                data.model_fingerprint, ", this one has ", engine.fingerprint());
  }
  const std::size_t floats = engine.layout().total_floats();
  if (data.state.size() != floats) {
    return fail(ErrorCode::mismatch, "snapshot: its state has ", data.state.size(),
                " floats, expected ", floats);
  }
  const std::size_t vocab = static_cast<std::size_t>(engine.config().vocab_size);
  const std::size_t logits = data.position == 0 ? 0 : vocab;
  if (data.logits.size() != logits) {
    return fail(ErrorCode::mismatch, "snapshot: has ", data.logits.size(), " logits, expected ",
                logits);
  }
  for (TokenId token : data.recent_tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocab) {
      return fail(ErrorCode::malformed, "snapshot: recent token ", token,
                  ", expected an id in [0, ", vocab, ")");
    }
  }
  // Everything that can fail comes before the swap.
  auto next = std::make_unique<Impl>();
  next->model = impl_->model;
  next->logits = data.logits;
  const std::size_t kept = std::min(data.recent_tokens.size(), kHistoryWindow);
  next->recent.reserve(2 * kHistoryWindow + 1);
  next->recent.assign(data.recent_tokens.end() - static_cast<std::ptrdiff_t>(kept),
                      data.recent_tokens.end());
  next->generated = std::min(static_cast<std::size_t>(data.generated_tokens), kept);
  next->history_hash = data.history_hash;
  next->utf8_carry = data.utf8_carry;
  next->stop_carry = data.stop_carry;
  if (data.has_sampler) next->sampler = data.sampler;
  RUNNEL_CHECK_OK(impl_->replace_lost_state());
  RUNNEL_CHECK_OK(impl_->state->import_from(data.state, data.position));
  next->generation = impl_->generation;
  next->state = std::move(impl_->state);
  impl_ = std::move(next);
  return {};
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "restore: not enough memory");
}

Result<Session> Session::fork() const try {
  RUNNEL_CHECK_OK(impl_->check({}));
  RUNNEL_CHECK_OK(impl_->catch_up());
  std::unique_ptr<Impl> copy = impl_->copy_without_state();
  RUNNEL_TRY(copy->state, impl_->state->clone());
  copy->generation = impl_->generation;
  return Session(std::move(copy));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "fork: not enough memory for another state");
}

}  // namespace runnel
