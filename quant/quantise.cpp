// SPDX-License-Identifier: Apache-2.0
// Dispatch over formats, checks of sizes and values, distribution of rows over threads.
#include "quant/quantise.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "quant/block_codecs.h"
#include "runtime/base/half.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::quant {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// The largest magnitude that `type` can hold, as the bits of a float: beyond it a value or a scale becomes infinite.
std::uint32_t largest_bits(BlockType type) {
  switch (type) {
    case BlockType::f16:
      return std::bit_cast<std::uint32_t>(65520.0F) - 1;  // 65520 rounds to infinity
    case BlockType::bf16:
      return 0x7f7f7fffU;  // one more rounds to infinity
    case BlockType::q4_0:
      return std::bit_cast<std::uint32_t>(8.0F * 65504.0F);
    case BlockType::q8_0:
    case BlockType::q4_k:  // its minimum is at most 63 * 65504
    case BlockType::q6_k:
      return std::bit_cast<std::uint32_t>(63.0F * 65504.0F);
    default:
      return std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max());
  }
}

/// Index of the first value beyond `limit` (infinities and NaN are), or kNone.
std::size_t first_bad(std::span<const float> row, std::uint32_t limit) {
  std::uint32_t bad = 0;
  for (const float v : row) {
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(v) & 0x7fffffffU) > limit);
  }
  if (bad == 0) return kNone;
  const auto it = std::find_if(row.begin(), row.end(), [limit](float v) {
    return (std::bit_cast<std::uint32_t>(v) & 0x7fffffffU) > limit;
  });
  return static_cast<std::size_t>(it - row.begin());
}

/// memcpy per block: neither file mappings nor byte vectors promise the alignment of a block.
template <class Block, class Encode>
void encode_blocks(std::span<const float> in, std::byte* out, int values, Encode encode) {
  const std::size_t count = in.size() / static_cast<std::size_t>(values);
  for (std::size_t i = 0; i < count; ++i) {
    const Block block = encode(in.data() + i * static_cast<std::size_t>(values));
    std::memcpy(out + i * sizeof(Block), &block, sizeof(Block));
  }
}

template <class Block>
void decode_blocks(const std::byte* in, std::span<float> out, int values) {
  const std::size_t count = out.size() / static_cast<std::size_t>(values);
  for (std::size_t i = 0; i < count; ++i) {
    Block block;
    std::memcpy(&block, in + i * sizeof(Block), sizeof(Block));
    decode(block, out.data() + i * static_cast<std::size_t>(values));
  }
}

template <class Encode>
void encode_halves(std::span<const float> in, std::byte* out, Encode encode) {
  encode_blocks<std::uint16_t>(in, out, 1, [encode](const float* x) { return encode(*x); });
}

template <class Decode>
void decode_halves(const std::byte* in, std::span<float> out, Decode decode_one) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t h = 0;
    std::memcpy(&h, in + 2 * i, sizeof h);
    out[i] = decode_one(h);
  }
}

void encode_row(BlockType type, std::span<const float> in, std::byte* out) {
  switch (type) {
    case BlockType::f32:
      std::memcpy(out, in.data(), in.size_bytes());
      return;
    case BlockType::f16:
      return encode_halves(in, out, f32_to_f16);
    case BlockType::bf16:
      return encode_halves(in, out, f32_to_bf16);
    case BlockType::q8_0:
      return encode_blocks<BlockQ8_0>(in, out, kQ8Block, encode_q8_0);
    case BlockType::q4_0:
      return encode_blocks<BlockQ4_0>(in, out, kQ8Block, encode_q4_0);
    case BlockType::q4_k:
      return encode_blocks<BlockQ4_K>(in, out, kSuperBlock, encode_q4_k);
    case BlockType::q6_k:
      return encode_blocks<BlockQ6_K>(in, out, kSuperBlock, encode_q6_k);
    case BlockType::i8:
    case BlockType::i32:
      return;  // check_sizes has refused them
  }
}

