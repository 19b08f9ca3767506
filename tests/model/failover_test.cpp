// SPDX-License-Identifier: Apache-2.0
// A device without room, or one that is lost, under "auto": errors first, then the CPU.
#include <gtest/gtest.h>

#include <atomic>

#include "runnel/generation.h"
#include "runnel/session.h"
#include "runtime/backend/reference/reference_backend.h"
#include "runtime/backend/registry.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/model_loader.h"
#include "tests/support/compare.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

constexpr double kOtherDeviceTolerance = 1e-4;  // of logits, both f32 in other orders

/// What happens to a device that otherwise is the reference.
struct Fate {
  ErrorCode load = ErrorCode::device;
  bool loads = true;
  std::atomic<int> passes{1'000'000};  // until it is lost
};

class DoomedPlan final : public Plan {
 public:
  DoomedPlan(std::unique_ptr<Plan> plan, Fate& fate) : plan_(std::move(plan)), fate_(fate) {}
  int max_tokens() const override { return plan_->max_tokens(); }
  Status run(std::span<const PlanItem> items, std::stop_token stop) override {
    if (fate_.passes-- <= 0) return Error{ErrorCode::device, "it fell off the bus"};
    return plan_->run(items, std::move(stop));
  }
  PassProbe* probe() override { return plan_->probe(); }

 private:
  std::unique_ptr<Plan> plan_;
  Fate& fate_;
};

class DoomedModel final : public DeviceModel {
 public:
  DoomedModel(std::unique_ptr<DeviceModel> model, Fate& fate)
      : model_(std::move(model)), fate_(fate) {}
  Result<std::unique_ptr<RecurrentState>> create_state() const override {
    return model_->create_state();
  }
  Result<std::unique_ptr<Plan>> record(int max_tokens, const Recording& recording) const override {
    auto plan = model_->record(max_tokens, recording);
    if (!plan) return plan;
    return std::unique_ptr<Plan>(std::make_unique<DoomedPlan>(std::move(*plan), fate_));
  }
  MemoryUse memory() const override { return model_->memory(); }

 private:
  std::unique_ptr<DeviceModel> model_;
  Fate& fate_;
};

class DoomedBackend final : public Backend {
 public:
  explicit DoomedBackend(Fate& fate) : fate_(fate) {}
  const DeviceInfo& device() const override { return info_; }
  Result<std::unique_ptr<DeviceModel>> load(const LoadRequest& request) override {
    if (!fate_.loads) return Error{fate_.load, "it has no room"};
    auto model = reference_->load(request);
    if (!model) return model;
    return std::unique_ptr<DeviceModel>(std::make_unique<DoomedModel>(std::move(*model), fate_));
  }

 private:
  Fate& fate_;
  DeviceInfo info_{.id = "doomed:0", .backend = "doomed"};
  std::unique_ptr<Backend> reference_ = reference::make_backend();
};

class Failover : public testing::Test {
 protected:
  Failover() {
    write_gguf(make_random_model(small_positional_config(), {.read_biases = true}, 61),
               folder_ / "model.gguf");
  }

  Result<std::shared_ptr<const Model>> load(bool fallback) {
    return ModelLoader::load(
        folder_ / "model.gguf", {},
        [&](ModelFile file, const LoadProgress& progress) -> Result<std::unique_ptr<Engine>> {
          Engine::Fallback cpu;
          if (fallback) cpu = [] { return make_backend("cpu", 1); };
          return Engine::create(std::move(file), std::make_unique<DoomedBackend>(fate_), progress,
                                std::move(cpu));
        });
  }
  static Session session(const std::shared_ptr<const Model>& model) {
    auto made = Session::create(model);
    if (!made) throw std::runtime_error(made.error().message);
    return *std::move(made);
  }

  Fate fate_;
  TemporaryDirectory folder_;
  Random random_{62};
};

TEST_F(Failover, WithoutRoomTheModelIsLoadedOnTheCpu) {
  fate_.loads = false;
  for (ErrorCode code : {ErrorCode::out_of_memory, ErrorCode::device, ErrorCode::unsupported}) {
    fate_.load = code;
    const auto model = load(true);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ((*model)->info().device, "cpu");
    Session talk = session(*model);
    EXPECT_TRUE(talk.prefill(random_.tokens(20, 96)));
  }
}

