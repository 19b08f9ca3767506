// SPDX-License-Identifier: Apache-2.0
// Models with random weights, in memory: any shape, any weight type.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/model/config.h"
#include "runtime/model/weights.h"

namespace runnel::test {

/// A configuration and weights that own their bytes. Copies share them.
struct RandomModel {
  ModelConfig config;
  std::shared_ptr<const Weights> weights;
  std::shared_ptr<const void> storage;  // what the weights view
};

/// Which optional parts a random model has besides what its config implies.
struct RandomParts {
  // projections and SwiGLU; rows that do not fit a block get q8_0 or f16
  quant::BlockType linear = quant::BlockType::f32;
  quant::BlockType table = quant::BlockType::f32;  // embeddings and head
  quant::BlockType small = quant::BlockType::f32;  // f_proj, convs and t2r map: f32, f16 or bf16
  bool tied = false;
  bool gate_bias = false;
  bool read_biases = false;
  bool g_norm_weight = true;
};

/// Sets a member of every layer's description.
template <class T>
void set(ModelConfig& config, T LayerSpec::*member, std::type_identity_t<T> value) {
  for (LayerSpec& layer : config.layers) layer.*member = value;
}
/// Types of every layer's mixer.
template <class T>
void set(ModelConfig& config, T MixerSpec::*member, std::type_identity_t<T> value) {
  for (LayerSpec& layer : config.layers) layer.common().*member = value;
}
/// Types of the mixer of every layer of that kind.
template <class T>
void set(ModelConfig& config, T SlotSpec::*member, std::type_identity_t<T> value) {
  for (LayerSpec& layer : config.layers) {
    if (layer.kind() == Mixer::slots) layer.slots().*member = value;
  }
}
template <class T>
void set(ModelConfig& config, T RecurrenceSpec::*member, std::type_identity_t<T> value) {
  for (LayerSpec& layer : config.layers) {
    if (layer.kind() == Mixer::recurrence) layer.recurrence().*member = value;
  }
}
/// The epsilon of every norm but the output's.
void set_norm_eps(ModelConfig& config, float eps);

/// The same model with another number of layers.
void set_layers(ModelConfig& config, std::int32_t count);

/// A small configuration to start from: 2 layers, D 64, 4 query and 2 kv heads of 16, 8 memory
/// slots, FFN 96, vocab 96.
ModelConfig small_config();

/// The same with the 135M's options: 2 sinks, 6 window slots, RoPE, identity maps, scale
/// 0.25, no output norm.
ModelConfig small_positional_config();

/// Names of small models of the family, one for each mixer and map.
std::vector<std::string> family_names();

/// The configuration of such a name: 2 layers, D 64, 4 query heads of 16.
ModelConfig family_config(const std::string& name);

/// Four layers of three kinds: positional slots with biases and a SwiGLU; a gated recurrence with LayerNorms and a
/// squared ReLU; slots of another shape without a channel mix; the first kind again.
ModelConfig mixed_config();

RandomModel make_random_model(const ModelConfig& config, const RandomParts& parts,
                              std::uint64_t seed);

/// A model on a backend, ready to run passes.
struct LoadedModel {
  RandomModel source;
  std::shared_ptr<const ModelConfig> recorded;  // what the pass was recorded from
  std::unique_ptr<DeviceModel> model;
  std::unique_ptr<Plan> plan;

  std::unique_ptr<RecurrentState> state() const;

  /// Feeds `tokens` in pieces of `piece` (0: all at once) and returns all logits [tokens, vocab].
  /// Fails the test on error.
  std::vector<float> run(RecurrentState& state, std::span<const TokenId> tokens,
                         std::size_t piece = 0) const;

  /// The state in canonical layout.
  std::vector<float> canonical(const RecurrentState& state) const;
};

/// What LoadedModel::run does, for whatever `run` runs: a plan, or an engine.
std::vector<float> run_in_pieces(std::int64_t vocab_size, RecurrentState& state,
                                 std::span<const TokenId> tokens, std::size_t piece,
                                 const std::function<Status(std::span<const PlanItem>)>& run);

/// Loads and records; fails the test (and throws) on error.
/// @param step_program  a row of the device's ladder; empty: the best that fits
LoadedModel load_on(Backend& backend, const RandomModel& model, int max_tokens = 256,
                    const std::string& step_program = {});

}  // namespace runnel::test
