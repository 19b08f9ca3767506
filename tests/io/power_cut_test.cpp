// SPDX-License-Identifier: Apache-2.0
// What a power cut or a failing disk leaves of a snapshot file that is being replaced: the old one
// or the new one, at every moment.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <optional>

#include "runtime/base/atomic_file.h"
#include "runtime/base/byte_reader.h"
#include "runtime/io/snapshot_file.h"
#include "tests/io/sample_files.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;
using test::sample_snapshot;

struct Operation {
  enum class Kind { create, write, sync_file, sync_directory, rename, remove } kind;
  fs::path path;      // of the file the operation is on
  fs::path to;        // of a rename
  std::string bytes;  // of a write
};

// Does everything for real and remembers it.
class RecordingSystem final : public FileSystem {
 public:
  int open(const fs::path& path, int flags, mode_t mode) const override {
    const int fd = FileSystem::open(path, flags, mode);
    if (fd < 0) return fd;
    opened_[fd] = path;
    if ((flags & O_CREAT) != 0) log_.push_back({Operation::Kind::create, path, {}, {}});
    return fd;
  }
  ssize_t write(int fd, std::span<const std::byte> bytes) const override {
    // In parts, so that there are moments between them.
    const ssize_t written =
        FileSystem::write(fd, bytes.first(std::min<std::size_t>(bytes.size(), 97)));
    if (written > 0) {
      log_.push_back({Operation::Kind::write,
                      opened_[fd],
                      {},
                      std::string(as_text(bytes.first(static_cast<std::size_t>(written))))});
    }
    return written;
  }
  int fsync(int fd) const override {
    const bool directory = fs::is_directory(opened_[fd]);
    log_.push_back({directory ? Operation::Kind::sync_directory : Operation::Kind::sync_file,
                    opened_[fd],
                    {},
                    {}});
    return FileSystem::fsync(fd);
  }
  int rename(const fs::path& from, const fs::path& to) const override {
    log_.push_back({Operation::Kind::rename, from, to, {}});
    return FileSystem::rename(from, to);
  }
  int unlink(const fs::path& path) const override {
    log_.push_back({Operation::Kind::remove, path, {}, {}});
    return FileSystem::unlink(path);
  }
  const std::vector<Operation>& log() const { return log_; }

 private:
  mutable std::map<int, fs::path> opened_;
  mutable std::vector<Operation> log_;
};

// A disk on which nothing is certain that was not synced.
class Disk {
 public:
  Disk(const fs::path& target, const std::string& old) {
    files_.push_back({old, old});
    names_[target] = durable_[target] = 0;
  }

  void apply(const Operation& operation) {
    switch (operation.kind) {
      case Operation::Kind::create:
        names_[operation.path] = files_.size();
        files_.push_back({});
        break;
      case Operation::Kind::write:
        files_[names_[operation.path]].written += operation.bytes;
        break;
      case Operation::Kind::sync_file: {
        File& file = files_[names_[operation.path]];
        file.synced = file.written;
        break;
      }
      case Operation::Kind::rename:
        names_[operation.to] = names_[operation.path];
        names_.erase(operation.path);
        break;
      case Operation::Kind::remove:
        names_.erase(operation.path);
        break;
      case Operation::Kind::sync_directory:
        durable_ = names_;
        break;
    }
  }

  /// What `path` holds after a power cut now: data that was not synced is gone; changes of names
  /// that were not are there or not.
  std::optional<std::string> after_power_cut(const fs::path& path, bool names_kept) const {
    const auto& names = names_kept ? names_ : durable_;
    const auto found = names.find(path);
    if (found == names.end()) return std::nullopt;
    return files_[found->second].synced;
  }

 private:
  struct File {
    std::string written;
    std::string synced;
  };
  std::vector<File> files_;
  std::map<fs::path, std::size_t> names_;
  std::map<fs::path, std::size_t> durable_;
};

std::string bytes_of(const SnapshotData& data) {
  return std::string(as_text(snapshot_to_bytes(data)));
}

SnapshotData newer_snapshot() {
  SnapshotData data = sample_snapshot();
  data.position += 1;
  data.state.assign(2000, 0.5F);
  return data;
}

