// SPDX-License-Identifier: Apache-2.0
// Kernels whose errors a whole model would hide: exponentials and gates over their whole range, rounding, packing.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "quant/quantise.h"
#include "runtime/backend/cpu/isa.h"
#include "runtime/backend/cpu/kernels.h"
#include "runtime/backend/cpu/packed_matrix.h"
#include "tests/support/random.h"
#include "tests/support/random_blocks.h"

namespace runnel::cpu {
namespace {

constexpr double kGateTolerance = 5e-7;  // relative, of alpha and of 1 - alpha alike

class CpuKernels : public testing::TestWithParam<Isa> {
 protected:
  const Kernels kernels_ = *find_kernels(GetParam());
};

TEST_P(CpuKernels, GatesAreExactWhereAlphaIsNearlyOne) {
  std::vector<float> f;
  for (float x = -100.0F; x <= 100.0F; x += 0.37F) f.push_back(x);
  std::vector<float> alpha(f.size(), NAN), write(f.size(), NAN);
  kernels_.gates(f.data(), nullptr, static_cast<int>(f.size()), 8.0F, 0.0F, alpha.data(),
                 write.data());
  for (std::size_t i = 0; i < f.size(); ++i) {
    const double x = f[i];
    const double log_alpha = (std::min(x, 0.0) - std::log1p(std::exp(-std::fabs(x)))) / 8.0;
    EXPECT_NEAR(alpha[i] / std::exp(log_alpha), 1.0, 2e-6) << x;  // log alpha itself has 24 bits
    if (x > 80) {
      EXPECT_GE(write[i], 0.0F);  // may be denormal
    } else {
      EXPECT_NEAR(write[i] / -std::expm1(log_alpha), 1.0, kGateTolerance) << x;
    }
  }
}

TEST_P(CpuKernels, SigmoidsAreNearOverTheirWholeRange) {
  constexpr double kTolerance = 1e-6, kSmallest = 80.0;
  std::vector<float> x = {-1e9F, -89.0F, 1e9F, 0.0F, -1e-6F};
  for (float v = -80.0F; v <= 30.0F; v += 1.7F) x.push_back(v);
  const std::vector<float> bias(x.size(), 0.25F);
  for (const float* added : {static_cast<const float*>(nullptr), bias.data()}) {
    std::vector<float> out = x;  // in place
    kernels_.sigmoid(out.data(), added, static_cast<int>(x.size()), out.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double sum = static_cast<double>(x[i]) + (added != nullptr ? 0.25 : 0.0);
      const double expected = 1.0 / (1.0 + std::exp(-sum));
      if (sum < -kSmallest) {
        EXPECT_LT(out[i], 1e-34F) << x[i];
      } else {
        EXPECT_NEAR(out[i], expected, kTolerance * expected) << x[i];
      }
    }
  }
}

TEST_P(CpuKernels, ExponentialsOfScaledNumbersAreNear) {
  constexpr double kTolerance = 1e-6;
  constexpr float kBy = -0.60653066F;
  std::vector<float> x;
  for (float v = 0.0F; v <= 100.0F; v += 0.37F) x.push_back(v);
  std::vector<float> out = x;
  kernels_.exp_of(out.data(), static_cast<int>(x.size()), kBy, 0.0F);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = std::exp(static_cast<double>(kBy * x[i]));
    EXPECT_NEAR(out[i], expected, kTolerance * expected) << x[i];
  }
}

TEST_P(CpuKernels, GateFloorBoundsTheDecay) {
  const float f[3] = {-100.0F, -1.0F, 50.0F}, bias[3] = {-5.0F, 0.5F, 0.0F};
  float alpha[3], write[3];
  kernels_.gates(f, bias, 3, 8.0F, -1.2F, alpha, write);
  EXPECT_NEAR(alpha[0], std::exp(-1.2), kGateTolerance);
  EXPECT_NEAR(write[0], -std::expm1(-1.2), kGateTolerance);
  EXPECT_NEAR(alpha[1], std::pow(1.0 / (1.0 + std::exp(0.5)), 0.125), kGateTolerance);
  EXPECT_EQ(alpha[2], 1.0F);
}

TEST_P(CpuKernels, SoftmaxGivesMaskedLanesNothing) {
  std::vector<float> logits(48, 1000.0F);  // lanes that do not count hold large numbers
  for (int i = 0; i < 5; ++i) logits[static_cast<std::size_t>(i)] = static_cast<float>(i);
  for (int i = 0; i < 7; ++i)
    logits[static_cast<std::size_t>(32 + i)] = static_cast<float>(i) - 90.0F;
  const std::vector<float> in = logits;
  SlotSoftmaxArgs a{};
  a.logits = logits.data();
  a.positional_lanes = 32;
  a.valid = 5;
  a.memory_lanes = 16;
  a.memory = 7;
  a.scale = 0.5F;
  a.head_bias = 40.0F;
  kernels_.slot_softmax(a);
  double total = 0;
  for (int i = 0; i < 5; ++i) total += std::exp(0.5 * i);
  for (int i = 0; i < 7; ++i) total += std::exp(0.5 * (i - 90) + 40.0);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool positional = i < 5, memory = i >= 32 && i < 39;
    const double x = 0.5 * static_cast<double>(in[i]) + (memory ? 40.0 : 0.0);
    const double expected = positional || memory ? std::exp(x) / total : 0.0;
    EXPECT_NEAR(logits[i], expected, 1e-6 * expected) << i;
  }
}

