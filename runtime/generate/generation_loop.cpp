// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/generation_loop.h"

#include <algorithm>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/sampling/logprobs.h"
#include "runtime/text/utf8.h"

namespace runnel {
namespace {

// What is reserved at once, so that a token allocates nothing; longer generations grow as vectors do.
constexpr std::uint64_t kReservedTokens = 65'536;
constexpr std::uint64_t kReservedBytes = 8;  // of text for each

Status check_stops(const std::vector<std::string>& stops) {
  for (std::size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) {
      return fail(ErrorCode::invalid_argument, "stop string ", i,
                  " is empty, expected at least one character");
    }
    if (first_invalid_utf8(stops[i]) != std::string_view::npos) {
      return fail(ErrorCode::invalid_argument, "stop string ", i, " is not UTF-8");
    }
  }
  return {};
}

// Whether the only token that a constraint leaves is what the draw would give.
bool draws_forced_tokens(const GenerationOptions& options) {
  const SamplingOptions& s = options.sampling;
  const bool forbids =
      std::ranges::any_of(s.logit_bias, [](const auto& bias) { return !(bias.second > -1e30F); });
  return !options.on_logits && options.logprobs < 0 && s.no_repeat_ngram == 0 &&
         s.banned_texts.empty() && !forbids;
}

std::vector<std::string> stop_texts(const GenerationOptions& options) {
  std::vector<std::string> all = options.stop;
  all.insert(all.end(), options.answer.stop.begin(), options.answer.stop.end());
  return all;
}

}  // namespace

Status check_options(const GenerationOptions& options) {
  RUNNEL_CHECK_OK(check_stops(options.stop));
  if (options.logprobs < -1 || options.logprobs > GenerationOptions::kMostLogprobs) {
    return fail(ErrorCode::invalid_argument, "logprobs is ", options.logprobs,
                ", expected -1 (none) to ", std::int32_t{GenerationOptions::kMostLogprobs});
  }
  if (options.constraint != nullptr && options.ignore_end) {
    return fail(ErrorCode::invalid_argument,
                "ignore_end is set with a constraint, whose text has an end");
  }
  return {};
}

TokenLoop::TokenLoop(const GenerationOptions& options, const TextCallback& on_text, Sampler sampler)
    : options_(&options),
      on_text_(&on_text),
      sampler_(std::move(sampler)),
      detector_(stop_texts(options)),
      splitter_(options.answer.thinks) {
  const auto reserved =
      static_cast<std::size_t>(std::min<std::uint64_t>(options.max_tokens, kReservedTokens));
  result_.tokens.reserve(reserved);
  result_.text.reserve(reserved * kReservedBytes);
}

Result<TokenLoop> TokenLoop::create(const GenerationOptions& options, std::size_t vocab_size,
                                    const GenerationCarry& carry, const TextCallback& on_text,
                                    PieceOf piece) {
  RUNNEL_CHECK_OK(check_options(options));
  if (vocab_size == 0) {
    return fail(ErrorCode::invalid_argument,
                "the session is empty, expected at least one token before generating");
  }
  std::optional<ConstraintWalk> walk;
  if (options.constraint != nullptr) {
    const bool same = carry.constraint && carry.constraint->hash == options.constraint->hash();
    RUNNEL_TRY(walk, ConstraintWalk::begin(options.constraint, options.answer, piece,
                                           same ? carry.constraint->taken : std::string_view()));
  }
  RUNNEL_TRY(
      Sampler sampler,
      Sampler::create(options.sampling, static_cast<std::int32_t>(vocab_size), std::move(piece)));
  TokenLoop loop(options, on_text, std::move(sampler));
  loop.walk_ = std::move(walk);
  loop.forces_ = loop.walk_ && draws_forced_tokens(options);
  if (options.on_logits) loop.own_.resize(vocab_size);
  if (carry.mirostat_mu) loop.sampler_.set_mirostat_mu(*carry.mirostat_mu);
  RUNNEL_CHECK_OK(loop.characters_.restore(carry.utf8));
  loop.splitter_.open(options.answer.opening);
  loop.show(loop.detector_.push(carry.stop));
  return loop;
}

void TokenLoop::show(std::string_view text) {
  if (text.empty()) return;
  if (settles()) record_.visible += text;
  show_parts(splitter_.push(text));
}

