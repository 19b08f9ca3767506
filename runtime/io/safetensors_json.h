// SPDX-License-Identifier: Apache-2.0
// The two JSON texts of safetensors checkpoints, read as a stream of events: no document is built, so that memory
// stays proportional to what is kept, whatever the depth of nesting.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"
#include "runtime/io/safetensors.h"

namespace runnel::safetensors {

/// One tensor as the header describes it; offsets into the data section, not yet checked against it.
struct Entry {
  SafetensorsType type = SafetensorsType::f32;
  std::vector<std::int64_t> shape;  // each >= 0
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

using Header = std::map<std::string, Entry, std::less<>>;

/// {"__metadata__": {key: string…}, name: {"dtype": …, "shape": […], "data_offsets": [begin, end]}…}
Result<Header> parse_header(std::string_view json);

/// model.safetensors.index.json: which of `shards` holds a tensor.
struct Index {
  std::vector<std::string> shards;  // plain file names
  std::map<std::string, std::uint32_t, std::less<>> shard_of;
};

/// {"weight_map": {tensor: shard file…}, …}; other members are skipped.
Result<Index> parse_index(std::string_view json);

}  // namespace runnel::safetensors
