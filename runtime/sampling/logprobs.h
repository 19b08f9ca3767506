// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of tokens.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "runnel/sampling.h"
#include "runnel/types.h"

namespace runnel {

/// log softmax(logits) of `chosen` and of the `top` likeliest tokens. NaN counts as -inf; of several +inf the lowest id
/// is certain.
/// @param logits  [vocab], not empty; `chosen` is one of them
TokenLogprobs token_logprobs(std::span<const float> logits, TokenId chosen, std::size_t top);

/// The same of a distribution (each token once, with its probability).
TokenLogprobs token_logprobs(std::span<const std::pair<TokenId, double>> distribution,
                             TokenId chosen, std::size_t top);

}  // namespace runnel
