// SPDX-License-Identifier: Apache-2.0
// ModelConfig as `gsa.*` keys of a GGUF file. docs/model-file.md has the table.
#include "runtime/model/config_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/config_names.h"
#include "runtime/model/file_names.h"
#include "runtime/model/model_file.h"
#include "runtime/model/shifted_config.h"
#include "runtime/model/weight_table.h"

namespace runnel {
namespace {

constexpr std::array<std::string_view, 9> kArchitectures = {
    "gsa", "gla", "hgrn2", "retnet", "linear_attn", "abc", "regla", "delta_net", "gated_deltanet"};

constexpr const char* kVocabSize = "gsa.vocab_size";
constexpr const char* kHiddenSize = "gsa.hidden_size";
constexpr const char* kNumLayers = "gsa.num_layers";
constexpr std::int64_t kMostVocabulary = 1 << 24, kMostWidth = 1 << 17;

// What the keys of a layer say. A member that the layer's mixer does not have is null.
template <class T>
using Member = T* (*)(LayerSpec&);

template <auto kMember, class T>
T* of_layer(LayerSpec& l) {
  return &(l.*kMember);
}
template <auto kMember, class T>
T* of_mixer(LayerSpec& l) {
  return &(l.common().*kMember);
}
template <auto kMember, class T>
T* of_slots(LayerSpec& l) {
  SlotSpec* s = std::get_if<SlotSpec>(&l.mixer);
  return s == nullptr ? nullptr : &(s->*kMember);
}
template <auto kMember, class T>
T* of_recurrence(LayerSpec& l) {
  RecurrenceSpec* r = std::get_if<RecurrenceSpec>(&l.mixer);
  return r == nullptr ? nullptr : &(r->*kMember);
}

/// A whole number of a layer with its range. The ranges hold every released model a hundred times over and keep all
/// products of the forward pass inside 64 bits.
struct IntKey {
  const char* key;
  Member<std::int32_t> member;
  std::int32_t low;
  std::int32_t high;
  bool required;  // else 0 when the key is absent
};

using Int = std::int32_t;
constexpr IntKey kIntKeys[] = {
    {"gsa.num_heads", of_layer<&LayerSpec::num_heads, Int>, 1, 4096, true},
    {"gsa.num_kv_heads", of_layer<&LayerSpec::num_kv_heads, Int>, 1, 4096, true},
    {"gsa.head_k_dim", of_layer<&LayerSpec::head_k_dim, Int>, 1, 1 << 14, true},
    {"gsa.head_v_dim", of_layer<&LayerSpec::head_v_dim, Int>, 1, 1 << 14, true},
    {"gsa.intermediate_size", of_layer<&LayerSpec::intermediate_size, Int>, 0, 1 << 20, true},
    {"gsa.num_memory_slots", of_mixer<&MixerSpec::num_memory_slots, Int>, 0, 1 << 14, true},
    {"gsa.num_sink_slots", of_slots<&SlotSpec::num_sink_slots, Int>, 0, 1 << 14, false},
    {"gsa.num_window_slots", of_slots<&SlotSpec::num_window_slots, Int>, 0, 1 << 14, false},
    {"gsa.sink_distance", of_slots<&SlotSpec::sink_distance, Int>, 0, 1 << 30, false},
    {"gsa.conv_size", of_layer<&LayerSpec::conv_size, Int>, 0, 64, false},
};

struct FloatKey {
  const char* key;
  Member<float> member;
  bool required;
};

constexpr FloatKey kFloatKeys[] = {
    {"gsa.scale", of_mixer<&MixerSpec::scale, float>, true},
    {"gsa.gate_normalizer", of_mixer<&MixerSpec::gate_normalizer, float>, true},
    {"gsa.gate_log_min", of_mixer<&MixerSpec::gate_log_min, float>, false},
    {"gsa.norm_eps", [](LayerSpec& l) { return &l.norm.eps; }, true},
    {"gsa.g_norm_eps", of_layer<&LayerSpec::output_norm_eps, float>, false},
};

// Keys of a recurrence only. A file of slots that has one describes a model that this version does not run.
constexpr IntKey kRecurrenceInts[] = {
    {"gsa.gate_rank", of_recurrence<&RecurrenceSpec::gate_rank, Int>, 0, 1 << 16, false},
};

constexpr FloatKey kRecurrenceFloats[] = {
    {"gsa.gate_logit_min", of_recurrence<&RecurrenceSpec::gate_logit_min, float>, false},
    {"gsa.gate_logit_max", of_recurrence<&RecurrenceSpec::gate_logit_max, float>, false},
};

struct BoolKey {
  const char* key;
  Member<bool> member;
};

constexpr BoolKey kRecurrenceBools[] = {
    {"gsa.decay_on_values", of_recurrence<&RecurrenceSpec::decay_on_values, bool>},
    {"gsa.lower_bound", of_recurrence<&RecurrenceSpec::lower_bound, bool>},
    {"gsa.complement_keys", of_recurrence<&RecurrenceSpec::complement_keys, bool>},
    {"gsa.rotary", of_recurrence<&RecurrenceSpec::rotary, bool>},
    {"gsa.feature_norm_q", of_recurrence<&RecurrenceSpec::feature_norm_q, bool>},
    {"gsa.feature_norm_k", of_recurrence<&RecurrenceSpec::feature_norm_k, bool>},
    {"gsa.normalizer", of_recurrence<&RecurrenceSpec::normalizer, bool>},
    {"gsa.output_gate", of_layer<&LayerSpec::output_gate, bool>},
    {"gsa.conv_silu", of_layer<&LayerSpec::conv_silu, bool>},
};

// Keys of a recurrence with a removal only; files without one do not have them.
constexpr const char* kRemoval = "gsa.removal";
constexpr const char* kRemovalScale = "gsa.removal_scale";
constexpr const char* kKeyNorm = "gsa.key_norm";
constexpr const char* kValuesPerKey = "gsa.values_per_key";
constexpr const char* kRemovalKeys[] = {kRemoval, kRemovalScale, kKeyNorm, kValuesPerKey};

constexpr const char* kMixer = "gsa.mixer";
constexpr const char* kDecay = "gsa.decay";
constexpr const char* kRopeTheta = "gsa.rope_theta";
constexpr const char* kFeatureMap = "gsa.feature_map";
constexpr const char* kValueActivation = "gsa.value_activation";
constexpr const char* kOutputActivation = "gsa.output_activation";
constexpr const char* kOutputNorm = "gsa.output_norm";
constexpr const char* kOutputNormHeads = "gsa.output_norm_heads";  // of a recurrence only
constexpr const char* kNorm = "gsa.norm";
constexpr const char* kChannelMix = "gsa.channel_mix";

}  // namespace

std::span<const std::string_view> architectures() { return kArchitectures; }

namespace {

Status check_range(const char* key, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorCode::malformed, key, " is ", value, ", expected ", low, " to ", high);
}

}  // namespace

