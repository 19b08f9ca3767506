// SPDX-License-Identifier: Apache-2.0
// How the floats of a state lie in a snapshot that is smaller than plain f32: as f16 or as int8
// with scales, with or without zstd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runnel/result.h"
#include "runnel/snapshot.h"

namespace runnel {

/// The bytes of an "encoded state" section: u32 number kind, u32 packing, u64 floats, payload.
/// A state that f16 or int8 cannot hold (a value not finite or too large) is kept as f32, and what
/// zstd does not make smaller is not packed: what is written can always be read back.
std::vector<std::byte> encode_state(std::span<const float> state, SnapshotEncoding encoding);

/// The floats of such a section. Takes memory only in proportion to the bytes there are.
/// @return malformed or unsupported, saying what is wrong.
Result<std::vector<float>> decode_state(std::span<const std::byte> section);

/// The encoding that the section really has.
/// @return as decode_state.
Result<SnapshotEncoding> state_encoding(std::span<const std::byte> section);

}  // namespace runnel
