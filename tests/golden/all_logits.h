// SPDX-License-Identifier: Apache-2.0
// The logits of every token of a text, for the golden vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

#include "runtime/model/engine.h"

namespace runnel::test {

/// [tokens, vocab] logits of `tokens`, fed in pieces of `piece`. Throws on error.
inline std::vector<float> all_logits(Engine& engine, RecurrentState& state,
                                     std::span<const TokenId> tokens, std::size_t piece) {
  const std::size_t vocab = static_cast<std::size_t>(engine.config().vocab_size);
  std::vector<float> logits(tokens.size() * vocab, NAN);
  for (std::size_t at = 0; at < tokens.size(); at += piece) {
    const std::size_t n = std::min(piece, tokens.size() - at);
    const PlanItem item{.state = &state,
                        .tokens = tokens.subspan(at, n),
                        .wanted = LogitsWanted::all,
                        .logits = std::span(logits).subspan(at * vocab, n * vocab)};
    const Status status = engine.run(std::span(&item, 1));
    if (!status) throw std::runtime_error(status.error().message);
  }
  return logits;
}

}  // namespace runnel::test
