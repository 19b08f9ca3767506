// SPDX-License-Identifier: Apache-2.0
// config.json → HfConfig. Keys, defaults and derived sizes are flash-linear-attention's; keys that
// its layers ignore are ignored here.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/config_names.h"
#include "runtime/model/file_names.h"
#include "runtime/model/hf_checkpoint.h"
#include "runtime/model/weight_table.h"
#include "runtime/text/json_file.h"

namespace runnel {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostConfigBytes = 16 << 20;

/// Typed look-ups with messages that name the key. A null counts as absent, as it does for Hugging
/// Face's classes.
class Keys {
 public:
  explicit Keys(const Json& object) : object_(object) {}

  const Json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  bool has_null(const char* key) const {
    const auto it = object_.find(key);
    return it != object_.end() && it->is_null();
  }

  Result<std::int32_t> integer(const char* key, std::optional<std::int32_t> fallback = {}) const {
    const Json* v = find(key);
    if (v == nullptr) return absent(key, fallback);
    const std::optional<std::int32_t> value = whole(*v);
    if (!value) return wrong(key, *v, "a whole number below 2^31");
    return *value;
  }

  /// A list with a number for each layer.
  Result<std::vector<std::int32_t>> integers(const char* key) const {
    const Json* v = find(key);
    if (v == nullptr) return absent<std::vector<std::int32_t>>(key, {});
    if (!v->is_array() || v->size() > static_cast<std::size_t>(kMostLayers))
      return wrong(key, *v, "whole numbers, one a layer");
    std::vector<std::int32_t> values;
    for (const Json& element : *v) {
      const std::optional<std::int32_t> value = whole(element);
      if (!value) return wrong(key, *v, "whole numbers below 2^31, one a layer");
      values.push_back(*value);
    }
    return values;
  }

  Result<double> number(const char* key, std::optional<double> fallback = {}) const {
    const Json* v = find(key);
    if (v == nullptr) return absent(key, fallback);
    const double value = v->is_number() ? v->get<double>() : std::nan("");
    if (!(std::fabs(value) <= double{std::numeric_limits<float>::max()})) {
      return wrong(key, *v, "a finite number");
    }
    return value;
  }

  Result<float> real(const char* key, std::optional<double> fallback = {}) const {
    RUNNEL_TRY(const double value, number(key, fallback));
    return static_cast<float>(value);
  }

  Result<bool> boolean(const char* key, std::optional<bool> fallback = {}) const {
    const Json* v = find(key);
    if (v == nullptr) return absent(key, fallback);
    if (!v->is_boolean()) return wrong(key, *v, "true or false");
    return v->get<bool>();
  }

  Result<std::string> text(const char* key, std::optional<std::string> fallback = {}) const {
    const Json* v = find(key);
    if (v == nullptr) return absent(key, fallback);
    if (!v->is_string()) return wrong(key, *v, "a string");
    return v->get<std::string>();
  }

  /// unsupported if `key` is there and neither null nor false.
  Status refuse(const char* key, const char* meaning) const {
    const Json* v = find(key);
    if (v == nullptr || (v->is_boolean() && !v->get<bool>())) return {};
    return fail(ErrorCode::unsupported, "config.json: ", key, " is ", show(*v), ": ", meaning,
                " cannot be run");
  }

 private:
  static std::optional<std::int32_t> whole(const Json& v) {
    const double value = v.is_number() ? v.get<double>() : std::nan("");
    constexpr double kLargest = std::numeric_limits<std::int32_t>::max();
    if (!(std::fabs(value) <= kLargest) || value != std::trunc(value)) return {};
    return static_cast<std::int32_t>(value);
  }

  static std::string show(const Json& v) {
    return printable(v.dump(-1, ' ', true, Json::error_handler_t::replace), 64);
  }

  static Error wrong(const char* key, const Json& v, const char* expected) {
    return fail(ErrorCode::malformed, "config.json: ", key, " is ", show(v), ", expected ",
                expected);
  }

