// SPDX-License-Identifier: Apache-2.0
// Any GGUF file as a model: an error or a model whose every size is backed by the file, and which loads from memory, as
// an application loads it. Inputs that begin with '{' are read as config.json.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "runnel/model.h"
#include "runtime/model/hf_checkpoint.h"
#include "runtime/model/model_file.h"
#include "runtime/model/state_layout.h"
#include "runtime/model/weight_table.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_config_text(std::string_view text) {
  const auto config = runnel::parse_hf_config(text);
  if (config) {
    require(runnel::check_config(config->model).has_value());
  } else {
    require(!config.error().message.empty());
  }
}

// A tokenizer, a chat template or a device may still refuse what is a model.
void check_load(std::span<const std::byte> bytes, std::uint64_t fingerprint) {
  constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 26;
  const auto loaded = runnel::Model::load_bytes(
      bytes, {.device = "cpu", .threads = 1, .memory_limit = kMostMemory});
  if (!loaded) return require(!loaded.error().message.empty());
  const runnel::Model& model = **loaded;
  require(model.info().fingerprint == fingerprint);
  for (runnel::TokenId token = 0; model.has_tokenizer() && token < model.info().vocab_size; ++token)
    require(model.token(token).has_value());
}

void check_view(const runnel::WeightView& view) {
  if (!view.present()) return;
  require(view.data.size() ==
          static_cast<std::size_t>(view.rows) * runnel::quant::row_bytes(view.type, view.cols));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(data, size);
  if (size > 0 && data[0] == '{') {
    check_config_text({reinterpret_cast<const char*>(data), size});
    return 0;
  }
  auto file = runnel::GgufFile::parse(std::as_bytes(bytes));
  if (!file) return 0;
  const auto model = runnel::ModelFile::from_gguf(*std::move(file));
  if (!model) {
    require(!model.error().message.empty());
    return 0;
  }
  require(runnel::StateLayout::of(model->config).total_floats() <= std::size_t{1} << 30);
  for (const runnel::LayerWeights& layer : model->weights.layers) {
    runnel::for_each_view(layer, check_view);
  }
  check_view(model->weights.embeddings);
  check_view(model->weights.head);
  check_load(std::as_bytes(bytes), model->fingerprint);
  return 0;
}
