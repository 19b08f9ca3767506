// SPDX-License-Identifier: Apache-2.0
// A model file stored in other types: which tensor gets which type, what stays untouched, what is refused.
#include "runtime/model/quantize_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/model_files.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using quant::BlockType;
using ::testing::HasSubstr;

class QuantizeModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto r = test::convert_tensors(test::tiny_checkpoint("tiny_base"), source_path(), {});
    ASSERT_TRUE(r) << r.error().message;
    const auto source = test::open_model(source_path());
    ASSERT_TRUE(source) << source.error().message;
    source_ = *source;
  }

  std::filesystem::path source_path() const { return directory_.path() / "source.gguf"; }
  std::filesystem::path out_path() const { return directory_.path() / "out.gguf"; }

  Result<ModelFile> quantize(const StoreOptions& options) {
    Result<std::vector<StoredTensor>> stored = quantize_model(source_, out_path(), options);
    if (!stored) return stored.error();
    stored_ = *stored;
    return test::open_model(out_path());
  }

  const StoredTensor& stored(const std::string& name) const {
    const auto it = std::ranges::find(stored_, name, &StoredTensor::name);
    EXPECT_NE(it, stored_.end()) << name;
    return *it;
  }

  test::TemporaryDirectory directory_;
  ModelFile source_;
  std::vector<StoredTensor> stored_;
};

TEST_F(QuantizeModel, EveryTypeThatIsWrittenHasTypesForTablesAndOddRows) {
  for (const quant::BlockTraits& t : quant::formats()) {
    if (!quant::is_written(t)) continue;
    const Result<ModelFile> model = quantize({.type = t.type});
    ASSERT_TRUE(model) << model.error().message;
    const std::int64_t cols = model->weights.embeddings.cols;
    EXPECT_EQ(model->weights.embeddings.type, fitting_type(t.for_tables, cols)) << t.name;
    for (const LayerWeights& layer : model->weights.layers)
      EXPECT_EQ(layer.slots().q_proj.type, fitting_type(t.type, cols)) << t.name;
  }
}

TEST_F(QuantizeModel, RefusesTypesThatAreReadOnly) {
  const Result<ModelFile> model = quantize({.type = BlockType::q3_k});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(model.error().message, HasSubstr("cannot be written as q3_k, expected f32, f16"));
}

TEST_F(QuantizeModel, EachRoleGetsItsType) {
  const Result<ModelFile> model = quantize({.type = BlockType::q4_0});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->weights.embeddings.type, BlockType::q8_0);
  EXPECT_EQ(model->weights.head.type, BlockType::q8_0);
  for (const LayerWeights& layer : model->weights.layers) {
    EXPECT_EQ(layer.slots().q_proj.type, BlockType::q4_0);
    EXPECT_EQ(layer.channel_mix.down_proj.type, BlockType::q4_0);
    EXPECT_EQ(layer.slots().f_proj.type, BlockType::f16);
    EXPECT_EQ(layer.output.g_norm.type, BlockType::f32);
  }
}