  template <class T>
  static Result<T> absent(const char* key, const std::optional<T>& fallback) {
    if (fallback) return *fallback;
    return fail(ErrorCode::malformed, "config.json: ", key, " is missing");
  }

  const Json& object_;
};

/// Options that change the computation in ways that this library does not compute, in any model type.
Status refuse_common(const Keys& keys, std::string_view activation) {
  RUNNEL_CHECK_OK(keys.refuse("attn", "a hybrid with softmax attention layers"));
  RUNNEL_CHECK_OK(keys.refuse("attnres_block_size", "a model with attention residuals"));
  RUNNEL_CHECK_OK(keys.refuse("conv_bias", "a short convolution with bias"));
  RUNNEL_CHECK_OK(keys.refuse("quantization_config", "a checkpoint that is already quantised"));
  RUNNEL_TRY(std::string act, keys.text("hidden_act", std::string(activation)));
  if (act == "silu") act = "swish";
  if (act == activation) return {};
  return fail(ErrorCode::unsupported, "config.json: hidden_act is ", in_quotes(act), ", expected '",
              activation, "'");
}

/// 256 * ceil(int(D * ratio * 2 / 3) / 256), as flash-linear-attention's GatedMLP does.
Result<std::int32_t> intermediate_size(const Keys& keys, std::int32_t hidden, double fallback) {
  if (keys.find("intermediate_size") != nullptr) return keys.integer("intermediate_size");
  RUNNEL_TRY(const double ratio, keys.number("hidden_ratio", fallback));
  const double wanted = std::trunc(static_cast<double>(hidden) * ratio * 2.0 / 3.0);
  const double rounded = 256.0 * std::ceil(wanted / 256.0);
  if (!(rounded >= 1 && rounded <= double{std::numeric_limits<std::int32_t>::max()})) {
    return fail(ErrorCode::malformed, "config.json: hidden_ratio is ", ratio,
                ", expected a small positive number");
  }
  return static_cast<std::int32_t>(rounded);
}

/// int(D * expand) / heads. The constructor's parameter was long misspelt; files have either key.
Result<std::int32_t> head_dim(const Keys& keys, const char* key, const char* misspelt,
                              std::int32_t hidden, std::int32_t heads, double fallback) {
  const char* there = keys.find(key) == nullptr && keys.find(misspelt) != nullptr ? misspelt : key;
  RUNNEL_TRY(const double expand, keys.number(there, fallback));
  const double channels = std::trunc(static_cast<double>(hidden) * expand);
  if (!(channels >= 1 && channels <= double{1 << 24}) || heads < 1 ||
      static_cast<std::int32_t>(channels) % heads != 0) {
    return fail(ErrorCode::malformed, "config.json: ", there, " is ", expand, ", which makes ",
                channels, " channels, expected a positive multiple of num_heads ", heads);
  }
  return static_cast<std::int32_t>(channels) / heads;
}

/// What the configurations of flash-linear-attention have in common, with the family's defaults.
struct Defaults {
  std::int32_t heads = 4;
  double expand_k = 1.0;
  double expand_v = 1.0;
  double hidden_ratio = 4.0;
};

/// A configuration while it is read: the layers of these models are all like one.
struct Draft : HfConfig {
  LayerSpec layer;
  std::int32_t num_layers = 0;
};

/// All but the sizes of heads.
Status parse_sizes(const Keys& keys, std::int32_t heads, Draft& out, double hidden_ratio = 4.0) {
  ModelConfig& m = out.model;
  LayerSpec& c = out.layer;
  RUNNEL_TRY(m.vocab_size, keys.integer("vocab_size", 32000));
  RUNNEL_TRY(m.hidden_size, keys.integer("hidden_size", 2048));
  RUNNEL_TRY(out.num_layers, keys.integer("num_hidden_layers", 24));
  RUNNEL_TRY(c.num_heads, keys.integer("num_heads", heads));
  RUNNEL_TRY(c.intermediate_size, intermediate_size(keys, m.hidden_size, hidden_ratio));
  RUNNEL_TRY(m.final_norm.eps, keys.real("norm_eps", 1e-6));
  c.norm.eps = c.channel_norm.eps = m.final_norm.eps;
  RUNNEL_TRY(out.g_norm_weight, keys.boolean("elementwise_affine", true));
  RUNNEL_TRY(out.tied, keys.boolean("tie_word_embeddings", false));
  return {};
}

Status parse_common(const Keys& keys, const Defaults& d, Draft& out) {
  LayerSpec& c = out.layer;
  RUNNEL_CHECK_OK(parse_sizes(keys, d.heads, out, d.hidden_ratio));
  const std::int32_t width = out.model.hidden_size;
  RUNNEL_TRY(c.num_kv_heads, keys.integer("num_kv_heads", c.num_heads));
  RUNNEL_TRY(c.head_k_dim, head_dim(keys, "expand_k", "exapnd_k", width, c.num_heads, d.expand_k));
  RUNNEL_TRY(c.head_v_dim, head_dim(keys, "expand_v", "exapnd_v", width, c.num_heads, d.expand_v));
  return {};
}

Status parse_short_conv(const Keys& keys, LayerSpec& c) {
  RUNNEL_TRY(const bool conv, keys.boolean("use_short_conv", false));
  if (!conv) return {};
  RUNNEL_TRY(c.conv_size, keys.integer("conv_size", 4));
  if (c.conv_size >= 1) return {};
  return fail(ErrorCode::malformed, "config.json: conv_size is ", c.conv_size,
              ", expected at least 1");
}

/// The map of a recurrence under the name that configurations use; null is identity.
Status parse_feature_map(const Keys& keys, std::initializer_list<const char*> known,
                         MixerSpec& mixer) {
  RUNNEL_TRY(std::string map, keys.text("feature_map", "identity"));
  if (map == "silu") map = "swish";
  std::string expected;
  for (const char* name : known) {
    if (map == name) {
      RUNNEL_TRY(mixer.feature_map,
                 feature_map_from_name("config.json: feature_map", map, Mixer::recurrence));
      return {};
    }
    expected += (expected.empty() ? "" : ", ") + std::string(name);
  }
  return fail(ErrorCode::unsupported, "config.json: feature_map is ", in_quotes(map),
              ", expected one of ", expected);
}

/// The parts of a recurrence that most of the family share: a norm of each head's output, with the
/// model's epsilon, and a scale of 1 / sqrt(K').
void recurrence(Draft& out, const char* architecture, Decay decay) {
  out.model.architecture = architecture;
  LayerSpec& c = out.layer;
  c.recurrence().decay = decay;
  c.output_activation = Activation::identity;
  c.output_norm = OutputNorm::heads;
  c.output_norm_eps = c.norm.eps;
  c.recurrence().gate_normalizer = 1.0F;
  c.recurrence().scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.feature_dim())));
}

