// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/snapshot_layout.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/byte_reader.h"
#include "runtime/base/hash.h"
#include "runtime/base/try.h"

namespace runnel::snapshot_layout {

std::string section_name(std::uint32_t id) {
  const bool known = id > 0 && id < std::size(kSectionNames);
  return "section " + std::to_string(id) +
         (known ? " (" + std::string(kSectionNames[id]) + ")" : "");
}

// Computed with zeros in place of the checksum itself.
std::uint64_t file_checksum(std::span<const std::byte> bytes) {
  constexpr std::array<std::byte, sizeof(std::uint64_t)> kZeros = {};
  Hasher hasher;
  hasher.update(bytes.first(kChecksumOffset));
  hasher.update(kZeros);
  hasher.update(bytes.subspan(kHeaderBytes));
  return hasher.digest();
}

// The header's fields, in order; checked one by one by read_table.
Result<std::vector<Section>> read_table(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto in_header = [](const auto&... parts) {
    return fail(ErrorCode::malformed, "header: ", parts...);
  };
  const auto magic = reader.take(kMagic.size());
  if (!magic || std::memcmp(magic->data(), kMagic.data(), kMagic.size()) != 0) {
    return in_header("the first bytes are not those of a snapshot");
  }
  if (bytes.size() < kHeaderBytes) {
    return in_header("file has ", bytes.size(), " bytes, expected at least ", kHeaderBytes);
  }
  const std::uint16_t major = *reader.read<std::uint16_t>();
  const std::uint16_t minor = *reader.read<std::uint16_t>();
  const std::uint32_t byte_order = *reader.read<std::uint32_t>();
  const std::uint64_t file_bytes = *reader.read<std::uint64_t>();
  const std::uint32_t sections = *reader.read<std::uint32_t>();
  const std::uint32_t reserved = *reader.read<std::uint32_t>();
  reader.take(sizeof(std::uint64_t));  // the checksum, compared last

  if (byte_order != kByteOrder) {
    return in_header("byte order mark is ", byte_order, ", expected ", kByteOrder,
                     " (little-endian)");
  }
  if (major != kMajor) {
    return fail(ErrorCode::unsupported, "header: version is ", major, ".", minor, ", expected ",
                kMajor, ".x");
  }
  if (file_bytes != bytes.size()) {
    return in_header("file has ", bytes.size(), " bytes, expected ", file_bytes,
                     bytes.size() < file_bytes ? ": it is cut short" : ": something was appended");
  }
  if (reserved != 0) return in_header("reserved field is ", reserved, ", expected 0");
  if (sections > kMaxSections || sections > reader.remaining() / kTableEntryBytes) {
    return in_header("section count is ", sections, ", expected at most ",
                     std::min<std::uint64_t>(kMaxSections, reader.remaining() / kTableEntryBytes));
  }

  std::vector<Section> table(sections);
  std::uint64_t free_from = kHeaderBytes + sections * kTableEntryBytes;
  for (Section& section : table) {
    section.id = *reader.read<std::uint32_t>();
    section.flags = *reader.read<std::uint32_t>();
    section.offset = *reader.read<std::uint64_t>();
    section.size = *reader.read<std::uint64_t>();
    section.checksum = *reader.read<std::uint64_t>();
    const auto wrong = [&](const auto&... parts) {
      return fail(ErrorCode::malformed, section_name(section.id), ": ", parts...);
    };
    if (section.offset % kAlignment != 0)
      return wrong("offset is ", section.offset, ", expected a multiple of ", kAlignment);
    if (section.offset < free_from || section.offset > bytes.size()) {
      return wrong("offset is ", section.offset, ", expected ", free_from, " to ", bytes.size());
    }
    if (section.size > bytes.size() - section.offset) {
      return wrong("has ", section.size, " bytes at ", section.offset, ", but the file ends at ",
                   bytes.size());
    }
    free_from = section.offset + section.size;
    const auto same = [&](const Section& other) {
      return &other < &section && other.id == section.id;
    };
    if (std::any_of(table.begin(), table.end(), same)) return wrong("appears twice");
  }
  return table;
}

}  // namespace runnel::snapshot_layout
