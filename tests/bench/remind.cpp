// SPDX-License-Identifier: Apache-2.0
// runnel_remind MODEL FILLER [OPTIONS]: whether reading again what a question refers to makes answers right that were wrong.
//
//   xz -dc ../shared/data/val.jsonl.xz > /tmp/filler.jsonl
//   build/cpu/bin/runnel_remind models/runnel-gsa-0.5b-coder-instruct-00001-of-00003.gguf /tmp/filler.jsonl
//
// A chat in which a fact is told once, then N tokens of other turns of FILLER (a dialogue, an article, a page of a book),
// then the question. What comes before the question is read once; the question is answered on two copies of the state,
// without and with what remind() finds, as the app does: drawn as the model's file recommends, with a fixed seed. An answer
// is right if it holds the value as words of their own, "don't know" if it says so or asks back, wrong otherwise. At the end
// of the same chats questions about nothing past are asked: of those only counted is whether anything is read again.
// Shares have a Wilson interval of 95 %. Prints tables in Markdown.
//
//   --device cpu|cuda:0|…   --threads N   --seed N   --questions N (100: of each kind and distance)
//   --distances 300,1000,10000   --tuned (the templates that thresholds were chosen with)
//   --search-only (no answers: nothing is computed)   --show (each question, what was found, the answers)
#include "runtime/store/remind.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "runnel/generation.h"
#include "runnel/model.h"
#include "runnel/session.h"
#include "runtime/base/try.h"
#include "tests/bench/remind_cases.h"

