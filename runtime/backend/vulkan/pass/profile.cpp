// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/pass/profile.h"

#include "runtime/base/try.h"

namespace runnel::vulkan {

Result<Timestamps> create_timestamps(const Device& device, std::vector<std::string> names) {
  const VkQueryPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                   .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                   .queryCount = static_cast<std::uint32_t>(names.size() + 1)};
  VkQueryPool pool = VK_NULL_HANDLE;
  RUNNEL_VK_CHECK(device.functions().vkCreateQueryPool(device.handle(), &info, nullptr, &pool),
                  device.named("vkCreateQueryPool"));
  return Timestamps{.pool = OwnedQueryPool(device.handle(), device.functions(), pool),
                    .names = std::move(names)};
}

Status Timestamps::add_to(DispatchProfile& profile, const Device& device) const {
  std::vector<std::uint64_t> ticks(names.size() + 1);
  RUNNEL_VK_CHECK(device.functions().vkGetQueryPoolResults(
                      device.handle(), pool.get(), 0, static_cast<std::uint32_t>(ticks.size()),
                      ticks.size() * sizeof(ticks[0]), ticks.data(), sizeof(ticks[0]),
                      VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                  device.named("vkGetQueryPoolResults"));
  for (std::size_t i = 0; i < names.size(); ++i) {
    DispatchProfile::Entry& entry = profile.by_shader[names[i]];
    ++entry.count;
    entry.microseconds += static_cast<double>(ticks[i + 1] - ticks[i]) *
                          static_cast<double>(device.facts().timestamp_ns) / 1e3;
  }
  return {};
}

}  // namespace runnel::vulkan
