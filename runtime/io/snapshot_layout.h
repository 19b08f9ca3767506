// SPDX-License-Identifier: Apache-2.0
// How a snapshot file is laid out: header, section table, sections at multiples of 64.
// docs/snapshot-format.md has the tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"

namespace runnel::snapshot_layout {

// Not text at its first byte, and broken by any program that rewrites line ends.
inline constexpr std::array<std::uint8_t, 8> kMagic = {0x89, 'R', 'N', 'L', '\r', '\n', 0x1a, '\n'};
inline constexpr std::uint16_t kMajor = 1;
inline constexpr std::uint32_t kByteOrder = 0x01020304;
inline constexpr std::size_t kVersionOffset = 8;  // u16 major, u16 minor
inline constexpr std::size_t kFileBytesOffset = 16;
inline constexpr std::size_t kChecksumOffset = 32;  // computed with zeros in its place
inline constexpr std::size_t kHeaderBytes = 40;
inline constexpr std::size_t kTableEntryBytes = 32;
inline constexpr std::size_t kAlignment = 64;
inline constexpr std::uint32_t kMaxSections = 64;
/// Flag: a reader that does not know the section may skip it.
inline constexpr std::uint32_t kOptional = 1;

enum class SectionId : std::uint32_t {
  identity = 1,
  state,
  logits,
  recent_tokens,
  carry,
  sampler,
  encoded_state,  // 1.1: in place of state
  context,        // 1.1
  generation,
  window,
  chain,
  constraint,  // 1.2
  initial_state,
};

/// The last of ConstraintKind.
inline constexpr std::uint32_t kLastConstraintKind = 5;

/// Most window slots that a model file may have.
inline constexpr std::int32_t kMostWindowSlots = 1 << 14;

inline constexpr std::string_view kSectionNames[] = {
    "",       "identity", "state",         "logits",       "recent tokens",
    "carry",  "sampler",  "encoded state", "context",      "generation",
    "window", "chain",    "constraint",    "initial state"};

/// "section 2 (state)"
std::string section_name(std::uint32_t id);
inline std::string section_name(SectionId id) {
  return section_name(static_cast<std::uint32_t>(id));
}

/// An entry of the section table.
struct Section {
  std::uint32_t id = 0;
  std::uint32_t flags = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t checksum = 0;
};

/// Checks the header and the table: all sections lie in the file, in order, each once.
/// @return malformed or unsupported (version), saying what is wrong.
Result<std::vector<Section>> read_table(std::span<const std::byte> bytes);

/// The checksum of the whole file (at least a header), computed with zeros in its place.
std::uint64_t file_checksum(std::span<const std::byte> bytes);

}  // namespace runnel::snapshot_layout
