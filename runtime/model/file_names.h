// SPDX-License-Identifier: Apache-2.0
// What model files call their tensors: by the names of this library, or by those of llama.cpp for the architectures
// whose files are read as they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/weight_table.h"

namespace runnel {

/// Whether files of this architecture have llama.cpp's keys and names.
bool has_llama_names(std::string_view architecture);

/// More layers than any model has: what is numbered higher is no layer's.
inline constexpr std::int64_t kMostLayers = 4096;

/// Counts the layers of a file or checkpoint by the highest number of any tensor's, so that one that is missing can be
/// named.
class LayerCount {
 public:
  /// @param prefix  what names of layers' tensors begin with, before the number and a dot
  explicit LayerCount(std::string_view prefix) : prefix_(prefix) {}

  /// Passes over names of another form and numbers from kMostLayers on.
  void add(std::string_view name);

  std::int64_t count() const { return count_; }

 private:
  std::string_view prefix_;
  std::int64_t count_ = 0;
};

/// The names in files of one architecture.
class FileNames {
 public:
  explicit FileNames(std::string_view architecture);

  /// The name of a tensor of the model, by our name (kEmbeddingsName …).
  std::string of(std::string_view name) const;

  /// The name of a layer's tensor, by our suffix ("attn.q_proj.weight").
  std::string of_layer(std::int32_t layer, std::string_view suffix) const;

  /// The shape in which it is stored.
  std::vector<std::int64_t> shape(const LayerTensor& tensor) const;

  /// Whether shapes are compared without dimensions of 1, which llama.cpp's writers leave out or not.
  bool ignores_ones() const { return llama_; }

  /// A tensor that readers of the format expect and nothing computes with.
  struct Unread {
    std::string name;
    std::string_view copy_of;  // suffix of the tensor that writers store there
  };
  std::vector<Unread> unread(std::int32_t layer) const;

 private:
  bool llama_ = false;
  bool gated_mix_ = false;  // the channel mix is a SwiGLU
};

}  // namespace runnel
