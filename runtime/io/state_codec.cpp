// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/state_codec.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#include "runtime/base/byte_reader.h"
#include "runtime/base/half.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel {
namespace {

enum class Packing : std::uint32_t { none = 0, zstd = 1 };

constexpr std::size_t kHeaderBytes = 16;
constexpr std::size_t kBlock = 64;  // floats that share one int8 scale: a slot of the usual width
constexpr int kZstdLevel = 1;       // higher levels take longer and save under 1 % more
// The most that unpacked numbers and floats may take together, as a multiple of the payload's bytes, so that no file
// makes a reader allocate more than 16 times its size. Noise-like floats pack to two thirds at best; a state
// that is emptier than this is stored plainly.
constexpr std::uint64_t kMostExpansion = 15;

constexpr std::size_t scale_count(std::size_t floats) { return divide_up(floats, kBlock); }

std::uint64_t raw_bytes(StateEncoding kind, std::uint64_t floats) {
  switch (kind) {
    case StateEncoding::f32:
      return floats * 4;
    case StateEncoding::f16:
      return floats * 2;
    case StateEncoding::int8:
      return divide_up(floats, kBlock) * 4 + floats;
  }
  return 0;
}

bool may_be_packed(StateEncoding kind, std::uint64_t floats, std::uint64_t packed_bytes) {
  return floats <= packed_bytes * kMostExpansion &&  // first, so that the sum cannot overflow
         raw_bytes(kind, floats) + floats * sizeof(float) <= packed_bytes * kMostExpansion;
}

// Byte k of every number, one after another: signs and exponents, which repeat, come to lie together.
template <class Word>
void to_planes(std::span<const std::byte> numbers, std::byte* planes) {
  const std::size_t n = numbers.size() / sizeof(Word);
  for (std::size_t k = 0; k < sizeof(Word); ++k) {
    std::byte* const plane = planes + k * n;
    for (std::size_t i = 0; i < n; ++i) {
      Word word = 0;
      std::memcpy(&word, numbers.data() + i * sizeof word, sizeof word);
      plane[i] = static_cast<std::byte>(word >> (8 * k));
    }
  }
}

void to_planes(std::span<const std::byte> numbers, StateEncoding kind, std::byte* planes) {
  switch (kind) {
    case StateEncoding::f32:
      return to_planes<std::uint32_t>(numbers, planes);
    case StateEncoding::f16:
      return to_planes<std::uint16_t>(numbers, planes);
    case StateEncoding::int8:
      return to_planes<std::uint8_t>(numbers, planes);
  }
}

// Number i of n, from numbers one after another or put together again from planes.
template <class Word, bool planes>
Word word_at(const std::byte* raw, std::size_t i, std::size_t n) {
  Word word = 0;
  if constexpr (planes) {
    for (std::size_t k = 0; k < sizeof word; ++k)
      word = static_cast<Word>(word | static_cast<Word>(raw[k * n + i]) << (8 * k));
  } else {
    std::memcpy(&word, raw + i * sizeof word, sizeof word);
  }
  return word;
}

bool fits(std::span<const float> state, StateEncoding kind) {
  constexpr float kLargestHalf = 65504.0F;
  const float limit = kind == StateEncoding::f16 ? kLargestHalf : 1e36F;  // NaN is never below it
  return std::all_of(state.begin(), state.end(), [&](float x) { return std::fabs(x) <= limit; });
}

void round_to_f16(std::span<const float> state, std::byte* out) {
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::uint16_t half = f32_to_f16(state[i]);
    std::memcpy(out + 2 * i, &half, sizeof half);
  }
}

// Scales first, then the codes.
void round_to_int8(std::span<const float> state, std::byte* out) {
  std::byte* codes = out + 4 * scale_count(state.size());
  for (std::size_t begin = 0, block = 0; begin < state.size(); begin += kBlock, ++block) {
    const auto values = state.subspan(begin, std::min(kBlock, state.size() - begin));
    float largest = 0.0F;
    for (float x : values) largest = std::max(largest, std::fabs(x));
    const float scale = largest / 127.0F;
    std::memcpy(out + 4 * block, &scale, sizeof scale);
    for (std::size_t i = 0; i < values.size(); ++i) {
      // A scale that is subnormal may round the quotient past 127.
      const float code = scale > 0.0F ? std::nearbyint(values[i] / scale) : 0.0F;
      codes[begin + i] =
          static_cast<std::byte>(static_cast<std::int8_t>(std::clamp(code, -127.0F, 127.0F)));
    }
  }
}

template <bool planes>
std::vector<float> floats_of(std::span<const std::byte> raw, StateEncoding kind,
                             std::size_t floats) {
  std::vector<float> out(floats);
  switch (kind) {
    case StateEncoding::f32:
      for (std::size_t i = 0; i < floats; ++i)
        out[i] = std::bit_cast<float>(word_at<std::uint32_t, planes>(raw.data(), i, floats));
      break;
    case StateEncoding::f16:
      for (std::size_t i = 0; i < floats; ++i)
        out[i] = f16_to_f32(word_at<std::uint16_t, planes>(raw.data(), i, floats));
      break;
    case StateEncoding::int8: {
      const std::byte* codes = raw.data() + 4 * scale_count(floats);
      for (std::size_t i = 0; i < floats; ++i) {
        const auto scale = word_at<std::uint32_t, false>(raw.data(), i / kBlock, 0);
        out[i] =
            std::bit_cast<float>(scale) * static_cast<float>(static_cast<std::int8_t>(codes[i]));
      }
      break;
    }
  }
  return out;
}

