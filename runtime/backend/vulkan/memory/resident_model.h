// SPDX-License-Identifier: Apache-2.0
// What the states and plans of one model share: device, pipelines, weights, states, and the work
// split chosen for its shapes.
#pragma once

#include <memory>
#include <vector>

#include "runtime/backend/vulkan/driver/device.h"
#include "runtime/backend/vulkan/driver/pipelines.h"
#include "runtime/backend/vulkan/memory/device_weights.h"
#include "runtime/backend/vulkan/memory/state_store.h"
#include "runtime/backend/vulkan/pass/profile.h"
#include "runtime/backend/vulkan/step/programs.h"

namespace runnel::vulkan {

/// How slot_attention divides the slots of a kv head.
struct SlotSplit {
  std::uint32_t splits = 1;
  std::uint32_t share = 1;  // slots of a split
  std::uint32_t team = 8;   // lanes that share a slot's key
};

/// Constants 1, 2, … of slot_attention.comp.
std::vector<std::uint32_t> slot_constants(const LayerSpec& l, const SlotSplit& split);

/// Floats of a token's splits [HQ, splits, 2 + V], or of its outputs where slots go chunk by chunk.
std::uint32_t slots_stride(const LayerSpec& l, const SlotSplit& split);

/// Columns of a row of projections and of features of a recurrence, see RecurrenceArgs.
struct RecurrenceColumns {
  std::uint32_t q = 0, k = 0, v = 0, f = 0, low = 0, r = 0, gate = 0, all = 0;
  // of shifted projections: what is between two products of low rank, and the mix of values; bonus of each head
  std::uint32_t low_r = 0, low_gate = 0, low_v = 0, v_mix = 0, bonus = 0;
  std::uint32_t queries = 0, keys = 0, slot_keys = 0, decays = 0, slot_logits = 0, features = 0;
  std::uint32_t removal_c = 0, removal_b = 0;
  std::uint32_t decay_lanes = 0;  // of a head

  static RecurrenceColumns of(const LayerSpec& l);
};

/// Columns of a layer's row of projections: q | k | v | f, or those of its recurrence.
std::uint32_t projection_columns(const LayerSpec& l);

struct ResidentModel {
  std::shared_ptr<Device> device;
  std::shared_ptr<Pipelines> pipelines;
  ModelConfig config;
  StateLayout layout;
  std::vector<SlotSplit> splits;  // of each layer; nothing of a recurrence
  std::unique_ptr<DeviceWeights> weights;
  std::unique_ptr<StateStore> states;
  LoadedStep step;
  std::shared_ptr<DispatchProfile> profile;  // where times of dispatches are wanted
};

/// @return unsupported if a head's features do not fit the device's shared memory, or its state the registers of a
///         workgroup.
Status check_recurrence(const Device& device, const LayerSpec& l);

/// @return unsupported if the heads do not fit the device's shared memory.
Result<SlotSplit> choose_slot_split(const Device& device, const LayerSpec& l);

/// The work split of each layer.
Result<std::vector<SlotSplit>> choose_splits(const Device& device, const ModelConfig& config);

}  // namespace runnel::vulkan
