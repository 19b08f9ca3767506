// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/chat_words.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace runnel {
namespace {

// Base letters of U+00E0 to U+00FF; ' ' for what is no letter.
constexpr std::string_view kLatin1 = "aaaaaaaceeeeiiiidnooooo ouuuuyty";
// And of U+0100 to U+017F.
constexpr std::string_view kLatinExtended =
    "aaaaaaccccccccddddeeeeeeeeeegggggggghhhhiiiiiiiiiiiijjkkkllllllllllnnnnnnnnnoooooooo"
    "rrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzzs";
static_assert(kLatin1.size() == 32 && kLatinExtended.size() == 128);

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

// Lenient: what is no UTF-8 stands for itself, byte by byte.
Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t first = byte(at);
  const std::size_t bytes = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (bytes == 1 || at + bytes > text.size()) return {first, 1};
  std::uint32_t code = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xc0U) != 0x80U) return {first, 1};
    code = code << 6U | (byte(at + i) & 0x3fU);
  }
  return {code, bytes};
}

bool between(std::uint32_t code, std::uint32_t low, std::uint32_t high) {
  return code >= low && code <= high;
}

bool is_digit(std::uint32_t code) { return between(code, '0', '9'); }

bool is_accent(std::uint32_t code) { return between(code, 0x300, 0x36f); }

// A character of a script that puts no spaces between words.
bool is_ideograph(std::uint32_t code) {
  return between(code, 0x3040, 0x30ff) || between(code, 0x3400, 0x9fff) ||
         between(code, 0xac00, 0xd7af) || between(code, 0xf900, 0xfaff);
}

bool is_capital(std::uint32_t code) {
  return between(code, 'A', 'Z') || (between(code, 0xc0, 0xde) && code != 0xd7) ||
         between(code, 0x391, 0x3a9) || between(code, 0x400, 0x42f);
}

bool is_letter(std::uint32_t code) {
  if (code < 0x80) return between(code, 'a', 'z') || between(code, 'A', 'Z') || is_digit(code);
  if (code < 0xc0) return code == 0xaa || code == 0xb5 || code == 0xba;
  return code != 0xd7 && code != 0xf7 && !between(code, 0x2000, 0x2bff) &&
         !between(code, 0x3000, 0x303f) && !between(code, 0xff00, 0xff0f);
}

void append_code(std::uint32_t code, std::string& out) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0U | code >> 6U);
    put(0x80U | (code & 0x3fU));
  } else if (code < 0x10000) {
    put(0xe0U | code >> 12U);
    put(0x80U | (code >> 6U & 0x3fU));
    put(0x80U | (code & 0x3fU));
  } else {
    put(0xf0U | code >> 18U);
    put(0x80U | (code >> 12U & 0x3fU));
    put(0x80U | (code >> 6U & 0x3fU));
    put(0x80U | (code & 0x3fU));
  }
}

void append_folded(std::uint32_t code, std::string& out) {
  if (is_accent(code)) return;
  if (code == 0xdf || code == 0x1e9e) {
    out += "ss";
    return;
  }
  if (between(code, 'A', 'Z')) code += 'a' - 'A';
  if (between(code, 0xc0, 0xde) && code != 0xd7) code += 0x20;
  if (between(code, 0xe0, 0xff) && kLatin1[code - 0xe0] != ' ')
    code = static_cast<unsigned char>(kLatin1[code - 0xe0]);
  if (between(code, 0x100, 0x17f)) code = static_cast<unsigned char>(kLatinExtended[code - 0x100]);
  if (between(code, 0x391, 0x3a9) || between(code, 0x410, 0x42f)) code += 0x20;
  if (between(code, 0x400, 0x40f)) code += 0x50;
  append_code(code, out);
}

