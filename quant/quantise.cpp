// SPDX-License-Identifier: Apache-2.0
// Checks of sizes and values, distribution of rows over threads.
#include "quant/quantise.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::quant {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

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

Status check_sizes(BlockType type, std::size_t values, std::int64_t cols, std::size_t bytes,
                   int threads) {
  const BlockTraits* const traits = find_format(type);
  if (traits == nullptr || traits->kind == ValueKind::integer) {
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
  const BlockTraits& format = format_of(type);
  if (!is_written(format)) {
    return fail(ErrorCode::invalid_argument, format.name, " is read, not written; expected ",
                format_names(is_written));
  }
  const std::size_t width = static_cast<std::size_t>(cols);
  const std::size_t bytes = row_bytes(type, cols);
  const auto limit = std::bit_cast<std::uint32_t>(format.largest);
  std::atomic<std::size_t> bad{kNone};
  for_each_row(in.size() / width, width, threads, [&](std::size_t row) {
    const std::span<const float> values = in.subspan(row * width, width);
    const std::size_t at = first_bad(values, limit);
    if (at == kNone) return format.encode(values, out.data() + row * bytes);
    std::size_t seen = bad.load();
    while (row * width + at < seen && !bad.compare_exchange_weak(seen, row * width + at)) {
    }
  });
  const std::size_t at = bad.load();
  if (at == kNone) return {};
  const std::size_t row = static_cast<std::size_t>(first_row) + at / width;
  return fail(ErrorCode::malformed, "value ", row * width + at % width, " (row ", row, ", column ",
              at % width, ") is ", in[at], ", expected a finite number that ", format.name,
              " can hold");
}

Status dequantize_rows(BlockType type, std::span<const std::byte> in, std::int64_t cols,
                       std::span<float> out, int threads) {
  RUNNEL_CHECK_OK(check_sizes(type, out.size(), cols, in.size(), threads));
  const std::size_t width = static_cast<std::size_t>(cols);
  const std::size_t bytes = row_bytes(type, cols);
  const auto decode = format_of(type).decode;
  for_each_row(out.size() / width, width, threads, [&](std::size_t row) {
    decode(in.data() + row * bytes, out.subspan(row * width, width));
  });
  return {};
}

}  // namespace runnel::quant
