// SPDX-License-Identifier: Apache-2.0
// Room on a disk that no other program can fill: deleting writes before it frees anything.
#pragma once

#include <cstdint>
#include <filesystem>

namespace runnel {

/// A file of zeros (0600) whose blocks are given back when a full disk stands in the way of a deletion.
class Reserve {
 public:
  explicit Reserve(std::filesystem::path file) : file_(std::move(file)) {}

  /// Makes it this large or lets it grow to that. Where there is no room for it, it stays as it is.
  void keep(std::uint64_t bytes) const;

  /// Gives back so many bytes of it, or all. @return whether there were any.
  bool release(std::uint64_t bytes = UINT64_MAX) const;

 private:
  std::filesystem::path file_;
};

}  // namespace runnel
