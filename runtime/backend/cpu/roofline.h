// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most: memory read bandwidth and int8 arithmetic, measured now, to hold speeds against.
#pragma once

#include "runnel/result.h"

namespace runnel::cpu {

struct Roofline {
  // of a buffer of the asked size, all threads streaming a part of it each
  double read_bytes_per_second = 0;
  // multiply and add counted apart, by the dot product instruction of the kernels
  double int8_ops_per_second = 0;
};

/// Takes about half a second.
/// @param buffer_bytes  size of the buffer to stream, e.g. that of a model
/// @return out_of_memory, invalid_argument for a bad number of threads
Result<Roofline> measure_roofline(int threads, std::size_t buffer_bytes);

}  // namespace runnel::cpu
