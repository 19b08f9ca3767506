// SPDX-License-Identifier: Apache-2.0
// Lays a small model out for the cluster kernel of cuda/step_cluster.h. Needs no driver.
#pragma once

#include <string>
#include <vector>

#include "cuda/step_cluster.h"
#include "runtime/backend/cuda/device_weights.h"
#include "runtime/backend/step_model.h"

namespace runnel::cuda {

struct ClusterProgram {
  ClusterDecode cluster;             // without `layers` and what changes from token to token
  std::vector<ClusterLayer> layers;  // to be put where `cluster.layers` points
  std::string why_not;               // empty: it fits
};

struct ClusterLimits {
  int shared_bytes = 0;  // of a block
  int blocks = kClusterBlocks;
  bool fixed = true;  // by the kernel for the 135M shape, if it is that
};

ClusterProgram make_cluster_program(const StepModel& model, const DeviceTensors& tensors,
                                    const ClusterLimits& limits);

}  // namespace runnel::cuda