TEST_P(CpuKernels, RoundingKeepsOneScaleForThirtyTwoInputs) {
  test::Random random(1);
  std::vector<float> x = random.normals(96);
  for (std::size_t i = 32; i < 64; ++i) x[i] = 0.0F;
  for (int width : kernels_.widths) {
    std::vector<std::uint8_t> pack(3 * kGroupBytes * static_cast<std::size_t>(width), 0xAA);
    const int t = width - 1;
    kernels_.quantise(x.data(), 96, pack.data(), width, t);
    for (std::size_t g = 0; g < 3; ++g) {
      const std::uint8_t* group = pack.data() + g * kGroupBytes * static_cast<std::size_t>(width);
      float largest = 0.0F;
      for (std::size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[32 * g + i]));
      const auto field = [&](int index) {
        const std::uint8_t* p = group + (32 + 4 * index) * width + 4 * t;
        std::uint32_t word;
        std::memcpy(&word, p, 4);
        return word;
      };
      EXPECT_FLOAT_EQ(std::bit_cast<float>(field(0)), largest / 127.0F);
      int sum = 0, first = 0;
      for (std::size_t i = 0; i < 32; ++i) {
        const int q = static_cast<std::int8_t>(group[32 * t + static_cast<int>(i)]);
        const float inverse = largest > 0 ? 127.0F / largest : 0.0F;
        EXPECT_EQ(q, static_cast<int>(std::nearbyint(x[32 * g + i] * inverse)));
        sum += q;
        if (i < 16) first += q;
      }
      EXPECT_FLOAT_EQ(std::bit_cast<float>(field(1)), largest / 127.0F * static_cast<float>(sum));
      EXPECT_EQ(static_cast<std::int32_t>(field(2)), -8 * sum);
      EXPECT_EQ(static_cast<std::int32_t>(field(3)), -8 * first);
    }
  }
}

/// A matrix of 3 tiles in its tiles.
struct Tiles {
  PackedMatrix matrix;
  std::vector<std::uint8_t> data;
};
Tiles random_tiles(quant::BlockType type, int cols) {
  constexpr int kRows = 3 * kTileRows;
  const auto values = static_cast<std::size_t>(kRows) * static_cast<std::size_t>(cols);
  const quant::BlockTraits& format = quant::format_of(type);
  std::vector<std::byte> bytes(kRows * quant::row_bytes(type, cols));
  if (format.kind == quant::ValueKind::block) {
    bytes = quant::random_blocks(type, values / static_cast<std::size_t>(format.block_values), 4);
  } else {
    EXPECT_TRUE(quant::quantize_rows(type, test::Random(5).normals(values), cols, bytes));
  }
  const WeightView view{.name = "w", .type = type, .rows = kRows, .cols = cols, .data = bytes};
  Tiles made{*plan_packing(view), {}};
  made.data.resize(made.matrix.bytes());
  made.matrix.data = made.data.data();
  pack_tiles(made.matrix, view, 0, made.matrix.tiles);
  return made;
}

/// As many as leave the last record of a tile half empty.
int odd_columns(quant::BlockType type) {
  return quant::format_of(type).block_values > 32 ? 3 * 256 : 5 * 32;
}

