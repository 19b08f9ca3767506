// SPDX-License-Identifier: Apache-2.0
// Replacing files: the old one or the whole new one, and nothing left over.
#include "runtime/base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/byte_reader.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;
using test::read_text;
using test::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(AtomicFile, WritesAFileOfTheGivenMode) {
  const TemporaryDirectory directory;
  const fs::path target = directory.path() / "state";
  const Status status = write_file_atomically(target, as_bytes("secret"), AtomicFile::kPrivateMode);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(read_text(target), "secret");
  EXPECT_EQ(fs::status(target).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_THAT(directory.names(), ElementsAre("state"));
}

TEST(AtomicFile, ReplacesAnOldFileOnlyAtCommit) {
  const TemporaryDirectory directory;
  const fs::path target = directory.file("f", "old");
  auto file = AtomicFile::create(target);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->write(as_bytes("new ")));
  ASSERT_TRUE(file->write(as_bytes("text")));
  EXPECT_EQ(file->size(), 8U);
  EXPECT_EQ(read_text(target), "old");
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(read_text(target), "new text");
}

TEST(AtomicFile, LeavesNothingWhenNotCommitted) {
  const TemporaryDirectory directory;
  const fs::path target = directory.file("f", "old");
  {
    auto file = AtomicFile::create(target);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(as_bytes("half")));
    AtomicFile moved = *std::move(file);
    EXPECT_EQ(directory.names().size(), 2U);
  }
  EXPECT_THAT(directory.names(), ElementsAre("f"));
  EXPECT_EQ(read_text(target), "old");
}

TEST(AtomicFile, WritesThroughASymbolicLink) {
  const TemporaryDirectory directory;
  const fs::path target = directory.file("f", "old");
  fs::create_symlink("f", directory.path() / "link");
  ASSERT_TRUE(write_file_atomically(directory.path() / "link", as_bytes("new")));
  EXPECT_TRUE(fs::is_symlink(directory.path() / "link"));
  EXPECT_EQ(read_text(target), "new");
  EXPECT_THAT(directory.names(), UnorderedElementsAre("f", "link"));
}

TEST(AtomicFile, TakesNamesAsLongAsTheFileSystemDoes) {
  const TemporaryDirectory directory;
  const Status status =
      write_file_atomically(directory.path() / std::string(255, 'n'), as_bytes("x"));
  EXPECT_TRUE(status) << status.error().message;
}

TEST(AtomicFile, NamesTheDirectoryThatIsMissing) {
  const TemporaryDirectory directory;
  const Status status = write_file_atomically(directory.path() / "none" / "f", as_bytes("x"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::not_found);
  EXPECT_THAT(status.error().message, HasSubstr("none"));
}

TEST(AtomicFile, ReplacesNoDirectoryAndNoDevice) {
  const TemporaryDirectory directory;
  const Status onto_directory = write_file_atomically(directory.path(), as_bytes("x"));
  ASSERT_FALSE(onto_directory);
  EXPECT_THAT(onto_directory.error().message, HasSubstr("is a directory"));
  const Status onto_device = write_file_atomically("/dev/null", as_bytes("x"));
  ASSERT_FALSE(onto_device);
  EXPECT_THAT(onto_device.error().message, HasSubstr("no regular file"));
  EXPECT_FALSE(write_file_atomically("", as_bytes("x")));
}

}  // namespace
}  // namespace runnel
