// SPDX-License-Identifier: Apache-2.0
// How fast this machine reads memory: the ceiling of decoding, which reads every weight for every
// token.
#pragma once

namespace runnel::cli {

/// Bytes a second that `threads` threads read together from memory (256 MiB, well past most
/// caches), best of a few passes. 0 if the memory is not there.
double read_bandwidth(int threads);

}  // namespace runnel::cli