/// What `kernel` makes of x, all its tokens in packs of `width`, and the first n tiles; on top of 0.5, or not. Rows of other
/// tiles stay 0.5.
std::vector<float> product_of(const Kernels& kernels, const PackedMatrix& m, MatmulKernel kernel,
                              std::span<const float> x, int width, int n, bool accumulate) {
  const int tokens = static_cast<int>(x.size()) / m.cols;
  // 48 bytes for 32 inputs, or 4 for one.
  const std::size_t token_bytes =
      static_cast<std::size_t>(m.cols) / 32 * (m.quantised() ? kGroupBytes : 128);
  std::vector<std::uint8_t> packs(static_cast<std::size_t>(tokens) * token_bytes + 64);
  for (int t = 0; t < tokens; ++t) {
    const float* row = x.data() + t * m.cols;
    std::uint8_t* const pack =
        packs.data() + static_cast<std::size_t>(t / width * width) * token_bytes;
    if (m.quantised()) {
      kernels.quantise(row, m.cols, pack, width, t % width);
    } else {
      std::copy_n(row, m.cols, reinterpret_cast<float*>(packs.data()) + t * m.cols);
    }
  }
  std::vector<float> out(static_cast<std::size_t>(tokens * m.tiles * kTileRows), 0.5F);
  kernel({.tiles = m.data,
          .tile_bytes = m.tile_bytes,
          .n_tiles = n,
          .cols = m.cols,
          .acts = packs.data(),
          .out = out.data(),
          .out_stride = m.tiles * kTileRows,
          .accumulate = accumulate ? 1 : 0,
          .packs = tokens / width,
          .next = m.data,
          .next_bytes = m.tile_bytes});
  return out;
}

/// Each token by itself gives the bits of all together.
void expect_bits_of_each_alone(const Kernels& kernels, const PackedMatrix& m, MatmulKernel kernel,
                               std::span<const float> x, int width) {
  const auto cols = static_cast<std::size_t>(m.cols);
  const auto rows = static_cast<std::size_t>(m.tiles * kTileRows);
  for (int n = 1; n <= m.tiles; ++n) {
    for (const bool accumulate : {false, true}) {
      const std::vector<float> together = product_of(kernels, m, kernel, x, width, n, accumulate);
      for (std::size_t t = 0; t < x.size() / cols; ++t) {
        const std::vector<float> alone = product_of(kernels, m, kernels.matmul[m.format][0],
                                                    x.subspan(t * cols, cols), 1, n, accumulate);
        EXPECT_EQ(std::memcmp(alone.data(), together.data() + t * rows, rows * sizeof(float)), 0)
            << "token " << t << " of " << x.size() / cols << ", tiles " << n;
      }
    }
  }
}

/// Rows of which two make the largest sums: all codes are 127, or -127.
std::vector<float> rows_with_extremes(int tokens, int cols) {
  std::vector<float> x = test::Random(6).normals(static_cast<std::size_t>(tokens * cols));
  std::fill_n(x.begin() + cols, cols, 1.0F);
  std::fill_n(x.begin() + 2 * cols, cols, -1.0F);
  return x;
}

TEST_P(CpuKernels, APackOfTokensGivesTheBitsOfEachAlone) {
  constexpr int kCols = 768;
  for (const quant::BlockType type : quant::weight_formats()) {
    SCOPED_TRACE(quant::format_of(type).name);
    const Tiles tiles = random_tiles(type, kCols);
    for (int i = 1; i < kWidths; ++i)
      expect_bits_of_each_alone(kernels_, tiles.matrix, kernels_.matmul[tiles.matrix.format][i],
                                rows_with_extremes(kernels_.widths[i], kCols), kernels_.widths[i]);
  }
}

