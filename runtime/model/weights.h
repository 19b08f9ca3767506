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

/// One block: mixer and SwiGLU. D, HQ, H, K, V, M, I as in ModelConfig.
struct LayerWeights {
  WeightView attn_norm;    // [D]
  WeightView q_proj;       // [HQ*K, D]
  WeightView k_proj;       // [H*K, D]
  WeightView v_proj;       // [H*V, D]
  WeightView f_proj;       // [H*M, D]     row = head * M + slot
  WeightView f_bias;       // [H*M]        optional
  WeightView q_conv;       // [HQ*K, conv] optional, with k_conv and v_conv; last tap = newest token
  WeightView k_conv;       // [H*K, conv]
  WeightView v_conv;       // [H*V, conv]
  WeightView feature_map;  // [K, K]       t2r only
  WeightView read_bias;    // [H, M]       optional, added to memory-slot logits
  WeightView head_read_bias;  // [HQ]         optional, added to memory-slot logits
  WeightView g_norm;          // [HQ*V]       optional weight of the output norm
  WeightView o_proj;          // [D, HQ*V]
  WeightView mlp_norm;        // [D]
  WeightView gate_proj;       // [I, D]
  WeightView up_proj;         // [I, D]
  WeightView down_proj;       // [D, I]
};

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
