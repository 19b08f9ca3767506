// SPDX-License-Identifier: Apache-2.0
// The ops of the seam as units that a test can run by themselves, and the layers to run them on.
#pragma once

#include <string>
#include <vector>

#include "runtime/backend/pass_probe.h"
#include "tests/support/random_model.h"

namespace runnel::test {

/// One op; or two neighbours, where devices divide the work between them in different ways (see PassProbe).
enum class Unit {
  embed,
  embedding_norm,
  slot_projections,
  slot_attention,
  slot_projections_and_attention,  // with convolutions
  recurrence_projections,
  shifted_projections,
  gated_recurrence,
  recurrence_projections_and_recurrence,  // with convolutions or gates of low rank
  gated_recurrence_and_output,            // with a normalizer or a bonus
  output_projection,
  gated_mlp,
  squared_relu_mlp,
  shifted_squared_relu_mlp,  // which advances its part of the state
  logits,
};

std::vector<Unit> all_units();

/// "slot_projections", "slot_projections_and_attention".
std::string name_of(Unit unit);

/// What the unit reads and writes besides x, which every unit finds as embed left it, and the state. Buffers that the
/// layer does not have are left out.
std::vector<PassBuffer> inputs_of(Unit unit, const ModelConfig& config);
std::vector<PassBuffer> outputs_of(Unit unit, const ModelConfig& config);

/// Whether it advances the state; whether it adds to x.
bool advances_state(Unit unit);
bool adds_to_x(Unit unit);

/// Records embed and the unit, of the first layer.
Status record_unit(Unit unit, Ops& ops, const ModelConfig& config, const Weights& weights);

/// A layer to run a unit on.
struct OpCase {
  std::string name;
  ModelConfig config;  // of one layer
  RandomParts parts;
  quant::BlockType type = quant::BlockType::f32;  // of the unit's matrices
  std::vector<std::size_t> tokens;                // of its passes, one after the other
  bool dear = false;                              // one shape more of a kind that others have
};

/// How many cases suit a device.
enum class Extent {
  all,
  matrix_units,  // all; and mixers beside matrices of 16 bits: where there are matrix units they then compute with
                 // operands of 16 bits
  few_shapes,  // not every shape: each needs shaders of its own, which a software driver takes long to compile
};

/// Every weight type on odd and on wide rows for units with matrices; every kind of slots, decay and map for mixers.
std::vector<OpCase> cases_of(Unit unit, Extent extent);

}  // namespace runnel::test
