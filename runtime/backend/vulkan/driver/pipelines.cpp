// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/driver/pipelines.h"

#include <array>
#include <cstring>

#include "runtime/backend/vulkan/driver/khr_matrices.h"
#include "runtime/backend/vulkan/driver/shader_registry.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/file_map.h"
#include "runtime/base/hash.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

/// What stands before the driver's data in the cache file. Drivers are not trusted to survive a
/// damaged cache, so it is checked here; the driver checks its own header besides.
struct CacheHeader {
  char magic[8] = {'R', 'N', 'L', 'V', 'K', 'P', 'C', '1'};
  std::uint8_t driver_uuid[VK_UUID_SIZE] = {};
  std::uint8_t cache_uuid[VK_UUID_SIZE] = {};
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t driver_version = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
};
static_assert(sizeof(CacheHeader) == 72);

constexpr std::uint64_t kMaxCacheBytes = 256U << 20;

CacheHeader header_for(const DeviceFacts& c, std::span<const std::byte> data) {
  CacheHeader h;
  std::memcpy(h.driver_uuid, c.driver_uuid.data(), VK_UUID_SIZE);
  std::memcpy(h.cache_uuid, c.cache_uuid.data(), VK_UUID_SIZE);
  h.vendor_id = c.vendor_id;
  h.device_id = c.device_id;
  h.driver_version = c.driver_version;
  h.bytes = data.size();
  h.hash = hash64(data);
  return h;
}

/// The driver's data in a cache file, or nothing if it is not this driver's or damaged.
std::span<const std::byte> usable_data(const DeviceFacts& c, std::span<const std::byte> file) {
  if (file.size() < sizeof(CacheHeader) || file.size() > kMaxCacheBytes) return {};
  const std::span<const std::byte> data = file.subspan(sizeof(CacheHeader));
  const CacheHeader expected = header_for(c, data);
  if (std::memcmp(file.data(), &expected, sizeof(expected)) != 0) return {};
  return data;
}

}  // namespace

