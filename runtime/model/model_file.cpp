// SPDX-License-Identifier: Apache-2.0
// GGUF tensors → Weights. Only a sample of the weights is read here, for the fingerprint, so that loading stays fast.
#include "runtime/model/model_file.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/file_names.h"
#include "runtime/model/weight_table.h"
#include "runtime/model/window.h"

namespace runnel {
namespace {

/// Looks tensors up by name, checks them and counts them, so that tensors that were not requested can be named.
class TensorReader {
 public:
  TensorReader(const GgufFile& file, const FileNames& names)
      : file_(file), names_(names), used_(file.tensors().size()) {}

  const FileNames& names() const { return names_; }

  /// The checked view of `name`; an empty one if it is optional and not there.
  Result<WeightView> read(const std::string& name, WeightRole role,
                          const std::vector<std::int64_t>& shape, Presence presence) {
    const GgufTensor* tensor = presence == Presence::absent ? nullptr : file_.find_tensor(name);
    if (tensor == nullptr) {
      if (presence != Presence::required) return WeightView{};
      return fail(ErrorCode::malformed, "tensor ", name, " is missing, expected shape ",
                  shape_text(shape));
    }
    if (tensor->shape != shape &&
        !(names_.ignores_ones() && without_ones(tensor->shape) == without_ones(shape))) {
      return fail(ErrorCode::malformed, "tensor ", name, " has shape ", shape_text(tensor->shape),
                  ", expected ", shape_text(shape));
    }
    const quant::BlockTraits& traits = quant::format_of(tensor->type);
    if (!role_allows(role, tensor->type)) {
      return fail(ErrorCode::unsupported, "tensor ", name, " is stored as ", traits.name, ", a ",
                  to_string(role), " is expected as ", allowed_types(role));
    }
    WeightView view;
    view.name = name;
    view.type = tensor->type;
    view.rows = shape.size() == 2 ? shape[0] : 1;
    view.cols = shape.back();
    view.data = tensor->data;
    if (view.cols % traits.block_values != 0) {
      return fail(ErrorCode::malformed, "tensor ", name, " has rows of ", view.cols, " ",
                  traits.name, " values, expected a multiple of ", traits.block_values);
    }
    const std::size_t bytes =
        static_cast<std::size_t>(view.rows) * quant::row_bytes(view.type, view.cols);
    if (view.data.size() != bytes) {
      return fail(ErrorCode::malformed, "tensor ", name, " has ", view.data.size(),
                  " bytes, expected ", bytes);
    }
    const std::uintptr_t alignment = view.type == quant::BlockType::f32 ? 4 : 2;
    if (reinterpret_cast<std::uintptr_t>(view.data.data()) % alignment != 0) {
      return fail(ErrorCode::malformed, "tensor ", name, " does not start at a multiple of ",
                  alignment, " bytes");
    }
    used_[static_cast<std::size_t>(tensor - file_.tensors().data())] = true;
    return view;
  }

  /// Passes over a tensor that nothing computes with.
  void leave(const std::string& name) {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor != nullptr) used_[static_cast<std::size_t>(tensor - file_.tensors().data())] = true;
  }

  /// A tensor that is left over belongs to a computation that this library does not implement.
  Status expect_all_used() const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i]) {
        return fail(ErrorCode::unsupported, "tensor ", printable(file_.tensors()[i].name),
                    " has no place in this configuration");
      }
    }
    return {};
  }

 private:
  static std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
    std::erase(shape, 1);
    return shape;
  }

  const GgufFile& file_;
  const FileNames& names_;
  std::vector<bool> used_;  // [tensors of the file]
};

/// The first layer whose block is like that of layer `i`.
std::size_t first_alike(const ModelConfig& config, std::size_t i) {
  std::size_t first = 0;
  while (!alike(config.layers[first], config.layers[i])) ++first;
  return first;
}

/// A norm outside the layers; `weight` and `bias` are our names of its tensors.
Status read_norm(TensorReader& reader, const NormSpec& spec, std::int64_t width,
                 std::string_view weight, std::string_view bias, NormWeights& out) {
  RUNNEL_TRY(out.weight, reader.read(reader.names().of(weight), WeightRole::vector, {width},
                                     Presence::required));
  const Presence there = spec.kind == Norm::layer ? Presence::required : Presence::absent;
  RUNNEL_TRY(out.bias, reader.read(reader.names().of(bias), WeightRole::vector, {width}, there));
  return {};
}

