// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/hidden_pool.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/try.h"

namespace runnel {

void HiddenPool::add(std::span<const float> hidden) {
  const std::size_t width = sum_.size();
  tokens_ += hidden.size() / width;
  switch (options_.pooling) {
    case Pooling::mean:
      for (std::size_t i = 0; i < hidden.size(); ++i) sum_[i % width] += double{hidden[i]};
      break;
    case Pooling::last:
      if (!hidden.empty())
        std::copy(hidden.end() - static_cast<std::ptrdiff_t>(width), hidden.end(), sum_.begin());
      break;
  }
}

Result<std::vector<float>> HiddenPool::finish() const {
  if (tokens_ == 0)
    return fail(ErrorCode::invalid_argument,
                "embedding: there are no tokens, expected at least one");
  double scale = options_.pooling == Pooling::mean ? 1.0 / static_cast<double>(tokens_) : 1.0;
  if (options_.normalise) {
    double squares = 0;
    for (const double v : sum_) squares += v * v;
    if (squares > 0) scale = 1.0 / std::sqrt(squares);
  }
  std::vector<float> out(sum_.size());
  std::transform(sum_.begin(), sum_.end(), out.begin(),
                 [scale](double v) { return static_cast<float>(v * scale); });
  return out;
}

}  // namespace runnel