/// Gated linear attention (arXiv:2312.06635).
Result<Draft> parse_gla(const Keys& keys) {
  Draft out;
  LayerSpec& c = out.layer;
  RecurrenceSpec& r = c.mixer.emplace<RecurrenceSpec>();
  RUNNEL_CHECK_OK(parse_common(keys, {.expand_k = 0.5}, out));
  RUNNEL_CHECK_OK(parse_feature_map(keys, {"identity", "swish", "relu"}, r));
  recurrence(out, "gla", Decay::log_sigmoid);
  // Defaults of the layer: the configuration has no such keys.
  RUNNEL_TRY(r.gate_rank, keys.integer("gate_low_rank_dim", 16));
  RUNNEL_TRY(r.gate_normalizer, keys.real("gate_logit_normalizer", 16.0));
  RUNNEL_TRY(r.gate_log_min, keys.real("clamp_min", 0.0));
  RUNNEL_TRY(c.output_gate, keys.boolean("use_output_gate", true));
  RUNNEL_CHECK_OK(parse_short_conv(keys, c));
  if (r.gate_rank < 1) {
    return fail(ErrorCode::malformed, "config.json: gate_low_rank_dim is ", r.gate_rank,
                ", expected at least 1");
  }
  out.gate_bias = true;
  return out;
}