TEST_P(CpuKernels, AProductIsTheSumOverTheRowsThatComeBack) {
  constexpr double kSumTolerance = 1e-5;  // of the sum of magnitudes: f32, in groups
  test::Random random(8);
  for (const quant::BlockType type : quant::weight_formats()) {
    // An odd number of groups, or of blocks: the last record of a tile is not full.
    const int cols = odd_columns(type);
    const Tiles tiles = random_tiles(type, cols);
    const PackedMatrix& m = tiles.matrix;
    std::vector<float> x = random.normals(static_cast<std::size_t>(cols));
    std::vector<std::uint8_t> pack(static_cast<std::size_t>(cols) * 4 + 64);
    if (m.quantised()) {
      kernels_.quantise(x.data(), cols, pack.data(), 1, 0);
      for (int c = 0; c < cols; ++c) {
        const std::uint8_t* group = pack.data() + static_cast<std::size_t>(c / 32) * kGroupBytes;
        float scale;
        std::memcpy(&scale, group + 32, sizeof scale);
        x[static_cast<std::size_t>(c)] =
            scale * static_cast<float>(static_cast<std::int8_t>(group[c % 32]));
      }
    } else {
      std::memcpy(pack.data(), x.data(), x.size() * sizeof(float));
    }
    std::vector<float> out(static_cast<std::size_t>(m.tiles) * kTileRows, NAN);
    kernels_.matmul[m.format][0]({.tiles = m.data,
                                  .tile_bytes = m.tile_bytes,
                                  .n_tiles = m.tiles,
                                  .cols = cols,
                                  .acts = pack.data(),
                                  .out = out.data(),
                                  .out_stride = 0,
                                  .accumulate = 0,
                                  .packs = 1});
    std::vector<float> row(static_cast<std::size_t>(cols));
    for (int r = 0; r < m.rows; ++r) {
      unpack_row(m, r, row);
      double sum = 0, magnitude = 0;
      for (std::size_t c = 0; c < row.size(); ++c) {
        sum += static_cast<double>(row[c]) * x[c];
        magnitude += std::fabs(static_cast<double>(row[c]) * x[c]);
      }
      EXPECT_NEAR(out[static_cast<std::size_t>(r)], sum, kSumTolerance * magnitude)
          << quant::format_of(type).name << ", row " << r;
    }
  }
}

std::string isa_case(const testing::TestParamInfo<Isa>& info) {
  return std::string(isa_name(info.param));
}

INSTANTIATE_TEST_SUITE_P(Isas, CpuKernels, testing::ValuesIn(supported_isas()), isa_case);

TEST(PacksTogether, GiveTheBitsOfEachTokenAlone) {
  bool some = false;
  for (const Isa isa : supported_isas()) {
    const Kernels kernels = *find_kernels(isa);
    const int width = kernels.widths[kWidths - 1];
    for (const quant::BlockType type : quant::weight_formats()) {
      SCOPED_TRACE(std::string(isa_name(isa)) + " " + std::string(quant::format_of(type).name));
      // One group more than what AMX takes together, or three; more than the chunk that is unpacked at once.
      const int block = static_cast<int>(quant::format_of(type).block_values);
      const int odd = odd_columns(type);
      for (const int cols : {odd, odd + 2 * block, odd + 16 * 32}) {
        const Tiles tiles = random_tiles(type, cols);
        const MatmulKernel kernel = kernels.packs_matmul[tiles.matrix.format];
        if (kernel == nullptr) continue;
        some = true;
        for (const int packs : std::set{kernels.fewest_packs, kernels.most_packs}) {
          expect_bits_of_each_alone(kernels, tiles.matrix, kernel,
                                    rows_with_extremes(packs * width, cols), width);
        }
      }
    }
  }
  if (!some)
    GTEST_SKIP() << "no instruction set of this CPU takes several packs at once: needs AVX2";
}

TEST(PackedMatrix, RowsComeBackFromTheTilesBitForBit) {
  using quant::BlockType;
  test::Random random(2);
  constexpr std::int64_t kRows = 21;
  for (const BlockType type : quant::weight_formats()) {
    const std::int64_t cols = odd_columns(type);
    const std::vector<float> values = random.normals(static_cast<std::size_t>(kRows * cols));
    const quant::BlockTraits& format = quant::format_of(type);
    std::vector<std::byte> bytes(kRows * quant::row_bytes(type, cols));
    if (format.kind == quant::ValueKind::block) {
      bytes = quant::random_blocks(type,
                                   kRows * cols / static_cast<std::size_t>(format.block_values), 3);
    } else {
      ASSERT_TRUE(quant::quantize_rows(type, values, cols, bytes).has_value());
    }
    std::vector<float> expected(values.size());
    ASSERT_TRUE(quant::dequantize_rows(type, bytes, cols, expected).has_value());
    const WeightView view{.name = "w", .type = type, .rows = kRows, .cols = cols, .data = bytes};
    auto matrix = plan_packing(view);
    ASSERT_TRUE(matrix.has_value());
    std::vector<std::uint8_t> tiles(matrix->bytes());
    matrix->data = tiles.data();
    pack_tiles(*matrix, view, 0, matrix->tiles);
    std::vector<float> row(cols);
    for (int r = 0; r < kRows; ++r) {
      unpack_row(*matrix, r, row);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.begin() + r * cols))
          << quant::format_of(type).name << " row " << r;
    }
  }
}

}  // namespace
}  // namespace runnel::cpu
