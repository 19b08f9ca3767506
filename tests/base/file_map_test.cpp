// SPDX-License-Identifier: Apache-2.0
// Mapped files: the bytes of a file, and errors for what is none.
#include "runtime/base/file_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "runtime/base/byte_reader.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using test::TemporaryDirectory;
using ::testing::HasSubstr;

TEST(FileMap, HoldsTheBytesOfAFile) {
  const TemporaryDirectory directory;
  const auto map = FileMap::open(directory.file("a", "hello"));
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(as_text(map->bytes()), "hello");
}

TEST(FileMap, KeepsItsBytesWhenMoved) {
  const TemporaryDirectory directory;
  auto map = FileMap::open(directory.file("a", "hello"));
  ASSERT_TRUE(map);
  const auto* before = map->bytes().data();
  FileMap other = *std::move(map);
  FileMap third;
  third = std::move(other);
  EXPECT_EQ(third.bytes().data(), before);
  EXPECT_EQ(as_text(third.bytes()), "hello");
}

TEST(FileMap, OfAnEmptyFileIsEmpty) {
  const TemporaryDirectory directory;
  const auto map = FileMap::open(directory.file("empty", ""));
  ASSERT_TRUE(map);
  EXPECT_TRUE(map->bytes().empty());
}

TEST(FileMap, SaysNotFoundForAMissingFile) {
  const TemporaryDirectory directory;
  const auto map = FileMap::open(directory.path() / "none.gguf");
  ASSERT_FALSE(map);
  EXPECT_EQ(map.error().code, ErrorCode::not_found);
  EXPECT_THAT(map.error().message, HasSubstr("none.gguf"));
}

TEST(FileMap, RefusesADirectory) {
  const TemporaryDirectory directory;
  const auto map = FileMap::open(directory.path());
  ASSERT_FALSE(map);
  EXPECT_EQ(map.error().code, ErrorCode::io);
  EXPECT_THAT(map.error().message, HasSubstr("is a directory"));
}

TEST(FileMap, DoesNotWaitForAPipe) {
  const TemporaryDirectory directory;
  const auto pipe = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto map = FileMap::open(pipe);
  ASSERT_FALSE(map);
  EXPECT_THAT(map.error().message, HasSubstr("no regular file"));
}

}  // namespace
}  // namespace runnel
