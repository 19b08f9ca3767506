// SPDX-License-Identifier: Apache-2.0
// Checkpoints' tensors: both layouts, every option of the family, and what is refused by name.
#include "runtime/model/hf_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/model_files.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

/// Names, shapes and bytes of a converted checkpoint.
std::map<std::string, std::vector<std::byte>> converted(const std::string& checkpoint) {
  const test::TemporaryDirectory directory;
  const auto path = directory.path() / "model.gguf";
  const auto stored = test::convert_tensors(test::tiny_checkpoint(checkpoint), path, {});
  EXPECT_TRUE(stored) << stored.error().message;
  const auto file = GgufFile::open(path);
  EXPECT_TRUE(file) << file.error().message;
  std::map<std::string, std::vector<std::byte>> out;
  for (const GgufTensor& t : (*file)->tensors()) {
    out[t.name] = std::vector<std::byte>(t.data.begin(), t.data.end());
  }
  return out;
}

TEST(HfCheckpoint, TheLayoutOf2024GivesTheSameModel) {
  EXPECT_EQ(converted("tiny_base_legacy"), converted("tiny_base"));
}

TEST(HfCheckpoint, FloatsArriveUnchanged) {
  const auto tensors = converted("tiny_conv");
  const auto source = SafetensorsCheckpoint::open(test::tiny_checkpoint("tiny_conv"));
  ASSERT_TRUE(source);
  EXPECT_EQ(tensors.size(), source->names().size());
  for (const std::string_view name : source->names()) {
    const auto bytes = source->find(name)->bytes;
    const auto it = tensors.find(std::string(name));
    ASSERT_NE(it, tensors.end()) << name;
    EXPECT_TRUE(std::ranges::equal(it->second, bytes)) << name;
  }
}

TEST(HfCheckpoint, EveryTinyModelLoadsInEveryType) {
  using quant::BlockType;
  for (const char* name : test::kTinyCheckpoints) {
    for (const BlockType type : {BlockType::f32, BlockType::f16, BlockType::bf16, BlockType::q8_0,
                                 BlockType::q4_0, BlockType::q4_k, BlockType::q6_k}) {
      const test::TemporaryDirectory directory;
      const auto path = directory.path() / "model.gguf";
      const auto stored =
          test::convert_tensors(test::tiny_checkpoint(name), path, {.type = type, .threads = 2});
      ASSERT_TRUE(stored) << name << ": " << stored.error().message;
      const Result<ModelFile> model = test::open_model(path);
      ASSERT_TRUE(model) << name << ": " << model.error().message;
      // Rows of 64 hold no block of 256.
      const BlockType linear = type == BlockType::q4_k   ? BlockType::q4_0
                               : type == BlockType::q6_k ? BlockType::q8_0
                                                         : type;
      const LayerWeights& layer = model->weights.layers[1];
      EXPECT_EQ(layer.slots().q_proj.type, linear);
      EXPECT_EQ(layer.channel_mix.down_proj.type, name == std::string("tiny_gqa") ? linear : type);
      EXPECT_EQ(layer.slots().f_proj.type,
                type == BlockType::f32 || type == BlockType::bf16 ? type : BlockType::f16);
      EXPECT_EQ(layer.slots().norm.weight.type, BlockType::f32);
      EXPECT_EQ(model->weights.tied(), name == std::string("tiny_tied"));
      EXPECT_EQ(layer.output.g_norm.present(), name != std::string("tiny_noaffine_relu"));
      EXPECT_EQ(layer.slots().q_conv.present(), name == std::string("tiny_conv"));
      EXPECT_EQ(layer.slots().feature_map.present(), name == std::string("tiny_t2r"));
    }
  }
}

