// SPDX-License-Identifier: Apache-2.0
// Layout: header, section table, sections at multiples of 64. docs/snapshot-format.md has the
// tables.
#include "runtime/io/snapshot_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "runtime/base/atomic_file.h"
#include "runtime/base/byte_reader.h"
#include "runtime/base/file_map.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/state_codec.h"

namespace runnel {
namespace {

// Not text at its first byte, and broken by any program that rewrites line ends.
constexpr std::array<std::uint8_t, 8> kMagic = {0x89, 'R', 'N', 'L', '\r', '\n', 0x1a, '\n'};
constexpr std::uint16_t kMajor = 1;
constexpr std::uint32_t kByteOrder = 0x01020304;
constexpr std::size_t kChecksumOffset =
    32;  // of the file's checksum, which is computed with zeros in its place
constexpr std::size_t kHeaderBytes = 40;
constexpr std::size_t kTableEntryBytes = 32;
constexpr std::size_t kAlignment = 64;
constexpr std::uint32_t kMaxSections = 64;
constexpr std::uint32_t kOptional =
    1;  // flag: a reader that does not know the section may pass over it

enum class SectionId : std::uint32_t {
  identity = 1,
  state,
  logits,
  recent_tokens,
  carry,
  sampler,
  encoded_state,  // 1.1: in place of state
  context,        // 1.1
};

constexpr std::string_view kSectionNames[] = {"",        "identity",      "state",
                                              "logits",  "recent tokens", "carry",
                                              "sampler", "encoded state", "context"};

std::string section_name(std::uint32_t id) {
  const bool known = id > 0 && id < std::size(kSectionNames);
  return "section " + std::to_string(id) +
         (known ? " (" + std::string(kSectionNames[id]) + ")" : "");
}

// ---- writing ----

class ByteWriter {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(T value) { append(std::as_bytes(std::span(&value, 1))); }
  void put(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    append(as_bytes(text));
  }
  void append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  template <class T>
  void overwrite(std::size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void pad() { bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment); }

  std::size_t size() const { return bytes_.size(); }
  void reserve(std::size_t size) { bytes_.reserve(size); }
  std::span<const std::byte> view() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

void put_identity(ByteWriter& out, const SnapshotData& data) {
  out.put(data.model_fingerprint);
  out.put(data.position);
  out.put(data.history_hash);
  out.put(data.backend);
}

void put_carry(ByteWriter& out, const SnapshotData& data) {
  out.put(data.utf8_carry);
  out.put(data.stop_carry);
}

void put_sampler(ByteWriter& out, const SamplerState& sampler) {
  out.put(sampler.seed);
  out.put(sampler.temperature);
  out.put(sampler.top_k);
  out.put(sampler.top_p);
  out.put(sampler.min_p);
  out.put(sampler.repetition_penalty);
  out.put(sampler.presence_penalty);
  out.put(sampler.frequency_penalty);
  out.put(sampler.penalty_window);
  out.put(static_cast<std::uint32_t>(sampler.logit_bias.size()));
  for (const auto& [token, bias] : sampler.logit_bias) {
    out.put(token);
    out.put(bias);
  }
}

void put_context(ByteWriter& out, const SnapshotContext& context) {
  out.put(static_cast<std::uint32_t>(context.messages.size()));
  for (const ChatMessage& message : context.messages) {
    out.put(message.role);
    out.put(message.content);
  }
  out.put(static_cast<std::uint64_t>(context.tokens.size()));
  out.append(std::as_bytes(std::span(context.tokens)));
}

// With zeros in place of the checksum itself.
std::uint64_t file_checksum(std::span<const std::byte> bytes) {
  constexpr std::array<std::byte, sizeof(std::uint64_t)> kZeros = {};
  Hasher hasher;
  hasher.update(bytes.first(kChecksumOffset));
  hasher.update(kZeros);
  hasher.update(bytes.subspan(kHeaderBytes));
  return hasher.digest();
}

// ---- reading ----

struct Section {
  std::uint32_t id = 0;
  std::uint32_t flags = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t checksum = 0;
};

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

template <class T>
Result<std::vector<T>> read_array(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(T) != 0) {
    return fail(ErrorCode::malformed, "has ", bytes.size(), " bytes, expected a multiple of ",
                sizeof(T));
  }
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// Reads the fields of one section; the first that does not fit is remembered, later ones are zero.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : reader_(bytes), size_(bytes.size()) {}

