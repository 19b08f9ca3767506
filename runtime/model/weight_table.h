// SPDX-License-Identifier: Apache-2.0
// The tensors that a model of a given configuration consists of: name, shape and role. The only such table, for
// loading and converting.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"
#include "runtime/model/config.h"
#include "runtime/model/weights.h"

namespace runnel {

/// What a tensor is for, which decides the storage types it may have.
enum class WeightRole {
  embedding,  // token table and output head: any type
  matrix,     // a linear layer: any type
  gate,       // the slot gate: 16 or 32 bit, because its error is multiplied by every later token
  wide_gate,  // a gate of every channel, as large as a projection: any type, stored as an embedding
  low_rank,  // the two matrices of a gate of low rank beside shifted projections: any type, stored as a gate
  small,   // conv taps and the t2r map: 16 or 32 bit
  vector,  // norms and biases: f32
};

/// The role in words for messages ("linear weight").
const char* to_string(WeightRole role);

/// Whether a tensor of `role` may be stored as `type`.
bool role_allows(WeightRole role, quant::BlockType type);

/// The allowed types in words for messages ("f32, f16 or bf16").
std::string allowed_types(WeightRole role);

enum class Presence { required, optional, absent };

/// One tensor of a layer; `suffix` follows "model.layers.N.".
struct LayerTensor {
  std::string_view suffix;
  WeightView& (*view)(LayerWeights& layer);  // where it lies in weights of the layer's mixer
  WeightRole role;
  Presence presence;
  // Row-major, as in the file but for dimensions of 1: 1 or 2 of them.
  std::vector<std::int64_t> shape;

  const WeightView& view_of(const LayerWeights& layer) const {
    return view(const_cast<LayerWeights&>(layer));
  }
};

/// All tensors that a layer of this description can have, in the order of the forward pass. `layer` must have passed
/// check_config.
std::vector<LayerTensor> layer_tensors(const LayerSpec& layer, std::int32_t hidden_size);

/// Weights of the layer's mixer, all absent.
LayerWeights empty_weights(const LayerSpec& layer);

/// "model.layers.7." for layer 7.
std::string layer_prefix(std::int32_t layer);

inline constexpr std::string_view kEmbeddingsName = "model.embeddings.weight";
inline constexpr std::string_view kEmbeddingNormName = "model.embedding_norm.weight";
inline constexpr std::string_view kEmbeddingNormBiasName = "model.embedding_norm.bias";
inline constexpr std::string_view kFinalNormName = "model.norm.weight";
inline constexpr std::string_view kFinalNormBiasName = "model.norm.bias";
inline constexpr std::string_view kHeadName = "lm_head.weight";

/// Key: whether the head is the embedding, so that a lost head is not mistaken for a tied one.
inline constexpr std::string_view kTiedKey = "gsa.tie_word_embeddings";

/// Checks every number against its documented range, so that no size computed from a checked configuration overflows.
/// @return malformed, naming the key, its value and the range.
Status check_config(const ModelConfig& config);

/// Makes the model of `count` layers like `layer`. @return malformed for a count outside 1 to 4096
Status repeat_layers(const LayerSpec& layer, std::int64_t count, ModelConfig& config);

/// Whether config_to_gguf writes this key.
bool is_config_key(std::string_view key);

/// The values of general.architecture that can be read; the first is that of slots.
std::span<const std::string_view> architectures();

/// "[576, 1536]" for messages.
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace runnel