// Sorted, for binary search; folded as words are.
constexpr auto kSmall = std::to_array<std::string_view>(
    {"a",       "aber",   "about", "again",  "all",   "alle",   "als",     "also",    "am",
     "an",      "and",    "any",   "are",    "as",    "at",     "auch",    "auf",     "aus",
     "be",      "been",   "bei",   "bin",    "bist",  "but",    "by",      "can",     "could",
     "d",       "da",     "dann",  "das",    "dass",  "dein",   "deine",   "deinem",  "deinen",
     "deiner",  "dem",    "den",   "der",    "des",   "dich",   "did",     "die",     "dir",
     "do",      "does",   "doing", "don",    "du",    "durch",  "ein",     "eine",    "einem",
     "einen",   "einer",  "eines", "er",     "es",    "euch",   "exactly", "for",     "from",
     "fur",     "get",    "got",   "habe",   "haben", "had",    "has",     "hast",    "hat",
     "hatte",   "have",   "he",    "her",    "him",   "his",    "how",     "i",       "ich",
     "if",      "ihm",    "ihn",   "ihr",    "ihre",  "im",     "in",      "into",    "ist",
     "it",      "its",    "ja",    "just",   "kann",  "kannst", "kind",    "know",    "ll",
     "m",       "man",    "many",  "may",    "me",    "mein",   "meine",   "meinem",  "meinen",
     "meiner",  "meines", "mich",  "mine",   "mir",   "mit",    "much",    "my",      "nach",
     "nicht",   "no",     "noch",  "not",    "nun",   "nur",    "oder",    "of",      "off",
     "on",      "or",     "our",   "ours",   "out",   "please", "re",      "s",       "say",
     "sein",    "shall",  "she",   "should", "sich",  "sie",    "sind",    "so",      "some",
     "t",       "tell",   "than",  "that",   "the",   "their",  "them",    "then",    "there",
     "these",   "they",   "this",  "those",  "to",    "um",     "und",     "uns",     "unser",
     "unsere",  "up",     "us",    "ve",     "vom",   "von",    "vor",     "wann",    "war",
     "waren",   "warum",  "was",   "we",     "wegen", "welche", "welchem", "welchen", "welcher",
     "welches", "wem",    "wen",   "wer",    "were",  "wessen", "what",    "when",    "where",
     "which",   "who",    "whom",  "whose",  "why",   "wie",    "will",    "wir",     "wird",
     "with",    "wo",     "would", "y",      "you",   "your",   "yours",   "zu",      "zum",
     "zur"});
constexpr auto kFirst = std::to_array<std::string_view>(
    {"i",      "ich",    "me",      "mein",    "meine",   "meinem", "meinen", "meiner",
     "meines", "mich",   "mine",    "mir",     "my",      "our",    "ours",   "uns",
     "unser",  "unsere", "unserem", "unseren", "unserer", "us",     "we",     "wir"});
constexpr auto kSecond = std::to_array<std::string_view>(
    {"dein", "deine", "deinem", "deinen", "deiner", "dich", "dir", "du", "euch", "ihnen", "ihr",
     "ihre", "ihrem", "ihren", "ihrer", "sie", "you", "your", "yours"});
constexpr auto kBack = std::to_array<std::string_view>(
    {"above",  "before", "document", "dokument",  "earlier", "erinnern",   "erwahnt", "erwahnte",
     "fruher", "gesagt", "mention",  "mentioned", "oben",    "previously", "recall",  "remember",
     "remind", "sagte",  "said",     "told",      "vorher",  "vorhin"});
constexpr auto kWork = std::to_array<std::string_view>(
    {"beschreibe", "can",       "compare",   "compose",   "could",   "create",  "define",
     "describe",   "draft",     "draw",      "empfiehl",  "erklare", "explain", "find",
     "fix",        "generate",  "gib",       "give",      "help",    "hilf",    "imagine",
     "kannst",     "konnen",    "list",      "make",      "nenne",   "plan",    "recommend",
     "rewrite",    "schlage",   "schreib",   "schreibe",  "should",  "show",    "soll",
     "suggest",    "summarize", "translate", "ubersetze", "write"});
