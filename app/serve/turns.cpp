// SPDX-License-Identifier: Apache-2.0
#include "app/serve/turns.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace runnel::serve {

std::vector<std::size_t> choose_turns(const std::vector<Contender>& contenders,
                                      std::size_t places) {
  std::vector<std::size_t> order(contenders.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (contenders.size() <= places) return order;
  const auto key = [&](std::size_t i) {
    const Contender& c = contenders[i];
    return std::tuple(c.skipped < kMostSkips, c.had, c.arrival);
  };
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) < key(b); });
  // Each one's rank among its client's, so that every client's first comes before any's second.
  std::map<std::string_view, std::size_t> seen;
  std::vector<std::size_t> rank(contenders.size());
  for (const std::size_t i : order) rank[i] = seen[contenders[i].client]++;
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    const bool due_a = contenders[a].skipped >= kMostSkips;
    const bool due_b = contenders[b].skipped >= kMostSkips;
    return std::tuple(!due_a, due_a ? 0 : rank[a]) < std::tuple(!due_b, due_b ? 0 : rank[b]);
  });
  order.resize(places);
  std::sort(order.begin(), order.end());
  return order;
}

std::size_t PromptPace::tokens(bool others) const {
  if (!others) return most_;
  if (rate_ == 0) return std::min<std::size_t>(most_, kLeast * 4);
  const auto slice = std::max(kLeastSlice, std::min(slice_, pause_ - pass_));
  return std::clamp(static_cast<std::size_t>(rate_ * slice.count()), kLeast, most_);
}

void PromptPace::decoded(std::chrono::duration<double> time) { pass_ += (time - pass_) / 4; }

void PromptPace::took(std::size_t tokens, std::chrono::duration<double> time) {
  const double now = static_cast<double>(tokens) / std::max(time.count(), 1e-6);
  // Slower is believed at once, faster by and by.
  rate_ = rate_ == 0 || now < rate_ ? now : 0.75 * rate_ + 0.25 * now;
}

}  // namespace runnel::serve
