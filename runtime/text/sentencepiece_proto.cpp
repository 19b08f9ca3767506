// SPDX-License-Identifier: Apache-2.0
// The protobuf wire format, as far as sentencepiece's ModelProto needs it.
#include "runtime/text/sentencepiece_proto.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/utf8.h"

namespace runnel {

namespace {

constexpr std::size_t kMaxPieceBytes = 1024;  // also bounds a recursion of the library
constexpr std::size_t kMaxUserBytes = 64;     // its prefix matcher has room for 64 nested matches

Error broken(const char* where, std::string_view why) {
  return fail(ErrorCode::malformed, "tokenizer.model: ", where, ": ", why);
}

/// One field of a message.
struct Field {
  std::uint32_t number = 0;
  std::uint32_t wire = 0;   // 0 varint, 1 eight bytes, 2 length-delimited, 5 four bytes
  std::uint64_t value = 0;  // wire 0, 1, 5
  std::string_view bytes;   // wire 2
};

/// Goes over the fields of one message.
class FieldReader {
 public:
  FieldReader(std::string_view bytes, const char* where) : bytes_(bytes), where_(where) {}
  bool done() const { return bytes_.empty(); }

  Result<Field> next() {
    RUNNEL_TRY(const std::uint64_t tag, varint());
    Field field;
    if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) return broken(where_, "field number out of range");
    field.number = static_cast<std::uint32_t>(tag >> 3);
    field.wire = static_cast<std::uint32_t>(tag & 7);
    switch (field.wire) {
      case 0: {
        RUNNEL_TRY(field.value, varint());
        return field;
      }
      case 1:
      case 5: {
        const std::size_t n = field.wire == 1 ? 8 : 4;
        if (bytes_.size() < n) return broken(where_, "ends inside a number");
        for (std::size_t i = 0; i < n; ++i)
          field.value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(bytes_[i])) << 8 * i;
        bytes_.remove_prefix(n);
        return field;
      }
      case 2: {
        RUNNEL_TRY(const std::uint64_t n, varint());
        if (n > bytes_.size()) return broken(where_, "a field is longer than what is left");
        field.bytes = bytes_.substr(0, static_cast<std::size_t>(n));
        bytes_.remove_prefix(static_cast<std::size_t>(n));
        return field;
      }
      default:
        return broken(where_, "unknown wire type");
    }
  }

 private:
  Result<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return broken(where_, "ends inside a number");
      const auto byte = static_cast<std::uint8_t>(bytes_[0]);
      bytes_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    return broken(where_, "a number has more than 64 bits");
  }

  std::string_view bytes_;
  const char* where_;
};

Status expect_wire(const Field& field, std::uint32_t wire, const char* where) {
  if (field.wire == wire) return {};
  return fail(ErrorCode::malformed, "tokenizer.model: ", where, ": field ", field.number,
              " has wire type ", field.wire, ", expected ", wire);
}

Status read_piece(std::string_view bytes, SentencepieceModel::Piece& piece) {
  constexpr const char* kWhere = "piece";
  FieldReader reader(bytes, kWhere);
  while (!reader.done()) {
    RUNNEL_TRY(const Field field, reader.next());
    if (field.number == 1) {
      RUNNEL_CHECK_OK(expect_wire(field, 2, kWhere));
      piece.text = field.bytes;
    } else if (field.number == 2) {
      RUNNEL_CHECK_OK(expect_wire(field, 5, kWhere));
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    } else if (field.number == 3) {
      RUNNEL_CHECK_OK(expect_wire(field, 0, kWhere));
      if (field.value < 1 || field.value > 6) return broken(kWhere, "unknown type of piece");
      piece.kind = static_cast<TokenKind>(field.value);
    }
  }
  return {};
}