/// A checkpoint directory with the tensors of tiny_base, changed.
class ChangedCheckpoint {
 public:
  explicit ChangedCheckpoint(const char* name = "tiny_base") {
    const auto path = test::tiny_checkpoint(name);
    config = Json::parse(test::read_text(path / "config.json"));
    const std::string raw = test::read_text(path / "model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, raw.data(), sizeof length);
    header = Json::parse(raw.substr(8, length));
    data = raw.substr(8 + length);
  }

  Json& tensor(const std::string& name) { return header[name]; }

  /// A tensor over bytes that are added at the end.
  void add(const std::string& name, const char* dtype, std::vector<int> shape, std::size_t bytes) {
    header[name] = {
        {"dtype", dtype}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes}}};
    data.append(bytes, '\0');
  }

  /// Takes a tensor and its bytes out: a file has no gaps.
  bool remove(const std::string& name) {
    const auto found = header.find(name);
    if (found == header.end()) return false;
    const auto begin = (*found)["data_offsets"][0].get<std::size_t>();
    const auto end = (*found)["data_offsets"][1].get<std::size_t>();
    data.erase(begin, end - begin);
    header.erase(found);
    for (Json& tensor : header) {
      if (!tensor.contains("data_offsets")) continue;
      for (Json& offset : tensor["data_offsets"]) {
        if (offset.get<std::size_t>() >= end) offset = offset.get<std::size_t>() - (end - begin);
      }
    }
    return true;
  }

  std::string convert_error(std::string* converted = nullptr) const {
    const test::TemporaryDirectory directory;
    const std::string head = header.dump();
    const std::uint64_t length = head.size();
    std::string raw(8, '\0');
    std::memcpy(raw.data(), &length, sizeof length);
    directory.file("model.safetensors", raw + head + data);
    directory.file("config.json", config.dump());
    const auto r = test::convert_tensors(directory.path(), directory.path() / "out.gguf", {});
    EXPECT_FALSE(std::filesystem::exists(directory.path() / "out.gguf") && !r);
    if (r && converted != nullptr) *converted = test::read_text(directory.path() / "out.gguf");
    return r ? "" : r.error().message;
  }

  Json config;
  Json header;
  std::string data;
};

TEST(HfCheckpoint, TheUnchangedCheckpointConverts) {
  EXPECT_EQ(ChangedCheckpoint().convert_error(), "");
}

TEST(HfCheckpoint, GateAndUpOfTheFamilyMayBePacked) {
  for (const char* name : {"siblings/gla", "siblings/hgrn2", "siblings/linear_attn"}) {
    const ChangedCheckpoint separate(name);
    ChangedCheckpoint packed(name);
    for (int layer = 0; layer < packed.config["num_hidden_layers"].get<int>(); ++layer) {
      const std::string mlp = "model.layers." + std::to_string(layer) + ".mlp.";
      Json& gate = packed.tensor(mlp + "gate_proj.weight");
      const Json up = packed.tensor(mlp + "up_proj.weight");
      ASSERT_EQ(gate["data_offsets"][1], up["data_offsets"][0])
          << "expected neighbours in the file";
      gate["data_offsets"][1] = up["data_offsets"][1];
      gate["shape"][0] = 2 * up["shape"][0].get<int>();
      packed.header.erase(mlp + "up_proj.weight");
    }
    std::string expected, actual;
    EXPECT_EQ(separate.convert_error(&expected), "") << name;
    EXPECT_EQ(packed.convert_error(&actual), "") << name;
    EXPECT_TRUE(actual == expected) << name;
  }
}

/// A member of the family with another option, and what its layers have then: tensors that go, and
/// tensors of zeros that come, a name behind "model.layers.N.attn." and a shape each.
struct FamilyOption {
  const char* checkpoint;
  Json options;
  std::vector<const char*> without;
  std::vector<std::pair<const char*, std::vector<int>>> with;
};

