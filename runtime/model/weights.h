// SPDX-License-Identifier: Apache-2.0
// The weights of a model as views into its file, with the shapes that the forward pass expects. Plain data.
//
// D, HQ, H, K, V, M, I as in LayerSpec; F = gate_dim() (M for slots), R = rate_dim(). With values_per_key() state heads
// that share keys, q has HQ*K and k H*K channels divided by it. A view without data: the model has no such tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "quant/formats.h"

namespace runnel {

/// One tensor inside a mapped file. Row-major [rows, cols]; a vector has rows = 1.
struct WeightView {
  std::string name;
  quant::BlockType type = quant::BlockType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  // rows * row_bytes(type, cols) bytes; empty: the model has no such tensor
  std::span<const std::byte> data;

  bool present() const { return !data.empty(); }
};

/// A norm over D channels.
struct NormWeights {
  WeightView weight;  // [D]
  WeightView bias;    // [D]  Norm::layer
};

/// What every mixer makes of the normed input.
struct ProjectionWeights {
  NormWeights norm;
  WeightView q_proj;  // [HQ*K, D]
  WeightView q_bias;  // [HQ*K]       qkv_bias
  WeightView k_proj;  // [H*K, D]     none with complement_keys
  WeightView k_bias;  // [H*K]        qkv_bias
  WeightView v_proj;  // [H*V, D]
  WeightView v_bias;  // [H*V]        qkv_bias
  WeightView f_proj;  // [H*F, D]     row = head * F + slot or channel; [H*F, rank] after f_down
  WeightView f_bias;  // [H*F]        optional
  WeightView q_conv;  // [HQ*K, conv] optional, with k_conv and v_conv; last tap = newest token
  WeightView k_conv;  // [H*K, conv]
  WeightView v_conv;  // [H*V, conv]
};

/// Mixer::slots.
struct SlotWeights : ProjectionWeights {
  WeightView feature_map;     // [K, K]  t2r
  WeightView read_bias;       // [H, M]  optional, added to memory-slot logits
  WeightView head_read_bias;  // [HQ]    optional, added to memory-slot logits
};

/// Mixer::recurrence.
struct RecurrenceWeights : ProjectionWeights {
  WeightView f_down;       // [rank, D]  gate_rank > 0
  WeightView r_proj;       // [H*R, D]   Decay::refined, removals; [H*R, rank] after r_down
  WeightView r_bias;       // [H*R]      Decay::refined, Removal::own_key
  WeightView lower_bound;  // [H*F]      lower_bound
  WeightView log_rate;     // [H]        Decay::softplus: A
  WeightView out_gate;     // [HQ*V, D]  output_gate; [HQ*V, rank] after out_gate_down
  WeightView q_map;        // [K, K]     t2r, product, hedgehog
  WeightView q_map_bias;   // [K]        product, hedgehog
  WeightView q_map2;       // [K, K]     product
  WeightView q_map2_bias;  // [K]        product
  WeightView k_map;        // the same for keys
  WeightView k_map_bias;
  WeightView k_map2;
  WeightView k_map2_bias;

  WeightView removal_key;  // [H*K]   Removal::own_key: w_c
  WeightView key_rate;     // [H*K]   Removal::own_key: w_k
  WeightView bonus;        // [HQ*K]  bonus
  // Shifted projections: f_down and these.
  WeightView lerp;           // [5 or 6, D]  how far each input lies towards the token before
  WeightView r_down;         // [rank, D]
  WeightView out_gate_down;  // [rank, D]    output_gate
  WeightView v_down;         // [rank, D]    value_rank > 0
  WeightView v_mix;          // [H*V, rank]
  WeightView v_mix_bias;     // [H*V]
};

/// From the mixer's output back to the residual stream.
struct OutputWeights {
  WeightView g_norm;       // [HQ*V]  optional weight of the output norm; [V] if per head
  WeightView g_norm_bias;  // [HQ*V]  OutputNorm::groups
  WeightView o_proj;       // [D, HQ*V]
};

struct ChannelMixWeights {
  NormWeights norm;
  WeightView lerp;       // [D]     channel_shift
  WeightView gate_proj;  // [I, D]  ChannelMix::swiglu
  WeightView up_proj;    // [I, D]
  WeightView down_proj;  // [D, I]
};

/// One layer.
struct LayerWeights {
  std::variant<SlotWeights, RecurrenceWeights> mixer;
  OutputWeights output;
  ChannelMixWeights channel_mix;  // nothing without a channel mix

  /// The mixer's own weights; the layer must have this kind.
  const SlotWeights& slots() const { return std::get<SlotWeights>(mixer); }
  SlotWeights& slots() { return std::get<SlotWeights>(mixer); }
  const RecurrenceWeights& recurrence() const { return std::get<RecurrenceWeights>(mixer); }
  RecurrenceWeights& recurrence() { return std::get<RecurrenceWeights>(mixer); }
  /// What both kinds have.
  const ProjectionWeights& projections() const {
    return std::visit([](const auto& m) -> const ProjectionWeights& { return m; }, mixer);
  }
  ProjectionWeights& projections() {
    return std::visit([](auto& m) -> ProjectionWeights& { return m; }, mixer);
  }
};

/// Calls visit(WeightView&) for every tensor that the layer can have, present or not. `Layer` is LayerWeights or const.
template <class Layer, class Visit>
void for_each_view(Layer& layer, const Visit& visit) {
  auto& p = layer.projections();
  for (auto* view : {&p.norm.weight, &p.norm.bias, &p.q_proj, &p.q_bias, &p.k_proj, &p.k_bias,
                     &p.v_proj, &p.v_bias, &p.f_proj, &p.f_bias, &p.q_conv, &p.k_conv, &p.v_conv}) {
    visit(*view);
  }
  if (auto* s = std::get_if<SlotWeights>(&layer.mixer)) {
    for (auto* view : {&s->feature_map, &s->read_bias, &s->head_read_bias}) visit(*view);
  }
  if (auto* r = std::get_if<RecurrenceWeights>(&layer.mixer)) {
    for (auto* view : {&r->lerp, &r->r_down, &r->out_gate_down, &r->v_down, &r->v_mix,
                       &r->v_mix_bias, &r->log_rate, &r->removal_key, &r->key_rate, &r->bonus}) {
      visit(*view);
    }
    for (auto* view : {&r->f_down, &r->r_proj, &r->r_bias, &r->lower_bound, &r->out_gate, &r->q_map,
                       &r->q_map_bias, &r->q_map2, &r->q_map2_bias, &r->k_map, &r->k_map_bias,
                       &r->k_map2, &r->k_map2_bias}) {
      visit(*view);
    }
  }
  auto& c = layer.channel_mix;
  for (auto* view :
       {&layer.output.g_norm, &layer.output.g_norm_bias, &layer.output.o_proj, &c.norm.weight,
        &c.norm.bias, &c.lerp, &c.gate_proj, &c.up_proj, &c.down_proj}) {
    visit(*view);
  }
}

/// All weights. `head` views the same bytes as `embeddings` when they are tied.
struct Weights {
  WeightView embeddings;  // [vocab, D]
  NormWeights embedding_norm;
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  WeightView head;  // [vocab, D]

  /// For a backend that has copied bytes: their owner may give their memory back now. They stay readable.
  /// May be empty.
  std::function<void(std::span<const std::byte>)> release;

  bool tied() const { return head.data.data() == embeddings.data.data(); }
};

}  // namespace runnel
