// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/remind.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/store/chat_words.h"
#include "runtime/store/sentences.h"

namespace runnel {
namespace {

// For models without window slots: what recurrent states of their size still give back word for word.
constexpr std::size_t kWindowOfNone = 256;

constexpr std::string_view kHeading = "Earlier in this chat:\n";

// BM25's saturation and length normalisation; sentences differ little in length.
constexpr double kSaturation = 1.2;
constexpr double kByLength = 0.4;

// Which share of the question's words, by weight, a sentence must hold.
// If the question is about what was said, or the sentence is from a document:
constexpr double kShareSaid = 0.45;
constexpr double kSharePersonal = 0.34;  // and the sentence is about who asks
constexpr double kSharePlain = 0.74;     // any other question
constexpr double kPersonalBoost = 1.5;
constexpr double kOfBest = 0.6;     // of the best sentence's score, for further ones
constexpr std::size_t kPlaces = 4;  // most sentences found
// The weight of a word that was never said, for questions about what was said.
constexpr double kWeightOfUnseen = 0.5;

constexpr std::size_t kDocumentBytes = 1000;  // a context as long as this is a text that was read

struct Passage {
  std::size_t message = 0;  // in `before`
  Sentence at;
  std::vector<std::string> stems;
  bool document = false;  // of a text that was read, not said
  bool personal = false;  // about the user: "my" of the user, "your" of the assistant
};

struct Question {
  std::vector<std::string> stems;  // each once
  std::set<std::string> names;     // of those, written with a capital
  bool personal = false;           // about whose things
  bool refers_back = false;
};

Question read_question(std::string_view text) {
  Question question;
  const std::vector<ChatWord> words = words_of(text);
  for (const ChatWord& word : words) {
    if (is_first_person(word.folded)) question.personal = true;
    if (refers_back(word.folded)) {
      question.refers_back = true;
      continue;
    }
    if (is_small_word(word.folded) || is_first_person(word.folded) || is_second_person(word.folded))
      continue;
    std::string stem = stem_of(word.folded);
    if (word.capital) question.names.insert(stem);
    if (std::find(question.stems.begin(), question.stems.end(), stem) == question.stems.end())
      question.stems.push_back(std::move(stem));
  }
  // "How do I …?" and "Write me …" ask for something new, whoever speaks.
  if (asks_for_work(words)) question.personal = false;
  return question;
}

std::vector<Passage> passages_of(std::span<const Said> before) {
  std::vector<Passage> passages;
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (const Sentence& sentence : sentences_of(before[i].text)) {
      Passage passage;
      passage.message = i;
      passage.at = sentence;
      passage.document = before[i].role == "system" && before[i].text.size() >= kDocumentBytes;
      const bool by_user = before[i].role == "user";
      for (const ChatWord& word : words_of(before[i].text.substr(
               sentence.range.begin, sentence.range.end - sentence.range.begin))) {
        if (by_user ? is_first_person(word.folded) : is_second_person(word.folded))
          passage.personal = true;
        if (!is_small_word(word.folded)) passage.stems.push_back(stem_of(word.folded));
      }
      passages.push_back(std::move(passage));
    }
  }
  return passages;
}

std::string_view text_of(std::span<const Said> before, const Passage& passage) {
  return before[passage.message].text.substr(passage.at.range.begin,
                                             passage.at.range.end - passage.at.range.begin);
}

/// How many of the first passages lie beyond the window; also the quotations that lie within it. What will be read again
/// is not counted: a passage is rather farther away than this says.
Result<std::size_t> beyond_window(std::span<const Said> before, std::span<const Passage> passages,
                                  std::string_view question, const CountTokens& count,
                                  const RemindLimits& limits,
                                  std::vector<std::string_view>& known) {
  RUNNEL_TRY(std::size_t after, count(question));
  after += limits.around;
  std::size_t n = passages.size();
  std::size_t message = before.size();
  while (n > 0 && after < limits.window) {
    const Passage& passage = passages[n - 1];
    while (message > passage.message) {  // this one and those without sentences
      --message;
      after += limits.around;
      for (const Quotation& quotation : before[message].quotations) known.push_back(quotation.text);
    }
    RUNNEL_TRY(const std::size_t tokens, count(text_of(before, passage)));
    after += tokens;
    --n;
  }
  return n;
}

struct Hit {
  std::size_t passage = 0;
  double score = 0;
};

class Ranking {
 public:
  Ranking(const Question& question, std::span<const Passage> passages)
      : question_(question), passages_(passages) {
    std::unordered_map<std::string_view, std::size_t> number;
    for (std::size_t i = 0; i < question.stems.size(); ++i) number.emplace(question.stems[i], i);
    counts_.resize(passages.size());
    std::vector<std::size_t> holding(question.stems.size());
    std::size_t words = 0;
    for (std::size_t p = 0; p < passages.size(); ++p) {
      words += passages[p].stems.size();
      counts_[p].resize(question.stems.size());
      for (const std::string& stem : passages[p].stems) {
        const auto found = number.find(stem);
        if (found == number.end()) continue;
        if (counts_[p][found->second]++ == 0) ++holding[found->second];
      }
    }
    const auto n = static_cast<double>(passages.size());
    mean_length_ = std::max(1.0, static_cast<double>(words) / std::max(1.0, n));
    for (const std::size_t h : holding) {
      weights_.push_back(
          std::log(1.0 + (n - static_cast<double>(h) + 0.5) / (static_cast<double>(h) + 0.5)));
      seen_.push_back(h > 0);
    }
  }