/// HGRN2 (arXiv:2404.07904).
Result<Draft> parse_hgrn2(const Keys& keys) {
  Draft out;
  LayerSpec& c = out.layer;
  RecurrenceSpec& r = c.mixer.emplace<RecurrenceSpec>();
  RUNNEL_TRY(const std::int32_t width, keys.integer("hidden_size", 2048));
  RUNNEL_TRY(const std::int32_t expand, keys.integer("expand_ratio", 128));
  if (expand < 1 || width % expand != 0) {
    return fail(ErrorCode::malformed, "config.json: expand_ratio is ", expand,
                ", expected a divisor of hidden_size ", width);
  }
  // The ratio wins over num_heads, as in the layer.
  RUNNEL_CHECK_OK(parse_common(keys, {.heads = width / expand}, out));
  c.num_heads = c.num_kv_heads = width / expand;
  c.head_k_dim = c.head_v_dim = expand;
  r.feature_map = FeatureMap::swish;  // of the queries: the keys are 1 - a
  recurrence(out, "hgrn2", Decay::log_sigmoid);
  r.complement_keys = true;
  c.output_norm = OutputNorm::channels;
  c.output_norm_eps = 1e-5F;  // the layer calls its output norm without the model's
  c.conv_silu = false;
  RUNNEL_TRY(r.lower_bound, keys.boolean("use_lower_bound", true));
  RUNNEL_CHECK_OK(parse_short_conv(keys, c));
  return out;
}

/// RetNet (arXiv:2307.08621).
Result<Draft> parse_retnet(const Keys& keys) {
  Draft out;
  LayerSpec& c = out.layer;
  RecurrenceSpec& r = c.mixer.emplace<RecurrenceSpec>();
  RUNNEL_CHECK_OK(parse_common(keys, {.heads = 8, .expand_v = 2.0, .hidden_ratio = 2.0}, out));
  RUNNEL_CHECK_OK(parse_feature_map(keys, {"identity", "swish", "relu"}, r));
  recurrence(out, "retnet", Decay::fixed);
  r.rotary = true;
  RUNNEL_TRY(c.output_gate, keys.boolean("use_output_gate", true));
  if (c.num_kv_heads < 1 || c.num_heads % c.num_kv_heads != 0) {
    return fail(ErrorCode::malformed, "config.json: num_kv_heads is ", c.num_kv_heads,
                ", expected a divisor of num_heads ", c.num_heads);
  }
  out.repeat_kv = c.num_heads / c.num_kv_heads;
  c.num_kv_heads = c.num_heads;
  return out;
}

/// Linear attention, with its feature maps.
Result<Draft> parse_linear_attn(const Keys& keys) {
  Draft out;
  LayerSpec& c = out.layer;
  RecurrenceSpec& r = c.mixer.emplace<RecurrenceSpec>();
  RUNNEL_CHECK_OK(parse_common(keys, {}, out));
  const char* const map = keys.find("feature_map") == nullptr && !keys.has_null("feature_map")
                              ? "elementwise_product"
                              : nullptr;
  if (map != nullptr) {
    r.feature_map = FeatureMap::product;
  } else {
    RUNNEL_CHECK_OK(parse_feature_map(
        keys, {"identity", "relu", "elu", "t2r", "elementwise_product", "hedgehog", "dpfp"}, r));
  }
  recurrence(out, "linear_attn", Decay::none);
  RUNNEL_TRY(r.normalizer, keys.boolean("norm_feature_map", false));
  RUNNEL_TRY(r.feature_norm_q, keys.boolean("norm_q", false));
  RUNNEL_TRY(r.feature_norm_k, keys.boolean("norm_k", false));
  RUNNEL_TRY(out.tied_maps, keys.boolean("tie_feature_map_qk", false));
  RUNNEL_TRY(const std::string norm, keys.text("output_norm", "rmsnorm"));
  if (norm != "rmsnorm") {
    return fail(ErrorCode::unsupported, "config.json: output_norm is ", in_quotes(norm),
                ", expected 'rmsnorm'");
  }
  return out;
}

