// SPDX-License-Identifier: Apache-2.0
// The generation loop without the session it runs on: what generate() does, on anything that gives
// logits.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>

#include "runnel/generation.h"
#include "runnel/result.h"
#include "runnel/types.h"

namespace runnel {

/// Where tokens come from and go to: a session, or a script in a test.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::span<const float> logits() const = 0;  // [vocab] after the last token
  virtual std::span<const TokenId> recent_tokens() const = 0;
  virtual std::uint64_t position() const = 0;
  virtual Status step(TokenId token) = 0;              // consumes one token
  virtual std::string piece(TokenId token) const = 0;  // its bytes, empty for special tokens
  virtual bool is_end(TokenId token) const = 0;
};

/// What one generation leaves for the next on the same session, so that continuing is never having
/// stopped.
struct GenerationCarry {
  std::string utf8;  // the beginning of a character
  std::string stop;  // text that may be the beginning of a stop string
};

/// generate() on `source`. Draws a token, lets the source consume it, then shows its text: whatever
/// ends the loop, the source stands after the last token of the result, and `carry` holds what of
/// their text was not shown yet.
Result<GenerationResult> run_generation(TokenSource& source, const GenerationOptions& options,
                                        GenerationCarry& carry, const TextCallback& on_text,
                                        const std::stop_token& stop);

}  // namespace runnel
