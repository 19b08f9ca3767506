// SPDX-License-Identifier: Apache-2.0
// Steps that draw their own tokens. The device runs the usual chain of samplers and goes from step to step by itself; of
// other chains it finds the tokens that top-k leaves and the host's sampler draws among them.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend/draw_ahead.h"
#include "runtime/backend/vulkan/plan.h"
#include "runtime/sampling/sampler.h"

namespace runnel::vulkan {

/// How tokens are drawn: the likeliest; by draw.comp; by the host among candidates.
enum class Drawing { greedy, chain, host };
inline constexpr std::size_t kDrawings = 3;

/// What a chain of steps needs besides a plan's buffers. Used by one chain after the other.
struct StepSet {
  Drawing drawing = Drawing::greedy;
  Buffer found;    // the likeliest
  Buffer drawn;    // on the device: kDrawn… words
  Buffer bins;     // where tokens are collected, for the host or draw.comp
  Buffer wanted;   // of those; written by the host
  Buffer spreads;  // of draw.comp: sums of logits, and what it keeps from token to token
  Buffer past;
  bool has_breakers = false;          // whether `wanted` has DRY's
  std::vector<std::string> breakers;  // the texts that they are of
  Buffer host;  // what the host reads: [kStepPlaces][kDrawnWords], or found and kDrawnWords
  OwnedDescriptorPool descriptors;
  OwnedCommandPool pool;
  /// The head draws and leaves the next step's embedding: `end` has it, too, if the step has not.
  bool draws = false;
  OwnedSemaphore masks;          // raised by one for each mask
  std::uint64_t mask_value = 0;  // of the last pass that waits or has waited for one
  /// Copies parameters, unless steps read them where they are; the same and the token that the step
  /// before drew; draws. Null: nothing to do.
  std::array<VkCommandBuffer, kStepPlaces> begin{}, chained{}, end{};

  /// Where a step that makes the logits itself writes the kDrawn… words of the token.
  Range drawn_at(std::uint32_t place) const;

  static Result<StepSet> create(ResidentModel& model, const PlanBuffers& buffers, Drawing drawing);

 private:
  /// What the commands of `end` run, with their buffers.
  Result<std::vector<Dispatch>> dispatches(ResidentModel& model, const PlanBuffers& buffers,
                                           const StepHead* head);
  /// Records `begin`, `chained` and `end`.
  Status record_place(ResidentModel& model, const PlanBuffers& buffers, std::uint32_t place,
                      std::span<Dispatch> dispatches, std::span<const VkDescriptorSet> sets);
};

class VulkanSteps final : public DrawAhead {
 public:
  /// @return null if the host has to see whole rows of logits.
  static Result<std::unique_ptr<SampledSteps>> create(
      VulkanPlan& plan, std::shared_ptr<ResidentModel> model, VulkanState& state,
      std::span<const TokenId> recent, const SamplingOptions& sampling, PieceOf piece,
      std::chrono::milliseconds mask_timeout);
  ~VulkanSteps() override;

  // Both hold the plan's mutex: drawn() may need a row of its logits.
  Status queue() override;
  Status logits(std::span<float> out) override;

 private:
  VulkanSteps(VulkanPlan& plan, std::shared_ptr<ResidentModel> model, VulkanState& state,
              TokenId first, std::chrono::milliseconds mask_timeout);

  // DrawAhead
  Status launch(std::uint32_t pass, std::optional<TokenId> token) override;
  Status put_mask(std::uint32_t pass, const TokenMask& mask) override;
  Status wait_for(std::uint32_t pass) override;
  std::optional<TokenId> token_of(std::uint32_t pass) const override;
  Status read_logits(std::span<float> out) override { return plan_.read_logits(out); }
  Status check_end(std::uint32_t pass) override;

  bool candidates() const { return sampler_.has_value(); }
  /// What draw.comp reads of options and tokens consumed.
  void begin_chain(const SamplingOptions& sampling, std::span<const TokenId> recent, PieceOf piece);
  /// Options of candidates that the host draws among; false if it has to see whole rows.
  Result<bool> begin_candidates(const SamplingOptions& sampling, PieceOf piece);
  std::span<std::uint32_t> words();
  /// Waits for the last pass and draws from its candidates.
  Status decide();
  /// The sparse row of what the device found, or the whole one.
  Result<std::span<const float>> row();
  void list_special_tokens();

  VulkanPlan& plan_;
  std::shared_ptr<ResidentModel> model_;
  VulkanState& state_;
  StepSet set_;
  std::array<std::uint64_t, kStepPlaces> submissions_{};

  std::uint64_t first_mask_ = 0;          // of the set's semaphore, for pass 0
  std::optional<SamplingOptions> chain_;  // where draw.comp draws

  // With candidates.
  std::optional<Sampler> sampler_;
  TokenMask mask_;  // of the last pass
  std::vector<TokenId> biased_, recent_;
  std::size_t window_ = 0;      // tokens that penalties see
  std::size_t seen_ = 0;        // tokens that penalties or DRY see
  bool whole_ = false;          // more tokens are special now than candidates have room for
  std::int32_t likeliest_ = 1;  // candidates wanted, besides those in the list
  std::uint32_t decided_ = 0;   // passes
  std::array<std::optional<TokenId>, kStepPlaces> tokens_;  // none: no token could be chosen
  std::vector<float> row_;                                  // [vocab] -inf but for candidates
};

}  // namespace runnel::vulkan
