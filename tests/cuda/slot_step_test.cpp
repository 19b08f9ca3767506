// SPDX-License-Identifier: Apache-2.0
// The slot recurrence divided over a cluster's slots against the one divided over columns, which
// the parity tests compare with the reference. Skips without a GPU.
#include "cuda/slot_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/backend/cuda/cuda_backend.h"
#include "runtime/backend/cuda/resident_model.h"
#include "tests/cuda/prefill_support.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"

namespace runnel::test {
namespace {

constexpr double kTolerance = 1e-5;  // f32, sums in another order
#define OK(expression) ASSERT_EQ(expression, cudaSuccess)

struct Outcome {
  std::vector<float> out, states;
};

/// Segments of 1, 2, … tokens, each with a state of its own.
void run(const cuda::Launch& l, cuda::SlotMixer m, int num_segments,
         const std::vector<float>& states, Outcome& outcome) {
  const std::size_t floats = states.size() / static_cast<std::size_t>(num_segments);
  const OnDevice<float> device_states(states);
  std::vector<cuda::Segment> segments;
  int tokens = 0;
  for (int i = 0; i < num_segments; ++i) {
    float* state = device_states.get() + floats * static_cast<std::size_t>(i);
    segments.push_back({.state_in = state, .state_out = state, .first = tokens, .count = i + 1});
    tokens += i + 1;
  }
  const OnDevice<cuda::Segment> device_segments(segments);
  const OnDevice<float> out(static_cast<std::size_t>(tokens * m.heads * m.v_dim));
  m.out = out.get();
  OK(cuda::slot_recurrent(l, m, device_segments.get(), num_segments));
  OK(cudaStreamSynchronize(l.stream));
  outcome = {out.host(), device_states.host()};
}

class SlotStep : public testing::TestWithParam<MixerShape> {};

TEST_P(SlotStep, MatchesTheRecurrenceByColumns) {
  if (cuda::devices().empty()) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked";
  const auto stream = cuda::create_stream();
  ASSERT_TRUE(stream.has_value());
  const cuda::Launch divided{.stream = stream->get(), .chain = true, .cluster_limit = 8};
  cuda::Launch by_columns = divided;
  by_columns.cluster_limit = 1;
  const MixerShape& shape = GetParam();
  cuda::SlotMixer m = mixer_of(shape);
  if (cuda::facts_of(0).major < 9) GTEST_SKIP() << "no clusters here: nothing was checked";
  ASSERT_TRUE(cuda::slot_step_fits(divided, m));
  ASSERT_FALSE(cuda::slot_step_fits(by_columns, m));
  Random random(800);
  constexpr int kSegments = 4, kTokens = 10;
  const auto u = [](int v) { return static_cast<std::size_t>(v); };
  const OnDevice<float> inputs(random.normals(u(kTokens) * u(m.input_stride))),
      f_bias(random.normals(u(m.kv_heads * m.memory))),
      read_bias(random.normals(u(m.kv_heads * m.memory), 0.3F)),
      head_bias(random.normals(u(m.heads), 0.3F));
  m.scale = 1.0F / std::sqrt(static_cast<float>(m.k_dim));
  m.gate_normalizer = 4.0F;
  m.gate_log_min = -0.5F;
  m.inputs = inputs.get();
  // A layer behind another one, whose part of the state stays as it is.
  const std::size_t layer = m.head_floats * u(m.kv_heads);
  m.layer_offset = layer;
  const std::vector<float> states = random.normals(2 * layer * kSegments, 0.5F);
  for (bool raw : {true, false}) {
    m.prepared = !raw;
    m.qk_act = raw ? cuda::Act::swish : cuda::Act::identity;
    m.v_act = raw ? cuda::Act::relu : cuda::Act::identity;
    m.f_bias = raw ? f_bias.get() : nullptr;
    m.read_bias = raw ? read_bias.get() : nullptr;
    m.head_read_bias = raw ? head_bias.get() : nullptr;
    Outcome got, want;
    run(divided, m, kSegments, states, got);
    run(by_columns, m, kSegments, states, want);
    EXPECT_LE(rms_relative_error(got.out, want.out), kTolerance) << "raw " << raw;
    EXPECT_LE(rms_relative_error(got.states, want.states), kTolerance) << "raw " << raw;
    for (std::size_t i = 0; i < layer; ++i) ASSERT_EQ(got.states[i], states[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, SlotStep,
                         testing::Values(MixerShape{"4_of_512", 4, 4, 512, 512, 64, 0, 0},
                                         MixerShape{"32_8_of_128", 32, 8, 128, 128, 64, 0, 0},
                                         MixerShape{"6_2_of_64", 6, 2, 64, 64, 40, 0, 0},
                                         MixerShape{"8_1_of_64", 8, 1, 64, 64, 6, 0, 0},
                                         MixerShape{"2_1_of_256", 2, 1, 256, 256, 34, 0, 0}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace runnel::test
