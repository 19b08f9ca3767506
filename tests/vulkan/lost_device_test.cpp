// SPDX-License-Identifier: Apache-2.0
// A device that is lost while a session generates: an error that says so, then the CPU.
#include <atomic>

#include "runnel/generation.h"
#include "runnel/session.h"
#include "runtime/backend/registry.h"
#include "runtime/model/model_loader.h"
#include "tests/support/compare.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random.h"
#include "tests/support/temporary_directory.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace runnel::test {
namespace {

constexpr double kOtherDeviceTolerance = 1e-4;  // of logits, both f32 in other orders

class VulkanLostDevice : public VulkanTest {
 protected:
  std::shared_ptr<const Model> load(bool with_cpu) {
    const auto path = folder_ / "model.gguf";
    write_gguf(make_random_model(small_positional_config(), {}, 71), path);
    auto model = ModelLoader::load(path, {}, [&](ModelFile file, const LoadProgress& progress) {
      Engine::Fallback cpu;
      if (with_cpu) cpu = [] { return make_backend("cpu", 1); };
      return Engine::create(std::move(file), backend({.lost = lost_}), progress, std::move(cpu));
    });
    if (!model) throw std::runtime_error(model.error().message);
    return *model;
  }

  TemporaryDirectory folder_;
  std::shared_ptr<std::atomic<bool>> lost_ = std::make_shared<std::atomic<bool>>(false);
  const std::vector<TokenId> prompt_ = Random(72).tokens(20, 96);
};

TEST_F(VulkanLostDevice, IsAnErrorThatNamesTheCall) {
  const auto model = load(false);
  auto session = Session::create(model);
  ASSERT_TRUE(session && session->prefill(prompt_));
  *lost_ = true;
  const auto generated = generate(*session, {.max_tokens = 5, .ignore_end = true});
  ASSERT_FALSE(generated);
  EXPECT_EQ(generated.error().code, ErrorCode::device);
  EXPECT_NE(generated.error().message.find("vkQueueSubmit: VK_ERROR_DEVICE_LOST"),
            std::string::npos)
      << generated.error().message;
  EXPECT_FALSE(session->prefill(prompt_));
  EXPECT_FALSE(session->snapshot());
}

TEST_F(VulkanLostDevice, SessionsGoOnOnTheCpuFromTheirSnapshots) {
  const auto model = load(true);
  auto session = Session::create(model);
  ASSERT_TRUE(session && session->prefill(prompt_));
  const auto kept = session->snapshot();
  ASSERT_TRUE(kept && session->prefill(prompt_));
  const std::vector<float> expected(session->logits()->begin(), session->logits()->end());
  *lost_ = true;
  const auto lost = session->prefill(prompt_);
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().message.find("continues on cpu"), std::string::npos)
      << lost.error().message;
  ASSERT_TRUE(session->restore(*kept));
  ASSERT_TRUE(session->prefill(prompt_));
  EXPECT_LE(rms_relative_error(*session->logits(), expected), kOtherDeviceTolerance);
}

}  // namespace
}  // namespace runnel::test