// Behind "how".
constexpr auto kHowTo = std::to_array<std::string_view>(
    {"bekomme",  "can",    "could",  "do",     "does",    "geht",   "kann",
     "kannst",   "konnen", "konnte", "lerne",  "mache",   "machen", "macht",
     "schreibe", "should", "soll",   "sollte", "sollten", "to",     "would"});
struct Irregular {
  std::string_view form;
  std::string_view base;
};
constexpr auto kIrregular = std::to_array<Irregular>({{"ate", "eat"},
                                                      {"became", "become"},
                                                      {"began", "begin"},
                                                      {"begun", "begin"},
                                                      {"bit", "bite"},
                                                      {"blew", "blow"},
                                                      {"bought", "buy"},
                                                      {"broke", "break"},
                                                      {"broken", "break"},
                                                      {"brought", "bring"},
                                                      {"built", "build"},
                                                      {"came", "come"},
                                                      {"caught", "catch"},
                                                      {"children", "child"},
                                                      {"chose", "choose"},
                                                      {"chosen", "choose"},
                                                      {"drank", "drink"},
                                                      {"drawn", "draw"},
                                                      {"drew", "draw"},
                                                      {"driven", "drive"},
                                                      {"drove", "drive"},
                                                      {"dug", "dig"},
                                                      {"eaten", "eat"},
                                                      {"fallen", "fall"},
                                                      {"fed", "feed"},
                                                      {"feet", "foot"},
                                                      {"fell", "fall"},
                                                      {"felt", "feel"},
                                                      {"flew", "fly"},
                                                      {"flown", "fly"},
                                                      {"forgot", "forget"},
                                                      {"forgotten", "forget"},
                                                      {"fought", "fight"},
                                                      {"found", "find"},
                                                      {"froze", "freeze"},
                                                      {"frozen", "freeze"},
                                                      {"gave", "give"},
                                                      {"given", "give"},
                                                      {"gone", "go"},
                                                      {"grew", "grow"},
                                                      {"grown", "grow"},
                                                      {"heard", "hear"},
                                                      {"held", "hold"},
                                                      {"hid", "hide"},
                                                      {"hidden", "hide"},
                                                      {"hung", "hang"},
                                                      {"kept", "keep"},
                                                      {"knew", "know"},
                                                      {"led", "lead"},
                                                      {"left", "leave"},
                                                      {"lent", "lend"},
                                                      {"lit", "light"},
                                                      {"lost", "lose"},
                                                      {"made", "make"},
                                                      {"men", "man"},
                                                      {"met", "meet"},
                                                      {"mice", "mouse"},
                                                      {"paid", "pay"},
                                                      {"people", "person"},
                                                      {"ran", "run"},
                                                      {"rang", "ring"},
                                                      {"ridden", "ride"},
                                                      {"rode", "ride"},
                                                      {"rose", "rise"},
                                                      {"sang", "sing"},
                                                      {"sank", "sink"},
                                                      {"sat", "sit"},
                                                      {"saw", "see"},
                                                      {"seen", "see"},
                                                      {"sent", "send"},
                                                      {"shook", "shake"},
                                                      {"shot", "shoot"},
                                                      {"slept", "sleep"},
                                                      {"slid", "slide"},
                                                      {"sold", "sell"},
                                                      {"spent", "spend"},
                                                      {"spoke", "speak"},
                                                      {"spoken", "speak"},
                                                      {"stole", "steal"},
                                                      {"stolen", "steal"},
                                                      {"stood", "stand"},
                                                      {"stuck", "stick"},
                                                      {"swam", "swim"},
                                                      {"swept", "sweep"},
                                                      {"swore", "swear"},
                                                      {"taken", "take"},
                                                      {"taught", "teach"},
                                                      {"teeth", "tooth"},
                                                      {"thought", "think"},
                                                      {"threw", "throw"},
                                                      {"thrown", "throw"},
                                                      {"took", "take"},
                                                      {"tore", "tear"},
                                                      {"torn", "tear"},
                                                      {"understood", "understand"},
                                                      {"went", "go"},
                                                      {"wives", "wife"},
                                                      {"woke", "wake"},
                                                      {"women", "woman"},
                                                      {"won", "win"},
                                                      {"wore", "wear"},
                                                      {"worn", "wear"},
                                                      {"written", "write"},
                                                      {"wrote", "write"}});

