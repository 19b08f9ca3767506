// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/constraint_walk.h"

#include <utility>

#include "runtime/base/access.h"
#include "runtime/base/try.h"
#include "runtime/constraint/constraint_cache.h"

namespace runnel {
namespace {

constexpr std::string_view kBegin = "<think>";
constexpr std::string_view kEnd = "</think>";
constexpr std::string_view kSpaces = " \t\r\n";
constexpr std::size_t kMostSpaces = 4;  // tokens between a thought and the answer

bool blank(std::string_view text) { return text.find_first_not_of(kSpaces) == text.npos; }

}  // namespace

ConstraintWalk::ConstraintWalk(std::shared_ptr<const Constraint> constraint, bool thinks)
    : constraint_(std::move(constraint)),
      mask_(Access::impl(*constraint_).vocab),
      splitter_(thinks) {}

Result<ConstraintWalk> ConstraintWalk::begin(std::shared_ptr<const Constraint> constraint,
                                             const AnswerForm& form, const PieceOf& piece,
                                             std::string_view taken) {
  ConstraintWalk walk(std::move(constraint), form.thinks);
  const CompiledGrammar& grammar = *Access::impl(*walk.constraint_).grammar;
  RUNNEL_TRY(walk.matcher_, grammar.begin());
  if (!walk.matcher_->accept_bytes(taken)) {
    return fail(ErrorCode::mismatch, "constraint: the ", taken.size(),
                " bytes that an earlier generation has made do not fit it");
  }
  walk.taken_ = taken;
  if (!form.thinks) return walk;
  RUNNEL_TRY(const std::unique_ptr<GrammarMatcher> probe, grammar.begin());
  // Calls of tools begin so, too, but no text before them does.
  walk.may_open_ = walk.constraint_->source().kind == ConstraintKind::tags ||
                   !probe->accept_bytes(kBegin.substr(0, 1));
  walk.lead_ = !form.lead.empty();
  walk.splitter_.open(form.opening);
  walk.look_at_tokens(piece);
  return walk;
}

void ConstraintWalk::look_at_tokens(const PieceOf& piece) {
  free_ = TokenMask(mask_.vocab());
  for (std::size_t t = 0; t < mask_.vocab(); ++t) {
    const auto token = static_cast<TokenId>(t);
    const std::string_view text = piece(token);
    if (text.empty()) continue;  // special tokens, ends among them
    free_.set(token);
    if (blank(text)) {
      blank_.push_back(token);
      continue;
    }
    if (kSpaces.find(text.front()) != kSpaces.npos) leading_.push_back(token);
    const std::size_t tag = text.find('>');
    if (tag != text.npos && !blank(text.substr(tag + 1))) closing_.emplace_back(token, text);
    const bool within = text.front() == '>' || kBegin.find(text) != kBegin.npos;
    if (within || text.find('<') != text.npos || text.starts_with("think"))
      opening_.emplace_back(token, text);
  }
}

// A thought ends with a tag and white space, so that the text begins with a token of its own.
void ConstraintWalk::mask_thought() {
  mask_ = free_;
  std::string tail(splitter_.held());
  const std::size_t held = tail.size();
  for (const auto& [token, text] : closing_) {
    tail.resize(held);
    tail += text;
    const std::size_t end = tail.find(kEnd);
    if (end != tail.npos && !blank(std::string_view(tail).substr(end + kEnd.size())))
      mask_.set(token, false);
  }
}

// The text, or white space and the tag of a thought before it.
Status ConstraintWalk::mask_before_answer() {
  using Place = ThoughtSplitter::Place;
  const std::string held(splitter_.held());
  if (held.empty()) {
    RUNNEL_CHECK_OK(matcher_->mask(mask_.words()));
    mask_.trim();
    for (const std::vector<TokenId>* spaced : {&blank_, &leading_}) {  // what is not shown
      for (const TokenId token : *spaced) mask_.set(token, false);
    }
  } else {
    // What has begun is a tag, or the text itself.
    RUNNEL_TRY(const std::unique_ptr<GrammarMatcher> ahead, matcher_->clone());
    mask_.clear();
    if (ahead->accept_bytes(held)) {
      RUNNEL_CHECK_OK(ahead->mask(mask_.words()));
      mask_.trim();
    }
  }
  if (splitter_.place() == Place::start && may_open_) {
    for (const auto& [token, text] : opening_) {
      const std::string all = held + text;
      if (kBegin.starts_with(all) || all == kBegin ||
          (all.starts_with(kBegin) && all.find(kEnd) == all.npos))
        mask_.set(token);
    }
  }
  const bool spaces = splitter_.place() == Place::gap || lead_;
  if (spaces && held.empty() && spaces_ < kMostSpaces) {
    for (const TokenId token : blank_) mask_.set(token);
  }
  if (splitter_.tag_is_open()) {
    for (const auto& [token, text] : opening_) {
      if (text.front() == '>' && blank(std::string_view(text).substr(1))) mask_.set(token);
    }
  }
  return {};
}

Result<const TokenMask*> ConstraintWalk::mask() {
  if (masked_) return &mask_;
  if (lost_) return fail(ErrorCode::internal, "constraint: a token was taken that does not fit it");
  if (over_) {
    mask_.clear();
    masked_ = true;
    return &mask_;
  }
  switch (splitter_.place()) {
    case ThoughtSplitter::Place::thought:
      mask_thought();
      break;
    case ThoughtSplitter::Place::start:
    case ThoughtSplitter::Place::gap:
      RUNNEL_CHECK_OK(mask_before_answer());
      break;
    case ThoughtSplitter::Place::answer:
      RUNNEL_CHECK_OK(matcher_->mask(mask_.words()));
      mask_.trim();
      break;
  }
  const bool answers = splitter_.place() == ThoughtSplitter::Place::answer;
  if (mask_.count() == 0 && !(answers && matcher_->complete())) {
    return fail(ErrorCode::internal, "constraint: no token of the model can go on after ",
                taken_.size(), " bytes of the text");
  }
  masked_ = true;
  return &mask_;
}

void ConstraintWalk::took(TokenId token, std::string_view piece) {
  masked_ = false;
  const bool answers = splitter_.place() == ThoughtSplitter::Place::answer;
  if (answers) {
    if (piece.empty()) over_ = true;
    lost_ = lost_ || !matcher_->accept(token);
    taken_ += piece;
    return;
  }
  spaces_ =
      splitter_.place() == ThoughtSplitter::Place::thought ? 0 : spaces_ + (blank(piece) ? 1 : 0);
  const std::string answer = splitter_.push(piece).answer;
  if (piece.empty() && matcher_->accept(token)) {
    over_ = true;  // a text that may be empty
    return;
  }
  lost_ = lost_ || !matcher_->accept_bytes(answer);
  taken_ += answer;
}

std::optional<ConstraintState> ConstraintWalk::state() const {
  if (over_ || lost_) return {};
  const ConstraintSource& source = constraint_->source();
  return ConstraintState{.kind = static_cast<std::uint8_t>(source.kind),
                         .strict = source.strict,
                         .source = source.text,
                         .hash = constraint_->hash(),
                         .taken = taken_};
}

}  // namespace runnel