/// Attention with bounded memory control (arXiv:2110.02488).
Result<Draft> parse_abc(const Keys& keys) {
  Draft out;
  LayerSpec& c = out.layer;
  RecurrenceSpec& r = c.mixer.emplace<RecurrenceSpec>();
  RUNNEL_CHECK_OK(parse_common(keys, {.expand_k = 0.5}, out));
  recurrence(out, "abc", Decay::running_sum);
  r.feature_map = FeatureMap::identity;
  RUNNEL_TRY(r.rotary, keys.boolean("use_rope", true));
  const std::int32_t slots = keys.has_null("num_slots") ? c.head_k_dim : 64;
  RUNNEL_TRY(r.num_memory_slots, keys.integer("num_slots", slots));
  RUNNEL_TRY(r.gate_logit_min, keys.real("clamp_min", keys.has_null("clamp_min") ? -1e30 : -32.0));
  RUNNEL_TRY(r.gate_logit_max, keys.real("clamp_max", keys.has_null("clamp_max") ? 1e30 : 32.0));
  c.num_kv_heads = c.num_heads;
  c.output_gate = true;
  RUNNEL_CHECK_OK(parse_short_conv(keys, c));
  return out;
}

/// ReGLA (arXiv:2502.01578): refined gate, exponential feature map.
Result<Draft> parse_regla(const Keys& keys) {
  Draft out;
  LayerSpec& c = out.layer;
  RecurrenceSpec& r = c.mixer.emplace<RecurrenceSpec>();
  RUNNEL_CHECK_OK(parse_common(keys, {.expand_k = 0.5}, out));
  recurrence(out, "regla", Decay::refined);
  r.feature_map = FeatureMap::exponential;
  constexpr double e = 2.718281828459045;
  r.scale = static_cast<float>(1.0 / (e * std::sqrt(c.head_k_dim * (e * e - 1.0))));
  RUNNEL_TRY(const std::string side, keys.text("gate_side", "key"));
  if (side != "key" && side != "value") {
    return fail(ErrorCode::unsupported, "config.json: gate_side is ", in_quotes(side),
                ", expected 'key' or 'value'");
  }
  r.decay_on_values = side == "value";
  out.gate_bias = true;
  return out;
}

/// What the two delta rules have in common, after the convolutions are known: without them, the maps that follow them
/// otherwise are on q, k and v by themselves.
void delta_rule(Draft& out, const char* architecture, bool conv, bool silu) {
  LayerSpec& c = out.layer;
  RecurrenceSpec& r = c.recurrence();
  recurrence(out, architecture, r.decay);
  r.removal = Removal::delta;
  r.feature_map = !conv && silu ? FeatureMap::swish : r.feature_map;
  r.value_activation = conv ? Activation::identity : Activation::swish;
}

Result<float> beta_scale(const Keys& keys) {
  RUNNEL_TRY(const bool negative, keys.boolean("allow_neg_eigval", false));
  return negative ? 2.0F : 1.0F;
}

