// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/step/step_weights.h"

#include <algorithm>

#include "runtime/backend/vulkan/memory/device_weights.h"
#include "runtime/backend/vulkan/memory/packed_matrix.h"
#include "runtime/base/integers.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

std::string name_of(BlockType type) { return std::string(quant::format_of(type).name); }

std::uint64_t packed_bytes(BlockType type, std::int64_t rows, std::int64_t cols) {
  return part_layout(type, rows, cols).words * sizeof(std::uint32_t);
}

/// Bytes of all matrices, at most.
std::uint64_t all_bytes(const StepModel& model, const StepDevice& d) {
  const std::uint64_t to = std::max<std::uint64_t>(kMatrixAlignment, d.storage_alignment);
  std::uint64_t all = 0;
  const auto add = [&](const WeightView& w) {
    all += round_up(packed_bytes(kept(w), w.rows, w.cols), to) + to;
  };
  add(*model.embeddings);
  if (model.head->data.data() != model.embeddings->data.data()) add(*model.head);
  for (const StepLayer& l : model.layers) {
    for (const WeightView* w :
         {&l.mixer->q_proj, &l.mixer->k_proj, &l.mixer->v_proj, &l.mixer->f_proj, &l.output->o_proj,
          &l.channel_mix->gate_proj, &l.channel_mix->up_proj, &l.channel_mix->down_proj})
      add(*w);
  }
  return all;
}

/// Checks one layer, whose matrices have to be of `type`.
std::string refuse_types(const StepLayer& l, BlockType type) {
  for (const WeightView* w :
       {&l.mixer->q_proj, &l.mixer->k_proj, &l.mixer->v_proj, &l.output->o_proj,
        &l.channel_mix->gate_proj, &l.channel_mix->up_proj, &l.channel_mix->down_proj}) {
    if (kept(*w) != type)
      return "matrices of " + name_of(type) + " and " + name_of(kept(*w)) + ", expected one type";
  }
  const WeightView* gates = gates_apart(l);
  if (gates != nullptr && !is_short(kept(*gates)))
    return "gates of " + name_of(kept(*gates)) + " beside " + name_of(type) +
           ", expected f16 or bf16";
  return "";
}

}  // namespace

std::int64_t projected_rows(const StepModel& model) {
  const LayerSpec& l = model.layer;
  const bool apart = gates_apart(model.layers.front()) != nullptr;
  return l.q_channels() + l.k_channels() + l.v_channels() + (apart ? 0 : l.gate_channels());
}

bool in_one_part(BlockType type, std::int64_t rows, std::int64_t cols, const StepDevice& d) {
  return packed_bytes(type, rows, cols) <= std::min(d.storage_range, kMostPartBytes);
}

std::string refuse_weights(const StepModel& model, const StepDevice& d) {
  const LayerSpec& l = model.layer;
  const BlockType type = kept(model.layers.front().output->o_proj);
  if (!has_step_blocks(type) && !is_short(type))
    return "weights of " + name_of(type) +
           ", expected q4_0, q4_1, q5_0, q8_0, q4_k, q5_k, q6_k or 16 bits";
  const std::int32_t width = block_columns(type);
  for (const std::int32_t n : {model.hidden_size, l.intermediate_size, l.o_channels()}) {
    if (n % width != 0)
      return "a width of " + std::to_string(n) + ", expected a multiple of " +
             std::to_string(width);
  }
  const bool apart = gates_apart(model.layers.front()) != nullptr;
  for (const StepLayer& layer : model.layers) {
    if ((gates_apart(layer) != nullptr) != apart) return "gates of their own type in some layers";
    if (std::string why = refuse_types(layer, type); !why.empty()) return why;
  }
  const std::int64_t d_cols = model.hidden_size;
  const std::int64_t most_rows =
      std::max({projected_rows(model), d_cols, std::int64_t{2} * l.intermediate_size});
  if (most_rows > kMostPartRows || !in_one_part(type, projected_rows(model), d_cols, d) ||
      !in_one_part(type, d_cols, l.o_channels(), d) ||
      !in_one_part(type, 2 * l.intermediate_size, d_cols, d) ||
      !in_one_part(type, d_cols, l.intermediate_size, d)) {
    return "a matrix in several parts";
  }
  const std::uint64_t bytes = all_bytes(model, d),
                      most = std::min(d.storage_range, d.allocation_bytes);
  if (bytes > most)
    return "weights of " + std::to_string(bytes) + " bytes, expected one binding of at most " +
           std::to_string(most);
  return "";
}

}  // namespace runnel::vulkan
