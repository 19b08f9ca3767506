// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/memory/state_store.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

constexpr std::uint64_t kFirstPlaces = 4;
constexpr std::uint64_t kMaxBankBytes = 256U << 20;

std::uint64_t bytes_of(const LayerState& layer) { return layer.floats() * sizeof(float); }

}  // namespace

Result<std::unique_ptr<StateStore>> StateStore::create(std::shared_ptr<Device> device,
                                                       const StateLayout& layout) {
  std::unique_ptr<StateStore> store(new StateStore);
  store->device_ = std::move(device);
  store->layout_ = layout;
  for (const LayerState& layer : layout.layers)
    store->layer_bytes_ = std::max(store->layer_bytes_, bytes_of(layer));
  const std::uint64_t layer_bytes = store->layer_bytes_;
  if (layer_bytes > store->device_->facts().storage_range) {
    return fail(ErrorCode::unsupported, store->device_->id(), ": one layer of a state takes ",
                layer_bytes, " bytes, expected at most ", store->device_->facts().storage_range);
  }
  RUNNEL_TRY(store->staging_, store->device_->create_buffer(layout.total_floats() * sizeof(float),
                                                            MemoryKind::output, "state staging"));
  RUNNEL_TRY(store->pool_, store->device_->create_command_pool());
  RUNNEL_TRY(store->commands_, store->device_->allocate_commands(store->pool_));
  RUNNEL_CHECK_OK(store->grow());  // bank 0 is there: plans are recorded for it at once
  return store;
}

Status StateStore::grow() {
  const std::uint64_t state_bytes = layout_.total_floats() * sizeof(float);
  const std::uint64_t wanted = std::min<std::uint64_t>(kFirstPlaces << banks_.size(), 64);
  const std::uint64_t places =
      std::max<std::uint64_t>(1, std::min({wanted, kMaxBankBytes / state_bytes,
                                           device_->facts().storage_range / layer_bytes_}));
  auto bank = std::make_unique<Bank>();
  std::uint64_t at = 0;
  for (const LayerState& layer : layout_.layers) {
    bank->layers.push_back(at);
    at += round_up(places * bytes_of(layer), device_->facts().storage_alignment);
  }
  bank->layers.push_back(at);
  bank->taken.resize(places);
  RUNNEL_TRY(bank->buffer, device_->create_buffer(at, MemoryKind::device, "states"));
  banks_.push_back(std::move(bank));
  return {};
}

Result<StateStore::Place> StateStore::acquire() {
  Place place;
  {
    const std::lock_guard lock(mutex_);
    const auto find = [&] {
      for (place.bank = 0; place.bank < banks_.size(); ++place.bank) {
        std::vector<bool>& taken = banks_[place.bank]->taken;
        const auto free = std::find(taken.begin(), taken.end(), false);
        if (free == taken.end()) continue;
        place.index = static_cast<std::uint32_t>(free - taken.begin());
        *free = true;
        return true;
      }
      return false;
    };
    if (!find()) {
      RUNNEL_CHECK_OK(grow());
      find();
    }
  }
  if (const Status cleared = clear(place); !cleared) {
    release(place);
    return cleared.error();
  }
  return place;
}

void StateStore::release(Place place) noexcept {
  const std::lock_guard lock(mutex_);
  banks_[place.bank]->taken[place.index] = false;
}

std::vector<VkBufferCopy> StateStore::regions(const Bank& bank, std::uint32_t index) const {
  std::vector<VkBufferCopy> all;
  for (std::size_t i = 0; i < layout_.layers.size(); ++i) {
    const std::uint64_t bytes = bytes_of(layout_.layers[i]);
    all.push_back({.srcOffset = layout_.layers[i].offset * sizeof(float),
                   .dstOffset = bank.layers[i] + index * bytes,
                   .size = bytes});
  }
  return all;
}

template <class Record>
Status StateStore::run(Record record) {
  const DeviceFunctions& f = device_->functions();
  RUNNEL_VK_CHECK(f.vkResetCommandPool(device_->handle(), pool_.get(), 0),
                  device_->named("vkResetCommandPool"));
  const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                       .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  RUNNEL_VK_CHECK(f.vkBeginCommandBuffer(commands_, &begin),
                  device_->named("vkBeginCommandBuffer"));
  full_barrier(f, commands_);
  record(f, commands_);
  full_barrier(f, commands_, true);
  RUNNEL_VK_CHECK(f.vkEndCommandBuffer(commands_), device_->named("vkEndCommandBuffer"));
  return device_->run(std::span(&commands_, 1));
}

Status StateStore::clear(Place place) {
  const std::lock_guard lock(mutex_);
  const Bank& bank = *banks_[place.bank];
  return run([&](const DeviceFunctions& f, VkCommandBuffer commands) {
    for (const VkBufferCopy& r : regions(bank, place.index))
      f.vkCmdFillBuffer(commands, bank.buffer.get(), r.dstOffset, r.size, 0);
  });
}

Status StateStore::copy(Place from, Place to) {
  const std::lock_guard lock(mutex_);
  const Bank& source = *banks_[from.bank];
  const Bank& target = *banks_[to.bank];
  std::vector<VkBufferCopy> pieces = regions(target, to.index);
  const std::vector<VkBufferCopy> source_pieces = regions(source, from.index);
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].srcOffset = source_pieces[i].dstOffset;
  return run([&](const DeviceFunctions& f, VkCommandBuffer commands) {
    f.vkCmdCopyBuffer(commands, source.buffer.get(), target.buffer.get(),
                      static_cast<std::uint32_t>(pieces.size()), pieces.data());
  });
}

Status StateStore::read(Place place, std::span<float> canonical) {
  const std::lock_guard lock(mutex_);
  const Bank& bank = *banks_[place.bank];
  std::vector<VkBufferCopy> pieces = regions(bank, place.index);
  for (VkBufferCopy& r : pieces) std::swap(r.srcOffset, r.dstOffset);
  RUNNEL_CHECK_OK(run([&](const DeviceFunctions& f, VkCommandBuffer commands) {
    f.vkCmdCopyBuffer(commands, bank.buffer.get(), staging_.get(),
                      static_cast<std::uint32_t>(pieces.size()), pieces.data());
  }));
  std::memcpy(canonical.data(), staging_.mapped, canonical.size_bytes());
  return {};
}

Status StateStore::write(Place place, std::span<const float> canonical) {
  const std::lock_guard lock(mutex_);
  const Bank& bank = *banks_[place.bank];
  std::memcpy(staging_.mapped, canonical.data(), canonical.size_bytes());
  const std::vector<VkBufferCopy> pieces = regions(bank, place.index);
  return run([&](const DeviceFunctions& f, VkCommandBuffer commands) {
    f.vkCmdCopyBuffer(commands, staging_.get(), bank.buffer.get(),
                      static_cast<std::uint32_t>(pieces.size()), pieces.data());
  });
}

Range StateStore::bank(std::uint32_t bank) const {
  const std::lock_guard lock(mutex_);
  return {banks_[bank]->buffer.get(), 0, banks_[bank]->buffer.bytes};
}

std::uint64_t StateStore::layer_stride(std::uint32_t bank) const {
  const std::lock_guard lock(mutex_);
  return banks_[bank]->layers[1] / sizeof(float);
}

Range StateStore::layer(std::uint32_t bank, int layer) const {
  const std::lock_guard lock(mutex_);
  const Bank& b = *banks_[bank];
  return {b.buffer.get(), b.layers[static_cast<std::size_t>(layer)],
          b.taken.size() * bytes_of(layout_.layer(layer))};
}

}  // namespace runnel::vulkan
