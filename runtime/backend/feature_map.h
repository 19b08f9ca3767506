// SPDX-License-Identifier: Apache-2.0
// Feature maps that are activations of one channel.
#pragma once

#include "runtime/model/layer_spec.h"

namespace runnel {

/// The activation that a map is; identity for the others, which kernels of their own compute.
inline Activation activation_of(FeatureMap map) {
  switch (map) {
    case FeatureMap::swish:
      return Activation::swish;
    case FeatureMap::relu:
      return Activation::relu;
    case FeatureMap::identity:
    case FeatureMap::t2r:
    case FeatureMap::elu:
    case FeatureMap::product:
    case FeatureMap::hedgehog:
    case FeatureMap::dpfp:
    case FeatureMap::exponential:
      break;
  }
  return Activation::identity;
}

}  // namespace runnel
