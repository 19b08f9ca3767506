// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/hf_shifted.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include "quant/quantise.h"
#include "runtime/base/try.h"
#include "runtime/model/file_names.h"
#include "runtime/model/hf_checkpoint.h"
#include "runtime/model/shifted_config.h"
#include "runtime/model/tensor_taker.h"
#include "runtime/model/weight_table.h"

namespace runnel {
namespace {

struct Renamed {
  std::string_view ours;
  std::string_view theirs;
};

constexpr Renamed kRenamed[] = {{"attn.q_proj.weight", "attn.r_proj.weight"},
                                {"attn.f_down.weight", "attn.w_lora.lora.0.weight"},
                                {"attn.f_proj.weight", "attn.w_lora.lora.2.weight"},
                                {"attn.f_proj.bias", "attn.w_lora.lora.2.bias"},
                                {"attn.r_down.weight", "attn.a_lora.lora.0.weight"},
                                {"attn.r_proj.weight", "attn.a_lora.lora.2.weight"},
                                {"attn.r_proj.bias", "attn.a_lora.lora.2.bias"},
                                {"attn.v_down.weight", "attn.v_lora.lora.0.weight"},
                                {"attn.v_mix.weight", "attn.v_lora.lora.2.weight"},
                                {"attn.v_mix.bias", "attn.v_lora.lora.2.bias"},
                                {"attn.g_down.weight", "attn.g_lora.lora.0.weight"},
                                {"attn.g_proj.weight", "attn.g_lora.lora.2.weight"},
                                {"attn.removal_key", "attn.k_k"},
                                {"attn.key_rate", "attn.k_a"},
                                {"attn.bonus", "attn.r_k"},
                                {"mlp_norm.weight", "ffn_norm.weight"},
                                {"mlp_norm.bias", "ffn_norm.bias"},
                                {"mlp.lerp", "ffn.x_k"},
                                {"mlp.up_proj.weight", "ffn.key.weight"},
                                {"mlp.down_proj.weight", "ffn.value.weight"}};

constexpr std::string_view kLerp = "attn.lerp";
constexpr const char* kLerpParts[] = {"x_r", "x_w", "x_k", "x_v", "x_a", "x_g"};
constexpr const char* kLerpWhole = "attn.x_x";  // of newer checkpoints, in the same order
constexpr std::string_view kPreNorm = "model.layers.0.pre_norm.";

std::string theirs(std::int32_t layer, std::string_view ours) {
  const Renamed* const known = std::ranges::find(kRenamed, ours, &Renamed::ours);
  return layer_prefix(layer) + std::string(known == std::end(kRenamed) ? ours : known->theirs);
}

/// The tensor `name` of `shape`, but for dimensions of 1.
Result<WeightView> take_squeezed(TensorTaker& taker, const std::string& name,
                                 const std::vector<std::int64_t>& shape) {
  RUNNEL_TRY(const std::vector<std::int64_t> stored, taker.shape(name));
  const auto without_ones = [](std::vector<std::int64_t> s) {
    std::erase(s, 1);
    return s;
  };
  if (without_ones(stored) != without_ones(shape)) return taker.take(name, shape);  // says so
  RUNNEL_TRY(WeightView view, taker.take(name, stored));
  view.rows = shape.size() == 1 ? 1 : shape.front();
  view.cols = shape.back();
  return view;
}

/// The bonus is stored [heads, channels].
Result<WeightView> take_bonus(TensorTaker& taker, const std::string& name, const LayerSpec& layer) {
  RUNNEL_TRY(WeightView view, take_squeezed(taker, name, {layer.num_heads, layer.head_k_dim}));
  view.cols *= view.rows;
  view.rows = 1;
  return view;
}

/// The lerps as one f32 matrix [inputs, D].
Result<WeightView> take_lerps(TensorTaker& taker, const LayerSpec& layer, MappedTensors& out) {
  const std::string prefix = layer_prefix(layer.index);
  const std::int64_t width = layer.mixer_shift;
  if (taker.has(prefix + kLerpWhole))
    return take_squeezed(taker, prefix + kLerpWhole, {layer.shifted_inputs(), width});
  std::vector<float> values(static_cast<std::size_t>(layer.shifted_inputs() * width));
  for (std::size_t i = 0; i < std::size(kLerpParts); ++i) {
    RUNNEL_TRY(const WeightView view,
               take_squeezed(taker, prefix + "attn." + kLerpParts[i], {width}));
    RUNNEL_CHECK_OK(
        quant::dequantize_rows(view.type, view.data, width,
                               std::span(values).subspan(i * static_cast<std::size_t>(width),
                                                         static_cast<std::size_t>(width))));
  }
  const auto bytes = std::as_bytes(std::span(values));
  const std::vector<std::byte>& kept =
      out.storage.emplace_back(std::vector<std::byte>(bytes.begin(), bytes.end()));
  WeightView view;
  view.rows = layer.shifted_inputs();
  view.cols = width;
  view.data = kept;
  return view;
}

Status map_layer(const LayerSpec& layer, std::int32_t width, const FileNames& names,
                 TensorTaker& taker, MappedTensors& out) {
  const std::vector<FileNames::Unread> unread = names.unread(layer.index);
  for (const LayerTensor& t : layer_tensors(layer, width)) {
    const std::string name = theirs(layer.index, t.suffix);
    WeightView view;
    if (t.suffix == kLerp) {
      RUNNEL_TRY(view, take_lerps(taker, layer, out));
    } else if (t.suffix == "attn.bonus") {
      RUNNEL_TRY(view, take_bonus(taker, name, layer));
    } else {
      RUNNEL_TRY(view, take_squeezed(taker, name, t.shape));
    }
    view.name = names.of_layer(layer.index, t.suffix);
    out.tensors.push_back({view, names.shape(t), t.role});
    for (const FileNames::Unread& u : unread) {
      if (u.copy_of != t.suffix) continue;
      view.name = u.name;
      out.tensors.push_back({view, names.shape(t), t.role});
    }
  }
  return {};
}

/// Rows of the matrix `name`.
Result<std::int64_t> rows_of(const TensorTaker& taker, const std::string& name) {
  RUNNEL_TRY(const auto shape, taker.shape(name));
  if (shape.size() == 2) return shape[0];
  return fail(ErrorCode::malformed, "tensor ", name, " has shape ", shape_text(shape),
              ", expected two dimensions");
}

Status read_layers(const SafetensorsCheckpoint& checkpoint, const TensorTaker& taker,
                   ShiftedSizes& sizes) {
  LayerCount layers("model.layers.");
  for (const std::string_view name : checkpoint.names()) layers.add(name);
  for (std::int32_t i = 0; i < layers.count(); ++i) {
    ShiftedLayerSizes& own = sizes.layers.emplace_back();
    RUNNEL_TRY(own.decay_rank, rows_of(taker, theirs(i, "attn.f_down.weight")));
    RUNNEL_TRY(own.rate_rank, rows_of(taker, theirs(i, "attn.r_down.weight")));
    if (i > 0) {
      RUNNEL_TRY(own.value_rank, rows_of(taker, theirs(i, "attn.v_down.weight")));
    }
    RUNNEL_TRY(own.gate_rank, rows_of(taker, theirs(i, "attn.g_down.weight")));
    RUNNEL_TRY(own.intermediate_size, rows_of(taker, theirs(i, "mlp.up_proj.weight")));
  }
  if (!sizes.layers.empty()) return {};
  return fail(ErrorCode::malformed, "tensor ", theirs(0, "attn_norm.weight"), " is missing");
}

Status check_stated(const HfShifted& stated, const ShiftedSizes& sizes) {
  const ShiftedLayerSizes& last = sizes.layers.back();
  struct Found {
    std::string_view key;
    std::int64_t value;
  };
  const Found all[] = {
      {"vocab_size", sizes.vocab_size},
      {"hidden_size", sizes.hidden_size},
      {"num_hidden_layers", static_cast<std::int64_t>(sizes.layers.size())},
      {"the length of value_dim", static_cast<std::int64_t>(sizes.layers.size())},
      {"value_dim", sizes.hidden_size},
      {"intermediate_size", last.intermediate_size},
      {"head_dim", sizes.head_size},
      {"head_size", sizes.head_size},
      {"num_heads", sizes.hidden_size / std::max<std::int64_t>(sizes.head_size, 1)},
      {"decay_low_rank_dim", last.decay_rank},
      {"lora_rank_decay", last.decay_rank},
      {"a_low_rank_dim", last.rate_rank},
      {"lora_rank_iclr", last.rate_rank},
      {"v_low_rank_dim", last.value_rank},
      {"lora_rank_value_residual_mix", last.value_rank},
      {"gate_low_rank_dim", last.gate_rank},
      {"lora_rank_gate", last.gate_rank}};
  for (const HfShifted::Stated& s : stated.sizes) {
    const Found* const found = std::ranges::find(all, std::string_view(s.key), &Found::key);
    if (found == std::end(all) || found->value == s.value) continue;
    if (found->value == 0) continue;  // the one layer has no mix of values
    return fail(ErrorCode::malformed, "config.json: ", s.key, " is ", s.value,
                ", the tensors' shapes say ", found->value);
  }
  return {};
}

}  // namespace

Result<ModelConfig> shifted_config_of(const HfShifted& stated,
                                      const SafetensorsCheckpoint& checkpoint) {
  const TensorTaker taker(checkpoint);
  ShiftedSizes sizes;
  sizes.architecture = "rwkv7";
  sizes.norm_eps = stated.norm_eps;
  sizes.embedding_norm = true;
  RUNNEL_TRY(const auto table, taker.shape(std::string(kEmbeddingsName)));
  RUNNEL_TRY(const auto bonus, taker.shape(theirs(0, "attn.bonus")));
  if (table.size() != 2 || bonus.size() != 2) {
    return fail(ErrorCode::malformed, "tensors ", kEmbeddingsName, " and ", theirs(0, "attn.bonus"),
                " have shapes ", shape_text(table), " and ", shape_text(bonus),
                ", expected two dimensions each");
  }
  sizes.vocab_size = table[0];
  sizes.hidden_size = table[1];
  sizes.head_size = bonus[1];
  RUNNEL_CHECK_OK(read_layers(checkpoint, taker, sizes));
  RUNNEL_CHECK_OK(check_stated(stated, sizes));
  return shifted_config(sizes);
}

Result<MappedTensors> map_shifted_tensors(const ModelConfig& config,
                                          const SafetensorsCheckpoint& checkpoint) {
  const FileNames names(config.architecture);
  const std::vector<std::int64_t> table = {config.vocab_size, config.hidden_size};
  const std::vector<std::int64_t> width = {config.hidden_size};
  TensorTaker taker(checkpoint);
  MappedTensors mapped;
  const auto add = [&](const std::string& source, std::string_view ours,
                       const std::vector<std::int64_t>& shape, WeightRole role) -> Status {
    RUNNEL_TRY(WeightView view, taker.take(source, shape));
    view.name = names.of(ours);
    mapped.tensors.push_back({std::move(view), shape, role});
    return {};
  };
  RUNNEL_CHECK_OK(add(std::string(kEmbeddingsName), kEmbeddingsName, table, WeightRole::embedding));
  RUNNEL_CHECK_OK(
      add(std::string(kPreNorm) + "weight", kEmbeddingNormName, width, WeightRole::vector));
  RUNNEL_CHECK_OK(
      add(std::string(kPreNorm) + "bias", kEmbeddingNormBiasName, width, WeightRole::vector));
  // Some checkpoints have a mix of values in the first layer, which has none to mix with.
  for (const char* unused : {"attn.v_down.weight", "attn.v_mix.weight", "attn.v_mix.bias"})
    taker.leave(theirs(0, unused));
  for (const LayerSpec& layer : config.layers)
    RUNNEL_CHECK_OK(map_layer(layer, config.hidden_size, names, taker, mapped));
  RUNNEL_CHECK_OK(add(std::string(kFinalNormName), kFinalNormName, width, WeightRole::vector));
  RUNNEL_CHECK_OK(
      add(std::string(kFinalNormBiasName), kFinalNormBiasName, width, WeightRole::vector));
  RUNNEL_CHECK_OK(add(std::string(kHeadName), kHeadName, table, WeightRole::embedding));
  RUNNEL_CHECK_OK(taker.expect_all_taken());
  return mapped;
}

}  // namespace runnel
