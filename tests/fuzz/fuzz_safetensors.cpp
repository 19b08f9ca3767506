// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file, and as the text of an index.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "runtime/base/byte_reader.h"
#include "runtime/io/safetensors.h"
#include "runtime/io/safetensors_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto checkpoint = runnel::SafetensorsCheckpoint::parse(bytes)) {
    for (const std::string_view name : checkpoint->names()) {
      const runnel::SafetensorsTensor* tensor = checkpoint->find(name);
      if (tensor == nullptr) std::abort();
      const auto floats = runnel::to_f32(*tensor);
      if (!floats || floats->size() != static_cast<std::size_t>(tensor->elements())) std::abort();
    }
  }
  if (const auto index = runnel::safetensors::parse_index(runnel::as_text(bytes))) {
    for (const auto& [name, shard] : index->shard_of) {
      if (shard >= index->shards.size()) std::abort();
    }
    for (const std::string& shard : index->shards) {
      if (shard.find('/') != shard.npos) std::abort();
    }
  }
  return 0;
}