TEST_F(QuantizeModel, RowsThatFitNoSuperBlockSayWhatTheyBecame) {
  ASSERT_TRUE(quantize({.type = BlockType::q4_k}));
  const StoredTensor& q = stored("model.layers.0.attn.q_proj.weight");
  EXPECT_EQ(q.wanted, BlockType::q4_k);
  EXPECT_EQ(q.to, BlockType::q4_0);
  const StoredTensor& down = stored("model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(down.to, BlockType::q4_k);
  const StoredTensor& table = stored("model.embeddings.weight");
  EXPECT_EQ(table.wanted, BlockType::q6_k);
  EXPECT_EQ(table.to, BlockType::q8_0);
}

TEST_F(QuantizeModel, PatternsChooseTensorsAndTheLastOneCounts) {
  ASSERT_TRUE(quantize({.type = BlockType::q4_0,
                        .overrides = {{"\\.o_proj\\.", BlockType::q8_0},
                                      {"layers\\.1\\.attn\\.o_proj", BlockType::f16},
                                      {"f_proj.weight$", BlockType::f32}}}));
  EXPECT_EQ(stored("model.layers.0.attn.o_proj.weight").to, BlockType::q8_0);
  EXPECT_EQ(stored("model.layers.1.attn.o_proj.weight").to, BlockType::f16);
  EXPECT_EQ(stored("model.layers.1.attn.f_proj.weight").to, BlockType::f32);
  EXPECT_EQ(stored("model.layers.1.attn.q_proj.weight").to, BlockType::q4_0);
}

TEST_F(QuantizeModel, RefusesPatternsThatCannotBeMeant) {
  const auto message = [this](const char* pattern, BlockType type) {
    const auto r = quantize({.type = BlockType::q8_0, .overrides = {{pattern, type}}});
    return r ? std::string() : r.error().message;
  };
  EXPECT_THAT(message("nothing_like_it", BlockType::f16), HasSubstr("matches no tensor"));
  EXPECT_THAT(message("(", BlockType::f16), HasSubstr("pattern (: missing closing parenthesis"));
  EXPECT_THAT(message("norm", BlockType::q8_0), HasSubstr("is a norm or bias and cannot be q8_0"));
  EXPECT_THAT(message("f_proj", BlockType::q4_0), HasSubstr("is a gate weight and cannot be q4_0"));
  EXPECT_THAT(message("q_proj", BlockType::i8),
              HasSubstr("cannot be written as i8, expected f32, f16"));
  EXPECT_FALSE(std::filesystem::exists(out_path()));
}

TEST_F(QuantizeModel, StoringAgainInTheSameTypeChangesNoByte) {
  for (const BlockType type : {BlockType::f16, BlockType::q4_0, BlockType::q8_0, BlockType::q4_k}) {
    ASSERT_TRUE(quantize({.type = type}));
    const std::string once = test::read_text(out_path());
    const auto model = test::open_model(out_path());
    ASSERT_TRUE(model);
    const auto again = directory_.path() / "again.gguf";
    ASSERT_TRUE(quantize_model(*model, again, {.type = type, .measure_error = true}));
    EXPECT_EQ(test::read_text(again), once) << static_cast<int>(type);
  }
}

TEST_F(QuantizeModel, KeepsEveryKeyAndTheConfiguration) {
  const Result<ModelFile> model = quantize({.type = BlockType::q8_0});
  ASSERT_TRUE(model);
  for (const auto& [key, value] : source_.file->metadata()) {
    if (key == "general.file_type") continue;
    const GgufValue* copy = model->file->find(key);
    ASSERT_NE(copy, nullptr) << key;
    EXPECT_EQ(*copy, value) << key;
  }
  EXPECT_EQ(*model->file->get_int("general.file_type"), 7);
}

TEST_F(QuantizeModel, ReportsTheErrorOfEveryTensor) {
  ASSERT_TRUE(quantize({.type = BlockType::q4_0, .threads = 2, .measure_error = true}));
  EXPECT_EQ(stored("model.norm.weight").relative_rms, 0.0);
  const StoredTensor& q = stored("model.layers.0.attn.q_proj.weight");
  EXPECT_GT(q.relative_rms, 0.05);
  EXPECT_LT(q.relative_rms, 0.1);
  EXPECT_EQ(q.bytes, 64U * 36U);
  EXPECT_LT(stored("model.embeddings.weight").relative_rms, 0.01);
}

TEST_F(QuantizeModel, CancelLeavesNoFile) {
  const auto r = quantize({.type = BlockType::q8_0, .progress = [](float f) { return f < 0.5F; }});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, ErrorCode::cancelled);
  EXPECT_FALSE(std::filesystem::exists(out_path()));
}

}  // namespace
}  // namespace runnel
