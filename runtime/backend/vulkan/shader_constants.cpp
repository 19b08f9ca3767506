// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/shader_constants.h"

#include "runtime/backend/feature_map.h"
#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {

std::uint32_t shader_constant(Activation a) {
  switch (a) {
    case Activation::identity:
      return kIdentity;
    case Activation::swish:
      return kSwish;
    case Activation::relu:
      return kRelu;
  }
  return kIdentity;
}

std::uint32_t shader_constant(FeatureMap m) { return shader_constant(activation_of(m)); }

std::uint32_t map_constant(FeatureMap map) {
  switch (map) {
    case FeatureMap::identity:
      return kMapIdentity;
    case FeatureMap::swish:
      return kMapSwish;
    case FeatureMap::relu:
      return kMapRelu;
    case FeatureMap::t2r:
      return kMapT2r;
    case FeatureMap::elu:
      return kMapElu;
    case FeatureMap::product:
      return kMapProduct;
    case FeatureMap::hedgehog:
      return kMapHedgehog;
    case FeatureMap::dpfp:
      return kMapDpfp;
    case FeatureMap::exponential:
      return kMapExponential;
  }
  return kMapIdentity;
}

std::uint32_t decay_constant(Decay decay) {
  switch (decay) {
    case Decay::none:
      return kDecayNone;
    case Decay::fixed:
      return kDecayFixed;
    case Decay::log_sigmoid:
      return kDecayLogSigmoid;
    case Decay::refined:
      return kDecayRefined;
    case Decay::running_sum:
      return kDecayRunningSum;
    case Decay::softplus:
      return kDecaySoftplus;
    case Decay::bounded:
      return kDecayBounded;
  }
  return kDecayNone;
}

}  // namespace runnel::vulkan
