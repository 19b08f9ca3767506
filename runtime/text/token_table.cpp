// SPDX-License-Identifier: Apache-2.0
// Reading and checking the tokenizer keys that both kinds of tokenizer share.
#include "runtime/text/token_table.h"

#include <algorithm>
#include <array>

#include "runtime/base/try.h"
#include "runtime/text/utf8.h"

namespace runnel {

void TokenTable::reserve(std::size_t entries, std::size_t bytes) {
  offsets_.reserve(entries + 1);
  kinds_.reserve(entries);
  bytes_.reserve(bytes);
}

void TokenTable::add(std::string_view bytes, TokenKind kind) {
  bytes_ += bytes;
  offsets_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  kinds_.push_back(kind);
  constexpr std::array<std::string_view, 5> kCallMarkers = {"<tool_call>", "</tool_call>",
                                                            "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"};
  const bool marks =
      kind == TokenKind::control && call_markers_.size() < kCallMarkers.size() &&
      std::find(kCallMarkers.begin(), kCallMarkers.end(), bytes) != kCallMarkers.end();
  if (marks) call_markers_.push_back(size() - 1);
}

bool TokenRoles::is_end(TokenId token) const {
  return std::binary_search(ends.begin(), ends.end(), token);
}

Result<TokenRoles> TokenRoles::read(const GgufFile& file, std::int32_t entries,
                                    bool add_begin_default) {
  const auto read_id = [&](const char* key) -> Result<TokenId> {
    if (file.find(key) == nullptr) return TokenId{-1};
    RUNNEL_TRY(const std::int64_t id, file.get_int(key));
    if (id == -1 || id == 0xFFFFFFFF) return TokenId{-1};  // both spellings of "none" are in use
    if (id < 0 || id >= entries)
      return fail(ErrorCode::malformed, key, ": is ", id, ", expected an id in [0, ", entries, ")");
    return static_cast<TokenId>(id);
  };
  TokenRoles roles;
  RUNNEL_TRY(roles.begin, read_id("tokenizer.ggml.bos_token_id"));
  RUNNEL_TRY(roles.unknown, read_id("tokenizer.ggml.unknown_token_id"));
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    RUNNEL_TRY(const TokenId id, read_id(key));
    if (id >= 0) roles.ends.push_back(id);
  }
  RUNNEL_TRY(roles.add_begin, file.get_bool("tokenizer.ggml.add_bos_token", add_begin_default));
  roles.sort_ends();
  return roles;
}

void TokenRoles::sort_ends() {
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

Result<const std::vector<std::string>*> read_token_texts(const GgufFile& file,
                                                         std::int32_t vocab_size) {
  constexpr const char* kKey = "tokenizer.ggml.tokens";
  RUNNEL_TRY(const std::vector<std::string>* texts, file.get_array<std::string>(kKey));
  if (texts == nullptr) return fail(ErrorCode::malformed, kKey, ": is missing");
  if (texts->empty()) return fail(ErrorCode::malformed, kKey, ": is empty");
  if (vocab_size < 1 || texts->size() > static_cast<std::size_t>(vocab_size))
    return fail(ErrorCode::mismatch, kKey, ": has ", texts->size(),
                " entries, expected at most the embedding's ", vocab_size, " rows");
  if (texts->size() > TokenTable::kMaxEntries)
    return fail(ErrorCode::unsupported, kKey, ": has ", texts->size(), " entries, at most ",
                TokenTable::kMaxEntries, " are read");
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < texts->size(); ++i) {
    const std::string& text = (*texts)[i];
    bytes += text.size();
    if (text.empty()) return fail(ErrorCode::malformed, kKey, "[", i, "]: is empty");
    if (first_invalid_utf8(text) != std::string_view::npos)
      return fail(ErrorCode::malformed, kKey, "[", i, "]: is not UTF-8");
  }
  if (bytes > TokenTable::kMaxTextBytes)
    return fail(ErrorCode::unsupported, kKey, ": has ", bytes, " bytes of text, at most ",
                TokenTable::kMaxTextBytes, " are read");
  return texts;
}

TokenKind kind_in_chats(std::string_view text, TokenKind kind) {
  const bool is_text = kind == TokenKind::normal || kind == TokenKind::user_defined;
  const bool marks = text == "<|im_start|>" || text == "<|im_end|>" || text == "<|endoftext|>";
  return is_text && marks ? TokenKind::control : kind;
}

