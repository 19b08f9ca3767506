// SPDX-License-Identifier: Apache-2.0
// Snapshots from bytes and from files; every field is checked before it is used.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/byte_reader.h"
#include "runtime/base/file_map.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_file.h"
#include "runtime/io/snapshot_layout.h"
#include "runtime/io/state_codec.h"

namespace runnel {
namespace {

using namespace snapshot_layout;

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
  /// Success if every field fitted and no byte is left.
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
  if (in.remaining() > 0) in.get(data.unread_carry);
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

Status get_generation(std::span<const std::byte> bytes, SnapshotData& data) {
  Fields in(bytes);
  SamplerState::Dry& dry = data.sampler.dry;
  in.get(data.generated_tokens);
  in.get(dry.multiplier);
  in.get(dry.base);
  in.get(dry.allowed_length);
  in.get(dry.range);
  std::uint32_t breakers = 0;
  in.get(breakers);
  if (breakers > in.remaining() / sizeof(std::uint32_t)) {
    return fail(ErrorCode::malformed, "breaker count is ", breakers, ", but ", in.remaining(),
                " bytes are left in it");
  }
  dry.breakers.resize(breakers);
  for (std::string& breaker : dry.breakers) in.get(breaker);
  return in.finish();
}

Status get_chain(std::span<const std::byte> bytes, SnapshotData& data) {
  Fields in(bytes);
  SamplerState::Chain& chain = data.sampler.chain;
  in.get(chain.top_n_sigma);
  in.get(chain.typical_p);
  in.get(chain.xtc_probability);
  in.get(chain.xtc_threshold);
  in.get(chain.dynatemp_range);
  in.get(chain.dynatemp_exponent);
  in.get(chain.mirostat);
  in.get(chain.mirostat_tau);
  in.get(chain.mirostat_eta);
  std::uint32_t has_mu = 0;
  float mu = 0.0F;
  in.get(has_mu);
  in.get(mu);
  if (has_mu != 0) data.mirostat_mu = mu;
  in.get(chain.no_repeat_ngram);
  std::uint32_t texts = 0;
  in.get(texts);
  if (texts > in.remaining() / sizeof(std::uint32_t)) {
    return fail(ErrorCode::malformed, "count of banned texts is ", texts, ", but ", in.remaining(),
                " bytes are left in it");
  }
  chain.banned_texts.resize(texts);
  for (std::string& text : chain.banned_texts) in.get(text);
  std::uint32_t samplers = 0;
  in.get(samplers);
  if (samplers > in.remaining()) {
    return fail(ErrorCode::malformed, "count of samplers is ", samplers, ", but ", in.remaining(),
                " bytes are left in it");
  }
  chain.order.resize(samplers);
  for (std::uint8_t& sampler : chain.order) in.get(sampler);
  RUNNEL_CHECK_OK(in.finish());
  if (has_mu != 0 && !std::isfinite(mu))
    return fail(ErrorCode::malformed, "mirostat's mu is ", mu, ", expected a finite number");
  return {};
}

Status get_constraint(std::span<const std::byte> bytes, SnapshotData& data) {
  Fields in(bytes);
  ConstraintState constraint;
  std::uint32_t kind = 0, strict = 0;
  in.get(kind);
  in.get(strict);
  in.get(constraint.hash);
  in.get(constraint.source);
  in.get(constraint.taken);
  RUNNEL_CHECK_OK(in.finish());
  if (kind > kLastConstraintKind || strict > 1) {
    return fail(ErrorCode::malformed, "kind is ", kind, " and strictness ", strict,
                ", expected at most ", std::uint32_t{kLastConstraintKind}, " and 1");
  }
  constraint.kind = static_cast<std::uint8_t>(kind);
  constraint.strict = strict != 0;
  data.constraint = std::move(constraint);
  return {};
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

Status get_window(std::span<const std::byte> bytes, SnapshotData& data) {
  Fields in(bytes);
  std::int32_t slots = 0;
  in.get(slots);
  RUNNEL_CHECK_OK(in.finish());
  if (slots < 0 || slots > kMostWindowSlots) {
    return fail(ErrorCode::malformed, "window is ", slots, " slots, expected 0 to ",
                kMostWindowSlots);
  }
  data.window_slots = slots;
  return {};
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
    case SectionId::generation:
      return get_generation(bytes, data);
    case SectionId::window:
      return get_window(bytes, data);
    case SectionId::chain:
      return get_chain(bytes, data);
    case SectionId::constraint:
      return get_constraint(bytes, data);
    case SectionId::initial_state: {
      RUNNEL_TRY(data.initial_state, decode_state(bytes));
      return {};
    }
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
      return fail(ErrorCode::malformed, section_name(needed),
                  ": is there twice, plain and encoded");
    }
    if (!encoded && !has(needed)) {
      return fail(ErrorCode::malformed, section_name(needed), ": is missing");
    }
  }
  if (!data.context.tokens.empty() && data.context.tokens.size() != data.position) {
    return fail(ErrorCode::malformed, section_name(SectionId::context), ": has ",
                data.context.tokens.size(), " tokens, expected the ", data.position, " consumed");
  }
  if (!data.initial_state.empty() && data.initial_state.size() != data.state.size()) {
    return fail(ErrorCode::malformed, section_name(SectionId::initial_state), ": has ",
                data.initial_state.size(), " numbers, expected ", data.state.size(),
                " as the state");
  }
  if (data.recent_tokens.size() > data.position) {
    return fail(ErrorCode::malformed, section_name(SectionId::recent_tokens), ": has ",
                data.recent_tokens.size(), " tokens, expected at most the ", data.position,
                " consumed");
  }
  if (data.generated_tokens > data.recent_tokens.size()) {
    return fail(ErrorCode::malformed, section_name(SectionId::generation), ": has ",
                data.generated_tokens, " generated tokens, expected at most the ",
                data.recent_tokens.size(), " recent ones");
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

Result<SnapshotData> snapshot_from_bytes(std::span<const std::byte> bytes, Checksums checksums) {
  try {
    return parse(bytes, checksums);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "not enough memory for a snapshot of ", bytes.size(),
                " bytes");
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
  std::memcpy(&outline.major, bytes.data() + kVersionOffset, sizeof outline.major);
  std::memcpy(&outline.minor, bytes.data() + kVersionOffset + 2, sizeof outline.minor);
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
