// SPDX-License-Identifier: Apache-2.0
// runnel_make_model SHAPE TYPE OUT.gguf [bytes]: a model of random weights, to measure speed with. It has no tokenizer,
// or with "bytes" one that reads every byte as a token, so that `runnel serve` takes it.
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
#include "runtime/model/file_names.h"
#include "runtime/model/model_file.h"
#include "runtime/model/shifted_config.h"
#include "runtime/model/weight_table.h"
#include "runtime/text/byte_alphabet.h"
#include "tests/support/random_blocks.h"

namespace runnel {
namespace {

using quant::BlockType;

struct Shape {
  ModelConfig config;
  bool tied;
  bool plain_table = false;  // the embedding is stored like the linear weights
};

/// 24 layers of width 2048 with the family's own heads and expansions.
std::optional<Shape> family_shape(const std::string& name) {
  ModelConfig c;
  c.name = "random " + name + " 1.3b";
  c.architecture = name;
  c.vocab_size = 32000;
  c.hidden_size = 2048;
  LayerSpec layer;
  RecurrenceSpec& r = layer.mixer.emplace<RecurrenceSpec>();
  layer.num_heads = layer.num_kv_heads = 4;
  layer.head_k_dim = 256;
  layer.head_v_dim = 512;
  layer.intermediate_size = 5632;
  layer.output_activation = Activation::identity;
  layer.output_norm = OutputNorm::heads;
  r.feature_map = FeatureMap::identity;
  r.gate_normalizer = 1.0F;
  if (name == "gla") {
    r.decay = Decay::log_sigmoid;
    r.gate_rank = 16;
    r.gate_normalizer = 16.0F;
    layer.output_gate = true;
  } else if (name == "hgrn2") {
    r.decay = Decay::log_sigmoid;
    r.complement_keys = r.lower_bound = true;
    layer.num_heads = layer.num_kv_heads = 16;
    layer.head_k_dim = layer.head_v_dim = 128;
    r.feature_map = FeatureMap::swish;
    layer.output_norm = OutputNorm::channels;
  } else if (name == "retnet") {
    r.decay = Decay::fixed;
    r.rotary = layer.output_gate = true;
    layer.num_heads = layer.num_kv_heads = 8;
    layer.intermediate_size = 2816;
  } else if (name == "linear_attn") {
    r.feature_map = FeatureMap::product;
    layer.head_k_dim = 512;
  } else if (name == "abc" || name == "abc_passes") {
    // Slots by a gate of low rank are two passes of the recurrence everywhere.
    if (name != "abc") r.gate_rank = 16;
    c.architecture = "abc";
    r.decay = Decay::running_sum;
    r.num_memory_slots = 64;
    r.gate_logit_min = -32.0F, r.gate_logit_max = 32.0F;
    r.rotary = layer.output_gate = true;
  } else if (name == "regla") {
    r.decay = Decay::refined;
    r.feature_map = FeatureMap::exponential;
  } else {
    return std::nullopt;
  }
  r.scale = 1.0F / std::sqrt(static_cast<float>(layer.feature_dim()));
  c.repeat(layer, 24);
  return Shape{c, false};
}

/// Sinks, window and memory under one softmax, identity maps, no output norm; as the default models.
LayerSpec positional_layer(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim,
                           std::int32_t window, std::int32_t memory) {
  LayerSpec layer;
  layer.num_heads = heads;
  layer.num_kv_heads = kv_heads;
  layer.head_k_dim = layer.head_v_dim = head_dim;
  layer.output_activation = Activation::identity;
  layer.output_norm = OutputNorm::none;
  SlotSpec& slots = layer.slots();
  slots.num_memory_slots = memory;
  slots.num_sink_slots = 4;
  slots.num_window_slots = window;
  slots.sink_distance = window + 4;
  slots.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  slots.gate_log_min = -1.2F;
  slots.feature_map = FeatureMap::identity;
  slots.value_activation = Activation::identity;
  return layer;
}

/// The published sizes of RWKV-7.
std::optional<Shape> shifted_shape(const std::string& name) {
  struct Size {
    const char* name;
    int layers, width;
    std::int64_t decay, rate, value, gate;  // ranks
  };
  constexpr Size kSizes[] = {{"rwkv7-0.1b", 12, 768, 64, 64, 32, 128},
                             {"rwkv7-0.4b", 24, 1024, 64, 64, 32, 128},
                             {"rwkv7-1.5b", 24, 2048, 96, 96, 64, 256},
                             {"rwkv7-2.9b", 32, 2560, 96, 96, 64, 320}};
  for (const Size& size : kSizes) {
    if (name != size.name) continue;
    ShiftedSizes sizes;
    sizes.architecture = "rwkv7";
    sizes.vocab_size = 65536;
    sizes.hidden_size = size.width;
    sizes.layers.assign(static_cast<std::size_t>(size.layers),
                        {.decay_rank = size.decay,
                         .rate_rank = size.rate,
                         .value_rank = size.value,
                         .gate_rank = size.gate,
                         .intermediate_size = 4 * size.width});
    Result<ModelConfig> config = shifted_config(sizes);
    if (!config) return std::nullopt;
    config->name = "random " + name;
    return Shape{*std::move(config), false};
  }
  return std::nullopt;
}

std::optional<Shape> shape_named(const std::string& name) {
  if (name.starts_with("rwkv7-")) return shifted_shape(name);
  ModelConfig c;
  c.name = "random " + name;
  if (name == "small" || name == "135m") {
    const bool small = name == "small";
    c.vocab_size = small ? 1024 : 49152;
    c.hidden_size = small ? 128 : 576;
    LayerSpec layer = positional_layer(small ? 2 : 9, small ? 1 : 3, 64, 60, 64);
    layer.intermediate_size = small ? 256 : 1536;
    layer.slots().rope_theta = 100000.0;
    layer.norm.eps = layer.channel_norm.eps = c.final_norm.eps = 1e-5F;
    c.repeat(layer, small ? 3 : 30);
    return Shape{c, true};
  }
  if (name == "0.5b" || name == "1.5b") {
    const bool large = name == "1.5b";
    c.vocab_size = 65536;
    c.hidden_size = large ? 1536 : 896;
    LayerSpec layer = positional_layer(large ? 12 : 14, 2, large ? 128 : 64, 252, 128);
    layer.intermediate_size = large ? 8960 : 4864;
    layer.qkv_bias = true;
    layer.slots().rope_theta = 1000000.0;
    c.repeat(layer, large ? 28 : 24);
    return Shape{c, true, true};
  }
  const bool large = name == "1.3b";
  if (!large && name != "340m") return family_shape(name);
  c.vocab_size = 32000;
  c.hidden_size = large ? 2048 : 1024;
  LayerSpec layer;
  layer.num_heads = layer.num_kv_heads = 4;
  layer.head_k_dim = layer.head_v_dim = c.hidden_size / 4;
  layer.intermediate_size = large ? 5632 : 2816;
  layer.slots().num_memory_slots = 64;
  c.repeat(layer, 24);
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
      const quant::BlockTraits& format = quant::format_of(type);
      if (format.kind == quant::ValueKind::block)
        return quant::scaled_blocks(type, out.size() / static_cast<std::size_t>(format.block_bytes),
                                    seed, sigma);
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

// Bytes, and words that no text becomes for the rest of the vocabulary.
void add_tokenizer(GgufWriter& writer, std::int32_t vocab_size) {
  const ByteAlphabet alphabet;
  std::vector<std::string> tokens;
  for (std::int32_t id = 0; id < vocab_size; ++id) {
    std::string text;
    if (id < 256) {
      alphabet.spell(static_cast<std::uint8_t>(id), text);
    } else {
      text = "w" + std::to_string(id);
    }
    tokens.push_back(std::move(text));
  }
  writer.set("tokenizer.ggml.model", std::string("gpt2"));
  writer.set("tokenizer.ggml.tokens", GgufArray(tokens));
  writer.set("tokenizer.ggml.merges", GgufArray(std::vector<std::string>()));
  writer.set("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(vocab_size - 1));
}

Status make(const std::string& name, const std::string& type_name, const std::string& path,
            bool tokenizer) {
  const std::optional<Shape> shape = shape_named(name);
  if (!shape)
    return fail(ErrorCode::invalid_argument, "shape \"", name,
                "\": expected 135m, 0.5b, 1.5b, 340m, 1.3b, gla, ",
                "hgrn2, retnet, linear_attn, abc, regla, rwkv7-0.1b, rwkv7-0.4b, rwkv7-1.5b or ",
                "rwkv7-2.9b");
  const std::optional<BlockType> type = quant::block_type_from_name(type_name);
  if (!type) return fail(ErrorCode::invalid_argument, "type \"", type_name, "\": not a block type");
  const auto fitting = [](BlockType t, std::int64_t cols) {
    while (cols % quant::format_of(t).block_values != 0) t = quant::format_of(t).for_odd_rows;
    return t;
  };
  const ModelConfig& c = shape->config;
  GgufWriter writer;
  config_to_gguf(c, writer);
  const FileNames names(c.architecture);
  if (!has_llama_names(c.architecture)) writer.set(std::string(kTiedKey), shape->tied);
  if (tokenizer) add_tokenizer(writer, c.vocab_size);
  std::uint64_t seed = 1;
  const auto add = [&](const std::string& tensor, BlockType t,
                       const std::vector<std::int64_t>& dims, float mean, float sigma) {
    const std::int64_t cols = dims.back();
    std::size_t rows = 1;
    for (std::size_t i = 0; i + 1 < dims.size(); ++i) rows *= static_cast<std::size_t>(dims[i]);
    writer.add_tensor(tensor, t, dims, [=, s = seed++]() -> Result<std::vector<std::byte>> {
      return random_tensor(t, rows, cols, mean, sigma, s);
    });
  };
  BlockType table = quant::format_of(*type).for_tables;
  if (shape->plain_table) table = *type;
  table = fitting(table, c.hidden_size);
  const float table_sigma = 1.0F / std::sqrt(static_cast<float>(c.hidden_size));
  const auto add_norm = [&](std::string_view weight, std::string_view bias, Norm kind) {
    add(names.of(weight), BlockType::f32, {c.hidden_size}, 1.0F, 0.05F);
    if (kind == Norm::layer) add(names.of(bias), BlockType::f32, {c.hidden_size}, 0.0F, 0.05F);
  };
  add(names.of(kEmbeddingsName), table, {c.vocab_size, c.hidden_size}, 0.0F, table_sigma);
  if (c.embedding_norm)
    add_norm(kEmbeddingNormName, kEmbeddingNormBiasName, c.embedding_norm->kind);
  for (std::int32_t layer = 0; layer < c.num_layers(); ++layer) {
    for (const LayerTensor& t :
         layer_tensors(c.layers[static_cast<std::size_t>(layer)], c.hidden_size)) {
      const bool matrix = t.role == WeightRole::matrix;
      const bool vector = t.role == WeightRole::vector;
      const bool wide = t.role == WeightRole::wide_gate;
      const BlockType stored = matrix   ? fitting(*type, t.shape.back())
                               : wide   ? fitting(table, t.shape.back())
                               : vector ? BlockType::f32
                                        : BlockType::f16;
      const bool norm = t.suffix.find("norm") != std::string_view::npos;
      const bool near_one = norm && !t.suffix.ends_with("bias");
      const float mean = near_one ? 1.0F : t.suffix == "attn.removal_key" ? 0.8F : 0.0F;
      const float sigma = vector ? 0.05F : 1.0F / std::sqrt(static_cast<float>(t.shape.back()));
      add(names.of_layer(layer, t.suffix), stored, names.shape(t), mean, sigma);
      for (const FileNames::Unread& u : names.unread(layer)) {
        if (u.copy_of == t.suffix) add(u.name, stored, names.shape(t), mean, sigma);
      }
    }
  }
  add_norm(kFinalNormName, kFinalNormBiasName, c.final_norm.kind);
  if (!shape->tied)
    add(names.of(kHeadName), table, {c.vocab_size, c.hidden_size}, 0.0F, table_sigma);
  return writer.write(path);
}

}  // namespace
}  // namespace runnel

int main(int argc, char** argv) {
  const bool tokenizer = argc == 5 && std::string(argv[4]) == "bytes";
  if (argc != 4 && !tokenizer) {
    std::cerr << "usage: runnel_make_model "
                 "135m|0.5b|1.5b|340m|1.3b|gla|hgrn2|retnet|linear_attn|abc|regla|"
                 "rwkv7-0.1b|rwkv7-0.4b|rwkv7-1.5b|rwkv7-2.9b "
                 "TYPE OUT.gguf [bytes]\n";
    return 2;
  }
  const runnel::Status made = runnel::make(argv[1], argv[2], argv[3], tokenizer);
  if (!made) std::cerr << "runnel_make_model: " << made.error().message << '\n';
  return made ? 0 : 1;
}
