// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/gguf_layout.h"

#include <limits>
#include <string_view>

#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::gguf {
namespace {

constexpr std::string_view kTypeNames[kTypes] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

}  // namespace

std::string type_name(std::uint32_t id) {
  return id < kTypes ? std::string(kTypeNames[id]) : "type " + std::to_string(id);
}

Status check_alignment(std::uint64_t alignment) {
  if (is_power_of_two(alignment) && alignment >= kLeastAlignment && alignment <= kMostAlignment)
    return {};
  return fail(ErrorCode::malformed, kAlignmentKey, " is ", alignment,
              ", expected a power of two in [", kLeastAlignment, ", ", kMostAlignment, "]");
}

Result<std::uint64_t> tensor_bytes(std::uint32_t type_id, std::span<const std::int64_t> shape) {
  const quant::BlockTraits* const traits = quant::find_file_format(type_id);
  if (traits == nullptr) {
    return fail(ErrorCode::unsupported, "has type ", type_id, " (", quant::type_id_name(type_id),
                "), expected ", quant::format_names(quant::is_weight));
  }
  if (shape.empty() || shape.size() > kMaxDimensions) {
    return fail(ErrorCode::malformed, "has ", shape.size(), " dimensions, expected 1 to ",
                kMaxDimensions);
  }
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 1)
      return fail(ErrorCode::malformed, "has a dimension of ", size, ", expected at least 1");
    if (__builtin_mul_overflow(elements, size, &elements)) {
      return fail(ErrorCode::malformed, "has more than 2^63 elements");
    }
  }
  const std::int64_t row = shape.back();
  if (row % traits->block_values != 0) {
    return fail(ErrorCode::malformed, "has rows of ", row, " values, expected a multiple of ",
                traits->block_values, ", the block of ", traits->name);
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(elements / traits->block_values),
                             static_cast<std::uint64_t>(traits->block_bytes), &bytes) ||
      bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return fail(ErrorCode::malformed, "has more than 2^63 bytes");
  }
  return bytes;
}

}  // namespace runnel::gguf
