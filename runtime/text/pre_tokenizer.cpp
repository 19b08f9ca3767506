// SPDX-License-Identifier: Apache-2.0
// Pre-tokenizers over PCRE2 (compiled to machine code where it can).
#include "runtime/text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {

namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

// Spaces by Unicode's White_Space. PCRE2's own \s also has U+180E, which lost that property in Unicode 6.3.
#define RUNNEL_SPACES \
  R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"

// GPT-2's expression, 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ ,
// with possessive quantifiers where backtracking cannot help.
constexpr const char* kGpt2 = R"('(?:[stmd]|re|ve|ll)| ?\p{L}++| ?\p{N}++)"
                              R"(| ?[^)" RUNNEL_SPACES R"(\p{L}\p{N}]++)"
                              R"(|[)" RUNNEL_SPACES R"(]+(?![^)" RUNNEL_SPACES R"(]))"
                              R"(|[)" RUNNEL_SPACES R"(]++)";

// Every digit cut out first, then GPT-2's expression on what lies between: in one expression a
// digit is a word, and spaces before a digit end as they do at the end of a text.
constexpr const char* kDigitsThenGpt2 =
    R"('(?:[stmd]|re|ve|ll)| ?\p{L}++|\p{N})"
    R"(| ?[^)" RUNNEL_SPACES R"(\p{L}\p{N}]++)"
    R"(|[)" RUNNEL_SPACES R"(]+(?![^)" RUNNEL_SPACES R"(\p{N}]))"
    R"(|[)" RUNNEL_SPACES R"(]++)";

// Qwen2's expression, which qwen2_expression() has as it is usually spelled. "\s*[\r\n]+" takes spaces up to the last
// line break among them: here as runs of other spaces and breaks, so that nothing is tried twice.
constexpr const char* kQwen2 = R"((?i:'(?:[stmd]|re|ve|ll))|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N})"
                               R"(| ?[^)" RUNNEL_SPACES R"(\p{L}\p{N}]++[\r\n]*+)"
                               R"(|(?:(?:(?![\r\n])[)" RUNNEL_SPACES R"(])*+[\r\n]++)++)"
                               R"(|[)" RUNNEL_SPACES R"(]+(?![^)" RUNNEL_SPACES R"(]))"
                               R"(|[)" RUNNEL_SPACES R"(]++)";

// What llama.cpp does for "default" with four expressions one after another, each within the pieces of the one before:
// runs of punctuation apart, [\p{P}\$\+<=>\^~\|]+ ; GPT-2's; digits apart, \p{N}+ ; three ASCII digits apart,
// [0-9][0-9][0-9]. Here as one: punctuation is a word by itself and ends the text before it, so spaces before it stay
// together and no contraction is left; a space before a digit is a word.
#define RUNNEL_MARKS R"(\p{P}$+<=>^~|)"
constexpr const char* kDefault =
    R"([)" RUNNEL_MARKS R"(]++| ?\p{L}++)"
    R"(|[0-9]{3}|(?:(?![0-9]{3})\p{N})++)"
    R"(| ?[^)" RUNNEL_SPACES RUNNEL_MARKS R"(\p{L}\p{N}]++)"
    R"(|[)" RUNNEL_SPACES R"(]+(?![^)" RUNNEL_SPACES RUNNEL_MARKS R"(]))"
    R"(|[)" RUNNEL_SPACES R"(]++)";
#undef RUNNEL_MARKS
#undef RUNNEL_SPACES

constexpr std::string_view kQwen2Name = "qwen2";

const char* expression_of(std::string_view name) {
  if (name == "gpt-2" || name == "olmo" || name == "mpt") return kGpt2;
  if (name == "default") return kDefault;
  if (name == kQwen2Name) return kQwen2;
  constexpr std::array<std::string_view, 5> kDigitsApart = {"smollm", "starcoder", "refact",
                                                            "command-r", "codeshell"};
  if (std::find(kDigitsApart.begin(), kDigitsApart.end(), name) != kDigitsApart.end())
    return kDigitsThenGpt2;
  return nullptr;
}

}  // namespace

struct PreTokenizer::Impl {
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool compiled = false;  // to machine code
  bool wants_nfc = false;
};

struct PreTokenizer::Cutter::Impl {
  const pcre2_code* code = nullptr;
  bool compiled = false;
  std::unique_ptr<pcre2_match_data, FreeMatch> match;
  std::string_view text;
  std::size_t at = 0;
};

PreTokenizer::PreTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;
PreTokenizer::Cutter::Cutter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PreTokenizer::Cutter::~Cutter() = default;

Result<PreTokenizer> PreTokenizer::create(std::string_view name) {
  const char* expression = expression_of(name);
  if (expression == nullptr)
    return fail(ErrorCode::unsupported, "pre-tokenizer ", in_quotes(name),
                ": is not one of gpt-2, olmo, mpt, default, smollm, starcoder, refact, command-r, "
                "codeshell, qwen2");
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto impl = std::make_unique<Impl>();
  impl->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression), PCRE2_ZERO_TERMINATED,
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr));
  if (!impl->code)
    return fail(ErrorCode::internal, "pre-tokenizer '", name, "': PCRE2 error ", error, " at ",
                offset);
  impl->compiled = pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE) == 0;
  impl->wants_nfc = name == kQwen2Name;
  return PreTokenizer(std::move(impl));
}

bool PreTokenizer::wants_nfc() const { return impl_->wants_nfc; }

std::string_view PreTokenizer::qwen2_expression() {
  return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
         R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

Result<std::unique_ptr<PreTokenizer::Cutter>> PreTokenizer::cutter() const {
  auto impl = std::make_unique<Cutter::Impl>();
  impl->code = impl_->code.get();
  impl->compiled = impl_->compiled;
  impl->match.reset(pcre2_match_data_create(1, nullptr));
  if (!impl->match) return fail(ErrorCode::out_of_memory, "encode: no memory for a match");
  return std::unique_ptr<Cutter>(new Cutter(std::move(impl)));
}

void PreTokenizer::Cutter::start(std::string_view text) {
  impl_->text = text;
  impl_->at = 0;
}

Result<std::string_view> PreTokenizer::Cutter::next() {
  Impl& s = *impl_;
  if (s.at >= s.text.size()) return std::string_view();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(s.text.data());
  const int rc =
      s.compiled ? pcre2_jit_match(s.code, subject, s.text.size(), s.at, 0, s.match.get(), nullptr)
                 : pcre2_match(s.code, subject, s.text.size(), s.at, PCRE2_NO_UTF_CHECK,
                               s.match.get(), nullptr);
  const PCRE2_SIZE end = rc > 0 ? pcre2_get_ovector_pointer(s.match.get())[1] : 0;
  // Every character is a letter, a number, a space or something else, so there is always a word.
  if (rc <= 0 || end <= s.at)
    return fail(ErrorCode::internal, "encode: PCRE2 result ", rc, " at byte ", s.at);
  const std::string_view word = s.text.substr(s.at, end - s.at);
  s.at = end;
  return word;
}

}  // namespace runnel
