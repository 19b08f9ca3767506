// SPDX-License-Identifier: Apache-2.0
// Snapshots to bytes and to files.
#include <array>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "runtime/base/atomic_file.h"
#include "runtime/base/byte_reader.h"
#include "runtime/base/hash.h"
#include "runtime/base/integers.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_file.h"
#include "runtime/io/snapshot_layout.h"
#include "runtime/io/state_codec.h"

namespace runnel {
namespace {

using namespace snapshot_layout;

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
  void pad() { bytes_.resize(round_up(bytes_.size(), kAlignment)); }

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
  if (!data.unread_carry.empty()) out.put(data.unread_carry);
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

void put_generation(ByteWriter& out, const SnapshotData& data) {
  const SamplerState::Dry& dry = data.sampler.dry;
  out.put(data.generated_tokens);
  out.put(dry.multiplier);
  out.put(dry.base);
  out.put(dry.allowed_length);
  out.put(dry.range);
  out.put(static_cast<std::uint32_t>(dry.breakers.size()));
  for (const std::string& breaker : dry.breakers) out.put(breaker);
}

void put_chain(ByteWriter& out, const SnapshotData& data) {
  const SamplerState::Chain& chain = data.sampler.chain;
  out.put(chain.top_n_sigma);
  out.put(chain.typical_p);
  out.put(chain.xtc_probability);
  out.put(chain.xtc_threshold);
  out.put(chain.dynatemp_range);
  out.put(chain.dynatemp_exponent);
  out.put(chain.mirostat);
  out.put(chain.mirostat_tau);
  out.put(chain.mirostat_eta);
  out.put(static_cast<std::uint32_t>(data.mirostat_mu.has_value()));
  out.put(data.mirostat_mu.value_or(0.0F));
  out.put(chain.no_repeat_ngram);
  out.put(static_cast<std::uint32_t>(chain.banned_texts.size()));
  for (const std::string& text : chain.banned_texts) out.put(text);
  out.put(static_cast<std::uint32_t>(chain.order.size()));
  for (const std::uint8_t sampler : chain.order) out.put(sampler);
}

void put_constraint(ByteWriter& out, const ConstraintState& constraint) {
  out.put(std::uint32_t{constraint.kind});
  out.put(static_cast<std::uint32_t>(constraint.strict));
  out.put(constraint.hash);
  out.put(constraint.source);
  out.put(constraint.taken);
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

}  // namespace

std::vector<std::byte> snapshot_to_bytes(const SnapshotData& data, SnapshotEncoding encoding) {
  const bool plain = encoding == SnapshotEncoding{};
  // Left out where it says nothing.
  const bool generation = data.generated_tokens > 0 || data.sampler.dry != SamplerState::Dry();
  const bool chain = data.mirostat_mu || data.sampler.chain != SamplerState::Chain();
  const std::uint32_t sections = 5 + std::uint32_t(data.has_sampler) +
                                 std::uint32_t(!data.context.empty()) + std::uint32_t(generation) +
                                 std::uint32_t(data.window_slots.has_value()) +
                                 std::uint32_t(chain) + std::uint32_t(data.constraint.has_value()) +
                                 std::uint32_t(!data.initial_state.empty());
  const std::uint16_t minor = data.constraint ? 2 : plain && data.context.empty() ? 0 : 1;
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
  if (generation) section(SectionId::generation, kOptional, [&] { put_generation(out, data); });
  if (data.window_slots)
    section(SectionId::window, kOptional, [&] { out.put(*data.window_slots); });
  if (chain) section(SectionId::chain, kOptional, [&] { put_chain(out, data); });
  if (data.constraint)
    section(SectionId::constraint, kOptional, [&] { put_constraint(out, *data.constraint); });
  if (!data.initial_state.empty()) {
    // Exact, whatever the state is: conversations are told apart by what they began from.
    section(SectionId::initial_state, kOptional, [&] {
      out.append(encode_state(data.initial_state,
                              {.state = StateEncoding::f32, .compress = encoding.compress}));
    });
  }

  out.overwrite(file_bytes_at, static_cast<std::uint64_t>(out.size()));
  out.overwrite(kChecksumOffset, file_checksum(out.view()));
  return out.take();
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

}  // namespace runnel
