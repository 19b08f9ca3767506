// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/shifted_config.h"

#include <string_view>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/file_names.h"
#include "runtime/model/weight_table.h"

namespace runnel {
namespace {

constexpr std::string_view kShiftedMix = "rwkv7";
constexpr std::int64_t kMostSize = std::int64_t{1} << 24;
constexpr std::uint32_t kContextLength = 1U << 20;  // what converters write; nothing depends on it

/// "attention.layer_norm_epsilon" of LayerNorms; of RMSNorms another key.
const char* eps_key(bool shifted_mix) {
  return shifted_mix ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
}

Result<std::int32_t> size(const char* what, std::int64_t value) {
  if (value >= 1 && value <= kMostSize) return static_cast<std::int32_t>(value);
  return fail(ErrorCode::malformed, what, " is ", value, ", expected 1 to ", kMostSize);
}

Result<LayerSpec> shifted_layer(const ShiftedSizes& sizes, const ShiftedLayerSizes& own,
                                bool first) {
  const bool shifted_mix = sizes.architecture == kShiftedMix;
  LayerSpec layer;
  RecurrenceSpec& r = layer.mixer.emplace<RecurrenceSpec>();
  RUNNEL_TRY(const std::int32_t width, size("the width of the model", sizes.hidden_size));
  RUNNEL_TRY(layer.head_k_dim, size("the head size", sizes.head_size));
  if (width % layer.head_k_dim != 0) {
    return fail(ErrorCode::malformed, "the head size is ", layer.head_k_dim,
                ", expected a divisor of the width ", width);
  }
  layer.head_v_dim = layer.head_k_dim;
  layer.num_heads = layer.num_kv_heads = width / layer.head_k_dim;
  layer.norm.kind = layer.channel_norm.kind = shifted_mix ? Norm::layer : Norm::rms;
  layer.norm.eps = layer.channel_norm.eps = static_cast<float>(sizes.norm_eps);
  layer.mixer_shift = width;
  layer.output_activation = Activation::identity;
  layer.output_norm = own.group_norm ? OutputNorm::groups : OutputNorm::none;
  layer.output_norm_eps = static_cast<float>(1e-5 * layer.head_k_dim);
  layer.output_gate = own.gate_rank > 0;
  layer.gate_activation = Activation::identity;
  layer.channel_mix = shifted_mix ? ChannelMix::squared_relu : ChannelMix::swiglu;
  layer.channel_shift = shifted_mix ? width : 0;
  RUNNEL_TRY(layer.intermediate_size, size("the width of the channel mix", own.intermediate_size));
  r.feature_map = FeatureMap::identity;
  r.gate_normalizer = 1.0F;
  r.decay = Decay::bounded;
  r.removal = Removal::own_key;
  r.bonus = true;
  r.first_values = first;
  RUNNEL_TRY(r.gate_rank, size("the rank of the decay", own.decay_rank));
  RUNNEL_TRY(r.rate_rank, size("the rank of the removal's rate", own.rate_rank));
  if (!first) {
    RUNNEL_TRY(r.value_rank, size("the rank of the values' mix", own.value_rank));
  }
  if (own.gate_rank > 0) {
    RUNNEL_TRY(r.output_gate_rank, size("the rank of the output gate", own.gate_rank));
  }
  return layer;
}

/// Shapes and keys of one file.
class Reader {
 public:
  Reader(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)), names_(architecture_) {}

  Result<ModelConfig> config() {
    ShiftedSizes sizes;
    sizes.architecture = architecture_;
    const bool shifted_mix = architecture_ == kShiftedMix;
    RUNNEL_TRY(const auto table, matrix(names_.of(kEmbeddingsName)));
    sizes.vocab_size = table[0];
    sizes.hidden_size = table[1];
    RUNNEL_TRY(sizes.head_size, file_.get_int(key("wkv.head_size"), 64));
    RUNNEL_TRY(sizes.norm_eps,
               file_.get_float(key(eps_key(shifted_mix)), shifted_mix ? 1e-5 : 1e-6));
    sizes.embedding_norm = shifted_mix;
    RUNNEL_TRY(const std::int64_t shifts,
               file_.get_int(key("token_shift_count"), shifted_mix ? 2 : 1));
    if (shifts != (shifted_mix ? 2 : 1)) {
      return fail(ErrorCode::unsupported, "key ", key("token_shift_count"), " is ", shifts,
                  ", expected ", shifted_mix ? 2 : 1, " of ", architecture_);
    }
    RUNNEL_CHECK_OK(read_layers(shifted_mix, sizes));
    RUNNEL_CHECK_OK(check_keys(sizes));
    return shifted_config(sizes);
  }

 private:
  std::string key(std::string_view name) const { return architecture_ + "." + std::string(name); }

  Result<std::vector<std::int64_t>> matrix(const std::string& name) const {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr) return fail(ErrorCode::malformed, "tensor ", name, " is missing");
    if (tensor->shape.size() == 2) return tensor->shape;
    return fail(ErrorCode::malformed, "tensor ", name, " has shape ", shape_text(tensor->shape),
                ", expected two dimensions");
  }

  Result<std::int64_t> rows(std::int32_t layer, std::string_view suffix) const {
    RUNNEL_TRY(const auto shape, matrix(names_.of_layer(layer, suffix)));
    return shape[0];
  }

  bool has(std::int32_t layer, std::string_view suffix) const {
    return file_.find_tensor(names_.of_layer(layer, suffix)) != nullptr;
  }