Status read_trainer(std::string_view bytes, SentencepieceModel& model) {
  constexpr const char* kWhere = "trainer_spec";
  constexpr std::uint64_t kUnigram = 1;
  constexpr std::uint64_t kBpe = 2;
  std::uint64_t type = kUnigram;  // protobuf's default
  FieldReader reader(bytes, kWhere);
  while (!reader.done()) {
    RUNNEL_TRY(const Field field, reader.next());
    const auto flag_or_id = [&](auto& target) -> Status {
      RUNNEL_CHECK_OK(expect_wire(field, 0, kWhere));
      if constexpr (std::is_same_v<std::decay_t<decltype(target)>, bool>) {
        target = field.value != 0;
      } else {
        target = static_cast<std::int32_t>(field.value);
      }
      return {};
    };
    switch (field.number) {
      case 3:
        RUNNEL_CHECK_OK(expect_wire(field, 0, kWhere));
        type = field.value;
        break;
      case 24:
        RUNNEL_CHECK_OK(flag_or_id(model.whitespace_is_suffix));
        break;
      case 35:
        RUNNEL_CHECK_OK(flag_or_id(model.byte_fallback));
        break;
      case 40:
        RUNNEL_CHECK_OK(flag_or_id(model.unknown_id));
        break;
      case 41:
        RUNNEL_CHECK_OK(flag_or_id(model.begin_id));
        break;
      case 42:
        RUNNEL_CHECK_OK(flag_or_id(model.end_id));
        break;
      case 43:
        RUNNEL_CHECK_OK(flag_or_id(model.padding_id));
        break;
      case 44:
        RUNNEL_CHECK_OK(expect_wire(field, 2, kWhere));
        if (field.bytes.size() > kMaxPieceBytes ||
            first_invalid_utf8(field.bytes) != std::string_view::npos)
          return broken(kWhere, "the surface of the unknown token is not a short text");
        model.unknown_surface = field.bytes;
        break;
      default:
        break;
    }
  }
  if (type != kBpe)
    return fail(ErrorCode::unsupported, "tokenizer.model: model type ", type,
                ": only byte-pair encoding (2) is run");
  return {};
}

Status read_normalizer(std::string_view bytes, SentencepieceModel& model) {
  constexpr const char* kWhere = "normalizer_spec";
  std::string_view name;
  std::string_view character_map;
  FieldReader reader(bytes, kWhere);
  while (!reader.done()) {
    RUNNEL_TRY(const Field field, reader.next());
    switch (field.number) {
      case 1:
      case 2:
        RUNNEL_CHECK_OK(expect_wire(field, 2, kWhere));
        (field.number == 1 ? name : character_map) = field.bytes;
        break;
      case 3:
      case 4:
      case 5:
        RUNNEL_CHECK_OK(expect_wire(field, 0, kWhere));
        (field.number == 3   ? model.add_dummy_prefix
         : field.number == 4 ? model.remove_extra_whitespaces
                             : model.escape_whitespaces) = field.value != 0;
        break;
      default:
        break;
    }
  }
  if (!character_map.empty())
    return fail(ErrorCode::unsupported, "tokenizer.model: normalizer ", in_quotes(name),
                " rewrites characters; only identity is run");
  return {};
}

Status check_pieces(const SentencepieceModel& model) {
  if (model.pieces.empty()) return broken("pieces", "there are none");
  std::unordered_set<std::string_view> seen;
  seen.reserve(model.pieces.size());
  int unknowns = 0;
  std::size_t byte_count = 0;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencepieceModel::Piece& piece = model.pieces[i];
    const auto bad = [&](std::string_view why) {
      return fail(ErrorCode::malformed, "tokenizer.model: piece ", i, " ", in_quotes(piece.text),
                  ": ", why);
    };
    if (piece.text.empty()) return bad("is empty");
    if (piece.text.size() > kMaxPieceBytes) return bad("is longer than 1,024 bytes");
    if (piece.text.find('\0') != std::string::npos) return bad("has a zero byte");
    if (first_invalid_utf8(piece.text) != std::string_view::npos) return bad("is not UTF-8");
    if (!seen.insert(piece.text).second) return bad("is there twice");
    if (!std::isfinite(piece.score)) return bad("its score is not a finite number");
    if (piece.kind == TokenKind::unknown && ++unknowns > 1) return bad("is a second unknown token");
    // The library looks single characters up among control pieces too: a user could type such a token.
    if (piece.kind == TokenKind::control && utf8_step(piece.text).length == piece.text.size())
      return bad("is a control token of one character");
    if (piece.kind == TokenKind::user_defined && piece.text.size() > kMaxUserBytes)
      return bad("is user-defined and longer than 64 bytes");
    if (piece.kind == TokenKind::byte) {
      if (!model.byte_fallback) return bad("is a byte, but the model says it has no byte fallback");
      constexpr std::string_view kHex = "0123456789ABCDEF";
      const std::string& t = piece.text;
      const bool shaped = t.size() == 6 && t.starts_with("<0x") && t[5] == '>';
      const std::size_t high = shaped ? kHex.find(t[3]) : std::string_view::npos;
      const std::size_t low = shaped ? kHex.find(t[4]) : std::string_view::npos;
      if (high == std::string_view::npos || low == std::string_view::npos)
        return bad("is a byte, expected <0x00> to <0xFF>");
      ++byte_count;
    }
  }
  if (unknowns == 0) return broken("pieces", "none is the unknown token");
  if (model.byte_fallback && byte_count != 256)
    return broken("pieces", "byte fallback needs all 256 bytes");
  return {};
}

