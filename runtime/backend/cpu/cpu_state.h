// SPDX-License-Identifier: Apache-2.0
// A session's state in the layout that the slot kernels stream.
#pragma once

#include <memory>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/kernels.h"
#include "runtime/backend/cpu/page_buffer.h"
#include "runtime/base/integers.h"

namespace runnel::cpu {

/// One layer's share of a native state, in floats. Per kv head: positional keys [positional lanes / 16, K, 16],
/// memory keys [memory lanes / 16, K, 16], or [K, memory lanes] of a recurrence with slots, positional values [P,
/// channels], memory values [M, channels], more numbers as in the canonical layout; lanes, channels and more rounded
/// up to 16; after the heads the conv tails and shifts as in the canonical layout. What the padding holds never
/// reaches an output. A recurrence of one pass has its state where memory values are, a row for each feature.
struct NativeLayer {
  LayerState canonical;
  std::size_t offset = 0;  // in the native state
  int positional = 0;      // P slots
  int memory = 0;          // M slots, or K' features
  int positional_lanes = 0;
  int memory_lanes = 0;
  bool key_blocks = false;  // keys lie in blocks of 16 lanes
  int channels = 0;         // V (and a normalizer's column) rounded up
  int extra = 0;

  static NativeLayer of(const LayerSpec& layer, const LayerState& canonical);

  std::size_t memory_keys() const { return keys_stride() * std::size_t(positional_lanes); }
  std::size_t positional_values() const { return keys_stride() * std::size_t(slot_lanes()); }
  std::size_t memory_values() const {
    return positional_values() + std::size_t(positional) * std::size_t(channels);
  }
  std::size_t extra_offset() const {
    return memory_values() + std::size_t(memory) * std::size_t(channels);
  }
  std::size_t head_floats() const { return extra_offset() + std::size_t(extra); }
  std::size_t floats() const { return conv_offset() - offset + tail_floats(); }
  std::size_t head_offset(int head) const { return offset + std::size_t(head) * head_floats(); }
  std::size_t conv_offset() const { return head_offset(canonical.kv_heads); }
  std::size_t mixer_shift_offset() const { return conv_offset() + canonical.conv_floats(); }
  std::size_t channel_shift_offset() const {
    return mixer_shift_offset() + std::size_t(canonical.mixer_shift);
  }
  /// Where the keys of a positional or memory slot begin among theirs.
  std::size_t key_offset(int slot) const {
    const auto lane = static_cast<std::size_t>(slot);
    return key_blocks ? lane / kKeyLanes * kKeyLanes * keys_stride() + lane % kKeyLanes : lane;
  }
  int slot_lanes() const { return positional_lanes + memory_lanes; }

 private:
  std::size_t keys_stride() const { return std::size_t(canonical.head_k_dim); }
  std::size_t tail_floats() const { return round_up(canonical.tail_floats(), 16); }
};

/// The layers' shares one after the other.
struct NativeLayout {
  std::vector<NativeLayer> layers;
  std::size_t canonical_floats = 0;

  static NativeLayout of(const ModelConfig& config);

  std::size_t total_floats() const {
    return layers.empty() ? 0 : layers.back().offset + layers.back().floats();
  }
};

class CpuState final : public RecurrentState {
 public:
  static Result<std::unique_ptr<RecurrentState>> create(const NativeLayout& layout);

  std::uint64_t position() const override { return position_; }
  Status export_to(std::span<float> out) const override;
  Status import_from(std::span<const float> canonical, std::uint64_t position) override;
  Result<std::unique_ptr<RecurrentState>> clone() const override;
  Status reset() override;

  float* data() { return buffer_.floats().data(); }
  const NativeLayout& layout() const { return layout_; }
  void advance(std::size_t tokens) { position_ += tokens; }

 private:
  explicit CpuState(const NativeLayout& layout) : layout_(layout) {}
  /// Zeros whose pages have not been written.
  static Result<std::unique_ptr<CpuState>> allocate(const NativeLayout& layout);

  NativeLayout layout_;
  PageBuffer buffer_;  // NativeLayout order
  std::uint64_t position_ = 0;
};

}  // namespace runnel::cpu
