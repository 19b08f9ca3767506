// SPDX-License-Identifier: Apache-2.0
// decode_even: the gates where f is a matrix of its own, of 16-bit values. Its rows divide evenly, too, and come beside those
// of q k v: a lane multiplies the columns of x that it takes for its subgroup, in f32, before they are rounded.

layout(constant_id = 25) const uint F_TYPE = kStepF16;

layout(buffer_reference, std430, buffer_reference_align = 8) volatile readonly buffer Words2 { uvec2 w[]; };

/// Where a lane's columns of its first row lie, and of its last; others are at constant distances of the first.
struct GatesAt {
  Words2 at;
  Words2 end;
};
/// `exists`: whether there is such a layer. If not, all lanes have the same, as those of subgroups without columns.
GatesAt find_gates(uint layer, bool exists) {
  GatesAt found;
  const uint way = WARP / kSlices0, slice = WARP - way * kSlices0;
  const uint first = 2 * in_table(layer, kStepGates) + gl_WorkGroupID.x * (kGateRows * (D / 4));
  const uint column = vector_at(slice * (kSlice0 / 4), 0, kVectors0, D, kMissing0);
  const uint last = min((kGateTurns - 1) * kWays0 + way, kGateRows - 1);
  bool real = exists;
  if (kSlices0 * kWays0 < kWarps) real = exists && way < kWays0;
  found.at = Words2(weights_plus(8 * (real ? first + way * (D / 4) + column : first)));
  found.end = Words2(weights_plus(8 * (real ? first + last * (D / 4) + column : first)));
  return found;
}
/// Asks for them, [kGateTurns][kVectors0].
void ask_gates(const GatesAt found, inout uvec2 gates[8]) {
  [[unroll]] for (uint turn = 0; turn < kGateTurns; ++turn) {
    [[unroll]] for (uint j = 0; j < kVectors0; ++j) {
      const uint step = vector_of(j, kVectors0) - vector_of(0, kVectors0);
      if (turn + 1 < kGateTurns) {
        gates[turn * kVectors0 + j] = found.at.w[turn * (kWays0 * (D / 4)) + step];
      } else {
        gates[turn * kVectors0 + j] = found.end.w[step];
      }
    }
  }
}

float gate_sum(uvec2 w, vec4 x) {
  const vec4 f = short_values(w, F_TYPE);
  precise float sum = fma(f.w, x.w, fma(f.z, x.z, fma(f.y, x.y, f.x * x.x)));
  return sum;
}
/// Products with the columns of a slice, v [kVectors0], to where publish_projected() adds them up.
void sum_gates(const uvec2 gates[8], const vec4 v[4], uint way, uint slice) {
  float sums[8];
  [[unroll]] for (uint turn = 0; turn < 8; ++turn) sums[turn] = 0.0;
  [[unroll]] for (uint turn = 0; turn < kGateTurns; ++turn) {
    [[unroll]] for (uint j = 0; j < kVectors0; ++j) sums[turn] += gate_sum(gates[turn * kVectors0 + j], v[j]);
  }
  add_lanes(sums, kGateSums, kLanes, LANE);
  const uint turn = LANE / (kLanes / kGateSums);
  even_parts[slice * kRoom0 + (kRoom0 - kGateRoom) + turn * kWays0 + way] = sums[0];
}
