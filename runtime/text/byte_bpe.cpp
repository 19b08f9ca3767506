// SPDX-License-Identifier: Apache-2.0
// Loads a byte-level BPE vocabulary and splits text at its special tokens.
#include "runtime/text/byte_bpe.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/bpe_merger.h"
#include "runtime/text/byte_alphabet.h"
#include "runtime/text/nfc.h"
#include "runtime/text/utf8.h"

namespace runnel {

namespace {
constexpr const char* kMergesKey = "tokenizer.ggml.merges";
}

Result<std::shared_ptr<const Tokenizer>> ByteBpe::from_gguf(const GgufFile& file,
                                                            std::int32_t vocab_size) {
  RUNNEL_TRY(const std::string pre, file.get_string("tokenizer.ggml.pre", "gpt-2"));
  RUNNEL_TRY(const std::vector<std::string>* texts, read_token_texts(file, vocab_size));
  const auto entries = static_cast<std::int32_t>(texts->size());
  RUNNEL_TRY(TokenRoles roles, TokenRoles::read(file, entries, false));
  RUNNEL_TRY(const std::vector<TokenKind> kinds, read_token_kinds(file, *texts, roles));
  RUNNEL_TRY(const std::vector<std::string>* merges, file.get_array<std::string>(kMergesKey));
  if (merges == nullptr) return fail(ErrorCode::malformed, kMergesKey, ": is missing");
  RUNNEL_TRY(std::shared_ptr<const ByteBpe> bpe,
             create(pre, *texts, kinds, *merges, std::move(roles)));
  return std::shared_ptr<const Tokenizer>(std::move(bpe));
}

Result<std::shared_ptr<const ByteBpe>> ByteBpe::create(std::string_view pre_tokenizer,
                                                       const std::vector<std::string>& texts,
                                                       const std::vector<TokenKind>& kinds,
                                                       const std::vector<std::string>& merges,
                                                       TokenRoles roles) {
  RUNNEL_TRY(PreTokenizer cutter, PreTokenizer::create(pre_tokenizer));
  StringIndex index(texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const StringIndex::Added added = index.add(i);
    if (added == StringIndex::Added::duplicate)
      return fail(ErrorCode::malformed, "tokenizer.ggml.tokens[", i, "]: ", in_quotes(texts[i]),
                  " is there twice");
    if (added == StringIndex::Added::degenerate)
      return fail(ErrorCode::malformed, "tokenizer.ggml.tokens: texts collide by design");
  }
  std::shared_ptr<ByteBpe> bpe(new ByteBpe(std::move(cutter)));
  bpe->roles_ = std::move(roles);
  RUNNEL_CHECK_OK(bpe->add_tokens(texts, kinds));
  RUNNEL_CHECK_OK(bpe->add_merges(merges, texts, index));
  return std::shared_ptr<const ByteBpe>(std::move(bpe));
}

bool ByteBpe::spells_all_bytes() const {
  return std::find(byte_tokens_.begin(), byte_tokens_.end(), -1) == byte_tokens_.end();
}

Status ByteBpe::add_tokens(const std::vector<std::string>& texts,
                           const std::vector<TokenKind>& kinds) {
  const ByteAlphabet alphabet;
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  table_.reserve(texts.size(), bytes);
  byte_tokens_.fill(-1);
  std::string raw;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    raw.clear();
    switch (kinds[i]) {
      case TokenKind::control:
        RUNNEL_CHECK_OK(specials_.add(texts[i], token));
        RUNNEL_CHECK_OK(always_special_.add(texts[i], token));
        raw = texts[i];
        break;
      case TokenKind::user_defined:
        RUNNEL_CHECK_OK(always_.add(texts[i], token));
        RUNNEL_CHECK_OK(always_special_.add(texts[i], token));
        raw = texts[i];
        break;
      case TokenKind::unused:
        raw = texts[i];
        break;
      default:
        // A character outside the alphabet makes the text stand for itself, as in the decoders of this family.
        if (!alphabet.read(texts[i], raw))
          raw = texts[i];
        else if (raw.size() == 1)
          byte_tokens_[static_cast<std::uint8_t>(raw[0])] = token;
    }
    table_.add(raw, kinds[i]);
  }
  specials_.freeze();
  always_.freeze();
  always_special_.freeze();
  return {};
}

Status ByteBpe::add_merges(const std::vector<std::string>& merges,
                           const std::vector<std::string>& texts, const StringIndex& index) {
  if (merges.size() > 2 * TokenTable::kMaxEntries)
    return fail(ErrorCode::unsupported, kMergesKey, ": has ", merges.size(), " entries, at most ",
                2 * TokenTable::kMaxEntries, " are read");
  merges_ = MergeTable(merges.size());
  const ByteAlphabet alphabet;
  std::string joined;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& merge = merges[rank];
    const auto broken = [&](const auto&... why) {
      return fail(ErrorCode::malformed, kMergesKey, "[", rank, "] ", in_quotes(merge), ": ",
                  why...);
    };
    const std::size_t space = merge.find(' ');
    if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos)
      return broken("expected two tokens and one space between them");
    const std::string_view left_text = std::string_view(merge).substr(0, space);
    const std::string_view right_text = std::string_view(merge).substr(space + 1);
    joined.assign(left_text);
    joined += right_text;
    const TokenId left = index.find(left_text);
    const TokenId right = index.find(right_text);
    TokenId whole = index.find(joined);
    if (left < 0) return broken("its left side is not a token");
    if (right < 0) return broken("its right side is not a token");
    if (whole < 0) {
      whole = table_.size() + static_cast<TokenId>(unlisted_.size());
      alphabet.read(joined, unlisted_.emplace_back());
    }
    for (const TokenId part : {left, right, whole}) {
      // Otherwise plain text could become a token that ends a message.
      if (table_.contains(part) && table_.is_hidden(part))
        return broken(in_quotes(texts[static_cast<std::size_t>(part)]),
                      " is a special token, which text may not merge to");
    }
    switch (merges_.add(left, right, {static_cast<std::uint32_t>(rank), whole})) {
      case MergeTable::Added::yes:
        break;
      case MergeTable::Added::duplicate:
        return broken("is there twice");
      case MergeTable::Added::degenerate:
        return broken("pairs collide by design");
    }
  }
  return {};
}