Status check_model_ranges(const ModelConfig& c) {
  RUNNEL_CHECK_OK(check_range(kVocabSize, c.vocab_size, 1, kMostVocabulary));
  RUNNEL_CHECK_OK(check_range(kHiddenSize, c.hidden_size, 1, kMostWidth));
  return check_range(kNumLayers, c.num_layers(), 1, kMostLayers);
}

Status check_key_ranges(LayerSpec layer) {
  for (const std::span<const IntKey> keys :
       {std::span(kIntKeys).first(std::size(kIntKeys)), std::span<const IntKey>(kRecurrenceInts)}) {
    for (const IntKey& k : keys) {
      const std::int32_t* value = k.member(layer);
      if (value != nullptr) RUNNEL_CHECK_OK(check_range(k.key, *value, k.low, k.high));
    }
  }
  return {};
}

Status repeat_layers(const LayerSpec& layer, std::int64_t count, ModelConfig& config) {
  RUNNEL_CHECK_OK(check_range(kNumLayers, count, 1, kMostLayers));
  config.repeat(layer, static_cast<std::int32_t>(count));
  return {};
}

namespace {

bool is_recurrence_key(std::string_view key) {
  const auto named = [key](const auto& k) { return key == k.key; };
  return key == kDecay || key == kOutputNormHeads ||
         std::ranges::find(kRemovalKeys, key) != std::end(kRemovalKeys) ||
         std::ranges::any_of(kRecurrenceInts, named) ||
         std::ranges::any_of(kRecurrenceFloats, named) ||
         std::ranges::any_of(kRecurrenceBools, named);
}

/// Narrowing a double beyond f32 is undefined; as infinity it fails check_config by its key's name.
float narrowed(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const bool beyond = std::isfinite(value) && std::fabs(value) > kLargest;
  return beyond ? std::numeric_limits<float>::infinity() : static_cast<float>(value);
}

/// The keys of one layer: each a value for all layers, or an array with one value per layer.
class LayerKeys {
 public:
  LayerKeys(const GgufFile& file, std::size_t layers) : file_(file), layers_(layers) {}

