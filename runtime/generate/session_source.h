// SPDX-License-Identifier: Apache-2.0
// A session as what a generation draws from, and what a generation leaves in it.
#pragma once

#include <span>
#include <string_view>

#include "runnel/generation.h"
#include "runtime/generate/answer_settler.h"
#include "runtime/generate/generation_loop.h"
#include "runtime/model/session_impl.h"
#include "runtime/text/tokenizer.h"

namespace runnel {

/// The text of a token within a sequence. Special tokens, and ids past the tokenizer's entries (padding rows of the
/// embedding), have none.
inline std::string_view piece_of(const Tokenizer* tokenizer, TokenId token) {
  if (tokenizer == nullptr || token >= tokenizer->vocab_size()) return {};
  return tokenizer->piece(token, false, false);
}

class SessionSource final : public TokenSource {
 public:
  explicit SessionSource(Session& session, AnswerSettler* settler = nullptr)
      : session_(session), tokenizer_(tokenizer_of(session.model())), settler_(settler) {}
  SessionSource(const SessionSource&) = delete;
  SessionSource& operator=(const SessionSource&) = delete;
  /// Leaves a session that is no longer ahead of its tokens.
  ~SessionSource() override;

  /// For a session that does not draw ahead, or not yet.
  std::span<const float> logits() const override { return impl_of(session_).logits(); }
  std::span<const TokenId> generated_tokens() const override {
    return impl_of(session_).generated_tokens();
  }
  std::uint64_t position() const override { return session_.position(); }
  Status step(std::span<const TokenId> tokens) override { return impl_of(session_).step(tokens); }
  Status mark(std::size_t taken) override {
    return settler_ == nullptr ? Status() : settler_->mark(session_, taken);
  }
  Result<bool> draw_ahead(TokenId first, const SamplingOptions& sampling, bool masked) override;
  Status queue() override { return impl_of(session_).queue_step(); }
  Status mask(const TokenMask& mask) override { return impl_of(session_).mask_step(mask); }
  Result<TokenId> drawn() override { return impl_of(session_).drawn_token(); }
  /// After the last token: its logits are the session's. Whatever failed while it was drawn ahead.
  Status settle() override;
  std::string_view piece(TokenId token) const override { return piece_of(tokenizer_, token); }
  bool is_end(TokenId token) const override { return session_.model().is_end(token); }

 private:
  Session& session_;
  const Tokenizer* tokenizer_;
  AnswerSettler* settler_;  // null: the answer is not settled
  bool ahead_ = false;      // the session draws ahead for this source
};

/// @return unsupported for stop strings without a tokenizer; mismatch for a constraint of another model.
Status check_for_model(const Model& model, const GenerationOptions& options);

/// Keeps the options, and the text that was not shown, for the next generation.
void keep_after_generation(Session& session, const GenerationOptions& options,
                           GenerationCarry carry);

}  // namespace runnel
