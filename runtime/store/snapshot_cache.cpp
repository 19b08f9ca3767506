// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/snapshot_cache.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "runtime/base/atomic_file.h"
#include "runtime/base/file_map.h"
#include "runtime/base/system_error.h"
#include "runtime/base/try.h"

namespace runnel {
namespace {

constexpr std::string_view kSuffix = ".snapshot";

std::string file_name(const std::string& name) { return name + std::string(kSuffix); }

}  // namespace

std::string SnapshotCache::name_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  std::array<char, 33> text = {};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text.data();
}

Status SnapshotCache::prepare() const {
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_error(folder_, "make this folder", errno);
  }
  return {};
}

Status SnapshotCache::write(const std::string& name, std::span<const std::byte> bytes) const {
  RUNNEL_CHECK_OK(prepare());
  RUNNEL_TRY(AtomicFile file,
             AtomicFile::create(folder_ / file_name(name), AtomicFile::kPrivateMode, *system_));
  RUNNEL_CHECK_OK(file.write(bytes));
  return file.commit_unsynced();
}

Result<Snapshot> SnapshotCache::read(const std::string& name) const {
  const std::filesystem::path path = folder_ / file_name(name);
  RUNNEL_TRY(const FileMap map, FileMap::open(path));
  // The sections' own checksums say what is damaged; the name need not be compared again.
  return Snapshot::from_bytes(map.bytes());
}

Status SnapshotCache::remove(const std::string& name) const {
  const std::filesystem::path file = folder_ / file_name(name);
  if (system_->unlink(file) != 0 && errno != ENOENT) return system_error(file, "remove", errno);
  return {};
}

Status SnapshotCache::sync() const {
  Status synced = sync_directory(folder_, *system_);
  if (!synced && synced.error().code == ErrorCode::not_found) return {};  // it never had a file
  return synced;
}

void SnapshotCache::sweep(const std::set<std::string>& keep) const {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool ours = name.ends_with(kSuffix) || name.ends_with(".tmp");
    const bool kept =
        name.ends_with(kSuffix) && keep.contains(name.substr(0, name.size() - kSuffix.size()));
    if (ours && !kept) system_->unlink(entry->path());
  }
}

}  // namespace runnel
