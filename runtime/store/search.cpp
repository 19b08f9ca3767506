// SPDX-License-Identifier: Apache-2.0
// Search over all messages: by words through the index, else by letters.
#include <algorithm>
#include <cctype>

#include "runtime/base/try.h"
#include "runtime/store/store_impl.h"

namespace runnel {
namespace {

constexpr std::size_t kExcerptBytes = 60;  // on either side of a match found by letters

// Words in quotes, which the index reads as words and never as operators; the last may go on.
std::string to_match(std::string_view query) {
  std::string match;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) match += (match.empty() ? "\"" : " \"") + word + '"';
    word.clear();
  };
  for (const char c : query) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || std::isalnum(byte) != 0) {
      word += c;
    } else {
      end_word();
    }
  }
  const bool unfinished = !word.empty();
  end_word();
  return unfinished ? match + '*' : match;
}

bool inside_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::string excerpt_of(const std::string& text, std::size_t at, std::size_t length) {
  std::size_t begin = at > kExcerptBytes ? at - kExcerptBytes : 0;
  std::size_t end = std::min(text.size(), at + length + kExcerptBytes);
  while (begin > 0 && inside_character(text[begin])) --begin;
  while (end < text.size() && inside_character(text[end])) ++end;
  return (begin > 0 ? "…" : "") + text.substr(begin, at - begin) + "«" + text.substr(at, length) +
         "»" + text.substr(at + length, end - at - length) + (end < text.size() ? "…" : "");
}

}  // namespace

Result<std::vector<SearchHit>> ConversationStore::search(std::string_view query, int limit) const {
  const std::scoped_lock lock(impl_->mutex);
  std::vector<SearchHit> hits;
  if (query.find_first_not_of(" \t\n") == std::string_view::npos || limit <= 0) return hits;
  const std::string match = to_match(query);
  if (!match.empty()) {
    RUNNEL_TRY(Statement rows,
               impl_->database.prepare("SELECT m.conversation, m.id, c.name, m.role, "
                                       "snippet(words, 0, '«', '»', '…', 16) FROM words "
                                       "JOIN messages m ON m.id = words.rowid "
                                       "JOIN conversations c ON c.id = m.conversation "
                                       "WHERE words MATCH ?1 AND m.trash = 0 AND c.trash = 0 "
                                       "ORDER BY rank, m.id DESC LIMIT ?2"));
    rows.bind(match, limit);
    for (;;) {
      RUNNEL_TRY(const bool row, rows.step());
      if (!row) break;
      hits.push_back({.conversation = rows.integer(0),
                      .message = rows.integer(1),
                      .name = rows.text(2),
                      .role = rows.text(3),
                      .excerpt = rows.text(4)});
    }
    if (!hits.empty()) return hits;
  }
  // Scripts without spaces, parts of words, punctuation.
  RUNNEL_TRY(Statement rows, impl_->database.prepare(
                                 "SELECT m.conversation, m.id, c.name, m.role, m.text, "
                                 "instr(CAST(m.text AS BLOB), CAST(?1 AS BLOB)) AS at "
                                 "FROM messages m JOIN conversations c ON c.id = m.conversation "
                                 "WHERE at > 0 AND m.trash = 0 AND c.trash = 0 "
                                 "ORDER BY m.id DESC LIMIT ?2"));
  rows.bind(query, limit);
  for (;;) {
    RUNNEL_TRY(const bool row, rows.step());
    if (!row) return hits;
    const std::string text = rows.text(4);
    hits.push_back(
        {.conversation = rows.integer(0),
         .message = rows.integer(1),
         .name = rows.text(2),
         .role = rows.text(3),
         .excerpt = excerpt_of(text, static_cast<std::size_t>(rows.integer(5)) - 1, query.size())});
  }
}

}  // namespace runnel
