// SPDX-License-Identifier: Apache-2.0
// The logits of every token of a text, for the golden vectors.
#pragma once

#include <span>
#include <vector>

#include "runtime/model/engine.h"
#include "tests/support/random_model.h"

namespace runnel::test {

/// [tokens, vocab] logits of `tokens`, fed in pieces of `piece`. Throws on error.
inline std::vector<float> all_logits(Engine& engine, RecurrentState& state,
                                     std::span<const TokenId> tokens, std::size_t piece) {
  return run_in_pieces(engine.config().vocab_size, state, tokens, piece,
                       [&engine](std::span<const PlanItem> items) { return engine.run(items); });
}

}  // namespace runnel::test
