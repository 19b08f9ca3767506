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

/// Bytes of all matrices, at most: the table, the head and those of the layers.
std::uint64_t all_bytes(const StepModel& model, const StepDevice& d,
                        const std::vector<const WeightView*>& of_layers) {
  const std::uint64_t to = std::max<std::uint64_t>(kMatrixAlignment, d.storage_alignment);
  std::uint64_t all = 0;
  const auto add = [&](const WeightView& w) {
    all += round_up(packed_bytes(kept(w), w.rows, w.cols), to) + to;
  };
  add(*model.embeddings);
  if (model.head->data.data() != model.embeddings->data.data()) add(*model.head);
  for (const WeightView* w : of_layers) add(*w);
  return all;
}

/// @return why they do not lie in one binding, or ""
std::string refuse_bytes(std::uint64_t bytes, const StepDevice& d) {
  const std::uint64_t most = std::min(d.storage_range, d.allocation_bytes);
  if (bytes <= most) return "";
  return "weights of " + std::to_string(bytes) + " bytes, expected one binding of at most " +
         std::to_string(most);
}

std::string refuse_type(BlockType type) {
  if (has_step_blocks(type) || is_short(type)) return "";
  return "weights of " + name_of(type) +
         ", expected q4_0, q4_1, q5_0, q8_0, q4_k, q5_k, q6_k or 16 bits";
}

std::string refuse_width(std::int64_t n, BlockType type) {
  const std::int32_t width = block_columns(type);
  if (n % width == 0) return "";
  return "a width of " + std::to_string(n) + ", expected a multiple of " + std::to_string(width);
}

std::string two_types(BlockType type, BlockType other) {
  return "matrices of " + name_of(type) + " and " + name_of(other) + ", expected one type";
}

/// Checks one layer, whose matrices have to be of `type`.
std::string refuse_types(const StepLayer& l, BlockType type) {
  for (const WeightView* w :
       {&l.mixer->q_proj, &l.mixer->k_proj, &l.mixer->v_proj, &l.output->o_proj,
        &l.channel_mix->gate_proj, &l.channel_mix->up_proj, &l.channel_mix->down_proj}) {
    if (kept(*w) != type) return two_types(type, kept(*w));
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
  if (std::string why = refuse_type(type); !why.empty()) return why;
  for (const std::int32_t n : {model.hidden_size, l.intermediate_size, l.o_channels()}) {
    if (std::string why = refuse_width(n, type); !why.empty()) return why;
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
  std::vector<const WeightView*> all;
  for (const StepLayer& each : model.layers) {
    all.insert(all.end(), {&each.mixer->q_proj, &each.mixer->k_proj, &each.mixer->v_proj,
                           &each.mixer->f_proj, &each.output->o_proj, &each.channel_mix->gate_proj,
                           &each.channel_mix->up_proj, &each.channel_mix->down_proj});
  }
  return refuse_bytes(all_bytes(model, d, all), d);
}

std::vector<const WeightView*> wide_matrices(const StepShiftLayer& l) {
  return {&l.mixer->q_proj,  &l.mixer->k_proj,        &l.mixer->v_proj,
          &l.output->o_proj, &l.channel_mix->up_proj, &l.channel_mix->down_proj};
}

std::vector<const WeightView*> low_matrices(const StepShiftLayer& l) {
  const RecurrenceWeights& w = *l.mixer;
  std::vector<const WeightView*> there;
  for (const WeightView* each : {&w.f_down, &w.f_proj, &w.r_down, &w.r_proj, &w.out_gate_down,
                                 &w.out_gate, &w.v_down, &w.v_mix}) {
    if (each->rows > 0) there.push_back(each);
  }
  return there;
}

std::string refuse_shift_weights(const StepModel& model, const StepDevice& d) {
  const std::vector<StepShiftLayer>& layers = model.shifted.layers;
  const BlockType type = kept(layers.front().output->o_proj);
  const BlockType low = kept(layers.front().mixer->f_down);
  if (std::string why = refuse_type(type); !why.empty()) return why;
  if (!is_short(type) && !takes_integers(type, d)) return "a device without products of four bytes";
  if (!is_short(low) && low != BlockType::f32)
    return "matrices of low rank of " + name_of(low) + ", expected 16 or 32 bits";
  for (const std::int32_t n : {model.hidden_size, layers.front().spec.intermediate_size}) {
    if (std::string why = refuse_width(n, type); !why.empty()) return why;
  }
  std::vector<const WeightView*> all;
  for (const StepShiftLayer& layer : layers) {
    for (const auto& [expected, matrices] :
         {std::pair(type, wide_matrices(layer)), std::pair(low, low_matrices(layer))}) {
      for (const WeightView* w : matrices) {
        if (kept(*w) != expected) return two_types(expected, kept(*w));
        if (w->rows > kMostPartRows || !in_one_part(expected, w->rows, w->cols, d))
          return "a matrix in several parts";
        all.push_back(w);
      }
    }
  }
  return refuse_bytes(all_bytes(model, d, all), d);
}

}  // namespace runnel::vulkan
