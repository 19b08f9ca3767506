// SPDX-License-Identifier: Apache-2.0
// Steps that draw their own tokens, within their kernel or by the sampling kernel after each: the token in device memory
// for the next step and in pinned host memory for the host.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/mask.h"
#include "runtime/backend/cuda/recorder.h"
#include "runtime/backend/cuda/sample_setup.h"
#include "runtime/backend/draw_ahead.h"

namespace runnel::cuda {

/// Places for tokens that were drawn and not read yet.
inline constexpr std::uint32_t kDrawnPlaces = 8;

/// What drawing tokens needs besides a plan's buffers.
struct SampleBuffers {
  DeviceArray<std::int32_t> bias_ids, recent, recent_at, counts;  // [vocab], [window], 1, [vocab]
  DeviceArray<float> bias_values, adjusted;                       // [vocab]
  DeviceArray<std::uint32_t> weights;                             // [vocab]
  // of DRY: [kMaxPenaltyWindow], but for 1, [vocab] and a bit for each token
  DeviceArray<std::int32_t> dry_recent, dry_recent_at;
  DeviceArray<std::uint32_t> dry_lengths, dry_longest, dry_breakers;
  DeviceArray<float> dry_losses, dry_kept;
  std::optional<std::vector<std::string>> breakers;  // the texts that dry_breakers are of
  PinnedArray<std::uint64_t> drawn;                  // [kDrawnPlaces]
  // For steps with masks, else empty: a bit for each token, the pass whose mask that is, the pass whose mask was late;
  // and the logits of what may come.
  PinnedArray<std::uint32_t> masks, masks_written;  // [kDrawnPlaces, words], [kDrawnPlaces]
  PinnedArray<std::uint64_t> masks_late;            // [kDrawnPlaces]
  DeviceArray<float> masked;                        // [vocab]

  static Result<SampleBuffers> create(std::int32_t vocab);
};

/// What steps need of the plan on whose buffers they run.
class StepHost {
 public:
  virtual ~StepHost() = default;
  virtual const PlanBuffers& buffers() const = 0;
  /// The next step's token and segment, copied in; what ran on the buffers before is done.
  virtual Status put(TokenId token, const Segment& segment) = 0;
  /// `draw`: null or, if draws(), of the next token, which the step makes itself.
  virtual Status launch_step(const Launch& launch, const Sample* draw) = 0;
  virtual bool draws(const Sample& sample) const = 0;
  /// Waits for the stream; the logits of the last step.
  virtual Status wait_for_logits(float* to) = 0;
  /// How often steps of this plan or others did not finish; any thread may call it. See StepKernel.
  virtual std::uint32_t failures() const = 0;
  /// Whether a step launched at `since` failures or later did not finish. Any thread may call it.
  virtual bool stuck(std::uint32_t since) const = 0;
  /// After the stream is idle: as stuck(), as an error, and ready for other steps again.
  virtual Status finished(std::uint32_t since) = 0;

  ActiveSteps active;                // whose token, segment and logits are in the buffers
  std::vector<SampleBuffers> spare;  // of generations that have ended
};

class CudaSteps final : public DrawAhead {
 public:
  static Result<std::unique_ptr<CudaSteps>> create(StepHost& host,
                                                   std::shared_ptr<ResidentModel> model,
                                                   CudaState& state,
                                                   std::span<const TokenId> recent,
                                                   const SamplingOptions& sampling, PieceOf piece,
                                                   std::chrono::milliseconds mask_timeout);
  ~CudaSteps() override;

 private:
  CudaSteps(StepHost& host, std::shared_ptr<ResidentModel> model, CudaState& state, TokenId first,
            std::chrono::milliseconds mask_timeout)
      : DrawAhead(host.active, model->config.vocab_size, first, kDrawnPlaces, mask_timeout),
        host_(host),
        model_(std::move(model)),
        state_(state) {}

  /// What `setup` holds, to the device; and where it is there.
  Status prepare(const SampleSetup& setup);
  /// Behind prepare().
  Status prepare_masks();

  // DrawAhead
  Status launch(std::uint32_t pass, std::optional<TokenId> token) override;
  Status put_mask(std::uint32_t pass, const TokenMask& mask) override;
  Status wait_for(std::uint32_t pass) override;
  std::optional<TokenId> token_of(std::uint32_t pass) const override;
  Status read_logits(std::span<float> out) override;
  Status check_end(std::uint32_t pass) override { return host_.finished(failures(pass)); }

  std::uint32_t& failures(std::uint32_t pass) { return failures_[pass % kDrawnPlaces]; }
  volatile std::uint64_t& place(std::uint32_t pass) const {
    return b_.drawn.get()[pass % kDrawnPlaces];
  }
  volatile std::uint64_t& late(std::uint32_t pass) const {
    return b_.masks_late.get()[pass % kDrawnPlaces];
  }
  std::size_t mask_words() const { return b_.masks.size() / kDrawnPlaces; }

  StepHost& host_;
  std::shared_ptr<ResidentModel> model_;
  CudaState& state_;
  bool drawn_by_step_ = false;
  Sample sample_;
  Mask mask_;
  SampleBuffers b_;
  std::uint32_t failures_[kDrawnPlaces] = {};  // StepHost::failures() as each pass was queued
};

}  // namespace runnel::cuda