  void select(std::size_t layer) { layer_ = layer; }

  Result<std::int64_t> integer(const char* key, std::optional<std::int64_t> fallback) const {
    return look_up<std::int64_t>(key, fallback, &GgufFile::integer_of);
  }
  Result<double> number(const char* key, std::optional<double> fallback) const {
    return look_up<double>(key, fallback, &GgufFile::float_of);
  }
  Result<bool> boolean(const char* key, std::optional<bool> fallback) const {
    return look_up<bool>(key, fallback, &GgufFile::bool_of);
  }
  Result<std::string> text(const char* key, std::optional<std::string> fallback = {}) const {
    return look_up<std::string>(key, fallback, &GgufFile::string_of);
  }

 private:
  template <class T>
  Result<T> look_up(const char* key, const std::optional<T>& fallback,
                    Result<T> (*convert)(std::string_view, const GgufValue&)) const {
    const GgufValue* value = file_.find(key);
    if (value == nullptr) {
      if (fallback) return *fallback;
      return fail(ErrorCode::not_found, "key ", in_quotes(key), " is missing");
    }
    const auto* array = std::get_if<GgufArray>(value);
    if (array == nullptr) return convert(key, *value);
    return std::visit(
        [&](const auto& elements) -> Result<T> {
          if (elements.size() != layers_) {
            return fail(ErrorCode::malformed, "key ", in_quotes(key), " has ", elements.size(),
                        " values, expected one for each of ", layers_, " layers");
          }
          return convert(key, GgufValue(elements[layer_]));
        },
        *array);
  }

