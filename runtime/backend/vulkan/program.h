// SPDX-License-Identifier: Apache-2.0
// A pass as a list of dispatches for one shape, and the command buffer made of it.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/backend/vulkan/resident_model.h"

namespace runnel::vulkan {

/// The ops of a pass in order, as recorded through the seam.
struct RecordedOp {
  enum class Kind {
    embed,
    slot_projections,
    slot_attention,
    gated_recurrence,
    output_projection,
    gated_mlp,
    logits
  };
  Kind kind;
  int layer = 0;
};

/// Buffers of one plan. Activations are rows of floats, padded to units of 8 with zeros.
struct PassBuffers {
  Buffer scratch;
  Buffer pass;      // see PassLayout
  Buffer logits;    // [rows, vocab], read by the host
  Range x;          // [T, D]              the residual stream
  Range inputs;     // [T, max(D, HQ*V)]   prepared inputs of products
  Range projected;  // [T, q | k | v | f]
  Range slots;      // [T, HQ, splits, 2 + V]; of a recurrence [T, HQ, columns]
  Range features;   // [T, …] of a recurrence, see RecurrenceColumns
  Range hidden;     // [T, I]
  std::uint32_t x_stride = 0;
  std::uint32_t inputs_stride = 0;
  std::uint32_t projected_stride = 0;
  std::uint32_t slots_stride = 0;
  std::uint32_t hidden_stride = 0;
  std::uint32_t features_stride = 0;
  PassLayout layout{};

  Range whole_pass() const { return {pass.get(), 0, pass.bytes}; }
  Range whole_logits() const { return {logits.get(), 0, logits.bytes}; }
};

/// What a command buffer is recorded for. A run uses the smallest shape that holds it.
struct PassShape {
  std::uint32_t tokens = 0;
  std::uint32_t items = 0;
  std::uint32_t logit_rows = 0;      // of the logits command buffer; 0: this is the body
  std::vector<std::uint32_t> banks;  // of the states

  auto operator<=>(const PassShape&) const = default;
};

/// Recorded commands with what they need to stay alive.
struct Program {
  OwnedDescriptorPool descriptors;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  std::size_t dispatches = 0;
};

/// Builds and records the program of a shape.
/// @param few_tokens  products read weights once per few tokens (matvec) instead of in tiles
///                    (matmul); a property of the plan, so that a token's bits do not depend on how
///                    many others share its pass
Result<Program> build_program(ResidentModel& model, const PassBuffers& buffers,
                              const std::vector<RecordedOp>& ops, bool few_tokens,
                              const PassShape& shape, const OwnedCommandPool& pool);

}  // namespace runnel::vulkan
