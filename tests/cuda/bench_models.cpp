// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/bench_models.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "quant/quantise.h"
#include "tests/support/random.h"
#include "tests/support/random_blocks.h"

namespace runnel::bench {
namespace {

using quant::BlockType;

/// Tensors of random values in an arena.
class RandomTensors {
 public:
  WeightView matrix(const char* name, BlockType type, std::int64_t rows, std::int64_t cols) {
    constexpr std::int64_t kDrawn = 61;  // rows drawn; prime, so that no tile repeats its neighbour
    const std::int64_t drawn = std::min(rows, kDrawn);
    const std::vector<float> values = random_.normals(static_cast<std::size_t>(drawn * cols),
                                                      1.0F / std::sqrt(static_cast<float>(cols)));
    const std::size_t row = quant::row_bytes(type, cols);
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * row);
    const std::span<std::byte> first =
        std::span(bytes).first(static_cast<std::size_t>(drawn) * row);
    if (quant::is_written(quant::format_of(type))) {
      static_cast<void>(quant::quantize_rows(type, values, cols, first));
    } else {
      const std::vector<std::byte> blocks = quant::scaled_blocks(
          type, first.size() / static_cast<std::size_t>(quant::format_of(type).block_bytes),
          ++seed_, 1.0F / std::sqrt(static_cast<float>(cols)));
      std::copy(blocks.begin(), blocks.end(), first.begin());
    }
    for (std::int64_t r = drawn; r < rows; ++r) {
      std::memcpy(bytes.data() + static_cast<std::size_t>(r) * row,
                  bytes.data() + static_cast<std::size_t>(r % drawn) * row, row);
    }
    return keep(name, type, rows, cols, std::move(bytes));
  }

  WeightView norm(const char* name, std::int64_t cols, float offset = 1.0F) {
    std::vector<float> values = random_.normals(static_cast<std::size_t>(cols), 0.1F);
    for (float& v : values) v += offset;
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return keep(name, BlockType::f32, 1, cols, std::move(bytes));
  }

  std::shared_ptr<std::vector<std::vector<std::byte>>> arena =
      std::make_shared<std::vector<std::vector<std::byte>>>();

 private:
  WeightView keep(const char* name, BlockType type, std::int64_t rows, std::int64_t cols,
                  std::vector<std::byte> bytes) {
    arena->push_back(std::move(bytes));
    return {.name = name, .type = type, .rows = rows, .cols = cols, .data = arena->back()};
  }

  test::Random random_{2026};
  std::uint64_t seed_ = 2026;
};

SlotWeights slot_weights(RandomTensors& m, const LayerSpec& l, std::int64_t d, BlockType linear,
                         BlockType gates, bool biases) {
  SlotWeights w;
  w.norm.weight = m.norm("attn_norm", d);
  w.q_proj = m.matrix("q_proj", linear, l.q_channels(), d);
  w.k_proj = m.matrix("k_proj", linear, l.k_channels(), d);
  w.v_proj = m.matrix("v_proj", linear, l.v_channels(), d);
  w.f_proj = m.matrix("f_proj", gates, l.gate_channels(), d);
  if (l.qkv_bias) {
    w.q_bias = m.norm("q_bias", l.q_channels(), 0.0F);
    w.k_bias = m.norm("k_bias", l.k_channels(), 0.0F);
    w.v_bias = m.norm("v_bias", l.v_channels(), 0.0F);
  }
  if (biases) {
    w.f_bias = m.norm("f_bias", l.gate_channels(), 0.0F);
    w.read_bias = m.norm("read_bias", l.gate_channels(), 0.0F);
    w.head_read_bias = m.norm("head_read_bias", l.num_heads, 0.0F);
  }
  return w;
}

BenchModel build(const ModelConfig& c, BlockType linear, BlockType gates, BlockType table,
                 bool tied, bool biases) {
  RandomTensors m;
  BenchModel b{.config = c, .weights = {}, .storage = m.arena};
  const std::int64_t d = c.hidden_size;
  b.weights.embeddings = m.matrix("embeddings", table, c.vocab_size, d);
  for (const LayerSpec& l : c.layers) {
    const std::int64_t o = l.o_channels(), i = l.intermediate_size;
    LayerWeights w;
    w.mixer = slot_weights(m, l, d, linear, gates, biases);
    if (l.output_norm != OutputNorm::none) w.output.g_norm = m.norm("g_norm", o);
    w.output.o_proj = m.matrix("o_proj", linear, d, o);
    w.channel_mix.norm.weight = m.norm("mlp_norm", d);
    w.channel_mix.gate_proj = m.matrix("gate_proj", linear, i, d);
    w.channel_mix.up_proj = m.matrix("up_proj", linear, i, d);
    w.channel_mix.down_proj = m.matrix("down_proj", linear, d, i);
    b.weights.layers.push_back(std::move(w));
  }
  b.weights.final_norm.weight = m.norm("norm", d);
  b.weights.head = tied ? b.weights.embeddings : m.matrix("head", table, c.vocab_size, d);
  return b;
}

}  // namespace

