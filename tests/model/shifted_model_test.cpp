// SPDX-License-Identifier: Apache-2.0
// Files and checkpoints of models with shifted projections: what is read, what is stored again, and what is refused by
// name. Sizes come from the tensors' shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/model/file_names.h"
#include "runtime/model/quantize_model.h"
#include "runtime/model/shifted_config.h"
#include "tests/support/model_files.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::filesystem::path golden(const char* name) { return test::tiny_checkpoint("rnn") / name; }

test::FileParts parts_of(const char* name) {
  test::FileParts parts;
  const auto file = GgufFile::open(golden(name) / "model.gguf");
  EXPECT_TRUE(file) << file.error().message;
  if (!file) return parts;
  for (const auto& [key, value] : (*file)->metadata()) parts.keys[key] = value;
  for (const GgufTensor& t : (*file)->tensors()) {
    parts.tensors[t.name] = {
        .type = t.type, .shape = t.shape, .data = {t.data.begin(), t.data.end()}};
  }
  return parts;
}

Result<ModelFile> open(const test::FileParts& parts) {
  const test::TemporaryDirectory directory;
  const auto path = directory.path() / "model.gguf";
  const Status written = parts.write(path);
  if (!written) return written.error();
  return test::open_model(path);
}

std::string error_of(const test::FileParts& parts) {
  const Result<ModelFile> model = open(parts);
  return model ? "" : model.error().message;
}

TEST(ShiftedModel, SizesComeFromShapes) {
  const Result<ModelFile> model = open(parts_of("rwkv7/rwkv7_64"));
  ASSERT_TRUE(model) << model.error().message;
  const LayerSpec& c = model->config.layers[1];
  EXPECT_EQ(c.num_heads, 1);
  EXPECT_EQ(c.head_k_dim, 64);
  EXPECT_EQ(c.intermediate_size, 99);
  EXPECT_EQ(c.recurrence().gate_rank, 9);
  EXPECT_EQ(c.recurrence().rate_rank, 7);
  EXPECT_EQ(c.recurrence().value_rank, 5);
  EXPECT_EQ(c.recurrence().output_gate_rank, 11);
  EXPECT_EQ(model->config.layers[0].recurrence().value_rank, 0);
  EXPECT_TRUE(model->config.embedding_norm.has_value());
  EXPECT_FALSE(model->weights.tied());
}

TEST(ShiftedModel, WrongRanksInTheKeysDoNotMatter) {
  test::FileParts parts = parts_of("arwkv7");
  for (const char* key : {"decay", "iclr", "value_residual_mix", "gate"})
    parts.keys["arwkv7.attention." + std::string(key) + "_lora_rank"] = std::uint32_t{64};
  EXPECT_EQ(error_of(parts), "");
}

TEST(ShiftedModel, AGateIsThereOrNot) {
  const Result<ModelFile> gated = open(parts_of("arwkv7")), bare = open(parts_of("arwkv7_nogate"));
  ASSERT_TRUE(gated && bare);
  EXPECT_TRUE(gated->config.layers[0].output_gate);
  EXPECT_FALSE(bare->config.layers[0].output_gate);
  EXPECT_EQ(bare->config.layers[0].shifted_inputs(), 5);
  EXPECT_EQ(bare->config.layers[0].channel_mix, ChannelMix::swiglu);
}

TEST(ShiftedModel, TheFirstLayersMixOfValuesIsNeverRead) {
  test::FileParts parts = parts_of("rwkv7/rwkv7_64");
  const Result<ModelFile> before = open(parts);
  auto& bias = parts.tensors.at("blk.0.time_mix_v0.weight");
  const float nan = std::nanf("");
  std::memcpy(bias.data.data(), &nan, sizeof nan);
  parts.tensors.at("blk.0.time_mix_v1.weight").shape = {5, 64};
  parts.tensors.at("blk.0.time_mix_v1.weight").data.resize(2UL * 5 * 64);
  const Result<ModelFile> changed = open(parts);
  ASSERT_TRUE(before && changed) << changed.error().message;
  EXPECT_EQ(changed->fingerprint, before->fingerprint);
  parts.tensors.erase("blk.0.time_mix_v2.weight");
  EXPECT_EQ(error_of(parts), "");
}

