// SPDX-License-Identifier: Apache-2.0
// The pickle inside a file of torch.save(): a dictionary of tensors. Nothing is executed: the few things that such a
// dictionary is made of are known, everything else is refused by its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runnel/result.h"
#include "runtime/io/safetensors.h"

namespace runnel {

/// Numbers that tensors share, in an entry of the archive.
struct TorchStorage {
  SafetensorsType type = SafetensorsType::f32;  // f32, f16 or bf16
  std::string key;                              // its entry is data/KEY
  std::int64_t elements = 0;
};

/// A view of a storage. Every element lies in it.
struct TorchView {
  std::size_t storage = 0;  // index into TorchDict::storages
  std::int64_t offset = 0;  // of the first element
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // elements from one index to the next; one for each dimension

  std::int64_t elements() const;
  /// Whether the elements follow one another in row-major order.
  bool is_contiguous() const;
};

struct TorchDict {
  std::vector<TorchStorage> storages;  // each key once
  std::vector<std::pair<std::string, TorchView>> tensors;
};

/// Reads a pickle of protocol 2 of a dict or an OrderedDict from names to tensors or parameters.
/// Knows collections.OrderedDict (and its `_metadata`, which is ignored), torch._utils._rebuild_tensor_v2 and
/// _rebuild_parameter, torch.FloatStorage, HalfStorage and BFloat16Storage, and storages as persistent ids.
/// Memory is at most 64 times the pickle's size, which is at most 4 MiB.
/// @return malformed or unsupported with the place: an opcode, a global, what is called or built, a tensor that leaves
///         its storage, a storage that two places describe differently.
Result<TorchDict> read_torch_pickle(std::span<const std::byte> pickle);

}  // namespace runnel
