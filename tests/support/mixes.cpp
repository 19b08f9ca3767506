// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mixes.h"

#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>

#include "quant/quantise.h"
#include "runtime/model/weight_table.h"
#include "tests/support/random_blocks.h"

namespace runnel::test {
namespace {

using quant::BlockType;
using B = BlockType;
using Arena = std::vector<std::vector<std::byte>>;

BlockType type_in(const Mix& mix, const std::string& name, std::size_t layer) {
  const auto is = [&name](const char* part) { return name.find(part) != std::string::npos; };
  if (is("v_proj")) return layer == 0 ? mix.first_value : mix.value;
  if (is("o_proj")) return mix.output;
  if (is("down_proj")) return layer == 0 ? mix.first_down : mix.down;
  return mix.base;
}

std::vector<float> values_of(const WeightView& w) {
  std::vector<float> values(static_cast<std::size_t>(w.rows * w.cols));
  const Status done = quant::dequantize_rows(w.type, w.data, w.cols, values);
  if (!done) throw std::runtime_error(done.error().message);
  return values;
}

/// Stores the values of `w` as `type`, or, if that is not written, random blocks of the same deviation.
void store(WeightView& w, BlockType type, std::uint64_t seed, Arena& arena) {
  const std::vector<float> values = values_of(w);
  const quant::BlockTraits& format = quant::format_of(type);
  std::vector<std::byte> bytes(static_cast<std::size_t>(w.rows) * quant::row_bytes(type, w.cols));
  if (quant::is_written(format)) {
    const Status done = quant::quantize_rows(type, values, w.cols, bytes);
    if (!done) throw std::runtime_error(done.error().message);
  } else {
    double squares = 0;
    for (const float v : values) squares += double{v} * double{v};
    bytes = quant::scaled_blocks(
        type, bytes.size() / static_cast<std::size_t>(format.block_bytes), seed,
        static_cast<float>(std::sqrt(squares / static_cast<double>(values.size()))));
  }
  arena.push_back(std::move(bytes));
  w.type = type;
  w.data = arena.back();
}

/// A copy of the model after change(view, name, layer) of every matrix of its layers, and of table and head.
RandomModel changed(
    const RandomModel& model,
    const std::function<void(WeightView&, const std::string&, std::size_t, Arena&)>& change) {
  auto arena = std::make_shared<Arena>();
  auto weights = std::make_shared<Weights>(*model.weights);
  const bool tied = weights->tied();
  for (std::size_t i = 0; i < weights->layers.size(); ++i) {
    for (const LayerTensor& t : layer_tensors(model.config.layers[i], model.config.hidden_size)) {
      WeightView& view = t.view(weights->layers[i]);
      const bool matrix = t.role == WeightRole::matrix || t.role == WeightRole::wide_gate;
      if (matrix && view.present()) change(view, std::string(t.suffix), i, *arena);
    }
  }
  change(weights->embeddings, "embeddings", 0, *arena);
  if (tied) {
    weights->head = weights->embeddings;
  } else {
    change(weights->head, "head", 0, *arena);
  }
  // What was not changed still views the first model's bytes.
  auto storage = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<Arena>>>(
      model.storage, arena);
  return {.config = model.config, .weights = weights, .storage = storage};
}

}  // namespace

const std::vector<Mix>& llama_mixes() {
  static const std::vector<Mix> kMixes = {
      {"Q2_K", B::q2_k, B::q3_k, B::q4_k, B::q3_k, B::q3_k, B::q3_k, B::q2_k, B::q6_k},
      {"Q3_K_S", B::q3_k, B::q3_k, B::q3_k, B::q3_k, B::q3_k, B::q3_k, B::q3_k, B::q6_k},
      {"Q3_K_M", B::q3_k, B::q4_k, B::q5_k, B::q4_k, B::q4_k, B::q5_k, B::q3_k, B::q6_k},
      {"Q3_K_L", B::q3_k, B::q5_k, B::q5_k, B::q5_k, B::q5_k, B::q5_k, B::q3_k, B::q6_k},
      {"Q4_0", B::q4_0, B::q4_0, B::q4_0, B::q4_0, B::q4_0, B::q4_1, B::q4_0, B::q6_k},
      {"Q4_1", B::q4_1, B::q4_1, B::q4_1, B::q4_1, B::q4_1, B::q4_1, B::q4_1, B::q6_k},
      {"Q4_K_S", B::q4_k, B::q4_k, B::q5_k, B::q4_k, B::q4_k, B::q5_k, B::q4_k, B::q6_k},
      {"Q4_K_M", B::q4_k, B::q4_k, B::q6_k, B::q4_k, B::q4_k, B::q6_k, B::q4_k, B::q6_k},
      {"Q5_0", B::q5_0, B::q5_0, B::q5_0, B::q5_0, B::q5_0, B::q5_1, B::q5_0, B::q6_k},
      {"Q5_K_S", B::q5_k, B::q5_k, B::q5_k, B::q5_k, B::q5_k, B::q5_k, B::q5_k, B::q6_k},
      {"Q5_K_M", B::q5_k, B::q5_k, B::q6_k, B::q5_k, B::q5_k, B::q6_k, B::q5_k, B::q6_k},
      {"IQ4_NL", B::iq4_nl, B::iq4_nl, B::q5_k, B::iq4_nl, B::iq4_nl, B::q5_k, B::iq4_nl, B::q6_k},
      {"IQ4_XS", B::iq4_xs, B::iq4_xs, B::q5_k, B::iq4_xs, B::iq4_xs, B::q5_k, B::iq4_xs, B::q6_k},
  };
  return kMixes;
}

BlockType llama_fallback(BlockType type, std::int64_t cols) {
  if (cols % quant::format_of(type).block_values == 0) return type;
  BlockType next = B::f16;
  if (quant::format_of(type).block_values == quant::kSuperBlock) {
    next = type == B::q4_k   ? B::q5_0
           : type == B::q5_k ? B::q5_1
           : type == B::q6_k ? B::q8_0
                             : B::iq4_nl;
  }
  return llama_fallback(next, cols);
}

RandomModel make_mixed_model(const ModelConfig& config, const Mix& mix, bool tied,
                             std::uint64_t seed) {
  const RandomParts parts{.small = BlockType::f16, .tied = tied, .gate_bias = true};
  return changed(make_random_model(config, parts, seed),
                 [&](WeightView& w, const std::string& name, std::size_t layer, Arena& arena) {
                   const BlockType type = name == "embeddings" ? mix.table
                                          : name == "head"     ? mix.head
                                                               : type_in(mix, name, layer);
                   store(w, llama_fallback(type, w.cols), seed + arena.size(), arena);
                 });
}

RandomModel as_floats(const RandomModel& model) {
  return changed(model, [](WeightView& w, const std::string&, std::size_t, Arena& arena) {
    store(w, BlockType::f32, 0, arena);
  });
}

}  // namespace runnel::test
