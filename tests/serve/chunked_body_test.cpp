// SPDX-License-Identifier: Apache-2.0
// Bodies in chunks: read alike however their bytes are cut, and strictly.
#include "app/serve/net/chunked_body.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace runnel::serve {
namespace {

constexpr std::size_t kMostBytes = 64;

struct Seen {
  ChunkedBody::State state = ChunkedBody::State::more;
  std::string body;
  std::size_t taken = 0;

  bool operator==(const Seen&) const = default;
};

// Gives the bytes in pieces whose sizes `next` says.
template <class Next>
Seen read_in(std::string_view bytes, const Next& next) {
  ChunkedBody chunks(kMostBytes);
  Seen seen;
  std::string waiting;
  while (!bytes.empty() && seen.state == ChunkedBody::State::more) {
    const std::size_t n = std::min(bytes.size(), next());
    waiting += bytes.substr(0, n);
    bytes.remove_prefix(n);
    const ChunkedBody::Step step = chunks.read(waiting);
    waiting.erase(0, step.taken);
    seen.state = step.state;
    seen.taken += step.taken;
  }
  seen.body = chunks.body();
  return seen;
}

Seen read_at_once(std::string_view bytes) {
  return read_in(bytes, [] { return std::string_view::npos; });
}

TEST(ChunkedBody, IsWhatItsChunksHold) {
  const std::string bytes = "3\r\nabc\r\nA;x=\"y\"\r\n0123456789\r\n0\r\nName: value\r\n\r\n";
  EXPECT_EQ(read_at_once(bytes + "GET /"),
            (Seen{ChunkedBody::State::done, "abc0123456789", bytes.size()}));
}

TEST(ChunkedBody, IsNoLongerThanAllowed) {
  EXPECT_EQ(read_at_once("41\r\n").state, ChunkedBody::State::too_large);
  EXPECT_EQ(read_at_once("fffffffffffffffff\r\n").state, ChunkedBody::State::too_large);
  EXPECT_EQ(read_at_once("40\r\n" + std::string(64, 'a') + "\r\n1\r\n").state,
            ChunkedBody::State::too_large);
}

TEST(ChunkedBody, RefusesWhatReadersDisagreeAbout) {
  for (const std::string_view bytes :
       {"1\n", "1;a\n", "1;a=\"\n\"\r\n", "1\r1", "1 2\r\n", "0x1\r\n", "+1\r\n", "\r\n", ";a\r\n",
        "1;\x7f\r\n", "1\r\nab", "1\r\na\n", "0\r\nname\r\n", "0\r\n: v\r\n", "0\r\na: b\n"})
    EXPECT_EQ(read_at_once(bytes).state, ChunkedBody::State::wrong) << bytes;
  EXPECT_EQ(read_at_once("1;" + std::string(kMostChunkLine, 'a')).state, ChunkedBody::State::wrong);
  EXPECT_EQ(read_at_once("0\r\n" +
                         [] {
                           std::string trailers;
                           for (int i = 0; i < 100; ++i)
                             trailers += "a: " + std::string(500, 'b') + "\r\n";
                           return trailers;
                         }())
                .state,
            ChunkedBody::State::wrong);
}

TEST(ChunkedBody, IsReadAlikeHoweverItIsCut) {
  std::mt19937 random(3);
  const std::string whole = "5;e=\"f\"\r\nhello\r\n0a\r\n0123456789\r\n0\r\nA: b\r\n\r\nGET /";
  constexpr std::string_view kBytes = "\r\n\t ;0aF:\"\x01";
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole;
    for (unsigned changes = random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % bytes.size();
      const char byte = kBytes[random() % kBytes.size()];
      if (random() % 2 == 0) {
        bytes[at] = byte;
      } else {
        bytes.insert(at, 1, byte);
      }
    }
    const Seen expected = read_at_once(bytes);
    const Seen cut = read_in(bytes, [&random] { return std::size_t{1} + random() % 7; });
    ASSERT_EQ(cut.state, expected.state) << bytes;
    if (expected.state == ChunkedBody::State::done) {
      ASSERT_EQ(cut, expected) << bytes;
    }
  }
}

}  // namespace
}  // namespace runnel::serve
