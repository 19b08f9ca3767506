// SPDX-License-Identifier: Apache-2.0
// What decode_step and decode_even are told of a model, and where they put what its layers hand each other.

layout(local_size_x_id = 2) in;
layout(set = 0, binding = 2) readonly buffer Vectors { float v[]; } vectors;
layout(set = 0, binding = 2) readonly buffer Vectors4 { vec4 v[]; } vectors4;
layout(set = 0, binding = 3) readonly buffer Table { uint v[]; } table;  // StepLayer of each layer
layout(set = 0, binding = 4) readonly buffer Pass4 { uvec4 word[]; } pass4;
#include "step/token.glsl"
#include "step/begin.glsl"

layout(constant_id = 3) const uint D = 32;
layout(constant_id = 4) const uint INNER = 32;
layout(constant_id = 5) const uint K = 4;
layout(constant_id = 6) const uint V = 4;
layout(constant_id = 7) const uint MEMORY = 1;
layout(constant_id = 8) const uint SINKS = 0;
layout(constant_id = 9) const uint WINDOW = 0;
layout(constant_id = 10) const uint G = 1;
layout(constant_id = 11) const uint H = 1;
layout(constant_id = 12) const uint PARTS = 1;
layout(constant_id = 13) const uint OTHER = 32;  // the wider of the slots' output and INNER
layout(constant_id = 14) const uint KEY_ACTIVATION = kIdentity;
layout(constant_id = 15) const uint VALUE_ACTIVATION = kIdentity;
layout(constant_id = 16) const uint OUT_ACTIVATION = kIdentity;
layout(constant_id = 17) const uint OUT_NORM = 0;
layout(constant_id = 19) const uint IN_TURNS = 0;  // a software driver runs a workgroup's subgroups barrier by barrier
layout(constant_id = 20) const uint LAYERS = 1;
layout(constant_id = 21) const uint GROUPS = 1;
layout(constant_id = 22) const uint GATES = 0;  // 1: f is a matrix of its own
layout(constant_id = 24) const uint QUERIES = 1;  // of a kv head that a workgroup takes: a divisor of G

const uint kSlots = SINKS + WINDOW + MEMORY;
const uint kPositional = SINKS + WINDOW;
const bool kRotary = kPositional > 0;
const uint kProjected = G * H * K + H * K + H * V + H * MEMORY;  // columns q k v f
const uint kOut = G * H * V;

// Places of a layer's activations, in words; each a multiple of 4.
const uint kAtProjected = 0;
const uint kAtOut = (kProjected + 3) / 4 * 4;
const uint kAtMiddle = kAtOut + kOut;  // x after the slots
const uint kAtHidden = kAtMiddle + D;
const uint kAtX = kAtHidden + INNER;
const uint kLayerPlaces = kAtX + D;

shared uint layers_[LAYERS * kStepLayerWords];
uint in_table(uint layer, uint which) { return layers_[layer * kStepLayerWords + which]; }
/// Copies the table into shared memory; a barrier must follow.
void load_table() {
  for (uint n = 0; n < LAYERS * kStepLayerWords; n += THREADS) {
    if (n + THREAD < LAYERS * kStepLayerWords) layers_[n + THREAD] = table.v[n + THREAD];
  }
}