  template <class T>
  void get(T& value) {
    if (const auto read = reader_.read<T>()) {
      value = *read;
    } else {
      cut(reader_.position() + sizeof(T));
    }
  }
  void get(std::string& text) {
    std::uint32_t length = 0;
    get(length);
    if (const auto bytes = reader_.take(length)) {
      text = as_text(*bytes);
    } else {
      cut(reader_.position() + length);
    }
  }
  std::size_t remaining() const { return reader_.remaining(); }
  /// Success if everything fitted and nothing is left.
  Status finish() {
    if (!error_ && reader_.remaining() > 0) {
      return fail(ErrorCode::malformed, "has ", size_, " bytes, expected ", reader_.position());
    }
    return error_ ? Status(*std::move(error_)) : Status();
  }

 private:
  void cut(std::uint64_t needed) {
    if (!error_) {
      error_ = fail(ErrorCode::malformed, "has ", size_, " bytes, expected at least ", needed);
    }
  }

  ByteReader reader_;
  std::size_t size_;
  std::optional<Error> error_;
};

Status get_identity(std::span<const std::byte> bytes, SnapshotData& data) {
  Fields in(bytes);
  in.get(data.model_fingerprint);
  in.get(data.position);
  in.get(data.history_hash);
  in.get(data.backend);
  return in.finish();
}

Status get_carry(std::span<const std::byte> bytes, SnapshotData& data) {
  Fields in(bytes);
  in.get(data.utf8_carry);
  in.get(data.stop_carry);
  return in.finish();
}

Status get_sampler(std::span<const std::byte> bytes, SnapshotData& data) {
  Fields in(bytes);
  SamplerState& sampler = data.sampler;
  in.get(sampler.seed);
  in.get(sampler.temperature);
  in.get(sampler.top_k);
  in.get(sampler.top_p);
  in.get(sampler.min_p);
  in.get(sampler.repetition_penalty);
  in.get(sampler.presence_penalty);
  in.get(sampler.frequency_penalty);
  in.get(sampler.penalty_window);
  std::uint32_t biases = 0;
  in.get(biases);
  constexpr std::size_t kBiasBytes = sizeof(TokenId) + sizeof(float);
  if (biases > in.remaining() / kBiasBytes) {
    return fail(ErrorCode::malformed, "logit bias count is ", biases, ", but ", in.remaining(),
                " bytes are left in it");
  }
  sampler.logit_bias.resize(biases);
  for (auto& [token, bias] : sampler.logit_bias) {
    in.get(token);
    in.get(bias);
  }
  data.has_sampler = true;
  return in.finish();
}

Status get_context(std::span<const std::byte> bytes, SnapshotContext& context) {
  Fields in(bytes);
  std::uint32_t messages = 0;
  in.get(messages);
  constexpr std::size_t kLeastMessage = 2 * sizeof(std::uint32_t);
  if (messages > in.remaining() / kLeastMessage) {
    return fail(ErrorCode::malformed, "message count is ", messages, ", but ", in.remaining(),
                " bytes are left in it");
  }
  context.messages.resize(messages);
  for (ChatMessage& message : context.messages) {
    in.get(message.role);
    in.get(message.content);
  }
  std::uint64_t tokens = 0;
  in.get(tokens);
  if (tokens > in.remaining() / sizeof(TokenId)) {
    return fail(ErrorCode::malformed, "token count is ", tokens, ", but ", in.remaining(),
                " bytes are left in it");
  }
  context.tokens.resize(static_cast<std::size_t>(tokens));
  for (TokenId& token : context.tokens) in.get(token);
  return in.finish();
}

Status get_section(const Section& section, std::span<const std::byte> bytes, SnapshotData& data) {
  switch (static_cast<SectionId>(section.id)) {
    case SectionId::identity:
      return get_identity(bytes, data);
    case SectionId::state: {
      RUNNEL_TRY(data.state, read_array<float>(bytes));
      return {};
    }
    case SectionId::logits: {
      RUNNEL_TRY(data.logits, read_array<float>(bytes));
      return {};
    }
    case SectionId::recent_tokens: {
      RUNNEL_TRY(data.recent_tokens, read_array<TokenId>(bytes));
      return {};
    }
    case SectionId::carry:
      return get_carry(bytes, data);
    case SectionId::sampler:
      return get_sampler(bytes, data);
    case SectionId::encoded_state: {
      RUNNEL_TRY(data.state, decode_state(bytes));
      return {};
    }
    case SectionId::context:
      return get_context(bytes, data.context);
  }
  if ((section.flags & kOptional) != 0) return {};
  return fail(ErrorCode::unsupported, "is not known to this version and not optional");
}

Result<SnapshotData> parse(std::span<const std::byte> bytes, Checksums checksums) {
  RUNNEL_TRY(const std::vector<Section> table, read_table(bytes));
  SnapshotData data;
  for (const Section& section : table) {
    const auto payload = bytes.subspan(static_cast<std::size_t>(section.offset),
                                       static_cast<std::size_t>(section.size));
    if (checksums == Checksums::verify && hash64(payload) != section.checksum) {
      return fail(ErrorCode::malformed, section_name(section.id),
                  ": is damaged (its checksum does not match)");
    }
    if (Status status = get_section(section, payload, data); !status) {
      return with_context(std::move(status).error(), section_name(section.id) + ": ");
    }
  }
  const auto has = [&](SectionId wanted) {
    return std::any_of(table.begin(), table.end(), [&](const Section& section) {
      return section.id == static_cast<std::uint32_t>(wanted);
    });
  };
  for (const SectionId needed : {SectionId::identity, SectionId::state, SectionId::logits,
                                 SectionId::recent_tokens, SectionId::carry}) {
    const bool encoded = needed == SectionId::state && has(SectionId::encoded_state);
    if (encoded && has(SectionId::state)) {
      return fail(ErrorCode::malformed, section_name(static_cast<std::uint32_t>(needed)),
                  ": is there twice, plain and encoded");
    }
    if (!encoded && !has(needed)) {
      return fail(ErrorCode::malformed, section_name(static_cast<std::uint32_t>(needed)),
                  ": is missing");
    }
  }
  if (!data.context.tokens.empty() && data.context.tokens.size() != data.position) {
    return fail(ErrorCode::malformed, section_name(static_cast<std::uint32_t>(SectionId::context)),
                ": has ", data.context.tokens.size(), " tokens, expected the ", data.position,
                " consumed");
  }
  if (data.recent_tokens.size() > data.position) {
    return fail(ErrorCode::malformed,
                section_name(static_cast<std::uint32_t>(SectionId::recent_tokens)), ": has ",
                data.recent_tokens.size(), " tokens, expected at most the ", data.position,
                " consumed");
  }
  if (checksums == Checksums::verify) {
    std::uint64_t stored = 0;
    std::memcpy(&stored, bytes.data() + kChecksumOffset, sizeof stored);
    if (stored != file_checksum(bytes)) {
      return fail(
          ErrorCode::malformed,
          "header: is damaged (the file's checksum does not match, those of the sections do)");
    }
  }
  return data;
}

}  // namespace

std::vector<std::byte> snapshot_to_bytes(const SnapshotData& data, SnapshotEncoding encoding) {
  const bool plain = encoding == SnapshotEncoding{};
  const std::uint32_t sections =
      5 + std::uint32_t(data.has_sampler) + std::uint32_t(!data.context.empty());
  const std::uint16_t minor = plain && data.context.empty() ? 0 : 1;
  ByteWriter out;
  out.reserve(1024 + (data.state.size() + data.logits.size()) * sizeof(float) +
              data.recent_tokens.size() * sizeof(TokenId));
  out.append(std::as_bytes(std::span(kMagic)));
  out.put(kMajor);
  out.put(minor);
  out.put(kByteOrder);
  const std::size_t file_bytes_at = out.size();
  out.put(std::uint64_t(0));
  out.put(sections);
  out.put(std::uint32_t(0));  // reserved
  out.put(std::uint64_t(0));  // checksum

  std::size_t entry_at = out.size();
  const std::array<std::byte, kTableEntryBytes> empty_entry = {};
  for (std::uint32_t i = 0; i < sections; ++i) out.append(empty_entry);
  const auto section = [&](SectionId id, std::uint32_t flags, const auto& write) {
    out.pad();
    const std::size_t start = out.size();
    write();
    out.overwrite(entry_at, static_cast<std::uint32_t>(id));
    out.overwrite(entry_at + 4, flags);
    out.overwrite(entry_at + 8, static_cast<std::uint64_t>(start));
    out.overwrite(entry_at + 16, static_cast<std::uint64_t>(out.size() - start));
    out.overwrite(entry_at + 24, hash64(out.view().subspan(start)));
    entry_at += kTableEntryBytes;
  };
  section(SectionId::identity, 0, [&] { put_identity(out, data); });
  if (plain) {
    section(SectionId::state, 0, [&] { out.append(std::as_bytes(std::span(data.state))); });
  } else {
    section(SectionId::encoded_state, 0, [&] { out.append(encode_state(data.state, encoding)); });
  }
  section(SectionId::logits, 0, [&] { out.append(std::as_bytes(std::span(data.logits))); });
  section(SectionId::recent_tokens, 0,
          [&] { out.append(std::as_bytes(std::span(data.recent_tokens))); });
  section(SectionId::carry, 0, [&] { put_carry(out, data); });
  if (data.has_sampler)
    section(SectionId::sampler, kOptional, [&] { put_sampler(out, data.sampler); });
  if (!data.context.empty())
    section(SectionId::context, kOptional, [&] { put_context(out, data.context); });

  out.overwrite(file_bytes_at, static_cast<std::uint64_t>(out.size()));
  out.overwrite(kChecksumOffset, file_checksum(out.view()));
  return out.take();
}

Result<SnapshotData> snapshot_from_bytes(std::span<const std::byte> bytes, Checksums checksums) {
  try {
    return parse(bytes, checksums);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "not enough memory for a snapshot of ", bytes.size(),
                " bytes");
  }
}

