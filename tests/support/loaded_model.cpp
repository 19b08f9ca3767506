// SPDX-License-Identifier: Apache-2.0
#include "tests/support/loaded_model.h"

#include <stdexcept>
#include <string>

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
  GgufWriter writer;
  config_to_gguf(model.config, writer);
  writer.set(std::string(kTiedKey), w.tied());
  add(writer, std::string(kEmbeddingsName), w.embeddings, {w.embeddings.rows, w.embeddings.cols});
  for (std::size_t i = 0; i < w.layers.size(); ++i) {
    for (const LayerTensor& t : layer_tensors(model.config.layers[i], model.config.hidden_size)) {
      const WeightView& view = t.view_of(w.layers[i]);
      if (view.present())
        add(writer, layer_prefix(static_cast<std::int32_t>(i)) + std::string(t.suffix), view,
            t.shape);
    }
  }
  const WeightView& norm = w.final_norm.weight;
  add(writer, std::string(kFinalNormName), norm, {norm.cols});
  if (w.final_norm.bias.present())
    add(writer, std::string(kFinalNormBiasName), w.final_norm.bias, {norm.cols});
  if (!w.tied()) add(writer, std::string(kHeadName), w.head, {w.head.rows, w.head.cols});
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
