// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "quant/quantise.h"
#include "runtime/model/forward.h"
#include "runtime/model/weight_table.h"
#include "tests/support/random.h"
#include "tests/support/random_blocks.h"

namespace runnel::test {
namespace {

using quant::BlockType;

/// Storage of all tensors of one model.
using Arena = std::vector<std::vector<std::byte>>;

/// The type a row of `cols` values can have: 256-wide blocks fall back to 32-wide ones, those to f16.
BlockType fitting(BlockType type, std::int64_t cols) {
  while (cols % quant::format_of(type).block_values != 0)
    type = quant::format_of(type).for_odd_rows;
  return type;
}

class Builder {
 public:
  explicit Builder(std::uint64_t seed) : random_(seed), arena_(std::make_shared<Arena>()) {}

  WeightView tensor(const std::string& name, BlockType wanted, std::int64_t rows, std::int64_t cols,
                    float scale, float offset = 0.0F) {
    std::vector<float> values = random_.normals(static_cast<std::size_t>(rows * cols), scale);
    for (float& v : values) v += offset;
    const BlockType type = fitting(wanted, cols);
    const quant::BlockTraits& format = quant::format_of(type);
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * quant::row_bytes(type, cols));
    if (quant::is_written(format)) {
      const Status done = quant::quantize_rows(type, values, cols, bytes);
      if (!done) throw std::runtime_error(done.error().message);
    } else {
      bytes =
          quant::scaled_blocks(type, bytes.size() / static_cast<std::size_t>(format.block_bytes),
                               std::bit_cast<std::uint32_t>(values.front()), scale);
    }
    arena_->push_back(std::move(bytes));
    return {.name = name, .type = type, .rows = rows, .cols = cols, .data = arena_->back()};
  }

  WeightView matrix(const std::string& name, BlockType type, std::int64_t rows, std::int64_t cols,
                    float gain = 1.0F) {
    return tensor(name, type, rows, cols, gain / std::sqrt(static_cast<float>(cols)));
  }

  WeightView norm(const std::string& name, std::int64_t cols) {
    return tensor(name, BlockType::f32, 1, cols, 0.1F, 1.0F);
  }

  std::shared_ptr<Arena> arena() { return arena_; }

 private:
  Random random_;
  std::shared_ptr<Arena> arena_;
};

}  // namespace

void set_norm_eps(ModelConfig& config, float eps) {
  config.final_norm.eps = eps;
  for (LayerSpec& layer : config.layers) layer.norm.eps = layer.channel_norm.eps = eps;
}

void set_layers(ModelConfig& config, std::int32_t count) {
  config.repeat(LayerSpec(config.layers.front()), count);
}

namespace {

LayerSpec small_layer() {
  LayerSpec layer;
  layer.num_heads = 4;
  layer.num_kv_heads = 2;
  layer.head_k_dim = 16;
  layer.head_v_dim = 16;
  layer.intermediate_size = 96;
  layer.slots().num_memory_slots = 8;
  return layer;
}

}  // namespace

ModelConfig small_config() {
  ModelConfig c;
  c.name = "random";
  c.vocab_size = 96;
  c.hidden_size = 64;
  c.repeat(small_layer(), 2);
  return c;
}

ModelConfig small_positional_config() {
  ModelConfig c = small_config();
  LayerSpec layer = small_layer();
  SlotSpec& slots = layer.slots();
  slots.num_sink_slots = 2;
  slots.num_window_slots = 6;
  slots.sink_distance = 8;
  slots.rope_theta = 100000.0;
  slots.scale = 0.25F;
  slots.gate_log_min = -1.2F;
  slots.feature_map = FeatureMap::identity;
  slots.value_activation = Activation::identity;
  layer.output_activation = Activation::identity;
  layer.output_norm = OutputNorm::none;
  c.repeat(layer, 2);
  set_norm_eps(c, 1e-5F);
  return c;
}

ModelConfig mixed_config() {
  ModelConfig c = small_positional_config();
  set(c, &LayerSpec::qkv_bias, true);
  const LayerSpec slots = c.layers.front();
  LayerSpec recurrence = family_config("gla").layers.front();
  recurrence.norm.kind = recurrence.channel_norm.kind = Norm::layer;
  recurrence.channel_mix = ChannelMix::squared_relu;
  recurrence.intermediate_size = 160;
  LayerSpec bare = small_layer();
  bare.num_heads = bare.num_kv_heads = 2;
  bare.head_k_dim = bare.head_v_dim = 32;
  bare.slots().num_memory_slots = 20;
  bare.channel_mix = ChannelMix::none;
  bare.intermediate_size = 0;
  c.layers = {slots, recurrence, bare, slots};
  for (std::size_t i = 0; i < c.layers.size(); ++i) c.layers[i].index = static_cast<int>(i);
  c.architecture = "gla";
  c.final_norm = c.layers.back().norm;
  return c;
}

