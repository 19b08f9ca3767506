// SPDX-License-Identifier: Apache-2.0
// The matrices of a recognised model as the one-token programs read them: types, rows, and where DeviceWeights will put
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/backend/step_model.h"
#include "runtime/backend/vulkan/step/step_device.h"

namespace runnel::vulkan {

constexpr bool is_short(quant::BlockType t) {
  return t == quant::BlockType::f16 || t == quant::BlockType::bf16;
}

/// The type in which the device has a tensor.
inline quant::BlockType kept(const WeightView& w) { return quant::kept_as(w.type); }

/// Whether the one-token programs have shaders for blocks of a type. Models of other types are computed by the ops.
constexpr bool has_step_blocks(quant::BlockType t) {
  switch (t) {
    case quant::BlockType::q4_0:
    case quant::BlockType::q4_1:
    case quant::BlockType::q5_0:
    case quant::BlockType::q8_0:
    case quant::BlockType::q4_k:
    case quant::BlockType::q5_k:
    case quant::BlockType::q6_k:
      return true;
    case quant::BlockType::f32:
    case quant::BlockType::f16:
    case quant::BlockType::bf16:
    case quant::BlockType::q5_1:
    case quant::BlockType::q2_k:
    case quant::BlockType::q3_k:
    case quant::BlockType::iq4_nl:
    case quant::BlockType::iq4_xs:
    case quant::BlockType::i8:
    case quant::BlockType::i32:
    case quant::BlockType::wide:
      break;
  }
  return false;
}

/// Columns of a block of a type that the one-token programs take; those of 16 bits go in steps of 32.
inline std::int32_t block_columns(quant::BlockType t) {
  return is_short(t) ? 32 : quant::format_of(t).block_values;
}

/// Columns of the 16 bytes of codes that a lane loads at a time.
constexpr std::uint32_t item_columns(quant::BlockType t) {
  return is_short(t) ? 8 : t == quant::BlockType::q8_0 ? 16 : 32;
}

/// Lanes that share a block of 32 columns where inputs are rounded.
inline constexpr std::uint32_t kRoundingLanes = 8;

/// Whether products of a type are made of integers.
inline bool takes_integers(quant::BlockType t, const StepDevice& d) {
  return has_step_blocks(t) && d.integer_dot && d.subgroup >= kRoundingLanes;
}

/// f where it is a matrix of its own, else null: q, k, v and f are one.
inline const WeightView* gates_apart(const StepLayer& layer) {
  return kept(layer.mixer->f_proj) == kept(layer.mixer->v_proj) ? nullptr : &layer.mixer->f_proj;
}

/// Rows of the matrix of q, k and v, and of f where it is not apart.
std::int64_t projected_rows(const StepModel& model);

/// Whether a matrix lies in one part, see DeviceMatrix, as far as its bytes go.
bool in_one_part(quant::BlockType type, std::int64_t rows, std::int64_t cols, const StepDevice& d);

/// The matrices of a layer of shifted projections: those of full rank, and those of low rank that it has.
std::vector<const WeightView*> wide_matrices(const StepShiftLayer& layer);
std::vector<const WeightView*> low_matrices(const StepShiftLayer& layer);

/// @return why the matrices are not what shift_step.comp reads, or ""
std::string refuse_shift_weights(const StepModel& model, const StepDevice& device);

/// @return why the matrices are not what a program with all layers in one binding reads, or ""
std::string refuse_weights(const StepModel& model, const StepDevice& device);

}  // namespace runnel::vulkan
