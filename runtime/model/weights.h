// SPDX-License-Identifier: Apache-2.0
// The weights of a model as views into its file, with the shapes that the forward pass expects.
// Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "quant/formats.h"

namespace runnel {

/// One tensor inside a mapped file. Row-major [rows, cols]; a vector has rows = 1.
struct WeightView {
  std::string name;
  quant::BlockType type = quant::BlockType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::span<const std::byte>
      data;  // rows * row_bytes(type, cols) bytes; empty: the model has no such tensor

  bool present() const { return !data.empty(); }
};

/// One block: mixer and SwiGLU. D, HQ, H, K, V, M, I as in ModelConfig; F = gate_dim() (M of
/// slots).
struct LayerWeights {
  WeightView attn_norm;  // [D]
  WeightView q_proj;     // [HQ*K, D]
  WeightView k_proj;     // [H*K, D]     none with complement_keys
  WeightView v_proj;     // [H*V, D]
  WeightView f_down;     // [rank, D]    gate_rank > 0
  WeightView f_proj;     // [H*F, D]     row = head * F + slot or channel; [H*F, rank] after f_down
  WeightView f_bias;     // [H*F]        optional
  WeightView r_proj;     // [H*F, D]     Decay::refined
  WeightView r_bias;     // [H*F]        Decay::refined
  WeightView lower_bound;  // [H*F]        optional
  WeightView out_gate;     // [HQ*V, D]    output_gate
  WeightView q_conv;       // [HQ*K, conv] optional, with k_conv and v_conv; last tap = newest token
  WeightView k_conv;       // [H*K, conv]
  WeightView v_conv;       // [H*V, conv]
  WeightView feature_map;  // [K, K]       t2r of slots
  WeightView q_map;        // [K, K]       t2r, product, hedgehog of a recurrence
  WeightView q_map_bias;   // [K]          product, hedgehog
  WeightView q_map2;       // [K, K]       product
  WeightView q_map2_bias;  // [K]          product
  WeightView k_map;        // the same for keys
  WeightView k_map_bias;
  WeightView k_map2;
  WeightView k_map2_bias;
  WeightView read_bias;       // [H, M]       optional, added to memory-slot logits
  WeightView head_read_bias;  // [HQ]         optional, added to memory-slot logits
  WeightView g_norm;          // [HQ*V]       optional weight of the output norm; [V] if per head
  WeightView o_proj;          // [D, HQ*V]
  WeightView mlp_norm;        // [D]
  WeightView gate_proj;       // [I, D]
  WeightView up_proj;         // [I, D]
  WeightView down_proj;       // [D, I]
};

/// Every tensor that a layer can have.
inline constexpr WeightView LayerWeights::*kLayerViews[] = {
    &LayerWeights::attn_norm,      &LayerWeights::q_proj,      &LayerWeights::k_proj,
    &LayerWeights::v_proj,         &LayerWeights::f_down,      &LayerWeights::f_proj,
    &LayerWeights::f_bias,         &LayerWeights::r_proj,      &LayerWeights::r_bias,
    &LayerWeights::lower_bound,    &LayerWeights::out_gate,    &LayerWeights::q_conv,
    &LayerWeights::k_conv,         &LayerWeights::v_conv,      &LayerWeights::feature_map,
    &LayerWeights::q_map,          &LayerWeights::q_map_bias,  &LayerWeights::q_map2,
    &LayerWeights::q_map2_bias,    &LayerWeights::k_map,       &LayerWeights::k_map_bias,
    &LayerWeights::k_map2,         &LayerWeights::k_map2_bias, &LayerWeights::read_bias,
    &LayerWeights::head_read_bias, &LayerWeights::g_norm,      &LayerWeights::o_proj,
    &LayerWeights::mlp_norm,       &LayerWeights::gate_proj,   &LayerWeights::up_proj,
    &LayerWeights::down_proj};

/// All weights. `head` views the same bytes as `embeddings` when they are tied.
struct Weights {
  WeightView embeddings;  // [vocab, D]
  std::vector<LayerWeights> layers;
  WeightView final_norm;  // [D]
  WeightView head;        // [vocab, D]

  /// A backend that has copied bytes tells their owner, who may then give their memory back. They
  /// stay readable. May be empty.
  std::function<void(std::span<const std::byte>)> release;

  bool tied() const { return head.data.data() == embeddings.data.data(); }
};

}  // namespace runnel
