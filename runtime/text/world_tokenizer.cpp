// SPDX-License-Identifier: Apache-2.0
// A tree of all tokens in flat arrays, built level by level from the sorted vocabulary.
#include "runtime/text/world_tokenizer.h"

#include <algorithm>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {

namespace {

constexpr const char* kTokensKey = "tokenizer.ggml.tokens";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<std::string> unescape_world_token(std::string_view escaped) {
  std::string bytes;
  bytes.reserve(escaped.size());
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '\\') {
      bytes += escaped[i];
      continue;
    }
    if (++i == escaped.size())
      return fail(ErrorCode::malformed, "ends in a backslash, expected an escape");
    const char kind = escaped[i];
    if (kind == 'x') {
      const int high = i + 2 < escaped.size() ? hex_value(escaped[i + 1]) : -1;
      const int low = i + 2 < escaped.size() ? hex_value(escaped[i + 2]) : -1;
      if (high < 0 || low < 0)
        return fail(ErrorCode::malformed, "has \\x without two hexadecimal digits");
      bytes += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      bytes += kind == 't' ? '\t' : kind == 'n' ? '\n' : kind == 'r' ? '\r' : kind;
    }
  }
  return bytes;
}

std::string escape_world_token(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  // Python takes double quotes around what has a single one, unless it has both.
  const bool both = bytes.find('\'') != bytes.npos && bytes.find('"') != bytes.npos;
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (c == '\t' || c == '\n' || c == '\r') {
      out += '\\';
      out += c == '\t' ? 't' : c == '\n' ? 'n' : 'r';
    } else if (c == '\\' || (c == '\'' && both)) {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7F) {
      out += "\\x";
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    } else {
      out += c;
    }
  }
  return out;
}

Result<std::shared_ptr<const Tokenizer>> WorldTokenizer::from_gguf(const GgufFile& file,
                                                                   std::int32_t vocab_size) {
  RUNNEL_TRY(const std::vector<std::string>* texts, read_token_texts(file, vocab_size));
  TokenRoles roles;  // of the file's roles none is used
  RUNNEL_TRY(const std::vector<TokenKind> kinds, read_token_kinds(file, *texts, roles));
  std::shared_ptr<WorldTokenizer> world(new WorldTokenizer);
  std::size_t bytes = 0;
  for (const std::string& text : *texts) bytes += text.size();
  world->table_.reserve(texts->size(), bytes);
  for (std::size_t i = 0; i < texts->size(); ++i) {
    Result<std::string> token = unescape_world_token((*texts)[i]);
    if (!token)
      return fail(ErrorCode::malformed, kTokensKey, "[", i, "]: ", in_quotes((*texts)[i]), " ",
                  token.error().message);
    if (token->size() > kMaxTokenBytes)
      return fail(ErrorCode::unsupported, kTokensKey, "[", i, "]: has ", token->size(),
                  " bytes, at most ", kMaxTokenBytes, " are read");
    // Files without kinds have an ordinary token 0; it ends texts all the same, so none may spell it.
    const TokenKind kind = i == 0 ? TokenKind::control : kinds[i];
    if (kind == TokenKind::control)
      RUNNEL_CHECK_OK(world->specials_.add(*token, static_cast<TokenId>(i)));
    world->table_.add(*token, kind);
  }
  world->specials_.freeze();
  RUNNEL_CHECK_OK(world->build_tree());
  return std::shared_ptr<const Tokenizer>(std::move(world));
}

/// Sorted tokens [first, last) agree in their first `depth` bytes.
struct WorldTokenizer::Range {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t depth;
};

Status WorldTokenizer::build_tree() {
  std::vector<TokenId> sorted;
  for (TokenId id = 0; id < table_.size(); ++id) {
    if (!table_.is_hidden(id)) sorted.push_back(id);
  }
  std::sort(sorted.begin(), sorted.end(),
            [&](TokenId a, TokenId b) { return table_.bytes(a) < table_.bytes(b); });
  std::vector<Range> ranges{{0, static_cast<std::uint32_t>(sorted.size()), 0}};  // one per node
  nodes_.assign(1, {});
  labels_.assign(1, 0);
  for (std::size_t i = 0; i < nodes_.size(); ++i) RUNNEL_CHECK_OK(add_children(sorted, ranges, i));
  for (std::uint32_t i = 0; i < nodes_[0].children; ++i) {
    const std::uint32_t child = nodes_[0].first_child + i;
    roots_[labels_[child]] = child;
  }
  return {};
}

Status WorldTokenizer::add_children(const std::vector<TokenId>& sorted, std::vector<Range>& ranges,
                                    std::size_t index) {
  auto [first, last, depth] = ranges[index];
  if (first < last && table_.bytes(sorted[first]).size() == depth) {
    nodes_[index].token = sorted[first++];
    if (first < last && table_.bytes(sorted[first]).size() == depth)
      return fail(ErrorCode::malformed, kTokensKey, "[", sorted[first], "]: is the same as [",
                  nodes_[index].token, "]");
  }
  nodes_[index].first_child = static_cast<std::uint32_t>(nodes_.size());
  while (first < last) {
    const char byte = table_.bytes(sorted[first])[depth];
    std::uint32_t end = first + 1;
    while (end < last && table_.bytes(sorted[end])[depth] == byte) ++end;
    if (nodes_.size() >= kMaxNodes)
      return fail(ErrorCode::unsupported, kTokensKey, ": has more than ", kMaxNodes,
                  " different beginnings of tokens");
    nodes_.emplace_back();
    labels_.push_back(static_cast<std::uint8_t>(byte));
    ranges.push_back({first, end, depth + 1});
    ++nodes_[index].children;
    first = end;
  }
  return {};
}

void WorldTokenizer::encode_plain(std::string_view text, std::vector<TokenId>& tokens) const {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint32_t node = roots_[static_cast<std::uint8_t>(text[at])];
    TokenId longest = -1;
    std::size_t length = 1;  // a byte without a token is dropped
    for (std::size_t n = 1; node != 0; ++n) {
      if (nodes_[node].token >= 0) {
        longest = nodes_[node].token;
        length = n;
      }
      if (at + n == text.size()) break;
      const auto begin = labels_.begin() + nodes_[node].first_child;
      const auto end = begin + nodes_[node].children;
      const auto byte = static_cast<std::uint8_t>(text[at + n]);
      const auto found = std::lower_bound(begin, end, byte);
      node =
          found != end && *found == byte ? static_cast<std::uint32_t>(found - labels_.begin()) : 0;
    }
    if (longest >= 0) tokens.push_back(longest);
    at += length;
  }
}

Result<std::vector<TokenId>> WorldTokenizer::encode_marked(std::string_view text,
                                                           std::span<const ByteRange> plain) const {
  if (text.size() > max_text())
    return fail(ErrorCode::invalid_argument, "encode: the text has ", text.size(),
                " bytes, expected at most ", max_text());
  std::vector<TokenId> tokens;
  tokens.reserve(text.size() / 4 + 4);
  for (std::size_t at = 0; at < text.size();) {
    const SpecialMatcher::Match match = specials_.find_outside(text, at, plain);
    if (match.token < 0) {
      encode_plain(text.substr(at), tokens);
      break;
    }
    encode_plain(text.substr(at, match.offset - at), tokens);
    tokens.push_back(match.token);
    at = match.offset + match.length;
  }
  return tokens;
}

std::string_view WorldTokenizer::piece(TokenId token, bool /*first*/, bool show_special) const {
  if (!table_.contains(token) || (table_.is_silent(token) && !show_special)) return {};
  return table_.bytes(token);
}

}  // namespace runnel
