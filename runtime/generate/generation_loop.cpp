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

}  // namespace

TokenLoop::TokenLoop(const GenerationOptions& options, const TextCallback& on_text, Sampler sampler)
    : options_(&options),
      on_text_(&on_text),
      sampler_(std::move(sampler)),
      detector_(options.stop) {
  const auto reserved =
      static_cast<std::size_t>(std::min<std::uint64_t>(options.max_tokens, kReservedTokens));
  result_.tokens.reserve(reserved);
  result_.text.reserve(reserved * kReservedBytes);
}

Result<TokenLoop> TokenLoop::create(const GenerationOptions& options, std::size_t vocab_size,
                                    const GenerationCarry& carry, const TextCallback& on_text,
                                    PieceOf piece) {
  RUNNEL_CHECK_OK(check_stops(options.stop));
  if (options.logprobs < -1 || options.logprobs > GenerationOptions::kMostLogprobs) {
    return fail(ErrorCode::invalid_argument, "logprobs is ", options.logprobs,
                ", expected -1 (none) to ", std::int32_t{GenerationOptions::kMostLogprobs});
  }
  if (vocab_size == 0) {
    return fail(ErrorCode::invalid_argument,
                "the session is empty, expected at least one token before generating");
  }
  RUNNEL_TRY(
      Sampler sampler,
      Sampler::create(options.sampling, static_cast<std::int32_t>(vocab_size), std::move(piece)));
  TokenLoop loop(options, on_text, std::move(sampler));
  if (options.on_logits) loop.own_.resize(vocab_size);
  if (carry.mirostat_mu) loop.sampler_.set_mirostat_mu(*carry.mirostat_mu);
  RUNNEL_CHECK_OK(loop.characters_.restore(carry.utf8));
  loop.show(loop.detector_.push(carry.stop));
  return loop;
}

void TokenLoop::show(std::string_view text) {
  if (text.empty()) return;
  result_.text += text;
  if (*on_text_ && !(*on_text_)(text)) refused_ = true;
}

void TokenLoop::end(FinishReason reason) {
  result_.reason = reason;
  over_ = true;
}

bool TokenLoop::goes_on(bool stop_requested) {
  if (over_) return false;
  if (result_.tokens.size() >= options_->max_tokens) {
    end(FinishReason::length);
  } else if (stop_requested) {
    end(FinishReason::cancelled);
  }
  return !over_;
}

Result<std::optional<TokenId>> TokenLoop::choose(std::span<const float> logits,
                                                 std::span<const TokenId> generated,
                                                 std::uint64_t position, bool stop_requested) {
  if (!goes_on(stop_requested)) return std::optional<TokenId>();
  const std::span<const float> models = logits;
  if (options_->on_logits) {
    own_.assign(logits.begin(), logits.end());
    if (!options_->on_logits(own_, result_.tokens)) {
      end(FinishReason::callback);
      return std::optional<TokenId>();
    }
    logits = own_;
  }
  RUNNEL_TRY(const TokenId token, sampler_.sample(logits, generated, position));
  if (options_->logprobs >= 0) {
    const auto top = static_cast<std::size_t>(options_->logprobs);
    if (options_->logprobs_of_draw) {
      RUNNEL_TRY(const auto drawn, sampler_.distribution(logits, generated, position));
      chosen_ = token_logprobs(drawn, token, top);
    } else {
      chosen_ = token_logprobs(models, token, top);
    }
  }
  return std::optional(token);
}

void TokenLoop::took(TokenId token, bool is_end, std::string_view piece) {
  result_.tokens.push_back(token);
  sampler_.took();
  if (options_->logprobs >= 0) {
    if (options_->on_logprobs) options_->on_logprobs(chosen_);
    result_.logprobs.push_back(std::move(chosen_));
  }
  if (is_end && !options_->ignore_end) {
    // No more text will come: shows what was held back.
    show(detector_.push(characters_.flush()));
    const bool stopped = detector_.stopped();
    if (!stopped) show(detector_.finish());
    end(stopped ? FinishReason::stop_text : FinishReason::end);
    return;
  }
  show(detector_.push(characters_.push(piece)));
  if (detector_.stopped()) {
    end(FinishReason::stop_text);
  } else if (refused_) {
    end(FinishReason::callback);
  }
}

GenerationResult TokenLoop::finish(GenerationCarry& carry) {
  carry = {};
  if (result_.reason != FinishReason::end && result_.reason != FinishReason::stop_text) {
    carry = {.utf8 = characters_.carry(),
             .stop = std::string(detector_.held()),
             .mirostat_mu = sampler_.mirostat_mu()};
  }
  result_.held_back = carry.stop;
  return std::move(result_);
}

namespace {

/// The loop after its first token on a source that draws the others itself. A token is queued
/// before it is known, so that the source computes it while the text of the one before is shown; a token that is
/// queued is always part of the result.
Status run_ahead(TokenSource& source, TokenLoop& loop, TokenId token, const std::stop_token& stop) {
  RUNNEL_CHECK_OK(source.queue());
  while (true) {
    loop.took(token, source.is_end(token), source.piece(token));
    if (!loop.goes_on(stop.stop_requested())) return {};
    RUNNEL_CHECK_OK(source.queue());
    RUNNEL_TRY(token, source.drawn());
  }
}

}  // namespace

Result<GenerationResult> run_generation(TokenSource& source, const GenerationOptions& options,
                                        GenerationCarry& carry, const TextCallback& on_text,
                                        const std::stop_token& stop) {
  RUNNEL_TRY(TokenLoop loop, TokenLoop::create(options, source.logits().size(), carry, on_text,
                                               [&source](TokenId t) { return source.piece(t); }));
  bool first = true;
  while (!loop.over()) {
    RUNNEL_TRY(const std::optional<TokenId> token,
               loop.choose(source.logits(), source.generated_tokens(), source.position(),
                           stop.stop_requested()));
    if (!token) break;
    if (first && !options.on_logits && options.logprobs < 0 && options.max_tokens > 1) {
      RUNNEL_TRY(const bool ahead, source.draw_ahead(*token, options.sampling));
      if (ahead) {
        RUNNEL_CHECK_OK(run_ahead(source, loop, *token, stop));
        break;
      }
    }
    first = false;
    RUNNEL_CHECK_OK(source.step(*token));
    loop.took(*token, source.is_end(*token), source.piece(*token));
  }
  return loop.finish(carry);
}

}  // namespace runnel
