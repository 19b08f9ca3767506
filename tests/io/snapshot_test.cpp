// SPDX-License-Identifier: Apache-2.0
// Snapshot files: what is saved is what is loaded, privately, whole, and readable by later versions.
#include "runnel/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/access.h"
#include "runtime/base/byte_reader.h"
#include "runtime/io/snapshot_file.h"
#include "tests/io/sample_files.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;
using test::sample_snapshot;
using test::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SnapshotFile, ReadsBackEverything) {
  const Result<SnapshotData> read = snapshot_from_bytes(snapshot_to_bytes(sample_snapshot()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, sample_snapshot());
}

SnapshotData generating_snapshot() {
  SnapshotData data = sample_snapshot();
  data.generated_tokens = 2;
  data.sampler.dry = {.multiplier = 0.8F,
                      .base = 2.0F,
                      .allowed_length = 3,
                      .range = 512,
                      .breakers = {"\n", "**"}};
  return data;
}

TEST(SnapshotFile, ReadsBackWhatWasGenerated) {
  const SnapshotData data = generating_snapshot();
  const Result<SnapshotData> read = snapshot_from_bytes(snapshot_to_bytes(data));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, data);
}

TEST(SnapshotFile, ReadsBackTheChain) {
  SnapshotData data = sample_snapshot();
  data.sampler.chain = {.top_n_sigma = 1.0F,
                        .typical_p = 0.9F,
                        .xtc_probability = 0.5F,
                        .xtc_threshold = 0.2F,
                        .dynatemp_range = 0.3F,
                        .dynatemp_exponent = 2.0F,
                        .mirostat = 2,
                        .mirostat_tau = 4.0F,
                        .mirostat_eta = 0.25F,
                        .no_repeat_ngram = 3,
                        .banned_texts = {"no", "never"},
                        .order = {4, 3}};
  data.mirostat_mu = 7.5F;
  const auto read = snapshot_from_bytes(snapshot_to_bytes(data));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, data);
}

TEST(SnapshotFile, RefusesMoreGeneratedThanRecentTokens) {
  SnapshotData data = generating_snapshot();
  data.generated_tokens = data.recent_tokens.size() + 1;
  const Result<SnapshotData> read = snapshot_from_bytes(snapshot_to_bytes(data));
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("section 9 (generation): has 4 generated tokens"));
}

TEST(SnapshotFile, RefusesBreakersThatAreNotThere) {
  const std::vector<std::byte> good = snapshot_to_bytes(generating_snapshot());
  std::vector<std::byte> bad = good;
  // The count of breakers lies behind a u64 and four numbers of 32 bits in the last section.
  std::uint64_t offset = 0;
  std::memcpy(&offset, good.data() + 40 + 6 * 32 + 8, sizeof offset);
  bad[static_cast<std::size_t>(offset) + 8 + 16 + 3] = std::byte{0x7f};
  const Result<SnapshotData> read = snapshot_from_bytes(bad, Checksums::ignore);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("breaker count is 2130706434"));
}

TEST(SnapshotFile, ReadsBackAnEmptySession) {
  const SnapshotData empty;
  const Result<SnapshotData> read = snapshot_from_bytes(snapshot_to_bytes(empty));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, empty);
}

TEST(SnapshotFile, NamesAWindowOnlyWhereItIsNotTheFiles) {
  SnapshotData data = sample_snapshot();
  const std::vector<std::byte> without = snapshot_to_bytes(data);
  const auto sections = [](const std::vector<std::byte>& bytes) {
    return outline_snapshot(bytes)->sections.size();
  };
  for (const std::int32_t window : {0, 1, 252, 1 << 14}) {
    data.window_slots = window;
    const std::vector<std::byte> bytes = snapshot_to_bytes(data);
    EXPECT_EQ(sections(bytes), sections(without) + 1);
    const auto read = snapshot_from_bytes(bytes);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, data);
  }
}

TEST(SnapshotFile, RefusesAWindowThatNoModelHas) {
  for (const std::int32_t window : {-1, (1 << 14) + 1}) {
    SnapshotData data = sample_snapshot();
    data.window_slots = window;
    const auto read = snapshot_from_bytes(snapshot_to_bytes(data));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::malformed);
    EXPECT_NE(read.error().message.find("section 10 (window)"), std::string::npos);
  }
}

TEST(SnapshotFile, KeepsTheBitsOfEveryFloat) {
  SnapshotData data = sample_snapshot();
  data.state = {-0.0F, std::numeric_limits<float>::denorm_min(), std::nanf("7"), -INFINITY};
  const Result<SnapshotData> read = snapshot_from_bytes(snapshot_to_bytes(data));
  ASSERT_TRUE(read);
  EXPECT_EQ(std::memcmp(read->state.data(), data.state.data(), 4 * sizeof(float)), 0);
}

TEST(SnapshotFile, GivesTheSameBytesForTheSameData) {
  EXPECT_EQ(snapshot_to_bytes(sample_snapshot()), snapshot_to_bytes(sample_snapshot()));
}

TEST(SnapshotFile, PassesOverUnknownOptionalSectionsOfALaterMinorVersion) {
  std::vector<std::byte> bytes = snapshot_to_bytes(sample_snapshot());
  bytes[10] = std::byte{7};             // minor version
  bytes[40 + 5 * 32] = std::byte{200};  // the sampler becomes a section of the future
  // the checksum covers both edits
  const auto read = snapshot_from_bytes(bytes, Checksums::ignore);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->has_sampler);
  EXPECT_EQ(read->state, sample_snapshot().state);
}

TEST(Snapshot, SavesPrivatelyAndLoads) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "chat.snapshot";
  const auto snapshot =
      Access::make<Snapshot>(std::make_shared<const SnapshotData>(sample_snapshot()));
  const Status saved = snapshot.save(path);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_THAT(directory.names(), ElementsAre("chat.snapshot"));

  const Result<Snapshot> loaded = Snapshot::load(path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(data_of(*loaded), sample_snapshot());
  EXPECT_EQ(loaded->position(), sample_snapshot().position);
  EXPECT_EQ(loaded->model_fingerprint(), sample_snapshot().model_fingerprint);
  EXPECT_GT(loaded->bytes(), sample_snapshot().state.size() * sizeof(float));
}

TEST(Snapshot, SavingReplacesAWiderFileByAPrivateOne) {
  const TemporaryDirectory directory;
  const fs::path path = directory.file("s", "old");
  fs::permissions(path, fs::perms::owner_all | fs::perms::others_read);
  ASSERT_TRUE(make_snapshot(std::make_shared<const SnapshotData>(sample_snapshot())).save(path));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(Snapshot, NamesTheFileThatCannotBeLoaded) {
  const TemporaryDirectory directory;
  const auto missing = Snapshot::load(directory.path() / "none");
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  const auto empty = Snapshot::load(directory.file("empty.snapshot", ""));
  EXPECT_EQ(empty.error().code, ErrorCode::malformed);
  EXPECT_THAT(empty.error().message, HasSubstr("empty.snapshot: snapshot header: "));
}

}  // namespace
}  // namespace runnel
