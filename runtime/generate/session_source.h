// SPDX-License-Identifier: Apache-2.0
// A session as what a generation draws from, and what a generation leaves in it.
#pragma once

#include <span>
#include <string_view>

#include "runnel/generation.h"
#include "runtime/generate/generation_loop.h"
#include "runtime/model/session_impl.h"
#include "runtime/text/tokenizer.h"

namespace runnel {

class SessionSource final : public TokenSource {
 public:
  explicit SessionSource(Session& session)
      : session_(session), tokenizer_(session.model().tokenizer()) {}

  std::span<const float> logits() const override { return session_.logits(); }
  std::span<const TokenId> recent_tokens() const override { return session_.recent_tokens(); }
  std::uint64_t position() const override { return session_.position(); }
  Status step(TokenId token) override { return session_.impl().step(token); }
  std::string_view piece(TokenId token) const override {
    // Ids past the tokenizer's entries (padding rows of the embedding) have no text.
    if (tokenizer_ == nullptr || token >= tokenizer_->vocab_size()) return {};
    return tokenizer_->piece(token, false, false);
  }
  bool is_end(TokenId token) const override { return session_.model().is_end(token); }

 private:
  Session& session_;
  const Tokenizer* tokenizer_;
};

/// @return unsupported for stop strings without a tokenizer.
Status check_stop_strings(const Model& model, const GenerationOptions& options);

/// Keeps the options, and the text that was not shown, for the next generation.
void keep_after_generation(Session& session, const GenerationOptions& options,
                           GenerationCarry carry);

}  // namespace runnel
