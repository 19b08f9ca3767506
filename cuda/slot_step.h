// SPDX-License-Identifier: Apache-2.0
// The slot recurrence of a few tokens where a head's slots divide over the blocks of a cluster.
#pragma once

#include "cuda/launch.h"

namespace runnel::cuda {

/// Memory slots alone, K = V a multiple of 64, at most 64 slots, eight query heads and 1,024
/// channels of them a kv head, on a device with clusters.
bool slot_step_fits(const Launch&, const SlotMixer&);
/// The same function as slot_recurrent, which calls it where it fits.
cudaError_t slot_step(const Launch&, const SlotMixer&, const Segment* segments, int num_segments);

}  // namespace runnel::cuda
