// SPDX-License-Identifier: Apache-2.0
// The states of all sessions of a model: places in a few buffers ("banks"), so that a recorded
// command buffer serves every session of a bank.
//
// A bank is layer-major, [layers][places][floats of the layer], each layer's region aligned for
// binding; within a layer a place has the canonical layout. So one binding holds one layer of all places.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/backend/vulkan/driver/device.h"
#include "runtime/model/state_layout.h"

namespace runnel::vulkan {

/// Thread-safe.
class StateStore {
 public:
  struct Place {
    std::uint32_t bank = 0;
    std::uint32_t index = 0;
  };

  /// @return unsupported if one layer of a state is larger than a binding.
  static Result<std::unique_ptr<StateStore>> create(std::shared_ptr<Device> device,
                                                    const StateLayout& layout);

  /// An empty state.
  Result<Place> acquire();
  void release(Place place) noexcept;

  Status clear(Place place);
  Status copy(Place from, Place to);
  Status read(Place place, std::span<float> canonical);
  Status write(Place place, std::span<const float> canonical);

  /// A bank's buffer, and the floats from one of its layers to the next where all are alike.
  Range bank(std::uint32_t bank) const;
  std::uint64_t layer_stride(std::uint32_t bank) const;
  /// One layer of all places of a bank.
  Range layer(std::uint32_t bank, int layer) const;

 private:
  struct Bank {
    Buffer buffer;
    std::vector<std::uint64_t> layers;  // where each begins, in bytes, and the end
    std::vector<bool> taken;
  };

  StateStore() = default;
  Status grow();
  std::vector<VkBufferCopy> regions(const Bank& bank, std::uint32_t index) const;
  template <class Record>
  Status run(Record record);

  std::shared_ptr<Device> device_;
  StateLayout layout_;
  std::uint64_t layer_bytes_ = 0;  // of the largest layer of a state
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Bank>> banks_;
  Buffer staging_;  // one canonical state
  OwnedCommandPool pool_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

}  // namespace runnel::vulkan