  Status read_layers(bool shifted_mix, ShiftedSizes& sizes) const {
    LayerCount layers("blk.");
    for (const GgufTensor& tensor : file_.tensors()) layers.add(tensor.name);
    // Ends at the first tensor that is missing, so this grows with what the file really has.
    for (std::int32_t i = 0; i < layers.count(); ++i) {
      ShiftedLayerSizes& own = sizes.layers.emplace_back();
      RUNNEL_TRY(own.decay_rank, rows(i, "attn.f_down.weight"));
      RUNNEL_TRY(own.rate_rank, rows(i, "attn.r_down.weight"));
      if (i > 0) {
        RUNNEL_TRY(own.value_rank, rows(i, "attn.v_down.weight"));
      }
      if (shifted_mix || has(i, "attn.g_down.weight") || has(i, "attn.g_proj.weight")) {
        RUNNEL_TRY(own.gate_rank, rows(i, "attn.g_down.weight"));
      }
      own.group_norm = shifted_mix || has(i, "attn.g_norm.weight") || has(i, "attn.g_norm.bias");
      RUNNEL_TRY(own.intermediate_size, rows(i, "mlp.up_proj.weight"));
    }
    if (!sizes.layers.empty()) return {};
    return fail(ErrorCode::malformed, "tensor ", names_.of_layer(0, "attn_norm.weight"),
                " is missing");
  }

  /// Keys that state what the shapes say already. The ranks' are left out: a published converter writes the same four
  /// whatever the model.
  Status check_keys(const ShiftedSizes& sizes) const {
    struct Stated {
      const char* name;
      std::int64_t found;
    };
    const Stated all[] = {
        {"embedding_length", sizes.hidden_size},
        {"block_count", static_cast<std::int64_t>(sizes.layers.size())},
        {"feed_forward_length", sizes.layers.front().intermediate_size},
        {"vocab_size", sizes.vocab_size},
    };
    for (const Stated& s : all) {
      RUNNEL_TRY(const std::int64_t stated, file_.get_int(key(s.name), s.found));
      if (stated == s.found) continue;
      return fail(ErrorCode::malformed, "key ", key(s.name), " is ", stated,
                  ", the tensors' shapes say ", s.found);
    }
    return {};
  }

  const GgufFile& file_;
  std::string architecture_;
  FileNames names_;
};

}  // namespace

Result<ModelConfig> shifted_config(const ShiftedSizes& sizes) {
  ModelConfig c;
  c.architecture = sizes.architecture;
  RUNNEL_TRY(c.vocab_size, size("the vocabulary", sizes.vocab_size));
  RUNNEL_TRY(c.hidden_size, size("the width of the model", sizes.hidden_size));
  if (!(sizes.norm_eps > 0 && sizes.norm_eps <= 1)) {
    return fail(ErrorCode::malformed, "the norms' epsilon is ", sizes.norm_eps,
                ", expected a number above 0 and at most 1");
  }
  for (std::size_t i = 0; i < sizes.layers.size(); ++i) {
    RUNNEL_TRY(LayerSpec layer, shifted_layer(sizes, sizes.layers[i], i == 0));
    layer.index = static_cast<std::int32_t>(i);
    c.layers.push_back(layer);
  }
  if (c.layers.empty()) return fail(ErrorCode::malformed, "the model has no layers");
  c.final_norm = c.layers.back().norm;
  if (sizes.embedding_norm) c.embedding_norm = c.final_norm;
  RUNNEL_CHECK_OK(check_config(c));
  return c;
}

Result<ModelConfig> shifted_config_from_gguf(const GgufFile& file) {
  RUNNEL_TRY(std::string architecture, file.get_string("general.architecture"));
  RUNNEL_TRY(ModelConfig config, Reader(file, std::move(architecture)).config());
  RUNNEL_TRY(config.name, file.get_string("general.name", std::string()));
  return config;
}

std::vector<std::pair<std::string, GgufValue>> shifted_config_keys(const ModelConfig& c) {
  std::vector<std::pair<std::string, GgufValue>> keys;
  const auto set = [&](std::string_view name, GgufValue value) {
    keys.emplace_back(c.architecture + "." + std::string(name), std::move(value));
  };
  const auto number = [&](std::string_view name, std::int32_t value) {
    set(name, static_cast<std::uint32_t>(value));
  };
  const bool shifted_mix = c.architecture == kShiftedMix;
  const LayerSpec& last = c.layers.back();
  const RecurrenceSpec& r = last.recurrence();
  keys.emplace_back("general.architecture", c.architecture);
  if (!c.name.empty()) keys.emplace_back("general.name", c.name);
  set("context_length", kContextLength);
  number("embedding_length", c.hidden_size);
  number("block_count", c.num_layers());
  set(eps_key(shifted_mix), c.final_norm.eps);
  number("wkv.head_size", last.head_k_dim);
  number("attention.decay_lora_rank", r.gate_rank);
  number("attention.iclr_lora_rank", r.rate_rank);
  // A model of one layer has no mix of values; readers of the key want a number.
  number("attention.value_residual_mix_lora_rank", r.value_rank > 0 ? r.value_rank : r.rate_rank);
  number("attention.gate_lora_rank", r.output_gate_rank);
  number("feed_forward_length", last.intermediate_size);
  if (!shifted_mix) number("token_shift_count", 1);
  number("attention.head_count", 0);
  return keys;
}

}  // namespace runnel
