// SPDX-License-Identifier: Apache-2.0
// Any bytes as blocks of every format: decoded to what their repacked form decodes to, bit for bit, and computed from by
// nothing that traps. The first byte chooses the format.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "quant/quantise.h"
#include "quant/repack.h"

namespace {

using runnel::quant::BlockTraits;
using runnel::quant::BlockType;

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<float> values_of(BlockType type, std::span<const std::byte> row, std::int64_t cols) {
  std::vector<float> values(static_cast<std::size_t>(cols));
  require(runnel::quant::dequantize_rows(type, row, cols, values).has_value());
  return values;
}

/// The same number, or both none: which NaN comes of one is up to the processor.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const BlockTraits> all = runnel::quant::formats();
  const BlockTraits& t = all[data[0] % all.size()];
  if (t.decode == nullptr) return 0;
  const std::size_t blocks = (size - 1) / static_cast<std::size_t>(t.block_bytes);
  if (blocks == 0) return 0;
  const auto row =
      std::as_bytes(std::span(data + 1, blocks * static_cast<std::size_t>(t.block_bytes)));
  const auto cols = static_cast<std::int64_t>(blocks) * t.block_values;
  const std::vector<float> values = values_of(t.type, row, cols);
  if (t.repack == nullptr) return 0;
  std::vector<std::byte> kept(runnel::quant::row_bytes(t.repacked, cols));
  runnel::quant::repack(t.type, row, cols, kept);
  const std::vector<float> again = values_of(t.repacked, kept, cols);
  for (std::size_t i = 0; i < values.size(); ++i) require(same(values[i], again[i]));
  return 0;
}