void decode_row(BlockType type, const std::byte* in, std::span<float> out) {
  switch (type) {
    case BlockType::f32:
      std::memcpy(out.data(), in, out.size_bytes());
      return;
    case BlockType::f16:
      return decode_halves(in, out, f16_to_f32);
    case BlockType::bf16:
      return decode_halves(in, out, bf16_to_f32);
    case BlockType::q8_0:
      return decode_blocks<BlockQ8_0>(in, out, kQ8Block);
    case BlockType::q4_0:
      return decode_blocks<BlockQ4_0>(in, out, kQ8Block);
    case BlockType::q4_k:
      return decode_blocks<BlockQ4_K>(in, out, kSuperBlock);
    case BlockType::q6_k:
      return decode_blocks<BlockQ6_K>(in, out, kSuperBlock);
    case BlockType::i8:
    case BlockType::i32:
      return;
  }
}

Status check_sizes(BlockType type, std::size_t values, std::int64_t cols, std::size_t bytes,
                   int threads) {
  const std::optional<BlockTraits> traits = block_traits(type);
  if (!traits || type == BlockType::i8 || type == BlockType::i32) {
    return fail(ErrorCode::invalid_argument, "type ", static_cast<std::uint32_t>(type),
                " does not hold weights");
  }
  if (cols < 1 || cols % traits->block_values != 0) {
    return fail(ErrorCode::invalid_argument, "rows have ", cols, " values, ", traits->name,
                " takes a multiple of ", traits->block_values);
  }
  const std::size_t rows = values / static_cast<std::size_t>(cols);
  if (values % static_cast<std::size_t>(cols) != 0 || bytes != rows * row_bytes(type, cols)) {
    return fail(ErrorCode::invalid_argument, values, " values in rows of ", cols, " and ", bytes,
                " bytes of ", traits->name, " do not belong together");
  }
  if (threads < 1 || threads > 256) {
    return fail(ErrorCode::invalid_argument, "threads is ", threads, ", expected 1 to 256");
  }
  return {};
}

/// Calls work(row) for every row. Threads take bands of rows from one counter; if the system starts no more threads,
/// the existing ones do all the work.
template <class Work>
void for_each_row(std::size_t rows, std::size_t cols, int threads, const Work& work) {
  constexpr std::size_t kBandValues = 1 << 15;  // at least about 10 µs of work
  const std::size_t band = std::max<std::size_t>(1, kBandValues / cols);
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (;;) {
      const std::size_t first = next.fetch_add(band);
      if (first >= rows) return;
      for (std::size_t row = first; row < std::min(rows, first + band); ++row) work(row);
    }
  };
  const std::size_t useful = std::min(static_cast<std::size_t>(threads), divide_up(rows, band));
  std::vector<std::jthread> helpers;
  try {
    for (std::size_t i = 1; i < useful; ++i) helpers.emplace_back(run);
  } catch (const std::system_error&) {
    // fewer threads than requested
  }
  run();
}

}  // namespace

Status quantize_rows(BlockType type, std::span<const float> in, std::int64_t cols,
                     std::span<std::byte> out, int threads, std::int64_t first_row) {
  RUNNEL_CHECK_OK(check_sizes(type, in.size(), cols, out.size(), threads));
  const std::size_t width = static_cast<std::size_t>(cols);
  const std::size_t bytes = row_bytes(type, cols);
  const std::uint32_t limit = largest_bits(type);
  std::atomic<std::size_t> bad{kNone};
  for_each_row(in.size() / width, width, threads, [&](std::size_t row) {
    const std::span<const float> values = in.subspan(row * width, width);
    const std::size_t at = first_bad(values, limit);
    if (at == kNone) return encode_row(type, values, out.data() + row * bytes);
    std::size_t seen = bad.load();
    while (row * width + at < seen && !bad.compare_exchange_weak(seen, row * width + at)) {
    }
  });
  const std::size_t at = bad.load();
  if (at == kNone) return {};
  const std::size_t row = static_cast<std::size_t>(first_row) + at / width;
  return fail(ErrorCode::malformed, "value ", row * width + at % width, " (row ", row, ", column ",
              at % width, ") is ", in[at], ", expected a finite number that ",
              block_traits(type)->name, " can hold");
}

Status dequantize_rows(BlockType type, std::span<const std::byte> in, std::int64_t cols,
                       std::span<float> out, int threads) {
  RUNNEL_CHECK_OK(check_sizes(type, out.size(), cols, in.size(), threads));
  const std::size_t width = static_cast<std::size_t>(cols);
  const std::size_t bytes = row_bytes(type, cols);
  for_each_row(out.size() / width, width, threads, [&](std::size_t row) {
    decode_row(type, in.data() + row * bytes, out.subspan(row * width, width));
  });
  return {};
}

}  // namespace runnel::quant
