// SPDX-License-Identifier: Apache-2.0
// The checksum of files: a fixed function, the same in one piece or many.
#include "runtime/base/hash.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/base/byte_reader.h"

namespace runnel {
namespace {

TEST(Hash64, IsXxh3OfSeedZero) {
  EXPECT_EQ(hash64({}), 0x2D06800538D394C2ULL);  // published test vector of the empty input
}

TEST(Hasher, InPiecesEqualsHash64OfTheWhole) {
  std::vector<std::byte> bytes(5000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 >> 3);
  Hasher hasher;
  const std::span<const std::byte> all(bytes);
  for (std::size_t at = 0, step = 0; at < all.size(); at += step, ++step) {
    hasher.update(all.subspan(at, std::min(step, all.size() - at)));
  }
  EXPECT_EQ(hasher.digest(), hash64(all));
}

}  // namespace
}  // namespace runnel
