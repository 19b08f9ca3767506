// SPDX-License-Identifier: Apache-2.0
// Activations of the model's description as kernels name them.
#pragma once

#include "cuda/launch.h"
#include "runtime/backend/feature_map.h"

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

inline Act act_of(FeatureMap map) { return act_of(activation_of(map)); }

}  // namespace runnel::cuda
