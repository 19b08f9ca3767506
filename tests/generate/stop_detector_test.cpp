// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/stop_detector.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"

namespace runnel {
namespace {

struct Outcome {
  std::string shown;
  bool stopped = false;
  bool operator==(const Outcome&) const = default;
};

// By definition: the first byte that completes a stop string, the longest that ends there.
Outcome expected(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return {.shown = text.substr(0, end - longest), .stopped = true};
  }
  return {.shown = text, .stopped = false};
}

Outcome in_pieces(const std::string& text, const std::vector<std::string>& stops,
                  test::Random& random) {
  StopDetector detector(stops);
  Outcome outcome;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = std::min<std::size_t>(text.size() - at, random.below(6));
    outcome.shown += detector.push(std::string_view(text).substr(at, size));
    at += size;
    if (random.below(3) == 0) {  // as if saved and loaded here
      const std::string held(detector.held());
      const bool stopped = detector.stopped();
      if (!stopped) {
        detector = StopDetector(stops);
        EXPECT_EQ(detector.push(held), "");
        EXPECT_EQ(detector.held(), held);
      }
    }
  }
  outcome.stopped = detector.stopped();
  if (!outcome.stopped) outcome.shown += detector.finish();
  return outcome;
}

TEST(StopDetector, GivesTheSameForAnySplitOfTheText) {
  test::Random random(4);
  for (int trial = 0; trial < 4000; ++trial) {
    std::vector<std::string> stops(1 + random.below(3));
    for (std::string& stop : stops) {
      for (std::uint64_t n = 1 + random.below(6); n > 0; --n)
        stop += static_cast<char>('a' + random.below(2));
    }
    std::string text;
    for (std::uint64_t n = random.below(30); n > 0; --n)
      text += static_cast<char>('a' + random.below(3));
    ASSERT_EQ(in_pieces(text, stops, random), expected(text, stops)) << text;
  }
}

TEST(StopDetector, HoldsBackOnlyWhatCanStillBecomeAStopString) {
  StopDetector detector({"\nUser:"});
  EXPECT_EQ(detector.push("Hello\nUs"), "Hello");
  EXPECT_EQ(detector.held(), "\nUs");
  EXPECT_EQ(detector.push("ually"), "\nUsually");
  EXPECT_EQ(detector.held(), "");
}

TEST(StopDetector, ShowsNothingOfOrAfterAStopString) {
  StopDetector detector({"END"});
  EXPECT_EQ(detector.push("the EN"), "the ");
  EXPECT_EQ(detector.push("D of it"), "");
  EXPECT_TRUE(detector.stopped());
  EXPECT_EQ(detector.push("more"), "");
}

TEST(StopDetector, WithoutStopStringsEverythingPasses) {
  StopDetector detector({});
  EXPECT_EQ(detector.push("anything"), "anything");
  EXPECT_EQ(detector.finish(), "");
}

TEST(StopDetector, FinishGivesWhatWasHeldAndBeginsAnew) {
  StopDetector detector({"abc"});
  EXPECT_EQ(detector.push("ab"), "");
  EXPECT_EQ(detector.finish(), "ab");
  EXPECT_EQ(detector.push("c"), "c");
}

}  // namespace
}  // namespace runnel
