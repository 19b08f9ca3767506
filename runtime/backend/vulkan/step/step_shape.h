// SPDX-License-Identifier: Apache-2.0
// The work splits of the one-token programs, from a model and what a device offers. Each says why it does not fit.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend/vulkan/step/step_weights.h"
#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {

/// Work split of decode_step.comp and decode_even.comp.
struct StepShape {
  std::string why_not;  // empty: it fits

  quant::BlockType type = quant::BlockType::f32;  // of a layer's matrices but f
  bool dot = false;                               // products of integers
  bool gates = false;                             // f is a matrix of its own
  bool biases = false;                            // q, k and v have biases
  std::uint32_t threads = 0;                      // of a workgroup
  std::uint32_t groups = 0;                       // workgroups
  std::uint32_t parts = 0;                        // workgroups of a kv head's slots
  std::uint32_t queries = 0;                      // that each of them takes
  std::uint32_t columns = 0;                      // of values, of each of them
  std::uint32_t other = 0;            // columns of the wider of the inputs that are not x
  std::uint32_t teams = 0;            // log2 of lanes that share a row, a byte a stage
  std::uint32_t held = 0;             // items of a lane under way
  std::uint64_t exchanged_words = 0;  // what workgroups hand each other, of all layers
  std::string shader;
  std::vector<std::uint32_t> constants;  // 1, 2, … of the shader

  static StepShape of(const StepModel& model, const StepDevice& device);
  /// Where all rows divide evenly over the workgroups: decode_even.
  static StepShape even(const StepModel& model, const StepDevice& device);
};

/// Work split of narrow_step.comp, which has workgroups of two roles.
struct NarrowShape {
  std::string why_not;

  std::uint32_t threads = 0;
  std::uint32_t groups = 0;
  std::uint32_t other = 0;
  std::uint32_t gate_team = 0, down_team = 0;  // lanes that share a row of gate and up, of down
  std::uint32_t copies = 0;                    // of what all workgroups poll
  std::uint32_t mixers = 0;                    // workgroups of a query head
  std::uint32_t head_team = 0;  // lanes that share a row of the head; 0: it is not inside
  std::uint64_t exchanged_words = 0;
  std::string shader;
  std::vector<std::uint32_t> constants;

  static NarrowShape of(const StepModel& model, const StepDevice& device);
};

/// Work split of shift_step.comp.
struct ShiftShape {
  /// Consecutive workgroups that share a matrix's rows evenly.
  struct Share {
    std::uint32_t first = 0, groups = 0, rows = 0;
  };

  std::string why_not;

  quant::BlockType type = quant::BlockType::f32;  // of all matrices but those of low rank
  quant::BlockType low_type = quant::BlockType::f32;
  bool dot = false;
  std::uint32_t threads = 0;
  std::uint32_t groups = 0;
  std::uint32_t other = 0;     // the wider of the residual stream and the hidden layer
  std::uint32_t own_rows = 0;  // of the residual stream, of a workgroup at most
  std::uint32_t teams = 0;
  std::uint32_t held = 0;
  std::uint32_t ahead = 0;  // matrices that workgroups without a head bring into the cache
  std::array<std::uint32_t, 4> ranks{};  // f, r, gate, mix of values
  std::array<Share, kShiftMatrixCount> shares{};
  std::uint64_t exchanged_words = 0;
  std::string shader;
  std::vector<std::uint32_t> constants;

  static ShiftShape of(const StepModel& model, const StepDevice& device);
};

/// Work split of head.comp, the logits behind all layers. It may not fit where the layers do.
struct HeadShape {
  bool fits = false;
  bool dot = false;
  bool draws = false;    // the likeliest token and its embedding, too
  bool centred = false;  // the final norm is a LayerNorm
  std::uint32_t threads = 0;
  std::uint32_t team = 0;  // lanes that share a row
  std::uint32_t groups = 0;
  std::string shader;
  std::vector<std::uint32_t> constants;

  static HeadShape of(const StepModel& model, const StepDevice& device);
};

/// The rows of a workgroup and the columns of a stage of decode_step.comp or shift_step.comp.
struct StageRows {
  std::uint32_t rows = 0, columns = 0;
  std::uint32_t pair = 1;  // 2 where rows belong together in pairs: gate and up
};

/// How lanes share the rows of four stages.
struct StageTeams {
  std::uint32_t teams = 0;  // log2 of lanes that share a row, a byte a stage
  std::uint32_t held = 0;   // items of a lane under way

  static StageTeams of(const StepDevice& device, quant::BlockType type, std::uint32_t threads,
                       const std::array<StageRows, 4>& stages);
};

/// What shaders call f32, f16 or bf16.
std::uint32_t plain_type_constant(quant::BlockType type);

/// The constants of gates of their own type; f16 where there are none.
std::uint32_t gate_type_constant(const StepModel& model);

/// Threads of a workgroup of all programs.
std::uint32_t step_threads(const StepDevice& device);

/// Sets how many of `shape.groups` workgroups share the slots of a kv head, and in what: parts, queries, columns.
/// @return why they cannot, or ""
std::string choose_parts(const LayerSpec& layer, const StepDevice& device, StepShape& shape);

/// "decode_step.q4_0.dot"
std::string step_shader(const char* stem, quant::BlockType type, bool dot);

/// Constants 1, 2, … of decode_step.comp, with which those of decode_even.comp begin.
std::vector<std::uint32_t> step_constants(const StepModel& model, const StepDevice& device,
                                          const StepShape& shape);

/// @return why a workgroup of the device has too little shared memory for what the shader declares with these
///         constants, or ""
std::string refuse_shared_memory(const StepDevice& device, const std::string& shader,
                                 std::span<const std::uint32_t> constants);

/// @return why no program takes the model on the device, or ""
std::string refuse_step(const StepModel& model, const StepDevice& device);

/// Members that are all specialisation constants 1, 2, …
template <class Constants>
std::vector<std::uint32_t> list_of(const Constants& constants) {
  std::vector<std::uint32_t> list(sizeof(Constants) / sizeof(std::uint32_t));
  std::memcpy(list.data(), &constants, sizeof(Constants));
  return list;
}

}  // namespace runnel::vulkan