/// DeltaNet (arXiv:2406.06484).
Result<Draft> parse_delta_net(const Keys& keys) {
  Draft out;
  LayerSpec& c = out.layer;
  RecurrenceSpec& r = c.mixer.emplace<RecurrenceSpec>();
  RUNNEL_CHECK_OK(parse_common(keys, {}, out));
  RUNNEL_TRY(const bool beta, keys.boolean("use_beta", true));
  if (!beta) return fail(ErrorCode::unsupported, "config.json: use_beta is false, expected true");
  RUNNEL_TRY(r.removal_scale, beta_scale(keys));
  RUNNEL_TRY(const std::string norm, keys.text("qk_norm", "l2"));
  if (norm != "l2" && norm != "sum") {
    return fail(ErrorCode::unsupported, "config.json: qk_norm is ", in_quotes(norm),
                ", expected 'l2' or 'sum'");
  }
  r.key_norm = norm == "l2" ? KeyNorm::length : KeyNorm::sum;
  RUNNEL_TRY(const std::string map, keys.text("qk_activation", "silu"));
  const bool silu = map == "silu";
  RUNNEL_TRY(const bool conv, keys.boolean("use_short_conv", true));
  if (!silu) {
    RUNNEL_TRY(r.feature_map,
               feature_map_from_name("config.json: qk_activation", map, Mixer::recurrence));
    if (conv) {
      return fail(ErrorCode::unsupported, "config.json: qk_activation is ", in_quotes(map),
                  " beside short convolutions, expected 'silu'");
    }
  } else {
    r.feature_map = FeatureMap::identity;
  }
  if (conv) {
    RUNNEL_TRY(c.conv_size, keys.integer("conv_size", 4));
  }
  RUNNEL_TRY(c.output_gate, keys.boolean("use_gate", false));
  RUNNEL_TRY(const bool output_norm, keys.boolean("use_output_norm", true));
  if (!output_norm)
    return fail(ErrorCode::unsupported, "config.json: use_output_norm is false, expected true");
  delta_rule(out, "delta_net", conv, silu);
  return out;
}

/// Gated DeltaNet (arXiv:2412.06464).
Result<Draft> parse_gated_deltanet(const Keys& keys) {
  Draft out;
  LayerSpec& c = out.layer;
  RecurrenceSpec& r = c.mixer.emplace<RecurrenceSpec>();
  // The heads have a size of their own here, whatever the width; q and k may have fewer than v, which the state is of.
  RUNNEL_CHECK_OK(parse_sizes(keys, 6, out));
  RUNNEL_TRY(c.head_k_dim, keys.integer("head_dim", 256));
  RUNNEL_TRY(const double expand, keys.number("expand_v", 2.0));
  const double dim_v = std::trunc(c.head_k_dim * expand);
  RUNNEL_TRY(const std::int32_t value_heads, keys.integer("num_v_heads", c.num_heads));
  if (!(dim_v >= 1 && dim_v <= double{1 << 24}) || c.num_heads < 1 ||
      value_heads % c.num_heads != 0) {
    return fail(ErrorCode::malformed, "config.json: expand_v is ", expand, " and num_v_heads ",
                value_heads, ", expected whole heads and a multiple of num_heads ", c.num_heads);
  }
  c.head_v_dim = static_cast<std::int32_t>(dim_v);
  r.values_per_key = value_heads / c.num_heads;
  c.num_heads = c.num_kv_heads = value_heads;
  r.decay = Decay::softplus;
  r.key_norm = KeyNorm::length;
  r.feature_map = FeatureMap::identity;
  RUNNEL_TRY(r.removal_scale, beta_scale(keys));
  RUNNEL_TRY(const bool conv, keys.boolean("use_short_conv", true));
  if (conv) {
    RUNNEL_TRY(c.conv_size, keys.integer("conv_size", 4));
  }
  RUNNEL_TRY(c.output_gate, keys.boolean("use_gate", true));
  delta_rule(out, "gated_deltanet", conv, true);
  out.gate_bias = true;
  return out;
}