void TokenLoop::show_parts(const ThoughtSplitter::Text& parts) {
  const auto give = [&](const std::string& text, std::string& all, const TextCallback& to) {
    if (text.empty()) return;
    all += text;
    if (to && !to(text)) refused_ = true;
  };
  give(parts.thought, result_.thought, options_->on_thought);
  give(parts.answer, result_.text, *on_text_);
}

void TokenLoop::record(TokenId token, std::size_t bytes) {
  if (!settles()) return;
  record_.tokens.push_back(token);
  record_.ends.push_back((record_.ends.empty() ? 0 : record_.ends.back()) + bytes);
  record_.whole.push_back(characters_.carry().empty());
}

bool TokenLoop::wants_mark(std::string_view piece) const {
  if (!settles() || !detector_.held().empty()) return false;
  const auto begins = [&](const std::string& stop) {
    std::size_t n = std::min(piece.size(), stop.size() - 1);
    while (n > 0 && !stop.starts_with(piece.substr(piece.size() - n))) --n;
    return n > 0 || piece.find(stop) != piece.npos;
  };
  return std::any_of(options_->stop.begin(), options_->stop.end(), begins) ||
         std::any_of(options_->answer.stop.begin(), options_->answer.stop.end(), begins);
}

AnswerRecord TokenLoop::take_record() { return std::move(record_); }

// Whether a transcript has another text than the one that was generated. White space in place of the lead is left out
// of answers; without any the words stand as they are.
bool TokenLoop::rewrites() const {
  if (splitter_.has_thought()) return true;
  const std::size_t before = record_.visible.size() - result_.text.size();
  return before > 0 && record_.visible.substr(0, before) != options_->answer.lead;
}

void TokenLoop::finish_answer() {
  const bool ended =
      result_.reason == FinishReason::end || result_.reason == FinishReason::stop_text;
  // Nothing goes on with it, so what may have begun a stop text is part of it.
  if (!ended) show(detector_.finish());
  show_parts(splitter_.finish());
  if (!settles() || !rewrites()) return;
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t size =
      options_->answer.trims ? result_.text.find_last_not_of(kSpaces) + 1 : result_.text.size();
  record_.rewritten = result_.text.substr(0, size);
}

void TokenLoop::end(FinishReason reason) {
  result_.reason = reason;
  over_ = true;
}

bool TokenLoop::may_take_more(bool stop_requested) {
  if (over_) return false;
  if (result_.tokens.size() >= options_->max_tokens) {
    end(FinishReason::length);
  } else if (stop_requested) {
    end(FinishReason::cancelled);
  }
  return !over_;
}

Result<bool> TokenLoop::goes_on(bool stop_requested) {
  if (!may_take_more(stop_requested)) return false;
  if (!walk_) return true;
  RUNNEL_TRY(const TokenMask* const mask, walk_->mask());
  if (mask->count() == 0) end_text();
  return !over_;
}

Result<std::optional<TokenId>> TokenLoop::choose(std::span<const float> logits,
                                                 std::span<const TokenId> generated,
                                                 std::uint64_t position, bool stop_requested) {
  if (!may_take_more(stop_requested)) return std::optional<TokenId>();
  const std::span<const float> models = logits;
  if (options_->on_logits) {
    own_.assign(logits.begin(), logits.end());
    if (!options_->on_logits(own_, result_.tokens)) {
      end(FinishReason::callback);
      return std::optional<TokenId>();
    }
    logits = own_;
  }
  const TokenMask* mask = nullptr;
  if (walk_) {
    RUNNEL_TRY(mask, walk_->mask());
    if (mask->count() == 0) {
      end_text();
      return std::optional<TokenId>();
    }
  }
  RUNNEL_TRY(const TokenId token, sampler_.sample(logits, generated, position, mask));
  if (options_->logprobs >= 0) {
    const auto top = static_cast<std::size_t>(options_->logprobs);
    if (options_->logprobs_of_draw) {
      RUNNEL_TRY(const auto drawn, sampler_.distribution(logits, generated, position, mask));
      chosen_ = token_logprobs(drawn, token, top);
    } else {
      chosen_ = token_logprobs(models, token, top);
    }
  }
  return std::optional(token);
}

