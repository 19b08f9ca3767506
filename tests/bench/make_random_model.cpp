// SPDX-License-Identifier: Apache-2.0
// runnel_make_model SHAPE TYPE OUT.gguf: a model of random weights, to measure speed with. It has no tokenizer.
//
// SHAPE: 135m (the default model's: sinks, window, gated slots, tied), small (the same slots,
// 0.6 M parameters: for very many tokens), 340m (tied), 1.3b, and of the family gla, hgrn2, retnet,
// linear_attn, abc, regla: 1.3b in the shapes of their configurations' defaults; abc_passes is abc
// with a gate of low rank. TYPE: that of the linear weights; the token table and head get q8_0
// beside q4_0 and q8_0, q6_k beside q4_k, else TYPE.
#include <cmath>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "quant/formats.h"
#include "runtime/base/half.h"
#include "runtime/base/try.h"
#include "runtime/io/gguf.h"
#include "runtime/model/model_file.h"
#include "runtime/model/weight_table.h"

namespace runnel {
namespace {

using quant::BlockType;

struct Shape {
  ModelConfig config;
  bool tied;
};

/// 24 layers of width 2048 with the family's own heads and expansions.
std::optional<Shape> family_shape(const std::string& name) {
  ModelConfig c;
  c.name = "random " + name + " 1.3b";
  c.architecture = name;
  c.mixer = Mixer::recurrence;
  c.vocab_size = 32000;
  c.hidden_size = 2048;
  c.num_layers = 24;
  c.num_heads = c.num_kv_heads = 4;
  c.head_k_dim = 256;
  c.head_v_dim = 512;
  c.intermediate_size = 5632;
  c.feature_map = FeatureMap::identity;
  c.value_activation = c.output_activation = Activation::identity;
  c.output_norm_heads = true;
  c.gate_normalizer = 1.0F;
  if (name == "gla") {
    c.decay = Decay::log_sigmoid;
    c.gate_rank = 16;
    c.gate_normalizer = 16.0F;
    c.output_gate = true;
  } else if (name == "hgrn2") {
    c.decay = Decay::log_sigmoid;
    c.complement_keys = c.lower_bound = true;
    c.num_heads = c.num_kv_heads = 16;
    c.head_k_dim = c.head_v_dim = 128;
    c.feature_map = FeatureMap::swish;
    c.output_norm_heads = false;
  } else if (name == "retnet") {
    c.decay = Decay::fixed;
    c.rotary = c.output_gate = true;
    c.num_heads = c.num_kv_heads = 8;
    c.intermediate_size = 2816;
  } else if (name == "linear_attn") {
    c.feature_map = FeatureMap::product;
    c.head_k_dim = 512;
  } else if (name == "abc" || name == "abc_passes") {
    // Slots by a gate of low rank are two passes of the recurrence everywhere.
    if (name != "abc") c.gate_rank = 16;
    c.architecture = "abc";
    c.decay = Decay::running_sum;
    c.num_memory_slots = 64;
    c.gate_logit_min = -32.0F, c.gate_logit_max = 32.0F;
    c.rotary = c.output_gate = true;
  } else if (name == "regla") {
    c.decay = Decay::refined;
    c.feature_map = FeatureMap::exponential;
  } else {
    return std::nullopt;
  }
  c.scale = 1.0F / std::sqrt(static_cast<float>(c.feature_dim()));
  return Shape{c, false};
}

std::optional<Shape> shape_named(const std::string& name) {
  ModelConfig c;
  c.name = "random " + name;
  const bool small = name == "small";
  if (small || name == "135m") {
    c.vocab_size = small ? 1024 : 49152;
    c.hidden_size = small ? 128 : 576;
    c.num_layers = small ? 3 : 30;
    c.num_heads = small ? 2 : 9;
    c.num_kv_heads = small ? 1 : 3;
    c.head_k_dim = c.head_v_dim = 64;
    c.intermediate_size = small ? 256 : 1536;
    c.num_memory_slots = 64;
    c.num_sink_slots = 4;
    c.num_window_slots = 60;
    c.sink_distance = 64;
    c.rope_theta = 100000.0;
    c.scale = 0.125F;
    c.gate_log_min = -1.2F;
    c.norm_eps = 1e-5F;
    c.feature_map = FeatureMap::identity;
    c.value_activation = c.output_activation = Activation::identity;
    c.output_norm = false;
    return Shape{c, true};
  }
  const bool large = name == "1.3b";
  if (!large && name != "340m") return family_shape(name);
  c.vocab_size = 32000;
  c.hidden_size = large ? 2048 : 1024;
  c.num_layers = 24;
  c.num_heads = c.num_kv_heads = 4;
  c.head_k_dim = c.head_v_dim = c.hidden_size / 4;
  c.intermediate_size = large ? 5632 : 2816;
  c.num_memory_slots = 64;
  return Shape{c, !large};
}

/// splitmix64
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  void fill(void* bytes, std::size_t n) {
    auto* out = static_cast<std::uint8_t*>(bytes);
    for (std::size_t i = 0; i < n; i += 8) {
      const std::uint64_t word = next();
      std::memcpy(out + i, &word, std::min<std::size_t>(8, n - i));
    }
  }
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-23F - 1.0F; }

 private:
  std::uint64_t state_;
};

/// Blocks of uniform codes, scaled so that weights have standard deviation `sigma`.
template <class Block, class Fill>
void blocks(std::vector<std::byte>& out, const Fill& fill) {
  for (std::size_t at = 0; at < out.size(); at += sizeof(Block)) {
    Block b;
    fill(b);
    std::memcpy(out.data() + at, &b, sizeof(Block));
  }
}