TEST(PowerCut, LeavesTheOldOrTheNewSnapshotAtEveryMoment) {
  const test::TemporaryDirectory directory;
  const fs::path path = directory.file("talk.snap", bytes_of(sample_snapshot()));
  const RecordingSystem recording;
  ASSERT_TRUE(write_snapshot(path, newer_snapshot(), {}, recording));
  ASSERT_GT(recording.log().size(), 50U);

  Disk disk(path, bytes_of(sample_snapshot()));
  for (const Operation& operation : recording.log()) {
    disk.apply(operation);
    for (const bool names_kept : {false, true}) {
      const auto left = disk.after_power_cut(path, names_kept);
      ASSERT_TRUE(left);
      const auto read = snapshot_from_bytes(as_bytes(*left));
      ASSERT_TRUE(read) << read.error().message;
      ASSERT_TRUE(*read == sample_snapshot() || *read == newer_snapshot());
    }
  }
  // Once it has returned the new one is certain.
  EXPECT_EQ(disk.after_power_cut(path, false), bytes_of(newer_snapshot()));
}

TEST(PowerCut, TheSimulatedDiskCatchesAMissingSync) {
  const test::TemporaryDirectory directory;
  const fs::path path = directory.file("talk.snap", "old");
  const RecordingSystem recording;
  auto file = AtomicFile::create(path, AtomicFile::kPrivateMode, recording);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write(as_bytes("new")));
  ASSERT_TRUE(file->commit_unsynced());
  Disk disk(path, "old");
  for (const Operation& operation : recording.log()) disk.apply(operation);
  EXPECT_EQ(disk.after_power_cut(path, false), "old");
  EXPECT_EQ(disk.after_power_cut(path, true), "");
}

// The nth call of one kind fails.
class FailingSystem final : public FileSystem {
 public:
  enum class Call { open, write, fsync, close, rename };
  FailingSystem(Call call, int nth, int error) : call_(call), left_(nth), error_(error) {}

  int open(const fs::path& path, int flags, mode_t mode) const override {
    return fails(Call::open) ? -1 : FileSystem::open(path, flags, mode);
  }
  ssize_t write(int fd, std::span<const std::byte> bytes) const override {
    if (fails(Call::write)) return -1;
    return FileSystem::write(fd, bytes.first(std::min<std::size_t>(bytes.size(), 1000)));
  }
  int fsync(int fd) const override { return fails(Call::fsync) ? -1 : FileSystem::fsync(fd); }
  int close(int fd) const override {
    const bool fail = fails(Call::close);
    const int closed = FileSystem::close(fd);
    if (!fail) return closed;
    errno = error_;
    return -1;
  }
  int rename(const fs::path& from, const fs::path& to) const override {
    return fails(Call::rename) ? -1 : FileSystem::rename(from, to);
  }

 private:
  bool fails(Call call) const {
    if (call != call_ || left_-- != 0) return false;
    errno = error_;
    return true;
  }
  Call call_;
  mutable int left_;
  int error_;
};

TEST(FailingDisk, LeavesTheOldSnapshotAndNothingElse) {
  using Call = FailingSystem::Call;
  struct Case {
    Call call;
    int nth;
    int error;
    const char* reason;
  };
  const Case cases[] = {
      {Call::open, 0, EACCES, "Permission denied"},
      {Call::open, 0, EROFS, "Read-only file system"},
      {Call::write, 0, ENOSPC, "No space left"},
      {Call::write, 3, ENOSPC, "No space left"},
      {Call::write, 2, EDQUOT, "quota"},
      {Call::fsync, 0, EIO, "Input/output error"},
      {Call::close, 0, EIO, "Input/output error"},
      {Call::rename, 0, EACCES, "Permission denied"},
      {Call::rename, 0, EXDEV, "cross-device"},
  };
  for (const Case& c : cases) {
    const test::TemporaryDirectory directory;
    const fs::path path = directory.file("talk.snap", bytes_of(sample_snapshot()));
    const FailingSystem failing(c.call, c.nth, c.error);
    const Status written = write_snapshot(path, newer_snapshot(), {}, failing);
    ASSERT_FALSE(written) << c.reason;
    EXPECT_EQ(written.error().code, ErrorCode::io);
    EXPECT_THAT(written.error().message, ::testing::HasSubstr(c.reason));
    EXPECT_EQ(test::read_text(path), bytes_of(sample_snapshot()));
    EXPECT_THAT(directory.names(), ::testing::ElementsAre("talk.snap"));
  }
}

}  // namespace
}  // namespace runnel
