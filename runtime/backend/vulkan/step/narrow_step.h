// SPDX-License-Identifier: Apache-2.0
// A token in one dispatch of a narrow model: decode_mixers.comp, with two roles of workgroups.
#pragma once

#include "runtime/backend/vulkan/step/decode_step.h"

namespace runnel::vulkan {

/// Makes `step`, ready for decode_step.comp, one of decode_mixers.comp where the model has the shape for it.
void use_mixers(DecodeStep& step, const Device& device, const StepModel& model,
                const DeviceWeights& weights);

}  // namespace runnel::vulkan
