// SPDX-License-Identifier: Apache-2.0
// How likely texts are after what a session has read: multiple choice, and ranking.
//
// Example, in a function that returns a Result:
//   std::vector<std::vector<runnel::TokenId>> choices;
//   for (const char* text : {" Paris", " London"}) {
//     auto tokens = model->encode(text);
//     if (!tokens) return tokens.error();
//     choices.push_back(*tokens);
//   }
//   auto scores = runnel::score_choices(session, choices);
//   if (!scores) return scores.error();
//   std::cout << ((*scores)[0].total() > (*scores)[1].total() ? "Paris" : "London") << '\n';
#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "runnel/export.h"
#include "runnel/result.h"
#include "runnel/session.h"
#include "runnel/types.h"

namespace runnel {

/// The log-likelihood of one text, in nats.
struct ChoiceScore {
  std::vector<float> logprobs;  ///< of each token after those before it: log softmax of the logits

  /// That of the text: the sum. A text that cannot come has -inf.
  double total() const {
    double sum = 0;
    for (const float logprob : logprobs) sum += static_cast<double>(logprob);
    return sum;
  }
  /// That of a token, on average: what texts of different lengths are compared by. 0 for an empty text.
  double mean() const {
    return logprobs.empty() ? 0.0 : total() / static_cast<double>(logprobs.size());
  }
};

/// Scores every choice after what `session` has read, which is at least one token, and leaves the session where it is:
/// what comes before the choices is read once, and choices are read together, some in each pass.
/// @param choices  tokens in [0, vocab); of equal ones each is scored
/// @return one score for each choice; invalid_argument for an empty session or a bad token; cancelled; out_of_memory;
///         device if the driver failed.
/// Uses the session as its const methods do: not while another thread feeds it.
RUNNEL_API Result<std::vector<ChoiceScore>> score_choices(
    const Session& session, std::span<const std::vector<TokenId>> choices,
    std::stop_token stop = {});

}  // namespace runnel
