// SPDX-License-Identifier: Apache-2.0
// The kernels of long passes alone: the chunkwise slots against the recurrence in f32, products
// against plain f32 ones. Every output and scratch is poisoned first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

#include "runtime/backend/cuda/cuda_backend.h"
#include "runtime/backend/cuda/resident_model.h"
#include "tests/cuda/prefill_support.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"

namespace runnel::test {
namespace {

constexpr double kOutputTolerance = 1.5e-2;  // bf16 operands and probabilities, f32 sums
constexpr double kStateTolerance = 6e-3;     // one rounding of keys and values, one of weights
constexpr double kProductTolerance = 1e-5;   // f32 sums of exact products
constexpr double kRoundedTolerance = 4e-3;   // one rounding to bf16

#define REQUIRE_CUDA() \
  if (cuda::devices().empty()) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked"
#define OK(expression) ASSERT_EQ(expression, cudaSuccess)

cuda::Launch launch_on(cudaStream_t stream) {
  const cuda::DeviceFacts facts = cuda::facts_of(0);
  return {.stream = stream,
          .chain = facts.major >= 9,
          .cluster_limit = facts.major >= 9 ? 8 : 1,
          .multiprocessors = facts.multiprocessors};
}

std::vector<double> turns_of(int k_dim) {
  std::vector<double> turns(static_cast<std::size_t>(k_dim / 2));
  for (std::size_t i = 0; i < turns.size(); ++i) {
    turns[i] = std::pow(10000.0, -2.0 * static_cast<double>(i) / k_dim) / 6.283185307179586;
  }
  return turns;
}

/// What all keys of a shape share, [H, K].
std::vector<float> key_biases(const MixerShape& s) {
  std::vector<float> all(static_cast<std::size_t>(s.kv_heads * s.k_dim), 0.0F);
  const auto k = static_cast<std::size_t>(s.k_dim);
  for (std::size_t head = 0; head < all.size(); head += k) {
    all[head + k / 2 - 1] = s.k_bias;
    all[head + k - 1] = -0.7F * s.k_bias;
  }
  return all;
}

/// q, k, v and log alpha of T tokens; gates of mean -`gate`; `k_bias` [H, K] is in every key.
std::vector<float> slot_inputs(const cuda::SlotMixer& m, int tokens, float gate,
                               std::span<const float> k_bias, Random& random) {
  const auto stride = static_cast<std::size_t>(m.input_stride);
  const auto q = static_cast<std::size_t>(m.heads * m.k_dim),
             qkv = q + static_cast<std::size_t>(m.kv_heads * (m.k_dim + m.v_dim));
  std::vector<float> inputs(stride * static_cast<std::size_t>(tokens));
  const float scale = 1.0F / std::sqrt(std::sqrt(static_cast<float>(m.k_dim)));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t column = i % stride;
    inputs[i] = column < qkv ? scale * random.normal()
                             : -gate * static_cast<float>(-std::log(1.0 - random.uniform()));
    if (column >= q && column < q + k_bias.size()) inputs[i] += k_bias[column - q];
    if (column >= qkv && m.gate_log_min < 0.0F) inputs[i] = std::max(inputs[i], m.gate_log_min);
  }
  return inputs;
}

void compare_slots(const MixerShape& shape, int tokens, float gate, std::uint64_t position,
                   std::uint64_t seed, bool print = true) {
  Random random(seed);
  cuda::SlotMixer m = mixer_of(shape);
  const auto stream = cuda::create_stream();
  ASSERT_TRUE(stream.has_value());
  const cuda::Launch l = launch_on(stream->get());
  OK(cuda::prepare_slot_chunks());
  const OnDevice<double> turns(turns_of(shape.k_dim));
  const std::vector<float> shared = key_biases(shape);
  const OnDevice<float> k_bias(shared);
  const OnDevice<float> inputs(slot_inputs(m, tokens, gate, shared, random));
  const OnDevice<float> read_bias(
      random.normals(static_cast<std::size_t>(shape.kv_heads * shape.memory), 0.3F));
  const OnDevice<float> head_bias(random.normals(static_cast<std::size_t>(shape.heads), 0.3F));
  const std::vector<float> start =
      random.normals(m.head_floats * static_cast<std::size_t>(shape.kv_heads), 0.5F);
  const std::size_t outputs =
      static_cast<std::size_t>(tokens) * static_cast<std::size_t>(shape.heads * shape.v_dim);
  m.inputs = inputs.get();
  m.turns = turns.get();
  m.read_bias = read_bias.get(), m.head_read_bias = head_bias.get();

  const OnDevice<float> expected_state(start), expected_out(outputs);
  cuda::Segment s{.state_in = expected_state.get(),
                  .state_out = expected_state.get(),
                  .position = position,
                  .first = 0,
                  .count = tokens};
  const OnDevice<cuda::Segment> segments(std::vector<cuda::Segment>{s});
  m.out = expected_out.get();
  if (shape.k_bias != 0.0F) m.k_bias = k_bias.get();
  ASSERT_EQ(cuda::chunk_kernels_of(m),
            shape.broad() ? cuda::ChunkKernels::broad : cuda::ChunkKernels::narrow);
  OK(cuda::slot_recurrent(l, m, segments.get(), 1));
  OK(cudaStreamSynchronize(l.stream));

  const OnDevice<float> state(start), out(outputs);
  const ChunkPool pool(shape, tokens);
  ASSERT_TRUE(pool.ok());
  s.state_in = s.state_out = state.get();
  m.out = out.get();
  const OnDevice<cuda::Segment> own(std::vector<cuda::Segment>{s});
  OK(cuda::slot_chunks(l, m, {own.get(), tokens}, pool.operands()));
  OK(cudaStreamSynchronize(l.stream));
  const double o = rms_relative_error(out.host(), expected_out.host()),
               h = rms_relative_error(state.host(), expected_state.host());
  if (print) {
    std::printf("[ parity   ] %-16s T %5d from %4llu gates %6.3f: out %.2e state %.2e\n",
                shape.name, tokens, static_cast<unsigned long long>(position),
                static_cast<double>(gate), o, h);
  }
  EXPECT_LE(o, kOutputTolerance) << shape.name << ", " << tokens << " tokens";
  EXPECT_LE(h, kStateTolerance) << shape.name << ", " << tokens << " tokens";

  if (shape.sinks + shape.window > 0 || shape.broad()) return;
  // The same from operands that were made before, into bf16.
  const OnDevice<float> again_state(start);
  const OnDevice<std::uint16_t> again(outputs);
  const std::size_t columns = static_cast<std::size_t>(shape.kv_heads * shape.memory);
  std::vector<float> gates(columns * static_cast<std::size_t>(tokens));
  const std::vector<float> all = inputs.host();
  const auto stride = static_cast<std::size_t>(m.input_stride);
  for (std::size_t i = 0; i < gates.size(); ++i)
    gates[i] = all[i / columns * stride + stride - columns + i % columns];
  const OnDevice<float> device_gates(gates);
  cuda::ChunkOperands operands = pool.operands();
  operands.ready = true, operands.out_bf16 = again.get();
  operands.gates = device_gates.get(), operands.gate_stride = static_cast<int>(columns);
  s.state_in = s.state_out = again_state.get();
  m.out = nullptr, m.inputs = nullptr;
  const OnDevice<cuda::Segment> ready(std::vector<cuda::Segment>{s});
  OK(cuda::slot_chunks(l, m, {ready.get(), tokens}, operands));
  OK(cudaStreamSynchronize(l.stream));
  std::vector<float> wide;
  for (std::uint16_t v : again.host()) wide.push_back(of_bf16(v));
  EXPECT_LE(rms_relative_error(wide, out.host()), kRoundedTolerance) << shape.name;
  EXPECT_EQ(again_state.host(), state.host()) << shape.name;
}

const MixerShape kSmall{"small", 4, 2, 16, 24, 10, 0, 0};
const MixerShape kSmallPositional{"small positional", 6, 2, 16, 24, 10, 3, 13};
const MixerShape kWide{"4 heads of 512", 4, 4, 512, 512, 64, 0, 0};
const MixerShape kGrouped{"32/8 of 128", 32, 8, 128, 128, 64, 0, 0};
const MixerShape kDefault{"135M", 9, 3, 64, 64, 64, 4, 60};
const MixerShape kWindow{"window alone", 4, 2, 64, 72, 40, 0, 64};
const MixerShape kSinks{"sinks alone", 4, 2, 72, 64, 64, 16, 0};

// Keys that share 200 and -140 in the pair of channels that rotation moves least, as those of Qwen2 do: one bf16 of
// them would be off by half a logit.
const MixerShape kDefault05{"0.5B", 14, 2, 64, 64, 128, 4, 252, 200.0F};
const MixerShape kBiasedSmall{"biased small", 6, 2, 16, 24, 10, 3, 13, 200.0F};
const MixerShape kBiasedWindow{"biased window", 3, 1, 40, 48, 70, 0, 200, 150.0F};
const MixerShape kBiasedMemory{"biased memory", 2, 2, 64, 32, 100, 0, 0, 100.0F};
const MixerShape kBiasedSinks{"biased sinks", 4, 2, 32, 64, 64, 16, 0, 200.0F};
const MixerShape kManySlots{"128 and 256", 5, 1, 64, 64, 128, 16, 256};

TEST(ChunkedSlots, EveryShapeMatchesTheRecurrence) {
  REQUIRE_CUDA();
  std::uint64_t seed = 100;
  for (const MixerShape& shape :
       {kSmall, kSmallPositional, kWide, kGrouped, kDefault, kWindow, kSinks, kDefault05,
        kBiasedSmall, kBiasedWindow, kBiasedMemory, kBiasedSinks, kManySlots}) {
    for (int tokens : {1, 63, 64, 65, 200}) compare_slots(shape, tokens, 0.1F, 0, ++seed);
    compare_slots(shape, 150, 0.1F, 1000, ++seed);
    compare_slots(shape, 70, 0.1F, 2, ++seed);
  }
}

TEST(ChunkedSlots, LongPassesMatchTheRecurrence) {
  REQUIRE_CUDA();
  std::uint64_t seed = 200;
  for (const MixerShape& shape : {kWide, kGrouped, kDefault, kDefault05, kManySlots}) {
    compare_slots(shape, 2048, 0.05F, 0, ++seed);
    compare_slots(shape, 2100, 0.005F, 77, ++seed);
  }
}

TEST(ChunkedSlots, EveryLengthUpTo130MatchesTheRecurrence) {
  REQUIRE_CUDA();
  for (int tokens = 1; tokens <= 130; ++tokens) {
    compare_slots(kSmallPositional, tokens, 0.2F, static_cast<std::uint64_t>(tokens % 7 * 9),
                  300 + static_cast<std::uint64_t>(tokens), false);
    compare_slots(kSmall, tokens, 0.2F, 0, 500 + static_cast<std::uint64_t>(tokens), false);
    compare_slots(kBiasedSmall, tokens, 0.2F, static_cast<std::uint64_t>(tokens % 5 * 4),
                  700 + static_cast<std::uint64_t>(tokens), false);
  }
}

TEST(ChunkedSlots, GatesOfAnyStrengthMatchTheRecurrence) {
  REQUIRE_CUDA();
  std::uint64_t seed = 400;
  for (float gate : {0.0001F, 0.5F, 1.2F, 1.7F, 2.5F, 10.0F, 100.0F}) {
    compare_slots(kSmall, 150, gate, 0, ++seed);
    compare_slots(kDefault, 150, gate, 5, ++seed);
    compare_slots(kDefault05, 150, gate, 300, ++seed);
  }
}

struct Product {
  int tokens, rows, inner;
};

void compare_products(const Product& shape, cuda::WideOutput output, const cuda::WideTuning& tuning,
                      std::uint64_t seed) {
  Random random(seed);
  const auto stream = cuda::create_stream();
  ASSERT_TRUE(stream.has_value());
  const cuda::Launch l = launch_on(stream->get());
  const auto u = [](int v) { return static_cast<std::size_t>(v); };
  const int ld = (shape.inner + 7) / 8 * 8 + 8;  // wider than the rows
  std::vector<float> a = random.normals(u(shape.tokens) * u(ld)),
                     b = random.normals(u(shape.rows) * u(ld),
                                        1.0F / std::sqrt(static_cast<float>(shape.inner)));
  std::vector<std::uint16_t> ha(a.size()), hb(b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ha[i] = bf16_of(a[i]), a[i] = of_bf16(ha[i]);
  for (std::size_t i = 0; i < b.size(); ++i) hb[i] = bf16_of(b[i]), b[i] = of_bf16(hb[i]);
  const OnDevice<float> fa(a), fb(b), plain(u(shape.tokens) * u(shape.rows));
  const OnDevice<std::uint16_t> da(ha), db(hb);
  cuda::Matmul p{.a = fa.get(),
                 .lda = ld,
                 .b = fb.get(),
                 .ldb = ld,
                 .tokens = shape.tokens,
                 .rows = shape.rows,
                 .inner = shape.inner,
                 .c = plain.get(),
                 .ldc = shape.rows};
  OK(cuda::matmul_f32(l, p));
  OK(cudaStreamSynchronize(l.stream));
  const std::vector<float> expected = plain.host();

  const bool swiglu = output == cuda::WideOutput::swiglu;
  const bool rounded = swiglu || output == cuda::WideOutput::store_bf16;
  const int columns = swiglu ? shape.rows / 2 : shape.rows, ldc = (columns + 7) / 8 * 8 + 8;
  const std::vector<float> before = random.normals(u(shape.tokens + 1) * u(ldc));
  const OnDevice<float> wide(before), fresh(before.size());
  const OnDevice<std::uint16_t> narrow(before.size());
  const OnDevice<float>& target = output == cuda::WideOutput::add_f32 ? wide : fresh;
  p.a = da.get(), p.b = db.get(), p.ldc = ldc;
  p.c = rounded ? static_cast<void*>(narrow.get()) : target.get();
  const cuda::WideMatmul m{.p = p, .output = output, .slots = {}};
  ASSERT_TRUE(cuda::wide_matmul_fits(m));
  OK(cuda::wide_matmul(l, m, tuning));
  OK(cudaStreamSynchronize(l.stream));
  std::vector<float> got, want;
  const std::vector<float> f = target.host();
  const std::vector<std::uint16_t> h = narrow.host();
  std::size_t touched = 0;
  for (int t = 0; t <= shape.tokens; ++t) {
    for (int c = 0; c < ldc; ++c) {
      const std::size_t at = u(t) * u(ldc) + u(c);
      if (t == shape.tokens || c >= columns) {
        if (rounded) {
          touched += h[at] != 0xFFFF;
        } else if (output == cuda::WideOutput::add_f32) {
          touched += f[at] != before[at];
        } else {
          touched += !std::isnan(f[at]);
        }
        continue;
      }
      got.push_back(rounded ? of_bf16(h[at]) : f[at]);
      const float* e = expected.data() + u(t) * u(shape.rows);
      if (swiglu) {
        const double g = e[2 * c], up = e[2 * c + 1];
        want.push_back(static_cast<float>(g / (1.0 + std::exp(-g)) * up));
      } else {
        want.push_back(output == cuda::WideOutput::add_f32 ? before[at] + e[c] : e[c]);
      }
    }
  }
  const double error = rms_relative_error(got, want);
  std::printf("[ parity   ] product %5d x %5d x %5d output %d columns %d: %.2e\n", shape.tokens,
              shape.rows, shape.inner, static_cast<int>(output), tuning.columns, error);
  EXPECT_LE(error, rounded ? kRoundedTolerance : kProductTolerance);
  EXPECT_EQ(touched, 0U) << "values outside were written";
}

class WideProducts : public testing::TestWithParam<cuda::WideTuning> {};

TEST_P(WideProducts, MatchPlainOnes) {
  REQUIRE_CUDA();
  if (!cuda::prepare_wide_matmul()) GTEST_SKIP() << "no wgmma here: nothing was checked";
  std::uint64_t seed = 600;
  for (const Product& shape : {Product{128, 256, 64},
                               {1, 16, 8},
                               {100, 144, 72},
                               {300, 528, 200},
                               {513, 1024, 576},
                               {2048, 2304, 512},
                               {1000, 6400, 128}}) {
    for (cuda::WideOutput output : {cuda::WideOutput::store_f32, cuda::WideOutput::add_f32,
                                    cuda::WideOutput::store_bf16, cuda::WideOutput::swiglu}) {
      compare_products(shape, output, GetParam(), ++seed);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(WideProducts, ProjectSlots) {
  REQUIRE_CUDA();
  if (!cuda::prepare_wide_matmul()) GTEST_SKIP() << "no wgmma here: nothing was checked";
  Random random(700);
  const auto stream = cuda::create_stream();
  ASSERT_TRUE(stream.has_value());
  const cuda::Launch l = launch_on(stream->get());
  constexpr int kTokens = 333, kInner = 192, kQ = 352, kK = 96, kV = 192, kF = 64,
                kActivated = kQ + kK + kV, kRows = kQ + kK + kV + kF;
  const auto u = [](int v) { return static_cast<std::size_t>(v); };
  std::vector<float> a = random.normals(u(kTokens) * kInner),
                     b = random.normals(u(kRows) * kInner, 0.1F);
  std::vector<std::uint16_t> ha(a.size()), hb(b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ha[i] = bf16_of(a[i]), a[i] = of_bf16(ha[i]);
  for (std::size_t i = 0; i < b.size(); ++i) hb[i] = bf16_of(b[i]), b[i] = of_bf16(hb[i]);
  const OnDevice<float> fa(a), fb(b), plain(u(kTokens) * kRows), gates(u(kTokens) * kF);
  const OnDevice<std::uint16_t> da(ha), db(hb), wide(u(kTokens) * kActivated);
  cuda::Matmul p{.a = fa.get(),
                 .lda = kInner,
                 .b = fb.get(),
                 .ldb = kInner,
                 .tokens = kTokens,
                 .rows = kRows,
                 .inner = kInner,
                 .c = plain.get(),
                 .ldc = kRows};
  OK(cuda::matmul_f32(l, p));
  OK(cudaStreamSynchronize(l.stream));
  p.a = da.get(), p.b = db.get(), p.c = nullptr;
  const cuda::WideMatmul m{.p = p,
                           .output = cuda::WideOutput::slots,
                           .slots = {.q = kQ,
                                     .k = kK,
                                     .v = kV,
                                     .f = kF,
                                     .activated = wide.get(),
                                     .gates = gates.get(),
                                     .qk_act = cuda::Act::swish,
                                     .v_act = cuda::Act::relu}};
  ASSERT_TRUE(cuda::wide_matmul_fits(m));
  OK(cuda::wide_matmul(l, m, GetParam()));
  OK(cudaStreamSynchronize(l.stream));
  const std::vector<float> e = plain.host(), g = gates.host();
  const std::vector<std::uint16_t> h = wide.host();
  std::vector<float> got, want, got_gates, want_gates;
  for (int t = 0; t < kTokens; ++t) {
    for (int r = 0; r < kRows; ++r) {
      const float x = e[u(t) * kRows + u(r)];
      const float swish = x / (1.0F + std::exp(-x));
      if (r < kActivated) {
        got.push_back(of_bf16(h[u(t) * kActivated + u(r)]));
        want.push_back(r < kQ + kK ? swish : std::max(x, 0.0F));
      } else {
        want_gates.push_back(x);
        got_gates.push_back(g[u(t) * kF + u(r - kActivated)]);
      }
    }
  }
  EXPECT_LE(rms_relative_error(got, want), kRoundedTolerance);
  EXPECT_LE(rms_relative_error(got_gates, want_gates), kProductTolerance);
}

INSTANTIATE_TEST_SUITE_P(Cuda, WideProducts,
                         testing::Values(cuda::WideTuning{.columns = 256},
                                         cuda::WideTuning{.columns = 128}),
                         [](const auto& each) {
                           return "columns" + std::to_string(each.param.columns);
                         });

}  // namespace
}  // namespace runnel::test
