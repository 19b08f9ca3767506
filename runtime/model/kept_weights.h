// SPDX-License-Identifier: Apache-2.0
// What weights take in memory beside what they take in the file: formats without kernels are repacked, exactly, into
// wider ones.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "quant/formats.h"
#include "runtime/io/gguf.h"

namespace runnel {

/// Bytes of a tensor in the type in which the CPU keeps it; GPUs keep the same types.
std::uint64_t kept_bytes(const GgufTensor& tensor);

/// All tensors of a file.
struct KeptWeights {
  std::uint64_t file_bytes = 0;
  std::uint64_t bytes = 0;  // as types are kept
  // Types from and to; each pair once, in the table's order.
  std::vector<std::pair<quant::BlockType, quant::BlockType>> repacked;

  static KeptWeights of(const GgufFile& file);
};

/// One line for a person where weights take at least 1.2 times their bytes in the file because some were repacked, as
/// in "weights take 81.9 MB in memory, 2.1 times the 39.0 MB of the file: q3_k is kept as q6_k"; else "".
/// @param weight_bytes  what the device says that they take
std::string memory_note(const KeptWeights& weights, std::uint64_t weight_bytes);

}  // namespace runnel
