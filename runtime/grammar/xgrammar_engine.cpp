// SPDX-License-Identifier: Apache-2.0
// XGrammar behind the seam: its exceptions end here, its messages are values, its compilations have limits.
#include <xgrammar/compiler.h>
#include <xgrammar/config.h>
#include <xgrammar/matcher.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/constraint/grammar_engine.h"
#include "runtime/grammar/checkpoint.h"
#include "runtime/grammar/gbnf.h"
#include "runtime/grammar/schema_rewrite.h"
#include "runtime/grammar/source_check.h"
#include "runtime/grammar/tag_grammar.h"

namespace runnel {
namespace {

/// Seconds that this thread has computed: a machine that is busy with other things gives up no compilation.
double computed_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlower = 8;  // what every access that is watched costs
#else
constexpr double kSlower = 1;
#endif

/// What a compilation may still use, of the thread that compiles.
struct Budget {
  double until = 0;  // of computed_seconds()
  std::uint64_t bytes = 0;
  unsigned asked = 0;   // times
  std::string warning;  // the first; what XGrammar warns of it leaves out
};
thread_local Budget* budget = nullptr;

struct OutOfBudget : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// A mistake that XGrammar has found, in its words.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Sets the limits for as long as it lives.
class Limited {
 public:
  Limited() {
    constexpr double kOfIt = 0.92;  // the rest is for freeing what was made until then
    own_.until = computed_seconds() + kOfIt * Constraint::kCompileSeconds * kSlower;
    own_.bytes = Constraint::kCompileBytes / 2;  // the other half is for what is not counted
    budget = &own_;
  }
  ~Limited() { budget = nullptr; }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;
  const std::string& warning() const { return own_.warning; }

 private:
  Budget own_;
};

// "Check failed: (x) is false: words" → words; the first line, cut.
std::string plain(std::string message) {
  constexpr std::string_view kCheck = " is false: ";
  if (const std::size_t at = message.find(kCheck); at != std::string::npos)
    message.erase(0, at + kCheck.size());
  message.resize(std::min({message.size(), message.find('\n'), std::size_t{240}}));
  return message;
}

std::string_view name_of(const ConstraintSource& source) {
  switch (source.kind) {
    case ConstraintKind::json_schema:
    case ConstraintKind::json_object:
      return "schema";
    case ConstraintKind::regex:
      return "regex";
    case ConstraintKind::choice:
      return "choice";
    case ConstraintKind::gbnf:
      return "grammar";
    case ConstraintKind::tags:
      return "tags";
  }
  return "constraint";
}

/// Runs `body` and turns what it throws into an error.
template <class Body>
auto walled(std::string_view name, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const OutOfBudget& e) {
    return fail(ErrorCode::out_of_memory, name, ": ", e.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, name, ": not enough memory");
  } catch (const std::exception& e) {
    return fail(ErrorCode::invalid_argument, name, ": ", plain(e.what()));
  }
}

/// The lead bytes after which not every byte from 0x80 to 0xBF makes a character, and which do. XGrammar's character
/// classes know nothing of it.
struct Lead {
  unsigned char byte, least, most;
};
constexpr std::array<Lead, 4> kLeads = {Lead{0xE0, 0xA0, 0xBF}, Lead{0xED, 0x80, 0x9F},
                                        Lead{0xF0, 0x90, 0xBF}, Lead{0xF4, 0x80, 0x8F}};
constexpr std::uint8_t kNoLead = kLeads.size();

std::uint8_t lead_of(char last) {
  const auto at = std::ranges::find(kLeads, static_cast<unsigned char>(last), &Lead::byte);
  return static_cast<std::uint8_t>(at - kLeads.begin());
}

bool fits(std::uint8_t lead, char next) {
  const auto byte = static_cast<unsigned char>(next);
  return lead == kNoLead || (byte >= kLeads[lead].least && byte <= kLeads[lead].most);
}

/// No two bytes of it that cannot follow one another.
bool is_possible(std::string_view piece) {
  for (std::size_t i = 1; i < piece.size(); ++i) {
    if (!fits(lead_of(piece[i - 1]), piece[i])) return false;
  }
  return true;
}

/// What of a vocabulary the masks need.
struct Vocabulary {
  std::vector<std::uint32_t> ordinary;  // a bit for each token that a grammar may allow at all
  std::array<std::vector<std::uint32_t>, kLeads.size()> after;  // … that may follow a lead byte
  std::vector<char> first, last;                                // bytes of each token

