// SPDX-License-Identifier: Apache-2.0
// Layout: [header, bytes] for each entry; the central directory, which alone says where they are; its end record, before
// which a zip64 archive has the same with 64 bits and a locator of that.
#include "runtime/io/zip.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/byte_reader.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034B50;
constexpr std::uint32_t kDirectoryEntry = 0x02014B50;
constexpr std::uint32_t kEnd = 0x06054B50;
constexpr std::uint32_t kEnd64 = 0x06064B50;
constexpr std::uint32_t kLocator64 = 0x07064B50;
constexpr std::size_t kLocalHeaderBytes = 30;
constexpr std::size_t kDirectoryEntryBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::size_t kMaxComment = 0xFFFF;
constexpr std::uint64_t kMaxEntries = 1U << 20;
constexpr std::uint16_t kZip64Field = 1;
constexpr unsigned kEncrypted = 1U | 1U << 6U | 1U << 13U;  // flags: entry, strongly, directory

/// A number at a place that has been checked.
template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

/// Where the end record stands: the last place whose comment reaches just to the end of the archive.
std::optional<std::size_t> find_end(std::span<const std::byte> archive) {
  if (archive.size() < kEndBytes) return {};
  const std::size_t last = archive.size() - kEndBytes;
  for (std::size_t back = 0; back <= std::min(last, kMaxComment); ++back) {
    const std::size_t at = last - back;
    if (number_at<std::uint32_t>(archive, at) == kEnd &&
        number_at<std::uint16_t>(archive, at + 20) == back)
      return at;
  }
  return {};
}

/// The zip64 record that the locator before the end record names.
Status read_end64(std::span<const std::byte> archive, std::size_t end, Directory& directory,
                  std::size_t& limit) {
  if (end < kLocatorBytes || number_at<std::uint32_t>(archive, end - kLocatorBytes) != kLocator64)
    return {};
  const std::size_t locator = end - kLocatorBytes;
  const auto at = number_at<std::uint64_t>(archive, locator + 8);
  if (number_at<std::uint32_t>(archive, locator + 4) != 0 ||
      number_at<std::uint32_t>(archive, locator + 16) > 1)
    return fail(ErrorCode::unsupported, "the archive is in several files");
  if (locator < kEnd64Bytes || at > locator - kEnd64Bytes ||
      number_at<std::uint32_t>(archive, static_cast<std::size_t>(at)) != kEnd64)
    return fail(ErrorCode::malformed, "zip64 end record: is not at ", at,
                ", where its locator says it is");
  const auto record = archive.subspan(static_cast<std::size_t>(at), kEnd64Bytes);
  directory = {.offset = number_at<std::uint64_t>(record, 48),
               .bytes = number_at<std::uint64_t>(record, 40),
               .entries = number_at<std::uint64_t>(record, 32)};
  limit = static_cast<std::size_t>(at);
  return {};
}

Result<Directory> find_directory(std::span<const std::byte> archive) {
  const std::optional<std::size_t> end = find_end(archive);
  if (!end) return fail(ErrorCode::malformed, "is no zip archive: it has no end record");
  const auto record = archive.subspan(*end, kEndBytes);
  if (number_at<std::uint16_t>(record, 4) != 0 || number_at<std::uint16_t>(record, 6) != 0)
    return fail(ErrorCode::unsupported, "the archive is in several files");
  Directory directory{.offset = number_at<std::uint32_t>(record, 16),
                      .bytes = number_at<std::uint32_t>(record, 12),
                      .entries = number_at<std::uint16_t>(record, 10)};
  std::size_t limit = *end;
  RUNNEL_CHECK_OK(read_end64(archive, *end, directory, limit));
  if (directory.offset > limit || directory.bytes > limit - directory.offset)
    return fail(ErrorCode::malformed, "central directory: is ", directory.bytes, " bytes at ",
                directory.offset, ", expected to lie before its end record at ", limit);
  if (directory.entries > kMaxEntries || directory.entries > directory.bytes / kDirectoryEntryBytes)
    return fail(ErrorCode::malformed, "central directory: ", directory.bytes, " bytes for ",
                directory.entries, " entries");
  return directory;
}

/// One entry of the central directory.
struct Entry {
  std::string_view name;
  std::uint64_t stored = 0;  // bytes
  std::uint64_t plain = 0;   // bytes when unpacked
  std::uint64_t header = 0;  // where its local header stands
};

