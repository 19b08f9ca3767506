// SPDX-License-Identifier: Apache-2.0
// What the kernels of the ops read of a packed matrix, on the host, in every format of weights: products with rounded
// inputs and unpacked values. Needs no GPU.
#include "tests/cuda/simt.h"
// After the emulator, whose functions it calls.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "cuda/device/packed.cuh"
#include "quant/quantise.h"
#include "runtime/backend/cuda/pack.h"
#include "tests/support/random.h"
#include "tests/support/random_blocks.h"

namespace runnel::cuda {
namespace {

// Scales of Q4_K, Q5_K and Q6_K are products rounded to f16.
constexpr float kScaleTolerance = 6e-4F;

/// A matrix with random rows, packed, and its values.
struct Packing {
  std::vector<std::byte> stored;
  std::vector<float> values;  // [rows, cols]
  PackedMatrix packed;
  Matrix matrix;
};

Packing make(BlockType type, int rows, int cols) {
  Packing p;
  const quant::BlockTraits& format = quant::format_of(type);
  const auto n = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  p.stored.resize(static_cast<std::size_t>(rows) * quant::row_bytes(type, cols));
  if (quant::is_written(format)) {
    test::Random random(41);
    EXPECT_TRUE(quant::quantize_rows(type, random.normals(n), cols, p.stored));
  } else {
    p.stored = quant::scaled_blocks(
        type, p.stored.size() / static_cast<std::size_t>(format.block_bytes), 42, 1.0F);
  }
  p.values.resize(n);
  EXPECT_TRUE(quant::dequantize_rows(type, p.stored, cols, p.values));
  const WeightView view{.name = "w", .type = type, .rows = rows, .cols = cols, .data = p.stored};
  const WeightView* const one[] = {&view};
  p.packed = pack(one);
  p.matrix = {.type = p.packed.type,
              .rows = p.packed.rows,
              .cols = p.packed.cols,
              .lanes = p.packed.lanes,
              .steps = p.packed.steps,
              .data = p.packed.data.data(),
              .scales = p.packed.scales.data(),
              .high = p.packed.high.data()};
  return p;
}

/// Inputs as the kernels have them in shared memory, and what they stand for.
struct Inputs {
  std::vector<int4> low, high;
  std::vector<int2> meta;
  std::vector<float> values;

  explicit Inputs(int cols) {
    test::Random random(43);
    const std::vector<float> x = random.normals(static_cast<std::size_t>(cols));
    const auto blocks = static_cast<std::size_t>(cols / 32);
    low.resize(blocks), high.resize(blocks), meta.resize(blocks), values.resize(x.size());
    for (std::size_t b = 0; b < blocks; ++b) {
      const float d = 0.03F;
      std::int8_t q[32];
      int sums[2] = {};
      for (std::size_t i = 0; i < 32; ++i) {
        q[i] = static_cast<std::int8_t>(
            std::lrint(std::fmax(-127.0F, std::fmin(127.0F, x[32 * b + i] / d))));
        sums[i / 16] += q[i];
        values[32 * b + i] = d * static_cast<float>(q[i]);
      }
      std::memcpy(&low[b], q, 16);
      std::memcpy(&high[b], q + 16, 16);
      meta[b] = {__float_as_int(d), (sums[0] & 0xFFFF) | (sums[1] << 16)};
    }
  }
  SharedInput shared() {
    SharedInput s;
    s.q_low = low.data(), s.q_high = high.data(), s.meta = meta.data();
    return s;
  }
};

class PackedEmulated : public testing::TestWithParam<BlockType> {};

TEST_P(PackedEmulated, ProductsAreThoseOfTheStoredValues) {
  constexpr int kRows = 21, kCols = 768;
  const Packing p = make(GetParam(), kRows, kCols);
  Inputs inputs(kCols);
  const Matrix& m = p.matrix;
  for (int row = 0; row < kRows; ++row) {
    float sum = 0.0F, expected = 0.0F, size = 0.0F;
    for (int block = 0; block < kCols / 32; ++block) {
      const int lane = row % (32 / m.lanes) * m.lanes + block % m.lanes;
      const std::size_t step =
          static_cast<std::size_t>(row / (32 / m.lanes) * m.steps + block / m.lanes);
      with_type(m.type, [&]<BlockType kType>() {
        if constexpr (Packed<kType>::kBlocks)
          sum += Packed<kType>::dot(Packed<kType>::load(m, step * 32 + lane, lane), inputs.shared(),
                                    block);
      });
    }
    for (int c = 0; c < kCols; ++c) {
      const float product = p.values[static_cast<std::size_t>(row * kCols + c)] *
                            inputs.values[static_cast<std::size_t>(c)];
      expected += product;
      size += std::fabs(product);
    }
    ASSERT_NEAR(sum, expected, kScaleTolerance * size) << "row " << row;
    ASSERT_NE(sum, 0.0F);
  }
}

TEST_P(PackedEmulated, UnpacksTheStoredValues) {
  constexpr int kRows = 21, kCols = 768;
  const Packing p = make(GetParam(), kRows, kCols);
  for (int row = 0; row < kRows; ++row) {
    for (int first = 0; first < kCols; first += 8) {
      float out[8];
      unpack8(p.matrix, row, first, out);
      for (int i = 0; i < 8; ++i) {
        const float want = p.values[static_cast<std::size_t>(row * kCols + first + i)];
        // A minimum may be several times the value that is left of it.
        ASSERT_NEAR(out[i], want, 4 * kScaleTolerance * (1.0F + std::fabs(want)))
            << "row " << row << " column " << first + i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedEmulated, testing::ValuesIn(quant::block_formats()),
                         [](const auto& type) {
                           return std::string(quant::format_of(type.param).name);
                         });

}  // namespace
}  // namespace runnel::cuda
