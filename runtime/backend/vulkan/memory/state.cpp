// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/memory/state.h"

#include "runtime/base/try.h"

namespace runnel::vulkan {

Result<std::unique_ptr<RecurrentState>> VulkanState::create(std::shared_ptr<ResidentModel> model) {
  RUNNEL_TRY(const StateStore::Place place, model->states->acquire());
  return std::unique_ptr<RecurrentState>(new VulkanState(std::move(model), place));
}

Status VulkanState::export_to(std::span<float> out) const {
  if (out.size() != model_->layout.total_floats()) {
    return fail(ErrorCode::invalid_argument, "state: buffer has ", out.size(), " floats, expected ",
                model_->layout.total_floats());
  }
  return model_->states->read(place, out);
}

Status VulkanState::import_from(std::span<const float> canonical, std::uint64_t position) {
  if (canonical.size() != model_->layout.total_floats()) {
    return fail(ErrorCode::mismatch, "state: has ", canonical.size(), " floats, expected ",
                model_->layout.total_floats());
  }
  RUNNEL_CHECK_OK(model_->states->write(place, canonical));
  tokens = position;
  return {};
}

Result<std::unique_ptr<RecurrentState>> VulkanState::clone() const {
  RUNNEL_TRY(std::unique_ptr<RecurrentState> made, create(model_));
  auto& copy = static_cast<VulkanState&>(*made);
  RUNNEL_CHECK_OK(model_->states->copy(place, copy.place));
  copy.tokens = tokens;
  return made;
}

Status VulkanState::reset() {
  RUNNEL_CHECK_OK(model_->states->clear(place));
  tokens = 0;
  return {};
}

}  // namespace runnel::vulkan
