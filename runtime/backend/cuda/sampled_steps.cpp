// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/sampled_steps.h"

#include <atomic>
#include <chrono>
#include <cstring>
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
  constexpr std::size_t kRange = SamplingOptions::kMaxPenaltyWindow;
  RUNNEL_TRY(b.dry_recent, device_array<std::int32_t>(kRange, "tokens that DRY sees"));
  RUNNEL_TRY(b.dry_recent_at, device_array<std::int32_t>(1, "tokens that DRY sees"));
  RUNNEL_TRY(b.dry_lengths, device_array<std::uint32_t>(kRange, "repetitions"));
  RUNNEL_TRY(b.dry_longest, device_array<std::uint32_t>(n, "repetitions of tokens"));
  RUNNEL_TRY(b.dry_breakers, device_array<std::uint32_t>((n + 31) / 32, "breakers of DRY"));
  RUNNEL_TRY(b.dry_losses, device_array<float>(kRange, "losses by DRY"));
  RUNNEL_TRY(b.dry_kept, device_array<float>(kRange, "logits before DRY"));
  RUNNEL_CHECK_OK(check(cudaMemset(b.dry_longest.get(), 0, n * sizeof(std::uint32_t)),
                        "prepare to draw tokens"));
  RUNNEL_TRY(b.drawn, pinned_array<std::uint64_t>(kDrawnPlaces, "drawn tokens"));
  return b;
}

Result<std::unique_ptr<CudaSteps>> CudaSteps::create(StepHost& host,
                                                     std::shared_ptr<ResidentModel> model,
                                                     CudaState& state,
                                                     std::span<const TokenId> recent,
                                                     const SamplingOptions& sampling, PieceOf piece,
                                                     std::chrono::milliseconds mask_timeout) {
  RUNNEL_CHECK_OK(check_recent(recent));
  const DeviceScope scope(model->device.index);
  RUNNEL_CHECK_OK(scope.status());
  const std::int32_t vocab = model->config.vocab_size;
  std::unique_ptr<CudaSteps> steps(
      new CudaSteps(host, std::move(model), state, recent.back(), mask_timeout));
  CudaSteps& s = *steps;
  if (host.spare.empty()) {
    RUNNEL_TRY(s.b_, SampleBuffers::create(vocab));
  } else {
    s.b_ = std::move(host.spare.back());
    host.spare.pop_back();
  }
  // Looking at the text of every token takes milliseconds: once for many generations.
  const bool known = s.b_.breakers == sampling.dry_breakers;
  const SampleSetup setup =
      make_sample_setup(sampling, vocab, recent, {.piece = std::move(piece), .known = known});
  if (!setup.breakers.empty()) s.b_.breakers.reset();
  RUNNEL_CHECK_OK(s.prepare(setup));
  RUNNEL_CHECK_OK(s.prepare_masks());
  s.drawn_by_step_ = !s.masked() && host.draws(s.sample_);
  if (!setup.breakers.empty()) s.b_.breakers = sampling.dry_breakers;
  return steps;
}

Status CudaSteps::prepare(const SampleSetup& setup) {
  const cudaStream_t stream = model_->stream.get();
  using Ids = std::span<const std::int32_t>;
  using Words = std::span<const std::uint32_t>;
  using Floats = std::span<const float>;
  RUNNEL_CHECK_OK(upload(b_.bias_ids, Ids(setup.bias_ids), stream));
  RUNNEL_CHECK_OK(upload(b_.bias_values, Floats(setup.bias_values), stream));
  RUNNEL_CHECK_OK(upload(b_.recent, Ids(setup.recent), stream));
  RUNNEL_CHECK_OK(upload(b_.recent_at, Ids(&setup.recent_at, 1), stream));
  RUNNEL_CHECK_OK(upload(b_.counts, Ids(setup.counts), stream));
  RUNNEL_CHECK_OK(upload(b_.dry_recent, Ids(setup.dry_recent), stream));
  RUNNEL_CHECK_OK(upload(b_.dry_recent_at, Ids(&setup.dry_recent_at, 1), stream));
  RUNNEL_CHECK_OK(upload(b_.dry_lengths, Words(setup.dry_lengths), stream));
  RUNNEL_CHECK_OK(upload(b_.dry_losses, Floats(setup.dry_losses), stream));
  RUNNEL_CHECK_OK(upload(b_.dry_breakers, Words(setup.breakers), stream));
  for (std::uint32_t i = 0; i < kDrawnPlaces; ++i) place(i) = 0;
  RUNNEL_CHECK_OK(check(cudaStreamSynchronize(stream), "prepare to draw tokens"));
  sample_ = setup.sample;
  sample_.bias_ids = b_.bias_ids.get();
  sample_.bias_values = b_.bias_values.get();
  sample_.recent = b_.recent.get();
  sample_.recent_at = b_.recent_at.get();
  sample_.counts = b_.counts.get();
  sample_.dry_losses = b_.dry_losses.get();
  sample_.dry_breakers = b_.dry_breakers.get();
  sample_.dry_recent = b_.dry_recent.get();
  sample_.dry_recent_at = b_.dry_recent_at.get();
  sample_.dry_lengths = b_.dry_lengths.get();
  sample_.dry_longest = b_.dry_longest.get();
  sample_.dry_kept = b_.dry_kept.get();
  sample_.adjusted = b_.adjusted.get();
  sample_.weights = b_.weights.get();
  const PlanBuffers& b = host_.buffers();
  sample_.logits = b.logits.get();
  sample_.next.token = b.tokens.get();
  sample_.next.segment = b.segments.get();
  return {};
}

