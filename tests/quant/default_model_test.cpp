// SPDX-License-Identifier: Apache-2.0
// The default model's file holds the codes that training left, bit for bit: it is the trained
// model, not a rounding of it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quant/formats.h"
#include "runtime/base/hash.h"
#include "runtime/io/gguf.h"
#include "runtime/model/model_file.h"

namespace runnel {
namespace {

using quant::BlockType;

/// tests/data/default_model/codes.json, made by make_codes.py from the training checkpoint.
nlohmann::json expected_codes() {
  std::ifstream in(RUNNEL_TEST_DATA "/default_model/codes.json");
  return nlohmann::json::parse(in);
}

std::string hex(std::uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

/// The codes of all blocks one after the other, and their scales.
struct Parts {
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
};

template <class Block>
Parts split(std::span<const std::byte> data) {
  Parts parts;
  Block block;
  for (std::size_t at = 0; at + sizeof block <= data.size(); at += sizeof block) {
    std::memcpy(&block, data.data() + at, sizeof block);
    const auto d = std::as_bytes(std::span(&block.d, 1));
    const auto qs = std::as_bytes(std::span(block.qs));
    parts.scales.insert(parts.scales.end(), d.begin(), d.end());
    parts.codes.insert(parts.codes.end(), qs.begin(), qs.end());
  }
  return parts;
}

constexpr const char* kPath = RUNNEL_MODELS "/runnel-gsa-135m-instruct.gguf";

class DefaultModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kPath)) {
      GTEST_SKIP() << kPath << " is not in this checkout: its codes are NOT checked";
    }
  }
};

TEST_F(DefaultModel, EveryTensorHoldsTheCodesThatTrainingLeft) {
  const auto file = GgufFile::open(kPath);
  ASSERT_TRUE(file) << file.error().message;
  const nlohmann::json expected = expected_codes();
  EXPECT_EQ((*file)->tensors().size(), expected.size());
  for (const auto& [name, want] : expected.items()) {
    const GgufTensor* tensor = (*file)->find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    ASSERT_EQ(quant::block_traits(tensor->type)->name, want.at("type").get<std::string>()) << name;
    ASSERT_EQ(tensor->shape, want.at("shape").get<std::vector<std::int64_t>>()) << name;
    Parts parts;
    if (tensor->type == BlockType::q4_0) {
      parts = split<quant::BlockQ4_0>(tensor->data);
    } else if (tensor->type == BlockType::q8_0) {
      parts = split<quant::BlockQ8_0>(tensor->data);
    } else {
      parts.codes.assign(tensor->data.begin(), tensor->data.end());
    }
    EXPECT_EQ(hex(hash64(parts.codes)), want.at("codes").get<std::string>()) << name;
    if (want.contains("scales")) {
      EXPECT_EQ(hex(hash64(parts.scales)), want.at("scales").get<std::string>()) << name;
    }
  }
}

TEST_F(DefaultModel, SaysWhatItsModelCardSays) {
  auto file = GgufFile::open(kPath);
  ASSERT_TRUE(file) << file.error().message;
  const auto model = ModelFile::from_gguf(*file);
  ASSERT_TRUE(model) << model.error().message;
  const ModelConfig& m = model->config;
  const LayerSpec& c = m.layers.front();
  const SlotSpec& s = c.slots();
  EXPECT_EQ(m.name, "runnel-gsa-135m-instruct");
  EXPECT_EQ(*(*file)->get_string("general.license"), "apache-2.0");
  EXPECT_EQ(s.num_sink_slots, 4);
  EXPECT_EQ(s.num_window_slots, 60);
  EXPECT_EQ(s.num_memory_slots, 64);
  EXPECT_EQ(s.sink_distance, 64);
  EXPECT_EQ(s.rope_theta, 100000.0);
  EXPECT_EQ(s.scale, 0.125F);
  EXPECT_EQ(s.gate_normalizer, 8.0F);
  EXPECT_EQ(s.gate_log_min, -1.2F);
  EXPECT_EQ(m.final_norm.eps, 1e-5F);
  EXPECT_EQ(s.feature_map, FeatureMap::identity);
  EXPECT_EQ(s.value_activation, Activation::identity);
  EXPECT_EQ(c.output_activation, Activation::identity);
  EXPECT_EQ(c.output_norm, OutputNorm::none);
  EXPECT_TRUE(model->weights.tied());
  EXPECT_TRUE((*file)->find("tokenizer.ggml.tokens") != nullptr);
}

}  // namespace
}  // namespace runnel