  const GgufFile& file_;
  std::size_t layers_;
  std::size_t layer_ = 0;
};

template <std::size_t kN>
Status read_ints(const LayerKeys& keys, const IntKey (&table)[kN], LayerSpec& layer) {
  for (const IntKey& k : table) {
    std::int32_t* const member = k.member(layer);
    const std::optional<std::int64_t> fallback =
        k.required ? std::nullopt : std::optional<std::int64_t>(0);
    RUNNEL_TRY(const std::int64_t value, keys.integer(k.key, fallback));
    RUNNEL_CHECK_OK(check_range(k.key, value, k.low, k.high));
    if (member != nullptr) {
      *member = static_cast<std::int32_t>(value);
    } else if (value != 0) {
      return fail(ErrorCode::unsupported, "a recurrence has window or sink slots: ", k.key, " is ",
                  value, " in layer ", layer.index, ", expected 0");
    }
  }
  return {};
}

template <std::size_t kN>
Status read_floats(const LayerKeys& keys, const FloatKey (&table)[kN], LayerSpec& layer) {
  for (const FloatKey& k : table) {
    float* const member = k.member(layer);
    const std::optional<double> fallback =
        k.required ? std::nullopt : std::optional<double>(*member);
    RUNNEL_TRY(const double value, keys.number(k.key, fallback));
    *member = narrowed(value);
  }
  return {};
}

Status read_removal(const LayerKeys& keys, RecurrenceSpec& r) {
  RUNNEL_TRY(const std::string removal, keys.text(kRemoval, std::string(removal_name(r.removal))));
  RUNNEL_TRY(r.removal, removal_from_name(kRemoval, removal));
  RUNNEL_TRY(const double scale, keys.number(kRemovalScale, 1.0));
  r.removal_scale = narrowed(scale);
  RUNNEL_TRY(const std::string norm, keys.text(kKeyNorm, std::string(key_norm_name(r.key_norm))));
  RUNNEL_TRY(r.key_norm, key_norm_from_name(kKeyNorm, norm));
  RUNNEL_TRY(const std::int64_t values, keys.integer(kValuesPerKey, 1));
  RUNNEL_CHECK_OK(check_range(kValuesPerKey, values, 1, 4096));
  r.values_per_key = static_cast<std::int32_t>(values);
  return {};
}

Status read_recurrence(const LayerKeys& keys, LayerSpec& layer) {
  RUNNEL_TRY(const std::string decay, keys.text(kDecay));
  RUNNEL_TRY(layer.recurrence().decay, decay_from_name(kDecay, decay));
  RUNNEL_CHECK_OK(read_ints(keys, kRecurrenceInts, layer));
  RUNNEL_CHECK_OK(read_floats(keys, kRecurrenceFloats, layer));
  for (const BoolKey& k : kRecurrenceBools) {
    bool* const member = k.member(layer);
    RUNNEL_TRY(*member, keys.boolean(k.key, *member));
  }
  return read_removal(keys, layer.recurrence());
}

Status refuse_recurrence_keys(const GgufFile& file) {
  for (const auto& entry : file.metadata()) {
    if (!is_recurrence_key(entry.first)) continue;
    return fail(ErrorCode::unsupported, "key ", entry.first, " belongs to a recurrence, but ",
                kMixer, " is slots");
  }
  return {};
}

/// The norms and the channel mix: of files older than the keys, RMSNorm and SwiGLU.
Status read_block(const LayerKeys& keys, LayerSpec& layer) {
  RUNNEL_TRY(const std::string norm, keys.text(kNorm, std::string(norm_name(Norm::rms))));
  RUNNEL_TRY(layer.norm.kind, norm_from_name(kNorm, norm));
  layer.channel_norm = layer.norm;
  RUNNEL_TRY(const std::string mix,
             keys.text(kChannelMix, std::string(channel_mix_name(ChannelMix::swiglu))));
  RUNNEL_TRY(layer.channel_mix, channel_mix_from_name(kChannelMix, mix));
  RUNNEL_TRY(const bool output_norm, keys.boolean(kOutputNorm, std::nullopt));
  RUNNEL_TRY(const bool heads, keys.boolean(kOutputNormHeads, false));
  layer.output_norm = !output_norm ? OutputNorm::none
                      : heads      ? OutputNorm::heads
                                   : OutputNorm::channels;
  RUNNEL_TRY(const std::string output_act, keys.text(kOutputActivation));
  RUNNEL_TRY(layer.output_activation, activation_from_name(kOutputActivation, output_act));
  return {};
}

Status read_value_activation(const LayerKeys& keys, LayerSpec& layer) {
  RUNNEL_TRY(const std::string name, keys.text(kValueActivation));
  RUNNEL_TRY(const Activation activation, activation_from_name(kValueActivation, name));
  switch (layer.kind()) {
    case Mixer::slots:
      layer.slots().value_activation = activation;
      return {};
    case Mixer::recurrence:
      break;
  }
  layer.recurrence().value_activation = activation;
  if (activation == Activation::identity || layer.recurrence().removal != Removal::none) return {};
  return fail(ErrorCode::unsupported, kValueActivation, " of a recurrence is ", in_quotes(name),
              ", expected identity");
}

/// Makes the layer one of the mixer that the keys name.
Status read_mixer(const LayerKeys& keys, LayerSpec& layer) {
  RUNNEL_TRY(const std::string mixer, keys.text(kMixer, std::string(mixer_name(Mixer::slots))));
  RUNNEL_TRY(const Mixer kind, mixer_from_name(kMixer, mixer));
  switch (kind) {
    case Mixer::slots:
      layer.mixer.emplace<SlotSpec>();
      break;
    case Mixer::recurrence:
      layer.mixer.emplace<RecurrenceSpec>();
      break;
  }
  return {};
}

Status read_layer(const LayerKeys& keys, LayerSpec& layer) {
  const Mixer kind = layer.kind();
  RUNNEL_CHECK_OK(read_ints(keys, kIntKeys, layer));
  RUNNEL_CHECK_OK(read_floats(keys, kFloatKeys, layer));
  if (kind == Mixer::recurrence) RUNNEL_CHECK_OK(read_recurrence(keys, layer));
  const std::optional<double> theta =
      layer.rotates() ? std::nullopt : std::optional<double>(layer.common().rope_theta);
  RUNNEL_TRY(layer.common().rope_theta, keys.number(kRopeTheta, theta));
  if (kind == Mixer::slots && layer.slots().num_sink_slots == 0) layer.slots().sink_distance = 0;
  RUNNEL_TRY(const std::string map, keys.text(kFeatureMap));
  RUNNEL_TRY(layer.common().feature_map, feature_map_from_name(kFeatureMap, map, kind));
  RUNNEL_CHECK_OK(read_value_activation(keys, layer));
  return read_block(keys, layer);
}

/// One key of all layers: the value that they share, or an array. `read` gives a layer's value.
template <class T, class Read>
GgufValue layer_value(const ModelConfig& config, const Read& read) {
  std::vector<T> values;
  for (const LayerSpec& layer : config.layers) values.push_back(read(layer));
  const bool shared = std::equal(values.begin() + 1, values.end(), values.begin());
  return shared ? GgufValue(T(values.front())) : GgufValue(GgufArray(values));
}

/// What the member is in a layer; nothing where the layer's mixer does not have it.
template <class T>
T member_value(Member<T> member, LayerSpec layer) {
  const T* value = member(layer);
  return value == nullptr ? T() : *value;
}

/// The keys of recurrences with a removal; of other layers what they would be without them.
void add_removal_keys(const ModelConfig& c, std::vector<std::pair<std::string, GgufValue>>& keys) {
  const auto of = [](const LayerSpec& l) {
    return l.kind() == Mixer::recurrence ? l.recurrence() : RecurrenceSpec();
  };
  keys.emplace_back(kRemoval, layer_value<std::string>(c, [&of](const LayerSpec& l) {
                      return std::string(removal_name(of(l).removal));
                    }));
  keys.emplace_back(kRemovalScale, layer_value<float>(c, [&of](const LayerSpec& l) {
                      return of(l).removal_scale;
                    }));
  keys.emplace_back(kKeyNorm, layer_value<std::string>(c, [&of](const LayerSpec& l) {
                      return std::string(key_norm_name(of(l).key_norm));
                    }));
  keys.emplace_back(kValuesPerKey, layer_value<std::uint32_t>(c, [&of](const LayerSpec& l) {
                      return static_cast<std::uint32_t>(of(l).values_per_key);
                    }));
}

}  // namespace