std::vector<std::string> family_names() {
  return {"gla",       "gla_conv",  "hgrn2",          "retnet", "linear",   "elu",
          "dpfp",      "t2r_map",   "hedgehog",       "abc",    "abc_conv", "regla",
          "regla_key", "delta_net", "gated_deltanet", "rwkv7",  "arwkv7"};
}

namespace {

/// The delta rule: plain with maps of its own, or with a decay, keys that heads share, and convolutions.
ModelConfig delta_config(const std::string& name) {
  ModelConfig c = small_config();
  c.architecture = name;
  LayerSpec layer = small_layer();
  RecurrenceSpec& r = layer.mixer.emplace<RecurrenceSpec>();
  layer.num_kv_heads = layer.num_heads;
  layer.head_v_dim = 24;
  layer.output_activation = Activation::identity;
  layer.output_norm = OutputNorm::heads;
  r.removal = Removal::delta;
  r.scale = 0.25F;
  if (name == "delta_net") {
    r.feature_map = FeatureMap::elu;
    r.key_norm = KeyNorm::sum;
    r.value_activation = Activation::swish;
    r.removal_scale = 2.0F;
    layer.output_gate = true;
  } else {
    r.feature_map = FeatureMap::identity;
    r.key_norm = KeyNorm::length;
    r.decay = Decay::softplus;
    r.values_per_key = 2;
    layer.conv_size = 3;
  }
  c.repeat(layer, 2);
  return c;
}

/// Shifted projections, and a channel mix that is shifted too or a SwiGLU; without a norm and gate of the output.
ModelConfig shifted_family_config(const std::string& name) {
  ModelConfig c = small_config();
  c.architecture = name;
  LayerSpec layer = small_layer();
  RecurrenceSpec& r = layer.mixer.emplace<RecurrenceSpec>();
  layer.num_kv_heads = layer.num_heads;
  layer.mixer_shift = c.hidden_size;
  layer.output_activation = layer.gate_activation = Activation::identity;
  layer.output_norm = OutputNorm::none;
  r.feature_map = FeatureMap::identity;
  r.removal = Removal::own_key;
  r.decay = Decay::bounded;
  r.bonus = true;
  r.gate_rank = 8;
  r.rate_rank = 6;
  if (name == "rwkv7") {
    layer.norm.kind = layer.channel_norm.kind = Norm::layer;
    layer.output_norm = OutputNorm::groups;
    layer.output_norm_eps = 16e-5F;
    layer.output_gate = true;
    r.output_gate_rank = 10;
    layer.channel_mix = ChannelMix::squared_relu;
    layer.channel_shift = c.hidden_size;
    c.embedding_norm = layer.norm;
  }
  c.repeat(layer, 2);
  c.layers[0].recurrence().first_values = true;
  c.layers[1].recurrence().value_rank = 5;
  c.final_norm = layer.norm;
  return c;
}

}  // namespace

ModelConfig family_config(const std::string& name) {
  if (name.ends_with("rwkv7")) return shifted_family_config(name);
  if (name.starts_with("delta") || name.starts_with("gated_delta")) return delta_config(name);
  ModelConfig c = small_config();
  c.architecture = "linear_attn";
  LayerSpec layer = small_layer();
  RecurrenceSpec& r = layer.mixer.emplace<RecurrenceSpec>();
  layer.head_v_dim = 24;  // no multiple of 16
  r.scale = 0.25F;
  r.feature_map = FeatureMap::identity;
  layer.output_activation = Activation::identity;
  layer.output_norm = OutputNorm::heads;
  if (name.starts_with("gla")) {
    c.architecture = "gla";
    r.decay = Decay::log_sigmoid;
    r.gate_rank = 8;
    r.gate_normalizer = 16.0F;
    r.gate_log_min = -0.15F;
    layer.output_gate = true;
    if (name == "gla_conv") layer.conv_size = 4, r.feature_map = FeatureMap::relu;
  } else if (name == "hgrn2") {
    c.architecture = name;
    r.decay = Decay::log_sigmoid;
    r.gate_normalizer = 1.0F;
    layer.num_kv_heads = layer.num_heads;
    r.complement_keys = r.lower_bound = true;
    r.feature_map = FeatureMap::swish;
    layer.output_norm = OutputNorm::channels;
    layer.conv_size = 3, layer.conv_silu = false;
  } else if (name == "retnet") {
    c.architecture = name;
    r.decay = Decay::fixed;
    layer.num_kv_heads = layer.num_heads;
    layer.head_v_dim = 32;
    r.rotary = layer.output_gate = true;
  } else if (name == "linear") {
    r.feature_map = FeatureMap::product;
  } else if (name == "elu") {
    r.feature_map = FeatureMap::elu;
    r.normalizer = r.feature_norm_q = r.feature_norm_k = true;
    layer.head_v_dim = 32;  // the normalizer's column begins a block of its own
  } else if (name == "dpfp") {
    r.feature_map = FeatureMap::dpfp;
  } else if (name == "t2r_map") {
    r.feature_map = FeatureMap::t2r;
  } else if (name == "hedgehog") {
    r.feature_map = FeatureMap::hedgehog;
    r.normalizer = true;
  } else if (name.starts_with("abc")) {
    c.architecture = "abc";
    r.decay = Decay::running_sum;
    r.num_memory_slots = 10;
    r.gate_logit_min = -5.0F, r.gate_logit_max = 5.0F;
    r.rotary = layer.output_gate = true;
    if (name == "abc_conv") layer.conv_size = 4;
  } else {
    c.architecture = "regla";
    r.decay = Decay::refined;
    r.feature_map = FeatureMap::exponential;
    r.decay_on_values = name == "regla";
    r.scale = 0.03F;
  }
  c.repeat(layer, 2);
  return c;
}

