// SPDX-License-Identifier: Apache-2.0
#include "tests/store/recorded_disk.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <stdexcept>
#include <utility>

#include "runtime/base/byte_reader.h"

namespace runnel::test {
namespace {

namespace fs = std::filesystem;
using Kind = DiskOperation::Kind;

// SQLite's view of a file: its methods, then what they need. The real file lies behind it.
struct File {
  sqlite3_file base;
  const RecordedDisk* disk;
  std::string* name;
};

File& file_of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

sqlite3_file* real_of(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(&file_of(file) + 1);
}

const RecordedDisk& disk_of(sqlite3_vfs* vfs) {
  return *static_cast<const RecordedDisk*>(vfs->pAppData);
}

int close_file(sqlite3_file* file) {
  delete file_of(file).name;
  return real_of(file)->pMethods->xClose(real_of(file));
}

int read_file(sqlite3_file* file, void* out, int size, sqlite3_int64 offset) {
  return real_of(file)->pMethods->xRead(real_of(file), out, size, offset);
}

int write_file(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  const File& f = file_of(file);
  f.disk->record(
      {.kind = Kind::write,
       .name = *f.name,
       .to = {},
       .offset = static_cast<std::uint64_t>(offset),
       .bytes = std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size))});
  return real_of(file)->pMethods->xWrite(real_of(file), bytes, size, offset);
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  const File& f = file_of(file);
  f.disk->record({.kind = Kind::truncate,
                  .name = *f.name,
                  .to = {},
                  .offset = static_cast<std::uint64_t>(size),
                  .bytes = {}});
  return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

int sync_file(sqlite3_file* file, int flags) {
  const File& f = file_of(file);
  if (f.disk->frozen()) return SQLITE_OK;
  f.disk->record({.kind = Kind::sync, .name = *f.name, .to = {}, .offset = 0, .bytes = {}});
  return real_of(file)->pMethods->xSync(real_of(file), flags);
}

int size_of_file(sqlite3_file* file, sqlite3_int64* size) {
  return real_of(file)->pMethods->xFileSize(real_of(file), size);
}
int lock_file(sqlite3_file* file, int lock) {
  return real_of(file)->pMethods->xLock(real_of(file), lock);
}
int unlock_file(sqlite3_file* file, int lock) {
  return real_of(file)->pMethods->xUnlock(real_of(file), lock);
}
int check_lock(sqlite3_file* file, int* result) {
  return real_of(file)->pMethods->xCheckReservedLock(real_of(file), result);
}
int control_file(sqlite3_file* file, int what, void* argument) {
  return real_of(file)->pMethods->xFileControl(real_of(file), what, argument);
}
int sector_size(sqlite3_file* file) { return real_of(file)->pMethods->xSectorSize(real_of(file)); }
int characteristics(sqlite3_file* file) {
  return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}
int map_shared(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
  return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, out);
}
int lock_shared(sqlite3_file* file, int offset, int n, int flags) {
  return real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}
void shared_barrier(sqlite3_file* file) { real_of(file)->pMethods->xShmBarrier(real_of(file)); }
int unmap_shared(sqlite3_file* file, int remove) {
  return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

// Version 2: with the shared memory of a write-ahead log, without memory maps.
constexpr sqlite3_io_methods kMethods = {.iVersion = 2,
                                         .xClose = close_file,
                                         .xRead = read_file,
                                         .xWrite = write_file,
                                         .xTruncate = truncate_file,
                                         .xSync = sync_file,
                                         .xFileSize = size_of_file,
                                         .xLock = lock_file,
                                         .xUnlock = unlock_file,
                                         .xCheckReservedLock = check_lock,
                                         .xFileControl = control_file,
                                         .xSectorSize = sector_size,
                                         .xDeviceCharacteristics = characteristics,
                                         .xShmMap = map_shared,
                                         .xShmLock = lock_shared,
                                         .xShmBarrier = shared_barrier,
                                         .xShmUnmap = unmap_shared,
                                         .xFetch = nullptr,
                                         .xUnfetch = nullptr};

int open_file(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  const RecordedDisk& disk = disk_of(vfs);
  file->pMethods = nullptr;
  int access = 0;
  const std::string name = path == nullptr ? "" : disk.name_of(path);
  if (path != nullptr) disk.real()->xAccess(disk.real(), path, SQLITE_ACCESS_EXISTS, &access);
  const int code = disk.real()->xOpen(disk.real(), path, real_of(file), flags, out_flags);
  if (code != SQLITE_OK) return code;
  File& f = file_of(file);
  f.disk = &disk;
  f.name = new std::string(name);
  f.base.pMethods = &kMethods;
  if (access == 0)
    disk.record({.kind = Kind::create, .name = name, .to = {}, .offset = 0, .bytes = {}});
  return SQLITE_OK;
}

int remove_file(sqlite3_vfs* vfs, const char* path, int sync_directory) {
  const RecordedDisk& disk = disk_of(vfs);
  disk.record(
      {.kind = Kind::remove, .name = disk.name_of(path), .to = {}, .offset = 0, .bytes = {}});
  if (sync_directory != 0)
    disk.record({.kind = Kind::sync_directory, .name = ".", .to = {}, .offset = 0, .bytes = {}});
  return disk.real()->xDelete(disk.real(), path, sync_directory);
}

}  // namespace

