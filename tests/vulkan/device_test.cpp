// SPDX-License-Identifier: Apache-2.0
// Devices: listing, choice, messages, memory.
#include "runtime/backend/vulkan/driver/device.h"

#include <cstdlib>

#include "runtime/backend/registry.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace runnel::test {
namespace {

using VulkanDevice = VulkanTest;

TEST_F(VulkanDevice, ListedDevicesAreNamedAndUsable) {
  int n = 0;
  for (const vulkan::FoundDevice& found : vulkan::find_devices()) {
    EXPECT_EQ(found.info.id, "vulkan:" + std::to_string(n));
    EXPECT_EQ(found.info.backend, "vulkan");
    EXPECT_FALSE(found.info.name.empty());
    EXPECT_GT(found.info.memory_bytes, 0U);
    auto made = vulkan::make_backend(n++);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_EQ((*made)->device().id, found.info.id);
  }
}

TEST_F(VulkanDevice, UnknownIndexIsNotFound) {
  for (int index : {-1, 1000}) {
    auto made = vulkan::make_backend(index);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, ErrorCode::not_found);
  }
  EXPECT_FALSE(make_backend("vulkan:", 1).has_value());
  EXPECT_FALSE(make_backend("vulkan:0x", 1).has_value());
  EXPECT_FALSE(make_backend("vulkan:99999999999999999999", 1).has_value());
}

TEST_F(VulkanDevice, AutomaticChoiceNeverTakesASoftwareDevice) {
  auto chosen = make_backend("auto", 1);
  ASSERT_TRUE(chosen.has_value());
  for (const vulkan::FoundDevice& found : vulkan::find_devices()) {
    if (found.software) {
      EXPECT_NE((*chosen)->device().id, found.info.id);
    }
  }
}

TEST_F(VulkanDevice, ValidationMessagesArrive) {
  const char* layers = std::getenv("VK_INSTANCE_LAYERS");
  if (layers == nullptr) GTEST_SKIP() << "VK_INSTANCE_LAYERS names no validation layer";
  auto instance = vulkan::Instance::create(messages_.sink());
  ASSERT_TRUE(instance.has_value());
  auto device = vulkan::Device::create(*instance, (*instance)->devices().front(), "vulkan:0", {});
  ASSERT_TRUE(device.has_value());
  auto pool = (*device)->create_command_pool();
  ASSERT_TRUE(pool.has_value());
  auto commands = (*device)->allocate_commands(*pool);
  ASSERT_TRUE(commands.has_value());
  vulkan::dispatch_barrier((*device)->functions(), *commands);  // not allowed before begin
  EXPECT_FALSE(messages_.take().empty());
}

TEST_F(VulkanDevice, TooLargeABufferIsOutOfMemory) {
  auto instance = vulkan::Instance::create(messages_.sink());
  ASSERT_TRUE(instance.has_value());
  auto device = vulkan::Device::create(*instance, (*instance)->devices().front(), "vulkan:0", {});
  ASSERT_TRUE(device.has_value());
  auto buffer = (*device)->create_buffer(1ULL << 50, vulkan::MemoryKind::device, "huge");
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(buffer.error().message.find("\"huge\" of 1125899906842624 bytes"), std::string::npos)
      << buffer.error().message;
}

}  // namespace
}  // namespace runnel::test
