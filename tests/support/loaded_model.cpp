// SPDX-License-Identifier: Apache-2.0
#include "tests/support/loaded_model.h"

#include <stdexcept>
#include <string>

#include "runtime/model/file_names.h"
#include "runtime/model/model_file.h"
#include "runtime/model/weight_table.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

void add(GgufWriter& writer, const std::string& name, const WeightView& w,
         std::vector<std::int64_t> shape) {
  writer.add_tensor(name, w.type, std::move(shape), [&w]() -> Result<std::vector<std::byte>> {
    return std::vector<std::byte>(w.data.begin(), w.data.end());
  });
}

}  // namespace

void write_gguf(const RandomModel& model, const std::filesystem::path& file,
                const std::function<void(GgufWriter&)>& add_keys) {
  const Weights& w = *model.weights;
  const FileNames names(model.config.architecture);
  GgufWriter writer;
  config_to_gguf(model.config, writer);
  writer.set(std::string(kTiedKey), w.tied());
  add(writer, names.of(kEmbeddingsName), w.embeddings, {w.embeddings.rows, w.embeddings.cols});
  const auto add_norm = [&](std::string_view weight, std::string_view bias, const NormWeights& n) {
    add(writer, names.of(weight), n.weight, {n.weight.cols});
    if (n.bias.present()) add(writer, names.of(bias), n.bias, {n.bias.cols});
  };
  if (model.config.embedding_norm)
    add_norm(kEmbeddingNormName, kEmbeddingNormBiasName, w.embedding_norm);
  for (std::size_t i = 0; i < w.layers.size(); ++i) {
    const auto layer = static_cast<std::int32_t>(i);
    const std::vector<FileNames::Unread> unread = names.unread(layer);
    for (const LayerTensor& t : layer_tensors(model.config.layers[i], model.config.hidden_size)) {
      const WeightView& view = t.view_of(w.layers[i]);
      if (!view.present()) continue;
      add(writer, names.of_layer(layer, t.suffix), view, names.shape(t));
      for (const FileNames::Unread& u : unread) {
        if (u.copy_of == t.suffix) add(writer, u.name, view, names.shape(t));
      }
    }
  }
  add_norm(kFinalNormName, kFinalNormBiasName, w.final_norm);
  if (!w.tied()) add(writer, names.of(kHeadName), w.head, {w.head.rows, w.head.cols});
  if (add_keys) add_keys(writer);
  const Status written = writer.write(file);
  if (!written) throw std::runtime_error(written.error().message);
}

std::shared_ptr<const Model> load_model(const RandomModel& model, const std::string& device,
                                        int threads) {
  const TemporaryDirectory folder;
  write_gguf(model, folder / "model.gguf");
  auto loaded = Model::load(folder / "model.gguf", {.device = device, .threads = threads});
  if (!loaded) throw std::runtime_error(loaded.error().message);
  return *loaded;
}

}  // namespace runnel::test