Result<std::unique_ptr<Pipelines>> Pipelines::create(std::shared_ptr<Device> device,
                                                     std::filesystem::path cache) {
  std::unique_ptr<Pipelines> p(new Pipelines);
  p->device_ = std::move(device);
  p->path_ = std::move(cache);
  const VkDevice handle = p->device_->handle();
  const DeviceFunctions& f = p->device_->functions();

  std::array<VkDescriptorSetLayoutBinding, kBindings> bindings{};
  for (std::uint32_t i = 0; i < kBindings; ++i) {
    bindings[i] = {.binding = i,
                   .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                   .descriptorCount = 1,
                   .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  }
  const VkDescriptorSetLayoutCreateInfo set_info{
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
      .bindingCount = kBindings,
      .pBindings = bindings.data()};
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
  RUNNEL_VK_CHECK(f.vkCreateDescriptorSetLayout(handle, &set_info, nullptr, &set_layout),
                  p->device_->named("vkCreateDescriptorSetLayout"));
  p->set_layout_ = OwnedSetLayout(handle, f, set_layout);

  const VkPushConstantRange push{.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = kPushBytes};
  const VkPipelineLayoutCreateInfo layout_info{
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
      .setLayoutCount = 1,
      .pSetLayouts = &set_layout,
      .pushConstantRangeCount = 1,
      .pPushConstantRanges = &push};
  VkPipelineLayout layout = VK_NULL_HANDLE;
  RUNNEL_VK_CHECK(f.vkCreatePipelineLayout(handle, &layout_info, nullptr, &layout),
                  p->device_->named("vkCreatePipelineLayout"));
  p->layout_ = OwnedPipelineLayout(handle, f, layout);
  RUNNEL_CHECK_OK(p->read_cache());
  return p;
}

Status Pipelines::read_cache() {
  FileMap file;
  std::span<const std::byte> data;
  if (!path_.empty()) {
    Result<FileMap> opened = FileMap::open(path_);
    if (opened) {
      file = std::move(*opened);
      data = usable_data(device_->facts(), file.bytes());
    }
  }
  const VkPipelineCacheCreateInfo info{.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                       .initialDataSize = data.size(),
                                       .pInitialData = data.data()};
  VkPipelineCache cache = VK_NULL_HANDLE;
  RUNNEL_VK_CHECK(
      device_->functions().vkCreatePipelineCache(device_->handle(), &info, nullptr, &cache),
      device_->named("vkCreatePipelineCache"));
  cache_ = OwnedPipelineCache(device_->handle(), device_->functions(), cache);
  return {};
}

Result<VkPipeline> Pipelines::get(const std::string& shader,
                                  const std::vector<std::uint32_t>& constants,
                                  std::uint32_t tokens_at) {
  const std::lock_guard lock(mutex_);
  const auto key = std::make_tuple(shader, constants, tokens_at);
  if (const auto found = built_.find(key); found != built_.end()) return found->second.get();

  const std::uint32_t subgroup = device_->facts().subgroup;
  auto [words, sized] = find_shader(shader, subgroup);
  if (words.empty())
    return fail(ErrorCode::internal, device_->id(), ": no shader \"", shader, "\" in this build");

  std::vector<std::uint32_t> khr;
  if (device_->facts().khr_matrices) {
    khr = with_khr_matrices(words);
    if (khr.empty())
      return fail(ErrorCode::internal, device_->id(), ": shader \"", shader,
                  "\" has no Khronos cooperative matrices");
    words = khr;
  }

  const VkDevice handle = device_->handle();
  const DeviceFunctions& f = device_->functions();
  const std::string what = device_->id() + ": pipeline " + shader;
  const VkShaderModuleCreateInfo module_info{.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                             .codeSize = words.size_bytes(),
                                             .pCode = words.data()};
  VkShaderModule module = VK_NULL_HANDLE;
  RUNNEL_VK_CHECK(f.vkCreateShaderModule(handle, &module_info, nullptr, &module), what);
  const OwnedShaderModule owned_module(handle, f, module);

  std::vector<std::uint32_t> values{sized ? subgroup : 1U};
  values.insert(values.end(), constants.begin(), constants.end());
  std::vector<VkSpecializationMapEntry> entries;
  for (std::uint32_t i = 0; i < values.size(); ++i)
    entries.push_back({.constantID = i, .offset = 4 * i, .size = 4});
  if (tokens_at != kPassHeader) {
    entries.push_back({.constantID = kTokensAt,
                       .offset = static_cast<std::uint32_t>(4 * values.size()),
                       .size = 4});
    values.push_back(tokens_at);
  }
  const VkSpecializationInfo specialization{
      .mapEntryCount = static_cast<std::uint32_t>(entries.size()),
      .pMapEntries = entries.data(),
      .dataSize = values.size() * sizeof(std::uint32_t),
      .pData = values.data()};
  const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size{
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
      .requiredSubgroupSize = subgroup};
  const VkComputePipelineCreateInfo info{
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage =
          {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
           .pNext = sized ? &size : nullptr,
           .flags =
               sized
                   ? VkPipelineShaderStageCreateFlags{VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT}
                   : 0,
           .stage = VK_SHADER_STAGE_COMPUTE_BIT,
           .module = module,
           .pName = "main",
           .pSpecializationInfo = &specialization},
      .layout = layout_.get()};
  VkPipeline pipeline = VK_NULL_HANDLE;
  RUNNEL_VK_CHECK(f.vkCreateComputePipelines(handle, cache_.get(), 1, &info, nullptr, &pipeline),
                  what);
  built_.emplace(key, OwnedPipeline(handle, f, pipeline));
  return pipeline;
}

void Pipelines::save() {
  const std::lock_guard lock(mutex_);
  if (path_.empty() || built_.size() == saved_) return;
  const DeviceFunctions& f = device_->functions();
  std::size_t bytes = 0;
  if (f.vkGetPipelineCacheData(device_->handle(), cache_.get(), &bytes, nullptr) != VK_SUCCESS ||
      bytes > kMaxCacheBytes - sizeof(CacheHeader))
    return;
  std::vector<std::byte> file(sizeof(CacheHeader) + bytes);
  if (f.vkGetPipelineCacheData(device_->handle(), cache_.get(), &bytes,
                               file.data() + sizeof(CacheHeader)) != VK_SUCCESS)
    return;
  file.resize(sizeof(CacheHeader) + bytes);
  const CacheHeader header =
      header_for(device_->facts(), std::span<const std::byte>(file).subspan(sizeof(header)));
  std::memcpy(file.data(), &header, sizeof(header));
  if (write_file_atomically(path_, file, AtomicFile::kPrivateMode)) saved_ = built_.size();
}

}  // namespace runnel::vulkan
