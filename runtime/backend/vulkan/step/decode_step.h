// SPDX-License-Identifier: Apache-2.0
// All layers of one token in one dispatch (decode_step.comp, decode_even.comp where rows divide
// evenly, decode_mixers.comp for narrow models), where the device certainly runs that many
// workgroups at the same time and the model has the shapes for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/backend/step_model.h"
#include "runtime/backend/vulkan/device.h"
#include "shaders/include/interface.h"

namespace runnel::vulkan {

class DeviceWeights;

struct DecodeStep {
  const char* why_not = "";  // a token takes many dispatches; empty: this one
  std::string shader;
  std::vector<std::uint32_t> constants;
  std::uint32_t groups = 0;
  std::uint64_t act_words = 0;  // of a plan, see kLayerPlaces in step_model.glsl
  Range weights;
  Buffer table;  // kStepLayerWords a layer
  StepArgs args{};
  // Of the logits of such a token; without a shader: matvec.
  std::string head_shader;
  std::vector<std::uint32_t> head_constants;
  std::uint32_t head_groups = 0;
  // The head that draws the token, where it can.
  bool draws = false;
  Range head_weights;
  HeadArgs draw_args{};
  // The layers' own dispatch makes the logits and draws, where a pass is to.
  bool head_inside = false;

  bool fits() const { return *why_not == '\0'; }
  std::uint32_t stuck_at() const { return args.stuck_at; }
  /// Words of the activations behind each workgroup's likeliest token: for what nobody reads of a token drawn.
  std::uint32_t drawn_at() const { return args.stuck_at + 4 + 4 * groups; }

  static Result<DecodeStep> create(Device& device, const StepModel& model,
                                   const DeviceWeights& weights);
};

}  // namespace runnel::vulkan
