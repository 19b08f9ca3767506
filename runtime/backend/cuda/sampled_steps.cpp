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
                                                     std::shared_ptr<ResidentModel> model,
                                                     CudaState& state,
                                                     std::span<const TokenId> recent,
                                                     const SamplingOptions& sampling) {
  RUNNEL_CHECK_OK(check_recent(recent));
  const DeviceScope scope(model->device.index);
  RUNNEL_CHECK_OK(scope.status());
  const std::int32_t vocab = model->config.vocab_size;
  const SampleSetup setup = make_sample_setup(sampling, vocab, recent);
  const cudaStream_t stream = model->stream.get();
  std::unique_ptr<CudaSteps> steps(new CudaSteps(host, std::move(model), state, recent.back()));
  CudaSteps& s = *steps;
  if (host.spare.empty()) {
    RUNNEL_TRY(s.b_, SampleBuffers::create(vocab));
  } else {
    s.b_ = std::move(host.spare.back());
    host.spare.pop_back();
  }
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
  if (leave()) static_cast<void>(check_end(queued()));
  if (b_.drawn.get() != nullptr) host_.spare.push_back(std::move(b_));
}

Status CudaSteps::launch(std::uint32_t pass, std::optional<TokenId> token) {
  const DeviceScope scope(model_->device.index);
  RUNNEL_CHECK_OK(scope.status());
  if (token) {
    RUNNEL_CHECK_OK(host_.put(*token, {.state_in = state_.data(),
                                       .state_out = state_.data(),
                                       .position = state_.position(),
                                       .first = 0,
                                       .count = 1}));
  }
  const Launch launch = model_->launch();
  failures(pass) = host_.failures();
  RUNNEL_CHECK_OK(host_.launch_step(launch));
  sample_.ticket = pass;
  sample_.drawn = b_.drawn.get() + pass % kDrawnPlaces;
  RUNNEL_CHECK_OK(check(sample(launch.stream, sample_), "draw a token"));
  state_.advance(1);
  return {};
}

Status CudaSteps::wait_for(std::uint32_t pass) {
  const DeviceScope scope(model_->device.index);
  RUNNEL_CHECK_OK(scope.status());
  // The next pass is queued already, so a token that is read late costs nothing: poll a little, then sleep.
  constexpr unsigned kSpins = 400, kSleepsPerQuery = 50;
  const auto here = [&] { return place(pass) >> 32 == pass; };
  for (unsigned polls = 0; !here(); ++polls) {
    if (polls < kSpins) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (polls % kSleepsPerQuery != 0) continue;
    const cudaError_t state = cudaStreamQuery(model_->stream.get());
    if (state == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      continue;
    }
    RUNNEL_CHECK_OK(check(state, "draw a token"));
    if (!here()) return fail(ErrorCode::device, "cuda: a pass ended without a token");
  }
  if (!host_.stuck(failures(pass))) return {};
  return fail(ErrorCode::device, "cuda: a token did not finish: blocks waited too long");
}

std::optional<TokenId> CudaSteps::token_of(std::uint32_t pass) const {
  const auto token = static_cast<std::uint32_t>(place(pass));
  return token == kNoToken ? std::nullopt : std::optional(static_cast<TokenId>(token));
}

Status CudaSteps::read_logits(std::span<float> out) {
  const DeviceScope scope(model_->device.index);
  RUNNEL_CHECK_OK(scope.status());
  return host_.wait_for_logits(out.data());
}

}  // namespace runnel::cuda
