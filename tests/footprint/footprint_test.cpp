// SPDX-License-Identifier: Apache-2.0
// What the library costs its host: nothing on the heap for a decoded token, little memory at rest,
// no thread that was not allowed.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "runnel/generation.h"
#include "runnel/runnel.h"
#include "tests/footprint/heap.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random_model.h"

namespace runnel {
namespace {

constexpr std::size_t kTokens = 64;
constexpr std::uint64_t kIdleBytes = 30'000'000;
const std::string kDefaultModel = RUNNEL_MODELS "/runnel-gsa-135m-instruct.gguf";

/// What this process holds alone. For its program and libraries that is what it wrote: how many of their other pages are
/// mapped, are not yet on the disk or are another process's too changes from run to run.
std::uint64_t private_bytes() {
  std::ifstream mappings("/proc/self/smaps");
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::uint64_t total = 0;
  bool code = false;
  for (std::string line; std::getline(mappings, line);) {
    if (line.rfind(code ? "Anonymous:" : "Private_", 0) == 0) {
      total += std::stoull(line.substr(line.find(':') + 1)) * 1024;
    } else if (line.find(':') > line.find(' ')) {  // "7f65-7f66 r-xp 0000 08:01 42  /lib/libc.so.6"
      code = line.find(".so") != std::string::npos || line.find(program) != std::string::npos;
    }
  }
  return total;
}

// Comes first, while no other test has left its traces in the process.
TEST(Footprint, AnIdleProcessHoldsLittleBesidesTheWeights) {
  const auto model = Model::load(kDefaultModel, {.device = "cpu", .threads = 2});
  ASSERT_TRUE(model) << model.error().message;
  auto session = Session::create(*model);
  ASSERT_TRUE(session);
  const std::vector<TokenId> prompt(600, 5);  // fills every buffer of a prefill
  ASSERT_TRUE(session->prefill(prompt));
  ASSERT_TRUE(generate(*session, {.max_tokens = 8}));
  const std::uint64_t all = private_bytes();
  if (all == 0) GTEST_SKIP() << "no /proc/self/smaps here";
  const std::uint64_t weights = (*model)->info().weight_bytes;
  RecordProperty("bytes_besides_weights", std::to_string(all - weights));
  EXPECT_LE(all, weights + kIdleBytes);
}

// Allocations between the choice of a generation's second token and that of its last.
std::uint64_t allocations_of_a_generation(Session& session, GenerationOptions options,
                                          const TextCallback& on_text = {}) {
  std::array<std::uint64_t, kTokens> counts{};
  options.max_tokens = kTokens;
  options.ignore_end = true;
  options.on_logits = [&counts](std::span<float>, std::span<const TokenId> generated) {
    counts[generated.size()] = test::heap_allocations();
    return true;
  };
  const auto done = generate(session, options, on_text);
  EXPECT_TRUE(done && done->tokens.size() == kTokens);
  return counts[kTokens - 1] - counts[1];
}

const SamplingOptions kDrawn{.temperature = 0.8F,
                             .top_k = 40,
                             .top_p = 0.9F,
                             .min_p = 0.01F,
                             .repetition_penalty = 1.1F,
                             .logit_bias = {{5, -1.0F}},
                             .seed = 3};

TEST(HeapCounter, SeesNewAndMalloc) {
  const std::uint64_t before = test::heap_allocations();
  const auto made = std::make_unique<int>(1);
  EXPECT_EQ(test::heap_allocations(), before + 1) << *made;
}

class NoHeapAfterLoad : public ::testing::TestWithParam<FeatureMap> {};

TEST_P(NoHeapAfterLoad, DecodingAnyFeatureMapAllocatesNothing) {
  ModelConfig config = test::small_positional_config();
  test::set(config, &MixerSpec::feature_map, GetParam());
  test::set(config, &LayerSpec::conv_size, GetParam() == FeatureMap::identity ? 0 : 4);
  const auto model =
      test::load_model(test::make_random_model(config, {.gate_bias = true}, 21), "cpu", 2);
  auto session = Session::create(model);
  ASSERT_TRUE(session);
  const std::vector<TokenId> prompt = {1, 2, 3};
  ASSERT_TRUE(session->prefill(prompt));
  EXPECT_EQ(allocations_of_a_generation(*session, {}), 0U);
  EXPECT_EQ(allocations_of_a_generation(*session, {.sampling = kDrawn}), 0U);
}

INSTANTIATE_TEST_SUITE_P(FeatureMaps, NoHeapAfterLoad,
                         ::testing::Values(FeatureMap::identity, FeatureMap::swish,
                                           FeatureMap::relu, FeatureMap::t2r));

TEST(NoHeapAfterLoad, DecodingTextOfTheDefaultModelAllocatesNothing) {
  const auto model = Model::load(kDefaultModel, {.device = "cpu", .threads = 2});
  ASSERT_TRUE(model) << model.error().message;
  auto session = Session::create(*model);
  ASSERT_TRUE(session);
  ASSERT_TRUE(
      session->prefill((*model)->encode("Once upon a time").value_or(std::vector<TokenId>{})));
  std::size_t bytes = 0;
  const TextCallback count = [&bytes](std::string_view text) {
    bytes += text.size();
    return true;
  };
  EXPECT_EQ(
      allocations_of_a_generation(*session, {.sampling = kDrawn, .stop = {"never said"}}, count),
      0U);
  EXPECT_GT(bytes, kTokens);
}

TEST(Footprint, OneThreadMeansNoOther) {
  const auto model =
      test::load_model(test::make_random_model(test::small_positional_config(), {}, 21), "cpu", 1);
  auto session = Session::create(model);
  ASSERT_TRUE(session && session->prefill(std::vector<TokenId>{1, 2, 3}) &&
              generate(*session, {.max_tokens = 4}));
  std::size_t threads = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++threads;
  EXPECT_EQ(threads, 1U);
}

TEST(Footprint, AMemoryLimitRefusesWhatDoesNotFit) {
  const auto refused =
      Model::load(kDefaultModel, {.device = "cpu", .threads = 1, .memory_limit = 90'000'000});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory) << refused.error().message;
  EXPECT_NE(refused.error().message.find("memory_limit"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(
      Model::load(kDefaultModel, {.device = "cpu", .threads = 1, .memory_limit = 200'000'000}));
}

}  // namespace
}  // namespace runnel
