// SPDX-License-Identifier: Apache-2.0
// The hidden states of a text's tokens, pooled to one vector as they come.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runnel/result.h"
#include "runnel/session.h"

namespace runnel {

/// e = mean of h, or the last h; e <- e / |e| if it shall be normalised. Sums are in double.
class HiddenPool {
 public:
  /// @param width  D, of each hidden state
  HiddenPool(std::size_t width, const EmbeddingOptions& options)
      : options_(options), sum_(width, 0.0) {}

  /// @param hidden  [tokens, D], of the tokens after those before
  void add(std::span<const float> hidden);

  /// @return invalid_argument if there were no tokens
  Result<std::vector<float>> finish() const;

 private:
  EmbeddingOptions options_;
  std::vector<double> sum_;
  std::size_t tokens_ = 0;
};

}  // namespace runnel
