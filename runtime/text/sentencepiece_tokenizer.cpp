// SPDX-License-Identifier: Apache-2.0
// The only file that uses libsentencepiece. It must also stay the only part of the process that uses protobuf:
// Debian's libsentencepiece carries a copy of protobuf-lite that collides with the real one.
#include "runtime/text/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/sentencepiece_proto.h"
#include "runtime/text/utf8.h"

namespace runnel {

namespace {

constexpr const char* kBytesKey = "gsa.tokenizer.sentencepiece";
constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581 spells a space
// The library keeps about 100 bytes for each byte of text, and offsets in int.
constexpr std::size_t kMaxText = std::size_t{1} << 26;

Result<std::string_view> model_bytes(const GgufFile& file) {
  RUNNEL_TRY(const std::vector<std::uint8_t>* bytes, file.get_array<std::uint8_t>(kBytesKey));
  if (bytes == nullptr)
    return fail(ErrorCode::unsupported, kBytesKey,
                ": is missing; a sentencepiece tokenizer is read from the bytes of its "
                "tokenizer.model, convert the model again");
  return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

std::string with_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text.starts_with(kSpace)) {
      out.push_back(' ');
      text.remove_prefix(kSpace.size());
    } else {
      out.push_back(text[0]);
      text.remove_prefix(1);
    }
  }
  return out;
}

std::string bytes_of(const SentencepieceModel::Piece& piece, const SentencepieceModel& model) {
  switch (piece.kind) {
    case TokenKind::byte:
      return {static_cast<char>(std::stoi(piece.text.substr(3, 2), nullptr, 16))};
    case TokenKind::unknown:
      return model.unknown_surface;
    case TokenKind::control:
      return piece.text;
    default:
      return with_spaces(piece.text);
  }
}

Status check_same(const std::vector<std::string>& texts, const SentencepieceModel& model) {
  if (texts.size() != model.pieces.size())
    return fail(ErrorCode::malformed, "tokenizer.ggml.tokens: has ", texts.size(),
                " entries, but the sentencepiece model has ", model.pieces.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] != model.pieces[i].text)
      return fail(ErrorCode::malformed, "tokenizer.ggml.tokens[", i, "]: is ", in_quotes(texts[i]),
                  ", but the sentencepiece model has ", in_quotes(model.pieces[i].text));
  }
  return {};
}

}  // namespace

SentencepieceTokenizer::SentencepieceTokenizer() = default;
SentencepieceTokenizer::~SentencepieceTokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> SentencepieceTokenizer::from_gguf(
    const GgufFile& file, std::int32_t vocab_size) {
  RUNNEL_TRY(const std::string_view bytes, model_bytes(file));
  RUNNEL_TRY(const SentencepieceModel model, SentencepieceModel::parse(bytes));
  RUNNEL_TRY(const std::vector<std::string>* texts, read_token_texts(file, vocab_size));
  RUNNEL_CHECK_OK(check_same(*texts, model));
  const auto entries = static_cast<std::int32_t>(texts->size());

  std::shared_ptr<SentencepieceTokenizer> tokenizer(new SentencepieceTokenizer);
  RUNNEL_TRY(tokenizer->roles_, TokenRoles::read(file, entries, true));
  tokenizer->drops_first_space_ = model.add_dummy_prefix || model.remove_extra_whitespaces;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencepieceModel::Piece& piece = model.pieces[i];
    tokenizer->table_.add(bytes_of(piece, model), piece.kind);
    if (piece.kind == TokenKind::control)
      RUNNEL_CHECK_OK(tokenizer->specials_.add(piece.text, static_cast<TokenId>(i)));
  }
  tokenizer->specials_.freeze();

  try {
    tokenizer->processor_ = std::make_unique<sentencepiece::SentencePieceProcessor>();
    const auto status = tokenizer->processor_->LoadFromSerializedProto(model.serialize());
    if (!status.ok())
      return fail(ErrorCode::malformed, kBytesKey, ": ", printable(status.message()));
  } catch (const std::exception& error) {
    return fail(ErrorCode::malformed, kBytesKey, ": ", printable(error.what()));
  }
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

Result<std::vector<TokenId>> SentencepieceTokenizer::encode_marked(
    std::string_view text, std::span<const ByteRange> plain) const {
  if (text.size() > kMaxText)
    return fail(ErrorCode::invalid_argument, "encode: the text has ", text.size(),
                " bytes, expected at most ", kMaxText);
  if (const std::size_t at = first_invalid_utf8(text); at != std::string_view::npos)
    return fail(ErrorCode::malformed, "encode: the text is not UTF-8 at byte ", at);
  std::vector<TokenId> tokens;
  std::vector<int> ids;
  for (std::size_t at = 0; at < text.size();) {
    const SpecialMatcher::Match match = specials_.find_outside(text, at, plain);
    const std::size_t end = std::min(match.offset, text.size());
    if (end > at) {
      const auto status = processor_->Encode(text.substr(at, end - at), &ids);
      if (!status.ok())
        return fail(ErrorCode::internal, "encode: sentencepiece: ", std::string(status.message()));
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    }
    if (match.token < 0) break;
    tokens.push_back(match.token);
    at = match.offset + match.length;
  }
  return tokens;
}

std::string_view SentencepieceTokenizer::piece(TokenId token, bool first, bool show_special) const {
  if (!table_.contains(token) || (table_.is_silent(token) && !show_special)) return {};
  std::string_view bytes = table_.bytes(token);
  const TokenKind kind = table_.kind(token);
  const bool is_text = kind == TokenKind::normal || kind == TokenKind::user_defined;
  if (first && drops_first_space_ && is_text && bytes.starts_with(' ')) bytes.remove_prefix(1);
  return bytes;
}

}  // namespace runnel