TEST_F(Failover, AStoppedLoadIsNotBegunAgain) {
  fate_.loads = false;
  fate_.load = ErrorCode::cancelled;
  const auto model = load(true);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::cancelled);
}

TEST_F(Failover, WithoutAnotherDeviceWantOfRoomIsAnError) {
  fate_.loads = false;
  fate_.load = ErrorCode::out_of_memory;
  const auto model = load(false);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::out_of_memory);
}

TEST_F(Failover, EmbeddingsGoOnOnTheCpu) {
  const auto model = load(true);
  ASSERT_TRUE(model) << model.error().message;
  const std::vector<TokenId> text = random_.tokens(12, 96);
  Session talk = session(*model);
  const auto before = talk.embedding(text);
  ASSERT_TRUE(before) << before.error().message;
  fate_.passes = 0;
  const auto lost = talk.embedding(text);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::device);
  ASSERT_TRUE(talk.reset());
  const auto after = talk.embedding(text);
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_LT(max_relative_error(*after, *before), kOtherDeviceTolerance);
}

TEST_F(Failover, SessionsOfALostDeviceGoOnFromTheirSnapshotsOnTheCpu) {
  const auto model = load(true);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->info().device, "doomed:0");
  const std::vector<TokenId> tokens = random_.tokens(60, 96);
  const std::span<const TokenId> all(tokens);
  Session talk = session(*model), idle = session(*model), control = session(*model);
  ASSERT_TRUE(talk.prefill(all.first(40)) && idle.prefill(all.first(40)));
  ASSERT_TRUE(control.prefill(all));
  const std::vector<float> expected(control.logits()->begin(), control.logits()->end());
  const auto kept = talk.snapshot();
  ASSERT_TRUE(kept);

  fate_.passes = 0;
  const auto lost = talk.prefill(all.subspan(40));
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::device);
  EXPECT_NE(lost.error().message.find("continues on cpu"), std::string::npos)
      << lost.error().message;
  for (Session* each : {&talk, &idle}) {
    const auto again = each->prefill(all.subspan(40));
    ASSERT_FALSE(again) << "its memory was on the device";
    EXPECT_EQ(again.error().code, ErrorCode::device);
    EXPECT_FALSE(each->snapshot());
    EXPECT_FALSE(each->fork());
  }
  for (Session* each : {&talk, &idle}) {
    ASSERT_TRUE(each->restore(*kept));
    ASSERT_TRUE(each->prefill(all.subspan(40)));
    EXPECT_LE(rms_relative_error(*each->logits(), expected), kOtherDeviceTolerance);
    EXPECT_EQ(data_of(*each->snapshot()).backend, "cpu");
  }
  ASSERT_TRUE(control.reset());
  ASSERT_TRUE(control.prefill(all));
  EXPECT_LE(rms_relative_error(*control.logits(), expected), kOtherDeviceTolerance);
}

TEST_F(Failover, GenerationIsAnErrorAndThenGoesOn) {
  const auto model = load(true);
  ASSERT_TRUE(model) << model.error().message;
  Session talk = session(*model);
  ASSERT_TRUE(talk.prefill(random_.tokens(10, 96)));
  const auto kept = talk.snapshot();
  fate_.passes = 5;
  const GenerationOptions options{.max_tokens = 20, .ignore_end = true};
  const auto failed = generate(talk, options);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::device);
  ASSERT_TRUE(talk.restore(*kept));
  const auto result = generate(talk, options);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->tokens.size(), 20U);
}

TEST_F(Failover, WithoutAnotherDeviceALostOneStaysLost) {
  const auto model = load(false);
  ASSERT_TRUE(model) << model.error().message;
  Session talk = session(*model);
  fate_.passes = 0;
  for (int i = 0; i < 2; ++i) {
    const auto lost = talk.prefill(random_.tokens(10, 96));
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().code, ErrorCode::device);
  }
  EXPECT_EQ((*model)->info().device, "doomed:0");
}

}  // namespace
}  // namespace runnel::test