  /// Nothing if the passage is not what the question refers to.
  std::optional<double> score(std::size_t p) const {
    const Passage& passage = passages_[p];
    const bool about_said = question_.personal || question_.refers_back;
    double score = 0;
    double held = 0;
    double all = 0;
    std::size_t matches = 0;
    bool name = false;
    const double length = static_cast<double>(passage.stems.size()) / mean_length_;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      all += weights_[i] * (about_said && !seen_[i] ? kWeightOfUnseen : 1.0);
      if (counts_[p][i] == 0) continue;
      const auto times = static_cast<double>(counts_[p][i]);
      score += weights_[i] * times * (kSaturation + 1) /
               (times + kSaturation * (1 - kByLength + kByLength * length));
      held += weights_[i];
      ++matches;
      name = name || question_.names.contains(question_.stems[i]);
    }
    if (matches == 0) return std::nullopt;
    const double share = held / all;
    const bool personal = question_.personal && passage.personal;
    const bool likely = about_said || passage.document;
    const bool enough = personal ? share >= kSharePersonal
                        : likely ? share >= kShareSaid && (matches > 1 || question_.refers_back)
                                 : share >= kSharePlain && (matches > 1 || name);
    if (!enough) return std::nullopt;
    return personal ? score * kPersonalBoost : score;
  }

 private:
  const Question& question_;
  std::span<const Passage> passages_;
  std::vector<std::vector<std::uint32_t>> counts_;  // [passages][question's stems]
  std::vector<double> weights_;                     // [question's stems]
  std::vector<bool> seen_;
  double mean_length_ = 1;
};

// The best first; the earlier one of two alike.
std::vector<Hit> find_hits(const Question& question, std::span<const Said> before,
                           std::span<const Passage> passages,
                           std::span<const std::string_view> known) {
  const Ranking ranking(question, passages);
  std::vector<Hit> hits;
  for (std::size_t p = 0; p < passages.size(); ++p) {
    const std::optional<double> score = ranking.score(p);
    if (!score) continue;
    const std::string_view text = text_of(before, passages[p]);
    const bool there = std::any_of(known.begin(), known.end(), [&](std::string_view quotation) {
      return quotation.find(text) != std::string_view::npos;
    });
    if (!there) hits.push_back({p, *score});
  }
  std::stable_sort(hits.begin(), hits.end(),
                   [](const Hit& a, const Hit& b) { return a.score > b.score; });
  const auto far = std::find_if(hits.begin(), hits.end(), [&](const Hit& hit) {
    return hit.score < kOfBest * hits.front().score;
  });
  hits.erase(far, hits.end());
  if (hits.size() > kPlaces) hits.resize(kPlaces);
  return hits;
}

