// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/quantize_model.h"

#include <string>

#include "runtime/model/file_names.h"
#include "runtime/model/weight_table.h"

namespace runnel {

Result<std::vector<StoredTensor>> quantize_model(const ModelFile& model,
                                                 const std::filesystem::path& path,
                                                 const StoreOptions& options) {
  const ModelConfig& c = model.config;
  std::vector<ModelTensor> tensors;
  const auto add = [&tensors](const WeightView& view, std::vector<std::int64_t> shape,
                              WeightRole role) {
    if (view.present()) tensors.push_back({view, std::move(shape), role});
  };
  const FileNames names(c.architecture);
  add(model.weights.embeddings, {c.vocab_size, c.hidden_size}, WeightRole::embedding);
  add(model.weights.embedding_norm.weight, {c.hidden_size}, WeightRole::vector);
  add(model.weights.embedding_norm.bias, {c.hidden_size}, WeightRole::vector);
  for (std::size_t i = 0; i < c.layers.size(); ++i) {
    const std::vector<FileNames::Unread> unread = names.unread(c.layers[i].index);
    for (const LayerTensor& t : layer_tensors(c.layers[i], c.hidden_size)) {
      const WeightView& view = t.view_of(model.weights.layers[i]);
      add(view, names.shape(t), t.role);
      for (const FileNames::Unread& u : unread) {
        if (u.copy_of != t.suffix) continue;
        WeightView copy = view;
        copy.name = u.name;
        add(copy, names.shape(t), t.role);
      }
    }
  }
  add(model.weights.final_norm.weight, {c.hidden_size}, WeightRole::vector);
  add(model.weights.final_norm.bias, {c.hidden_size}, WeightRole::vector);
  if (!model.weights.tied()) {
    add(model.weights.head, {c.vocab_size, c.hidden_size}, WeightRole::embedding);
  }

  GgufWriter writer;
  for (const auto& [key, value] : model.file->metadata()) {
    if (key != "general.alignment") writer.set(key, value);
  }
  return write_model(tensors, writer, path, options);
}

}  // namespace runnel
