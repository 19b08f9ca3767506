// SPDX-License-Identifier: Apache-2.0
// Who is next when not all can be: plain numbers, so that tests can look at them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace runnel::serve {

/// One that wants a turn.
struct Contender {
  std::string_view client;
  std::uint64_t had = 0;      // of what is shared: the fewer the sooner
  std::uint64_t arrival = 0;  // ties go to who came first
  std::uint64_t skipped = 0;  // turns since its last one
};

/// Those who get one of `places` turns, in the order of `contenders`. Clients share the turns
/// alike; who was skipped kMostSkips times comes before anybody.
std::vector<std::size_t> choose_turns(const std::vector<Contender>& contenders, std::size_t places);

constexpr std::uint64_t kMostSkips = 8;

/// How many tokens of prompts are read between two tokens of running answers: what takes a slice of
/// time, or what a pass over the running answers leaves of their pause.
class PromptPace {
 public:
  /// @param pause  between two tokens of an answer, as far as the pass itself is shorter
  PromptPace(std::size_t most, std::chrono::milliseconds slice, std::chrono::milliseconds pause)
      : most_(most), slice_(slice), pause_(pause) {}

  /// @param others  answers are running
  std::size_t tokens(bool others) const;
  void took(std::size_t tokens, std::chrono::duration<double> time);
  /// What a pass over the running answers took.
  void decoded(std::chrono::duration<double> time);

 private:
  static constexpr std::size_t kLeast = 4;
  static constexpr std::chrono::duration<double> kLeastSlice{0.01};
  const std::size_t most_;
  const std::chrono::duration<double> slice_;
  const std::chrono::duration<double> pause_;
  std::chrono::duration<double> pass_{0};
  double rate_ = 0;  // tokens a second, 0: not known yet
};

}  // namespace runnel::serve
