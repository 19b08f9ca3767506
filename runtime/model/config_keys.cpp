// SPDX-License-Identifier: Apache-2.0
// ModelConfig as `gsa.*` keys of a GGUF file, and the range of every number. docs/model-file.md has
// the table.
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/model_file.h"
#include "runtime/model/weight_table.h"

namespace runnel {
namespace {

constexpr const char* kArchitecture = "gsa";

/// A whole number of the configuration with its range. The ranges hold every released model a
/// hundred times over and keep all products of the forward pass inside 64 bits.
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
    {"gsa.num_memory_slots", &ModelConfig::num_memory_slots, 1, 1 << 14, true},
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
  // Every factor is at most 2^15 here, so the product of these three stays below 2^45.
  const std::int64_t head = std::int64_t{c.num_slots()} * (c.head_k_dim + c.head_v_dim);
  const std::int64_t heads = head * c.num_kv_heads;
  const std::int64_t conv =
      std::int64_t{c.conv_size} * (std::int64_t{c.num_heads + c.num_kv_heads} * c.head_k_dim +
                                   std::int64_t{c.num_kv_heads} * c.head_v_dim);
  const std::int64_t layer = heads + conv;
  if (layer > kMaxStateFloats / c.num_layers) {
    return fail(ErrorCode::malformed, "the state of ", c.num_layers, " layers with ",
                c.num_kv_heads, " kv heads and ", c.num_slots(), " slots of ",
                c.head_k_dim + c.head_v_dim, " numbers is too large, expected at most ",
                kMaxStateFloats, " numbers in all");
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

std::string_view feature_map_name(FeatureMap map) {
  switch (map) {
    case FeatureMap::identity:
      return "identity";
    case FeatureMap::swish:
      return "swish";
    case FeatureMap::relu:
      return "relu";
    case FeatureMap::t2r:
      return "t2r";
  }
  return "identity";
}

Result<FeatureMap> feature_map_from_name(std::string_view key, std::string_view name) {
  for (FeatureMap m :
       {FeatureMap::identity, FeatureMap::swish, FeatureMap::relu, FeatureMap::t2r}) {
    if (feature_map_name(m) == name) return m;
  }
  return fail(ErrorCode::unsupported, key, " is ", in_quotes(name),
              ", expected identity, swish, relu or t2r");
}

Status check_config(const ModelConfig& c) {
  for (const IntKey& k : kIntKeys) {
    const std::int32_t value = c.*k.member;
    if (value < k.low || value > k.high) {
      return fail(ErrorCode::malformed, k.key, " is ", value, ", expected ", k.low, " to ", k.high);
    }
  }
  if (c.num_heads % c.num_kv_heads != 0) {
    return fail(ErrorCode::malformed, "gsa.num_heads is ", c.num_heads,
                ", expected a multiple of gsa.num_kv_heads ", c.num_kv_heads);
  }
  constexpr std::int64_t kMaxChannels = 1 << 20;
  RUNNEL_CHECK_OK(
      check_product("gsa.num_heads * gsa.head_k_dim", c.num_heads, c.head_k_dim, kMaxChannels));
  RUNNEL_CHECK_OK(
      check_product("gsa.num_heads * gsa.head_v_dim", c.num_heads, c.head_v_dim, kMaxChannels));
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
  return check_float(kRopeTheta, c.rope_theta, c.rope_theta > 1, "a finite number above 1");
}

bool is_config_key(std::string_view key) {
  for (const IntKey& k : kIntKeys) {
    if (key == k.key) return true;
  }
  for (const FloatKey& k : kFloatKeys) {
    if (key == k.key) return true;
  }
  return key == kRopeTheta || key == kFeatureMap || key == kValueActivation ||
         key == kOutputActivation || key == kOutputNorm;
}

void config_to_gguf(const ModelConfig& c, GgufWriter& writer) {
  writer.set("general.architecture", std::string(kArchitecture));
  if (!c.name.empty()) writer.set("general.name", c.name);
  for (const IntKey& k : kIntKeys) writer.set(k.key, static_cast<std::uint32_t>(c.*k.member));
  for (const FloatKey& k : kFloatKeys) writer.set(k.key, c.*k.member);
  writer.set(kRopeTheta, c.rope_theta);
  writer.set(kFeatureMap, std::string(feature_map_name(c.feature_map)));
  writer.set(kValueActivation, std::string(activation_name(c.value_activation)));
  writer.set(kOutputActivation, std::string(activation_name(c.output_activation)));
  writer.set(kOutputNorm, c.output_norm);
}

Result<ModelConfig> config_from_gguf(const GgufFile& file) {
  RUNNEL_TRY(const std::string architecture, file.get_string("general.architecture"));
  if (architecture != kArchitecture) {
    return fail(ErrorCode::unsupported, "general.architecture is ", in_quotes(architecture),
                ", expected '", kArchitecture, "'");
  }
  ModelConfig c;
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
    // Narrowing a double beyond f32 is undefined; as infinity it fails check_config by its key's
    // name.
    constexpr double kLargest = std::numeric_limits<float>::max();
    const bool beyond = std::isfinite(value) && std::fabs(value) > kLargest;
    c.*k.member = beyond ? std::numeric_limits<float>::infinity() : static_cast<float>(value);
  }
  const bool positional = c.num_positional_slots() > 0;
  const std::optional<double> theta =
      positional ? std::nullopt : std::optional<double>(c.rope_theta);
  RUNNEL_TRY(c.rope_theta, file.get_float(kRopeTheta, theta));
  if (c.num_sink_slots == 0) c.sink_distance = 0;

  RUNNEL_TRY(const std::string map, file.get_string(kFeatureMap));
  RUNNEL_TRY(c.feature_map, feature_map_from_name(kFeatureMap, map));
  RUNNEL_TRY(const std::string value_act, file.get_string(kValueActivation));
  RUNNEL_TRY(c.value_activation, activation_from_name(kValueActivation, value_act));
  RUNNEL_TRY(const std::string output_act, file.get_string(kOutputActivation));
  RUNNEL_TRY(c.output_activation, activation_from_name(kOutputActivation, output_act));
  RUNNEL_TRY(c.output_norm, file.get_bool(kOutputNorm));
  RUNNEL_CHECK_OK(check_config(c));
  return c;
}

}  // namespace runnel