namespace {

/// A layer by the table of its tensors.
LayerWeights random_layer(const LayerSpec& c, std::int32_t hidden_size, const RandomParts& parts,
                          Builder& b) {
  LayerWeights w = empty_weights(c);
  for (const LayerTensor& t : layer_tensors(c, hidden_size)) {
    const std::string name(t.suffix);
    const bool weight = name.find("norm.weight") != std::string::npos;
    const std::int64_t rows = t.shape.size() == 2 ? t.shape[0] : 1, cols = t.shape.back();
    WeightView& view = t.view(w);
    if (t.role == WeightRole::vector) {
      view = weight                       ? b.norm(name, cols)
             : name == "attn.lower_bound" ? b.tensor(name, BlockType::f32, 1, cols, 0.05F, 0.4F)
                                          : b.tensor(name, BlockType::f32, rows, cols, 0.5F);
      continue;
    }
    const bool wide = t.role == WeightRole::matrix || t.role == WeightRole::wide_gate;
    view = b.matrix(name, wide ? parts.linear : parts.small, rows, cols, 1.5F);
  }
  return w;
}

void add_bias(Builder& b, const std::string& name, std::int64_t n, bool there, WeightView& view) {
  if (there) view = b.tensor(name, BlockType::f32, 1, n, 0.5F);
}

ChannelMixWeights random_channel_mix(const LayerSpec& c, std::int64_t d, const RandomParts& parts,
                                     Builder& b) {
  ChannelMixWeights w;
  if (c.channel_mix == ChannelMix::none) return w;
  w.norm.weight = b.norm("mlp_norm", d);
  add_bias(b, "mlp_norm.bias", d, c.channel_norm.kind == Norm::layer, w.norm.bias);
  add_bias(b, "mlp.lerp", d, c.channel_shift > 0, w.lerp);
  if (c.channel_mix == ChannelMix::swiglu)
    w.gate_proj = b.matrix("gate_proj", parts.linear, c.intermediate_size, d);
  w.up_proj = b.matrix("up_proj", parts.linear, c.intermediate_size, d);
  w.down_proj = b.matrix("down_proj", parts.linear, d, c.intermediate_size);
  return w;
}

/// A layer of slots, with the gains that keep its parts of one size.
LayerWeights random_slots(const LayerSpec& c, std::int64_t d, const RandomParts& parts,
                          Builder& b) {
  LayerWeights layer;
  SlotWeights& w = layer.slots();
  w.norm.weight = b.norm("attn_norm", d);
  add_bias(b, "attn_norm.bias", d, c.norm.kind == Norm::layer, w.norm.bias);
  w.q_proj = b.matrix("q_proj", parts.linear, c.q_channels(), d, 1.5F);
  w.k_proj = b.matrix("k_proj", parts.linear, c.k_channels(), d, 1.5F);
  w.v_proj = b.matrix("v_proj", parts.linear, c.v_channels(), d);
  add_bias(b, "q_proj.bias", c.q_channels(), c.qkv_bias, w.q_bias);
  add_bias(b, "k_proj.bias", c.k_channels(), c.qkv_bias, w.k_bias);
  add_bias(b, "v_proj.bias", c.v_channels(), c.qkv_bias, w.v_bias);
  w.f_proj = b.matrix("f_proj", parts.small, c.gate_channels(), d, 2.0F);
  add_bias(b, "f_proj.bias", c.gate_channels(), parts.gate_bias, w.f_bias);
  if (c.conv_size > 0) {
    w.q_conv = b.matrix("q_conv", parts.small, c.q_channels(), c.conv_size, 2.0F);
    w.k_conv = b.matrix("k_conv", parts.small, c.k_channels(), c.conv_size, 2.0F);
    w.v_conv = b.matrix("v_conv", parts.small, c.v_channels(), c.conv_size, 2.0F);
  }
  if (c.slots().feature_map == FeatureMap::t2r)
    w.feature_map = b.matrix("feature_map", parts.small, c.head_k_dim, c.head_k_dim, 1.5F);
  if (parts.read_biases) {
    w.read_bias =
        b.tensor("read_bias", BlockType::f32, c.num_kv_heads, c.slots().num_memory_slots, 0.5F);
    w.head_read_bias = b.tensor("head_read_bias", BlockType::f32, 1, c.num_heads, 0.5F);
  }
  if (c.output_norm != OutputNorm::none && parts.g_norm_weight)
    layer.output.g_norm = b.norm("g_norm", c.o_channels());
  layer.output.o_proj = b.matrix("o_proj", parts.linear, d, c.o_channels());
  layer.channel_mix = random_channel_mix(c, d, parts, b);
  return layer;
}

}  // namespace

