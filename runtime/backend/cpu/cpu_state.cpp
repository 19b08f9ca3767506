// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cpu/cpu_state.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::cpu {
namespace {

constexpr int kLanes = kKeyLanes;  // of which rows of the native layout are whole multiples

/// Calls move(canonical element, native element) for every number of the state.
template <class Canonical, class Native, class Move>
void for_each_number(const NativeLayout& layout, Canonical* canonical, Native* native,
                     const Move& move) {
  for (const NativeLayer& n : layout.layers) {
    const LayerState& c = n.canonical;
    for (int head = 0; head < c.kv_heads; ++head) {
      Canonical* keys = canonical + c.keys_offset(head);
      Canonical* values = canonical + c.values_offset(head);
      Native* base = native + n.head_offset(head);
      for (int slot = 0; slot < c.slots; ++slot) {
        const bool memory = slot >= n.positional;
        const int index = memory ? slot - n.positional : slot;
        const auto lanes = static_cast<std::size_t>(memory ? n.memory_lanes : n.positional_lanes);
        Native* key = base + (memory ? n.memory_keys() : 0) + n.key_offset(index);
        const std::size_t stride = n.key_blocks ? kKeyLanes : lanes;
        for (int i = 0; i < c.head_k_dim; ++i, key += stride) move(*keys++, *key);
        Native* value = base + (memory ? n.memory_values() : n.positional_values()) +
                        static_cast<std::size_t>(index) * static_cast<std::size_t>(n.channels);
        for (int i = 0; i < c.head_v_dim; ++i) move(*values++, *value++);
      }
      for (int i = 0; i < c.head_extra; ++i) {
        move(*values++, base[n.extra_offset() + static_cast<std::size_t>(i)]);
      }
    }
    Canonical* tails = canonical + c.q_conv_offset();
    Native* own = native + n.conv_offset();
    for (std::size_t i = 0; i < c.tail_floats(); ++i) move(tails[i], own[i]);
  }
}

}  // namespace

NativeLayer NativeLayer::of(const LayerSpec& layer, const LayerState& canonical) {
  int positional = 0;
  bool key_blocks = false;
  switch (layer.kind()) {
    case Mixer::slots:
      positional = layer.slots().num_positional_slots();
      key_blocks = true;
      break;
    case Mixer::recurrence:
      break;
  }
  const int memory = canonical.slots - positional;
  return {.canonical = canonical,
          .offset = 0,
          .positional = positional,
          .memory = memory,
          .positional_lanes = round_up(positional, kLanes),
          .memory_lanes = round_up(memory, kLanes),
          .key_blocks = key_blocks,
          .channels = round_up(canonical.head_v_dim, kLanes),
          .extra = round_up(canonical.head_extra, kLanes)};
}

NativeLayout NativeLayout::of(const ModelConfig& config) {
  const StateLayout canonical = StateLayout::of(config);
  NativeLayout layout;
  layout.canonical_floats = canonical.total_floats();
  std::size_t at = 0;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    NativeLayer layer = NativeLayer::of(config.layers[i], canonical.layers[i]);
    layer.offset = at;
    at += layer.floats();
    layout.layers.push_back(layer);
  }
  return layout;
}

Result<std::unique_ptr<CpuState>> CpuState::allocate(const NativeLayout& layout) {
  std::unique_ptr<CpuState> state(new CpuState(layout));
  RUNNEL_TRY(state->buffer_, PageBuffer::create(layout.total_floats() * sizeof(float)));
  return state;
}

Result<std::unique_ptr<RecurrentState>> CpuState::create(const NativeLayout& layout) {
  RUNNEL_TRY(std::unique_ptr<CpuState> state, allocate(layout));
  // Pages that a token reads before it writes them would be mapped twice, the second time with an
  // interrupt to every other core.
  RUNNEL_CHECK_OK(state->reset());
  return std::unique_ptr<RecurrentState>(std::move(state));
}

Status CpuState::export_to(std::span<float> out) const {
  if (out.size() != layout_.canonical_floats) {
    return fail(ErrorCode::invalid_argument, "state: buffer has ", out.size(), " floats, expected ",
                layout_.canonical_floats);
  }
  for_each_number(layout_, out.data(), buffer_.floats().data(),
                  [](float& canonical, const float& own) { canonical = own; });
  return {};
}

Status CpuState::import_from(std::span<const float> canonical, std::uint64_t position) {
  if (canonical.size() != layout_.canonical_floats) {
    return fail(ErrorCode::mismatch, "state: has ", canonical.size(), " floats, expected ",
                layout_.canonical_floats);
  }
  for_each_number(layout_, canonical.data(), data(),
                  [](const float& from, float& own) { own = from; });
  position_ = position;
  return {};
}

Result<std::unique_ptr<RecurrentState>> CpuState::clone() const {
  RUNNEL_TRY(std::unique_ptr<CpuState> copy, allocate(layout_));
  if (buffer_.size() > 0) std::memcpy(copy->buffer_.data(), buffer_.data(), buffer_.size());
  copy->position_ = position_;
  return std::unique_ptr<RecurrentState>(std::move(copy));
}

Status CpuState::reset() {
  const std::span<float> all = buffer_.floats();
  std::fill(all.begin(), all.end(), 0.0F);
  position_ = 0;
  return {};
}

}  // namespace runnel::cpu
