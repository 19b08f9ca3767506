// SPDX-License-Identifier: Apache-2.0
// The buffers of a plan, sized by the layers that need most.
#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/backend/pass_probe.h"
#include "runtime/backend/vulkan/pass/pass_builder.h"
#include "runtime/backend/vulkan/plan.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {

/// The widths of a pass's buffers, each that of the layer that needs most.
struct Widths {
  std::uint32_t inputs = 0, projected = 0, slots = 0, hidden = 0, features = 0;
  // Slots chunk by chunk: values of [H, M] and [H, M*(K+V)], of a token's f16 operands, of an item's windows.
  std::uint64_t chunk_slots = 0, chunk_memories = 0, operands = 0, windows = 0;
  std::uint32_t chunk_features = 0;
  std::uint32_t shifted = 0, first_v = 0;
  bool slots_in_fours = true;  // rows of slots begin at multiples of 16 bytes
  bool swiglu_alone = true;    // no layer has another channel mix

  static Widths of(const ResidentModel& m);
};

namespace {

constexpr std::uint32_t kMaxLogitRows = 16;
constexpr std::uint64_t kMaxLogitBytes = 16U << 20;
/// Items of more tokens go chunk by chunk: what an item computes depends on nothing but its length.
constexpr std::size_t kTokenByToken = 16;

/// Rows of f32: whole units, and whole tiles of matrix units.
std::uint32_t padded(std::uint32_t columns) { return round_up(columns, 16U); }

}  // namespace

Widths Widths::of(const ResidentModel& m) {
  Widths w;
  const auto u = [](std::int32_t n) { return static_cast<std::uint32_t>(n); };
  const auto most = [](auto& to, auto n) { to = std::max(to, n); };
  w.inputs = u(m.config.hidden_size);
  for (const LayerSpec& l : m.config.layers) {
    most(w.inputs, u(l.o_channels()));
    most(w.projected, projection_columns(l));
    most(w.shifted, u(l.mixer_shift > 0 ? l.shifted_inputs() : l.channel_shift > 0 ? 1 : 0));
    switch (l.channel_mix) {
      case ChannelMix::none:
        break;
      case ChannelMix::squared_relu:
        w.swiglu_alone = false;
        most(w.hidden, u(l.intermediate_size));
        break;
      case ChannelMix::swiglu:
        most(w.hidden, u(l.intermediate_size));
        break;
    }
    switch (l.kind()) {
      case Mixer::slots: {
        const SlotSplit& split = m.splits[static_cast<std::size_t>(l.index)];
        const bool rotary = l.rotates();
        const std::uint64_t columns = u(l.head_k_dim + l.head_v_dim);
        const std::uint64_t kv = u(l.num_kv_heads);
        most(w.slots, slots_stride(l, split));
        w.slots_in_fours = w.slots_in_fours && slots_stride(l, split) % 4 == 0;
        most(w.chunk_features, u((rotary ? l.k_channels() : 0) + l.gate_channels()));
        most(w.chunk_slots, std::uint64_t{u(l.gate_channels())});
        most(w.chunk_memories, u(l.gate_channels()) * columns);
        most(w.operands, std::uint64_t{(rotary ? 3U : 1U) * u(l.q_channels()) +
                                       (rotary ? 2U : 1U) * u(l.k_channels()) + u(l.v_channels())});
        most(w.windows, rotary ? (kMostChunkWindow + kMostChunkSinks) * kv * columns : 0);
        break;
      }
      case Mixer::recurrence:
        most(w.slots, u(l.num_heads * l.value_columns()));
        most(w.features, RecurrenceColumns::of(l).features);
        most(w.first_v,
             static_cast<std::uint32_t>(columns_of(PassBuffer::first_v, l, m.config.hidden_size)));
        for (const std::int32_t rank : {l.recurrence().gate_rank, l.recurrence().rate_rank,
                                        l.recurrence().output_gate_rank, l.recurrence().value_rank})
          most(w.inputs, u(l.mixer_shift > 0 ? rank : 0));
        break;
    }
  }
  return w;
}

Status VulkanPlan::allocate() {
  const Widths widths = Widths::of(*model_);
  RUNNEL_CHECK_OK(allocate_activations(widths));
  RUNNEL_CHECK_OK(allocate_parameters());
  return allocate_logits();
}

/// Chunks that every pass of this plan has at most, where slots can go chunk by chunk.
std::uint32_t VulkanPlan::most_chunks(const Widths& widths) const {
  const Device& device = *model_->device;
  if (max_tokens_ <= kFewTokens || !chunks_take(device, model_->config)) return 0;
  // Each chunk has more than kTokenByToken tokens or is the last of more than kChunk.
  const std::uint64_t most = static_cast<std::uint64_t>(max_tokens_) / (kTokenByToken + 1) + 1;
  const std::uint64_t bytes = most * (widths.chunk_memories + widths.chunk_slots) * sizeof(float);
  return bytes <= device.facts().storage_range ? static_cast<std::uint32_t>(most) : 0;
}