  explicit Vocabulary(const GrammarVocabulary& of)
      : ordinary((of.pieces.size() + 31) / 32), first(of.pieces.size()), last(of.pieces.size()) {
    after.fill(ordinary);
    const auto set = [](std::vector<std::uint32_t>& bits, std::size_t token) {
      bits[token / 32] |= 1U << (token % 32);
    };
    for (std::size_t t = 0; t < of.pieces.size(); ++t) {
      const std::string& piece = of.pieces[t];
      if (piece.empty() || !is_possible(piece)) continue;
      set(ordinary, t);
      first[t] = piece.front();
      last[t] = piece.back();
      for (std::uint8_t lead = 0; lead < kNoLead; ++lead) {
        if (fits(lead, piece.front())) set(after[lead], t);
      }
    }
    for (const TokenId end : of.ends) set(ordinary, static_cast<std::size_t>(end));
  }
};

class Matcher final : public GrammarMatcher {
 public:
  Matcher(xgrammar::GrammarMatcher matcher, std::shared_ptr<const Vocabulary> vocabulary,
          std::uint8_t lead = kNoLead)
      : matcher_(std::move(matcher)), vocabulary_(std::move(vocabulary)), lead_(lead) {}

  Status mask(std::span<std::uint32_t> words) override {
    return walled("constraint", [&]() -> Status {
      if (words.size() != vocabulary_->ordinary.size()) {
        return fail(ErrorCode::invalid_argument, "constraint: its vocabulary has ",
                    vocabulary_->ordinary.size(), " words, the model's ", words.size());
      }
      if (matcher_.IsTerminated()) {
        std::fill(words.begin(), words.end(), 0U);
        return {};
      }
      std::fill(words.begin(), words.end(), ~0U);
      auto shape = static_cast<std::int64_t>(words.size());
      DLTensor tensor{.data = words.data(),
                      .device = {.device_type = kDLCPU, .device_id = 0},
                      .ndim = 1,
                      .dtype = xgrammar::GetBitmaskDLType(),
                      .shape = &shape,
                      .strides = nullptr,
                      .byte_offset = 0};
      matcher_.FillNextTokenBitmask(&tensor);
      const std::vector<std::uint32_t>& may =
          lead_ == kNoLead ? vocabulary_->ordinary : vocabulary_->after[lead_];
      for (std::size_t i = 0; i < words.size(); ++i) words[i] &= may[i];
      return {};
    });
  }

  bool accept(TokenId token) override {
    const auto t = static_cast<std::size_t>(token);
    const std::vector<std::uint32_t>& may = vocabulary_->ordinary;
    if (t / 32 >= may.size() || ((may[t / 32] >> (t % 32)) & 1U) == 0) return false;
    if (!fits(lead_, vocabulary_->first[t])) return false;
    if (!attempt([&] { return !matcher_.IsTerminated() && matcher_.AcceptToken(token); }))
      return false;
    lead_ = lead_of(vocabulary_->last[t]);
    return true;
  }

  bool accept_bytes(std::string_view bytes) override {
    if (bytes.empty()) return true;
    if (!fits(lead_, bytes.front()) || !is_possible(bytes)) return false;
    if (!attempt(
            [&] { return !matcher_.IsTerminated() && matcher_.AcceptString(std::string(bytes)); }))
      return false;
    lead_ = lead_of(bytes.back());
    return true;
  }

