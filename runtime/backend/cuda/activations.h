// SPDX-License-Identifier: Apache-2.0
// Activations of the model's description as kernels name them.
#pragma once

#include "cuda/launch.h"
#include "runtime/model/layer_spec.h"

namespace runnel::cuda {

inline Act act_of(Activation a) {
  switch (a) {
    case Activation::identity:
      return Act::identity;
    case Activation::swish:
      return Act::swish;
    case Activation::relu:
      return Act::relu;
  }
  return Act::identity;
}

/// For maps that are activations; identity for the others, which kernels of their own compute.
inline Act act_of(FeatureMap f) {
  switch (f) {
    case FeatureMap::swish:
      return Act::swish;
    case FeatureMap::relu:
      return Act::relu;
    case FeatureMap::identity:
    case FeatureMap::t2r:
    case FeatureMap::elu:
    case FeatureMap::product:
    case FeatureMap::hedgehog:
    case FeatureMap::dpfp:
    case FeatureMap::exponential:
      return Act::identity;
  }
  return Act::identity;
}

}  // namespace runnel::cuda