// Passages that follow one another in one message are one quotation.
std::vector<Quotation> quotations_of(const std::set<std::size_t>& chosen,
                                     std::span<const Said> before,
                                     std::span<const Passage> passages) {
  std::vector<Quotation> quotations;
  std::size_t last = 0;
  for (const std::size_t p : chosen) {
    const Passage& passage = passages[p];
    const std::string_view text = before[passage.message].text;
    if (!quotations.empty() && p == last + 1 && passages[last].message == passage.message) {
      const std::size_t begin = passages[last].at.range.end;  // with what is between them
      quotations.back().text += text.substr(begin, passage.at.range.end - begin);
    } else {
      quotations.push_back(
          {.message = before[passage.message].id, .text = std::string(text_of(before, passage))});
    }
    last = p;
  }
  return quotations;
}

// Tokens that a chat format puts around a message, at least.
Result<std::size_t> around_message(const Model& model) {
  const ChatMessage said[] = {{"user", "x"}, {"assistant", "x"}, {"user", "x"}};
  RUNNEL_TRY(const std::vector<TokenId> three, model.encode_chat(said, false));
  RUNNEL_TRY(const std::vector<TokenId> one, model.encode_chat(std::span(said, 1), false));
  RUNNEL_TRY(const std::vector<TokenId> text, model.encode("x"));
  const std::size_t two = three.size() - std::min(three.size(), one.size());
  return two / 2 - std::min(two / 2, text.size());
}

}  // namespace

std::size_t window_of(const ModelInfo& info) {
  return info.window_slots > 0 ? static_cast<std::size_t>(info.window_slots) : kWindowOfNone;
}

std::string with_quotations(std::span<const Quotation> quotations, std::string_view text) {
  if (quotations.empty()) return std::string(text);
  std::string out(kHeading);
  for (const Quotation& quotation : quotations) {
    out += "> ";
    for (const char c : quotation.text) {
      out += c;
      if (c == '\n') out += "> ";
    }
    out += '\n';
  }
  out += '\n';
  out += text;
  return out;
}

Result<std::vector<Quotation>> remind(std::span<const Said> before, std::string_view question,
                                      const CountTokens& count, const RemindLimits& limits) {
  const Question asked = read_question(question);
  if (asked.stems.empty()) return std::vector<Quotation>();
  std::vector<Passage> passages = passages_of(before);
  std::vector<std::string_view> known;
  RUNNEL_TRY(const std::size_t beyond,
             beyond_window(before, passages, question, count, limits, known));
  passages.resize(beyond);

  std::set<std::size_t> chosen;
  std::vector<Quotation> found;
  const auto add = [&](std::size_t p) -> Result<bool> {
    if (chosen.contains(p)) return true;
    chosen.insert(p);
    std::vector<Quotation> more = quotations_of(chosen, before, passages);
    RUNNEL_TRY(const std::size_t tokens, count(with_quotations(more, "")));
    if (tokens > limits.tokens) {
      chosen.erase(p);
      return false;
    }
    found = std::move(more);
    return true;
  };
  const std::vector<Hit> hits = find_hits(asked, before, passages, known);
  std::vector<std::size_t> kept;
  for (const Hit& hit : hits) {
    RUNNEL_TRY(const bool fits, add(hit.passage));
    if (fits) kept.push_back(hit.passage);
  }
  // What stands beside them in the same paragraph says whom "she" means.
  for (const std::size_t p : kept) {
    if (p > 0 && passages[p - 1].message == passages[p].message && !passages[p].at.paragraph)
      RUNNEL_CHECK_OK(add(p - 1));
    if (p + 1 < passages.size() && passages[p + 1].message == passages[p].message &&
        !passages[p + 1].at.paragraph)
      RUNNEL_CHECK_OK(add(p + 1));
  }
  return found;
}

Result<std::vector<Quotation>> remind(std::span<const MessageInfo> before,
                                      std::string_view question, const Model& model) {
  std::vector<Said> said;
  for (const MessageInfo& message : before)
    said.push_back({message.id, message.role, message.text, message.quotations});
  const CountTokens count = [&model](std::string_view text) -> Result<std::size_t> {
    RUNNEL_TRY(const std::vector<TokenId> tokens, model.encode(text));
    return tokens.size();
  };
  RUNNEL_TRY(const std::size_t around, around_message(model));
  return remind(said, question, count, {.window = window_of(model.info()), .around = around});
}

}  // namespace runnel