Result<std::vector<TokenKind>> read_token_kinds(const GgufFile& file,
                                                const std::vector<std::string>& texts,
                                                TokenRoles& roles) {
  constexpr const char* kKey = "tokenizer.ggml.token_type";
  std::vector<TokenKind> kinds(texts.size(), TokenKind::normal);
  RUNNEL_TRY(const std::vector<std::int32_t>* types, file.get_array<std::int32_t>(kKey));
  if (types != nullptr) {
    if (types->size() != texts.size())
      return fail(ErrorCode::malformed, kKey, ": has ", types->size(), " entries, expected ",
                  texts.size(), ", one a token");
    for (std::size_t i = 0; i < types->size(); ++i) {
      const std::int32_t type = (*types)[i];
      if (type < 1 || type > 6)
        return fail(ErrorCode::malformed, kKey, "[", i, "]: is ", type, ", expected 1 to 6");
      kinds[i] = static_cast<TokenKind>(type);
    }
  }
  for (std::size_t i = 0; i < texts.size(); ++i) kinds[i] = kind_in_chats(texts[i], kinds[i]);
  // An end token that is plain text by its kind could be typed by a user; without kinds only the roles tell.
  const auto force = [&](TokenId id) {
    if (id < 0) return;
    TokenKind& kind = kinds[static_cast<std::size_t>(id)];
    if (kind == TokenKind::user_defined || (types == nullptr && kind == TokenKind::normal))
      kind = TokenKind::control;
  };
  force(roles.begin);
  for (const TokenId id : roles.ends) force(id);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (kinds[i] == TokenKind::control && (texts[i] == "<|im_end|>" || texts[i] == "<|endoftext|>"))
      roles.ends.push_back(static_cast<TokenId>(i));
  }
  roles.sort_ends();
  return kinds;
}

Status SpecialMatcher::add(std::string_view text, TokenId token) {
  if (text.empty() || text.size() > kMaxLength)
    return fail(ErrorCode::malformed, "special token ", token, ": its text has ", text.size(),
                " bytes, expected 1 to ", kMaxLength);
  entries_.push_back({std::string(text), token});
  starts_[static_cast<std::uint8_t>(text[0])] = true;
  return {};
}

void SpecialMatcher::freeze() {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.text < b.text; });
}

SpecialMatcher::Match SpecialMatcher::longest_at(std::string_view text, std::size_t offset) const {
  // Narrows the sorted range byte by byte: texts in [low, high) agree with the input so far.
  Match best;
  auto low = entries_.begin();
  auto high = entries_.end();
  for (std::size_t n = 0; offset + n < text.size() && low != high; ++n) {
    const auto byte = static_cast<std::uint8_t>(text[offset + n]);
    low = std::partition_point(low, high, [&](const Entry& e) {
      return e.text.size() <= n || static_cast<std::uint8_t>(e.text[n]) < byte;
    });
    high = std::partition_point(
        low, high, [&](const Entry& e) { return static_cast<std::uint8_t>(e.text[n]) == byte; });
    if (low != high && low->text.size() == n + 1) best = {offset, n + 1, low->token};
  }
  return best;
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, std::size_t from) const {
  if (entries_.empty()) return {};
  for (std::size_t i = from; i < text.size(); ++i) {
    if (!starts_[static_cast<std::uint8_t>(text[i])]) continue;
    if (const Match match = longest_at(text, i); match.token >= 0) return match;
  }
  return {};
}

SpecialMatcher::Match SpecialMatcher::find_outside(std::string_view text, std::size_t from,
                                                   std::span<const ByteRange> plain) const {
  if (entries_.empty()) return {};
  auto range = plain.begin();
  for (std::size_t i = from; i < text.size(); ++i) {
    while (range != plain.end() && range->end <= i) ++range;
    if (range != plain.end() && range->begin <= i) {
      i = range->end - 1;
      continue;
    }
    if (!starts_[static_cast<std::uint8_t>(text[i])]) continue;
    const Match match = longest_at(text, i);
    const bool whole = range == plain.end() || i + match.length <= range->begin;
    if (match.token >= 0 && whole) return match;
  }
  return {};
}

TokenId SpecialMatcher::exact(std::string_view text) const {
  const auto at = std::partition_point(entries_.begin(), entries_.end(),
                                       [&](const Entry& e) { return e.text < text; });
  return at != entries_.end() && at->text == text ? at->token : -1;
}

}  // namespace runnel
