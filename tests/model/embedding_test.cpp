// SPDX-License-Identifier: Apache-2.0
// Embeddings: what they are of, how they are pooled, and the same on every device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runnel/session.h"
#include "runtime/backend/reference/ops.h"
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/model/model_loader.h"
#include "tests/support/compare.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_devices.h"

namespace runnel::test {
namespace {

constexpr double kSumTolerance = 1e-5;     // f32, sums in another order
constexpr double kDeviceTolerance = 2e-3;  // of whole models: fast exponentials, two layers
constexpr EmbeddingOptions kLast = {.pooling = Pooling::last, .normalise = false};

RandomModel model_named(const std::string& name) {
  if (name == "slots") return make_random_model(small_positional_config(), {.tied = true}, 3);
  if (name == "mixed") return make_random_model(mixed_config(), {}, 4);
  return make_random_model(family_config(name), {}, 5);
}

Session session_of(const std::shared_ptr<const Model>& model) {
  auto made = Session::create(model);
  if (!made) throw std::runtime_error(made.error().message);
  return *std::move(made);
}

std::vector<float> value_of(const Result<std::vector<float>>& result) {
  if (!result) throw std::runtime_error(result.error().message);
  return *result;
}

std::shared_ptr<const Model> load_on(const RandomModel& source, std::unique_ptr<Backend> backend) {
  const TemporaryDirectory folder;
  write_gguf(source, folder / "model.gguf");
  auto loaded = ModelLoader::load(
      folder / "model.gguf", {}, [&](ModelFile file, const LoadProgress& progress) {
        return Engine::create(std::move(file), std::move(backend), progress);
      });
  if (!loaded) throw std::runtime_error(loaded.error().message);
  return *loaded;
}

class Embedding : public testing::Test {
 protected:
  std::vector<TokenId> tokens(std::size_t n) {
    return random_.tokens(n, model_->info().vocab_size);
  }

  RandomModel source_ = model_named("mixed");
  std::shared_ptr<const Model> model_ = load_model(source_);
  Random random_{17};
};

TEST_F(Embedding, IsWhatTheHeadSees) {
  const std::vector<TokenId> text = tokens(30);
  Session session = session_of(model_);
  const std::vector<float> hidden = value_of(session.embedding(text, kLast));
  EXPECT_EQ(hidden.size(), static_cast<std::size_t>(model_->info().hidden_size));
  std::vector<float> logits(static_cast<std::size_t>(model_->info().vocab_size));
  reference::linear(source_.weights->head, reference::Activations::exact, hidden, logits);
  ASSERT_TRUE(session.prefill(text));
  EXPECT_LT(max_relative_error(logits, *session.logits()), kSumTolerance);
}

TEST_F(Embedding, PoolsTheMeanOfAllTokens) {
  const std::vector<TokenId> text = tokens(7);
  const Session session = session_of(model_);
  std::vector<float> mean(static_cast<std::size_t>(model_->info().hidden_size));
  for (std::size_t n = 1; n <= text.size(); ++n) {
    const std::vector<float> one = value_of(session.embedding(std::span(text).first(n), kLast));
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += one[i] / 7.0F;
  }
  EXPECT_LT(max_relative_error(value_of(session.embedding(text, {.normalise = false})), mean),
            kSumTolerance);
}

TEST_F(Embedding, HasLengthOneByDefault) {
  for (const Pooling pooling : {Pooling::mean, Pooling::last}) {
    const std::vector<float> e =
        value_of(session_of(model_).embedding(tokens(20), {.pooling = pooling}));
    EXPECT_NEAR(std::inner_product(e.begin(), e.end(), e.begin(), 0.0), 1.0, kSumTolerance);
  }
}

TEST_F(Embedding, ReadsOnWhereTheSessionStandsAndLeavesItThere) {
  const std::vector<TokenId> text = tokens(300);  // more than one pass
  Session session = session_of(model_);
  const std::vector<float> whole = value_of(session.embedding(text, kLast));
  ASSERT_TRUE(session.prefill(std::span(text).first(90)));
  const std::vector<float> before(session.logits()->begin(), session.logits()->end());
  EXPECT_LT(
      max_relative_error(value_of(session.embedding(std::span(text).subspan(90), kLast)), whole),
      kSumTolerance);
  EXPECT_EQ(session.position(), 90U);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), session.logits()->begin()));
}

TEST_F(Embedding, RefusesWhatIsNoText) {
  const Session session = session_of(model_);
  const auto empty = session.embedding({});
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, ErrorCode::invalid_argument);
  const auto unknown = session.embedding(std::vector<TokenId>{1, model_->info().vocab_size});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = session.embedding(tokens(4), {}, stop.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
}

struct DeviceCase {
  TestDevice device;
  std::string model;
};

std::vector<DeviceCase> device_cases() {
  std::vector<DeviceCase> all;
  for (const TestDevice& device : test_devices()) {
    for (const char* model : {"slots", "gla", "mixed"}) all.push_back({device, model});
  }
  return all;
}

class EmbeddingOnDevice : public testing::TestWithParam<DeviceCase> {};

TEST_P(EmbeddingOnDevice, IsThatOfTheReference) {
  const RandomModel source = model_named(GetParam().model);
  const auto expected = load_on(source, reference::make_backend());
  const auto model = load_on(source, open(GetParam().device));
  Random random(23);
  const std::size_t longest = GetParam().device.software() ? 20 : 300;
  for (const std::size_t n : {std::size_t{1}, std::size_t{12}, longest}) {
    const std::vector<TokenId> text = random.tokens(n, model->info().vocab_size);
    for (const Pooling pooling : {Pooling::mean, Pooling::last}) {
      EXPECT_LT(
          rms_relative_error(value_of(session_of(model).embedding(text, {.pooling = pooling})),
                             value_of(session_of(expected).embedding(text, {.pooling = pooling}))),
          kDeviceTolerance)
          << n << " tokens";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, EmbeddingOnDevice, testing::ValuesIn(device_cases()),
                         [](const auto& one) {
                           return one.param.device.name + "_" + one.param.model;
                         });

}  // namespace
}  // namespace runnel::test
