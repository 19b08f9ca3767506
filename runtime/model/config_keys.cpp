// SPDX-License-Identifier: Apache-2.0
// ModelConfig as `gsa.*` keys of a GGUF file, and the range of every number. docs/model-file.md has the table.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/model_file.h"
#include "runtime/model/weight_table.h"

namespace runnel {
namespace {

constexpr std::array<std::string_view, 7> kArchitectures = {"gsa",         "gla", "hgrn2", "retnet",
                                                            "linear_attn", "abc", "regla"};

/// A whole number of the configuration with its range. The ranges exceed every released model a hundredfold and keep
/// all products of the forward pass inside 64 bits.
struct IntKey {
  const char* key;
  std::int32_t ModelConfig::*member;
  std::int32_t low;
  std::int32_t high;
  bool required;  // else 0 when the key is absent
};

constexpr IntKey kIntKeys[] = {
    {"gsa.vocab_size", &ModelConfig::vocab_size, 1, 1 << 24, true},
    {"gsa.hidden_size", &ModelConfig::hidden_size, 1, 1 << 17, true},
    {"gsa.num_layers", &ModelConfig::num_layers, 1, 4096, true},
    {"gsa.num_heads", &ModelConfig::num_heads, 1, 4096, true},
    {"gsa.num_kv_heads", &ModelConfig::num_kv_heads, 1, 4096, true},
    {"gsa.head_k_dim", &ModelConfig::head_k_dim, 1, 1 << 14, true},
    {"gsa.head_v_dim", &ModelConfig::head_v_dim, 1, 1 << 14, true},
    {"gsa.intermediate_size", &ModelConfig::intermediate_size, 1, 1 << 20, true},
    {"gsa.num_memory_slots", &ModelConfig::num_memory_slots, 0, 1 << 14, true},
    {"gsa.num_sink_slots", &ModelConfig::num_sink_slots, 0, 1 << 14, false},
    {"gsa.num_window_slots", &ModelConfig::num_window_slots, 0, 1 << 14, false},
    {"gsa.sink_distance", &ModelConfig::sink_distance, 0, 1 << 30, false},
    {"gsa.conv_size", &ModelConfig::conv_size, 0, 64, false},
};

struct FloatKey {
  const char* key;
  float ModelConfig::*member;
  bool required;
};

constexpr FloatKey kFloatKeys[] = {
    {"gsa.scale", &ModelConfig::scale, true},
    {"gsa.gate_normalizer", &ModelConfig::gate_normalizer, true},
    {"gsa.gate_log_min", &ModelConfig::gate_log_min, false},
    {"gsa.norm_eps", &ModelConfig::norm_eps, true},
    {"gsa.g_norm_eps", &ModelConfig::g_norm_eps, false},
};

// Keys of a recurrence only. A file of slots that has one describes a model that this version does not know.
constexpr IntKey kRecurrenceInts[] = {
    {"gsa.gate_rank", &ModelConfig::gate_rank, 0, 1 << 16, false},
};

constexpr FloatKey kRecurrenceFloats[] = {
    {"gsa.gate_logit_min", &ModelConfig::gate_logit_min, false},
    {"gsa.gate_logit_max", &ModelConfig::gate_logit_max, false},
};

struct BoolKey {
  const char* key;
  bool ModelConfig::*member;
};

constexpr BoolKey kRecurrenceBools[] = {
    {"gsa.decay_on_values", &ModelConfig::decay_on_values},
    {"gsa.lower_bound", &ModelConfig::lower_bound},
    {"gsa.complement_keys", &ModelConfig::complement_keys},
    {"gsa.rotary", &ModelConfig::rotary},
    {"gsa.feature_norm_q", &ModelConfig::feature_norm_q},
    {"gsa.feature_norm_k", &ModelConfig::feature_norm_k},
    {"gsa.normalizer", &ModelConfig::normalizer},
    {"gsa.output_gate", &ModelConfig::output_gate},
    {"gsa.output_norm_heads", &ModelConfig::output_norm_heads},
    {"gsa.conv_silu", &ModelConfig::conv_silu},
};

constexpr const char* kMixer = "gsa.mixer";
constexpr const char* kDecay = "gsa.decay";
constexpr const char* kRopeTheta = "gsa.rope_theta";
constexpr const char* kFeatureMap = "gsa.feature_map";
constexpr const char* kValueActivation = "gsa.value_activation";
constexpr const char* kOutputActivation = "gsa.output_activation";
constexpr const char* kOutputNorm = "gsa.output_norm";

/// 4 GiB of floats: what one session may hold. The largest released model holds 16 MiB.
constexpr std::int64_t kMaxStateFloats = std::int64_t{1} << 30;

Status check_product(const char* what, std::int64_t a, std::int64_t b, std::int64_t high) {
  if (a * b > high) {
    return fail(ErrorCode::malformed, what, " is ", a * b, ", expected at most ", high);
  }
  return {};
}

Status check_float(const char* key, double value, bool ok, const char* expected) {
  if (std::isfinite(value) && ok) return {};
  return fail(ErrorCode::malformed, key, " is ", value, ", expected ", expected);
}

Status check_state_size(const ModelConfig& c) {
  // Every factor is at most 2^17 here, so the product of these three stays below 2^51.
  const bool one_pass = c.mixer == Mixer::recurrence && c.num_memory_slots == 0;
  const std::int64_t rows = one_pass ? c.feature_dim() : c.num_slots();
  const std::int64_t columns = (one_pass ? 0 : c.head_k_dim) + c.value_columns();
  const std::int64_t head = rows * (columns + 1);
  const std::int64_t heads = head * c.num_kv_heads;
  const std::int64_t conv =
      std::int64_t{c.conv_size} * (std::int64_t{c.num_heads + c.num_kv_heads} * c.head_k_dim +
                                   std::int64_t{c.num_kv_heads} * c.head_v_dim);
  const std::int64_t layer = heads + conv;
  if (layer > kMaxStateFloats / c.num_layers) {
    return fail(ErrorCode::malformed, "the state of ", c.num_layers, " layers with ",
                c.num_kv_heads, " kv heads and ", rows, one_pass ? " rows of " : " slots of ",
                columns, " numbers is too large, expected at most ", kMaxStateFloats,
                " numbers in all");
  }
  return {};
}

}  // namespace

std::string_view activation_name(Activation activation) {
  switch (activation) {
    case Activation::identity:
      return "identity";
    case Activation::swish:
      return "swish";
    case Activation::relu:
      return "relu";
  }
  return "identity";
}

Result<Activation> activation_from_name(std::string_view key, std::string_view name) {
  for (Activation a : {Activation::identity, Activation::swish, Activation::relu}) {
    if (activation_name(a) == name) return a;
  }
  return fail(ErrorCode::unsupported, key, " is ", in_quotes(name),
              ", expected identity, swish or relu");
}

namespace {

struct FeatureMapName {
  FeatureMap map;
  std::string_view name;
};
constexpr FeatureMapName kFeatureMaps[] = {{FeatureMap::identity, "identity"},
                                           {FeatureMap::swish, "swish"},
                                           {FeatureMap::relu, "relu"},
                                           {FeatureMap::t2r, "t2r"},
                                           {FeatureMap::elu, "elu"},
                                           {FeatureMap::product, "elementwise_product"},
                                           {FeatureMap::hedgehog, "hedgehog"},
                                           {FeatureMap::dpfp, "dpfp"},
                                           {FeatureMap::exponential, "exponential"}};

struct DecayName {
  Decay decay;
  std::string_view name;
};
constexpr DecayName kDecays[] = {{Decay::none, "none"},
                                 {Decay::fixed, "fixed"},
                                 {Decay::log_sigmoid, "log_sigmoid"},
                                 {Decay::refined, "refined"},
                                 {Decay::running_sum, "running_sum"}};

Result<Decay> decay_from_name(std::string_view name) {
  for (const DecayName& d : kDecays) {
    if (d.name == name) return d.decay;
  }
  return fail(ErrorCode::unsupported, kDecay, " is ", in_quotes(name),
              ", expected none, fixed, log_sigmoid, refined or running_sum");
}

Result<Mixer> mixer_from_name(std::string_view name) {
  for (Mixer m : {Mixer::slots, Mixer::recurrence}) {
    if (mixer_name(m) == name) return m;
  }
  return fail(ErrorCode::unsupported, kMixer, " is ", in_quotes(name),
              ", expected slots or recurrence");
}

}  // namespace

std::string_view feature_map_name(FeatureMap map) {
  for (const FeatureMapName& m : kFeatureMaps) {
    if (m.map == map) return m.name;
  }
  return "identity";
}

Result<FeatureMap> feature_map_from_name(std::string_view key, std::string_view name, Mixer mixer) {
  for (const FeatureMapName& m : kFeatureMaps) {
    const bool any = mixer == Mixer::recurrence || m.map <= FeatureMap::t2r;
    if (any && m.name == name) return m.map;
  }
  return fail(
      ErrorCode::unsupported, key, " is ", in_quotes(name), ", expected identity, swish, relu",
      mixer == Mixer::recurrence ? ", t2r, elu, elementwise_product, hedgehog, dpfp or exponential"
                                 : " or t2r");
}

std::string_view mixer_name(Mixer mixer) { return mixer == Mixer::slots ? "slots" : "recurrence"; }

std::string_view decay_name(Decay decay) {
  for (const DecayName& d : kDecays) {
    if (d.decay == decay) return d.name;
  }
  return "none";
}

namespace {

/// Checks options that only slots or only a recurrence have, and options that exclude each other.
Status check_mixer(const ModelConfig& c) {
  const auto refuse = [](const char* what, const char* expected) {
    return fail(ErrorCode::unsupported, what, ", expected ", expected);
  };
  if (c.mixer == Mixer::slots) {
    if (c.num_memory_slots < 1) {
      return fail(ErrorCode::malformed, "gsa.num_memory_slots is ", c.num_memory_slots,
                  ", expected 1 to ", 1 << 14);
    }
    if (c.feature_map > FeatureMap::t2r) {
      return refuse("gsa.feature_map of slots is a map of another mixer",
                    "identity, swish, relu or t2r");
    }
    return {};
  }
  const bool slots = c.num_memory_slots > 0;
  if (c.num_positional_slots() > 0) {
    return refuse("a recurrence has window or sink slots", "none");
  }
  if (slots != (c.decay == Decay::running_sum)) {
    return refuse("a recurrence has memory slots without gsa.decay running_sum or the reverse",
                  "both or none");
  }
  if (c.decay_on_values && c.decay != Decay::refined) {
    return refuse("gsa.decay_on_values is true", "it only with gsa.decay refined");
  }
  if (c.lower_bound && c.decay != Decay::log_sigmoid) {
    return refuse("gsa.lower_bound is true", "it only with gsa.decay log_sigmoid");
  }
  if (c.complement_keys && (c.decay != Decay::log_sigmoid || c.gate_rank > 0)) {
    return refuse("gsa.complement_keys is true", "it only with gsa.decay log_sigmoid of full rank");
  }
  if (c.complement_keys && (c.rotary || c.feature_norm_k || c.feature_dim() != c.head_k_dim)) {
    return refuse("gsa.complement_keys is true beside a map or rotation of the keys", "neither");
  }
  if (slots && (c.normalizer || c.feature_dim() != c.head_k_dim ||
                c.feature_map == FeatureMap::exponential)) {
    return refuse("a recurrence with slots has a normalizer or a widening map", "neither");
  }
  if (c.feature_map == FeatureMap::exponential && c.decay != Decay::refined) {
    return refuse("gsa.feature_map is exponential", "it only with gsa.decay refined");
  }
  if (c.decay == Decay::refined && c.feature_map != FeatureMap::exponential) {
    return refuse("gsa.decay is refined", "it only with gsa.feature_map exponential");
  }
  if (c.normalizer && (c.decay_on_values || c.decay == Decay::refined)) {
    return refuse("gsa.normalizer is true beside a refined decay", "another decay");
  }
  if (c.rotary && (c.head_k_dim % 2 != 0 || c.feature_dim() != c.head_k_dim)) {
    return refuse("gsa.rotary is true with an odd gsa.head_k_dim or a widening map",
                  "pairs of channels");
  }
  if (c.gate_rank > 0 && !c.has_gate()) {
    return refuse("gsa.gate_rank is above 0 without a gate", "0");
  }
  if (c.output_gate && !c.output_norm) {
    return refuse("gsa.output_gate is true without gsa.output_norm", "both");
  }
  return {};
}

}  // namespace

std::span<const std::string_view> architectures() { return kArchitectures; }

Status check_config(const ModelConfig& c) {
  const auto check_ints = [&c](std::span<const IntKey> keys) -> Status {
    for (const IntKey& k : keys) {
      const std::int32_t value = c.*k.member;
      if (value < k.low || value > k.high) {
        return fail(ErrorCode::malformed, k.key, " is ", value, ", expected ", k.low, " to ",
                    k.high);
      }
    }
    return {};
  };
  RUNNEL_CHECK_OK(check_ints(kIntKeys));
  RUNNEL_CHECK_OK(check_ints(kRecurrenceInts));
  RUNNEL_CHECK_OK(check_mixer(c));
  if (c.num_heads % c.num_kv_heads != 0) {
    return fail(ErrorCode::malformed, "gsa.num_heads is ", c.num_heads,
                ", expected a multiple of gsa.num_kv_heads ", c.num_kv_heads);
  }
  constexpr std::int64_t kMaxChannels = 1 << 20;
  RUNNEL_CHECK_OK(
      check_product("gsa.num_heads * gsa.head_k_dim", c.num_heads, c.head_k_dim, kMaxChannels));
  RUNNEL_CHECK_OK(
      check_product("gsa.num_heads * gsa.head_v_dim", c.num_heads, c.head_v_dim, kMaxChannels));
  RUNNEL_CHECK_OK(
      check_product("gsa.num_heads * features", c.num_heads, c.feature_dim(), kMaxChannels));
  RUNNEL_CHECK_OK(check_product("gsa.num_kv_heads * gsa.num_memory_slots", c.num_kv_heads,
                                c.num_memory_slots, kMaxChannels));
  if (c.num_positional_slots() > 0 && c.head_k_dim % 2 != 0) {
    return fail(ErrorCode::malformed, "gsa.head_k_dim is ", c.head_k_dim,
                ", expected an even number because sink and window slots are rotated in pairs");
  }
  if (c.num_sink_slots > 0 && c.sink_distance < c.num_sink_slots) {
    return fail(ErrorCode::malformed, "gsa.sink_distance is ", c.sink_distance,
                ", expected at least gsa.num_sink_slots ", c.num_sink_slots);
  }
  if (c.num_sink_slots > 0 && c.num_window_slots == 0) {
    return fail(ErrorCode::unsupported, "gsa.num_sink_slots is ", c.num_sink_slots,
                " and gsa.num_window_slots is 0, expected sink slots only beside window slots");
  }
  RUNNEL_CHECK_OK(check_state_size(c));
  RUNNEL_CHECK_OK(check_float("gsa.scale", c.scale, true, "a finite number"));
  RUNNEL_CHECK_OK(check_float("gsa.gate_normalizer", c.gate_normalizer, c.gate_normalizer > 0,
                              "a finite number above 0"));
  RUNNEL_CHECK_OK(check_float("gsa.gate_log_min", c.gate_log_min, c.gate_log_min <= 0,
                              "a finite number, negative or 0 for none"));
  RUNNEL_CHECK_OK(check_float("gsa.norm_eps", c.norm_eps, c.norm_eps > 0 && c.norm_eps <= 1,
                              "a number above 0 and at most 1"));
  RUNNEL_CHECK_OK(check_float("gsa.g_norm_eps", c.g_norm_eps, c.g_norm_eps > 0 && c.g_norm_eps <= 1,
                              "a number above 0 and at most 1"));
  const bool clamp = c.gate_logit_min != 0 || c.gate_logit_max != 0;
  RUNNEL_CHECK_OK(check_float("gsa.gate_logit_min", c.gate_logit_min, true, "a finite number"));
  RUNNEL_CHECK_OK(check_float("gsa.gate_logit_max", c.gate_logit_max,
                              !clamp || c.gate_logit_min < c.gate_logit_max,
                              "a finite number above gsa.gate_logit_min"));
  return check_float(kRopeTheta, c.rope_theta, c.rope_theta > 1, "a finite number above 1");
}

namespace {

bool is_recurrence_key(std::string_view key) {
  const auto named = [key](const auto& k) { return key == k.key; };
  return key == kDecay || std::ranges::any_of(kRecurrenceInts, named) ||
         std::ranges::any_of(kRecurrenceFloats, named) ||
         std::ranges::any_of(kRecurrenceBools, named);
}

/// Narrowing a double beyond f32 is undefined; as infinity it fails check_config by its key's name.
float narrowed(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const bool beyond = std::isfinite(value) && std::fabs(value) > kLargest;
  return beyond ? std::numeric_limits<float>::infinity() : static_cast<float>(value);
}

Status read_recurrence(const GgufFile& file, ModelConfig& c) {
  RUNNEL_TRY(const std::string decay, file.get_string(kDecay));
  RUNNEL_TRY(c.decay, decay_from_name(decay));
  for (const IntKey& k : kRecurrenceInts) {
    RUNNEL_TRY(const std::int64_t value, file.get_int(k.key, 0));
    if (value < k.low || value > k.high) {
      return fail(ErrorCode::malformed, k.key, " is ", value, ", expected ", k.low, " to ", k.high);
    }
    c.*k.member = static_cast<std::int32_t>(value);
  }
  for (const FloatKey& k : kRecurrenceFloats) {
    RUNNEL_TRY(const double value, file.get_float(k.key, 0.0));
    c.*k.member = narrowed(value);
  }
  for (const BoolKey& k : kRecurrenceBools) {
    RUNNEL_TRY(c.*k.member, file.get_bool(k.key, c.*k.member));
  }
  return {};
}

Status refuse_recurrence_keys(const GgufFile& file) {
  for (const auto& entry : file.metadata()) {
    if (!is_recurrence_key(entry.first)) continue;
    return fail(ErrorCode::unsupported, "key ", entry.first, " belongs to a recurrence, but ",
                kMixer, " is slots");
  }
  return {};
}

}  // namespace

bool is_config_key(std::string_view key) {
  for (const IntKey& k : kIntKeys) {
    if (key == k.key) return true;
  }
  for (const FloatKey& k : kFloatKeys) {
    if (key == k.key) return true;
  }
  return is_recurrence_key(key) || key == kMixer || key == kRopeTheta || key == kFeatureMap ||
         key == kValueActivation || key == kOutputActivation || key == kOutputNorm;
}

std::vector<std::pair<std::string, GgufValue>> config_keys(const ModelConfig& c) {
  std::vector<std::pair<std::string, GgufValue>> keys;
  const auto set = [&keys](const char* key, GgufValue value) {
    keys.emplace_back(key, std::move(value));
  };
  set("general.architecture", c.architecture);
  if (!c.name.empty()) set("general.name", c.name);
  for (const IntKey& k : kIntKeys) set(k.key, static_cast<std::uint32_t>(c.*k.member));
  for (const FloatKey& k : kFloatKeys) set(k.key, c.*k.member);
  set(kRopeTheta, c.rope_theta);
  set(kFeatureMap, std::string(feature_map_name(c.feature_map)));
  set(kValueActivation, std::string(activation_name(c.value_activation)));
  set(kOutputActivation, std::string(activation_name(c.output_activation)));
  set(kOutputNorm, c.output_norm);
  if (c.mixer == Mixer::slots) return keys;  // files of slots are older than the other mixers
  set(kMixer, std::string(mixer_name(c.mixer)));
  set(kDecay, std::string(decay_name(c.decay)));
  for (const IntKey& k : kRecurrenceInts) {
    set(k.key, static_cast<std::uint32_t>(c.*k.member));
  }
  for (const FloatKey& k : kRecurrenceFloats) set(k.key, c.*k.member);
  for (const BoolKey& k : kRecurrenceBools) set(k.key, c.*k.member);
  return keys;
}

Result<ModelConfig> config_from_gguf(const GgufFile& file) {
  RUNNEL_TRY(const std::string architecture, file.get_string("general.architecture"));
  if (std::ranges::find(kArchitectures, architecture) == kArchitectures.end()) {
    std::string known;
    for (const std::string_view a : kArchitectures) {
      known += (known.empty() ? "" : ", ") + std::string(a);
    }
    return fail(ErrorCode::unsupported, "general.architecture is ", in_quotes(architecture),
                ", expected one of ", known);
  }
  ModelConfig c;
  c.architecture = architecture;
  RUNNEL_TRY(const std::string mixer, file.get_string(kMixer, std::string(mixer_name(c.mixer))));
  RUNNEL_TRY(c.mixer, mixer_from_name(mixer));
  if ((c.mixer == Mixer::slots) != (architecture == kArchitectures.front())) {
    return fail(ErrorCode::unsupported, kMixer, " is ", mixer, " in a file of architecture ",
                in_quotes(architecture), ", expected slots for gsa and recurrence for the others");
  }
  RUNNEL_TRY(c.name, file.get_string("general.name", std::string()));
  for (const IntKey& k : kIntKeys) {
    const std::optional<std::int64_t> fallback =
        k.required ? std::nullopt : std::optional<std::int64_t>(0);
    RUNNEL_TRY(const std::int64_t value, file.get_int(k.key, fallback));
    if (value < k.low || value > k.high) {
      return fail(ErrorCode::malformed, k.key, " is ", value, ", expected ", k.low, " to ", k.high);
    }
    c.*k.member = static_cast<std::int32_t>(value);
  }
  for (const FloatKey& k : kFloatKeys) {
    const std::optional<double> fallback =
        k.required ? std::nullopt : std::optional<double>(c.*k.member);
    RUNNEL_TRY(const double value, file.get_float(k.key, fallback));
    c.*k.member = narrowed(value);
  }
  if (c.mixer == Mixer::recurrence) {
    RUNNEL_CHECK_OK(read_recurrence(file, c));
  } else {
    RUNNEL_CHECK_OK(refuse_recurrence_keys(file));
  }
  const bool positional = c.num_positional_slots() > 0 || c.rotary;
  const std::optional<double> theta =
      positional ? std::nullopt : std::optional<double>(c.rope_theta);
  RUNNEL_TRY(c.rope_theta, file.get_float(kRopeTheta, theta));
  if (c.num_sink_slots == 0) c.sink_distance = 0;

  RUNNEL_TRY(const std::string map, file.get_string(kFeatureMap));
  RUNNEL_TRY(c.feature_map, feature_map_from_name(kFeatureMap, map, c.mixer));
  RUNNEL_TRY(const std::string value_act, file.get_string(kValueActivation));
  RUNNEL_TRY(c.value_activation, activation_from_name(kValueActivation, value_act));
  RUNNEL_TRY(const std::string output_act, file.get_string(kOutputActivation));
  RUNNEL_TRY(c.output_activation, activation_from_name(kOutputActivation, output_act));
  RUNNEL_TRY(c.output_norm, file.get_bool(kOutputNorm));
  RUNNEL_CHECK_OK(check_config(c));
  return c;
}

}  // namespace runnel