std::vector<FamilyOption> family_options() {
  using Names = std::vector<const char*>;
  const Names maps{"feature_map_q.layer1.weight", "feature_map_q.layer1.bias",
                   "feature_map_q.layer2.weight", "feature_map_q.layer2.bias",
                   "feature_map_k.layer1.weight", "feature_map_k.layer1.bias",
                   "feature_map_k.layer2.weight", "feature_map_k.layer2.bias"};
  const Names key_maps(maps.begin() + 4, maps.end());
  return {
      {"gla", {{"feature_map", "swish"}}, {}, {}},
      {"gla", {{"feature_map", "silu"}}, {}, {}},
      {"gla", {{"feature_map", "relu"}, {"clamp_min", -1.5}}, {}, {}},
      {"gla",
       {{"expand_k", 1}},
       {"q_proj.weight", "k_proj.weight", "gk_proj.1.weight", "gk_proj.1.bias"},
       {{"q_proj.weight", {64, 64}},
        {"k_proj.weight", {64, 64}},
        {"gk_proj.1.weight", {64, 16}},
        {"gk_proj.1.bias", {64}}}},
      {"gla",
       {{"use_output_gate", false}},
       {"g_proj.weight", "g_norm_swish_gate.weight"},
       {{"g_norm.weight", {32}}}},
      {"gla",
       {{"use_short_conv", true}, {"conv_size", 3}},
       {},
       {{"q_conv1d.weight", {32, 1, 3}},
        {"k_conv1d.weight", {32, 1, 3}},
        {"v_conv1d.weight", {64, 1, 3}}}},
      {"gla_gqa", {{"use_output_gate", true}}, {}, {{"g_proj.weight", {64, 64}}}},
      {"hgrn2", {{"expand_ratio", 16}}, {}, {}},
      {"hgrn2",
       {{"use_short_conv", true}},
       {},
       {{"q_conv1d.weight", {64, 1, 4}},
        {"f_conv1d.weight", {64, 1, 4}},
        {"i_conv1d.weight", {64, 1, 4}}}},
      {"retnet", {{"feature_map", "relu"}}, {}, {}},
      {"retnet",
       {{"use_output_gate", false}},
       {"g_proj.weight", "g_norm_swish_gate.weight"},
       {{"g_norm.weight", {32}}}},
      {"linear_attn", {{"feature_map", "identity"}}, maps, {}},
      {"linear_attn", {{"feature_map", "relu"}, {"norm_q", true}}, maps, {}},
      {"linear_attn", {{"feature_map", "elu"}, {"norm_k", true}}, maps, {}},
      {"linear_attn", {{"feature_map", "dpfp"}, {"norm_feature_map", true}}, maps, {}},
      {"linear_attn",
       {{"feature_map", "t2r"}},
       maps,
       {{"feature_map_q.layer.weight", {32, 32}}, {"feature_map_k.layer.weight", {32, 32}}}},
      {"linear_attn", {{"tie_feature_map_qk", true}}, key_maps, {}},
      {"linear_attn",
       {{"feature_map", "t2r"}, {"tie_feature_map_qk", true}},
       maps,
       {{"feature_map_q.layer.weight", {32, 32}}}},
      {"abc", {{"use_rope", false}}, {}, {}},
      {"abc", {{"clamp_min", nullptr}, {"clamp_max", nullptr}}, {}, {}},
      {"abc",
       {{"use_short_conv", true}},
       {},
       {{"q_conv1d.weight", {32, 1, 4}},
        {"k_conv1d.weight", {32, 1, 4}},
        {"v_conv1d.weight", {64, 1, 4}}}},
  };
}

TEST(HfCheckpoint, TheFamilyConvertsWithEveryOption) {
  for (const FamilyOption& option : family_options()) {
    ChangedCheckpoint c((std::string("siblings/") + option.checkpoint).c_str());
    c.config.update(option.options);
    for (int layer = 0; layer < c.config["num_hidden_layers"].get<int>(); ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".attn.";
      for (const char* name : option.without) EXPECT_TRUE(c.remove(prefix + name)) << name;
      for (const auto& [name, shape] : option.with) {
        std::size_t count = 1;
        for (const int n : shape) count *= static_cast<std::size_t>(n);
        c.add(prefix + name, "F32", shape, count * 4);
      }
    }
    const std::string what = std::string(option.checkpoint) + " " + option.options.dump();
    EXPECT_EQ(c.convert_error(), "") << what;
  }
}

