// SPDX-License-Identifier: Apache-2.0
// The files of models/ hold the codes that training left, bit for bit: each is the trained model, not a
// rounding of it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
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

struct Stored {
  // In tests/data; its codes.json was made by make_codes.py from the training checkpoint.
  const char* folder;
  const char* file;      // in models/
  const char* variable;  // environment: another path of the file

  std::string path() const {
    const char* other = std::getenv(variable);
    return other != nullptr ? other : std::string(RUNNEL_MODELS "/") + file;
  }
};

constexpr Stored kSmall = {"default_model", "runnel-gsa-135m-instruct.gguf",
                           "RUNNEL_TEST_MODEL_135M"};
constexpr Stored kHalfBillion = {"default_model_05b",
                                 "runnel-gsa-0.5b-coder-instruct-00001-of-00003.gguf",
                                 "RUNNEL_TEST_MODEL_05B"};

nlohmann::json expected_codes(const Stored& stored) {
  std::ifstream in(std::string(RUNNEL_TEST_DATA "/") + stored.folder + "/codes.json");
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

class DefaultModel : public ::testing::TestWithParam<Stored> {
 protected:
  void SetUp() override {
    auto opened = GgufFile::open(GetParam().path());
    if (!opened && opened.error().code == ErrorCode::not_found) {
      GTEST_SKIP() << "its codes are NOT checked: " << opened.error().message;
    }
    ASSERT_TRUE(opened) << opened.error().message;
    file_ = *std::move(opened);
  }
  std::shared_ptr<const GgufFile> file_;
};

INSTANTIATE_TEST_SUITE_P(Models, DefaultModel, ::testing::Values(kSmall, kHalfBillion),
                         [](const auto& each) { return std::string(each.param.folder); });

TEST_P(DefaultModel, EveryTensorHoldsTheCodesThatTrainingLeft) {
  const nlohmann::json expected = expected_codes(GetParam());
  EXPECT_EQ(file_->tensors().size(), expected.size());
  for (const auto& [name, want] : expected.items()) {
    const GgufTensor* tensor = file_->find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    ASSERT_EQ(quant::format_of(tensor->type).name, want.at("type").get<std::string>()) << name;
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

TEST_P(DefaultModel, SaysWhatItsModelCardSays) {
  const bool small = std::string(GetParam().folder) == kSmall.folder;
  const auto model = ModelFile::from_gguf(file_);
  ASSERT_TRUE(model) << model.error().message;
  const ModelConfig& m = model->config;
  const LayerSpec& c = m.layers.front();
  const SlotSpec& s = c.slots();
  EXPECT_EQ(m.name, small ? "runnel-gsa-135m-instruct" : "runnel-gsa-0.5b-coder-instruct");
  EXPECT_EQ(*file_->get_string("general.license"), "apache-2.0");
  EXPECT_EQ(m.num_layers(), small ? 30 : 24);
  EXPECT_EQ(s.num_sink_slots, 4);
  EXPECT_EQ(s.num_window_slots, small ? 60 : 252);
  EXPECT_EQ(s.num_memory_slots, small ? 64 : 128);
  EXPECT_EQ(s.sink_distance, small ? 64 : 256);
  EXPECT_EQ(s.rope_theta, small ? 100000.0 : 1000000.0);
  EXPECT_EQ(s.scale, 0.125F);
  EXPECT_EQ(s.gate_normalizer, 8.0F);
  EXPECT_EQ(s.gate_log_min, -1.2F);
  EXPECT_EQ(m.final_norm.eps, small ? 1e-5F : 1e-6F);
  EXPECT_EQ(c.qkv_bias, !small);
  EXPECT_EQ(s.feature_map, FeatureMap::identity);
  EXPECT_EQ(s.value_activation, Activation::identity);
  EXPECT_EQ(c.output_activation, Activation::identity);
  EXPECT_EQ(c.output_norm, OutputNorm::none);
  EXPECT_TRUE(model->weights.tied());
  EXPECT_TRUE(file_->find("tokenizer.ggml.tokens") != nullptr);
}

}  // namespace
}  // namespace runnel