RandomModel make_random_model(const ModelConfig& c, const RandomParts& parts, std::uint64_t seed) {
  Builder b(seed);
  auto weights = std::make_shared<Weights>();
  const std::int64_t d = c.hidden_size;
  weights->embeddings = b.tensor("embeddings", parts.table, c.vocab_size, d, 1.0F);
  if (c.embedding_norm) {
    weights->embedding_norm.weight = b.norm("embedding_norm", d);
    add_bias(b, "embedding_norm.bias", d, c.embedding_norm->kind == Norm::layer,
             weights->embedding_norm.bias);
  }
  for (const LayerSpec& layer : c.layers) {
    switch (layer.kind()) {
      case Mixer::slots:
        weights->layers.push_back(random_slots(layer, d, parts, b));
        break;
      case Mixer::recurrence:
        weights->layers.push_back(random_layer(layer, c.hidden_size, parts, b));
        break;
    }
  }
  weights->final_norm.weight = b.norm("norm", d);
  add_bias(b, "norm.bias", d, c.final_norm.kind == Norm::layer, weights->final_norm.bias);
  weights->head =
      parts.tied ? weights->embeddings : b.matrix("head", parts.table, c.vocab_size, d, 2.0F);
  return {.config = c, .weights = weights, .storage = b.arena()};
}

std::unique_ptr<RecurrentState> LoadedModel::state() const {
  auto made = model->create_state();
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

std::vector<float> LoadedModel::run(RecurrentState& state, std::span<const TokenId> tokens,
                                    std::size_t piece) const {
  return run_in_pieces(source.config.vocab_size, state, tokens, piece,
                       [this](std::span<const PlanItem> items) { return plan->run(items, {}); });
}

std::vector<float> run_in_pieces(std::int64_t vocab_size, RecurrentState& state,
                                 std::span<const TokenId> tokens, std::size_t piece,
                                 const std::function<Status(std::span<const PlanItem>)>& run) {
  const std::size_t vocab = static_cast<std::size_t>(vocab_size);
  std::vector<float> all(tokens.size() * vocab, NAN);  // poisoned: an unwritten logit never passes
  if (piece == 0) piece = tokens.size();
  for (std::size_t at = 0; at < tokens.size(); at += piece) {
    const std::size_t n = std::min(piece, tokens.size() - at);
    const PlanItem item{.state = &state,
                        .tokens = tokens.subspan(at, n),
                        .wanted = LogitsWanted::all,
                        .logits = std::span(all).subspan(at * vocab, n * vocab)};
    const Status status = run(std::span(&item, 1));
    if (!status) throw std::runtime_error(status.error().message);
  }
  return all;
}

std::vector<float> LoadedModel::canonical(const RecurrentState& state) const {
  std::vector<float> floats(StateLayout::of(source.config).total_floats(), NAN);
  const Status status = state.export_to(floats);
  if (!status) throw std::runtime_error(status.error().message);
  return floats;
}

LoadedModel load_on(Backend& backend, const RandomModel& source, int max_tokens,
                    const std::string& step_program) {
  LoadedModel loaded;
  loaded.source = source;
  loaded.recorded = std::make_shared<const ModelConfig>(source.config);
  const Recording pass = forward_of(*loaded.recorded, *source.weights);
  auto model = backend.load({.config = source.config,
                             .weights = *source.weights,
                             .keep_alive = source.storage,
                             .pass = pass,
                             .step_program = step_program});
  if (!model) throw std::runtime_error(model.error().message);
  loaded.model = std::move(*model);
  auto plan = loaded.model->record(max_tokens, pass);
  if (!plan) throw std::runtime_error(plan.error().message);
  loaded.plan = std::move(*plan);
  return loaded;
}

}  // namespace runnel::test
