// SPDX-License-Identifier: Apache-2.0
// The packed streams hold every weight once, where the kernels read it. Host only.
#include "runtime/backend/cuda/pack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "quant/quantise.h"
#include "runtime/backend/cuda/resident_model.h"
#include "runtime/base/half.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"

namespace runnel::cuda {
namespace {

using quant::BlockType;

// of weights near 1: q4_k and q6_k scales are f16 products
constexpr double kScaleTolerance = 3e-3;

struct Tensor {
  std::vector<std::byte> bytes;
  WeightView view;
};

Tensor random_tensor(BlockType type, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  test::Random random(seed);
  const std::vector<float> values = random.normals(static_cast<std::size_t>(rows * cols));
  Tensor t;
  t.bytes.resize(static_cast<std::size_t>(rows) * quant::row_bytes(type, cols));
  EXPECT_TRUE(quant::quantize_rows(type, values, cols, t.bytes).has_value());
  t.view = {.name = "t", .type = type, .rows = rows, .cols = cols, .data = t.bytes};
  return t;
}

template <class T>
T read(const std::vector<std::byte>& from, std::size_t at) {
  T v;
  std::memcpy(&v, from.data() + at, sizeof v);
  return v;
}

/// Value (r, c) as the kernels read it; see Packed in cuda/device/packed.cuh.
float value_at(const PackedMatrix& m, int r, int c) {
  const std::size_t plain =
      static_cast<std::size_t>(r) * static_cast<std::size_t>(m.cols) + static_cast<std::size_t>(c);
  if (m.type == BlockType::f32) return read<float>(m.data, plain * 4);
  if (m.type == BlockType::f16) return f16_to_f32(read<std::uint16_t>(m.data, plain * 2));
  if (m.type == BlockType::bf16) return bf16_to_f32(read<std::uint16_t>(m.data, plain * 2));
  const int tile_rows = 32 / m.lanes, block = c / 32, j = c % 32;
  const std::size_t step = static_cast<std::size_t>(r / tile_rows * m.steps + block / m.lanes);
  const std::size_t lane = static_cast<std::size_t>(r % tile_rows * m.lanes + block % m.lanes);
  const std::size_t index = step * 32 + lane, byte = static_cast<std::size_t>(j % 16);
  if (m.type == BlockType::q8_0) {
    const std::size_t at = (step * 64 + (j >= 16 ? 32U : 0U) + lane) * 16 + byte;
    return f16_to_f32(read<std::uint16_t>(m.scales, index * 2)) *
           static_cast<float>(read<std::int8_t>(m.data, at));
  }
  const int nibble = (read<std::uint8_t>(m.data, index * 16 + byte) >> (j >= 16 ? 4 : 0)) & 15;
  if (m.type == BlockType::q4_0)
    return f16_to_f32(read<std::uint16_t>(m.scales, index * 2)) * static_cast<float>(nibble - 8);
  const float first = f16_to_f32(read<std::uint16_t>(m.scales, index * 4));
  const float second = f16_to_f32(read<std::uint16_t>(m.scales, index * 4 + 2));
  if (m.type == BlockType::q4_k) return first * static_cast<float>(nibble) - second;
  const int i = j % 16, word = i / 4;
  const int bits =
      (read<std::uint8_t>(m.high, index * 8 + static_cast<std::size_t>(word / 2 * 4 + i % 4)) >>
       (word % 2 * 4 + (j >= 16 ? 2 : 0))) &
      3;
  return (j >= 16 ? second : first) * static_cast<float>((nibble | (bits << 4)) - 32);
}

class Pack : public testing::TestWithParam<BlockType> {};

TEST_P(Pack, EveryWeightIsWhereTheKernelsReadIt) {
  const std::int64_t cols =
      GetParam() == BlockType::q4_k || GetParam() == BlockType::q6_k ? 768 : 288;
  for (std::int64_t rows : {1, 16, 37}) {
    const Tensor t = random_tensor(GetParam(), rows, cols, 3);
    std::vector<float> expected(static_cast<std::size_t>(rows * cols));
    ASSERT_TRUE(quant::dequantize_rows(t.view.type, t.view.data, cols, expected).has_value());
    const WeightView* const one[] = {&t.view};
    const PackedMatrix m = pack(one);
    ASSERT_EQ(m.rows, rows);
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        const float want = expected[static_cast<std::size_t>(r * cols + c)];
        ASSERT_NEAR(value_at(m, r, c), want, kScaleTolerance * (1.0 + std::fabs(want)))
            << "row " << r << " column " << c;
      }
    }
  }
}

TEST_P(Pack, StackedAndAlternatingRowsKeepTheirOrder) {
  const Tensor a = random_tensor(GetParam(), 5, 256, 1), b = random_tensor(GetParam(), 5, 256, 2);
  const WeightView* const both[] = {&a.view, &b.view};
  const WeightView* const only_b[] = {&b.view};
  const PackedMatrix stacked = pack(both), alternating = pack(both, RowOrder::alternating),
                     second = pack(only_b);
  for (int r = 0; r < 5; ++r) {
    EXPECT_EQ(value_at(stacked, 5 + r, 77), value_at(second, r, 77));
    EXPECT_EQ(value_at(alternating, 2 * r + 1, 77), value_at(second, r, 77));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Pack,
                         testing::Values(BlockType::f32, BlockType::f16, BlockType::bf16,
                                         BlockType::q8_0, BlockType::q4_0, BlockType::q4_k,
                                         BlockType::q6_k),
                         [](const auto& type) {
                           return std::string(quant::format_of(type.param).name);
                         });

TEST(WeightPlace, IsMappedMemoryOnlyWhereTheHostSharesItsMemory) {
  for (bool integrated : {false, true}) {
    for (bool maps : {false, true}) {
      DeviceFacts facts;
      facts.integrated = integrated, facts.maps_memory = maps;
      EXPECT_EQ(weight_place(facts),
                integrated && maps ? WeightPlace::mapped : WeightPlace::device);
    }
  }
}

/// The file's pages of a tensor are given back once it is packed: never two copies of a model.
TEST(DeviceWeights, GivesEveryTensorOfTheFileBack) {
  const test::RandomModel model =
      test::make_random_model(test::small_positional_config(), {.read_biases = true}, 3);
  Weights weights = *model.weights;
  std::set<const std::byte*> released;
  weights.release = [&](std::span<const std::byte> bytes) { released.insert(bytes.data()); };
  const auto made = DeviceWeights::create(model.config, weights, {}, WeightPlace::host);
  ASSERT_TRUE(made);
  EXPECT_GT(made->bytes, 0U);
  for (const LayerWeights& layer : weights.layers) {
    for_each_view(layer, [&](const WeightView& view) {
      EXPECT_TRUE(!view.present() || released.contains(view.data.data())) << view.name;
    });
  }
  EXPECT_TRUE(released.contains(weights.embeddings.data.data()));
  EXPECT_TRUE(released.contains(weights.head.data.data()));
}

}  // namespace
}  // namespace runnel::cuda