ModelConfig config_135m() {
  SlotSpec slots;
  slots.num_memory_slots = 64;
  slots.num_sink_slots = 4;
  slots.num_window_slots = 60;
  slots.sink_distance = 64;
  slots.rope_theta = 100000.0;
  slots.scale = 0.125F;
  slots.gate_log_min = -1.2F;
  slots.feature_map = FeatureMap::identity;
  slots.value_activation = Activation::identity;
  LayerSpec l;
  l.norm.eps = l.channel_norm.eps = 1e-5F;
  l.num_heads = 9;
  l.num_kv_heads = 3;
  l.head_k_dim = l.head_v_dim = 64;
  l.mixer = slots;
  l.output_activation = Activation::identity;
  l.output_norm = OutputNorm::none;
  l.intermediate_size = 1536;
  ModelConfig c;
  c.name = "135M";
  c.vocab_size = 49152;
  c.hidden_size = 576;
  c.final_norm.eps = 1e-5F;
  c.repeat(l, 30);
  return c;
}

ModelConfig config_1380m() {
  SlotSpec slots;
  slots.num_memory_slots = 64;
  LayerSpec l;
  l.num_heads = l.num_kv_heads = 4;
  l.head_k_dim = l.head_v_dim = 512;
  l.mixer = slots;
  l.intermediate_size = 5632;
  ModelConfig c;
  c.name = "1.38B";
  c.vocab_size = 32000;
  c.hidden_size = 2048;
  c.repeat(l, 24);
  return c;
}

ModelConfig config_500m() {
  ModelConfig c = config_135m();
  c.name = "0.5B";
  c.vocab_size = 65536;
  c.hidden_size = 896;
  LayerSpec l = c.layers[0];
  l.num_heads = 14;
  l.num_kv_heads = 2;
  l.qkv_bias = true;
  l.intermediate_size = 4864;
  l.slots().num_window_slots = 252;
  l.slots().num_memory_slots = 128;
  l.slots().sink_distance = 256;
  c.repeat(l, 24);
  return c;
}

ModelConfig config_1500m() {
  ModelConfig c = config_500m();
  c.name = "1.5B";
  c.hidden_size = 1536;
  LayerSpec l = c.layers[0];
  l.num_heads = 12;
  l.head_k_dim = l.head_v_dim = 128;
  l.intermediate_size = 8960;
  c.repeat(l, 28);
  return c;
}

BenchModel model_500m() {
  return build(config_500m(), BlockType::q4_0, BlockType::f16, BlockType::q4_0, true, true);
}

BenchModel model_1500m() {
  return build(config_1500m(), BlockType::q4_0, BlockType::f16, BlockType::q4_0, true, true);
}

BenchModel model_135m() {
  return build(config_135m(), BlockType::q4_0, BlockType::f16, BlockType::q8_0, true, true);
}

BenchModel model_1380m(BlockType type, bool stored) {
  if (!stored || type == BlockType::bf16)
    return build(config_1380m(), type, type, type, false, false);
  const bool eight = type == BlockType::q4_0 || type == BlockType::q4_1 ||
                     type == BlockType::q5_0 || type == BlockType::q8_0;
  const BlockType table = eight ? BlockType::q8_0 : BlockType::q6_k;
  return build(config_1380m(), type, BlockType::f16, table, false, false);
}

BenchModel model_named(const std::string& name) {
  if (name == "135m") return model_135m();
  if (name == "500m") return model_500m();
  if (name == "1500m") return model_1500m();
  const std::string type = name.substr(0, name.find('-'));
  return model_1380m(quant::block_type_from_name(type).value_or(BlockType::bf16), type != name);
}

}  // namespace runnel::bench