  bool complete() const override {
    return attempt([&] { return matcher_.IsTerminated() || matcher_.IsCompleted(); });
  }

  Result<std::unique_ptr<GrammarMatcher>> clone() const override {
    return walled("constraint", [&]() -> Result<std::unique_ptr<GrammarMatcher>> {
      return std::unique_ptr<GrammarMatcher>(new Matcher(matcher_.Fork(), vocabulary_, lead_));
    });
  }

 private:
  template <class Body>
  static bool attempt(const Body& body) {
    try {
      return body();
    } catch (const std::exception&) {
      return false;
    }
  }

  xgrammar::GrammarMatcher matcher_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::uint8_t lead_;  // of kLeads: the last byte, if that is one
};

class Compiled final : public CompiledGrammar {
 public:
  Compiled(xgrammar::CompiledGrammar grammar, std::shared_ptr<const Vocabulary> vocabulary)
      : grammar_(std::move(grammar)),
        vocabulary_(std::move(vocabulary)),
        bytes_(grammar_.MemorySizeBytes()) {}

  Result<std::unique_ptr<GrammarMatcher>> begin() const override {
    return walled("constraint", [&]() -> Result<std::unique_ptr<GrammarMatcher>> {
      return std::unique_ptr<GrammarMatcher>(
          new Matcher(xgrammar::GrammarMatcher(grammar_), vocabulary_));
    });
  }

  std::size_t bytes() const override { return bytes_; }
  std::size_t words() const { return vocabulary_->ordinary.size(); }  // of a mask

 private:
  xgrammar::CompiledGrammar grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::size_t bytes_;
};

/// The grammar of a source, not yet of a vocabulary.
xgrammar::Grammar read_grammar(const ConstraintSource& source, const std::string& text) {
  switch (source.kind) {
    case ConstraintKind::json_schema:
    case ConstraintKind::json_object: {
      const bool fixed = source.strict;
      const bool strict = fixed && source.kind == ConstraintKind::json_schema;
      return xgrammar::Grammar::FromJSONSchema(
          text, !fixed, std::nullopt, std::nullopt, strict,
          fixed ? std::nullopt : std::optional<int>(ConstraintSource::kMostSpaces));
    }
    case ConstraintKind::regex:
      return xgrammar::Grammar::FromRegex(text);
    case ConstraintKind::choice:
    case ConstraintKind::gbnf:
      return xgrammar::Grammar::FromEBNF(text);
    case ConstraintKind::tags:
      return tag_grammar(text);
  }
  throw Refused("a kind that is none");
}

class Compiler final : public GrammarCompiler {
 public:
  explicit Compiler(const GrammarVocabulary& vocabulary)
      : tokens_(vocabulary.pieces, xgrammar::VocabType::RAW,
                static_cast<int>(vocabulary.pieces.size()), vocabulary.ends),
        vocabulary_(std::make_shared<const Vocabulary>(vocabulary)) {}

  Result<std::shared_ptr<const CompiledGrammar>> compile(
      const ConstraintSource& source) const override {
    const std::string_view name = name_of(source);
    return walled(name, [&]() -> Result<std::shared_ptr<const CompiledGrammar>> {
      const Limited limits;
      RUNNEL_TRY(const std::string text, checked(source));
      const xgrammar::Grammar grammar = read_grammar(source, text);
      if (!limits.warning().empty())
        return fail(ErrorCode::invalid_argument, name, ": ", limits.warning());
      runnel_xgrammar_checkpoint(0);
      xgrammar::GrammarCompiler compiler(tokens_, 1, false);
      auto made = std::make_shared<const Compiled>(compiler.CompileGrammar(grammar), vocabulary_);
      if (!limits.warning().empty())
        return fail(ErrorCode::invalid_argument, name, ": ", limits.warning());
      RUNNEL_CHECK_OK(check_not_empty(*made, name));
      return std::shared_ptr<const CompiledGrammar>(std::move(made));
    });
  }

