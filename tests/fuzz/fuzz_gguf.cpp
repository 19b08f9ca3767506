// SPDX-License-Identifier: Apache-2.0
// Any bytes as a GGUF file: an error or a file whose every view lies inside it.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "runtime/io/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto parsed = runnel::GgufFile::parse(bytes);
  if (!parsed) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  const runnel::GgufFile& file = **parsed;
  for (const auto& [key, value] : file.metadata()) {
    if (file.find(key) != &value) std::abort();
    (void)file.get_int(key, 0);
    (void)file.get_float(key, 0.0);
    (void)file.get_bool(key, false);
    (void)file.get_string(key, "");
    (void)file.get_array<std::string>(key);
    (void)file.get_array<float>(key);
  }
  unsigned sum = 0;
  for (const runnel::GgufTensor& tensor : file.tensors()) {
    if (file.find_tensor(tensor.name) != &tensor) std::abort();
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
    const std::size_t row = runnel::quant::row_bytes(tensor.type, tensor.shape.back());
    if (tensor.data.size() != static_cast<std::size_t>(rows) * row) std::abort();
    for (const std::byte b : tensor.data)
      sum += static_cast<unsigned>(b);  // ASan sees a view that leaves the input
  }
  return sum == ~0U ? -1 : 0;
}