namespace runnel::remind_bench {
namespace {

constexpr std::uint64_t kLongestAnswer = 100;  // tokens that are judged
constexpr std::size_t kPageBytes = 1800;       // of an article or a book in one answer
constexpr std::string_view kNoted = "Thank you for telling me.";

struct Options {
  std::string model;
  std::string filler;
  std::string device = "auto";
  int threads = 0;
  std::uint64_t seed = 1;
  std::size_t questions = 100;
  std::vector<std::size_t> distances = {300, 1000, 10000};
  bool tuned = false;
  bool search_only = false;
  bool show = false;
};

using Dice = std::mt19937_64;

// The same on every machine, which std::uniform_int_distribution is not.
std::size_t draw(Dice& dice, std::size_t n) { return static_cast<std::size_t>(dice() % n); }

template <class List>
auto pick(Dice& dice, const List& list) {
  return list[draw(dice, list.size())];
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || (c & 0x80) != 0; }

/// Whether the value is there as words of their own.
bool holds(std::string_view answer, std::string_view value) {
  const std::string in = lower(answer);
  const std::string what = lower(value);
  for (std::size_t at = in.find(what); at != std::string::npos; at = in.find(what, at + 1)) {
    const std::size_t end = at + what.size();
    if ((at == 0 || !is_word(in[at - 1])) && (end == in.size() || !is_word(in[end]))) return true;
  }
  return false;
}

enum class Verdict { right, wrong, unknown };

Verdict judge(std::string_view answer, std::string_view value) {
  if (holds(answer, value)) return Verdict::right;
  constexpr std::string_view kUnknown[] = {
      "don't know",      "do not know",      "don't have",     "do not have",    "not sure",
      "can't",           "cannot",           "unable",         "didn't",         "did not tell",
      "did not mention", "haven't",          "have not",       "no information", "not provided",
      "not mentioned",   "not specified",    "unknown",        "could you",      "can you",
      "please provide",  "more information", "more context",   "more details",   "i'm sorry",
      "i am sorry",      "as an ai",         "don't remember", "do not remember"};
  const std::string said = lower(answer);
  const bool unknown = std::any_of(std::begin(kUnknown), std::end(kUnknown), [&](auto words) {
    return said.find(words) != std::string::npos;
  });
  return unknown ? Verdict::unknown : Verdict::wrong;
}

// ---- what stands between ----

using Turns = std::vector<ChatMessage>;

// The beginning of `text`, up to the end of a sentence.
std::string page_of(const std::string& text) {
  if (text.size() <= kPageBytes) return text;
  const std::size_t stop = text.find(". ", kPageBytes);
  return text.substr(0, stop == std::string::npos ? text.size() : stop + 1);
}

// A record of the file as turns that begin with the user and end with the assistant.
Turns turns_of(const nlohmann::json& record) {
  Turns turns;
  if (record.contains("messages")) {
    for (const auto& said : record["messages"]) {
      const std::string role = said.value("role", "");
      const bool next = role == (turns.size() % 2 == 0 ? "user" : "assistant");
      if (next) turns.push_back({role, said.value("content", "")});
    }
    if (turns.size() % 2 != 0) turns.pop_back();
    return turns;
  }
  const std::string text = record.value("text", "");
  const std::size_t line = text.find("\n\n");
  if (record.value("source", "") != "gutenberg" && line < 100) {
    turns.push_back({"user", "Tell me about this: " + text.substr(0, line)});
    turns.push_back({"assistant", page_of(text.substr(line + 2))});
  } else {
    turns.push_back({"user", "Read me a page of an old book."});
    turns.push_back({"assistant", page_of(text)});
  }
  return turns;
}

Result<std::vector<Turns>> read_filler(const std::string& file) {
  std::ifstream in(file);
  if (!in) return fail(ErrorCode::io, file, ": cannot be read");
  std::vector<Turns> records;
  for (std::string line; std::getline(in, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_discarded())
      return fail(ErrorCode::malformed, file, ": has a line that is no JSON");
    Turns turns = turns_of(record);
    if (!turns.empty()) records.push_back(std::move(turns));
  }
  if (records.empty()) return fail(ErrorCode::malformed, file, ": is empty");
  return records;
}

Result<std::size_t> count(const Model& model, std::string_view text) {
  RUNNEL_TRY(const std::vector<TokenId> tokens, model.encode(text));
  return tokens.size();
}

/// Turns of `tokens` tokens, about: the last answer is cut there.
Result<Turns> filler_of(const Model& model, const std::vector<Turns>& records, std::size_t tokens,
                        Dice& dice) {
  constexpr std::size_t kMarks = 5;  // tokens around a message
  Turns out;
  for (std::size_t has = 0; has < tokens;) {
    const Turns& record = records[draw(dice, records.size())];
    for (std::size_t i = 0; i + 1 < record.size() && has < tokens; i += 2) {
      RUNNEL_TRY(const std::size_t asked, count(model, record[i].content));
      RUNNEL_TRY(std::vector<TokenId> said, model.encode(record[i + 1].content));
      std::string answer = record[i + 1].content;
      has += asked + 2 * kMarks;
      if (has + said.size() > tokens) {
        said.resize(std::max<std::size_t>(4, tokens > has ? tokens - has : 0));
        RUNNEL_TRY(answer, model.decode(said));
        answer.resize(std::min(answer.size(), answer.find_last_of(" \n")));
      }
      has += said.size();
      out.push_back(record[i]);
      out.push_back({"assistant", answer});
    }
  }
  return out;
}

// ---- one question ----

struct Case {
  std::size_t kind = 0;
  std::size_t distance = 0;  // its index
  std::string value;
  std::string asked;
  Turns before;
};

std::string value_of(std::size_t kind, Dice& dice) {
  if (kind == 0) return std::string(pick(dice, people()));
  if (kind == 1) return std::to_string(120 + draw(dice, 860));
  return std::string(pick(dice, looks())) + " " + std::string(pick(dice, things()));
}

Result<Case> make_case(const Model& model, const std::vector<Turns>& records,
                       const Options& options, std::size_t kind, std::size_t distance,
                       std::size_t number) {
  Dice dice(options.seed * 1'000'003 + (kind * 16 + distance) * 10'007 + number);
  const Kind& facts = kinds()[kind];
  const auto templates = options.tuned ? facts.tuned : facts.held_out;
  const Template& fact = templates[number % templates.size()];
  Case made{.kind = kind, .distance = distance, .value = {}, .asked = std::string(fact.asked)};
  RUNNEL_TRY(Turns between, filler_of(model, records, options.distances[distance], dice));
  const auto in_filler = [&](const std::string& value) {
    return std::any_of(between.begin(), between.end(),
                       [&](const ChatMessage& m) { return holds(m.content, value); });
  };
  do {
    made.value = value_of(kind, dice);
  } while (in_filler(made.value));
  std::string told(fact.told);
  told.replace(told.find("{}"), 2, made.value);
  made.before = {{"user", told}, {"assistant", std::string(kNoted)}};
  made.before.insert(made.before.end(), between.begin(), between.end());
  return made;
}

std::vector<MessageInfo> path_of(const Turns& turns) {
  std::vector<MessageInfo> path;
  for (const ChatMessage& turn : turns) {
    MessageInfo info;
    info.id = static_cast<MessageId>(path.size() + 1);
    info.role = turn.role;
    info.text = turn.content;
    path.push_back(std::move(info));
  }
  return path;
}

// ---- counting ----

struct Share {
  std::size_t right = 0;
  std::size_t of = 0;
};

// "37 (28–47)": percent, with Wilson's interval.
std::string percent(const Share& share) {
  if (share.of == 0) return "–";
  const double n = static_cast<double>(share.of);
  const double p = static_cast<double>(share.right) / n;
  constexpr double z = 1.96;
  const double middle = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n);
  char text[64];
  std::snprintf(text, sizeof text, "%.0f (%.0f–%.0f)", 100 * p, 100 * std::max(0.0, middle - half),
                100 * std::min(1.0, middle + half));
  return text;
}

struct Cell {
  std::size_t asked = 0;
  std::size_t reread = 0;           // anything was
  std::size_t found = 0;            // with the value in it
  std::size_t tokens = 0;           // that were read again
  std::size_t verdicts[2][3] = {};  // [without, with][right, wrong, unknown]

