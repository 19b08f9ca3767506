// SPDX-License-Identifier: Apache-2.0
// A Vulkan backend whose validation messages fail the test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/backend/vulkan/vulkan_backend.h"
#include "tests/support/random_model.h"

namespace runnel::test {

/// Messages of the validation layers, from any thread.
class Messages {
 public:
  vulkan::MessageSink sink() {
    return [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      texts_.push_back(text);
    };
  }

  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(texts_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

class VulkanTest : public testing::Test {
 protected:
  void SetUp() override {
    if (vulkan::find_devices().empty()) GTEST_SKIP() << "no Vulkan device";
  }

  void TearDown() override {
    for (const std::string& text : messages_.take()) ADD_FAILURE() << "validation: " << text;
  }

  std::unique_ptr<Backend> backend(const vulkan::FeatureMask& features = {},
                                   const std::filesystem::path& cache = {},
                                   std::shared_ptr<vulkan::DispatchProfile> profile = {}) {
    auto made = vulkan::make_backend(0, {.pipeline_cache = cache,
                                         .features = features,
                                         .messages = messages_.sink(),
                                         .profile = std::move(profile)});
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }

  /// What narrow_step takes, where products are of Q4_0 and gates of their own type.
  static ModelConfig narrow_config(std::int32_t width, std::int32_t kv_heads) {
    ModelConfig c = small_positional_config();
    c.hidden_size = width;
    set(c, &LayerSpec::intermediate_size, 416);
    set(c, &LayerSpec::num_heads, 6);
    set(c, &LayerSpec::num_kv_heads, kv_heads);
    set(c, &LayerSpec::head_k_dim, 64);
    set(c, &LayerSpec::head_v_dim, 64);
    return c;
  }

  Messages messages_;  // outlives the backends of the test's body
};

}  // namespace runnel::test
