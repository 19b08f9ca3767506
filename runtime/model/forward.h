// SPDX-License-Identifier: Apache-2.0
// One pass of a model: the order is that of the papers (arXiv:2409.07146, section 3; 2312.06635,
// section 4.4).
#pragma once

#include "runtime/backend/backend.h"

namespace runnel {

/// Records embed, L blocks of (projections, mixer, output, SwiGLU) and the head into `ops`.
inline Status forward(Ops& ops, const ModelConfig& config, const Weights& weights) {
  if (Status s = ops.embed(weights.embeddings); !s) return s;
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const int layer = static_cast<int>(i);
    const LayerWeights& w = weights.layers[i];
    switch (config.mixer) {
      case Mixer::slots:
        if (Status s = ops.slot_projections(layer, w); !s) return s;
        if (Status s = ops.slot_attention(layer, w); !s) return s;
        break;
      case Mixer::recurrence:
        if (Status s = ops.recurrence_projections(layer, w); !s) return s;
        if (Status s = ops.gated_recurrence(layer, w); !s) return s;
        break;
    }
    if (Status s = ops.output_projection(layer, w); !s) return s;
    if (Status s = ops.gated_mlp(layer, w); !s) return s;
  }
  return ops.logits(weights.final_norm, weights.head);
}

}  // namespace runnel
