// SPDX-License-Identifier: Apache-2.0
#include "tests/support/model_files.h"

#include <utility>

#include "runtime/base/try.h"
#include "runtime/model/hf_checkpoint.h"
#include "runtime/model/weight_table.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {

std::filesystem::path tiny_checkpoint(const std::string& name) {
  return std::filesystem::path(RUNNEL_TEST_DATA) / "golden" / name;
}

Result<std::vector<StoredTensor>> convert_tensors(const std::filesystem::path& directory,
                                                  const std::filesystem::path& out,
                                                  const StoreOptions& options) {
  RUNNEL_TRY(const SafetensorsCheckpoint checkpoint, SafetensorsCheckpoint::open(directory));
  RUNNEL_TRY(const HfConfig config,
             read_hf_config(read_text(directory / "config.json"), checkpoint));
  RUNNEL_TRY(const MappedTensors mapped, map_hf_tensors(config, checkpoint));
  const std::vector<ModelTensor>& tensors = mapped.tensors;
  GgufWriter writer;
  config_to_gguf(config.model, writer);
  if (!config.shifted) writer.set(std::string(kTiedKey), config.tied);
  return write_model(tensors, writer, out, options);
}

Result<ModelFile> open_model(const std::filesystem::path& path) {
  RUNNEL_TRY(std::shared_ptr<const GgufFile> file, GgufFile::open(path));
  return ModelFile::from_gguf(std::move(file));
}

Status FileParts::write(const std::filesystem::path& path) const {
  GgufWriter writer;
  for (const auto& [key, value] : keys) writer.set(key, value);
  for (const auto& [name, t] : tensors) {
    const Tensor* tensor = &t;
    writer.add_tensor(name, t.type, t.shape, [tensor]() -> Result<std::vector<std::byte>> {
      if (!tensor->data.empty()) return tensor->data;
      std::int64_t rows = 1;
      for (std::size_t i = 0; i + 1 < tensor->shape.size(); ++i) rows *= tensor->shape[i];
      return std::vector<std::byte>(static_cast<std::size_t>(rows) *
                                    quant::row_bytes(tensor->type, tensor->shape.back()));
    });
  }
  return writer.write(path);
}

FileParts full_model_parts() {
  ModelConfig c;
  c.name = "zeros";
  c.vocab_size = 16;
  c.hidden_size = 32;
  LayerSpec layer;
  layer.num_heads = 4;
  layer.num_kv_heads = 2;
  layer.head_k_dim = layer.head_v_dim = 8;
  layer.intermediate_size = 64;
  layer.conv_size = 4;
  SlotSpec& slots = layer.slots();
  slots.num_memory_slots = 4;
  slots.num_sink_slots = 2;
  slots.num_window_slots = 6;
  slots.sink_distance = 8;
  slots.feature_map = FeatureMap::t2r;
  c.repeat(layer, 2);

  FileParts parts;
  // GgufWriter keeps its keys to itself: read them back from a file without tensors.
  const TemporaryDirectory directory;
  GgufWriter writer;
  config_to_gguf(c, writer);
  writer.set(std::string(kTiedKey), false);
  if (writer.write(directory.path() / "keys.gguf")) {
    if (const auto file = GgufFile::open(directory.path() / "keys.gguf")) {
      for (const auto& [key, value] : (*file)->metadata()) parts.keys[key] = value;
    }
  }
  const std::vector<std::int64_t> table = {c.vocab_size, c.hidden_size};
  parts.tensors[std::string(kEmbeddingsName)] = {.shape = table};
  parts.tensors[std::string(kHeadName)] = {.shape = table};
  parts.tensors[std::string(kFinalNormName)] = {.shape = {c.hidden_size}};
  for (std::int32_t i = 0; i < c.num_layers(); ++i) {
    for (const LayerTensor& t : layer_tensors(layer, c.hidden_size)) {
      parts.tensors[layer_prefix(i) + std::string(t.suffix)] = {.shape = t.shape};
    }
  }
  return parts;
}

}  // namespace runnel::test
