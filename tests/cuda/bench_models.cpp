// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/bench_models.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "quant/quantise.h"
#include "tests/support/random.h"

namespace runnel::bench {
namespace {

using quant::BlockType;

class Maker {
 public:
  WeightView matrix(const char* name, BlockType type, std::int64_t rows, std::int64_t cols) {
    constexpr std::int64_t kDrawn = 61;  // rows drawn; prime, so that no tile repeats its neighbour
    const std::int64_t drawn = std::min(rows, kDrawn);
    const std::vector<float> values = random_.normals(static_cast<std::size_t>(drawn * cols),
                                                      1.0F / std::sqrt(static_cast<float>(cols)));
    const std::size_t row = quant::row_bytes(type, cols);
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * row);
    static_cast<void>(quant::quantize_rows(
        type, values, cols, std::span(bytes).first(static_cast<std::size_t>(drawn) * row)));
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
};

BenchModel build(const ModelConfig& c, BlockType linear, BlockType gates, BlockType table,
                 bool tied, bool biases) {
  Maker m;
  BenchModel b{.config = c, .weights = {}, .storage = m.arena};
  const std::int64_t d = c.hidden_size, q = std::int64_t(c.num_heads) * c.head_k_dim,
                     k = std::int64_t(c.num_kv_heads) * c.head_k_dim,
                     v = std::int64_t(c.num_kv_heads) * c.head_v_dim,
                     f = std::int64_t(c.num_kv_heads) * c.num_memory_slots,
                     o = std::int64_t(c.num_heads) * c.head_v_dim, i = c.intermediate_size;
  b.weights.embeddings = m.matrix("embeddings", table, c.vocab_size, d);
  for (int layer = 0; layer < c.num_layers; ++layer) {
    LayerWeights w;
    w.attn_norm = m.norm("attn_norm", d);
    w.q_proj = m.matrix("q_proj", linear, q, d);
    w.k_proj = m.matrix("k_proj", linear, k, d);
    w.v_proj = m.matrix("v_proj", linear, v, d);
    w.f_proj = m.matrix("f_proj", gates, f, d);
    if (biases) {
      w.f_bias = m.norm("f_bias", f, 0.0F);
      w.read_bias = m.norm("read_bias", f, 0.0F);
      w.head_read_bias = m.norm("head_read_bias", c.num_heads, 0.0F);
    }
    if (c.output_norm) w.g_norm = m.norm("g_norm", o);
    w.o_proj = m.matrix("o_proj", linear, d, o);
    w.mlp_norm = m.norm("mlp_norm", d);
    w.gate_proj = m.matrix("gate_proj", linear, i, d);
    w.up_proj = m.matrix("up_proj", linear, i, d);
    w.down_proj = m.matrix("down_proj", linear, d, i);
    b.weights.layers.push_back(std::move(w));
  }
  b.weights.final_norm = m.norm("norm", d);
  b.weights.head = tied ? b.weights.embeddings : m.matrix("head", table, c.vocab_size, d);
  return b;
}

}  // namespace

BenchModel model_135m() {
  ModelConfig c;
  c.name = "135M";
  c.vocab_size = 49152;
  c.hidden_size = 576;
  c.num_layers = 30;
  c.num_heads = 9;
  c.num_kv_heads = 3;
  c.head_k_dim = 64;
  c.head_v_dim = 64;
  c.intermediate_size = 1536;
  c.num_memory_slots = 64;
  c.num_sink_slots = 4;
  c.num_window_slots = 60;
  c.sink_distance = 64;
  c.rope_theta = 100000.0;
  c.scale = 0.125F;
  c.gate_log_min = -1.2F;
  c.norm_eps = 1e-5F;
  c.feature_map = FeatureMap::identity;
  c.value_activation = Activation::identity;
  c.output_activation = Activation::identity;
  c.output_norm = false;
  return build(c, BlockType::q4_0, BlockType::f16, BlockType::q8_0, true, true);
}

BenchModel model_1380m(BlockType type, bool stored) {
  ModelConfig c;
  c.name = "1.38B";
  c.vocab_size = 32000;
  c.hidden_size = 2048;
  c.num_layers = 24;
  c.num_heads = 4;
  c.num_kv_heads = 4;
  c.head_k_dim = 512;
  c.head_v_dim = 512;
  c.intermediate_size = 5632;
  c.num_memory_slots = 64;
  BlockType gates = type, table = type;
  if (stored && type != BlockType::bf16) gates = BlockType::f16;
  if (stored && type == BlockType::q4_0) table = BlockType::q8_0;
  if (stored && type == BlockType::q4_k) table = BlockType::q6_k;
  return build(c, type, gates, table, false, false);
}

BenchModel model_named(const std::string& name) {
  if (name == "135m") return model_135m();
  const std::string type = name.substr(0, name.find('-'));
  return model_1380m(type == "q4_0"   ? BlockType::q4_0
                     : type == "q4_k" ? BlockType::q4_k
                     : type == "q8_0" ? BlockType::q8_0
                                      : BlockType::bf16,
                     type != name);
}

}  // namespace runnel::bench
