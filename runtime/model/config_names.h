// SPDX-License-Identifier: Apache-2.0
// The names of the enumerations of a layer's description as files write them, and back.
#pragma once

#include <string_view>

#include "runnel/result.h"
#include "runtime/model/layer_spec.h"

namespace runnel {

std::string_view activation_name(Activation activation);
std::string_view feature_map_name(FeatureMap map);
std::string_view mixer_name(Mixer mixer);
std::string_view norm_name(Norm norm);
std::string_view channel_mix_name(ChannelMix mix);
std::string_view decay_name(Decay decay);
std::string_view removal_name(Removal removal);
std::string_view key_norm_name(KeyNorm norm);

/// `key` is what the name was read from, for messages.
/// @return unsupported, naming the key, the name and those that are known.
Result<Activation> activation_from_name(std::string_view key, std::string_view name);
/// @param mixer  slots have fewer maps
Result<FeatureMap> feature_map_from_name(std::string_view key, std::string_view name,
                                         Mixer mixer = Mixer::slots);
Result<Mixer> mixer_from_name(std::string_view key, std::string_view name);
Result<Norm> norm_from_name(std::string_view key, std::string_view name);
Result<ChannelMix> channel_mix_from_name(std::string_view key, std::string_view name);
Result<Decay> decay_from_name(std::string_view key, std::string_view name);
Result<Removal> removal_from_name(std::string_view key, std::string_view name);
Result<KeyNorm> key_norm_from_name(std::string_view key, std::string_view name);

}  // namespace runnel
