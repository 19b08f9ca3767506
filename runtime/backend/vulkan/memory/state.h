// SPDX-License-Identifier: Apache-2.0
// A session's memory on a Vulkan device: a place in the model's banks of states.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "runtime/backend/backend.h"
#include "runtime/backend/vulkan/memory/resident_model.h"

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

}  // namespace runnel::vulkan
