// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/config_names.h"

#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {

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
                                 {Decay::running_sum, "running_sum"},
                                 {Decay::softplus, "softplus"},
                                 {Decay::bounded, "bounded"}};

}  // namespace

Result<Decay> decay_from_name(std::string_view key, std::string_view name) {
  for (const DecayName& d : kDecays) {
    if (d.name == name) return d.decay;
  }
  return fail(ErrorCode::unsupported, key, " is ", in_quotes(name),
              ", expected none, fixed, log_sigmoid, refined, running_sum or softplus");
}

Result<Removal> removal_from_name(std::string_view key, std::string_view name) {
  for (Removal r : {Removal::none, Removal::delta}) {
    if (removal_name(r) == name) return r;
  }
  return fail(ErrorCode::unsupported, key, " is ", in_quotes(name), ", expected none or delta");
}

Result<KeyNorm> key_norm_from_name(std::string_view key, std::string_view name) {
  for (KeyNorm n : {KeyNorm::none, KeyNorm::length, KeyNorm::sum}) {
    if (key_norm_name(n) == name) return n;
  }
  return fail(ErrorCode::unsupported, key, " is ", in_quotes(name),
              ", expected none, length or sum");
}

Result<Mixer> mixer_from_name(std::string_view key, std::string_view name) {
  for (Mixer m : {Mixer::slots, Mixer::recurrence}) {
    if (mixer_name(m) == name) return m;
  }
  return fail(ErrorCode::unsupported, key, " is ", in_quotes(name),
              ", expected slots or recurrence");
}

Result<Norm> norm_from_name(std::string_view key, std::string_view name) {
  for (Norm n : {Norm::rms, Norm::layer}) {
    if (norm_name(n) == name) return n;
  }
  return fail(ErrorCode::unsupported, key, " is ", in_quotes(name), ", expected rms or layer");
}

Result<ChannelMix> channel_mix_from_name(std::string_view key, std::string_view name) {
  for (ChannelMix m : {ChannelMix::swiglu, ChannelMix::squared_relu, ChannelMix::none}) {
    if (channel_mix_name(m) == name) return m;
  }
  return fail(ErrorCode::unsupported, key, " is ", in_quotes(name),
              ", expected swiglu, squared_relu or none");
}

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

std::string_view mixer_name(Mixer mixer) {
  switch (mixer) {
    case Mixer::slots:
      return "slots";
    case Mixer::recurrence:
      return "recurrence";
  }
  return "slots";
}

std::string_view norm_name(Norm norm) {
  switch (norm) {
    case Norm::rms:
      return "rms";
    case Norm::layer:
      return "layer";
  }
  return "rms";
}

std::string_view channel_mix_name(ChannelMix mix) {
  switch (mix) {
    case ChannelMix::swiglu:
      return "swiglu";
    case ChannelMix::squared_relu:
      return "squared_relu";
    case ChannelMix::none:
      return "none";
  }
  return "swiglu";
}

std::string_view removal_name(Removal removal) {
  switch (removal) {
    case Removal::none:
      return "none";
    case Removal::delta:
      return "delta";
    case Removal::own_key:
      return "own_key";
  }
  return "none";
}

std::string_view key_norm_name(KeyNorm norm) {
  switch (norm) {
    case KeyNorm::none:
      return "none";
    case KeyNorm::length:
      return "length";
    case KeyNorm::sum:
      return "sum";
  }
  return "none";
}

std::string_view decay_name(Decay decay) {
  for (const DecayName& d : kDecays) {
    if (d.decay == decay) return d.name;
  }
  return "none";
}

}  // namespace runnel