bool is_config_key(std::string_view key) {
  for (const char* k : {kVocabSize, kHiddenSize, kNumLayers, kMixer, kRopeTheta, kFeatureMap,
                        kValueActivation, kOutputActivation, kOutputNorm, kNorm, kChannelMix}) {
    if (key == k) return true;
  }
  for (const IntKey& k : kIntKeys) {
    if (key == k.key) return true;
  }
  for (const FloatKey& k : kFloatKeys) {
    if (key == k.key) return true;
  }
  return is_recurrence_key(key);
}

std::vector<std::pair<std::string, GgufValue>> config_keys(const ModelConfig& c) {
  if (has_llama_names(c.architecture)) return shifted_config_keys(c);
  std::vector<std::pair<std::string, GgufValue>> keys;
  const auto set = [&keys](const char* key, GgufValue value) {
    keys.emplace_back(key, std::move(value));
  };
  const auto each = [&c, &set]<class T>(const char* key, T (*read)(const LayerSpec&)) {
    set(key, layer_value<T>(c, read));
  };
  const auto ints = [&c, &set](std::span<const IntKey> table) {
    for (const IntKey& k : table) {
      set(k.key, layer_value<std::uint32_t>(c, [&k](const LayerSpec& l) {
            return static_cast<std::uint32_t>(member_value(k.member, l));
          }));
    }
  };
  const auto floats = [&c, &set](std::span<const FloatKey> table) {
    for (const FloatKey& k : table) {
      set(k.key,
          layer_value<float>(c, [&k](const LayerSpec& l) { return member_value(k.member, l); }));
    }
  };
  set("general.architecture", c.architecture);
  if (!c.name.empty()) set("general.name", c.name);
  set(kVocabSize, static_cast<std::uint32_t>(c.vocab_size));
  set(kHiddenSize, static_cast<std::uint32_t>(c.hidden_size));
  set(kNumLayers, static_cast<std::uint32_t>(c.num_layers()));
  ints(kIntKeys);
  floats(kFloatKeys);
  each(
      kRopeTheta, +[](const LayerSpec& l) { return l.common().rope_theta; });
  each(
      kFeatureMap,
      +[](const LayerSpec& l) { return std::string(feature_map_name(l.common().feature_map)); });
  each(
      kValueActivation, +[](const LayerSpec& l) {
        return std::string(activation_name(l.kind() == Mixer::slots
                                               ? l.slots().value_activation
                                               : l.recurrence().value_activation));
      });
  each(
      kOutputActivation,
      +[](const LayerSpec& l) { return std::string(activation_name(l.output_activation)); });
  each(
      kOutputNorm, +[](const LayerSpec& l) { return l.output_norm != OutputNorm::none; });
  // Files of RMSNorms, SwiGLUs and slots without biases are older than the keys that follow, and stay as they were.
  const auto any = [&c](auto... wanted) { return std::ranges::any_of(c.layers, wanted...); };
  if (any([](const LayerSpec& l) { return l.norm.kind != Norm::rms; })) {
    each(
        kNorm, +[](const LayerSpec& l) { return std::string(norm_name(l.norm.kind)); });
  }
  if (any([](const LayerSpec& l) { return l.channel_mix != ChannelMix::swiglu; })) {
    each(
        kChannelMix,
        +[](const LayerSpec& l) { return std::string(channel_mix_name(l.channel_mix)); });
  }
  const bool recurrence = any([](const LayerSpec& l) { return l.kind() == Mixer::recurrence; });
  if (recurrence || any([](const LayerSpec& l) { return l.qkv_bias; })) {
    each(
        kMixer, +[](const LayerSpec& l) { return std::string(mixer_name(l.kind())); });
  }
  if (!recurrence) return keys;
  each(
      kDecay, +[](const LayerSpec& l) {
        return std::string(
            decay_name(l.kind() == Mixer::recurrence ? l.recurrence().decay : Decay::none));
      });
  ints(kRecurrenceInts);
  floats(kRecurrenceFloats);
  for (const BoolKey& k : kRecurrenceBools) {
    set(k.key,
        layer_value<bool>(c, [&k](const LayerSpec& l) { return member_value(k.member, l); }));
  }
  each(
      kOutputNormHeads, +[](const LayerSpec& l) { return l.output_norm == OutputNorm::heads; });
  if (any([](const LayerSpec& l) {
        return l.kind() == Mixer::recurrence && l.recurrence().removal != Removal::none;
      })) {
    add_removal_keys(c, keys);
  }
  return keys;
}

