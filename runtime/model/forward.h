// SPDX-License-Identifier: Apache-2.0
// One pass of a model: the order is that of the papers (arXiv:2409.07146, section 3; 2312.06635, section 4.4).
#pragma once

#include "runtime/backend/backend.h"

namespace runnel {

/// Records one layer: x += mixer(norm(x)), x += channel mix(norm(x)).
inline Status forward_layer(Ops& ops, const LayerSpec& layer, const LayerWeights& w) {
  switch (layer.kind()) {
    case Mixer::slots:
      if (Status s = ops.slot_projections(layer, w.slots()); !s) return s;
      if (Status s = ops.slot_attention(layer, w.slots()); !s) return s;
      break;
    case Mixer::recurrence:
      if (layer.mixer_shift > 0) {
        if (Status s = ops.shifted_projections(layer, w.recurrence()); !s) return s;
      } else {
        if (Status s = ops.recurrence_projections(layer, w.recurrence()); !s) return s;
      }
      if (Status s = ops.gated_recurrence(layer, w.recurrence()); !s) return s;
      break;
  }
  if (Status s = ops.output_projection(layer, w.output); !s) return s;
  switch (layer.channel_mix) {
    case ChannelMix::swiglu:
      return ops.gated_mlp(layer, w.channel_mix);
    case ChannelMix::squared_relu:
      return ops.squared_relu_mlp(layer, w.channel_mix);
    case ChannelMix::none:
      return {};
  }
  return {};
}

/// Records embed and the layers into `ops`.
inline Status forward_layers(Ops& ops, const ModelConfig& config, const Weights& weights) {
  if (Status s = ops.embed(weights.embeddings); !s) return s;
  if (config.embedding_norm) {
    if (Status s = ops.embedding_norm(*config.embedding_norm, weights.embedding_norm); !s) return s;
  }
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (Status s = forward_layer(ops, config.layers[i], weights.layers[i]); !s) return s;
  }
  return {};
}

/// The same and the head.
inline Status forward(Ops& ops, const ModelConfig& config, const Weights& weights) {
  if (Status s = forward_layers(ops, config, weights); !s) return s;
  return ops.logits(config.final_norm, weights.final_norm, weights.head);
}

/// forward() as what a backend records. Both must outlive it.
inline Recording forward_of(const ModelConfig& config, const Weights& weights) {
  return [&config, &weights](Ops& ops) { return forward(ops, config, weights); };
}

}  // namespace runnel