Status VulkanPlan::allocate_activations(const Widths& widths) {
  const ResidentModel& m = *model_;
  const auto tokens = static_cast<std::uint64_t>(max_tokens_);
  buffers_.x_stride = padded(static_cast<std::uint32_t>(m.config.hidden_size));
  buffers_.inputs_stride = padded(widths.inputs);
  buffers_.projected_stride = padded(widths.projected);
  buffers_.hidden_stride = padded(widths.hidden);
  buffers_.most_chunks = most_chunks(widths);
  buffers_.features_stride =
      padded(buffers_.most_chunks > 0 ? std::max(widths.features, widths.chunk_features)
                                      : widths.features);
  std::uint64_t bytes = 0;
  const std::uint64_t alignment = m.device->facts().storage_alignment;
  const auto section = [&](Range& range, std::uint64_t size) {
    range.offset = bytes;
    range.bytes = size;
    bytes = round_up(bytes + size, alignment);
  };
  allocate_tiles(section, widths);
  const std::uint64_t n_rows = buffers_.tiles.allowed ? round_up(tokens, kTileRows) : tokens;
  const auto floats = [&](Range& range, std::uint32_t stride) {
    section(range, n_rows * stride * sizeof(float));
  };
  floats(buffers_.x, buffers_.x_stride);
  floats(buffers_.inputs, buffers_.inputs_stride);
  floats(buffers_.projected, buffers_.projected_stride);
  floats(buffers_.slots, widths.slots);
  floats(buffers_.hidden, buffers_.tiles.mlp && widths.swiglu_alone ? 0 : buffers_.hidden_stride);
  floats(buffers_.features, buffers_.features_stride);
  buffers_.first_v_stride = padded(widths.first_v);
  floats(buffers_.first_v, buffers_.first_v_stride);
  buffers_.shifted_bytes = round_up(n_rows * buffers_.inputs_stride * sizeof(float), alignment);
  section(buffers_.shifted, widths.shifted * buffers_.shifted_bytes);
  const std::uint64_t memories = buffers_.most_chunks * widths.chunk_memories;
  buffers_.chunk_decays = static_cast<std::uint32_t>(memories);
  section(buffers_.chunks, (memories + buffers_.most_chunks * widths.chunk_slots) * sizeof(float));
  if (buffers_.most_chunks > 0 && widths.slots_in_fours && slots_take_tiles(m)) {
    // A last block of 16 reads past its item's rows.
    const std::uint64_t rows = (n_rows + kChunk) * widths.operands;
    const std::uint64_t operands = rows + buffers_.most_chunks * widths.windows;
    buffers_.slot_window = static_cast<std::uint32_t>(rows / kUnit);
    if (2 * std::max(operands, memories) <= m.device->facts().storage_range) {
      section(buffers_.slot_operands, 2 * operands);
      section(buffers_.slot_memories, 2 * memories);
    }
  }
  RUNNEL_TRY(buffers_.scratch, m.device->create_buffer(bytes, MemoryKind::device, "activations"));
  for (Range* range :
       {&buffers_.x, &buffers_.inputs, &buffers_.projected, &buffers_.slots, &buffers_.hidden,
        &buffers_.features, &buffers_.first_v, &buffers_.shifted, &buffers_.chunks,
        &buffers_.slot_operands, &buffers_.slot_memories, &buffers_.tiles.inputs,
        &buffers_.tiles.hidden, &buffers_.tiles.weights[0], &buffers_.tiles.weights[1]})
    range->buffer = buffers_.scratch.get();
  return m.device->fill_zero(buffers_.scratch);  // the padding of rows stays zero
}

/// What the host writes of a pass.
Status VulkanPlan::allocate_parameters() {
  const ResidentModel& m = *model_;
  const auto n = static_cast<std::uint32_t>(max_tokens_);
  const std::uint64_t alignment = m.device->facts().storage_alignment;
  buffers_.rotation_words = 4 * static_cast<std::uint32_t>(frequencies_.size());
  buffers_.layout.items = kPassHeader + n * kTokenWords;
  buffers_.layout.rows = buffers_.layout.items + n * kItemWords;
  buffers_.layout.chunks = buffers_.layout.rows + kMaxLogitRows;
  buffers_.layout.rotations =
      round_up(buffers_.layout.chunks + buffers_.most_chunks * kChunkWords, 4U);
  std::uint64_t words = buffers_.layout.rotations + std::uint64_t{n} * buffers_.rotation_words;
  for (const LayerSpec& l : m.config.layers) {
    TokenKind kind = TokenKind::of(l);
    const auto found = std::ranges::find_if(
        buffers_.token_kinds, [&](const TokenKind& other) { return kind.like(other); });
    if (found != buffers_.token_kinds.end()) {
      buffers_.tokens_at.push_back(found->at);
      continue;
    }
    if (!buffers_.token_kinds.empty()) {
      kind.at = static_cast<std::uint32_t>(words);
      words += std::uint64_t{n} * kTokenWords;
    }
    buffers_.token_kinds.push_back(kind);
    buffers_.tokens_at.push_back(kind.at);
  }
  RUNNEL_TRY(buffers_.pass,
             m.device->create_buffer(words * 4, MemoryKind::device, "pass parameters"));
  buffers_.host_stride = round_up(words * 4, alignment);
  const bool many = max_tokens_ > kFewTokens;
  RUNNEL_TRY(buffers_.pass_host,
             m.device->create_buffer(buffers_.host_stride * (many ? 1 : 1 + kStepPlaces),
                                     MemoryKind::input, "pass parameters, host"));
  std::memset(buffers_.pass_host.mapped, 0, buffers_.pass_host.bytes);
  return {};
}

