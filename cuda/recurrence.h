// SPDX-License-Identifier: Apache-2.0
// Host-callable launchers of the gated recurrence (recurrence_features.cu, recurrence_gates.cu,
// recurrence_step.cu, gated_recurrence.cu, recurrence_output.cu). Nothing here owns memory; every
// pointer is a device pointer. Shapes as in launch.h; K' features of a key, F gate logits of a kv
// head, A decays of a kv head, C columns of a state (V, one more with a normalizer).
#pragma once

#include "cuda/launch.h"
#include "runtime/model/layer_spec.h"

namespace runnel::cuda {

/// Where a row of a pass's inputs has what, in floats; -1: nowhere.
struct RecurrenceColumns {
  std::int32_t q = -1, k = -1, v = -1, f = -1, low = -1, r = -1, gate = -1;
  // of shifted projections: what is between two products of low rank, and the mix of values
  std::int32_t low_r = -1, low_gate = -1, low_v = -1, v_mix = -1;
  std::int32_t stride = 0;
};

/// The matrices of a feature map, [K, K] and [K]; null where it has none.
struct RecurrenceMap {
  const float* first = nullptr;
  const float* first_bias = nullptr;
  const float* second = nullptr;
  const float* second_bias = nullptr;
};

/// One layer: constants, weights, buffers.
struct Recurrence {
  std::int32_t heads, kv_heads, k_dim, features, v_dim, columns;
  std::int32_t slots;   // 0: one pass
  std::int32_t gates;   // F
  std::int32_t decays;  // A: the rows of the state, or its columns with decay_on_values; 0: none
  Decay decay;
  FeatureMap map;
  bool decay_on_values, complement_keys, rotary, norm_q, norm_k, normalizer, conv_silu;
  std::int32_t rank;
  float scale, tau, floor, clamp_min, clamp_max;
  const float* f_up;         // [H*F, rank] or null
  const float* f_bias;       // [H*F] or null
  const float* r_bias;       // [H*F] or null
  const float* lower_bound;  // [H*F] or null
  RecurrenceMap q_map, k_map;
  const double* turns;  // [K/2] rotary turns per token; null without rotation
  std::int32_t conv;    // taps, 0: none
  const float* q_conv;
  const float* k_conv;  // of f with complement_keys
  const float* v_conv;
  std::size_t layer_offset, head_floats, values_offset, extra_offset, conv_offset;  // in the state
  const float* inputs;  // [T, at.stride]
  RecurrenceColumns at;
  float* mixed;    // [T, at.stride] inputs after the convolutions; the inputs themselves without
  float* q;        // [T, HQ, K']
  float* k;        // [T, H, K' or M]: keys, or what the slots take in
  float* k_slots;  // [T, H, K] keys of a model with slots
  float* a;        // [T, H, A]
  float* p;        // [T, HQ, M]
  float* o;        // [T, HQ, C]
  // Exponential keys only:
  float* maxima;  // [T, H] largest channel of a token's key
  float* before;  // [segments, H] m before the pass
  int* arrived;   // [segments, H] of this layer, zeros between passes: blocks that have read m
};

/// inputs -> mixed, and the tails; nothing without convolutions.
cudaError_t recurrence_convolutions(const Launch&, const Recurrence&, const Segment* segments,
                                    int num_segments, int tokens);
/// mixed -> q, k, a: low rank, features, rotations, decays, and what runs from token to token.
cudaError_t recurrence_features(const Launch&, const Recurrence&, const Segment* segments,
                                int num_segments, int tokens);
/// Its parts that run from token to token: a <- decays of slots, k <- what they take in; m of
/// exponential keys, k <- their exponentials, a by their maximum.
cudaError_t running_sums(const Launch&, const Recurrence&, const Segment* segments,
                         int num_segments);
cudaError_t running_maxima(const Launch&, const Recurrence&, const Segment* segments,
                           int num_segments, int tokens);
/// All of that and the recurrence in one kernel, for few tokens; where it fits.
cudaError_t recurrence_step(const Launch&, const Recurrence&, const Segment* segments,
                            int num_segments);
bool recurrence_step_fits(const Recurrence&);

/// Whether features are a map by matrices and nothing else, so that they can be made by
/// map_vectors, or as a product of split_map's operands that combine_map takes in.
bool recurrence_maps_apart(const Recurrence&);
cudaError_t map_vectors(const Launch&, const Recurrence&, int tokens);
/// rows bf16 [T heads, 3 K]; weights bf16 [K, or 2 K of two matrices, 3 K].
cudaError_t split_map(const Launch&, const Recurrence&, bool key, int tokens, std::uint16_t* rows,
                      std::uint16_t* weights);
/// products f32 [T heads, K or 2 K] -> q or k
cudaError_t combine_map(const Launch&, const Recurrence&, bool key, int tokens,
                        const float* products);

/// Whether slots with a running sum are a slot mixer whose gates depend on the tokens before.
bool recurrence_is_slots(const Recurrence&);
/// Makes q, k, v, f of `mixed`, which lie in this order, its prepared inputs: q and k mapped and
/// rotated, f = log alpha; the running sums of the state advance.
cudaError_t recurrence_slot_inputs(const Launch&, const Recurrence&, const Segment* segments,
                                   int num_segments, int tokens);

/// The recurrence itself, f32: the state in registers, a block 16 of its columns.
cudaError_t gated_recurrence(const Launch&, const Recurrence&, const Segment* segments,
                             int num_segments, int tokens);
/// Whether a column of the state fits the registers of a block's threads.
bool gated_recurrence_fits(const Recurrence&);

/// y = norm(o / normalizer) * swish(gate), f32 [T, HQ*V]
struct RecurrenceOutput {
  const float* o = nullptr;  // [T, HQ, C]
  std::int32_t heads = 0, v_dim = 0, columns = 0;
  bool normalizer = false, normalise = false, per_head = false;
  float eps = 0.0F;
  const float* weight = nullptr;
  const float* gate = nullptr;  // [T, gate_stride] or null
  std::int32_t gate_stride = 0;
  float* y = nullptr;               // or
  std::uint16_t* y_bf16 = nullptr;  // [T, y_stride]
  std::int32_t y_stride = 0;
};
cudaError_t recurrence_output(const Launch&, const RecurrenceOutput&, int tokens);

}  // namespace runnel::cuda
