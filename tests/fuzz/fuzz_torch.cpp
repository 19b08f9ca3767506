// SPDX-License-Identifier: Apache-2.0
// Any bytes as a checkpoint of torch, as a zip archive and as a pickle.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "runtime/io/torch_checkpoint.h"
#include "runtime/io/torch_pickle.h"
#include "runtime/io/zip.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const runnel::TorchDict& dict) {
  for (const auto& [name, view] : dict.tensors) {
    require(view.storage < dict.storages.size() && view.shape.size() == view.strides.size());
    require(view.elements() <= dict.storages[view.storage].elements);
    (void)view.is_contiguous();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto dict = runnel::read_torch_pickle(bytes)) check(*dict);
  if (const auto entries = runnel::read_zip(bytes)) {
    std::size_t total = 0;
    for (const auto& [name, entry] : *entries) {
      total += entry.size();
      if (const auto dict = runnel::read_torch_pickle(entry)) check(*dict);
    }
    require(total <= size);
  }
  if (const auto checkpoint = runnel::TorchCheckpoint::parse(bytes)) {
    for (const auto& [name, tensor] : checkpoint->tensors()) {
      std::int64_t elements = 1;
      for (const std::int64_t n : tensor.shape) elements *= n;
      require(elements == tensor.elements());
      const auto floats = runnel::to_f32(tensor);
      require(floats.has_value() && floats->size() == static_cast<std::size_t>(elements));
    }
  }
  return 0;
}
