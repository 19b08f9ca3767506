// SPDX-License-Identifier: Apache-2.0
// Takes tensors out of a checkpoint by name, with checked shapes, and names those that nothing asked for.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/safetensors.h"
#include "runtime/model/weights.h"

namespace runnel {

class TensorTaker {
 public:
  explicit TensorTaker(const SafetensorsCheckpoint& checkpoint) : checkpoint_(checkpoint) {}

  bool has(const std::string& name) const { return checkpoint_.find(name) != nullptr; }

  /// The shape of `name`. @return malformed if it is missing
  Result<std::vector<std::int64_t>> shape(const std::string& name) const;

  /// The tensor `name`, whose shape must be `shape`, as a [rows, cols] view.
  /// @return malformed, naming the tensor and the shapes; unsupported for what is no float
  Result<WeightView> take(const std::string& name, const std::vector<std::int64_t>& shape);

  /// Passes over a tensor that nothing computes with.
  void leave(const std::string& name) { taken_.insert(name); }

  /// unsupported, with names of tensors that were never requested: they belong to a computation that would be left out.
  Status expect_all_taken() const;

 private:
  const SafetensorsCheckpoint& checkpoint_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace runnel