struct Header {
  StateEncoding kind = StateEncoding::f32;
  Packing packing = Packing::none;
  std::uint64_t floats = 0;
  std::span<const std::byte> payload;
};

Result<Header> read_header(std::span<const std::byte> section) {
  if (section.size() < kHeaderBytes) {
    return fail(ErrorCode::malformed, "has ", section.size(), " bytes, expected at least ",
                kHeaderBytes);
  }
  ByteReader reader(section);
  const std::uint32_t kind = *reader.read<std::uint32_t>();
  const std::uint32_t packing = *reader.read<std::uint32_t>();
  Header header;
  header.floats = *reader.read<std::uint64_t>();
  header.payload = section.subspan(kHeaderBytes);
  if (kind > 2) {
    return fail(ErrorCode::unsupported, "number kind is ", kind, ", expected 0 (f32) to 2 (int8)");
  }
  if (packing > 1) {
    return fail(ErrorCode::unsupported, "packing is ", packing, ", expected 0 (none) or 1 (zstd)");
  }
  header.kind = static_cast<StateEncoding>(kind);
  header.packing = static_cast<Packing>(packing);
  // of floats; keeps sums from overflowing
  const std::uint64_t most = header.payload.size() * kMostExpansion;
  const std::uint64_t raw = header.floats > most ? 0 : raw_bytes(header.kind, header.floats);
  if (header.floats > most || (header.packing == Packing::zstd &&
                               !may_be_packed(header.kind, header.floats, header.payload.size()))) {
    return fail(ErrorCode::malformed, "claims ", header.floats, " floats in ",
                header.payload.size(), " bytes");
  }
  if (header.packing == Packing::none && header.payload.size() != raw) {
    return fail(ErrorCode::malformed, "has ", header.payload.size(), " bytes of numbers, expected ",
                raw);
  }
  return header;
}

}  // namespace

std::vector<std::byte> encode_state(std::span<const float> state, SnapshotEncoding encoding) {
  StateEncoding kind = encoding.state;
  if (kind != StateEncoding::f32 && !fits(state, kind)) kind = StateEncoding::f32;
  // Megabytes that are written at once: not filled with zeros before.
  const auto room = [](std::size_t bytes) {
    return std::make_unique_for_overwrite<std::byte[]>(bytes);
  };
  const std::size_t raw_size = static_cast<std::size_t>(raw_bytes(kind, state.size()));
  std::unique_ptr<std::byte[]> rounded;
  std::span<const std::byte> raw = std::as_bytes(state);
  if (kind != StateEncoding::f32) {
    rounded = room(raw_size);
    if (kind == StateEncoding::f16) {
      round_to_f16(state, rounded.get());
    } else {
      round_to_int8(state, rounded.get());
    }
    raw = {rounded.get(), raw_size};
  }
  Packing packing = Packing::none;
  std::unique_ptr<std::byte[]> packed;
  if (encoding.compress && !raw.empty()) {
    const std::unique_ptr<std::byte[]> planes = room(raw_size);
    to_planes(raw, kind, planes.get());
    const std::size_t bound = ZSTD_compressBound(raw_size);
    packed = room(bound);
    const std::size_t size = ZSTD_compress(packed.get(), bound, planes.get(), raw_size, kZstdLevel);
    if (ZSTD_isError(size) == 0 && size < raw_size && may_be_packed(kind, state.size(), size)) {
      packing = Packing::zstd;
      raw = {packed.get(), size};
    }
  }
  std::vector<std::byte> out;
  out.reserve(kHeaderBytes + raw.size());
  out.resize(kHeaderBytes);
  const std::uint32_t numbers_kind = static_cast<std::uint32_t>(kind);
  const std::uint64_t floats = state.size();
  std::memcpy(out.data(), &numbers_kind, sizeof numbers_kind);
  std::memcpy(out.data() + 4, &packing, sizeof packing);
  std::memcpy(out.data() + 8, &floats, sizeof floats);
  out.insert(out.end(), raw.begin(), raw.end());
  return out;
}

Result<std::vector<float>> decode_state(std::span<const std::byte> section) {
  RUNNEL_TRY(const Header header, read_header(section));
  const std::size_t floats = static_cast<std::size_t>(header.floats);
  if (header.packing == Packing::none) return floats_of<false>(header.payload, header.kind, floats);

  const std::size_t raw_size = static_cast<std::size_t>(raw_bytes(header.kind, header.floats));
  const auto planes = std::make_unique_for_overwrite<std::byte[]>(raw_size);
  const std::size_t size =
      ZSTD_decompress(planes.get(), raw_size, header.payload.data(), header.payload.size());
  if (ZSTD_isError(size) != 0) {
    return fail(ErrorCode::malformed, "cannot be unpacked: ", ZSTD_getErrorName(size));
  }
  if (size != raw_size) {
    return fail(ErrorCode::malformed, "unpacks to ", size, " bytes, expected ", raw_size);
  }
  return floats_of<true>({planes.get(), raw_size}, header.kind, floats);
}

Result<SnapshotEncoding> state_encoding(std::span<const std::byte> section) {
  RUNNEL_TRY(const Header header, read_header(section));
  return SnapshotEncoding{.state = header.kind, .compress = header.packing == Packing::zstd};
}

}  // namespace runnel
