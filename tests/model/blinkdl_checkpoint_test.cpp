// SPDX-License-Identifier: Apache-2.0
// A checkpoint of RWKV-7 in one file: names, shapes and keys as llama.cpp's converter gives them, and what is refused.
#include "runtime/model/blinkdl_checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quant/quantise.h"
#include "runtime/io/torch_checkpoint.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

constexpr const char* kFile = RUNNEL_TEST_DATA "/torch/rwkv7.pth";
using Shape = std::vector<std::int64_t>;

const NamedTensors& source() {
  static const TorchCheckpoint checkpoint = *TorchCheckpoint::open(kFile);
  return checkpoint.tensors();
}

std::vector<float> values_of(const NamedTensors& tensors, const std::string& name) {
  return *to_f32(tensors.at(name));
}

std::vector<float> values_of(const GgufFile& file, const std::string& name) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) return {};
  std::size_t count = 1;
  for (const std::int64_t n : tensor->shape) count *= static_cast<std::size_t>(n);
  std::vector<float> values(count);
  EXPECT_TRUE(quant::dequantize_rows(tensor->type, tensor->data, tensor->shape.back(), values));
  return values;
}

std::vector<float> transposed(const std::vector<float>& from, std::size_t rows, std::size_t cols) {
  std::vector<float> to(from.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
  return to;
}

std::shared_ptr<const GgufFile> converted(const ConvertOptions& options = {}) {
  const test::TemporaryDirectory directory;
  const auto path = directory.path() / "model.gguf";
  const auto report = convert_checkpoint(kFile, path, options);
  EXPECT_TRUE(report.has_value()) << report.error().message;
  auto file = GgufFile::open(path);
  EXPECT_TRUE(file.has_value());
  return *file;
}

TEST(BlinkdlCheckpoint, HasTheKeysOfItsShapes) {
  const auto file = converted();
  EXPECT_EQ(*file->get_string("general.architecture"), "rwkv7");
  EXPECT_EQ(*file->get_string("general.name"), "rwkv7");
  const std::pair<const char*, std::int64_t> numbers[] = {
      {"context_length", 1 << 20},
      {"embedding_length", 16},
      {"block_count", 2},
      {"wkv.head_size", 8},
      {"feed_forward_length", 20},
      {"attention.head_count", 0},
      {"attention.decay_lora_rank", 3},
      {"attention.iclr_lora_rank", 4},
      {"attention.value_residual_mix_lora_rank", 2},
      {"attention.gate_lora_rank", 5}};
  for (const auto& [key, value] : numbers)
    EXPECT_EQ(*file->get_int(std::string("rwkv7.") + key), value) << key;
  EXPECT_FLOAT_EQ(static_cast<float>(*file->get_float("rwkv7.attention.layer_norm_epsilon")),
                  1e-5F);
  EXPECT_EQ(file->find("tokenizer.ggml.model"), nullptr);  // 24 rows are no World vocabulary
}

TEST(BlinkdlCheckpoint, GivesEveryTensorItsPlace) {
  const auto file = converted();
  EXPECT_EQ(file->tensors().size(), 62U);
  const std::pair<const char*, const char*> same[] = {
      {"token_embd.weight", "emb.weight"},
      {"token_embd_norm.weight", "blocks.0.ln0.weight"},
      {"token_embd_norm.bias", "blocks.0.ln0.bias"},
      {"blk.1.attn_norm.weight", "blocks.1.ln1.weight"},
      {"blk.1.attn_norm_2.bias", "blocks.1.ln2.bias"},
      {"blk.0.time_mix_w0.weight", "blocks.0.att.w0"},
      {"blk.0.time_mix_v0.weight", "blocks.0.att.a0"},
      {"blk.1.time_mix_v0.weight", "blocks.1.att.v0"},
      {"blk.1.time_mix_k_k.weight", "blocks.1.att.k_k"},
      {"blk.1.time_mix_k_a.weight", "blocks.1.att.k_a"},
      {"blk.1.time_mix_r_k.weight", "blocks.1.att.r_k"},
      {"blk.1.time_mix_receptance.weight", "blocks.1.att.receptance.weight"},
      {"blk.1.time_mix_key.weight", "blocks.1.att.key.weight"},
      {"blk.1.time_mix_value.weight", "blocks.1.att.value.weight"},
      {"blk.1.time_mix_output.weight", "blocks.1.att.output.weight"},
      {"blk.1.time_mix_ln.weight", "blocks.1.att.ln_x.weight"},
      {"blk.1.time_mix_ln.bias", "blocks.1.att.ln_x.bias"},
      {"blk.1.channel_mix_lerp_k.weight", "blocks.1.ffn.x_k"},
      {"blk.1.channel_mix_key.weight", "blocks.1.ffn.key.weight"},
      {"blk.1.channel_mix_value.weight", "blocks.1.ffn.value.weight"},
      {"output_norm.weight", "ln_out.weight"},
      {"output_norm.bias", "ln_out.bias"},
      {"output.weight", "head.weight"}};
  for (const auto& [ours, theirs] : same)
    EXPECT_EQ(values_of(*file, ours), values_of(source(), theirs)) << ours;
  EXPECT_EQ(file->find_tensor("blk.1.channel_mix_key.weight")->shape, (Shape{20, 16}));
  EXPECT_EQ(file->find_tensor("blk.1.time_mix_r_k.weight")->shape, (Shape{16}));
  EXPECT_EQ(file->find_tensor("blk.1.time_mix_k_k.weight")->shape, (Shape{16}));
}

TEST(BlinkdlCheckpoint, TransposesMatricesOfLowRank) {
  const auto file = converted();
  struct Case {
    const char* ours;
    const char* theirs;
    std::size_t rows, cols;  // of theirs
  };
  const Case cases[] = {{"blk.1.time_mix_w1.weight", "blocks.1.att.w1", 16, 3},
                        {"blk.1.time_mix_w2.weight", "blocks.1.att.w2", 3, 16},
                        {"blk.0.time_mix_a1.weight", "blocks.0.att.a1", 16, 4},
                        {"blk.0.time_mix_v1.weight", "blocks.0.att.a1", 16, 4},
                        {"blk.0.time_mix_v2.weight", "blocks.0.att.a2", 4, 16},
                        {"blk.1.time_mix_v2.weight", "blocks.1.att.v2", 2, 16},
                        {"blk.1.time_mix_g2.weight", "blocks.1.att.g2", 5, 16}};
  for (const Case& c : cases) {
    EXPECT_EQ(file->find_tensor(c.ours)->shape,
              (Shape{static_cast<std::int64_t>(c.cols), static_cast<std::int64_t>(c.rows)}))
        << c.ours;
    EXPECT_EQ(values_of(*file, c.ours), transposed(values_of(source(), c.theirs), c.rows, c.cols))
        << c.ours;
  }
}

TEST(BlinkdlCheckpoint, JoinsTheSixMixes) {
  const auto file = converted();
  const std::string name = "blk.1.time_mix_lerp_fused.weight";
  EXPECT_EQ(file->find_tensor(name)->shape, (Shape{6, 1, 1, 16}));
  std::vector<float> wanted;
  for (const char mix : std::string("rwkvag")) {
    const auto row = values_of(source(), std::string("blocks.1.att.x_") + mix);
    wanted.insert(wanted.end(), row.begin(), row.end());
  }
  EXPECT_EQ(values_of(*file, name), wanted);
}

TEST(BlinkdlCheckpoint, StoresGatesAndMixesWithoutBlocks) {
  ConvertOptions options;
  options.type = quant::BlockType::q8_0;
  const auto file = converted(options);
  using quant::BlockType;
  // Rows of 16 hold no whole block: f16.
  EXPECT_EQ(file->find_tensor("blk.1.time_mix_key.weight")->type, BlockType::f16);
  EXPECT_EQ(file->find_tensor("blk.1.time_mix_a1.weight")->type, BlockType::f16);
  EXPECT_EQ(file->find_tensor("blk.1.time_mix_w1.weight")->type, BlockType::f32);
  EXPECT_EQ(file->find_tensor("blk.1.time_mix_lerp_fused.weight")->type, BlockType::f32);
}

std::string refusal(const NamedTensors& tensors) {
  const auto shape = blinkdl_shape(tensors);
  if (!shape) return shape.error().message;
  const auto mapped = map_blinkdl_tensors(*shape, tensors);
  return mapped ? "" : mapped.error().message;
}

TEST(BlinkdlCheckpoint, NeverReadsValueMixesOfTheFirstLayer) {
  NamedTensors tensors = source();
  tensors.at("blocks.0.att.v1").shape = {7, 7, 7};
  EXPECT_EQ(refusal(tensors), "");
  for (const char* name : {"blocks.0.att.v0", "blocks.0.att.v1", "blocks.0.att.v2"})
    tensors.erase(name);
  EXPECT_EQ(refusal(tensors), "");
}

TEST(BlinkdlCheckpoint, NamesWhatDoesNotFit) {
  const auto without = [](const char* name) {
    NamedTensors tensors = source();
    tensors.erase(name);
    return tensors;
  };
  const auto shaped = [](const char* name, Shape shape) {
    NamedTensors tensors = source();
    tensors.at(name).shape = std::move(shape);
    return tensors;
  };
  const auto with = [](const char* name) {
    NamedTensors tensors = source();
    tensors[name] = tensors.at("ln_out.weight");
    return tensors;
  };
  EXPECT_EQ(refusal(source()), "");
  EXPECT_EQ(refusal(without("blocks.1.att.g2")),
            "tensor blocks.1.att.g2 is missing, expected shape [5, 16]");
  EXPECT_EQ(refusal(without("blocks.1.ln1.weight")),
            "tensor blocks.1.ln1.weight is missing, expected shape [16]");
  EXPECT_EQ(refusal(without("blocks.0.ln1.weight")),
            "tensor blocks.0.ln1.weight is missing, expected shape [16]");
  EXPECT_EQ(refusal(without("emb.weight")), "tensor emb.weight is missing");
  EXPECT_EQ(refusal(shaped("head.weight", {16, 24})),
            "tensor head.weight has shape [16, 24], expected [24, 16]");
  EXPECT_EQ(refusal(shaped("blocks.0.att.r_k", {3, 8})),
            "tensor blocks.0.att.r_k has shape [3, 8], expected heads and their channels, together "
            "16");
  EXPECT_EQ(refusal(shaped("emb.weight", {24, 0})),
            "tensor emb.weight has shape [24, 0], expected two dimensions from 1 to 16777216");
  EXPECT_EQ(refusal(with("blocks.0.ffn.s_emb.weight")),
            "the checkpoint has 1 tensors that RWKV-7 has no place for: blocks.0.ffn.s_emb.weight");
  NamedTensors wide = source();
  wide.at("blocks.1.ln1.weight").type = SafetensorsType::f64;
  EXPECT_EQ(refusal(wide), "tensor blocks.1.ln1.weight is F64, expected F32, F16 or BF16");
  NamedTensors old{{"blocks.0.att.time_faaaa", {}}};
  EXPECT_EQ(refusal(old),
            "tensor blocks.0.att.time_faaaa belongs to RWKV-4, 5 or 6, expected RWKV-7");
  NamedTensors tuned{{"blocks.0.att.time_state", {}}};
  EXPECT_EQ(refusal(tuned).find("the file holds tuned states"), 0U);
}

/// The checkpoint in safetensors with tables of so many rows of zeros.
void write_with_rows(const std::filesystem::path& path, std::int64_t rows) {
  nlohmann::json header;
  std::string data;
  for (const auto& [name, tensor] : source()) {
    Shape shape = tensor.shape;
    std::string bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    if (name == "emb.weight" || name == "head.weight") {
      shape[0] = rows;
      bytes.assign(static_cast<std::size_t>(rows * shape[1]) * element_bytes(tensor.type), '\0');
    }
    header[name] = {{"dtype", std::string(to_string(tensor.type))},
                    {"shape", shape},
                    {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << text << data;
}

TEST(BlinkdlCheckpoint, RefusesAChatStyleThatTheWorldVocabularyCannotServe) {
  const test::TemporaryDirectory directory;
  const auto path = directory.path() / "world.safetensors", out = directory.path() / "out.gguf";
  write_with_rows(path, 65536);
  ConvertOptions options;
  options.chat = ChatFormat{ChatStyle::chatml, "Be brief.", {}, {}};
  const auto refused = convert_checkpoint(path, out, options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(
      refused.error().message,
      path.string() + ": chat style chatml: the vocabulary has no special token <|im_start|>");
  EXPECT_FALSE(std::filesystem::exists(out));
  options.chat->style = ChatStyle::plain;
  const auto plain = convert_checkpoint(path, out, options);
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_TRUE(plain->has_tokenizer);
}

TEST(BlinkdlCheckpoint, SaysWhichFileIsBroken) {
  const test::TemporaryDirectory directory;
  const auto path = directory.path() / "broken.pth";
  std::ofstream(path) << "PK";
  const auto report = convert_checkpoint(path, directory.path() / "out.gguf", {});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().message, path.string() + ": is no zip archive: it has no end record");
}

}  // namespace
}  // namespace runnel
