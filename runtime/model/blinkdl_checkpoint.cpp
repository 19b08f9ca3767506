// SPDX-License-Identifier: Apache-2.0
// From BlinkDL's names and shapes to those of GGUF.
#include "runtime/model/blinkdl_checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/torch_checkpoint.h"
#include "runtime/model/file_names.h"
#include "runtime/model/sampling_keys.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/token_table.h"
#include "runtime/text/world_vocabulary.h"

namespace runnel {
namespace {

using quant::BlockType;
using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;  // of any dimension
constexpr float kNormEps = 1e-5F;
constexpr std::uint32_t kContextLength = 1U << 20;  // what llama.cpp writes for "any"
constexpr std::string_view kMixes = "rwkvag";       // rows of lerp_fused

std::string block(std::int64_t layer) { return "blocks." + std::to_string(layer) + "."; }

const SafetensorsTensor* find(const NamedTensors& tensors, std::string_view name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

/// The shape of `name`, which has two dimensions.
Result<std::pair<std::int64_t, std::int64_t>> matrix_shape(const NamedTensors& tensors,
                                                           const std::string& name) {
  const SafetensorsTensor* tensor = find(tensors, name);
  if (tensor == nullptr) return fail(ErrorCode::malformed, "tensor ", name, " is missing");
  const Shape& shape = tensor->shape;
  const auto in_range = [](std::int64_t n) { return n > 0 && n <= kMaxSize; };
  if (shape.size() != 2 || !in_range(shape[0]) || !in_range(shape[1]))
    return fail(ErrorCode::malformed, "tensor ", name, " has shape ", shape_text(shape),
                ", expected two dimensions from 1 to ", kMaxSize);
  return std::pair(shape[0], shape[1]);
}

/// Why this is no RWKV-7, if another name tells.
Status check_family(const NamedTensors& tensors) {
  if (find(tensors, "blocks.0.att.r_k") != nullptr) return {};
  const auto refuse = [](const auto&... why) { return fail(ErrorCode::unsupported, why...); };
  if (find(tensors, "blocks.0.att.time_state") != nullptr)
    return refuse(
        "the file holds tuned states (blocks.0.att.time_state), no model: give it to "
        "--load of a model, or to `runnel snapshot`");
  for (const char* name : {"blocks.0.att.time_decay", "blocks.0.att.time_faaaa",
                           "blocks.0.att.time_mix_r", "blocks.0.att.time_maa_x"}) {
    if (find(tensors, name) != nullptr)
      return refuse("tensor ", name, " belongs to RWKV-4, 5 or 6, expected RWKV-7");
  }
  return refuse("the file has ", tensors.size(),
                " tensors but no blocks.0.att.r_k, expected a checkpoint of RWKV-7 with the names "
                "of its author");
}

class Mapper {
 public:
  Mapper(const BlinkdlShape& shape, const NamedTensors& tensors) : s_(shape), tensors_(tensors) {}

  Result<MappedTensors> run() {
    const std::int64_t d = s_.hidden_size;
    RUNNEL_CHECK_OK(add("emb.weight", "token_embd.weight", {s_.vocab_size, d}, kEmbedding));
    RUNNEL_CHECK_OK(add_norm("blocks.0.ln0", "token_embd_norm"));
    for (std::int64_t i = 0; i < s_.layers; ++i) RUNNEL_CHECK_OK(add_layer(i));
    RUNNEL_CHECK_OK(add_norm("ln_out", "output_norm"));
    RUNNEL_CHECK_OK(add("head.weight", "output.weight", {s_.vocab_size, d}, kEmbedding));
    RUNNEL_CHECK_OK(expect_all_taken());
    return std::move(out_);
  }

 private:
  static constexpr WeightRole kEmbedding = WeightRole::embedding;
  static constexpr WeightRole kMatrix = WeightRole::matrix;
  static constexpr WeightRole kVector = WeightRole::vector;

  /// The tensor `name` as [rows, cols], whatever dimensions of 1 it has besides.
  Result<WeightView> take(const std::string& name, const Shape& shape) {
    const SafetensorsTensor* tensor = find(tensors_, name);
    if (tensor == nullptr)
      return fail(ErrorCode::malformed, "tensor ", name, " is missing, expected shape ",
                  shape_text(shape));
    const auto squeezed = [](Shape from) {
      from.erase(std::remove(from.begin(), from.end(), 1), from.end());
      return from;
    };
    if (squeezed(tensor->shape) != squeezed(shape))
      return fail(ErrorCode::malformed, "tensor ", name, " has shape ", shape_text(tensor->shape),
                  ", expected ", shape_text(shape));
    WeightView view;
    switch (tensor->type) {
      case SafetensorsType::f32:
        view.type = BlockType::f32;
        break;
      case SafetensorsType::f16:
        view.type = BlockType::f16;
        break;
      case SafetensorsType::bf16:
        view.type = BlockType::bf16;
        break;
      default:
        return fail(ErrorCode::unsupported, "tensor ", name, " is ", to_string(tensor->type),
                    ", expected F32, F16 or BF16");
    }
    view.cols = shape.back();
    view.rows = shape.size() == 1 ? 1 : shape.front();
    view.data = tensor->bytes;
    taken_.insert(name);
    return view;
  }

  void push(WeightView view, std::string name, Shape shape, WeightRole role) {
    view.name = std::move(name);
    out_.tensors.push_back({std::move(view), std::move(shape), role});
  }

  Status add(const std::string& theirs, const std::string& ours, const Shape& shape,
             WeightRole role) {
    RUNNEL_TRY(WeightView view, take(theirs, shape));
    push(std::move(view), ours, shape, role);
    return {};
  }
  Status add_norm(const std::string& theirs, const std::string& ours) {
    RUNNEL_CHECK_OK(add(theirs + ".weight", ours + ".weight", {s_.hidden_size}, kVector));
    return add(theirs + ".bias", ours + ".bias", {s_.hidden_size}, kVector);
  }

  /// `theirs` [rows, cols] as [cols, rows], under each of the names.
  Status add_transposed(const std::string& theirs, const std::vector<std::string>& ours,
                        std::pair<std::int64_t, std::int64_t> shape, WeightRole role) {
    const auto [rows, cols] = shape;
    RUNNEL_TRY(WeightView view, take(theirs, {rows, cols}));
    const std::size_t element = quant::row_bytes(view.type, 1);
    std::vector<std::byte>& copy = out_.storage.emplace_back(view.data.size());
    std::byte* to = copy.data();
    for (std::int64_t c = 0; c < cols; ++c) {
      for (std::int64_t r = 0; r < rows; ++r, to += element) {
        std::memcpy(to, view.data.data() + static_cast<std::size_t>(r * cols + c) * element,
                    element);
      }
    }
    view.data = copy;
    view.rows = cols;
    view.cols = rows;
    for (const std::string& name : ours) push(view, name, {cols, rows}, role);
    return {};
  }

  /// The six mixes, in f32 as all vectors are stored.
  Status add_mixes(const std::string& theirs, const std::string& ours) {
    const auto width = static_cast<std::size_t>(s_.hidden_size);
    std::vector<std::byte>& all = out_.storage.emplace_back(kMixes.size() * width * sizeof(float));
    std::byte* to = all.data();
    for (const char mix : kMixes) {
      const std::string name = theirs + mix;
      RUNNEL_CHECK_OK(take(name, {s_.hidden_size}));
      RUNNEL_TRY(const std::vector<float> values, to_f32(*find(tensors_, name)));
      std::memcpy(to, values.data(), width * sizeof(float));
      to += width * sizeof(float);
    }
    WeightView view;
    view.rows = static_cast<std::int64_t>(kMixes.size());
    view.cols = s_.hidden_size;
    view.data = all;
    const std::int64_t rows = view.rows;
    push(std::move(view), ours, {rows, 1, 1, s_.hidden_size}, kVector);
    return {};
  }

  /// X0, X1 and X2 of one of w, a, v, g; g has no X0.
  Status add_low_rank(std::int64_t layer, char kind, std::int64_t rank) {
    const std::string theirs = block(layer) + "att." + kind;
    const auto names = [&](char number) {
      const std::string prefix = "blk." + std::to_string(layer) + ".time_mix_";
      std::vector<std::string> all{prefix + kind + number + ".weight"};
      // Programs want v0, v1, v2 of the first layer, too, and do not read them.
      if (kind == 'a' && layer == 0) all.push_back(prefix + 'v' + number + ".weight");
      return all;
    };
    if (kind != 'g') {
      RUNNEL_TRY(const WeightView bias, take(theirs + '0', {s_.hidden_size}));
      for (const std::string& name : names('0')) push(bias, name, {s_.hidden_size}, kVector);
    }
    // The decay's error is multiplied by every later token: llama.cpp keeps it in f32, too.
    const WeightRole role = kind == 'w' ? WeightRole::small : WeightRole::gate;
    RUNNEL_CHECK_OK(add_transposed(theirs + '1', names('1'), {s_.hidden_size, rank}, role));
    return add_transposed(theirs + '2', names('2'), {rank, s_.hidden_size}, role);
  }

  Status add_layer(std::int64_t layer) {
    const std::int64_t d = s_.hidden_size;
    const std::string from = block(layer);
    const std::string to = "blk." + std::to_string(layer) + ".";
    RUNNEL_CHECK_OK(add_norm(from + "ln1", to + "attn_norm"));
    RUNNEL_CHECK_OK(add_norm(from + "ln2", to + "attn_norm_2"));
    RUNNEL_CHECK_OK(add_mixes(from + "att.x_", to + "time_mix_lerp_fused.weight"));
    RUNNEL_CHECK_OK(add_low_rank(layer, 'w', s_.decay_rank));
    RUNNEL_CHECK_OK(add_low_rank(layer, 'a', s_.rate_rank));
    if (layer > 0) {
      RUNNEL_CHECK_OK(add_low_rank(layer, 'v', s_.value_rank));
    } else {
      for (const char* name : {"att.v0", "att.v1", "att.v2"}) taken_.insert(from + name);
    }
    RUNNEL_CHECK_OK(add_low_rank(layer, 'g', s_.gate_rank));
    for (const char* name : {"k_k", "k_a"})
      RUNNEL_CHECK_OK(add(from + "att." + name, to + "time_mix_" + name + ".weight", {d}, kVector));
    RUNNEL_TRY(WeightView bonus, take(from + "att.r_k", {d / s_.head_size, s_.head_size}));
    bonus.rows = 1;
    bonus.cols = d;
    push(std::move(bonus), to + "time_mix_r_k.weight", {d}, kVector);
    for (const char* name : {"receptance", "key", "value", "output"}) {
      RUNNEL_CHECK_OK(add(from + "att." + name + ".weight", to + "time_mix_" + name + ".weight",
                          {d, d}, kMatrix));
    }
    RUNNEL_CHECK_OK(add_norm(from + "att.ln_x", to + "time_mix_ln"));
    RUNNEL_CHECK_OK(add(from + "ffn.x_k", to + "channel_mix_lerp_k.weight", {d}, kVector));
    RUNNEL_CHECK_OK(add(from + "ffn.key.weight", to + "channel_mix_key.weight",
                        {s_.intermediate_size, d}, kMatrix));
    return add(from + "ffn.value.weight", to + "channel_mix_value.weight",
               {d, s_.intermediate_size}, kMatrix);
  }

  /// Others belong to a computation that would be left out, as in the variants a and b.
  Status expect_all_taken() const {
    std::string left;
    int count = 0;
    for (const auto& [name, tensor] : tensors_) {
      if (taken_.contains(name)) continue;
      constexpr int kNamed = 3;
      if (++count <= kNamed) left += (count > 1 ? ", " : "") + printable(name);
    }
    if (count == 0) return {};
    return fail(ErrorCode::unsupported, "the checkpoint has ", count,
                " tensors that RWKV-7 has no place for: ", left, count > 3 ? ", …" : "");
  }

  const BlinkdlShape& s_;
  const NamedTensors& tensors_;
  MappedTensors out_;
  std::set<std::string, std::less<>> taken_;
};

void set_keys(const BlinkdlShape& s, const std::string& name, GgufWriter& writer) {
  const auto set = [&](const char* key, std::int64_t value) {
    writer.set(std::string("rwkv7.") + key, static_cast<std::uint32_t>(value));
  };
  writer.set("general.architecture", std::string("rwkv7"));
  writer.set("general.name", name);
  set("context_length", kContextLength);
  set("embedding_length", s.hidden_size);
  set("block_count", s.layers);
  writer.set("rwkv7.attention.layer_norm_epsilon", kNormEps);
  set("wkv.head_size", s.head_size);
  set("attention.decay_lora_rank", s.decay_rank);
  set("attention.iclr_lora_rank", s.rate_rank);
  set("attention.value_residual_mix_lora_rank", s.value_rank);
  set("attention.gate_lora_rank", s.gate_rank);
  set("feed_forward_length", s.intermediate_size);
  set("attention.head_count", 0);  // other programs want the key
}

Status set_tokenizer(const BlinkdlShape& shape, const ConvertOptions& options, GgufWriter& writer,
                     ConvertReport& report) {
  RUNNEL_TRY(const std::vector<std::string> tokens, world_vocabulary());
  if (shape.vocab_size <= static_cast<std::int64_t>(tokens.size())) return {};
  RUNNEL_CHECK_OK(world_to_gguf(
      tokens, static_cast<std::int32_t>(shape.vocab_size),
      [&](std::string key, GgufValue value) { writer.set(std::move(key), std::move(value)); }));
  writer.set("tokenizer.chat_template", std::string("rwkv-world"));
  if (options.chat) {
    RUNNEL_CHECK_OK(check_markers(*options.chat, [&](std::string_view marker) {
      return std::ranges::find(tokens, marker) != tokens.end() &&  // all of them are texts
             kind_in_chats(marker, TokenKind::normal) == TokenKind::control;
    }));
    chat_format_to_gguf(*options.chat, [&](std::string key, std::string value) {
      writer.set(std::move(key), std::move(value));
    });
  }
  report.has_tokenizer = true;
  return {};
}

Result<ConvertReport> convert(const NamedTensors& tensors, const std::string& name,
                              const std::filesystem::path& path, const ConvertOptions& options) {
  RUNNEL_TRY(const BlinkdlShape shape, blinkdl_shape(tensors));
  RUNNEL_TRY(const MappedTensors mapped, map_blinkdl_tensors(shape, tensors));
  ConvertReport report;
  GgufWriter writer;
  set_keys(shape, name, writer);
  if (!options.license.empty()) writer.set("general.license", options.license);
  for (const std::string& assignment : options.sampling)
    RUNNEL_CHECK_OK(set_sampling_key(assignment, writer));
  RUNNEL_CHECK_OK(set_tokenizer(shape, options, writer, report));
  StoreOptions store = options.store;
  store.type = options.type.value_or(mapped.tensors.front().source.type);  // the embedding's
  report.type = store.type;
  RUNNEL_TRY(report.tensors, write_model(mapped.tensors, writer, path, store));
  return report;
}

}  // namespace

Result<BlinkdlShape> blinkdl_shape(const NamedTensors& tensors) {
  RUNNEL_CHECK_OK(check_family(tensors));
  BlinkdlShape s;
  RUNNEL_TRY(const auto table, matrix_shape(tensors, "emb.weight"));
  RUNNEL_TRY(const auto heads, matrix_shape(tensors, "blocks.0.att.r_k"));
  RUNNEL_TRY(const auto key, matrix_shape(tensors, "blocks.0.ffn.key.weight"));
  s.vocab_size = table.first;
  s.hidden_size = table.second;
  s.head_size = heads.second;
  s.intermediate_size = key.first;
  if (heads.first * heads.second != s.hidden_size)
    return fail(ErrorCode::malformed, "tensor blocks.0.att.r_k has shape [", heads.first, ", ",
                heads.second, "], expected heads and their channels, together ", s.hidden_size);
  LayerCount layers("blocks.");
  for (const auto& [name, tensor] : tensors) layers.add(name);
  s.layers = layers.count();
  const auto rank = [&](std::int64_t layer, char kind) -> Result<std::int64_t> {
    RUNNEL_TRY(const auto shape, matrix_shape(tensors, block(layer) + "att." + kind + "1"));
    return shape.second;
  };
  RUNNEL_TRY(s.decay_rank, rank(0, 'w'));
  RUNNEL_TRY(s.rate_rank, rank(0, 'a'));
  RUNNEL_TRY(s.gate_rank, rank(0, 'g'));
  if (s.layers > 1) {
    RUNNEL_TRY(s.value_rank, rank(1, 'v'));
  }
  return s;
}

Result<MappedTensors> map_blinkdl_tensors(const BlinkdlShape& shape, const NamedTensors& tensors) {
  return Mapper(shape, tensors).run();
}

Result<ConvertReport> convert_blinkdl(const std::filesystem::path& source,
                                      const std::filesystem::path& path,
                                      const ConvertOptions& options) {
  const std::string name = options.name.empty() ? source.stem().string() : options.name;
  const auto here = [&](Result<ConvertReport> report) {
    const bool of_file = !report && report.error().code != ErrorCode::cancelled;
    return of_file ? with_context(std::move(report).error(), printable(source.native()) + ": ")
                   : std::move(report);
  };
  if (source.extension() != ".safetensors") {
    RUNNEL_TRY(const TorchCheckpoint checkpoint, TorchCheckpoint::open(source));
    return here(convert(checkpoint.tensors(), name, path, options));
  }
  RUNNEL_TRY(const SafetensorsCheckpoint checkpoint, SafetensorsCheckpoint::open(source));
  NamedTensors tensors;
  for (const std::string_view tensor : checkpoint.names())
    tensors.emplace(tensor, *checkpoint.find(tensor));
  return here(convert(tensors, name, path, options));
}

}  // namespace runnel