Status VulkanPlan::allocate_logits() {
  const ResidentModel& m = *model_;
  const auto n = static_cast<std::uint32_t>(max_tokens_);
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(m.config.vocab_size) * sizeof(float);
  logit_rows_ = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(kMaxLogitBytes / row_bytes, 1, std::min(n, kMaxLogitRows)));
  logit_rows_ = std::bit_floor(logit_rows_);
  RUNNEL_TRY(buffers_.logits,
             m.device->create_buffer(logit_rows_ * row_bytes, MemoryKind::device, "logits"));
  RUNNEL_TRY(buffers_.logits_host, m.device->create_buffer(logit_rows_ * row_bytes + 16,
                                                           MemoryKind::output, "logits, host"));
  std::memset(buffers_.logits_host.mapped, 0, buffers_.logits_host.bytes);
  if (m.step.dispatch && takes_step_ && max_tokens_ <= kFewTokens &&
      m.states->bank(0).bytes <= m.device->facts().storage_range) {
    RUNNEL_TRY(buffers_.act, m.device->create_buffer(4 * m.step.dispatch->act_words,
                                                     MemoryKind::device, "activations of a step"));
    RUNNEL_CHECK_OK(m.device->fill_zero(buffers_.act));
  }
  return {};
}

/// Weights and rows of f16, where the device has matrix units and the buffers fit its bindings.
template <class Section>
void VulkanPlan::allocate_tiles(const Section& section, const Widths& widths) {
  const ResidentModel& m = *model_;
  const std::uint64_t limit = m.device->facts().storage_range;
  TileBuffers& tiles = buffers_.tiles;
  if (max_tokens_ <= kFewTokens || !m.device->facts().cooperative_matrix() ||
      m.config.hidden_size % 16 != 0)
    return;
  std::uint64_t areas[2] = {0, 0};
  tiles.mlp = true;
  const auto bytes = [](const DeviceMatrix& w) {
    return static_cast<std::uint64_t>(w.rows) * tile_units(w.cols) * 16;
  };
  for (const LayerSpec& l : m.config.layers) {
    const DeviceLayer& layer = m.weights->layers[static_cast<std::size_t>(l.index)];
    std::uint64_t projections = 0;
    for (const DeviceProjection& p : layer.projections)
      projections += tiles_take(p.matrix) ? bytes(p.matrix) : 0;
    areas[0] = std::max(areas[0], projections);
    areas[1] = std::max(areas[1], bytes(layer.o_proj));
    if (l.channel_mix != ChannelMix::swiglu) continue;
    std::uint64_t gate_up = 0;
    tiles.mlp = tiles.mlp && l.intermediate_size % 16 == 0 && tiles_take(layer.down_proj);
    for (const DeviceMatrix& w : layer.gate_up) {
      gate_up += bytes(w);
      tiles.mlp = tiles.mlp && tiles_take(w);
    }
    areas[0] = std::max(areas[0], gate_up);
    areas[1] = std::max(areas[1], bytes(layer.down_proj));
  }
  tiles.allowed = std::max(areas[0], areas[1]) <= limit;
  tiles.mlp = tiles.mlp && tiles.allowed;
  if (!tiles.allowed) return;
  const std::uint64_t rows = round_up(static_cast<std::uint64_t>(max_tokens_), kTileRows);
  section(tiles.inputs, rows * tile_units(widths.inputs) * 16);
  section(tiles.hidden, tiles.mlp ? rows * tile_units(widths.hidden) * 16 : 0);
  section(tiles.weights[0], areas[0]);
  section(tiles.weights[1], areas[1]);
}

std::uint32_t VulkanPlan::chunks_of(std::size_t tokens) const {
  if (buffers_.most_chunks == 0 || tokens <= kTokenByToken) return 0;
  return ceil_div(tokens, kChunk);
}

}  // namespace runnel::vulkan
