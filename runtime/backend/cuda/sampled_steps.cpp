// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/sampled_steps.h"

#include <chrono>
#include <thread>

#include "runtime/base/try.h"

namespace runnel::cuda {
namespace {

template <class T>
Status upload(const DeviceArray<T>& to, std::span<const T> from, cudaStream_t stream) {
  if (from.empty()) return {};
  return check(
      cudaMemcpyAsync(to.get(), from.data(), from.size_bytes(), cudaMemcpyHostToDevice, stream),
      "prepare to draw tokens");
}

}  // namespace

Result<SampleBuffers> SampleBuffers::create(std::int32_t vocab) {
  const auto n = static_cast<std::size_t>(vocab);
  SampleBuffers b;
  RUNNEL_TRY(b.bias_ids, device_array<std::int32_t>(n, "biases"));
  RUNNEL_TRY(b.bias_values, device_array<float>(n, "biases"));
  RUNNEL_TRY(b.recent,
             device_array<std::int32_t>(SamplingOptions::kMaxPenaltyWindow, "recent tokens"));
  RUNNEL_TRY(b.recent_at, device_array<std::int32_t>(1, "recent tokens"));
  RUNNEL_TRY(b.counts, device_array<std::int32_t>(n, "counts of tokens"));
  RUNNEL_TRY(b.adjusted, device_array<float>(n, "logits with penalties"));
  RUNNEL_TRY(b.weights, device_array<std::uint32_t>(n, "weights of tokens"));
  RUNNEL_TRY(b.drawn, pinned_array<std::uint64_t>(kDrawnPlaces, "drawn tokens"));
  return b;
}

Result<std::unique_ptr<CudaSteps>> CudaSteps::create(StepHost& host,
                                                     std::shared_ptr<ModelOnDevice> model,
                                                     CudaState& state,
                                                     std::span<const TokenId> recent,
                                                     const SamplingOptions& sampling) {
  if (recent.empty()) return fail(ErrorCode::invalid_argument, "steps: no token to begin with");
  const DeviceScope scope(model->device.index);
  RUNNEL_CHECK_OK(scope.status());
  const std::int32_t vocab = model->config.vocab_size;
  const SampleSetup setup = make_sample_setup(sampling, vocab, recent);
  const cudaStream_t stream = model->stream.get();
  std::unique_ptr<CudaSteps> steps(new CudaSteps(host, std::move(model), state));
  CudaSteps& s = *steps;
  if (host.spare.empty()) {
    RUNNEL_TRY(s.b_, SampleBuffers::create(vocab));
  } else {
    s.b_ = std::move(host.spare.back());
    host.spare.pop_back();
  }
  s.first_ = recent.back();
  using Ids = std::span<const std::int32_t>;
  RUNNEL_CHECK_OK(upload(s.b_.bias_ids, Ids(setup.bias_ids), stream));
  RUNNEL_CHECK_OK(upload(s.b_.bias_values, std::span<const float>(setup.bias_values), stream));
  RUNNEL_CHECK_OK(upload(s.b_.recent, Ids(setup.recent), stream));
  RUNNEL_CHECK_OK(upload(s.b_.recent_at, Ids(&setup.recent_at, 1), stream));
  RUNNEL_CHECK_OK(upload(s.b_.counts, Ids(setup.counts), stream));
  for (std::uint32_t i = 0; i < kDrawnPlaces; ++i) s.place(i) = 0;
  RUNNEL_CHECK_OK(check(cudaStreamSynchronize(stream), "prepare to draw tokens"));
  s.sample_ = setup.sample;
  s.sample_.bias_ids = s.b_.bias_ids.get();
  s.sample_.bias_values = s.b_.bias_values.get();
  s.sample_.recent = s.b_.recent.get();
  s.sample_.recent_at = s.b_.recent_at.get();
  s.sample_.counts = s.b_.counts.get();
  s.sample_.adjusted = s.b_.adjusted.get();
  s.sample_.weights = s.b_.weights.get();
  const PlanBuffers& b = host.buffers();
  s.sample_.logits = b.logits.get();
  s.sample_.token = b.tokens.get();
  s.sample_.segment = b.segments.get();
  return steps;
}

CudaSteps::~CudaSteps() {
  const DeviceScope scope(model_->device.index);
  // What is queued writes to memory that is freed now.
  static_cast<void>(cudaStreamSynchronize(model_->stream.get()));
  if (host_.active == this) {
    host_.active = nullptr;
    static_cast<void>(host_.finished(failures(queued_)));
  }
  if (b_.drawn.get() != nullptr) host_.spare.push_back(std::move(b_));
}

Status CudaSteps::give_way() {
  host_.active = nullptr;
  logits_.resize(static_cast<std::size_t>(model_->config.vocab_size));
  RUNNEL_CHECK_OK(host_.wait_for_logits(logits_.data()));
  gave_way_ = host_.finished(failures(queued_));
  return {};
}

Status CudaSteps::take_over() {
  if (host_.active == this) return {};
  if (host_.active != nullptr) RUNNEL_CHECK_OK(host_.active->give_way());
  // After give_way() nothing is queued, so the last token is known.
  const auto last = static_cast<std::uint32_t>(place(queued_));
  const TokenId token = queued_ == 0 ? first_ : last == kNoToken ? 0 : static_cast<TokenId>(last);
  RUNNEL_CHECK_OK(host_.put(token, {.state_in = state_.data(),
                                    .state_out = state_.data(),
                                    .position = state_.position(),
                                    .first = 0,
                                    .count = 1}));
  host_.active = this;
  return {};
}

Status CudaSteps::queue() {
  const DeviceScope scope(model_->device.index);
  RUNNEL_CHECK_OK(scope.status());
  if (queued_ - taken_ >= kDrawnPlaces - 1) {
    return fail(ErrorCode::invalid_argument, "steps: ", queued_ - taken_,
                " tokens were queued and not asked for");
  }
  RUNNEL_CHECK_OK(take_over());
  const Launch launch = model_->launch();
  const std::uint32_t ticket = queued_ + 1;
  failures(ticket) = host_.failures();
  RUNNEL_CHECK_OK(host_.launch_step(launch));
  sample_.ticket = ticket;
  sample_.drawn = b_.drawn.get() + ticket % kDrawnPlaces;
  RUNNEL_CHECK_OK(check(sample(launch.stream, sample_), "draw a token"));
  state_.advance(1);
  queued_ = ticket;
  return {};
}

Result<TokenId> CudaSteps::drawn() {
  if (taken_ == queued_) return fail(ErrorCode::invalid_argument, "steps: nothing is queued");
  const std::uint32_t ticket = ++taken_;
  const DeviceScope scope(model_->device.index);
  RUNNEL_CHECK_OK(scope.status());
  // The next pass is queued already: who is told late loses nothing, so do not burn a core.
  constexpr unsigned kSpins = 400, kSleepsBetweenLooks = 50;
  const auto here = [&] { return place(ticket) >> 32 == ticket; };
  for (unsigned asked = 0; !here(); ++asked) {
    if (asked < kSpins) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (asked % kSleepsBetweenLooks != 0) continue;
    const cudaError_t state = cudaStreamQuery(model_->stream.get());
    if (state == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      continue;
    }
    RUNNEL_CHECK_OK(check(state, "draw a token"));
    if (!here()) return fail(ErrorCode::device, "cuda: a pass came to its end without a token");
  }
  if (host_.stuck(failures(ticket))) {
    return fail(ErrorCode::device, "cuda: a token did not come to its end: blocks waited too long");
  }
  const auto token = static_cast<std::uint32_t>(place(ticket));
  if (token == kNoToken) {
    return fail(ErrorCode::invalid_argument, "no token can be chosen: all ",
                model_->config.vocab_size, " logits are -inf or not a number");
  }
  return static_cast<TokenId>(token);
}

Status CudaSteps::logits(std::span<float> out) {
  if (out.size() != static_cast<std::size_t>(model_->config.vocab_size)) {
    return fail(ErrorCode::invalid_argument, "steps: buffer has ", out.size(), " floats, expected ",
                model_->config.vocab_size);
  }
  const DeviceScope scope(model_->device.index);
  RUNNEL_CHECK_OK(scope.status());
  if (host_.active != this) {
    RUNNEL_CHECK_OK(gave_way_);
    std::copy(logits_.begin(), logits_.end(), out.begin());
    return {};
  }
  RUNNEL_CHECK_OK(host_.wait_for_logits(out.data()));
  return host_.finished(failures(queued_));
}

}  // namespace runnel::cuda
