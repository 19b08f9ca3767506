// SPDX-License-Identifier: Apache-2.0
// Writes the tensors of a model into a GGUF file, each in the storage type that follows from its role and the wanted
// type.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "quant/formats.h"
#include "runnel/result.h"
#include "runtime/io/gguf.h"
#include "runtime/model/weight_table.h"
#include "runtime/model/weights.h"

namespace runnel {

/// A tensor to write. `source` is viewed until the file is written.
struct ModelTensor {
  WeightView source;                // with its final name
  std::vector<std::int64_t> shape;  // as in the file
  WeightRole role = WeightRole::matrix;
};

/// Tensors whose name a pattern matches get this type instead.
struct TypeOverride {
  std::string pattern;  // Perl-compatible regular expression, found anywhere in the name
  quant::BlockType type = quant::BlockType::f32;
};

struct StoreOptions {
  // of linear weights; other roles follow, see storage_type
  quant::BlockType type = quant::BlockType::f32;
  std::vector<TypeOverride> overrides;  // the last that matches counts
  int threads = 1;
  bool measure_error = false;           // fills StoredTensor::relative_rms
  std::uint64_t split_bytes = 0;        // most bytes of a part of a split file; 0: one file
  std::function<bool(float)> progress;  // fraction done; false cancels
};

/// How one tensor was stored.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  quant::BlockType from = quant::BlockType::f32;
  quant::BlockType wanted = quant::BlockType::f32;  // `to`, unless the row length did not allow it
  quant::BlockType to = quant::BlockType::f32;
  std::uint64_t bytes = 0;
  int part = 0;             // of a split file, from 1; 0 in one file
  double relative_rms = 0;  // of (stored - source) against source; 0 when copied
};

/// The type for a tensor of `role` in a file of linear weights of `type`:
///   norms, biases, convs, t2r maps   f32
///   gates                            f32 for f32, bf16 for bf16, else f16
///   embedding, head and wide gates   BlockTraits::for_tables of `type`: they are read by every token's logits, or
///                                    multiply its state
///   linear weights                   `type`
quant::BlockType storage_type(WeightRole role, quant::BlockType type);

/// `type`, or the first that follows it (BlockTraits::for_odd_rows) whose blocks fit rows of `cols`; at last f16.
quant::BlockType fitting_type(quant::BlockType type, std::int64_t cols);

/// Adds the tensors to `writer`, which has all other keys already, and writes the file or its parts.
/// @return how every tensor was stored, in order; invalid_argument for a bad pattern, one that matches no tensor,
///         or a type its tensor cannot have; malformed, naming tensor and value, for a weight that is not finite; and
///         what GgufWriter::write or write_split returns.
Result<std::vector<StoredTensor>> write_model(const std::vector<ModelTensor>& tensors,
                                              GgufWriter& writer, const std::filesystem::path& path,
                                              const StoreOptions& options);

}  // namespace runnel
