// SPDX-License-Identifier: Apache-2.0
// A recorded pass on a Vulkan device: one command buffer per shape, recorded when the shape first
// occurs and resubmitted ever after. What differs from run to run goes through the pass buffer.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/backend/draw_ahead.h"
#include "runtime/backend/pass_probe.h"
#include "runtime/backend/vulkan/memory/state.h"
#include "runtime/backend/vulkan/pass/program.h"

namespace runnel::vulkan {

enum class Drawing;
struct StepSet;
struct Widths;  // plan_buffers.cpp

class VulkanPlan final : public Plan, private PassProbe {
 public:
  ~VulkanPlan() override;

  /// Passes of at most this many tokens use the kernels for few tokens.
  static constexpr int kFewTokens = 16;

  static Result<std::unique_ptr<Plan>> create(std::shared_ptr<ResidentModel> model, int max_tokens,
                                              const Recording& recording);

  int max_tokens() const override { return max_tokens_; }
  Status run(std::span<const PlanItem> items, std::stop_token stop) override;
  Result<std::unique_ptr<SampledSteps>> sampled_steps(
      RecurrentState& state, std::span<const TokenId> recent, const SamplingOptions& sampling,
      PieceOf piece, std::chrono::milliseconds mask_timeout) override;
  PassProbe* probe() override { return this; }

  // For VulkanSteps, which share the plan's buffers.
  /// Held while buffers of the plan are in use or change hands.
  std::mutex& mutex() { return mutex_; }
  ActiveSteps active;  // whose logits are in the buffers
  Result<StepSet> take_step_set(Drawing drawing);
  void keep_step_set(StepSet set);
  /// Queues the pass of one token and what draws the next; returns what to wait for.
  /// @param mask_value  of the set's semaphore, for which the draw waits; 0: it does not
  Result<std::uint64_t> queue_step(const PlanItem& item, const StepSet& set, std::uint32_t place,
                                   bool chained, std::uint64_t mask_value);
  /// The logits of the last pass of one token, once it is over.
  Status read_logits(std::span<float> out);

  std::uint64_t scratch_bytes() const {
    return buffers_.scratch.bytes + buffers_.pass.bytes + buffers_.pass_host.bytes +
           buffers_.logits.bytes + buffers_.logits_host.bytes;
  }

 private:
  VulkanPlan(std::shared_ptr<ResidentModel> model, int max_tokens);

  // PassProbe, in pass/pass_probe.cpp
  Status write(PassBuffer buffer, const LayerSpec& layer, std::span<const float> rows) override;
  Status read(PassBuffer buffer, const LayerSpec& layer, std::span<float> rows) override;
  struct ProbedRows;
  Result<ProbedRows> rows_of(PassBuffer buffer, const LayerSpec& layer, std::size_t floats) const;

  Status allocate();
  Status allocate_activations(const Widths& widths);
  template <class Section>
  void allocate_tiles(const Section& section, const Widths& widths);
  Status allocate_parameters();
  Status allocate_logits();
  std::uint32_t most_chunks(const Widths& widths) const;
  /// Chunks that an item's slots take; 0: they go token by token.
  std::uint32_t chunks_of(std::size_t tokens) const;
  void prepare_rotations();
  /// @param words  laid out like the pass buffer
  void fill_pass(std::span<const PlanItem> items, std::uint32_t* words) const;
  void fill_rotations(std::uint64_t position, std::size_t tokens, std::uint32_t* out) const;
  Result<VkCommandBuffer> commands_for(const PassShape& shape);
  Status make_room_for_programs();
  /// What a pass in one dispatch reads besides items: tags; where the token that it draws goes.
  void mark_step(const PassShape& shape, const Range& drawn, std::uint32_t* words) const;
  /// After a pass was queued.
  void flip_tags(const PassShape& shape);
  /// Copies one row of logits to the host, where the commands before made it.
  Result<VkCommandBuffer> logits_copy();
  /// After a pass in one dispatch: whether it finished.
  /// @param report  see PlanBuffers
  Status check_report(std::uint32_t report);
  Status add_times(std::span<const VkCommandBuffer> commands) const;
  PassShape body_shape(std::span<const PlanItem> items) const;

  std::shared_ptr<ResidentModel> model_;
  int max_tokens_;
  std::uint32_t logit_rows_ = 1;  // of one logits submission
  std::vector<RecordedOp> ops_;
  bool takes_step_ = false;  // the recording is what the model's step program computes
  PlanBuffers buffers_;

  struct Frequency {
    double turn;             // radians per token
    double cos_1, sin_1;     // of one turn
    float cos_far, sin_far;  // of sink_distance turns
  };
  std::vector<Frequency> frequencies_;  // [K/2] of the layers that rotate
  std::uint64_t sink_distance_ = 0;

  OwnedCommandPool pool_;
  std::map<PassShape, Program> programs_;
  std::mutex mutex_;
  // Tags of the next pass in one dispatch, and of the next that makes logits: the buffer begins with zeros.
  std::uint32_t tag_ = 1, head_tag_ = 1;
  VkCommandBuffer logits_copy_ = VK_NULL_HANDLE;
  std::array<std::vector<StepSet>, 3> spare_;  // of chains that are over, by Drawing
};

}  // namespace runnel::vulkan