Result<ModelConfig> config_from_gguf(const GgufFile& file) {
  RUNNEL_TRY(const std::string architecture, file.get_string("general.architecture"));
  if (has_llama_names(architecture)) return shifted_config_from_gguf(file);
  if (std::ranges::find(kArchitectures, architecture) == kArchitectures.end()) {
    std::string known;
    for (const std::string_view a : kArchitectures) {
      known += (known.empty() ? "" : ", ") + std::string(a);
    }
    return fail(ErrorCode::unsupported, "general.architecture is ", in_quotes(architecture),
                ", expected one of ", known, ", rwkv7, arwkv7");
  }
  ModelConfig c;
  c.architecture = architecture;
  RUNNEL_TRY(c.name, file.get_string("general.name", std::string()));
  const auto size = [&file](const char* key, std::int64_t most) -> Result<std::int32_t> {
    RUNNEL_TRY(const std::int64_t value, file.get_int(key));
    RUNNEL_CHECK_OK(check_range(key, value, 1, most));
    return static_cast<std::int32_t>(value);
  };
  RUNNEL_TRY(c.vocab_size, size(kVocabSize, kMostVocabulary));
  RUNNEL_TRY(c.hidden_size, size(kHiddenSize, kMostWidth));
  RUNNEL_TRY(const std::int32_t layers, size(kNumLayers, kMostLayers));
  RUNNEL_CHECK_OK(repeat_layers(LayerSpec(), layers, c));
  LayerKeys keys(file, c.layers.size());
  bool slots = true;
  for (std::size_t i = 0; i < c.layers.size(); ++i) {
    keys.select(i);
    RUNNEL_CHECK_OK(read_mixer(keys, c.layers[i]));
    slots = slots && c.layers[i].kind() == Mixer::slots;
  }
  if (slots != (architecture == kArchitectures.front())) {
    return fail(ErrorCode::unsupported, kMixer, " is ", slots ? "slots" : "recurrence",
                " in a file of architecture ", in_quotes(architecture),
                ", expected slots for gsa and recurrence for the others");
  }
  if (slots) RUNNEL_CHECK_OK(refuse_recurrence_keys(file));
  for (std::size_t i = 0; i < c.layers.size(); ++i) {
    keys.select(i);
    RUNNEL_CHECK_OK(read_layer(keys, c.layers[i]));
  }
  c.final_norm = c.layers.back().norm;
  RUNNEL_CHECK_OK(check_config(c));
  return c;
}

}  // namespace runnel