  void add(const Cell& other) {
    asked += other.asked;
    reread += other.reread;
    found += other.found;
    tokens += other.tokens;
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t j = 0; j < 3; ++j) verdicts[i][j] += other.verdicts[i][j];
  }
};

// ---- the model ----

class Bench {
 public:
  Bench(Options options, std::shared_ptr<const Model> model, std::vector<Turns> records)
      : options_(std::move(options)), model_(std::move(model)), records_(std::move(records)) {}

  Status run() {
    for (std::size_t d = 0; d < options_.distances.size(); ++d) {
      for (std::size_t kind = 0; kind < kinds().size(); ++kind) {
        for (std::size_t i = 0; i < options_.questions; ++i) RUNNEL_CHECK_OK(ask(kind, d, i));
        std::fprintf(stderr, "%zu tokens back: %s done\n", options_.distances[d],
                     std::string(kinds()[kind].name).c_str());
      }
    }
    print();
    return {};
  }

 private:
  Status ask(std::size_t kind, std::size_t distance, std::size_t number) {
    RUNNEL_TRY(const Case one, make_case(*model_, records_, options_, kind, distance, number));
    const std::vector<MessageInfo> path = path_of(one.before);
    RUNNEL_TRY(const std::vector<Quotation> found, remind(path, one.asked, *model_));
    Cell& cell = cells_[{kind, distance}];
    ++cell.asked;
    std::size_t tokens = 0;
    bool hit = false;
    if (!found.empty()) {
      RUNNEL_TRY(tokens, count(*model_, with_quotations(found, "")));
      hit = std::any_of(found.begin(), found.end(),
                        [&](const Quotation& q) { return holds(q.text, one.value); });
    }
    cell.tokens += tokens;
    cell.reread += found.empty() ? 0 : 1;
    cell.found += hit ? 1 : 0;
    if (options_.show) {
      std::printf("\n[%s, %zu back] %s (%s) %s, %zu tokens\n",
                  std::string(kinds()[kind].name).c_str(), options_.distances[distance],
                  one.asked.c_str(), one.value.c_str(),
                  hit             ? "found"
                  : found.empty() ? "nothing"
                                  : "something else",
                  tokens);
      for (const Quotation& q : found) std::printf("  > %s\n", q.text.c_str());
    }
    RUNNEL_CHECK_OK(ask_nothing(path, distance, kind * options_.questions + number));
    if (options_.search_only) return {};
    return answer(one, found, number, cell);
  }

