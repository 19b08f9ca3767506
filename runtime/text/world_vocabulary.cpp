// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/world_vocabulary.h"

#include <zstd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/base/file_map.h"
#include "runtime/base/number.h"
#include "runtime/base/try.h"
#include "runtime/text/token_table.h"
#include "runtime/text/utf8.h"
#include "runtime/text/world_tokenizer.h"

namespace runnel {

// In a file that CMake makes of world_vocabulary.zst.
extern const unsigned char kPackedWorldVocabulary[];
extern const std::size_t kPackedWorldVocabularySize;

namespace {

constexpr std::size_t kUnpackedBytes = 438'887;  // a length and the bytes of every token
// The largest list that is read; the published one has 1.2 MB.
constexpr std::size_t kListBytes = 1U << 26;
constexpr char kBlankLine[] = "\n\n";

/// The bytes of a Python literal, '…' or b'…' with either quote.
std::optional<std::string> read_literal(std::string_view literal) {
  const bool bytes = literal.starts_with('b');
  if (bytes) literal.remove_prefix(1);
  if (literal.size() < 2 || (literal[0] != '\'' && literal[0] != '"') ||
      literal.back() != literal[0])
    return {};
  literal = literal.substr(1, literal.size() - 2);
  std::string out;
  while (!literal.empty()) {
    if (literal[0] != '\\') {
      out += literal[0];
      literal.remove_prefix(1);
      continue;
    }
    const char kind = literal.size() > 1 ? literal[1] : '\0';
    const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (kind == '\0' || literal.size() < 2 + digits || (bytes && digits > 2)) return {};
    const std::string_view escape = literal.substr(0, 2 + digits);
    literal.remove_prefix(escape.size());
    if (digits > 0 && !bytes) {
      if (!append_utf8_of_digits(out, escape.substr(2))) return {};
      continue;
    }
    const Result<std::string> plain = unescape_world_token(escape);
    if (!plain) return {};
    out += *plain;
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> world_vocabulary() {
  std::string packed(kUnpackedBytes, '\0');
  const std::size_t size = ZSTD_decompress(packed.data(), packed.size(), kPackedWorldVocabulary,
                                           kPackedWorldVocabularySize);
  if (size != packed.size())
    return fail(ErrorCode::internal, "the program's World vocabulary is damaged");
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at < packed.size();) {
    const auto length = static_cast<std::uint8_t>(packed[at]);
    tokens.push_back(packed.substr(at + 1, length));
    at += 1 + std::size_t{length};
  }
  return tokens;
}

Result<std::vector<std::string>> parse_world_vocabulary(std::string_view list) {
  std::vector<std::string> tokens;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find('\n'), list.size());
    std::string_view line = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t first = line.find(' ');
    const std::size_t last = line.rfind(' ');
    std::optional<std::string> token;
    if (first != line.npos && first < last &&
        number_in<std::size_t>(line.substr(0, first)) == tokens.size() + 1) {
      token = read_literal(line.substr(first + 1, last - first - 1));
      if (token && number_in<std::size_t>(line.substr(last + 1)) != token->size()) token.reset();
    }
    if (!token || token->empty())
      return fail(ErrorCode::malformed, "line ", tokens.size() + 1,
                  ": expected this number, a Python literal and its bytes");
    if (tokens.size() >= TokenTable::kMaxEntries)
      return fail(ErrorCode::unsupported, "more than ", TokenTable::kMaxEntries, " lines");
    tokens.push_back(*std::move(token));
  }
  return tokens;
}

Result<std::vector<std::string>> read_world_vocabulary(const std::filesystem::path& path) {
  RUNNEL_TRY(const FileMap file, FileMap::open(path));
  const std::string name = path.filename().string();
  if (file.bytes().size() > kListBytes)
    return fail(ErrorCode::malformed, name, ": has ", file.bytes().size(),
                " bytes, expected at most ", kListBytes);
  Result<std::vector<std::string>> tokens = parse_world_vocabulary(
      {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  if (!tokens) return fail(tokens.error().code, name, ": ", tokens.error().message);
  return tokens;
}

Status world_to_gguf(const std::vector<std::string>& tokens, std::int32_t vocab_size,
                     const std::function<void(std::string, GgufValue)>& set) {
  if (vocab_size < 1 || tokens.size() + 1 > static_cast<std::size_t>(vocab_size))
    return fail(ErrorCode::mismatch, "the World vocabulary has ", tokens.size() + 1,
                " tokens, expected at most the embedding's ", vocab_size, " rows");
  const auto rows = static_cast<std::size_t>(vocab_size);
  std::vector<std::string> texts{"<s>"};
  std::vector<std::int32_t> kinds(rows, static_cast<std::int32_t>(TokenKind::normal));
  kinds[0] = static_cast<std::int32_t>(TokenKind::control);
  for (const std::string& token : tokens) texts.push_back(escape_world_token(token));
  while (texts.size() < rows) {
    kinds[texts.size()] = static_cast<std::int32_t>(TokenKind::unused);
    texts.push_back("[PAD" + std::to_string(texts.size()) + "]");
  }
  set("tokenizer.ggml.model", std::string("rwkv"));
  set("tokenizer.ggml.tokens", GgufArray(std::move(texts)));
  set("tokenizer.ggml.token_type", GgufArray(std::move(kinds)));
  set("tokenizer.ggml.bos_token_id", std::uint32_t{0});
  set("tokenizer.ggml.eos_token_id", std::uint32_t{0});
  // Other programs end a turn there; this library does not, see WorldTokenizer.
  const auto blank = std::find(tokens.begin(), tokens.end(), kBlankLine);
  if (blank != tokens.end()) {
    set("tokenizer.ggml.eot_token_id", static_cast<std::uint32_t>(blank - tokens.begin() + 1));
  }
  return {};
}

}  // namespace runnel
