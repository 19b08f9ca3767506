// SPDX-License-Identifier: Apache-2.0
// What shift_step is told of a model, and where it puts what its layers hand each other.

layout(local_size_x_id = 2) in;
// Volatile: loads stay where they are written, which is before a look at the exchange. By address: an index is compared
// with a buffer's size each time.
layout(buffer_reference, std430, buffer_reference_align = 16) volatile readonly buffer Early { uint w[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) volatile readonly buffer Early4 { uvec4 w[]; };
#define weights Early(uvec2(a.weights_low, a.weights_high))
#define weights4 Early4(uvec2(a.weights_low, a.weights_high))
layout(set = 0, binding = 2) volatile readonly buffer Vectors { float v[]; } vectors;
layout(set = 0, binding = 2) volatile readonly buffer Vectors4 { vec4 v[]; } vectors4;
layout(set = 0, binding = 3) volatile readonly buffer Table { uint v[]; } table;  // kShiftLayerWords of each layer
#include "step/token.glsl"
#include "step/begin.glsl"

layout(constant_id = 3) const uint D = 64;
layout(constant_id = 4) const uint INNER = 64;
layout(constant_id = 5) const uint HEADS = 1;
layout(constant_id = 6) const uint OTHER = 64;  // the wider of D and INNER
layout(constant_id = 7) const uint RANK_F = 8;
layout(constant_id = 8) const uint RANK_R = 8;
layout(constant_id = 9) const uint RANK_GATE = 0;  // 0: no gate
layout(constant_id = 10) const uint RANK_MIX = 0;
layout(constant_id = 11) const uint LOW_TYPE = kStepF16;  // of the matrices of low rank
layout(constant_id = 12) const uint CENTRED = 1;          // norms are LayerNorms, else RMSNorms
layout(constant_id = 13) const uint EMBEDDING_NORM = 1;
layout(constant_id = 14) const uint GROUP_NORM = 1;  // a LayerNorm of each head behind the state
layout(constant_id = 15) const uint BONUS = 1;
layout(constant_id = 16) const uint HELD = 2;   // items of a lane under way: 2, 4 or 8
layout(constant_id = 17) const uint TEAMS = 0;  // lanes of a row of each stage: their logarithms, a byte each
layout(constant_id = 18) const uint OWN_ROWS = 1;  // of D, of a workgroup at most
layout(constant_id = 19) const uint IN_TURNS = 0;  // a software driver runs a workgroup's subgroups barrier by barrier
layout(constant_id = 20) const uint LAYERS = 1;
layout(constant_id = 21) const uint GROUPS = 1;
// Matrices from kShiftUp on that workgroups without a head bring into the device's cache while others have one.
layout(constant_id = 22) const uint AHEAD = 0;

// Places of a layer's activations, in words; each a multiple of 4.
const uint kRanks = RANK_F + RANK_R + RANK_GATE + RANK_MIX;
const uint kAtLow = 3 * D;  // behind q, k and v: what went down
const uint kAtOut = kAtLow + kRanks;
const uint kAtMiddle = kAtOut + D;  // x after the mixer
const uint kAtHidden = kAtMiddle + D;
const uint kAtX = kAtHidden + INNER;
const uint kLayerPlaces = kAtX + D;

/// Columns of 16 bytes of a matrix of low rank.
const uint kLowColumns = LOW_TYPE == kStepF32 ? 4 : 8;
/// Where what goes down for f, r, the gate and the mix begins, behind kAtLow.
uint low_at(uint which) {
  return which == 0 ? 0 : which == 1 ? RANK_F : which == 2 ? RANK_F + RANK_R : RANK_F + RANK_R + RANK_GATE;
}

// The tables of this layer and the next.
shared uint words[2][kShiftLayerWords];
uint in_table(uint layer, uint which) { return words[layer & 1][which]; }
/// For each matrix the first of this workgroup's rows, and how many.
shared uvec2 own_rows[kShiftMatrixCount];
/// Values of its rows of D: x for those of the output and of `down`; normed x for the next token, of both mixes.
shared float own_values[4][OWN_ROWS];
const uint kOwnX = 0, kOwnMiddle = 1, kOwnMixerShift = 2, kOwnChannelShift = 3;

/// Floats of a token's state before its layer's part `at`.
uint state_at(uint layer, uint at) { return layer * a.layer_stride + token_place * a.layer_floats + at; }
const uint kMixerShift = HEADS * kShiftHead * kShiftHead;  // of the last row in a layer's state