// Writing: the same wire format.
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80U));
  out.push_back(static_cast<char>(value));
}
void put_number(std::string& out, std::uint32_t field, std::uint64_t value) {
  put_varint(out, field << 3);
  put_varint(out, value);
}
void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

}  // namespace

Result<SentencepieceModel> SentencepieceModel::parse(std::string_view bytes) {
  constexpr const char* kWhere = "model";
  SentencepieceModel model;
  std::string_view trainer;
  std::string_view normalizer;
  FieldReader reader(bytes, kWhere);
  while (!reader.done()) {
    RUNNEL_TRY(const Field field, reader.next());
    if (field.number < 1 || field.number > 5)
      continue;  // extensions, which the library ignores too
    RUNNEL_CHECK_OK(expect_wire(field, 2, kWhere));
    if (field.number == 1) {
      if (model.pieces.size() >= TokenTable::kMaxEntries) return broken("pieces", "too many");
      RUNNEL_CHECK_OK(read_piece(field.bytes, model.pieces.emplace_back()));
    } else if (field.number == 2) {
      if (!trainer.empty()) return broken(kWhere, "two trainer_spec");
      trainer = field.bytes;
    } else if (field.number == 3) {
      if (!normalizer.empty()) return broken(kWhere, "two normalizer_spec");
      normalizer = field.bytes;
    } else if (field.number == 5) {
      FieldReader inner(field.bytes, "denormalizer_spec");
      while (!inner.done()) {
        RUNNEL_TRY(const Field part, inner.next());
        if (part.number == 2 && !part.bytes.empty())
          return fail(ErrorCode::unsupported,
                      "tokenizer.model: denormalizer_spec rewrites characters, which is not run");
      }
    }
  }
  RUNNEL_CHECK_OK(read_trainer(trainer, model));
  RUNNEL_CHECK_OK(read_normalizer(normalizer, model));
  RUNNEL_CHECK_OK(check_pieces(model));
  return model;
}

std::string SentencepieceModel::serialize() const {
  std::string out;
  std::string inner;
  for (const Piece& piece : pieces) {
    inner.clear();
    put_bytes(inner, 1, piece.text);
    put_varint(inner, 2U << 3 | 5);
    const auto score = std::bit_cast<std::uint32_t>(piece.score);
    for (int shift = 0; shift < 32; shift += 8)
      inner.push_back(static_cast<char>(score >> shift & 0xFFU));
    put_number(inner, 3, static_cast<std::uint64_t>(piece.kind));
    put_bytes(out, 1, inner);
  }
  const auto id = [](std::int32_t value) {
    // Protobuf's int32 on the wire.
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  };
  inner.clear();
  put_number(inner, 3, 2);  // byte-pair encoding
  put_number(inner, 24, whitespace_is_suffix ? 1 : 0);
  put_number(inner, 35, byte_fallback ? 1 : 0);
  put_number(inner, 40, id(unknown_id));
  put_number(inner, 41, id(begin_id));
  put_number(inner, 42, id(end_id));
  put_number(inner, 43, id(padding_id));
  put_bytes(inner, 44, unknown_surface);
  put_bytes(out, 2, inner);
  inner.clear();
  put_bytes(inner, 1, "identity");
  put_number(inner, 3, add_dummy_prefix ? 1 : 0);
  put_number(inner, 4, remove_extra_whitespaces ? 1 : 0);
  put_number(inner, 5, escape_whitespaces ? 1 : 0);
  put_bytes(out, 3, inner);
  return out;
}

}  // namespace runnel