  // Each question about nothing past once per distance, at the end of the first chats.
  Status ask_nothing(std::span<const MessageInfo> path, std::size_t distance, std::size_t number) {
    const auto questions = nothing_past(options_.tuned);
    const std::size_t chats = kinds().size() * options_.questions;
    for (std::size_t i = number; i < questions.size(); i += chats) {
      RUNNEL_TRY(const std::vector<Quotation> found, remind(path, questions[i], *model_));
      Share& share = nothing_[distance];
      ++share.of;
      share.right += found.empty() ? 0 : 1;
      if (options_.show && !found.empty()) {
        std::printf("\n[nothing past, %zu] %s\n", options_.distances[distance],
                    std::string(questions[i]).c_str());
        for (const Quotation& q : found) std::printf("  > %s\n", q.text.c_str());
      }
    }
    return {};
  }

  Result<std::vector<TokenId>> tokens_of(const Turns& before, const std::string& asked) const {
    Turns all = before;
    all.push_back({"user", asked});
    return model_->encode_chat(all);
  }

  Status answer(const Case& one, std::span<const Quotation> found, std::size_t number, Cell& cell) {
    RUNNEL_TRY(const std::vector<TokenId> without, tokens_of(one.before, one.asked));
    RUNNEL_TRY(const std::vector<TokenId> with,
               tokens_of(one.before, with_quotations(found, one.asked)));
    const auto differ =
        std::mismatch(without.begin(), without.end(), with.begin(), with.end()).first;
    // Not quite all of it where nothing is read again: a session must read something to answer.
    const auto common =
        static_cast<std::size_t>(std::min(differ, without.end() - 1) - without.begin());
    RUNNEL_TRY(Session read, Session::create(model_));
    RUNNEL_CHECK_OK(read.prefill(std::span(without).first(common)));
    std::string said;
    for (std::size_t way = 0; way < 2; ++way) {
      if (way == 0 || !found.empty()) {
        RUNNEL_TRY(Session branch, read.fork());
        RUNNEL_CHECK_OK(branch.prefill(std::span(way == 0 ? without : with).subspan(common)));
        GenerationOptions how{.sampling = model_->sampling(), .max_tokens = kLongestAnswer};
        how.sampling.seed = options_.seed * 7919 + number;
        RUNNEL_TRY(how.answer, model_->answer_form());
        RUNNEL_TRY(const GenerationResult result, generate(branch, how));
        said = result.text + result.held_back;
      }
      const Verdict verdict = judge(said, one.value);
      ++cell.verdicts[way][static_cast<std::size_t>(verdict)];
      constexpr const char* kNames[] = {"right", "wrong", "don't know"};
      if (options_.show) {
        std::printf("  %s: %s: %s\n", way == 0 ? "without" : "with",
                    kNames[static_cast<std::size_t>(verdict)], said.c_str());
      }
    }
    return {};
  }

  void print_row(const char* name, std::size_t distance, const Cell& cell) const {
    for (std::size_t way = 0; way < (options_.search_only ? 1U : 2U); ++way) {
      std::printf("| %s | %zu | %s |", name, options_.distances[distance],
                  options_.search_only ? "–"
                  : way == 0           ? "without"
                                       : "with");
      for (const std::size_t verdict : cell.verdicts[way])
        std::printf(" %s |", options_.search_only ? "–" : percent({verdict, cell.asked}).c_str());
      if (way == 1 || options_.search_only) {
        std::printf(" %s | %s | %.0f |\n", percent({cell.reread, cell.asked}).c_str(),
                    percent({cell.found, cell.asked}).c_str(),
                    static_cast<double>(cell.tokens) /
                        static_cast<double>(std::max<std::size_t>(1, cell.reread)));
      } else {
        std::printf(" | | |\n");
      }
    }
  }

