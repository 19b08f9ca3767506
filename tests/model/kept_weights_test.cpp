// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/kept_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runnel/model.h"
#include "tests/support/loaded_model.h"
#include "tests/support/mixes.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using quant::BlockType;
using ::testing::HasSubstr;

GgufTensor tensor(BlockType type, std::int64_t values) {
  static const std::vector<std::byte> kBytes(1 << 16);
  GgufTensor t;
  t.type = type;
  t.shape = {values};
  t.data = std::span(kBytes).first(quant::row_bytes(type, values));
  return t;
}

TEST(KeptWeights, CountBytesInMemory) {
  EXPECT_EQ(kept_bytes(tensor(BlockType::q5_k, 512)), 352U);
  EXPECT_EQ(kept_bytes(tensor(BlockType::q3_k, 512)), 420U);    // as q6_k
  EXPECT_EQ(kept_bytes(tensor(BlockType::iq4_nl, 512)), 544U);  // as q8_0
  EXPECT_EQ(kept_bytes(tensor(BlockType::q2_k, 512)), 768U);    // 12 bits each
  EXPECT_EQ(kept_bytes(tensor(BlockType::f32, 10)), 40U);
}

TEST(KeptWeights, ANoteIsMadeFromAFifthMoreOn) {
  const KeptWeights repacked{
      .file_bytes = 10'000'000,
      .bytes = 12'000'000,
      .repacked = {{BlockType::q3_k, BlockType::q6_k}, {BlockType::iq4_xs, BlockType::wide}}};
  EXPECT_EQ(memory_note(repacked, 11'900'000), "");
  EXPECT_EQ(memory_note(repacked, 12'000'000),
            "weights take 12.0 MB in memory, 1.2 times the 10.0 MB of the file: q3_k is kept as "
            "q6_k, iq4_xs is kept as wide");
  EXPECT_EQ(
      memory_note({.file_bytes = 10'000'000, .bytes = 10'000'000, .repacked = {}}, 20'000'000), "");
}

TEST(KeptWeights, ALoadedModelSaysWhatItTakes) {
  ModelConfig c = test::small_config();
  const test::Mix* small = nullptr;
  for (const test::Mix& mix : test::llama_mixes()) {
    if (std::string(mix.name) == "IQ4_NL") small = &mix;
  }
  ASSERT_NE(small, nullptr);
  const auto model = test::load_model(test::make_mixed_model(c, *small, true, 5));
  EXPECT_THAT(model->info().memory_note, HasSubstr("iq4_nl is kept as q8_0"));
  const auto plain = test::load_model(
      test::make_random_model(c, {.linear = BlockType::q4_1, .table = BlockType::q5_0}, 5));
  EXPECT_EQ(plain->info().memory_note, "");
}

TEST(KeptWeights, ADeviceThatReadsTheFileAsItIsMayTakeNoMoreThanThat) {
  const auto random = test::make_random_model(
      test::small_config(), {.linear = BlockType::q5_1, .table = BlockType::q5_1}, 5);
  const test::TemporaryDirectory folder;
  test::write_gguf(random, folder / "model.gguf");
  const auto file = GgufFile::open(folder / "model.gguf");
  ASSERT_TRUE(file) << file.error().message;
  const KeptWeights kept = KeptWeights::of(**file);
  ASSERT_GT(kept.bytes, kept.file_bytes);
  for (const std::string device : {"cpu", "reference"}) {
    const auto loaded = Model::load(folder / "model.gguf", {.device = device, .threads = 1});
    ASSERT_TRUE(loaded) << loaded.error().message;
    ModelOptions options{.device = device, .threads = 1};
    options.memory_limit = kept.bytes + (*loaded)->info().state_bytes - 1;
    EXPECT_EQ(Model::load(folder / "model.gguf", options).has_value(), device == "reference")
        << device;
  }
}

}  // namespace
}  // namespace runnel
