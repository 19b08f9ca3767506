// SPDX-License-Identifier: Apache-2.0
// What one-token programs ask of a device. Plain data: tests name devices that they do not have.
#pragma once

namespace runnel::cuda {

struct StepDevice {
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 1;
  int shared_bytes = 0;      // of a block, at most, where a kernel opts in
  int largest_cluster = 1;   // blocks, where a kernel opts in
  bool cooperative = false;  // grids whose blocks wait for each other
};

}  // namespace runnel::cuda