/// Replaces what the directory leaves to the zip64 field: in this order, only what is saturated.
bool read_zip64_field(std::span<const std::byte> extra, Entry& entry) {
  const bool wanted =
      entry.plain == 0xFFFFFFFF || entry.stored == 0xFFFFFFFF || entry.header == 0xFFFFFFFF;
  ByteReader fields(extra);
  while (wanted) {
    const auto id = fields.read<std::uint16_t>();
    const auto size = fields.read<std::uint16_t>();
    const auto bytes = size ? fields.take(*size) : std::nullopt;
    if (!id || !bytes) return false;
    if (*id != kZip64Field) continue;
    ByteReader values(*bytes);
    for (std::uint64_t* value : {&entry.plain, &entry.stored, &entry.header}) {
      if (*value != 0xFFFFFFFF) continue;
      const auto wide = values.read<std::uint64_t>();
      if (!wide) return false;
      *value = *wide;
    }
    return true;
  }
  return true;
}

Result<Entry> read_entry(ByteReader& reader, std::uint64_t index) {
  const auto fixed = reader.take(kDirectoryEntryBytes);
  if (!fixed || number_at<std::uint32_t>(*fixed, 0) != kDirectoryEntry)
    return fail(ErrorCode::malformed, "central directory: entry ", index, " is none");
  const auto name = reader.take(number_at<std::uint16_t>(*fixed, 28));
  const auto extra = name ? reader.take(number_at<std::uint16_t>(*fixed, 30)) : std::nullopt;
  const auto comment = extra ? reader.take(number_at<std::uint16_t>(*fixed, 32)) : std::nullopt;
  if (!comment) return fail(ErrorCode::malformed, "central directory: entry ", index, " is cut");
  Entry entry{.name = as_text(*name),
              .stored = number_at<std::uint32_t>(*fixed, 20),
              .plain = number_at<std::uint32_t>(*fixed, 24),
              .header = number_at<std::uint32_t>(*fixed, 42)};
  const auto method = number_at<std::uint16_t>(*fixed, 10);
  if ((number_at<std::uint16_t>(*fixed, 8) & kEncrypted) != 0)
    return fail(ErrorCode::unsupported, "entry ", in_quotes(entry.name), ": is encrypted");
  if (method != 0)
    return fail(ErrorCode::unsupported, "entry ", in_quotes(entry.name), ": is compressed (method ",
                method, "), expected to be stored");
  if (!read_zip64_field(*extra, entry) || entry.stored != entry.plain)
    return fail(ErrorCode::malformed, "entry ", in_quotes(entry.name), ": has ", entry.stored,
                " bytes for ", entry.plain, ", expected as many or a zip64 field");
  return entry;
}

/// The entry's bytes, which follow its local header.
Result<std::span<const std::byte>> entry_bytes(std::span<const std::byte> files,
                                               const Entry& entry) {
  const auto broken = [&](const auto&... why) {
    return fail(ErrorCode::malformed, "entry ", in_quotes(entry.name), ": ", why...);
  };
  if (entry.header > files.size() || files.size() - entry.header < kLocalHeaderBytes)
    return broken("its header is at ", entry.header, ", expected before the directory at ",
                  files.size());
  ByteReader reader(files.subspan(static_cast<std::size_t>(entry.header)));
  const auto fixed = reader.take(kLocalHeaderBytes);
  if (number_at<std::uint32_t>(*fixed, 0) != kLocalHeader)
    return broken("has no header at ", entry.header);
  const auto name = reader.take(number_at<std::uint16_t>(*fixed, 26));
  const auto extra = name ? reader.take(number_at<std::uint16_t>(*fixed, 28)) : std::nullopt;
  if (!extra || as_text(*name) != entry.name) return broken("its header has another name");
  const auto bytes = reader.take(entry.stored);
  if (!bytes)
    return broken("has ", entry.stored, " bytes, but ", reader.remaining(),
                  " are left before the directory");
  return *bytes;
}

}  // namespace

Result<ZipEntries> read_zip(std::span<const std::byte> archive) {
  RUNNEL_TRY(const Directory directory, find_directory(archive));
  const auto offset = static_cast<std::size_t>(directory.offset);
  const std::span<const std::byte> files = archive.first(offset);
  ByteReader reader(archive.subspan(offset, static_cast<std::size_t>(directory.bytes)));
  ZipEntries entries;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;  // from each header to its last byte
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    RUNNEL_TRY(const Entry entry, read_entry(reader, i));
    RUNNEL_TRY(const std::span<const std::byte> bytes, entry_bytes(files, entry));
    const auto end = static_cast<std::uint64_t>(bytes.data() - files.data()) + bytes.size();
    taken.emplace_back(entry.header, end);
    if (!entries.emplace(entry.name, bytes).second)
      return fail(ErrorCode::malformed, "entry ", in_quotes(entry.name), ": is there twice");
  }
  std::sort(taken.begin(), taken.end());
  for (std::size_t i = 1; i < taken.size(); ++i) {
    if (taken[i].first < taken[i - 1].second)
      return fail(ErrorCode::malformed, "entries at ", taken[i - 1].first, " and ", taken[i].first,
                  " overlap");
  }
  return entries;
}

}  // namespace runnel
