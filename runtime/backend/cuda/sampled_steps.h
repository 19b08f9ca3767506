// SPDX-License-Identifier: Apache-2.0
// Steps that draw their own tokens: the sampling kernel after each, its token in device memory for
// the next step and in pinned host memory for whoever reads along.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/backend/cuda/recorder.h"
#include "runtime/backend/cuda/sample_setup.h"

namespace runnel::cuda {

class CudaSteps;

/// More than passes are ever queued and not asked for.
inline constexpr std::uint32_t kDrawnPlaces = 8;

/// What drawing tokens needs besides a plan's buffers.
struct SampleBuffers {
  DeviceArray<std::int32_t> bias_ids, recent, recent_at, counts;  // [vocab], [window], 1, [vocab]
  DeviceArray<float> bias_values, adjusted;                       // [vocab]
  DeviceArray<std::uint32_t> weights;                             // [vocab]
  PinnedArray<std::uint64_t> drawn;                               // [kDrawnPlaces]

  static Result<SampleBuffers> create(std::int32_t vocab);
};

/// What steps need of the plan on whose buffers they run.
class StepHost {
 public:
  virtual ~StepHost() = default;
  virtual const PlanBuffers& buffers() const = 0;
  /// The next step's token and segment, copied in; what ran on the buffers before is done.
  virtual Status put(TokenId token, const Segment& segment) = 0;
  virtual Status launch_step(const Launch& launch) = 0;
  /// Waits for the stream; the logits of the last step.
  virtual Status wait_for_logits(float* to) = 0;
  /// How often steps of this plan or others did not come to their end; any thread may ask. See StepKernel.
  virtual std::uint32_t failures() const = 0;
  /// Whether a step launched at `since` failures or later did not come to its end. Any thread may ask.
  virtual bool stuck(std::uint32_t since) const = 0;
  /// After the stream is idle: as stuck(), as an error, and ready for other steps again.
  virtual Status finished(std::uint32_t since) = 0;

  CudaSteps* active = nullptr;       // whose token, segment and logits are in the buffers
  std::vector<SampleBuffers> spare;  // of generations that are over
};

class CudaSteps final : public SampledSteps {
 public:
  static Result<std::unique_ptr<CudaSteps>> create(StepHost& host,
                                                   std::shared_ptr<ModelOnDevice> model,
                                                   CudaState& state,
                                                   std::span<const TokenId> recent,
                                                   const SamplingOptions& sampling);
  ~CudaSteps() override;

  Status queue() override;
  Result<TokenId> drawn() override;
  Status logits(std::span<float> out) override;

  /// Waits, and takes its logits out of the plan's buffers, which another use needs. That a step did not come to its
  /// end is told to whoever asks for its token or its logits, not to the other use.
  Status give_way();

 private:
  CudaSteps(StepHost& host, std::shared_ptr<ModelOnDevice> model, CudaState& state)
      : host_(host), model_(std::move(model)), state_(state) {}
  /// Makes the plan's buffers this object's.
  Status take_over();
  std::uint32_t& failures(std::uint32_t ticket) { return failures_[ticket % kDrawnPlaces]; }
  volatile std::uint64_t& place(std::uint32_t ticket) const {
    return b_.drawn.get()[ticket % kDrawnPlaces];
  }

  StepHost& host_;
  std::shared_ptr<ModelOnDevice> model_;
  CudaState& state_;
  Sample sample_;
  SampleBuffers b_;
  TokenId first_ = 0;
  std::uint32_t queued_ = 0, taken_ = 0;       // passes; the ticket of a pass is its number from 1
  std::uint32_t failures_[kDrawnPlaces] = {};  // StepHost::failures() as each pass was queued
  std::vector<float> logits_;                  // after give_way(), and
  Status gave_way_;                            // whether they are the last pass's
};

}  // namespace runnel::cuda
