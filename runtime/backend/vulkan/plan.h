// SPDX-License-Identifier: Apache-2.0
// A recorded pass on a Vulkan device: one command buffer per shape, recorded when the shape first
// occurs and resubmitted ever after. What differs from run to run goes through the pass buffer.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/vulkan/program.h"

namespace runnel::vulkan {

class VulkanState final : public RecurrentState {
 public:
  static Result<std::unique_ptr<RecurrentState>> create(std::shared_ptr<ResidentModel> model);
  VulkanState(const VulkanState&) = delete;
  VulkanState& operator=(const VulkanState&) = delete;
  ~VulkanState() override { model_->states->release(place); }

  std::uint64_t position() const override { return tokens; }
  Status export_to(std::span<float> out) const override;
  Status import_from(std::span<const float> canonical, std::uint64_t position) override;
  Result<std::unique_ptr<RecurrentState>> clone() const override;
  Status reset() override;

  StateStore::Place place;
  std::uint64_t tokens = 0;

 private:
  VulkanState(std::shared_ptr<ResidentModel> model, StateStore::Place where)
      : place(where), model_(std::move(model)) {}

  std::shared_ptr<ResidentModel> model_;
};

class VulkanPlan final : public Plan {
 public:
  /// Passes of at most this many tokens use the kernels for few tokens.
  static constexpr int kFewTokens = 16;

  static Result<std::unique_ptr<Plan>> create(std::shared_ptr<ResidentModel> model, int max_tokens,
                                              const Recording& recording);

  int max_tokens() const override { return max_tokens_; }
  Status run(std::span<const PlanItem> items, std::stop_token stop) override;

  std::uint64_t scratch_bytes() const {
    return buffers_.scratch.bytes + 2 * (buffers_.pass.bytes + buffers_.logits.bytes);
  }

 private:
  VulkanPlan(std::shared_ptr<ResidentModel> model, int max_tokens)
      : model_(std::move(model)), max_tokens_(max_tokens) {}

  Status allocate();
  template <class Section>
  void allocate_tiles(const Section& section);
  /// Chunks that an item's slots take; 0: they go token by token.
  std::uint32_t chunks_of(std::size_t tokens) const;
  void prepare_rotations();
  void fill_pass(std::span<const PlanItem> items);
  void fill_rotations(std::uint64_t position, std::size_t tokens, std::uint32_t* out) const;
  Result<VkCommandBuffer> commands_for(const PassShape& shape);
  Status add_times(std::span<const VkCommandBuffer> commands) const;
  PassShape body_shape(std::span<const PlanItem> items) const;

  std::shared_ptr<ResidentModel> model_;
  int max_tokens_;
  std::uint32_t logit_rows_ = 1;  // of one logits submission
  std::vector<RecordedOp> ops_;
  PassBuffers buffers_;

  struct Frequency {
    double turn;             // radians a token
    double cos_1, sin_1;     // of one turn
    float cos_far, sin_far;  // of sink_distance turns
  };
  std::vector<Frequency> frequencies_;  // [K/2]

  OwnedCommandPool pool_;
  std::map<PassShape, Program> programs_;
};

}  // namespace runnel::vulkan
