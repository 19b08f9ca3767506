// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/session_impl.h"

#include <algorithm>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {

Result<std::unique_ptr<Session::Impl>> Session::Impl::create(std::shared_ptr<const Model> model) {
  std::unique_ptr<Impl> impl(new Impl(std::move(model), with_room({})));
  RUNNEL_TRY(impl->state_, impl->engine().create_state(&impl->generation_));
  return impl;
}

Session::Impl::Memory Session::Impl::with_room(Memory memory) {
  memory.recent.reserve(2 * kHistoryWindow + 1);
  return memory;
}

std::span<const TokenId> Session::Impl::recent_tokens() const {
  const std::span<const TokenId> all(memory_.recent);
  return all.last(std::min(all.size(), kHistoryWindow));
}

std::span<const TokenId> Session::Impl::generated_tokens() const {
  const std::span<const TokenId> all(memory_.recent);
  return all.last(std::min({memory_.generated, all.size(), kHistoryWindow}));
}

Status Session::Impl::replace_lost_state() {
  if (generation_ == engine().generation()) return {};
  std::uint64_t of = 0;
  RUNNEL_TRY(std::unique_ptr<RecurrentState> fresh, engine().create_state(&of));
  stop_drawing();
  state_ = std::move(fresh);
  generation_ = of;
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

// ---- feeding ----

void Session::Impl::consumed(std::span<const TokenId> tokens, bool generated) {
  for (TokenId token : tokens) memory_.history_hash = extend_history(memory_.history_hash, token);
  std::vector<TokenId>& recent = memory_.recent;
  recent.insert(recent.end(), tokens.begin(), tokens.end());
  if (recent.size() > 2 * kHistoryWindow) {  // trimmed rarely, so that a token costs O(1)
    recent.erase(recent.begin(), recent.end() - static_cast<std::ptrdiff_t>(kHistoryWindow));
  }
  memory_.generated = generated ? std::min(memory_.generated + tokens.size(), recent.size()) : 0;
}

void Session::Impl::end_pass(const Status& ran, std::span<const TokenId> tokens, bool generated) {
  if (!ran) {
    broken_ = broken_ || ran.error().code == ErrorCode::device;
    if (state_->position() == 0) memory_.logits.clear();  // begin_pass() made room
    return;
  }
  consumed(tokens, generated);
  if (!generated) memory_.carry = {};
}

Status Session::Impl::feed(const PlanItem& item, bool generated, std::stop_token stop) {
  stop_drawing();
  Status ran = engine().run(std::span(&item, 1), std::move(stop), generation_);
  end_pass(ran, item.tokens, generated);
  return ran;
}

Status Session::Impl::prefill(std::span<const TokenId> tokens, std::vector<float>& after,
                              std::stop_token stop) {
  after.resize(vocab());
  RUNNEL_CHECK_OK(
      feed({.state = state_.get(), .tokens = tokens, .wanted = LogitsWanted::last, .logits = after},
           false, std::move(stop)));
  memory_.logits = after;
  return {};
}

Status Session::Impl::score(std::span<const TokenId> tokens, std::span<float> out) {
  RUNNEL_CHECK_OK(
      feed({.state = state_.get(), .tokens = tokens, .wanted = LogitsWanted::all, .logits = out},
           false, {}));
  const std::span<float> last = out.last(vocab());
  memory_.logits.assign(last.begin(), last.end());
  return {};
}

Status Session::Impl::hidden(std::span<const TokenId> tokens, std::span<float> out,
                             std::stop_token stop) {
  stop_drawing();
  Status ran = engine().run_hidden(*state_, tokens, out, std::move(stop), generation_);
  end_pass(ran, tokens, false);
  memory_.logits.clear();
  return ran;
}

Status Session::Impl::step(std::span<const TokenId> tokens) {
  RUNNEL_CHECK_OK(check(tokens));
  return feed(begin_pass(tokens), true, {});
}

PlanItem Session::Impl::begin_pass(std::span<const TokenId> tokens) {
  stop_drawing();
  memory_.logits.resize(vocab());
  return {.state = state_.get(),
          .tokens = tokens,
          .wanted = LogitsWanted::last,
          .logits = memory_.logits};
}

PlanItem Session::Impl::begin_pass(std::span<const TokenId> tokens, std::span<float> all) {
  stop_drawing();
  memory_.logits.clear();
  return {.state = state_.get(), .tokens = tokens, .wanted = LogitsWanted::all, .logits = all};
}

// ---- drawing ahead ----

void Session::Impl::stop_drawing() {
  steps_.reset();
  first_drawn_.reset();
  logits_behind_ = false;
}

Result<bool> Session::Impl::draw_ahead(TokenId first, const SamplingOptions& sampling,
                                       PieceOf piece, bool masked) {
  RUNNEL_CHECK_OK(check(std::span(&first, 1)));
  stop_drawing();
  const std::span<const TokenId> generated = generated_tokens();
  std::vector<TokenId> recent(generated.begin(), generated.end());
  recent.push_back(first);
  RUNNEL_TRY(steps_, engine().sampled_steps(*state_, recent, sampling, std::move(piece), masked,
                                            generation_));
  if (steps_ != nullptr) first_drawn_ = first;
  return steps_ != nullptr;
}

Status Session::Impl::queue_step() {
  if (steps_ == nullptr) {
    return fail(ErrorCode::invalid_argument,
                "generate: the session was fed, restored or reset while it generates");
  }
  if (Status queued = steps_->queue(); !queued) {
    broken_ = true;
    return queued;
  }
  logits_behind_ = true;
  if (first_drawn_) consumed(std::span(&*first_drawn_, 1), true);
  first_drawn_.reset();
  return {};
}

Status Session::Impl::mask_step(const TokenMask& mask) {
  if (steps_ == nullptr) {
    return fail(ErrorCode::invalid_argument,
                "generate: the session was fed, restored or reset while it generates");
  }
  return steps_->mask(mask);
}

Result<TokenId> Session::Impl::drawn_token() {
  Result<TokenId> token = steps_->drawn();
  if (token) {
    consumed(std::span(&*token, 1), true);
  } else {
    broken_ = true;  // the device has gone on with another token
  }
  return token;
}

Status Session::Impl::settle() {
  Status status = broken_ ? Status() : catch_up();
  stop_drawing();
  return status;
}

Status Session::Impl::catch_up() {
  if (!logits_behind_) return {};
  logits_behind_ = false;
  memory_.logits.resize(vocab());
  Status status = steps_->logits(memory_.logits);
  broken_ = broken_ || !status;
  return status;
}

void Session::Impl::keep_generation(SamplerState sampler, GenerationCarry carry) {
  memory_.sampler = std::move(sampler);
  memory_.carry = std::move(carry);
}

// ---- the whole session ----

Status Session::Impl::reset() {
  stop_drawing();
  RUNNEL_CHECK_OK(replace_lost_state());
  RUNNEL_CHECK_OK(state_->reset());
  memory_.logits.clear();
  memory_.recent.clear();
  memory_.generated = 0;
  memory_.history_hash = 0;
  memory_.carry = {};
  memory_.sampler.reset();
  broken_ = false;
  return {};
}

Status Session::Impl::copy_to(SnapshotData& data) const {
  data.position = state_->position();
  data.history_hash = memory_.history_hash;
  data.state.resize(engine().layout().total_floats());
  RUNNEL_CHECK_OK(state_->export_to(data.state));
  data.logits = memory_.logits;
  data.recent_tokens.assign(recent_tokens().begin(), recent_tokens().end());
  data.generated_tokens = generated_tokens().size();
  data.utf8_carry = memory_.carry.utf8;
  data.stop_carry = memory_.carry.stop;
  data.unread_carry = memory_.carry.unread;
  data.mirostat_mu = memory_.carry.mirostat_mu;
  data.constraint = memory_.carry.constraint;
  data.has_sampler = memory_.sampler.has_value();
  if (memory_.sampler) data.sampler = *memory_.sampler;
  return {};
}

Status check_fits(const Engine& engine, const SnapshotData& data) {
  if (data.model_fingerprint != engine.fingerprint()) {
    const WindowChoice here = engine.window();
    const std::int32_t there = data.window_slots.value_or(here.file_slots);
    if (data.model_fingerprint == here.fingerprint(there)) {
      return fail(ErrorCode::mismatch, "snapshot: was taken with a window of ", there,
                  " slots, this model was loaded with one of ", here.slots,
                  ", expected the same window");
    }
    return fail(ErrorCode::mismatch, "snapshot: belongs to the model with fingerprint ",
                hexadecimal(data.model_fingerprint), ", this one has ",
                hexadecimal(engine.fingerprint()));
  }
  const std::size_t floats = engine.layout().total_floats();
  if (data.state.size() != floats) {
    return fail(ErrorCode::mismatch, "snapshot: its state has ", data.state.size(),
                " floats, expected ", floats);
  }
  const auto vocab = static_cast<std::size_t>(engine.config().vocab_size);
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
  return {};
}

Status Session::Impl::restore(const SnapshotData& data) {
  RUNNEL_CHECK_OK(check_fits(engine(), data));
  // Everything that can fail comes before the swap.
  Memory next = with_room({});
  memory_.logits.reserve(data.logits.size());
  const std::size_t kept = std::min(data.recent_tokens.size(), kHistoryWindow);
  next.recent.assign(data.recent_tokens.end() - static_cast<std::ptrdiff_t>(kept),
                     data.recent_tokens.end());
  next.generated = std::min(static_cast<std::size_t>(data.generated_tokens), kept);
  next.history_hash = data.history_hash;
  next.carry = {.utf8 = data.utf8_carry,
                .stop = data.stop_carry,
                .unread = data.unread_carry,
                .mirostat_mu = data.mirostat_mu,
                .constraint = data.constraint};
  if (data.has_sampler) next.sampler = data.sampler;
  RUNNEL_CHECK_OK(replace_lost_state());
  RUNNEL_CHECK_OK(state_->import_from(data.state, data.position));
  stop_drawing();
  // The logits stay where callers see them.
  memory_.logits.assign(data.logits.begin(), data.logits.end());
  next.logits.swap(memory_.logits);
  memory_ = std::move(next);
  broken_ = false;
  return {};
}

Result<std::unique_ptr<Session::Impl>> Session::Impl::fork() const {
  std::unique_ptr<Impl> copy(new Impl(model_, with_room(memory_)));
  RUNNEL_TRY(copy->state_, state_->clone());
  copy->generation_ = generation_;
  return copy;
}

}  // namespace runnel