Status CudaSteps::prepare_masks() {
  if (!masked()) return {};
  RUNNEL_CHECK_OK(check(load_sampler(), "prepare to draw tokens"));
  if (b_.masks.size() == 0) {
    const auto n = static_cast<std::size_t>(vocab());
    const std::size_t words = TokenMask(n).words().size();
    RUNNEL_TRY(b_.masked, device_array<float>(n, "masked logits"));
    RUNNEL_TRY(b_.masks, pinned_array<std::uint32_t>(kDrawnPlaces * words, "masks of tokens"));
    RUNNEL_TRY(b_.masks_written, pinned_array<std::uint32_t>(kDrawnPlaces, "masks of tokens"));
    RUNNEL_TRY(b_.masks_late, pinned_array<std::uint64_t>(kDrawnPlaces, "masks of tokens"));
  }
  std::memset(b_.masks_written.get(), 0, b_.masks_written.bytes());
  std::memset(b_.masks_late.get(), 0, b_.masks_late.bytes());
  mask_ = {.logits = host_.buffers().logits.get(),
           .masked = b_.masked.get(),
           .vocab = vocab(),
           .timeout = static_cast<std::uint64_t>(std::chrono::nanoseconds(mask_timeout()).count())};
  sample_.logits = b_.masked.get();
  return {};
}

CudaSteps::~CudaSteps() {
  forgo_mask();
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
  sample_.next.ticket = pass;
  sample_.next.drawn = b_.drawn.get() + pass % kDrawnPlaces;
  RUNNEL_CHECK_OK(host_.launch_step(launch, drawn_by_step_ ? &sample_ : nullptr));
  if (masked()) {
    const std::size_t place = pass % kDrawnPlaces;
    mask_.words = b_.masks.get() + place * mask_words();
    mask_.written = b_.masks_written.get() + place;
    mask_.late = b_.masks_late.get() + place;
    mask_.ticket = pass;
    RUNNEL_CHECK_OK(check(mask_logits(launch.stream, mask_), "wait for a mask"));
  }
  if (!drawn_by_step_) RUNNEL_CHECK_OK(check(sample(launch.stream, sample_), "draw a token"));
  state_.advance(1);
  return {};
}

/// Calls nothing of CUDA's, which may wait for the draw that waits for this.
Status CudaSteps::put_mask(std::uint32_t pass, const TokenMask& mask) {
  const std::span<const std::uint32_t> words = mask.words();
  const std::size_t place = pass % kDrawnPlaces;
  std::memcpy(b_.masks.get() + place * mask_words(), words.data(), words.size_bytes());
  std::atomic_ref(b_.masks_written.get()[place]).store(pass, std::memory_order_release);
  return {};
}

Status CudaSteps::wait_for(std::uint32_t pass) {
  // The next pass is queued already, so a token that is read late costs nothing: poll a little, then sleep.
  constexpr unsigned kSpins = 400;
  // Where the next draw waits for a mask, whatever is asked of CUDA may wait for that draw: only of a device that is stuck.
  const unsigned sleeps_per_query = masked() ? 50'000 : 50;
  const auto here = [&] { return place(pass) >> 32 == pass; };
  for (unsigned polls = 0; !here(); ++polls) {
    if (polls < kSpins) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (polls % sleeps_per_query != 0) continue;
    const DeviceScope scope(model_->device.index);
    RUNNEL_CHECK_OK(scope.status());
    const cudaError_t state = cudaStreamQuery(model_->stream.get());
    if (state == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      continue;
    }
    RUNNEL_CHECK_OK(check(state, "draw a token"));
    if (!here()) return fail(ErrorCode::device, "cuda: a pass ended without a token");
  }
  if (masked() && late(pass) == pass) return mask_is_late();
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
