// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/memory/resident_model.h"

#include <algorithm>
#include <bit>

#include "runtime/backend/vulkan/driver/shared_memory.h"
#include "runtime/backend/vulkan/shader_constants.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

/// State values of one kind that a thread keeps in registers, and the most splits: 4 instead of 16
/// brought 843 to 904 tokens/s on an H200 (heads of 64: more workgroups, less code in each).
constexpr std::uint32_t kRegisterValues = 4;
constexpr std::uint32_t kMostSplits = 16;
/// More leave no room for the rest.
constexpr std::uint32_t kMostRegisterValues = 16;

}  // namespace

std::vector<std::uint32_t> slot_constants(const LayerSpec& l, const SlotSplit& split) {
  const auto u = [](std::int32_t n) { return static_cast<std::uint32_t>(n); };
  const SlotSpec& slots = l.slots();
  return {u(l.head_k_dim),
          u(l.head_v_dim),
          u(slots.num_memory_slots),
          u(slots.num_sink_slots),
          u(slots.num_window_slots),
          u(l.queries_per_kv_head()),
          u(l.num_kv_heads),
          split.splits,
          split.share,
          split.team,
          shader_constant(slots.feature_map),
          shader_constant(slots.value_activation)};
}

Result<SlotSplit> choose_slot_split(const Device& device, const LayerSpec& l) {
  const auto slots = static_cast<std::uint32_t>(l.slots().num_slots());
  const auto widest = static_cast<std::uint32_t>(std::max(l.head_k_dim, l.head_v_dim));
  SlotSplit s;
  const std::uint32_t kept =
      device.tuning().slot_values > 0 ? device.tuning().slot_values : kRegisterValues;
  const std::uint32_t most = kThreads * std::max(kept, kMostRegisterValues) / widest;
  s.share = std::clamp(std::max(kThreads * kept / widest, divide_up(slots, kMostSplits)), 1U,
                       std::clamp(most, 1U, slots));
  s.splits = divide_up(slots, s.share);
  s.share = divide_up(slots, s.splits);
  // A team per slot where there are lanes for it, but at least 8 lanes: 32 bytes of a key at a time.
  s.team = std::clamp(kThreads / std::bit_ceil(s.share), 8U, 32U);
  const std::uint64_t bytes =
      declared_shared_bytes("slot_attention", device.facts().subgroup, slot_constants(l, s));
  if (bytes > device.facts().shared_bytes) {
    return fail(ErrorCode::unsupported, device.id(), ": ", l.queries_per_kv_head(),
                " query heads of ", l.head_k_dim, " and ", l.head_v_dim, " values need ", bytes,
                " bytes of shared memory, the device has ", device.facts().shared_bytes);
  }
  return s;
}

std::uint32_t slots_stride(const LayerSpec& l, const SlotSplit& split) {
  return static_cast<std::uint32_t>(l.num_heads) * split.splits *
         (2 + static_cast<std::uint32_t>(l.head_v_dim));
}

RecurrenceColumns RecurrenceColumns::of(const LayerSpec& l) {
  const RecurrenceSpec& r = l.recurrence();
  const auto u = [](std::int32_t n) { return static_cast<std::uint32_t>(n); };
  RecurrenceColumns at;
  const auto take = [](std::uint32_t& all, std::int32_t n) {
    const std::uint32_t here = all;
    all += static_cast<std::uint32_t>(n);
    return here;
  };
  const std::int32_t gates = l.gate_channels();
  at.q = take(at.all, l.q_channels());
  at.k = take(at.all, l.k_channels());
  at.v = take(at.all, l.v_channels());
  at.low = take(at.all, r.gate_rank);
  const bool shifted = l.mixer_shift > 0;
  at.low_r = take(at.all, r.rate_rank);
  at.low_gate = take(at.all, r.output_gate_rank);
  at.low_v = take(at.all, r.value_rank);
  at.f = r.complement_keys ? at.k : take(at.all, r.gate_rank > 0 && !shifted ? 0 : gates);
  at.r = take(at.all, l.rate_channels());
  at.gate = take(at.all, l.output_gate ? l.o_channels() : 0);
  at.v_mix = take(at.all, r.value_rank > 0 ? l.v_channels() : 0);
  at.bonus = take(at.all, r.bonus ? l.num_heads : 0);

  const std::int32_t heads = l.num_heads, kv = l.num_kv_heads, slots = r.num_memory_slots;
  at.decay_lanes = r.decay == Decay::none ? 0
                   : slots > 0            ? u(slots)
                   : r.decay_on_values    ? u(l.head_v_dim)
                                          : u(l.feature_dim());
  at.queries = take(at.features, heads * l.feature_dim());
  at.keys = take(at.features, kv * (slots > 0 ? slots : l.feature_dim()));
  at.slot_keys = take(at.features, slots > 0 ? kv * l.head_k_dim : 0);
  at.decays = take(at.features, kv * static_cast<std::int32_t>(at.decay_lanes));
  at.slot_logits = take(at.features, heads * slots);
  const std::int32_t removed = r.removal == Removal::none ? 0 : kv * l.head_k_dim;
  at.removal_c = take(at.features, removed);
  at.removal_b = take(at.features, removed);
  return at;
}

std::uint32_t projection_columns(const LayerSpec& l) {
  switch (l.kind()) {
    case Mixer::slots:
      return static_cast<std::uint32_t>(l.q_channels() + l.k_channels() + l.v_channels() +
                                        l.gate_channels());
    case Mixer::recurrence:
      return RecurrenceColumns::of(l).all;
  }
  return 0;
}

Status check_recurrence(const Device& device, const LayerSpec& l) {
  constexpr std::int32_t kMostRows = 1024;  // 128 registers per thread
  const std::int32_t rows = std::max(l.feature_dim(), l.recurrence().num_memory_slots);
  // The stages that have a head's keys in shared memory.
  const std::uint32_t keys[] = {static_cast<std::uint32_t>(l.head_k_dim),
                                static_cast<std::uint32_t>(l.feature_dim())};
  const bool removes = l.recurrence().removal != Removal::none;
  const std::uint64_t bytes = declared_shared_bytes(
      removes ? "removal.one" : "gated_recurrence.inputs", device.facts().subgroup, keys);
  if (rows <= kMostRows && bytes <= device.facts().shared_bytes) return {};
  return fail(ErrorCode::unsupported, device.id(), ": a head of ", rows, " features takes ", bytes,
              " bytes of shared memory, expected at most ", kMostRows, " features and ",
              device.facts().shared_bytes, " bytes");
}

Result<std::vector<SlotSplit>> choose_splits(const Device& device, const ModelConfig& config) {
  if (config.embedding_norm && config.embedding_norm->kind != Norm::layer) {
    return fail(ErrorCode::unsupported, device.id(),
                ": the norm behind the embedding is an RMSNorm, expected a LayerNorm");
  }
  std::vector<SlotSplit> splits(config.layers.size());
  for (std::size_t i = 0; i < splits.size(); ++i) {
    const LayerSpec& l = config.layers[i];
    switch (l.kind()) {
      case Mixer::slots: {
        if (l.output_gate || l.output_norm == OutputNorm::heads) {
          return fail(ErrorCode::unsupported, device.id(), ": layer ", i,
                      " has slots and an output gate or a norm of each head, expected neither");
        }
        RUNNEL_TRY(splits[i], choose_slot_split(device, l));
        break;
      }
      case Mixer::recurrence:
        RUNNEL_CHECK_OK(check_recurrence(device, l));
        break;
    }
  }
  return splits;
}

}  // namespace runnel::vulkan