std::optional<TokenId> TokenLoop::forced(bool stop_requested) {
  if (!forces_) return {};
  const Result<const TokenMask*> mask = walk_->mask();
  if (!mask) return {};  // choose() has the error
  const TokenId only = (*mask)->only();
  if (only < 0 || !may_take_more(stop_requested)) return {};
  sampler_.sample_certain();
  return only;
}

// No more text will come: shows what was held back.
void TokenLoop::end_text() {
  show(detector_.push(characters_.flush()));
  const bool stopped = detector_.stopped();
  if (!stopped) show(detector_.finish());
  end(stopped ? FinishReason::stop_text : FinishReason::end);
}

void TokenLoop::walk(TokenId token, bool is_end, std::string_view piece) {
  if (walk_ && !walked_) walk_->took(token, is_end ? std::string_view() : piece);
}

Result<const TokenMask*> TokenLoop::mask_behind(TokenId token, bool is_end,
                                                std::string_view piece) {
  walk(token, is_end, piece);
  walked_ = true;
  return walk_->mask();
}

void TokenLoop::took(TokenId token, bool is_end, std::string_view piece) {
  result_.tokens.push_back(token);
  walk(token, is_end, piece);
  walked_ = false;
  sampler_.took();
  if (options_->logprobs >= 0) {
    if (options_->on_logprobs) options_->on_logprobs(chosen_);
    result_.logprobs.push_back(std::move(chosen_));
  }
  if (is_end && !options_->ignore_end) {
    end_text();
    return;
  }
  const std::string_view whole = characters_.push(piece);
  record(token, whole.size());
  show(detector_.push(whole));
  if (detector_.stopped()) {
    end(FinishReason::stop_text);
  } else if (refused_) {
    end(FinishReason::callback);
  }
}

GenerationResult TokenLoop::finish(GenerationCarry& carry) {
  carry = {};
  if (settles() || options_->answer.thinks) {
    finish_answer();
  } else if (result_.reason != FinishReason::end && result_.reason != FinishReason::stop_text) {
    carry = {.utf8 = characters_.carry(),
             .stop = std::string(detector_.held()),
             .unread = {},
             .mirostat_mu = sampler_.mirostat_mu(),
             .constraint = walk_ ? walk_->state() : std::nullopt};
  }
  result_.kept = result_.tokens;
  result_.held_back = carry.stop;
  return std::move(result_);
}

namespace {

bool may_draw_ahead(const GenerationOptions& options) {
  return !options.on_logits && options.logprobs < 0 && options.max_tokens > 1;
}

/// So many certain tokens after one another are worth a pass of their own, for which drawing ahead stops and begins
/// again; the device draws fewer from masks of one bit.
constexpr std::size_t kWorthAPass = 8;

/// Tokens that are part of the result and that the source has still to consume: one, and what is forced after it.
class Pending {
 public:
  explicit Pending(TokenSource& source) : source_(&source) {}

  Status add(TokenId token) {
    tokens_.push_back(token);
    return tokens_.size() < Constraint::kMostForced ? Status() : feed();
  }
  /// The source stands after all of them.
  Status feed() {
    if (tokens_.empty()) return {};
    Status fed = source_->step(tokens_);
    tokens_.clear();
    return fed;
  }

 private:
  TokenSource* source_;
  std::vector<TokenId> tokens_;
};

/// The loop on a source that draws tokens itself. A token is queued before it is known, so that the source computes it
/// while the text of the one before is shown; a token that is queued is always part of the result.
///
/// With a constraint the draw of what is queued waits for its mask, which is known with the token before: it is given
/// before that token's text is shown, since another session may wait for the draw while a callback waits for that.
class Ahead {
 public:
  Ahead(TokenSource& source, TokenLoop& loop, const std::stop_token& stop)
      : source_(&source), loop_(&loop), stop_(&stop) {}

  /// From a token that the source was asked to draw ahead from, until the generation is over or tokens are certain
  /// that are worth a pass: those, and what of them is still to be consumed, are in certain().
  Status run(TokenId token) {
    RUNNEL_CHECK_OK(source_->queue());
    while (true) {
      RUNNEL_CHECK_OK(take(token));
      RUNNEL_TRY(bool goes_on, loop_->goes_on(stop_->stop_requested()));
      if (!goes_on) return {};
      take_certain();
      if (!certain_.empty()) {
        RUNNEL_TRY(goes_on, loop_->goes_on(stop_->stop_requested()));
        if (!goes_on || certain_.size() == kWorthAPass) return source_->settle();
        RUNNEL_CHECK_OK(queue_certain());
      }
      RUNNEL_CHECK_OK(source_->queue());
      RUNNEL_TRY(token, source_->drawn());
    }
  }