std::vector<std::byte> random_tensor(BlockType type, std::size_t rows, std::int64_t cols,
                                     float mean, float sigma, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> out(rows * quant::row_bytes(type, cols));
  const auto half = [](float f) { return f32_to_f16(f); };
  const float wide = sigma * 1.7320508F;  // of a uniform distribution
  switch (type) {
    case BlockType::q8_0:
      blocks<quant::BlockQ8_0>(out, [&](auto& b) {
        random.fill(b.qs, sizeof(b.qs));
        b.d = half(sigma / 73.9F);
      });
      break;
    case BlockType::q4_0:
      blocks<quant::BlockQ4_0>(out, [&](auto& b) {
        random.fill(b.qs, sizeof(b.qs));
        b.d = half(sigma / 4.61F);
      });
      break;
    case BlockType::q4_k:
      blocks<quant::BlockQ4_K>(out, [&](auto& b) {
        random.fill(b.qs, sizeof(b.qs));
        // Every group: scale 32, minimum 60; 60 dmin is the mean of the codes.
        for (int i = 0; i < 4; ++i) {
          b.scales[i] = 32 | (2 << 6);
          b.scales[i + 4] = 60 | (3 << 6);
          b.scales[i + 8] = 12 << 4;
        }
        b.d = half(sigma / (32 * 4.61F));
        b.dmin = half(sigma / 4.61F * 7.5F / 60.0F);
      });
      break;
    case BlockType::q6_k:
      blocks<quant::BlockQ6_K>(out, [&](auto& b) {
        random.fill(&b, sizeof(b));
        std::memset(b.scales, 64, sizeof(b.scales));
        b.d = half(sigma / (64 * 18.5F));
      });
      break;
    default: {
      const std::size_t n = out.size() / (type == BlockType::f32 ? 4 : 2);
      for (std::size_t i = 0; i < n; ++i) {
        const float f = mean + wide * random.uniform();
        const std::uint16_t h = type == BlockType::bf16 ? f32_to_bf16(f) : half(f);
        if (type == BlockType::f32) {
          std::memcpy(out.data() + 4 * i, &f, 4);
        } else {
          std::memcpy(out.data() + 2 * i, &h, 2);
        }
      }
    }
  }
  return out;
}

Status make(const std::string& name, const std::string& type_name, const std::string& path) {
  const std::optional<Shape> shape = shape_named(name);
  if (!shape)
    return fail(ErrorCode::invalid_argument, "shape \"", name,
                "\": expected 135m, 340m, 1.3b, gla, ", "hgrn2, retnet, linear_attn, abc or regla");
  const std::optional<BlockType> type = quant::block_type_from_name(type_name);
  if (!type) return fail(ErrorCode::invalid_argument, "type \"", type_name, "\": not a block type");
  const auto fitting = [](BlockType t, std::int64_t cols) {
    if (t == BlockType::q4_k && cols % quant::kSuperBlock != 0) return BlockType::q4_0;
    if (t == BlockType::q6_k && cols % quant::kSuperBlock != 0) return BlockType::q8_0;
    return t;
  };
  const ModelConfig& c = shape->config;
  GgufWriter writer;
  config_to_gguf(c, writer);
  writer.set(std::string(kTiedKey), shape->tied);
  std::uint64_t seed = 1;
  const auto add = [&](const std::string& tensor, BlockType t,
                       const std::vector<std::int64_t>& dims, float mean, float sigma) {
    const std::int64_t cols = dims.back();
    const auto rows = static_cast<std::size_t>(dims.size() > 1 ? dims[0] : 1);
    writer.add_tensor(tensor, t, dims, [=, s = seed++]() -> Result<std::vector<std::byte>> {
      return random_tensor(t, rows, cols, mean, sigma, s);
    });
  };
  BlockType table = *type == BlockType::q4_0   ? BlockType::q8_0
                    : *type == BlockType::q4_k ? BlockType::q6_k
                                               : *type;
  table = fitting(table, c.hidden_size);
  const float table_sigma = 1.0F / std::sqrt(static_cast<float>(c.hidden_size));
  add(std::string(kEmbeddingsName), table, {c.vocab_size, c.hidden_size}, 0.0F, table_sigma);
  for (std::int32_t layer = 0; layer < c.num_layers; ++layer) {
    for (const LayerTensor& t : layer_tensors(c)) {
      if (t.presence == Presence::absent) continue;
      const bool matrix = t.role == WeightRole::matrix;
      const bool vector = t.role == WeightRole::vector;
      const bool wide = t.role == WeightRole::wide_gate;
      const BlockType stored = matrix   ? fitting(*type, t.shape.back())
                               : wide   ? fitting(table, t.shape.back())
                               : vector ? BlockType::f32
                                        : BlockType::f16;
      add(layer_prefix(layer) + std::string(t.suffix), stored, t.shape,
          vector && t.suffix.find("norm") != std::string_view::npos ? 1.0F : 0.0F,
          vector ? 0.05F : 1.0F / std::sqrt(static_cast<float>(t.shape.back())));
    }
  }
  add(std::string(kFinalNormName), BlockType::f32, {c.hidden_size}, 1.0F, 0.05F);
  if (!shape->tied)
    add(std::string(kHeadName), table, {c.vocab_size, c.hidden_size}, 0.0F, table_sigma);
  return writer.write(path);
}

}  // namespace
}  // namespace runnel

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: runnel_make_model 135m|340m|1.3b|gla|hgrn2|retnet|linear_attn|abc|regla "
                 "TYPE OUT.gguf\n";
    return 2;
  }
  const runnel::Status made = runnel::make(argv[1], argv[2], argv[3]);
  if (!made) std::cerr << "runnel_make_model: " << made.error().message << '\n';
  return made ? 0 : 1;
}
