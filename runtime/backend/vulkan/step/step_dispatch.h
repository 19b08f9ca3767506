// SPDX-License-Identifier: Apache-2.0
// All layers of one token in one dispatch, ready to be recorded: made once at load, never changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backend/step_model.h"
#include "runtime/backend/vulkan/memory/device_weights.h"
#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {

/// The logits of such a token in a dispatch of their own.
struct StepHead {
  std::string shader;
  std::vector<std::uint32_t> constants;
  std::uint32_t groups = 0;
  /// Where it can draw the token, too:
  bool draws = false;
  Range weights;
  HeadArgs draw_args{};
};

struct StepDispatch {
  std::string shader;
  std::vector<std::uint32_t> constants;
  std::uint32_t groups = 0;
  std::uint32_t threads = 0;    // of each
  std::uint64_t act_words = 0;  // of a plan: what workgroups hand each other, and their reports
  Range weights;
  Buffer table;  // kStepLayerWords a layer, or kShiftLayerWords
  StepArgs args{};
  std::optional<StepHead> head;  // without it the logits are products like any other
  bool head_inside = false;      // the dispatch makes the logits and draws, where a pass is to

  /// Word of the activations that says that a workgroup timed out.
  std::uint32_t timed_out_at() const { return args.timed_out_at; }
  /// Words of the activations behind each workgroup's likeliest token: where a token goes that is drawn in vain.
  std::uint32_t drawn_at() const { return args.timed_out_at + 4 + 4 * groups; }
};

// Each for a model that its shape fits.
Result<StepDispatch> build_step(Device& device, const StepModel& model,
                                const DeviceWeights& weights);
Result<StepDispatch> build_even(Device& device, const StepModel& model,
                                const DeviceWeights& weights);
Result<StepDispatch> build_narrow(Device& device, const StepModel& model,
                                  const DeviceWeights& weights);
Result<StepDispatch> build_shift(Device& device, const StepModel& model,
                                 const DeviceWeights& weights);

}  // namespace runnel::vulkan