 private:
  // What the compiler reads of the source.
  static Result<std::string> checked(const ConstraintSource& source) {
    switch (source.kind) {
      case ConstraintKind::json_schema:
        return rewrite_schema(source.text, source.strict);
      case ConstraintKind::json_object:
        return std::string(R"({"type": "object"})");
      case ConstraintKind::regex:
        RUNNEL_CHECK_OK(check_depth(source.text, "regex"));
        return source.text;
      case ConstraintKind::choice: {
        RUNNEL_TRY(const std::vector<std::string> texts, read_choices(source.text));
        return choice_grammar(texts);
      }
      case ConstraintKind::gbnf:
        RUNNEL_CHECK_OK(check_depth(source.text, "grammar"));
        return complete_gbnf(source.text);
      case ConstraintKind::tags:
        return check_tags(source.text);
    }
    return fail(ErrorCode::invalid_argument, "constraint: its kind is none");
  }

  static Status check_not_empty(const Compiled& grammar, std::string_view name) {
    RUNNEL_TRY(const std::unique_ptr<GrammarMatcher> matcher, grammar.begin());
    std::vector<std::uint32_t> words(grammar.words());
    RUNNEL_CHECK_OK(matcher->mask(words));
    if (std::ranges::any_of(words, [](std::uint32_t word) { return word != 0; })) return {};
    return fail(ErrorCode::invalid_argument, name,
                ": no text fits it that the model's tokens can make");
  }

  xgrammar::TokenizerInfo tokens_;
  std::shared_ptr<const Vocabulary> vocabulary_;
};

class XGrammarEngine final : public GrammarEngine {
 public:
  Result<std::shared_ptr<const GrammarCompiler>> compiler(
      const GrammarVocabulary& vocabulary) const override {
    return walled("vocabulary", [&]() -> Result<std::shared_ptr<const GrammarCompiler>> {
      return std::shared_ptr<const GrammarCompiler>(std::make_shared<const Compiler>(vocabulary));
    });
  }
};

}  // namespace
}  // namespace runnel

void runnel_xgrammar_takes(std::size_t bytes) {
  using runnel::budget;
  if (budget == nullptr) return;
  if (bytes > budget->bytes) {
    throw runnel::OutOfBudget("takes more than " +
                              std::to_string(runnel::Constraint::kCompileBytes >> 20U) +
                              " MiB to compile");
  }
  budget->bytes -= bytes;
  constexpr unsigned kBetween = 256;  // the clock costs as much as a few of them
  if (++budget->asked % kBetween == 0) runnel_xgrammar_checkpoint(0);
}

void runnel_xgrammar_checkpoint(std::size_t bytes) {
  using runnel::budget;
  if (bytes != 0) runnel_xgrammar_takes(bytes);
  if (budget != nullptr && runnel::computed_seconds() > budget->until)
    throw runnel::OutOfBudget("takes longer than 4 seconds to compile");
}

// XGrammar's messages (XGRAMMAR_LOG_CUSTOMIZE).
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& /*file*/, int /*line*/,
                               const std::string& message);
void LogMessageImpl(const std::string& file, int line, int level, const std::string& message);

void LogFatalImpl(const std::string& /*file*/, int /*line*/, const std::string& message) {
  throw runnel::Refused(message);
}

void LogMessageImpl(const std::string& /*file*/, int /*line*/, int level,
                    const std::string& message) {
  constexpr int kWarning = 2;
  if (level == kWarning && runnel::budget != nullptr && runnel::budget->warning.empty())
    runnel::budget->warning = runnel::plain(message);
}

}  // namespace xgrammar

extern "C" const runnel::GrammarEngine* runnel_grammar_engine() {
  static const runnel::XGrammarEngine engine;
  return &engine;
}
