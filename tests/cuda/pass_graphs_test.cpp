// SPDX-License-Identifier: Apache-2.0
// Passes as recorded graphs: what is recorded when, and that a replay computes what launches do. Skips without a GPU.
#include "runtime/backend/cuda/pass_graphs.h"

#include <gtest/gtest.h>

#include <tuple>

#include "runtime/base/try.h"
#include "tests/cuda/cuda_backends.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"

namespace runnel::test {
namespace {

#define REQUIRE_CUDA() \
  if (cuda::devices().empty()) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked"

/// A pass that counts its launches; on the device it writes its size.
class Counting {
 public:
  Counting() : stream_(*cuda::create_stream()), bytes_(*cuda::device_array<char>(2, "bytes")) {
    EXPECT_EQ(cudaMemset(bytes_.get(), 0, 2), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // the stream does not wait for it
  }
  void run(int tokens) {
    const Status done = graphs.run(stream_.get(), {tokens, 0}, [&]() -> Status {
      ++launched;
      if (refuse) return Status(fail(ErrorCode::device, "a launch that fails"));
      return cuda::check(cudaMemsetAsync(bytes_.get(), tokens, 1, stream_.get()), "a launch");
    });
    EXPECT_EQ(done.has_value(), !refuse);
  }
  /// What the last pass wrote; clears it.
  int written() {
    char v = 0;
    EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(&v, bytes_.get(), 1, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(cudaMemset(bytes_.get(), 0, 2), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return v;
  }
  cuda::PassGraphs graphs;
  int launched = 0;
  bool refuse = false;

 private:
  cuda::Stream stream_;
  cuda::DeviceArray<char> bytes_;
};

TEST(PassGraphs, RecordTheSecondPassOfASizeAndReplayItFromThenOn) {
  REQUIRE_CUDA();
  Counting pass;
  for (int i = 0; i < 5; ++i) {
    pass.run(64);
    EXPECT_EQ(pass.written(), 64) << "pass " << i;
    EXPECT_EQ(pass.launched, i == 0 ? 1 : 2) << "pass " << i;
    EXPECT_EQ(pass.graphs.replayed(), static_cast<std::uint64_t>(i));
  }
  EXPECT_EQ(pass.graphs.recorded(), 1);
}

TEST(PassGraphs, KeepAGraphForEachOfAFewSizes) {
  REQUIRE_CUDA();
  Counting pass;
  constexpr int kSizes = cuda::PassGraphs::kMost + 2;
  for (int round = 0; round < 3; ++round) {
    for (int size = 1; size <= kSizes; ++size) {
      pass.run(size);
      EXPECT_EQ(pass.written(), size);
    }
  }
  EXPECT_EQ(pass.graphs.recorded(), cuda::PassGraphs::kMost);
  EXPECT_EQ(pass.launched, 2 * cuda::PassGraphs::kMost + 3 * 2);
}

TEST(PassGraphs, AFailedPassIsAnErrorAndLeavesTheStreamUsable) {
  REQUIRE_CUDA();
  Counting pass;
  pass.refuse = true;
  pass.run(9);  // launch by launch
  pass.refuse = false;
  pass.run(9);
  EXPECT_EQ(pass.written(), 9);
  EXPECT_EQ(pass.graphs.recorded(), 0) << "a failed pass is no first one";
  pass.refuse = true;
  pass.run(9);  // while it is recorded
  EXPECT_EQ(pass.graphs.recorded(), 0);
  pass.refuse = false;
  for (int i = 0; i < 2; ++i) {
    pass.run(9);
    EXPECT_EQ(pass.written(), 9);
  }
  EXPECT_EQ(pass.graphs.replayed(), 2U);
}

/// Sessions take turns on one plan: a recorded pass holds neither their states nor positions.
TEST(PassGraphs, SessionsThatTakeTurnsComputeWhatTheyWouldAlone) {
  REQUIRE_CUDA_OPS(backend);
  for (const ModelConfig& config :
       {small_config(), small_positional_config(), family_config("gla"), family_config("abc")}) {
    const RandomModel model =
        make_random_model(config, {.linear = quant::BlockType::bf16, .gate_bias = true}, 91);
    Random random(92);
    const std::vector<TokenId> a = random.tokens(400, 96), b = random.tokens(400, 96);
    const LoadedModel own_a = load_on(*backend, model), own_b = load_on(*backend, model),
                      shared = load_on(*backend, model);
    auto alone_a = own_a.state(), alone_b = own_b.state(), one = shared.state(),
         two = shared.state();
    const std::vector<float> expected_a = own_a.run(*alone_a, a, 80),
                             expected_b = own_b.run(*alone_b, b, 80);
    std::vector<float> got_a, got_b;
    for (std::size_t at = 0; at < 400; at += 80) {
      for (auto [state, tokens, got] :
           {std::tuple{one.get(), &a, &got_a}, {two.get(), &b, &got_b}}) {
        const std::vector<float> piece = shared.run(*state, std::span(*tokens).subspan(at, 80));
        got->insert(got->end(), piece.begin(), piece.end());
      }
    }
    EXPECT_EQ(got_a, expected_a);
    EXPECT_EQ(got_b, expected_b);
    EXPECT_EQ(shared.canonical(*one), own_a.canonical(*alone_a));
    EXPECT_EQ(shared.canonical(*two), own_b.canonical(*alone_b));
  }
}

}  // namespace
}  // namespace runnel::test
