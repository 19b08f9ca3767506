// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/step/dispatch_parts.h"

#include "runtime/backend/vulkan/memory/packed_matrix.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

/// Far more than a token's waiting. A poll takes some
/// 0.5 us on a GPU, and a thread of a software driver may not run for a while.
constexpr std::int32_t kPollLimit = 1 << 21, kSoftwarePollLimit = 1 << 30;

MatrixPart part_of(const DeviceMatrix& m) {
  const auto entry = matrix_entry(m);
  return {.first_row = 0, .rows = entry[1], .scales = entry[2], .high = entry[3]};
}

}  // namespace

std::array<std::uint32_t, kStepMatrixWords> matrix_entry(const DeviceMatrix& m) {
  const DeviceMatrix::Part& part = m.parts.front();
  const std::uint64_t first = part.range.offset / 16, word = part.range.offset / 4;
  // Shaders count loads from the beginning of all weights, so planes are given from where those of all before would begin.
  const PlaneWords before = plane_words(m.type, word / plane_words(m.type, 1).codes);
  const std::uint64_t scales = word + part.rows.scales - before.scales;
  const std::uint64_t high = word + part.rows.high - before.high;
  const auto word_of = [](std::uint64_t n) { return static_cast<std::uint32_t>(n); };
  return {word_of(first), word_of(static_cast<std::uint64_t>(m.rows)), word_of(scales),
          word_of(high)};
}

std::int32_t poll_limit_of(const StepDevice& d) {
  if (d.tuned_poll_limit > 0) return d.tuned_poll_limit;
  return d.software ? kSoftwarePollLimit : kPollLimit;
}

std::optional<StepHead> step_head(const StepModel& m, const StepDevice& d, const DeviceWeights& w) {
  const HeadShape shape = HeadShape::of(m, d);
  if (!shape.fits) return std::nullopt;
  const BlockType type = w.head.type;
  StepHead head{.shader = shape.shader,
                .constants = shape.constants,
                .groups = shape.groups,
                .draws = shape.draws};
  if (!head.draws) return head;
  head.weights = w.block_of(w.head);
  head.draw_args = {.w = part_of(w.head),
                    .first = matrix_entry(w.head)[0],
                    .norm_weight = w.final_norm.weight,
                    .norm_bias = w.final_norm.bias,
                    .eps = m.final_norm.eps,
                    .table_first = matrix_entry(w.embeddings)[0] * (item_columns(type) / kUnit),
                    .table = part_of(w.embeddings)};
  return head;
}

}  // namespace runnel::vulkan