  std::span<const TokenId> certain() const { return certain_; }

 private:
  Status take(TokenId token) {
    const bool is_end = source_->is_end(token);
    const std::string_view piece = source_->piece(token);
    if (loop_->constrained()) {
      RUNNEL_TRY(const TokenMask* const mask, loop_->mask_behind(token, is_end, piece));
      RUNNEL_CHECK_OK(source_->mask(*mask));
    }
    loop_->took(token, is_end, piece);
    return {};
  }

  void take_certain() {
    while (certain_.size() < kWorthAPass) {
      const std::optional<TokenId> token = loop_->forced(stop_->stop_requested());
      if (!token) return;
      certain_.push_back(*token);
      loop_->took(*token, source_->is_end(*token), source_->piece(*token));
    }
  }

  /// The source draws them one after the other, since its masks leave it no choice.
  Status queue_certain() {
    for (std::size_t i = 0; i < certain_.size(); ++i) {
      RUNNEL_CHECK_OK(source_->queue());
      RUNNEL_TRY(const TokenMask* mask, loop_->mask());
      if (i + 1 < certain_.size()) {
        only_ = TokenMask(mask->vocab());
        only_.set(certain_[i + 1]);
        mask = &only_;
      }
      RUNNEL_CHECK_OK(source_->mask(*mask));
      RUNNEL_TRY(const TokenId drawn, source_->drawn());
      if (drawn != certain_[i]) {
        return fail(ErrorCode::internal, "generate: token ", drawn, " was drawn where ",
                    certain_[i], " alone may come");
      }
    }
    certain_.clear();
    return {};
  }

  TokenSource* source_;
  TokenLoop* loop_;
  const std::stop_token* stop_;
  std::vector<TokenId> certain_;  // taken without being drawn
  TokenMask only_;
};

}  // namespace

Result<GenerationResult> run_generation(TokenSource& source, const GenerationOptions& options,
                                        GenerationCarry& carry, const TextCallback& on_text,
                                        const std::stop_token& stop, AnswerRecord* record) {
  RUNNEL_TRY(TokenLoop loop, TokenLoop::create(options, source.logits().size(), carry, on_text,
                                               [&source](TokenId t) { return source.piece(t); }));
  bool ahead = may_draw_ahead(options);
  Pending pending(source);
  while (!loop.over()) {
    std::optional<TokenId> token = loop.forced(stop.stop_requested());
    const bool certain = token.has_value();
    if (!token) {
      RUNNEL_CHECK_OK(pending.feed());
      RUNNEL_TRY(token, loop.choose(source.logits(), source.generated_tokens(), source.position(),
                                    stop.stop_requested()));
    }
    if (!token) break;
    if (ahead && !certain) {
      RUNNEL_TRY(ahead, source.draw_ahead(*token, options.sampling, loop.constrained()));
      if (ahead) {
        Ahead drawing(source, loop, stop);
        RUNNEL_CHECK_OK(drawing.run(*token));
        for (const TokenId taken : drawing.certain()) RUNNEL_CHECK_OK(pending.add(taken));
        continue;
      }
    }
    // A reading of the transcript has no end token.
    const bool consumed = !loop.settles() || options.ignore_end || !source.is_end(*token);
    if (loop.wants_mark(source.piece(*token))) {
      RUNNEL_CHECK_OK(pending.feed());
      RUNNEL_CHECK_OK(source.mark(loop.taken()));
    }
    if (consumed) RUNNEL_CHECK_OK(pending.add(*token));
    // With a constraint the next token may be certain, and is then fed together with this one.
    if (options.constraint == nullptr) RUNNEL_CHECK_OK(pending.feed());
    loop.took(*token, source.is_end(*token), source.piece(*token));
  }
  RUNNEL_CHECK_OK(pending.feed());
  GenerationResult result = loop.finish(carry);
  if (record != nullptr) *record = loop.take_record();
  return result;
}

}  // namespace runnel
