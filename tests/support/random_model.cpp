// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "quant/quantise.h"
#include "runtime/model/forward.h"
#include "runtime/model/weight_table.h"
#include "tests/support/random.h"

namespace runnel::test {
namespace {

using quant::BlockType;

/// Storage of all tensors of one model.
using Arena = std::vector<std::vector<std::byte>>;

/// The type a row of `cols` values can have: 256-wide blocks fall back to 32-wide ones, those to f16.
BlockType fitting(BlockType type, std::int64_t cols) {
  if (type == BlockType::q4_k && cols % quant::kSuperBlock != 0) type = BlockType::q4_0;
  if (type == BlockType::q6_k && cols % quant::kSuperBlock != 0) type = BlockType::q8_0;
  const bool narrow = type == BlockType::q4_0 || type == BlockType::q8_0;
  return narrow && cols % quant::kQ8Block != 0 ? BlockType::f16 : type;
}

class Builder {
 public:
  explicit Builder(std::uint64_t seed) : random_(seed), arena_(std::make_shared<Arena>()) {}

  WeightView tensor(const std::string& name, BlockType wanted, std::int64_t rows, std::int64_t cols,
                    float scale, float offset = 0.0F) {
    std::vector<float> values = random_.normals(static_cast<std::size_t>(rows * cols), scale);
    for (float& v : values) v += offset;
    const BlockType type = fitting(wanted, cols);
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * quant::row_bytes(type, cols));
    const Status done = quant::quantize_rows(type, values, cols, bytes);
    if (!done) throw std::runtime_error(done.error().message);
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

ModelConfig small_config() {
  ModelConfig c;
  c.name = "random";
  c.vocab_size = 96;
  c.hidden_size = 64;
  c.num_layers = 2;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_k_dim = 16;
  c.head_v_dim = 16;
  c.intermediate_size = 96;
  c.num_memory_slots = 8;
  return c;
}

ModelConfig small_positional_config() {
  ModelConfig c = small_config();
  c.num_sink_slots = 2;
  c.num_window_slots = 6;
  c.sink_distance = 8;
  c.rope_theta = 100000.0;
  c.scale = 0.25F;
  c.gate_log_min = -1.2F;
  c.norm_eps = 1e-5F;
  c.feature_map = FeatureMap::identity;
  c.value_activation = Activation::identity;
  c.output_activation = Activation::identity;
  c.output_norm = false;
  return c;
}

std::vector<std::string> family_names() {
  return {"gla",     "gla_conv", "hgrn2", "retnet",   "linear", "elu",      "dpfp",
          "t2r_map", "hedgehog", "abc",   "abc_conv", "regla",  "regla_key"};
}

ModelConfig family_config(const std::string& name) {
  ModelConfig c = small_config();
  c.mixer = Mixer::recurrence;
  c.architecture = "linear_attn";
  c.num_memory_slots = 0;
  c.head_v_dim = 24;  // no multiple of 16
  c.scale = 0.25F;
  c.feature_map = FeatureMap::identity;
  c.value_activation = c.output_activation = Activation::identity;
  c.output_norm = c.output_norm_heads = true;
  if (name.starts_with("gla")) {
    c.architecture = "gla";
    c.decay = Decay::log_sigmoid;
    c.gate_rank = 8;
    c.gate_normalizer = 16.0F;
    c.gate_log_min = -0.15F;
    c.output_gate = true;
    if (name == "gla_conv") c.conv_size = 4, c.feature_map = FeatureMap::relu;
  } else if (name == "hgrn2") {
    c.architecture = name;
    c.decay = Decay::log_sigmoid;
    c.gate_normalizer = 1.0F;
    c.num_kv_heads = c.num_heads;
    c.complement_keys = c.lower_bound = true;
    c.feature_map = FeatureMap::swish;
    c.output_norm_heads = false;
    c.conv_size = 3, c.conv_silu = false;
  } else if (name == "retnet") {
    c.architecture = name;
    c.decay = Decay::fixed;
    c.num_kv_heads = c.num_heads;
    c.head_v_dim = 32;
    c.rotary = c.output_gate = true;
  } else if (name == "linear") {
    c.feature_map = FeatureMap::product;
  } else if (name == "elu") {
    c.feature_map = FeatureMap::elu;
    c.normalizer = c.feature_norm_q = c.feature_norm_k = true;
    c.head_v_dim = 32;  // the normalizer's column begins a block of its own
  } else if (name == "dpfp") {
    c.feature_map = FeatureMap::dpfp;
  } else if (name == "t2r_map") {
    c.feature_map = FeatureMap::t2r;
  } else if (name == "hedgehog") {
    c.feature_map = FeatureMap::hedgehog;
    c.normalizer = true;
  } else if (name.starts_with("abc")) {
    c.architecture = "abc";
    c.decay = Decay::running_sum;
    c.num_memory_slots = 10;
    c.gate_logit_min = -5.0F, c.gate_logit_max = 5.0F;
    c.rotary = c.output_gate = true;
    if (name == "abc_conv") c.conv_size = 4;
  } else {
    c.architecture = "regla";
    c.decay = Decay::refined;
    c.feature_map = FeatureMap::exponential;
    c.decay_on_values = name == "regla";
    c.scale = 0.03F;
  }
  return c;
}

namespace {

/// A layer by the table of its tensors.
LayerWeights family_layer(const ModelConfig& c, const RandomParts& parts, Builder& b) {
  LayerWeights w;
  for (const LayerTensor& t : layer_tensors(c)) {
    if (t.presence == Presence::absent) continue;
    const std::string name(t.suffix);
    const bool norm = name.find("norm") != std::string::npos;
    const std::int64_t rows = t.shape.size() == 2 ? t.shape[0] : 1, cols = t.shape.back();
    WeightView& view = w.*t.member;
    if (t.role == WeightRole::vector) {
      view = norm ? b.norm(name, cols)
             : t.member == &LayerWeights::lower_bound
                 ? b.tensor(name, BlockType::f32, 1, cols, 0.05F, 0.4F)
                 : b.tensor(name, BlockType::f32, 1, cols, 0.5F);
      continue;
    }
    const bool wide = t.role == WeightRole::matrix || t.role == WeightRole::wide_gate;
    view = b.matrix(name, wide ? parts.linear : parts.small, rows, cols, 1.5F);
  }
  return w;
}

}  // namespace

RandomModel make_random_model(const ModelConfig& c, const RandomParts& parts, std::uint64_t seed) {
  Builder b(seed);
  auto weights = std::make_shared<Weights>();
  const std::int64_t d = c.hidden_size;
  const std::int64_t q_rows = std::int64_t(c.num_heads) * c.head_k_dim;
  const std::int64_t k_rows = std::int64_t(c.num_kv_heads) * c.head_k_dim;
  const std::int64_t v_rows = std::int64_t(c.num_kv_heads) * c.head_v_dim;
  const std::int64_t f_rows = std::int64_t(c.num_kv_heads) * c.num_memory_slots;
  const std::int64_t o_cols = std::int64_t(c.num_heads) * c.head_v_dim;
  weights->embeddings = b.tensor("embeddings", parts.table, c.vocab_size, d, 1.0F);
  for (int i = 0; i < c.num_layers; ++i) {
    if (c.mixer == Mixer::recurrence) {
      weights->layers.push_back(family_layer(c, parts, b));
      continue;
    }
    LayerWeights w;
    w.attn_norm = b.norm("attn_norm", d);
    w.q_proj = b.matrix("q_proj", parts.linear, q_rows, d, 1.5F);
    w.k_proj = b.matrix("k_proj", parts.linear, k_rows, d, 1.5F);
    w.v_proj = b.matrix("v_proj", parts.linear, v_rows, d);
    w.f_proj = b.matrix("f_proj", parts.small, f_rows, d, 2.0F);
    if (parts.gate_bias) w.f_bias = b.tensor("f_proj.bias", BlockType::f32, 1, f_rows, 0.5F);
    if (c.conv_size > 0) {
      w.q_conv = b.matrix("q_conv", parts.small, q_rows, c.conv_size, 2.0F);
      w.k_conv = b.matrix("k_conv", parts.small, k_rows, c.conv_size, 2.0F);
      w.v_conv = b.matrix("v_conv", parts.small, v_rows, c.conv_size, 2.0F);
    }
    if (c.feature_map == FeatureMap::t2r)
      w.feature_map = b.matrix("feature_map", parts.small, c.head_k_dim, c.head_k_dim, 1.5F);
    if (parts.read_biases) {
      w.read_bias = b.tensor("read_bias", BlockType::f32, c.num_kv_heads, c.num_memory_slots, 0.5F);
      w.head_read_bias = b.tensor("head_read_bias", BlockType::f32, 1, c.num_heads, 0.5F);
    }
    if (c.output_norm && parts.g_norm_weight) w.g_norm = b.norm("g_norm", o_cols);
    w.o_proj = b.matrix("o_proj", parts.linear, d, o_cols);
    w.mlp_norm = b.norm("mlp_norm", d);
    w.gate_proj = b.matrix("gate_proj", parts.linear, c.intermediate_size, d);
    w.up_proj = b.matrix("up_proj", parts.linear, c.intermediate_size, d);
    w.down_proj = b.matrix("down_proj", parts.linear, d, c.intermediate_size);
    weights->layers.push_back(std::move(w));
  }
  weights->final_norm = b.norm("norm", d);
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

LoadedModel load_on(Backend& backend, const RandomModel& source, int max_tokens) {
  LoadedModel loaded{.source = source, .model = nullptr, .plan = nullptr};
  auto model = backend.load(source.config, *source.weights, source.storage, {});
  if (!model) throw std::runtime_error(model.error().message);
  loaded.model = std::move(*model);
  auto plan = loaded.model->record(
      max_tokens, [&](Ops& ops) { return forward(ops, source.config, *source.weights); });
  if (!plan) throw std::runtime_error(plan.error().message);
  loaded.plan = std::move(*plan);
  return loaded;
}

}  // namespace runnel::test
