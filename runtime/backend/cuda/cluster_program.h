// SPDX-License-Identifier: Apache-2.0
// Lays a small model out for the cluster kernel of cuda/decode_cluster.h. Knows nothing of the driver.
#pragma once

#include <vector>

#include "cuda/decode_cluster.h"
#include "runtime/backend/cuda/device_weights.h"

namespace runnel::cuda {

struct ClusterProgram {
  ClusterDecode cluster;             // without `layers` and what changes from token to token
  std::vector<ClusterLayer> layers;  // to be put where `cluster.layers` points
  bool fits = false;
  const char* why_not = "";
};

/// shared_bytes: of a block; blocks: of the cluster.
ClusterProgram make_cluster_program(const ModelConfig& config, const DeviceWeights& weights,
                                    int shared_bytes, int blocks = kClusterBlocks);

}  // namespace runnel::cuda