TEST(HfCheckpoint, TheFamilyLoadsInEveryType) {
  using quant::BlockType;
  for (const char* name : {"gla", "hgrn2", "retnet_gqa", "linear_attn", "abc", "regla"}) {
    for (const BlockType type : {BlockType::bf16, BlockType::q8_0, BlockType::q4_k}) {
      const test::TemporaryDirectory directory;
      const auto path = directory.path() / "model.gguf";
      const auto stored = test::convert_tensors(test::tiny_checkpoint("siblings") / name, path,
                                                {.type = type, .threads = 2});
      ASSERT_TRUE(stored) << name << ": " << stored.error().message;
      const Result<ModelFile> model = test::open_model(path);
      ASSERT_TRUE(model) << name << ": " << model.error().message;
    }
  }
}

TEST(HfCheckpoint, NamesATensorThatIsMissing) {
  ChangedCheckpoint c;
  c.config["elementwise_affine"] = true;
  c.add("model.layers.1.attn.renamed.weight", "F32", {64}, 256);
  c.config["num_hidden_layers"] = 3;
  EXPECT_THAT(c.convert_error(),
              HasSubstr("tensor model.layers.2.attn_norm.weight is missing, expected shape [64]"));
}

TEST(HfCheckpoint, NamesTensorsWithoutAPlace) {
  ChangedCheckpoint c;
  c.add("model.layers.0.attn.g_proj.weight", "F32", {64, 64}, 64 * 64 * 4);
  EXPECT_THAT(c.convert_error(), HasSubstr("1 tensors that this configuration has no place for: "
                                           "model.layers.0.attn.g_proj.weight"));
  ChangedCheckpoint no_affine;
  no_affine.config["elementwise_affine"] = false;
  EXPECT_THAT(no_affine.convert_error(), HasSubstr("model.layers.0.attn.g_norm.weight"));
}

TEST(HfCheckpoint, NamesATensorOfTheWrongShape) {
  ChangedCheckpoint c;
  c.config["num_slots"] = 32;
  EXPECT_THAT(c.convert_error(),
              HasSubstr("model.layers.0.attn.f_proj.weight has shape [32, 64], expected [64, 64]"));
}

TEST(HfCheckpoint, NamesATensorOfAnotherType) {
  ChangedCheckpoint c;
  c.tensor("model.norm.weight")["dtype"] = "I32";
  EXPECT_THAT(c.convert_error(), HasSubstr("model.norm.weight is I32, expected F32, F16 or BF16"));
}

TEST(HfCheckpoint, NamesAWeightThatIsNotFinite) {
  ChangedCheckpoint c;
  const auto offset = c.tensor("model.layers.1.mlp.up_proj.weight")["data_offsets"][0];
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(c.data.data() + offset.get<std::size_t>() + (64 * 5 + 7) * 4, &nan, sizeof nan);
  EXPECT_THAT(
      c.convert_error(),
      HasSubstr("tensor 'model.layers.1.mlp.up_proj.weight': value 327 (row 5, column 7) is nan"));
}

TEST(HfCheckpoint, AHeadStoredTwiceIsTiedOnlyIfItIsTheSame) {
  ChangedCheckpoint same;
  same.config["tie_word_embeddings"] = true;
  const auto offset = [&same](const char* name, int end) {
    return same.tensor(name)["data_offsets"][end].get<std::size_t>();
  };
  const std::size_t table = offset("model.embeddings.weight", 0);
  std::copy_n(same.data.begin() + static_cast<std::ptrdiff_t>(table),
              offset("model.embeddings.weight", 1) - table,
              same.data.begin() + static_cast<std::ptrdiff_t>(offset("lm_head.weight", 0)));
  EXPECT_EQ(same.convert_error(), "");

  ChangedCheckpoint other;
  other.config["tie_word_embeddings"] = true;
  EXPECT_THAT(other.convert_error(),
              HasSubstr("lm_head.weight differs from model.embeddings.weight"));
}

}  // namespace
}  // namespace runnel