template <std::size_t N>
constexpr bool sorted(const std::array<std::string_view, N>& words) {
  for (std::size_t i = 1; i < N; ++i) {
    if (words[i] <= words[i - 1]) return false;
  }
  return true;
}
static_assert(sorted(kSmall) && sorted(kFirst) && sorted(kSecond) && sorted(kBack) &&
              sorted(kWork) && sorted(kHowTo));

template <std::size_t N>
bool holds(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::binary_search(words.begin(), words.end(), word);
}

// Endings of both languages, the longest first; one is taken off.
constexpr std::array<std::string_view, 11> kEndings = {"ings", "ing", "ern", "ed", "es", "en",
                                                       "er",   "em",  "e",   "s",  "n"};
constexpr std::size_t kShortestStem = 3;

}  // namespace

std::vector<ChatWord> words_of(std::string_view text) {
  std::vector<ChatWord> words;
  ChatWord word;
  std::uint32_t before = 0;     // the character before this one
  std::uint32_t ideograph = 0;  // the one before, of a pair
  bool begins = true;           // a sentence
  const auto end_word = [&] {
    if (!word.folded.empty()) {
      words.push_back(std::move(word));
      begins = false;
    }
    word = {};
  };
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    at += c.bytes;
    if (is_ideograph(c.code)) {
      end_word();
      const bool alone =
          ideograph == 0 && (at >= text.size() || !is_ideograph(character_at(text, at).code));
      if (ideograph != 0) append_code(ideograph, word.folded);
      if (ideograph != 0 || alone) append_code(c.code, word.folded);
      end_word();
      ideograph = c.code;
      continue;
    }
    ideograph = 0;
    const bool joins = (c.code == '.' || c.code == ',') && is_digit(before) && at < text.size() &&
                       is_digit(character_at(text, at).code);
    if (is_letter(c.code) || joins || (is_accent(c.code) && !word.folded.empty())) {
      if (word.folded.empty()) word.capital = is_capital(c.code) && !begins;
      append_folded(c.code, word.folded);
    } else {
      end_word();
      if (c.code == '.' || c.code == '!' || c.code == '?' || c.code == '\n') begins = true;
    }
    before = c.code;
  }
  end_word();
  return words;
}

bool is_small_word(std::string_view folded) { return holds(kSmall, folded); }
bool is_first_person(std::string_view folded) { return holds(kFirst, folded); }
bool is_second_person(std::string_view folded) { return holds(kSecond, folded); }
bool refers_back(std::string_view folded) { return holds(kBack, folded); }
bool asks_for_work(std::span<const ChatWord> question) {
  if (question.empty()) return false;
  const std::string_view first = question[0].folded;
  if (first == "how" || first == "wie")
    return question.size() > 1 && holds(kHowTo, question[1].folded);
  return holds(kWork, first);
}

std::string stem_of(std::string_view folded) {
  const bool number =
      std::any_of(folded.begin(), folded.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (number) return std::string(folded);
  const auto irregular =
      std::lower_bound(kIrregular.begin(), kIrregular.end(), folded,
                       [](const Irregular& a, std::string_view form) { return a.form < form; });
  if (irregular != kIrregular.end() && irregular->form == folded) folded = irregular->base;
  if (folded.size() > kShortestStem + 2 && folded.ends_with("ies"))
    return std::string(folded.substr(0, folded.size() - 3)) + "y";
  for (const std::string_view ending : kEndings) {
    if (folded.size() >= kShortestStem + ending.size() && folded.ends_with(ending)) {
      folded.remove_suffix(ending.size());
      break;
    }
  }
  return std::string(folded);
}

}  // namespace runnel