TEST(ShiftedModel, NamesWhatIsWrongWithAFile) {
  struct Case {
    const char* name;
    void (*change)(test::FileParts&);
    const char* message;
  };
  const Case cases[] = {
      {"a tensor is missing",
       [](test::FileParts& p) { p.tensors.erase("blk.1.time_mix_w2.weight"); },
       "tensor blk.1.time_mix_w2.weight is missing, expected shape [64, 9]"},
      {"a mix of values is missing",
       [](test::FileParts& p) { p.tensors.erase("blk.1.time_mix_v1.weight"); },
       "tensor blk.1.time_mix_v1.weight is missing"},
      {"the norm that begins a layer is missing",
       [](test::FileParts& p) { p.tensors.erase("blk.1.attn_norm.weight"); },
       "tensor blk.1.attn_norm.weight is missing, expected shape [64]"},
      {"the norm of the only layer is missing",
       [](test::FileParts& p) {
         std::erase_if(p.tensors, [](const auto& t) { return t.first.starts_with("blk.1."); });
         p.keys["rwkv7.block_count"] = std::uint32_t{1};
         p.tensors.erase("blk.0.attn_norm.weight");
       },
       "tensor blk.0.attn_norm.weight is missing, expected shape [64]"},
      {"a layer between is missing",
       [](test::FileParts& p) {
         p.tensors["blk.3.attn_norm.weight"] = p.tensors.at("blk.1.attn_norm.weight");
       },
       "tensor blk.2.time_mix_w1.weight is missing"},
      {"numbers that no layer has",
       [](test::FileParts& p) {
         for (const char* number : {"-1", "4096", "99999999999999999999", "1x"})
           p.tensors["blk." + std::string(number) + ".attn_norm.weight"] = {.shape = {64},
                                                                            .data = {}};
       },
       "attn_norm.weight has no place"},
      {"the head is missing", [](test::FileParts& p) { p.tensors.erase("output.weight"); },
       "tensor output.weight is missing"},
      {"the norm behind the embedding is missing",
       [](test::FileParts& p) { p.tensors.erase("token_embd_norm.bias"); },
       "tensor token_embd_norm.bias is missing"},
      {"a vector is short",
       [](test::FileParts& p) {
         p.tensors["blk.0.time_mix_k_k.weight"] = {.shape = {63}, .data = {}};
       },
       "tensor blk.0.time_mix_k_k.weight has shape [63], expected [64]"},
      {"five lerps of six",
       [](test::FileParts& p) {
         p.tensors["blk.0.time_mix_lerp_fused.weight"] = {.shape = {5, 1, 1, 64}, .data = {}};
       },
       "tensor blk.0.time_mix_lerp_fused.weight has shape [5, 1, 1, 64], expected [6, 64]"},
      {"a vector as a matrix of blocks",
       [](test::FileParts& p) {
         p.tensors.at("blk.1.attn_norm.weight").shape = {8, 8};
       },
       "tensor blk.1.attn_norm.weight has shape [8, 8], expected [64]"},
      {"an input of attention",
       [](test::FileParts& p) {
         p.tensors["blk.1.attn_q.weight"] = {.shape = {64, 64}, .data = {}};
       },
       "tensor blk.1.attn_q.weight has no place"},
      {"another width",
       [](test::FileParts& p) { p.keys["rwkv7.embedding_length"] = std::uint32_t{65}; },
       "key rwkv7.embedding_length is 65, the tensors' shapes say 64"},
      {"more layers", [](test::FileParts& p) { p.keys["rwkv7.block_count"] = std::uint32_t{3}; },
       "key rwkv7.block_count is 3, the tensors' shapes say 2"},
      {"a head that does not divide",
       [](test::FileParts& p) { p.keys["rwkv7.wkv.head_size"] = std::uint32_t{48}; },
       "head size is 48, expected a divisor of the width 64"},
      {"no head", [](test::FileParts& p) { p.keys["rwkv7.wkv.head_size"] = std::int32_t{-1}; },
       "head size is -1"},
      {"no epsilon",
       [](test::FileParts& p) { p.keys["rwkv7.attention.layer_norm_epsilon"] = 0.0F; },
       "epsilon is 0, expected a number above 0"},
      {"another number of shifts",
       [](test::FileParts& p) { p.keys["rwkv7.token_shift_count"] = std::uint32_t{1}; },
       "token_shift_count is 1, expected 2"},
      {"a key of ours",
       [](test::FileParts& p) { p.keys["gsa.num_memory_slots"] = std::uint32_t{4}; },
       "key gsa.num_memory_slots does not belong"},
      {"no layers",
       [](test::FileParts& p) {
         std::erase_if(p.tensors, [](const auto& t) { return t.first.starts_with("blk."); });
       },
       "tensor blk.0.attn_norm.weight is missing"},
  };
  for (const Case& c : cases) {
    test::FileParts parts = parts_of("rwkv7/rwkv7_64");
    c.change(parts);
    EXPECT_THAT(error_of(parts), HasSubstr(c.message)) << c.name;
  }
}

TEST(ShiftedModel, NamesTheHalfOfAGateThatIsMissing) {
  for (const char* half : {"blk.1.time_mix_g1.weight", "blk.1.time_mix_g2.weight"}) {
    test::FileParts parts = parts_of("arwkv7");
    parts.tensors.erase(half);
    EXPECT_THAT(error_of(parts), HasSubstr("tensor " + std::string(half) + " is missing"));
  }
}