Status read_layers(const ModelConfig& config, TensorReader& reader, Weights& weights) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    // Grows with what the file really has: the first layer without tensors ends a made-up count.
    const LayerSpec& spec = config.layers[i];
    weights.layers.push_back(empty_weights(spec));
    const std::size_t model = first_alike(config, i);
    const FileNames& names = reader.names();
    for (const FileNames::Unread& u : names.unread(spec.index)) reader.leave(u.name);
    for (const LayerTensor& t : layer_tensors(spec, config.hidden_size)) {
      RUNNEL_TRY(WeightView view,
                 reader.read(names.of_layer(spec.index, t.suffix), t.role, t.shape, t.presence));
      if (t.presence == Presence::optional && i != model &&
          view.present() != t.view_of(weights.layers[model]).present()) {
        return fail(ErrorCode::malformed, "tensor ", names.of_layer(spec.index, t.suffix), " is ",
                    view.present() ? "there" : "missing", ", in layer ", model, " it is ",
                    view.present() ? "missing" : "there", ", expected in all layers or in none");
      }
      t.view(weights.layers.back()) = std::move(view);
    }
  }
  return {};
}

/// Biases of q, k and v have no key: layers that are alike have them all, or none has.
Status find_biases(const GgufFile& file, ModelConfig& config) {
  std::vector<bool> there;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const std::string name = layer_prefix(config.layers[i].index) + "attn.q_proj.bias";
    there.push_back(file.find_tensor(name) != nullptr);
    const std::size_t model = first_alike(config, i);
    if (there[i] != there[model]) {
      return fail(ErrorCode::malformed, "tensor ", name, " is ", there[i] ? "there" : "missing",
                  ", in layer ", model, " it is ", there[model] ? "there" : "missing",
                  ", expected in all layers or in none");
    }
  }
  for (std::size_t i = 0; i < there.size(); ++i) config.layers[i].qkv_bias = there[i];
  return {};
}

/// A key of another version may change what the model computes: better refused than computed wrongly.
Status refuse_unknown_keys(const GgufFile& file, const std::string& architecture) {
  const auto& metadata = file.metadata();
  for (auto it = metadata.lower_bound(std::string_view("gsa.")); it != metadata.end(); ++it) {
    const std::string& key = it->first;
    if (!key.starts_with("gsa.")) break;
    const bool text = key.starts_with("gsa.tokenizer.") || key.starts_with("gsa.chat");
    if (has_llama_names(architecture) && is_config_key(key)) {
      return fail(ErrorCode::unsupported, "key ", key,
                  " does not belong to a file of architecture ", architecture);
    }
    if (!text && key != kTiedKey && !is_config_key(key)) {
      return fail(ErrorCode::unsupported, "key ", printable(key),
                  " is not known to this version, which might compute another model than meant");
    }
  }
  return {};
}

/// XXH3 over values in a canonical little-endian form.
class ValueHasher {
 public:
  void bytes(std::span<const std::byte> data) { hasher_.update(data); }

  template <class T>
  requires std::is_arithmetic_v<T>
  void number(T value) {
    static_assert(std::endian::native == std::endian::little);
    hasher_.update(std::as_bytes(std::span(&value, 1)));
  }

  void text(std::string_view value) {
    number(std::uint64_t{value.size()});
    hasher_.update(std::as_bytes(std::span(value)));
  }

  void value(const GgufValue& value) {
    number(static_cast<std::uint8_t>(value.index()));
    std::visit(
        [this](const auto& v) {
          using V = std::decay_t<decltype(v)>;
          if constexpr (std::is_arithmetic_v<V>) {
            number(v);
          } else if constexpr (std::is_same_v<V, std::string>) {
            text(v);
          } else {
            array(v);
          }
        },
        value);
  }

  std::uint64_t digest() const { return hasher_.digest(); }

