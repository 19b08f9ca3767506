// SPDX-License-Identifier: Apache-2.0
// Tensors of a safetensors file, for tests that compare with stored vectors.
#pragma once

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "runnel/types.h"
#include "runtime/io/safetensors.h"

namespace runnel::test {

/// A file of reference vectors. Every look-up throws if the tensor is not there.
class Vectors {
 public:
  explicit Vectors(const std::filesystem::path& file) : file_(SafetensorsCheckpoint::open(file)) {
    if (!file_) throw std::runtime_error(file_.error().message);
  }

  bool has(const std::string& name) const { return file_->find(name) != nullptr; }

  std::vector<float> floats(const std::string& name) const {
    auto values = to_f32(tensor(name));
    if (!values) throw std::runtime_error(values.error().message);
    return *std::move(values);
  }

  std::vector<TokenId> tokens(const std::string& name) const {
    const SafetensorsTensor& t = tensor(name);
    if (t.type != SafetensorsType::i32)
      throw std::runtime_error(name + ": expected 32-bit integers");
    std::vector<TokenId> ids(static_cast<std::size_t>(t.elements()));
    std::memcpy(ids.data(), t.bytes.data(), t.bytes.size());
    return ids;
  }

  const std::vector<std::int64_t>& shape(const std::string& name) const {
    return tensor(name).shape;
  }

 private:
  const SafetensorsTensor& tensor(const std::string& name) const {
    const SafetensorsTensor* t = file_->find(name);
    if (t == nullptr) throw std::runtime_error("no tensor " + name);
    return *t;
  }

  Result<SafetensorsCheckpoint> file_;
};

/// [rows, cols] → [cols, rows]
inline std::vector<float> transposed(std::span<const float> a, std::size_t rows, std::size_t cols) {
  std::vector<float> t(a.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) t[c * rows + r] = a[r * cols + c];
  }
  return t;
}

}  // namespace runnel::test
