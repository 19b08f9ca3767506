// SPDX-License-Identifier: Apache-2.0
// What the seam recorded of a model's pass, as a program that computes one token as a whole needs it: one description
// for all layers, and each layer's weights. Without a driver; shared by the backends' step/ folders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/backend/backend.h"

namespace runnel {

/// The weights that the ops of one layer were given.
struct StepLayer {
  const SlotWeights* mixer = nullptr;
  const OutputWeights* output = nullptr;
  const ChannelMixWeights* channel_mix = nullptr;

  bool operator==(const StepLayer&) const = default;
};

/// One layer of a pass of shifted projections.
struct StepShiftLayer {
  LayerSpec spec;
  const RecurrenceWeights* mixer = nullptr;
  const OutputWeights* output = nullptr;
  const ChannelMixWeights* channel_mix = nullptr;

  bool operator==(const StepShiftLayer&) const = default;
};

/// A pass of the form embed, [norm], L times (shifted projections, gated recurrence, output projection, squared ReLU),
/// logits. Layers need not be alike.
struct StepShiftModel {
  NormSpec embedding_norm;
  const NormWeights* embedding_norm_weights = nullptr;  // null: none
  std::vector<StepShiftLayer> layers;                   // empty: the pass has another form

  bool operator==(const StepShiftModel&) const = default;
};

/// A pass of the form embed, L times (slot projections, slot attention, output projection, SwiGLU), logits, whose
/// layers are alike. Compares by description and by which weights it was given.
struct StepModel {
  std::string why_not;  // why the recording has another form; empty: it has this one

  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;  // D
  LayerSpec layer;               // of every layer, with index 0
  NormSpec final_norm;
  const WeightView* embeddings = nullptr;
  std::vector<StepLayer> layers;
  const NormWeights* final_norm_weights = nullptr;
  const WeightView* head = nullptr;
  /// Beside a `why_not`: the pass as one of shifted projections, with the sizes, final norm, embeddings and head above.
  StepShiftModel shifted;

  bool recognised() const { return why_not.empty(); }
  /// The share of layer i in a state begins i * state().floats() floats after it.
  LayerState state() const { return LayerState::of(layer); }
  bool operator==(const StepModel&) const = default;
};

/// Records `pass`. Never fails: if the pass is not of that form, `why_not` has the reason.
StepModel record_step_model(const Recording& pass);

/// What every one-token program of today expects of a recognised model: slots with identity, swish or relu maps, RMSNorms,
/// neither convolutions, nor an output gate, nor an output norm over each head.
/// @return why not, or ""
std::string refuse_step_form(const StepModel& model);

/// refuse_step_form(), and what CUDA's programs need beyond it: widths that are multiples of 32, head dims that are powers of
/// two.
/// @return why not, or ""
std::string refuse_step_model(const StepModel& model);

/// What one-token programs expect of a pass of shifted projections: heads of 64 that remove what their own key holds, gates of low rank, and
/// values mixed with the first layer's, in layers of the same constants.
/// @return why not, or ""
std::string refuse_shift_model(const StepModel& model);

}  // namespace runnel