Status write_snapshot(const std::filesystem::path& file, const SnapshotData& data,
                      SnapshotEncoding encoding, const FileSystem& system) {
  try {
    return write_file_atomically(file, snapshot_to_bytes(data, encoding), AtomicFile::kPrivateMode,
                                 system);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, printable(file.native()),
                ": not enough memory to write the snapshot");
  }
}

Result<SnapshotData> read_snapshot(const std::filesystem::path& file) {
  RUNNEL_TRY(const FileMap map, FileMap::open(file));
  Result<SnapshotData> data = snapshot_from_bytes(map.bytes());
  if (!data) return with_context(std::move(data).error(), printable(file.native()) + ": snapshot ");
  return data;
}

Result<SnapshotOutline> outline_snapshot(std::span<const std::byte> bytes) {
  RUNNEL_TRY(const std::vector<Section> table, read_table(bytes));
  SnapshotOutline outline;
  std::memcpy(&outline.major, bytes.data() + kMagic.size(), sizeof outline.major);
  std::memcpy(&outline.minor, bytes.data() + kMagic.size() + 2, sizeof outline.minor);
  for (const Section& section : table) {
    const auto payload = bytes.subspan(static_cast<std::size_t>(section.offset),
                                       static_cast<std::size_t>(section.size));
    if (section.id == static_cast<std::uint32_t>(SectionId::encoded_state)) {
      if (auto encoding = state_encoding(payload)) outline.encoding = *encoding;
    }
    const bool known = section.id > 0 && section.id < std::size(kSectionNames);
    outline.sections.push_back(
        {.id = section.id,
         .name = known ? std::string(kSectionNames[section.id]) : section_name(section.id),
         .offset = section.offset,
         .size = section.size,
         .optional = (section.flags & kOptional) != 0,
         .intact = hash64(payload) == section.checksum});
  }
  return outline;
}

}  // namespace runnel