/// What a configuration of RWKV-7 (arXiv:2503.14456) states; its sizes come from the tensors.
Result<Draft> parse_rwkv7(const Keys& keys) {
  Draft out;
  HfShifted& stated = out.shifted.emplace();
  out.model.architecture = "rwkv7";
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size",
                          "head_dim", "head_size", "num_heads", "decay_low_rank_dim",
                          "lora_rank_decay", "a_low_rank_dim", "lora_rank_iclr", "v_low_rank_dim",
                          "lora_rank_value_residual_mix", "gate_low_rank_dim", "lora_rank_gate"}) {
    if (keys.find(key) == nullptr) continue;
    RUNNEL_TRY(const std::int32_t value, keys.integer(key));
    stated.sizes.push_back({key, value});
  }
  // One number for all layers, or a list of theirs.
  if (const Json* const value_dim = keys.find("value_dim"); value_dim != nullptr) {
    if (value_dim->is_array()) {
      RUNNEL_TRY(const std::vector<std::int32_t> values, keys.integers("value_dim"));
      stated.sizes.push_back({"the length of value_dim", static_cast<std::int64_t>(values.size())});
      for (const std::int32_t value : values) stated.sizes.push_back({"value_dim", value});
    } else {
      RUNNEL_TRY(const std::int32_t value, keys.integer("value_dim"));
      stated.sizes.push_back({"value_dim", value});
    }
  }
  const char* const eps = keys.find("norm_eps") == nullptr ? "layer_norm_epsilon" : "norm_eps";
  RUNNEL_TRY(stated.norm_eps, keys.number(eps, 1e-5));
  RUNNEL_TRY(const bool norm_first, keys.boolean("norm_first", true));
  RUNNEL_TRY(const bool norm_bias, keys.boolean("norm_bias", true));
  if (!norm_first || !norm_bias) {
    return fail(ErrorCode::unsupported,
                "config.json: norm_first or norm_bias is false, expected true");
  }
  return out;
}

Result<Draft> parse_gsa(const Keys& keys) {
  Draft out;
  LayerSpec& c = out.layer;
  SlotSpec& s = c.mixer.emplace<SlotSpec>();
  RUNNEL_CHECK_OK(keys.refuse("use_rope", "rotary positions on gated slots"));
  RUNNEL_CHECK_OK(parse_common(keys, {}, out));
  // Absent means GSAConfig's default; null means the layer's, as many slots as key channels.
  const std::int32_t slots = keys.has_null("num_slots") ? c.head_k_dim : 64;
  RUNNEL_TRY(s.num_memory_slots, keys.integer("num_slots", slots));
  RUNNEL_TRY(s.gate_normalizer, keys.real("gate_logit_normalizer", 8.0));
  // Not config.norm_eps: the layer calls its output norm without one, which means 1e-5.
  RUNNEL_TRY(c.output_norm_eps, keys.real("g_norm_eps", 1e-5));
  RUNNEL_TRY(const std::string map, keys.text("feature_map", "swish"));
  if (map == "identity") {
    return fail(ErrorCode::unsupported,
                "config.json: feature_map is 'identity', expected swish, relu or t2r");
  }
  RUNNEL_TRY(s.feature_map, feature_map_from_name("config.json: feature_map", map));
  RUNNEL_CHECK_OK(parse_short_conv(keys, c));
  return out;
}

Result<Draft> parse_runnel_gsa(const Keys& keys) {
  Draft out;
  RUNNEL_CHECK_OK(keys.refuse("use_rope", "rotary positions on gated slots"));
  LayerSpec& c = out.layer;
  SlotSpec& s = c.mixer.emplace<SlotSpec>();
  RUNNEL_TRY(out.model.vocab_size, keys.integer("vocab_size"));
  RUNNEL_TRY(out.model.hidden_size, keys.integer("hidden_size"));
  RUNNEL_TRY(out.num_layers, keys.integer("num_hidden_layers"));
  RUNNEL_TRY(c.num_heads, keys.integer("num_heads"));
  RUNNEL_TRY(c.num_kv_heads, keys.integer("num_kv_heads"));
  RUNNEL_TRY(c.head_k_dim, keys.integer("head_dim"));
  c.head_v_dim = c.head_k_dim;
  RUNNEL_TRY(c.intermediate_size, keys.integer("intermediate_size"));
  RUNNEL_TRY(s.num_memory_slots, keys.integer("num_memory_slots"));
  RUNNEL_TRY(s.num_sink_slots, keys.integer("num_sink_slots"));
  RUNNEL_TRY(s.num_window_slots, keys.integer("num_window_slots"));
  if (s.num_sink_slots > 0) {
    RUNNEL_TRY(s.sink_distance, keys.integer("sink_distance"));
  }
  RUNNEL_TRY(s.rope_theta, keys.number("rope_theta"));
  RUNNEL_TRY(s.scale, keys.real("scale"));
  RUNNEL_TRY(s.gate_normalizer, keys.real("gate_logit_normalizer"));
  RUNNEL_TRY(s.gate_log_min, keys.real("gate_log_min", 0.0));
  RUNNEL_TRY(out.model.final_norm.eps, keys.real("norm_eps"));
  c.norm.eps = c.channel_norm.eps = out.model.final_norm.eps;
  RUNNEL_TRY(c.output_norm_eps, keys.real("g_norm_eps", 1e-5));
  RUNNEL_TRY(const std::string map, keys.text("feature_map"));
  RUNNEL_TRY(s.feature_map, feature_map_from_name("config.json: feature_map", map));
  RUNNEL_TRY(const std::string value, keys.text("value_activation", "identity"));
  RUNNEL_TRY(s.value_activation, activation_from_name("config.json: value_activation", value));
  RUNNEL_TRY(const std::string output, keys.text("output_activation"));
  RUNNEL_TRY(c.output_activation, activation_from_name("config.json: output_activation", output));
  RUNNEL_TRY(const bool output_norm, keys.boolean("use_output_norm"));
  c.output_norm = output_norm ? OutputNorm::channels : OutputNorm::none;
  RUNNEL_CHECK_OK(keys.refuse("use_short_conv", "a short convolution in this model type"));
  RUNNEL_TRY(out.g_norm_weight, keys.boolean("elementwise_affine", output_norm));
  RUNNEL_TRY(out.tied, keys.boolean("tie_word_embeddings"));
  RUNNEL_TRY(c.qkv_bias, keys.boolean("attention_bias", false));
  out.slot_biases = true;
  return out;
}