/// State of one encode() call.
class ByteBpe::Encoder {
 public:
  Encoder(const ByteBpe& bpe, PreTokenizer::Cutter& cutter, std::size_t text_bytes)
      : bpe_(bpe), cutter_(cutter), merger_(bpe.merges_), words_(text_bytes) {
    tokens.reserve(text_bytes / 4 + 4);
  }

  /// Appends the tokens of text without special tokens.
  Status add(std::string_view text) {
    // Words are remembered by their text, which therefore stays.
    if (bpe_.pre_tokenizer_.wants_nfc()) text = normalise_nfc(text, normalised_.emplace_back());
    cutter_.start(text);
    while (true) {
      RUNNEL_TRY(const std::string_view word, cutter_.next());
      if (word.empty()) return {};
      add_word(word);
    }
  }

  std::vector<TokenId> tokens;

 private:
  void add_word(std::string_view word) {
    if (word.size() == 1) {
      const TokenId token = byte_token(word[0]);
      if (token >= 0) tokens.push_back(token);
      return;
    }
    WordCache::Entry* known = words_.entry(word);
    if (known != nullptr && known->word == word) {
      for (std::uint32_t i = 0; i < known->count; ++i) tokens.push_back(tokens[known->first + i]);
      return;
    }
    const std::size_t first = tokens.size();
    // A byte without a token is left out before merging, so its neighbours may merge: as in the original.
    for (const char byte : word) {
      if (const TokenId token = byte_token(byte); token >= 0) tokens.push_back(token);
    }
    merger_.merge(tokens, first);
    if (!bpe_.unlisted_.empty()) spell_unlisted(first);
    if (known != nullptr) *known = {word, first, static_cast<std::uint32_t>(tokens.size() - first)};
  }

  /// Puts their bytes in the place of what merged into no token.
  void spell_unlisted(std::size_t first) {
    const TokenId listed = bpe_.table_.size();
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(first);
    if (std::none_of(begin, tokens.end(), [&](TokenId id) { return id >= listed; })) return;
    const std::vector<TokenId> merged(begin, tokens.end());
    tokens.resize(first);
    for (const TokenId id : merged) {
      if (id < listed) {
        tokens.push_back(id);
        continue;
      }
      for (const char byte : bpe_.unlisted_[static_cast<std::size_t>(id - listed)]) {
        if (const TokenId token = byte_token(byte); token >= 0) tokens.push_back(token);
      }
    }
  }

  TokenId byte_token(char byte) const { return bpe_.byte_tokens_[static_cast<std::uint8_t>(byte)]; }

  const ByteBpe& bpe_;
  PreTokenizer::Cutter& cutter_;
  BpeMerger merger_;
  WordCache words_;
  std::deque<std::string> normalised_;
};

Result<std::vector<TokenId>> ByteBpe::encode_marked(std::string_view text,
                                                    std::span<const ByteRange> plain) const {
  if (text.size() > max_text())
    return fail(ErrorCode::invalid_argument, "encode: the text has ", text.size(),
                " bytes, expected at most ", max_text());
  if (const std::size_t at = first_invalid_utf8(text); at != std::string_view::npos)
    return fail(ErrorCode::malformed, "encode: the text is not UTF-8 at byte ", at);
  RUNNEL_TRY(const std::unique_ptr<PreTokenizer::Cutter> cutter, pre_tokenizer_.cutter());
  Encoder encoder(*this, *cutter, text.size());
  std::size_t at = 0;
  SpecialMatcher::Match special = always_special_.find_outside(text, 0, plain);
  SpecialMatcher::Match always = always_.find(text, 0);
  while (at < text.size()) {
    if (special.token >= 0 && special.offset < at)
      special = always_special_.find_outside(text, at, plain);
    if (always.token >= 0 && always.offset < at) always = always_.find(text, at);
    const bool first = special.token >= 0 && (always.token < 0 || special.offset <= always.offset);
    const SpecialMatcher::Match& match = first ? special : always;
    if (match.token < 0) {
      RUNNEL_CHECK_OK(encoder.add(text.substr(at)));
      break;
    }
    RUNNEL_CHECK_OK(encoder.add(text.substr(at, match.offset - at)));
    encoder.tokens.push_back(match.token);
    at = match.offset + match.length;
  }
  return std::move(encoder.tokens);
}

std::string_view ByteBpe::piece(TokenId token, bool /*first*/, bool show_special) const {
  if (!table_.contains(token) || (table_.is_silent(token) && !show_special)) return {};
  return table_.bytes(token);
}

}  // namespace runnel