TEST(ShiftedModel, QuantisedFilesOpenAndKeepTheDummies) {
  const test::TemporaryDirectory directory;
  const auto out = directory.path() / "out.gguf";
  const Result<ModelFile> source = test::open_model(golden("rwkv7/rwkv7_64") / "model.gguf");
  ASSERT_TRUE(source) << source.error().message;
  const auto stored = quantize_model(*source, out, {.type = quant::BlockType::q8_0});
  ASSERT_TRUE(stored) << stored.error().message;
  const Result<ModelFile> model = test::open_model(out);
  ASSERT_TRUE(model) << model.error().message;
  const RecurrenceWeights& w = model->weights.layers[1].recurrence();
  EXPECT_EQ(w.k_proj.type, quant::BlockType::q8_0);
  EXPECT_EQ(w.f_down.type, quant::BlockType::f16);
  EXPECT_EQ(w.lerp.type, quant::BlockType::f32);
  EXPECT_NE(model->file->find_tensor("blk.0.time_mix_v2.weight"), nullptr);
  EXPECT_TRUE(model->config.layers == source->config.layers);
}

/// The checkpoint with a changed config.json and, if given, without one tensor.
std::string convert_error(void (*change)(Json&), const std::string& renamed = {}) {
  const test::TemporaryDirectory directory;
  Json config = Json::parse(test::read_text(golden("rwkv7/rwkv7_64") / "hf" / "config.json"));
  change(config);
  std::string raw = test::read_text(golden("rwkv7/rwkv7_64") / "hf" / "model.safetensors");
  if (const std::size_t at = renamed.empty() ? std::string::npos : raw.find(renamed);
      at != std::string::npos)
    raw[at] = 'X';
  directory.file("config.json", config.dump());
  directory.file("model.safetensors", raw);
  const auto r = test::convert_tensors(directory.path(), directory.path() / "out.gguf", {});
  return r ? "" : r.error().message;
}

TEST(ShiftedCheckpoint, ConfigurationsAreCheckedNotBelieved) {
  EXPECT_EQ(convert_error([](Json&) {}), "");
  EXPECT_EQ(convert_error([](Json& c) {
              for (const char* key : {"intermediate_size", "decay_low_rank_dim", "a_low_rank_dim",
                                      "v_low_rank_dim", "gate_low_rank_dim", "value_dim"})
                c[key] = nullptr;
            }),
            "");
  EXPECT_EQ(convert_error([](Json& c) {
              c["head_size"] = c["head_dim"];
              c["layer_norm_epsilon"] = c["norm_eps"];
              c.erase("head_dim");
              c.erase("norm_eps");
            }),
            "");
  EXPECT_THAT(convert_error([](Json& c) { c["lora_rank_decay"] = 10; }),
              HasSubstr("lora_rank_decay is 10, the tensors' shapes say 9"));
  EXPECT_THAT(convert_error([](Json& c) { c["head_dim"] = 32; }),
              HasSubstr("head_dim is 32, the tensors' shapes say 64"));
  EXPECT_THAT(convert_error([](Json& c) {
                c["value_dim"] = {64, 128};
              }),
              HasSubstr("value_dim is 128, the tensors' shapes say 64"));
  EXPECT_THAT(convert_error([](Json& c) {
                c["value_dim"] = {64, 64, 64};
              }),
              HasSubstr("the length of value_dim is 3, the tensors' shapes say 2"));
  EXPECT_EQ(convert_error([](Json& c) { c["value_dim"] = 64; }), "");
  EXPECT_THAT(convert_error([](Json& c) { c["value_dim"] = 32; }),
              HasSubstr("value_dim is 32, the tensors' shapes say 64"));
  EXPECT_THAT(convert_error([](Json& c) {
                c["value_dim"] = {64, "x"};
              }),
              HasSubstr("value_dim is [64,\"x\"], expected whole numbers"));
  EXPECT_THAT(convert_error([](Json& c) { c["hidden_act"] = "swish"; }),
              HasSubstr("hidden_act is 'swish', expected 'sqrelu'"));
  EXPECT_THAT(convert_error([](Json& c) { c["norm_first"] = false; }), HasSubstr("norm_first"));
  EXPECT_THAT(convert_error([](Json& c) {
                c["attn"] = {{"layers", {1}}};
              }),
              HasSubstr("softmax attention"));
}

TEST(ShiftedCheckpoint, NamesATensorThatIsMissing) {
  for (const char* name : {"model.layers.1.attn_norm.weight", "model.layers.0.attn_norm.weight",
                           "model.layers.1.attn.v_lora.lora.2.bias", "model.layers.0.attn.x_g",
                           "model.layers.0.pre_norm.weight", "model.layers.1.ffn.x_k"}) {
    EXPECT_THAT(convert_error([](Json&) {}, name), HasSubstr(name));
  }
}

}  // namespace
}  // namespace runnel