/// A model_type that is read.
struct Known {
  std::string_view type;
  Result<Draft> (*parse)(const Keys&);
  std::string_view activation = "swish";  // hidden_act
};
constexpr Known kKnown[] = {{"gsa", parse_gsa},
                            {"gla", parse_gla},
                            {"hgrn2", parse_hgrn2},
                            {"retnet", parse_retnet},
                            {"abc", parse_abc},
                            {"linear_attn", parse_linear_attn},
                            {"regla", parse_regla},
                            {"delta_net", parse_delta_net},
                            {"gated_deltanet", parse_gated_deltanet},
                            {"rwkv7", parse_rwkv7, "sqrelu"},
                            {"runnel_gsa", parse_runnel_gsa}};

}  // namespace

std::string hf_model_types() {
  std::string names;
  for (const Known& k : kKnown) names += (names.empty() ? "" : ", ") + std::string(k.type);
  return names;
}

Result<HfConfig> read_hf_config(std::string_view json, const SafetensorsCheckpoint& checkpoint) {
  RUNNEL_TRY(HfConfig config, parse_hf_config(json));
  if (config.shifted) {
    RUNNEL_TRY(config.model, shifted_config_of(*config.shifted, checkpoint));
  }
  return config;
}

Result<HfConfig> parse_hf_config(std::string_view json) {
  RUNNEL_TRY(const Json root,
             parse_json(json, "config.json", {.bytes = kMostConfigBytes, .unique_keys = true}));
  if (!root.is_object()) {
    return fail(ErrorCode::malformed, "config.json is not a JSON object");
  }
  const Keys keys(root);
  RUNNEL_TRY(const std::string type, keys.text("model_type"));
  const Known* const known = std::ranges::find(kKnown, std::string_view(type), &Known::type);
  if (known == std::end(kKnown)) {
    return fail(ErrorCode::unsupported, "config.json: model_type is ", in_quotes(type),
                ", expected one of ", hf_model_types());
  }
  RUNNEL_CHECK_OK(refuse_common(keys, known->activation));
  RUNNEL_TRY(Draft draft, known->parse(keys));
  if (draft.shifted) return static_cast<HfConfig&&>(draft);
  Status model = repeat_layers(draft.layer, draft.num_layers, draft.model);
  if (model) model = check_config(draft.model);
  if (!model) return with_context(model.error(), "config.json: as a model, ");
  return static_cast<HfConfig&&>(draft);
}

}  // namespace runnel
