// SPDX-License-Identifier: Apache-2.0
// What the one-token programs tell their shaders in the same way: matrices, the head, constants.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backend/vulkan/step/step_dispatch.h"
#include "runtime/backend/vulkan/step/step_shape.h"

namespace runnel::vulkan {

/// A matrix as the shaders find it: loads counted from the beginning of the weights, planes moved so
/// that they are indexed by the same number.
std::array<std::uint32_t, kStepMatrixWords> matrix_entry(const DeviceMatrix& m);

/// Polls of a value that is not there before a workgroup times out.
std::int32_t poll_limit_of(const StepDevice& device);

/// The dispatch of the head; nothing where head.comp does not take it and logits are products like any other.
std::optional<StepHead> step_head(const StepModel& model, const StepDevice& device,
                                  const DeviceWeights& weights);

}  // namespace runnel::vulkan
