// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint under Runnel's names, whatever the version of the library that wrote it called them.
#include "runtime/model/hf_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "quant/quantise.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/hf_shifted.h"
#include "runtime/model/tensor_taker.h"
#include "runtime/model/weight_table.h"

namespace runnel {
namespace {

/// Which of the historical spellings the checkpoint uses.
struct Layout {
  bool norms_inside = false;  // attn.norm and mlp.norm, 2024
  bool packed_gate = false;   // gate_proj holds gate rows, then up rows; until February 2025
};

Layout detect_layout(const TensorTaker& taker) {
  const std::string first = layer_prefix(0);
  return {.norms_inside =
              taker.has(first + "attn.norm.weight") && !taker.has(first + "attn_norm.weight"),
          .packed_gate = taker.has(first + "mlp.gate_proj.weight") &&
                         !taker.has(first + "mlp.up_proj.weight")};
}

/// Rows [first, first + rows) of `view` under another name.
WeightView row_range(const WeightView& view, std::string name, std::int64_t first,
                     std::int64_t rows) {
  const std::size_t row = quant::row_bytes(view.type, view.cols);
  WeightView part = view;
  part.name = std::move(name);
  part.rows = rows;
  part.data = view.data.subspan(static_cast<std::size_t>(first) * row,
                                static_cast<std::size_t>(rows) * row);
  return part;
}

constexpr std::string_view kOutputNormName = "attn.g_norm.weight";
constexpr std::string_view kLowerBoundName = "attn.lower_bound";

/// Whether the checkpoint must have this tensor; tensors that are there without a reason are found at the end.
bool expected(const LayerTensor& t, const HfConfig& config) {
  if (t.suffix == kOutputNormName) return config.g_norm_weight;
  if (t.suffix == "attn.f_proj.bias" && t.presence == Presence::optional) {
    return config.slot_biases || config.gate_bias;
  }
  if (t.presence == Presence::optional) return config.slot_biases;
  return t.presence == Presence::required;
}

/// One tensor by its names: `ours` follows "model.layers.N.", so does `theirs`.
struct Renamed {
  std::string_view architecture;
  std::string_view ours;
  std::string_view theirs;
};

constexpr Renamed kRenamed[] = {
    {"gla", "attn.f_down.weight", "attn.gk_proj.0.weight"},
    {"gla", "attn.f_proj.weight", "attn.gk_proj.1.weight"},
    {"gla", "attn.f_proj.bias", "attn.gk_proj.1.bias"},
    {"hgrn2", "attn.v_proj.weight", "attn.i_proj.weight"},
    {"hgrn2", "attn.k_conv1d.weight", "attn.f_conv1d.weight"},
    {"hgrn2", "attn.v_conv1d.weight", "attn.i_conv1d.weight"},
    {"linear_attn", "attn.g_norm.weight", "attn.norm.weight"},
    {"linear_attn", "attn.q_map.weight", "attn.feature_map_q.layer1.weight"},
    {"linear_attn", "attn.q_map.bias", "attn.feature_map_q.layer1.bias"},
    {"linear_attn", "attn.q_map2.weight", "attn.feature_map_q.layer2.weight"},
    {"linear_attn", "attn.q_map2.bias", "attn.feature_map_q.layer2.bias"},
    {"linear_attn", "attn.k_map.weight", "attn.feature_map_k.layer1.weight"},
    {"linear_attn", "attn.k_map.bias", "attn.feature_map_k.layer1.bias"},
    {"linear_attn", "attn.k_map2.weight", "attn.feature_map_k.layer2.weight"},
    {"linear_attn", "attn.k_map2.bias", "attn.feature_map_k.layer2.bias"},
    {"abc", "attn.f_proj.weight", "attn.s_proj.weight"},
    {"regla", "attn.f_proj.weight", "attn.gk_proj.weight"},
    {"regla", "attn.f_proj.bias", "attn.gk_proj.bias"},
    {"delta_net", "attn.r_proj.weight", "attn.b_proj.weight"},
    {"delta_net", "attn.g_norm.weight", "attn.o_norm.weight"},
    {"gated_deltanet", "attn.f_proj.weight", "attn.a_proj.weight"},
    {"gated_deltanet", "attn.f_proj.bias", "attn.dt_bias"},
    {"gated_deltanet", "attn.r_proj.weight", "attn.b_proj.weight"},
    {"gated_deltanet", "attn.log_rate", "attn.A_log"},
    {"gated_deltanet", "attn.g_norm.weight", "attn.o_norm.weight"},
};

/// What the checkpoint calls the tensor.
std::string source_name(const HfConfig& config, const TensorTaker& taker, const std::string& prefix,
                        const LayerTensor& t) {
  std::string name = prefix + std::string(t.suffix);
  for (const Renamed& r : kRenamed) {
    if (r.architecture == config.model.architecture && r.ours == t.suffix) {
      name = prefix + std::string(r.theirs);
    }
  }
  // A map of one matrix has no number; of tied maps the queries' alone may be stored.
  const auto without_number = [](std::string map) {
    const std::size_t at = map.find(".layer1.");
    return at == std::string::npos ? map : map.replace(at, 8, ".layer.");
  };
  if (!taker.has(name)) {
    std::string tied = name;
    const std::size_t at = config.tied_maps ? name.find("feature_map_k") : std::string::npos;
    if (at != std::string::npos) tied.replace(at, 13, "feature_map_q");
    const std::string single = without_number(name);
    name = taker.has(single) ? single : taker.has(tied) ? tied : without_number(tied);
  }
  // The norm that is fused with its gate.
  if (t.suffix == kOutputNormName && !taker.has(name)) {
    const std::string fused = prefix + "attn.g_norm_swish_gate.weight";
    if (taker.has(fused)) name = fused;
  }
  return name;
}

/// Each head's rows `times` in a row.
WeightView repeat_heads(const WeightView& view, std::int32_t heads, int times,
                        std::vector<std::vector<std::byte>>& storage) {
  const std::size_t head = view.data.size() / static_cast<std::size_t>(heads);
  std::vector<std::byte>& all = storage.emplace_back();
  all.reserve(view.data.size() * static_cast<std::size_t>(times));
  for (std::size_t at = 0; at < view.data.size(); at += head) {
    for (int i = 0; i < times; ++i) {
      const auto rows = view.data.subspan(at, head);
      all.insert(all.end(), rows.begin(), rows.end());
    }
  }
  WeightView out = view;
  out.rows *= times;
  out.data = all;
  return out;
}

/// lb[layer] = softmax over the layers, summed up to this layer, less row 0: so 0 in layer 0.
/// @return one vector of f32 per layer
Result<std::vector<std::vector<float>>> lower_bounds(const ModelConfig& c, TensorTaker& taker) {
  const std::size_t layers = c.layers.size();
  const auto width = static_cast<std::size_t>(c.layers.front().gate_channels());
  RUNNEL_TRY(const WeightView view,
             taker.take("model.lower_bounds", {c.num_layers(), static_cast<std::int64_t>(width)}));
  std::vector<float> values(layers * width);
  RUNNEL_CHECK_OK(quant::dequantize_rows(view.type, view.data, view.cols, values));
  std::vector<std::vector<float>> bounds(layers, std::vector<float>(width));
  for (std::size_t i = 0; i < width; ++i) {
    double largest = values[i];
    for (std::size_t l = 1; l < layers; ++l) {
      largest = std::max(largest, static_cast<double>(values[l * width + i]));
    }
    double sum = 0;
    for (std::size_t l = 0; l < layers; ++l) sum += std::exp(values[l * width + i] - largest);
    double passed = 0;
    for (std::size_t l = 1; l < layers; ++l) {
      passed += std::exp(values[l * width + i] - largest) / sum;
      bounds[l][i] = static_cast<float>(passed);
    }
  }
  return bounds;
}

Status map_layer(const HfConfig& config, const Layout& layout, std::int32_t index,
                 TensorTaker& taker, MappedTensors& out) {
  const std::string prefix = layer_prefix(index);
  const LayerSpec& layer = config.model.layers[static_cast<std::size_t>(index)];
  const std::int64_t rows = layer.intermediate_size;
  std::optional<WeightView> packed;
  for (const LayerTensor& t : layer_tensors(layer, config.model.hidden_size)) {
    if (!expected(t, config) || t.suffix == kLowerBoundName) continue;
    const std::string name = prefix + std::string(t.suffix);
    const std::string theirs = source_name(config, taker, prefix, t);
    ModelTensor tensor;
    tensor.shape = t.shape;
    tensor.role = t.role;
    const bool gate = t.suffix == "mlp.gate_proj.weight";
    const bool up = t.suffix == "mlp.up_proj.weight";
    const bool kv = t.suffix == "attn.k_proj.weight" || t.suffix == "attn.v_proj.weight";
    if (layout.packed_gate && (gate || up)) {
      if (!packed) {
        RUNNEL_TRY(packed, taker.take(prefix + "mlp.gate_proj.weight",
                                      {2 * rows, config.model.hidden_size}));
      }
      tensor.source = row_range(*packed, name, gate ? 0 : rows, rows);
    } else if (layout.norms_inside && t.suffix == "attn_norm.weight") {
      RUNNEL_TRY(tensor.source, taker.take(prefix + "attn.norm.weight", t.shape));
    } else if (layout.norms_inside && t.suffix == "mlp_norm.weight") {
      RUNNEL_TRY(tensor.source, taker.take(prefix + "mlp.norm.weight", t.shape));
    } else if (name.ends_with("_conv1d.weight")) {
      // [channels, 1, taps] in the checkpoint: the middle dimension is the group's one input.
      RUNNEL_TRY(tensor.source, taker.take(theirs, {t.shape[0], 1, t.shape[1]}));
    } else if (kv && config.repeat_kv > 1) {
      RUNNEL_TRY(const WeightView view,
                 taker.take(theirs, {t.shape[0] / config.repeat_kv, t.shape[1]}));
      tensor.source =
          repeat_heads(view, layer.num_kv_heads / config.repeat_kv, config.repeat_kv, out.storage);
    } else {
      RUNNEL_TRY(tensor.source, taker.take(theirs, t.shape));
    }
    tensor.source.name = name;
    out.tensors.push_back(std::move(tensor));
  }
  return {};
}

/// The lower bounds of one layer in our form, which no checkpoint has.
void add_lower_bound(const std::vector<float>& bound, std::int32_t layer, MappedTensors& out) {
  const auto bytes = std::as_bytes(std::span(bound));
  const std::vector<std::byte>& kept =
      out.storage.emplace_back(std::vector<std::byte>(bytes.begin(), bytes.end()));
  const auto width = static_cast<std::int64_t>(bound.size());
  ModelTensor tensor;
  tensor.source.name = layer_prefix(layer) + std::string(kLowerBoundName);
  tensor.source.rows = 1;
  tensor.source.cols = width;
  tensor.source.data = kept;
  tensor.shape = {width};
  tensor.role = WeightRole::vector;
  out.tensors.push_back(std::move(tensor));
}

/// Some writers store the shared tensor twice; that is no second head as long as the bytes agree.
Status take_duplicate_head(const WeightView& embeddings, TensorTaker& taker) {
  const std::string name(kHeadName);
  if (!taker.has(name)) return {};
  RUNNEL_TRY(const WeightView head, taker.take(name, {embeddings.rows, embeddings.cols}));
  if (head.type == embeddings.type && std::ranges::equal(head.data, embeddings.data)) return {};
  return fail(ErrorCode::malformed, "tensor ", name, " differs from ", kEmbeddingsName,
              ", but config.json says tie_word_embeddings");
}

}  // namespace

Result<MappedTensors> map_hf_tensors(const HfConfig& config,
                                     const SafetensorsCheckpoint& checkpoint) {
  if (config.shifted) return map_shifted_tensors(config.model, checkpoint);
  const ModelConfig& c = config.model;
  const std::vector<std::int64_t> table = {c.vocab_size, c.hidden_size};
  TensorTaker taker(checkpoint);
  MappedTensors mapped;
  std::vector<ModelTensor>& out = mapped.tensors;
  RUNNEL_TRY(const WeightView embeddings, taker.take(std::string(kEmbeddingsName), table));
  out.push_back({embeddings, table, WeightRole::embedding});
  const Layout layout = detect_layout(taker);
  std::vector<std::vector<float>> bounds;
  const LayerSpec& first = c.layers.front();
  const bool bounded = first.kind() == Mixer::recurrence && first.recurrence().lower_bound;
  if (bounded) {
    RUNNEL_TRY(bounds, lower_bounds(c, taker));
  }
  for (std::int32_t i = 0; i < c.num_layers(); ++i) {
    RUNNEL_CHECK_OK(map_layer(config, layout, i, taker, mapped));
    if (bounded) add_lower_bound(bounds[static_cast<std::size_t>(i)], i, mapped);
  }
  RUNNEL_TRY(WeightView norm, taker.take(std::string(kFinalNormName), {c.hidden_size}));
  out.push_back({std::move(norm), {c.hidden_size}, WeightRole::vector});
  if (config.tied) {
    RUNNEL_CHECK_OK(take_duplicate_head(embeddings, taker));
  } else {
    RUNNEL_TRY(WeightView head, taker.take(std::string(kHeadName), table));
    out.push_back({std::move(head), table, WeightRole::embedding});
  }
  RUNNEL_CHECK_OK(taker.expect_all_taken());
  return mapped;
}

}  // namespace runnel
