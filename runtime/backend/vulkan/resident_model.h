// SPDX-License-Identifier: Apache-2.0
// What the states and plans of one model share: device, pipelines, weights, states, and the work
// split chosen for its shapes.
#pragma once

#include <memory>
#include <string>

#include "runtime/backend/vulkan/decode_step.h"
#include "runtime/backend/vulkan/device.h"
#include "runtime/backend/vulkan/pipelines.h"
#include "runtime/backend/vulkan/profile.h"
#include "runtime/backend/vulkan/state_store.h"
#include "runtime/backend/vulkan/weight_store.h"

namespace runnel::vulkan {

/// How slot_attention divides the slots of a kv head.
struct SlotSplit {
  std::uint32_t splits = 1;
  std::uint32_t share = 1;  // slots of a split
  std::uint32_t team = 8;   // lanes that share a slot's key
};

/// Columns of a row of projections and of features of a recurrence, see RecurrenceArgs.
struct RecurrenceColumns {
  std::uint32_t q = 0, k = 0, v = 0, f = 0, low = 0, r = 0, gate = 0, all = 0;
  std::uint32_t queries = 0, keys = 0, slot_keys = 0, decays = 0, slot_logits = 0, features = 0;
  std::uint32_t decay_lanes = 0;  // of a head

  static RecurrenceColumns of(const ModelConfig& c);
};

struct ResidentModel {
  std::shared_ptr<Device> device;
  std::unique_ptr<Pipelines> pipelines;
  ModelConfig config;
  StateLayout layout;
  SlotSplit slots;
  std::unique_ptr<WeightStore> weights;
  std::unique_ptr<StateStore> states;
  DecodeStep step;
  std::shared_ptr<DispatchProfile> profile;  // where times of dispatches are wanted

  // Columns of the projections [T, q | k | v | f].
  std::uint32_t q_columns() const {
    return static_cast<std::uint32_t>(config.num_heads * config.head_k_dim);
  }
  std::uint32_t k_columns() const {
    return static_cast<std::uint32_t>(config.num_kv_heads * config.head_k_dim);
  }
  std::uint32_t v_columns() const {
    return static_cast<std::uint32_t>(config.num_kv_heads * config.head_v_dim);
  }
  std::uint32_t f_columns() const {
    return static_cast<std::uint32_t>(config.num_kv_heads * config.gate_dim());
  }
  std::uint32_t o_columns() const {
    return static_cast<std::uint32_t>(config.num_heads * config.head_v_dim);
  }
};

/// @return unsupported if a head's features do not fit the device's shared memory, or its state the registers of a
///         workgroup.
Status check_recurrence(const Device& device, const ModelConfig& config);

/// @return unsupported if the heads do not fit the device's shared memory.
Result<SlotSplit> choose_slot_split(const Device& device, const ModelConfig& config);

}  // namespace runnel::vulkan
