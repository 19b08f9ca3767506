// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/resident_model.h"

#include <algorithm>
#include <bit>

#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

/// State values of one kind that a thread keeps in registers, and the most splits: 4 instead of 16
/// brought 843 to 904 tokens/s on an H200 (heads of 64: more workgroups, less code in each).
constexpr std::uint32_t kRegisterValues = 4;
constexpr std::uint32_t kMostSplits = 16;
/// More leave no room for the rest.
constexpr std::uint32_t kMostRegisterValues = 16;

std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

/// Shared memory of slot_attention.comp.
std::uint64_t shared_bytes(const ModelConfig& c, const SlotSplit& s) {
  const auto k = static_cast<std::uint64_t>(c.head_k_dim);
  const auto v = static_cast<std::uint64_t>(c.head_v_dim);
  const auto g = static_cast<std::uint64_t>(c.queries_per_kv_head());
  const bool rotary = c.num_positional_slots() > 0;
  const std::uint64_t groups = std::max<std::uint64_t>(1, kThreads / v);
  return 4 * ((rotary ? 3 : 1) * g * k + (rotary ? 2 : 1) * k + v + (2 + g) * s.share +
              groups * g * v + kThreads);
}

}  // namespace

Result<SlotSplit> choose_slot_split(const Device& device, const ModelConfig& c) {
  const auto slots = static_cast<std::uint32_t>(c.num_slots());
  const auto widest = static_cast<std::uint32_t>(std::max(c.head_k_dim, c.head_v_dim));
  SlotSplit s;
  const std::uint32_t kept =
      device.tuning().slot_values > 0 ? device.tuning().slot_values : kRegisterValues;
  const std::uint32_t most = kThreads * std::max(kept, kMostRegisterValues) / widest;
  s.share = std::clamp(std::max(kThreads * kept / widest, ceil_div(slots, kMostSplits)), 1U,
                       std::clamp(most, 1U, slots));
  s.splits = (slots + s.share - 1) / s.share;
  s.share = (slots + s.splits - 1) / s.splits;
  // A team per slot where there are lanes for it, but at least 8 lanes: 32 bytes of a key at a time.
  s.team = std::clamp(kThreads / std::bit_ceil(s.share), 8U, 32U);
  const std::uint64_t bytes = shared_bytes(c, s);
  if (bytes > device.capabilities().shared_bytes) {
    return fail(ErrorCode::unsupported, device.id(), ": ", c.queries_per_kv_head(),
                " query heads of ", c.head_k_dim, " and ", c.head_v_dim, " values need ", bytes,
                " bytes of shared memory, the device has ", device.capabilities().shared_bytes);
  }
  return s;
}

RecurrenceColumns RecurrenceColumns::of(const ModelConfig& c) {
  const auto u = [](std::int32_t n) { return static_cast<std::uint32_t>(n); };
  RecurrenceColumns at;
  const auto take = [](std::uint32_t& all, std::uint32_t n) {
    const std::uint32_t here = all;
    all += n;
    return here;
  };
  const std::uint32_t gates = u(c.num_kv_heads * c.gate_dim());
  const bool low_rank = c.gate_rank > 0;
  at.q = take(at.all, u(c.num_heads * c.head_k_dim));
  at.k = take(at.all, u(c.num_kv_heads * c.head_k_dim));
  at.v = take(at.all, u(c.num_kv_heads * c.head_v_dim));
  at.low = take(at.all, u(c.gate_rank));
  at.f = c.complement_keys ? at.k : take(at.all, low_rank ? 0 : gates);
  at.r = take(at.all, c.decay == Decay::refined ? gates : 0);
  at.gate = take(at.all, c.output_gate ? u(c.num_heads * c.head_v_dim) : 0);

  const std::uint32_t heads = u(c.num_heads), kv = u(c.num_kv_heads), slots = u(c.num_memory_slots);
  at.decay_lanes = c.decay == Decay::none ? 0
                   : slots > 0            ? slots
                   : c.decay_on_values    ? u(c.head_v_dim)
                                          : u(c.feature_dim());
  at.queries = take(at.features, heads * u(c.feature_dim()));
  at.keys = take(at.features, kv * (slots > 0 ? slots : u(c.feature_dim())));
  at.slot_keys = take(at.features, slots > 0 ? kv * u(c.head_k_dim) : 0);
  at.decays = take(at.features, kv * at.decay_lanes);
  at.slot_logits = take(at.features, heads * slots);
  return at;
}

Status check_recurrence(const Device& device, const ModelConfig& c) {
  constexpr std::int32_t kMostRows = 1024;  // 128 registers a thread
  const std::int32_t rows = std::max(c.feature_dim(), c.num_memory_slots);
  const auto bytes =
      (static_cast<std::uint64_t>(c.head_k_dim + c.feature_dim()) + 2 * kThreads) * sizeof(float);
  if (rows <= kMostRows && bytes <= device.capabilities().shared_bytes) return {};
  return fail(ErrorCode::unsupported, device.id(), ": a head of ", rows, " features takes ", bytes,
              " bytes of shared memory, expected at most ", kMostRows, " features and ",
              device.capabilities().shared_bytes, " bytes");
}

}  // namespace runnel::vulkan