RecordedDisk::RecordedDisk(std::filesystem::path folder)
    : folder_(std::move(folder)), real_(sqlite3_vfs_find(nullptr)) {
  if (real_ == nullptr) throw std::runtime_error("SQLite has no way to files");
  vfs_ = std::make_unique<sqlite3_vfs>(*real_);  // what is not replaced works on any file
  vfs_->zName = "recorded";
  vfs_->pNext = nullptr;
  vfs_->pAppData = this;
  vfs_->szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
  vfs_->xOpen = open_file;
  vfs_->xDelete = remove_file;
  sqlite3_vfs_register(vfs_.get(), 1);
}

RecordedDisk::~RecordedDisk() {
  sqlite3_vfs_unregister(vfs_.get());
  sqlite3_vfs_register(real_, 1);
}

std::string RecordedDisk::name_of(const std::filesystem::path& path) const {
  return path.lexically_relative(folder_).string();
}

int RecordedDisk::open(const std::filesystem::path& path, int flags, mode_t mode) const {
  const int fd = FileSystem::open(path, flags, mode);
  if (fd < 0) return fd;
  opened_[fd] = {name_of(path), 0};
  if ((flags & O_CREAT) != 0)
    record({.kind = Kind::create, .name = name_of(path), .to = {}, .offset = 0, .bytes = {}});
  return fd;
}

ssize_t RecordedDisk::write(int fd, std::span<const std::byte> bytes) const {
  const ssize_t written = FileSystem::write(fd, bytes);
  auto& [name, offset] = opened_[fd];
  if (written <= 0) return written;
  const auto count = static_cast<std::size_t>(written);
  record({.kind = Kind::write,
          .name = name,
          .to = {},
          .offset = offset,
          .bytes = std::string(as_text(bytes.first(count)))});
  offset += count;
  return written;
}

int RecordedDisk::fsync(int fd) const {
  if (frozen_) return 0;
  const std::string& name = opened_[fd].first;
  const bool directory = std::filesystem::is_directory(folder_ / name);
  record({.kind = directory ? Kind::sync_directory : Kind::sync,
          .name = name,
          .to = {},
          .offset = 0,
          .bytes = {}});
  return FileSystem::fsync(fd);
}

int RecordedDisk::rename(const std::filesystem::path& from, const std::filesystem::path& to) const {
  record(
      {.kind = Kind::rename, .name = name_of(from), .to = name_of(to), .offset = 0, .bytes = {}});
  return FileSystem::rename(from, to);
}

int RecordedDisk::unlink(const std::filesystem::path& path) const {
  record({.kind = Kind::remove, .name = name_of(path), .to = {}, .offset = 0, .bytes = {}});
  return FileSystem::unlink(path);
}

void RecordedDisk::mark(std::uint64_t number) const {
  record({.kind = Kind::mark, .name = {}, .to = {}, .offset = number, .bytes = {}});
}

void UnsyncedDisk::change(std::string& contents, const DiskOperation& operation) {
  const auto at = static_cast<std::size_t>(operation.offset);
  if (operation.kind == Kind::truncate) {
    contents.resize(at);
    return;
  }
  if (contents.size() < at + operation.bytes.size()) contents.resize(at + operation.bytes.size());
  contents.replace(at, operation.bytes.size(), operation.bytes);
}

// One that nobody was seen making was there, empty: the library makes its database itself.
UnsyncedDisk::File& UnsyncedDisk::file_named(const std::string& name) {
  if (!names_.contains(name)) {
    names_[name] = durable_[name] = files_.size();
    files_.emplace_back();
  }
  return files_[names_[name]];
}

void UnsyncedDisk::sync_names(const fs::path& directory) {
  const auto inside = [&](const auto& entry) {
    return fs::path(entry.first).parent_path() == directory;
  };
  std::erase_if(durable_, inside);
  for (const auto& entry : names_) {
    if (inside(entry)) durable_.insert(entry);
  }
}

void UnsyncedDisk::apply(const DiskOperation& operation) {
  const std::string& name = operation.name;
  switch (operation.kind) {
    case Kind::create:
      names_[name] = files_.size();
      files_.push_back({.synced = {}, .pending = {}, .made = true});
      break;
    case Kind::write:
    case Kind::truncate:
      file_named(name).pending.push_back(operation);
      break;
    case Kind::sync: {
      File& file = file_named(name);
      for (const DiskOperation& change_made : file.pending) change(file.synced, change_made);
      file.pending.clear();
      // SQLite syncs the directory, too, when it first syncs a log that it made; and nothing else
      // here both makes a file and syncs it.
      if (std::exchange(file.made, false)) sync_names(fs::path(name).parent_path());
      break;
    }
    case Kind::sync_directory:
      sync_names(name == "." ? "" : name);
      break;
    case Kind::rename:
      names_[operation.to] = names_[name];
      names_.erase(name);
      break;
    case Kind::remove:
      names_.erase(name);
      break;
    case Kind::mark:
      break;
  }
}

std::map<std::string, std::string> UnsyncedDisk::after_power_cut(Random* dice) const {
  std::map<std::string, std::size_t> names = durable_;
  if (dice != nullptr && dice->below(2) == 0) names = names_;
  std::map<std::string, std::string> left;
  for (const auto& [name, index] : names) {
    std::string contents = files_[index].synced;
    for (const DiskOperation& pending : files_[index].pending) {
      if (dice != nullptr && dice->below(2) == 0) change(contents, pending);
    }
    left[name] = std::move(contents);
  }
  return left;
}

}  // namespace runnel::test
