// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint under our names, whatever its period called them.
#include "runtime/model/hf_checkpoint.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/weight_table.h"

namespace runnel {
namespace {

using quant::BlockType;

Result<BlockType> float_type(std::string_view name, SafetensorsType type) {
  switch (type) {
    case SafetensorsType::f32:
      return BlockType::f32;
    case SafetensorsType::f16:
      return BlockType::f16;
    case SafetensorsType::bf16:
      return BlockType::bf16;
    default:
      return fail(ErrorCode::unsupported, "tensor ", printable(name), " is ", to_string(type),
                  ", expected F32, F16 or BF16");
  }
}

/// Takes tensors out of a checkpoint by name and remembers which were taken.
class TensorTaker {
 public:
  explicit TensorTaker(const SafetensorsCheckpoint& checkpoint) : checkpoint_(checkpoint) {}

  bool has(const std::string& name) const { return checkpoint_.find(name) != nullptr; }

  /// The tensor `name`, whose shape must be `shape`, as a [rows, cols] view.
  Result<WeightView> take(const std::string& name, const std::vector<std::int64_t>& shape) {
    const SafetensorsTensor* tensor = checkpoint_.find(name);
    if (tensor == nullptr) {
      return fail(ErrorCode::malformed, "tensor ", name, " is missing, expected shape ",
                  shape_text(shape));
    }
    if (tensor->shape != shape) {
      return fail(ErrorCode::malformed, "tensor ", name, " has shape ", shape_text(tensor->shape),
                  ", expected ", shape_text(shape));
    }
    WeightView view;
    RUNNEL_TRY(view.type, float_type(name, tensor->type));
    view.name = name;
    view.cols = shape.back();
    view.rows = shape.size() == 1 ? 1 : shape.front();
    view.data = tensor->bytes;
    taken_.insert(name);
    return view;
  }

  /// Names of tensors that no one asked for: they belong to a computation that would be left out.
  Status expect_all_taken() const {
    std::string left;
    int count = 0;
    for (const std::string_view name : checkpoint_.names()) {
      if (taken_.contains(name)) continue;
      constexpr int kNamed = 3;
      if (++count <= kNamed) left += (count > 1 ? ", " : "") + printable(name);
    }
    if (count == 0) return {};
    return fail(ErrorCode::unsupported, "the checkpoint has ", count,
                " tensors that this configuration has no place for: ", left,
                count > 3 ? ", …" : "");
  }

 private:
  const SafetensorsCheckpoint& checkpoint_;
  std::set<std::string, std::less<>> taken_;
};

/// How the checkpoint spells what its period spelt differently.
struct Layout {
  bool norms_inside = false;  // attn.norm and mlp.norm, 2024
  bool packed_gate = false;   // gate_proj holds gate rows, then up rows; until February 2025
};

Layout detect_layout(const TensorTaker& taker) {
  const std::string first = layer_prefix(0);
  return {.norms_inside = taker.has(first + "attn.norm.weight"),
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

/// Whether the checkpoint must have this tensor; tensors that are there without a reason are found
/// at the end.
bool expected(const LayerTensor& t, const HfConfig& config) {
  if (t.member == &LayerWeights::g_norm) return config.model.output_norm && config.g_norm_weight;
  if (t.presence == Presence::optional) return config.slot_biases;
  return t.presence == Presence::required;
}

Status map_layer(const HfConfig& config, const Layout& layout, std::int32_t index,
                 TensorTaker& taker, std::vector<ModelTensor>& out) {
  const std::string prefix = layer_prefix(index);
  const std::int64_t rows = config.model.intermediate_size;
  std::optional<WeightView> packed;
  for (const LayerTensor& t : layer_tensors(config.model)) {
    if (!expected(t, config)) continue;
    const std::string name = prefix + std::string(t.suffix);
    ModelTensor tensor;
    tensor.shape = t.shape;
    tensor.role = t.role;
    const bool gate = t.member == &LayerWeights::gate_proj;
    const bool up = t.member == &LayerWeights::up_proj;
    if (layout.packed_gate && (gate || up)) {
      if (!packed) {
        RUNNEL_TRY(packed, taker.take(prefix + "mlp.gate_proj.weight",
                                      {2 * rows, config.model.hidden_size}));
      }
      tensor.source = row_range(*packed, name, gate ? 0 : rows, rows);
    } else if (layout.norms_inside && t.member == &LayerWeights::attn_norm) {
      RUNNEL_TRY(tensor.source, taker.take(prefix + "attn.norm.weight", t.shape));
    } else if (layout.norms_inside && t.member == &LayerWeights::mlp_norm) {
      RUNNEL_TRY(tensor.source, taker.take(prefix + "mlp.norm.weight", t.shape));
    } else if (name.ends_with("_conv1d.weight")) {
      // [channels, 1, taps] in the checkpoint: the middle dimension is the group's one input.
      RUNNEL_TRY(tensor.source, taker.take(name, {t.shape[0], 1, t.shape[1]}));
    } else {
      RUNNEL_TRY(tensor.source, taker.take(name, t.shape));
    }
    tensor.source.name = name;
    out.push_back(std::move(tensor));
  }
  return {};
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

Result<std::vector<ModelTensor>> map_hf_tensors(const HfConfig& config,
                                                const SafetensorsCheckpoint& checkpoint) {
  const ModelConfig& c = config.model;
  const std::vector<std::int64_t> table = {c.vocab_size, c.hidden_size};
  TensorTaker taker(checkpoint);
  std::vector<ModelTensor> out;
  RUNNEL_TRY(const WeightView embeddings, taker.take(std::string(kEmbeddingsName), table));
  out.push_back({embeddings, table, WeightRole::embedding});
  const Layout layout = detect_layout(taker);
  for (std::int32_t i = 0; i < c.num_layers; ++i) {
    RUNNEL_CHECK_OK(map_layer(config, layout, i, taker, out));
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
  return out;
}

}  // namespace runnel
