// SPDX-License-Identifier: Apache-2.0
// A checkpoint as torch.save() writes it (.pth, .pt): a zip archive with a pickle of the tensors' names and shapes, and
// their numbers.
//
//   RUNNEL_TRY(auto checkpoint, TorchCheckpoint::open("rwkv7-g1-0.1b.pth"));
//   const SafetensorsTensor& emb = checkpoint.tensors().at("emb.weight");
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runnel/result.h"
#include "runtime/base/file_map.h"
#include "runtime/io/safetensors.h"

namespace runnel {

/// All tensors of a file, f32, f16 or bf16, row-major. Immutable and thread-safe; keeps the file mapped. Move-only.
class TorchCheckpoint {
 public:
  /// @return not_found, io, and what read_zip() and read_torch_pickle() return; unsupported for the older format that
  ///         is no archive, and for numbers in another order of bytes.
  static Result<TorchCheckpoint> open(const std::filesystem::path& path);

  /// Checks bytes in memory, which must outlive the result. For tests and fuzzing.
  static Result<TorchCheckpoint> parse(std::span<const std::byte> bytes);

  const std::map<std::string, SafetensorsTensor, std::less<>>& tensors() const { return tensors_; }

 private:
  TorchCheckpoint() = default;
  Status read(std::span<const std::byte> bytes);

  FileMap file_;
  std::vector<std::vector<std::byte>> copies_;  // of tensors whose elements lie in another order
  std::map<std::string, SafetensorsTensor, std::less<>> tensors_;
};

}  // namespace runnel