  void print() const {
    std::printf("\n%% of the answers (95 %% interval), %zu questions a cell, %s templates\n\n",
                options_.questions, options_.tuned ? "tuned-on" : "held-out");
    std::printf(
        "| of | tokens back | remind | right | wrong | don't know | anything read again | "
        "the fact among it | tokens then |\n|---|---|---|---|---|---|---|---|---|\n");
    for (std::size_t d = 0; d < options_.distances.size(); ++d) {
      Cell all;
      for (std::size_t kind = 0; kind < kinds().size(); ++kind) {
        const Cell& cell = cells_.at({kind, d});
        print_row(std::string(kinds()[kind].name).c_str(), d, cell);
        all.add(cell);
      }
      print_row("**all**", d, all);
    }
    std::printf("\n| questions about nothing past, after | anything read again, %% |\n|---|---|\n");
    Share all;
    for (const auto& [distance, share] : nothing_) {
      std::printf("| %zu tokens | %s, %zu of %zu |\n", options_.distances[distance],
                  percent(share).c_str(), share.right, share.of);
      all.right += share.right;
      all.of += share.of;
    }
    std::printf("| all | %s, %zu of %zu |\n", percent(all).c_str(), all.right, all.of);
  }

  Options options_;
  std::shared_ptr<const Model> model_;
  std::vector<Turns> records_;
  std::map<std::pair<std::size_t, std::size_t>, Cell> cells_;  // by kind and distance
  std::map<std::size_t, Share> nothing_;                       // by distance: read something again
};

Result<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(ErrorCode::invalid_argument, text, ": is no number");
  return number;
}

Result<Options> read_options(std::span<char* const> arguments) {
  Options options;
  std::vector<std::string> files;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = arguments[i];
    if (!name.starts_with("--")) {
      files.push_back(name);
      continue;
    }
    if (name == "--tuned" || name == "--search-only" || name == "--show") {
      (name == "--tuned"  ? options.tuned
       : name == "--show" ? options.show
                          : options.search_only) = true;
      continue;
    }
    if (++i == arguments.size()) return fail(ErrorCode::invalid_argument, name, ": has no value");
    const std::string value = arguments[i];
    if (name == "--device") {
      options.device = value;
    } else if (name == "--distances") {
      options.distances.clear();
      for (std::size_t at = 0; at <= value.size();) {
        const std::size_t end = std::min(value.find(',', at), value.size());
        RUNNEL_TRY(const std::uint64_t distance, number_of(value.substr(at, end - at)));
        options.distances.push_back(distance);
        at = end + 1;
      }
    } else {
      RUNNEL_TRY(const std::uint64_t number, number_of(value));
      if (name == "--threads") {
        options.threads = static_cast<int>(number);
      } else if (name == "--seed") {
        options.seed = number;
      } else if (name == "--questions") {
        options.questions = number;
      } else {
        return fail(ErrorCode::invalid_argument, name, ": is no option");
      }
    }
  }
  if (files.size() != 2)
    return fail(ErrorCode::invalid_argument, "expected MODEL and FILLER (lines of JSON)");
  options.model = files[0];
  options.filler = files[1];
  return options;
}

Status run(std::span<char* const> arguments) {
  const auto begun = std::chrono::steady_clock::now();
  RUNNEL_TRY(Options options, read_options(arguments));
  RUNNEL_TRY(std::vector<Turns> records, read_filler(options.filler));
  RUNNEL_TRY(std::shared_ptr<const Model> model,
             Model::load(options.model, {.device = options.device, .threads = options.threads}));
  std::printf("%s on %s, window %d, seed %llu\n", model->info().name.c_str(),
              model->info().device.c_str(), model->info().window_slots,
              static_cast<unsigned long long>(options.seed));
  RUNNEL_CHECK_OK(Bench(std::move(options), std::move(model), std::move(records)).run());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  std::printf("\n%.0f s\n", took.count());
  return {};
}

}  // namespace
}  // namespace runnel::remind_bench

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what is shown is seen, also if a run is ended early
  const runnel::Status done = runnel::remind_bench::run(
      std::span(argv + 1, static_cast<std::size_t>(std::max(0, argc - 1))));
  if (!done) std::fprintf(stderr, "runnel_remind: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