 private:
  void array(const GgufArray& values) {
    number(static_cast<std::uint8_t>(values.index()));
    std::visit(
        [this](const auto& v) {
          using E = typename std::decay_t<decltype(v)>::value_type;
          number(std::uint64_t{v.size()});
          if constexpr (std::is_same_v<E, std::string>) {
            for (const std::string& s : v) text(s);
          } else if constexpr (std::is_same_v<E, bool>) {
            for (const bool b : v) number(static_cast<std::uint8_t>(b));
          } else {
            bytes(std::as_bytes(std::span(v)));
          }
        },
        values);
  }

  Hasher hasher_;
};

/// Everything that must agree for a snapshot to fit: configuration, tensor table, tokenizer, and a sample of
/// the weights. The name of the model is left out: renaming a file's model does not change it. The
/// sample is the first and last 4 KiB of every tensor: other weights differ there, and 8 KiB of
/// each of 300 tensors cost under a millisecond to read.
std::uint64_t fingerprint_of(const GgufFile& file, const ModelConfig& config,
                             const Weights& weights) {
  constexpr std::size_t kSampleBytes = 4096;
  ValueHasher hash;
  const std::string own_keys =
      has_llama_names(config.architecture) ? config.architecture + "." : "gsa.";
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with("gsa.") || key.starts_with("tokenizer.") || key.starts_with(own_keys)) {
      hash.text(key);
      hash.value(value);
    }
  }
  const auto tensor = [&](const WeightView& w) {
    if (!w.present()) return;
    hash.text(w.name);
    hash.number(static_cast<std::uint32_t>(w.type));
    hash.number(w.rows);
    hash.number(w.cols);
    const std::size_t sample = std::min(kSampleBytes, w.data.size());
    hash.bytes(w.data.first(sample));
    hash.bytes(w.data.last(sample));
  };
  tensor(weights.embeddings);
  tensor(weights.embedding_norm.weight);
  tensor(weights.embedding_norm.bias);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    for (const LayerTensor& t : layer_tensors(config.layers[i], config.hidden_size)) {
      tensor(t.view_of(weights.layers[i]));
    }
  }
  tensor(weights.final_norm.weight);
  tensor(weights.final_norm.bias);
  if (!weights.tied()) tensor(weights.head);
  return hash.digest();
}

}  // namespace

Result<ModelFile> ModelFile::from_gguf(std::shared_ptr<const GgufFile> file) {
  if (file == nullptr) return fail(ErrorCode::invalid_argument, "no file was given");
  ModelFile model;
  RUNNEL_TRY(model.config, config_from_gguf(*file));
  RUNNEL_CHECK_OK(refuse_unknown_keys(*file, model.config.architecture));
  RUNNEL_CHECK_OK(find_biases(*file, model.config));

  const ModelConfig& c = model.config;
  Weights& w = model.weights;
  const FileNames names(c.architecture);
  TensorReader reader(*file, names);
  const std::vector<std::int64_t> table = {c.vocab_size, c.hidden_size};
  RUNNEL_TRY(w.embeddings, reader.read(names.of(kEmbeddingsName), WeightRole::embedding, table,
                                       Presence::required));
  if (c.embedding_norm) {
    RUNNEL_CHECK_OK(read_norm(reader, *c.embedding_norm, c.hidden_size, kEmbeddingNormName,
                              kEmbeddingNormBiasName, w.embedding_norm));
  }
  RUNNEL_CHECK_OK(read_layers(c, reader, w));
  RUNNEL_CHECK_OK(read_norm(reader, c.final_norm, c.hidden_size, kFinalNormName, kFinalNormBiasName,
                            w.final_norm));
  const bool head_there = file->find_tensor(names.of(kHeadName)) != nullptr;
  const bool may_tie = !has_llama_names(c.architecture);
  RUNNEL_TRY(const bool tied, file->get_bool(kTiedKey, may_tie && !head_there));
  RUNNEL_TRY(w.head, reader.read(names.of(kHeadName), WeightRole::embedding, table,
                                 tied ? Presence::absent : Presence::required));
  if (tied) w.head = w.embeddings;
  RUNNEL_CHECK_OK(reader.expect_all_used());

  model.fingerprint = fingerprint_of(*file, c, w);
  const std::int32_t window = most_window_slots(c);
  model.window = {.slots = window, .file_slots = window, .file_fingerprint = model.fingerprint};
  model.weights.release = [source = file.get()](std::span<const std::byte> bytes) {
    source->release(bytes);
  };
  model.file = std::move(file);
  return model;
}

}  // namespace runnel
