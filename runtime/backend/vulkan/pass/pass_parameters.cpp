// SPDX-License-Identifier: Apache-2.0
// What the host writes for a pass: items, chunks, slots and the rotations of each token.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "runtime/backend/plan_items.h"
#include "runtime/backend/vulkan/plan.h"

namespace runnel::vulkan {

/// All layers that rotate have one head dim, base and sink distance; a recurrence has none of the last.
void VulkanPlan::prepare_rotations() {
  const LayerSpec* rotating = nullptr;
  for (const LayerSpec& l : model_->config.layers) {
    if (l.rotates() && (rotating == nullptr || rotating->kind() == Mixer::recurrence))
      rotating = &l;
  }
  if (rotating == nullptr) return;
  if (rotating->kind() == Mixer::slots)
    sink_distance_ = static_cast<std::uint64_t>(rotating->slots().sink_distance);
  const std::int32_t dim = rotating->head_k_dim;
  for (int i = 0; i < dim / 2; ++i) {
    const double turn = std::pow(rotating->common().rope_theta, -2.0 * i / dim);
    const double far = turn * static_cast<double>(sink_distance_);
    frequencies_.push_back({.turn = turn,
                            .cos_1 = std::cos(turn),
                            .sin_1 = std::sin(turn),
                            .cos_far = static_cast<float>(std::cos(far)),
                            .sin_far = static_cast<float>(std::sin(far))});
  }
}

/// The angles of consecutive tokens: the first exact, the others turned on in double, whose error
/// over one pass stays far below a float's.
void VulkanPlan::fill_rotations(std::uint64_t position, std::size_t tokens,
                                std::uint32_t* out) const {
  const std::size_t pairs = frequencies_.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    const Frequency& f = frequencies_[i];
    double c = std::cos(static_cast<double>(position) * f.turn);
    double s = std::sin(static_cast<double>(position) * f.turn);
    for (std::size_t t = 0; t < tokens; ++t) {
      const bool is_far = position + t >= sink_distance_;
      const std::array<float, 4> rotation{static_cast<float>(c), static_cast<float>(s),
                                          is_far ? f.cos_far : static_cast<float>(c),
                                          is_far ? f.sin_far : static_cast<float>(s)};
      std::memcpy(out + (t * pairs + i) * 4, rotation.data(), sizeof(rotation));
      const double next = c * f.cos_1 - s * f.sin_1;
      s = s * f.cos_1 + c * f.sin_1;
      c = next;
    }
  }
}

namespace {

/// What a token at a position is to layers of a kind.
std::array<std::uint32_t, kTokenWords> token_words(const TokenKind& kind, TokenId token,
                                                   std::uint64_t position, bool in_chunks) {
  std::uint64_t slot = kNone;
  if (position < kind.sinks)
    slot = position;
  else if (kind.window > 0)
    slot = kind.sinks + (position - kind.sinks) % kind.window;
  if (kind.recurrence) slot = position == 0 ? 1 : 0;  // whether it is the first
  const std::uint64_t in_window =
      position < kind.sinks ? 0 : std::min(kind.window, position - kind.sinks + 1);
  return {static_cast<std::uint32_t>(token), static_cast<std::uint32_t>(slot),
          static_cast<std::uint32_t>(std::min(kind.sinks, position + 1)),
          static_cast<std::uint32_t>(in_window) | (in_chunks ? kLongItem : 0)};
}

}  // namespace

void VulkanPlan::fill_pass(std::span<const PlanItem> items, std::uint32_t* words) const {
  words[kPassTokens] = static_cast<std::uint32_t>(total_tokens(items));
  words[kPassItems] = static_cast<std::uint32_t>(items.size());
  std::uint32_t row = 0, chunk = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto& state = static_cast<const VulkanState&>(*items[i].state);
    const auto rows = static_cast<std::uint32_t>(items[i].tokens.size());
    const std::uint32_t chunks = chunks_of(rows);
    const std::array<std::uint32_t, kItemWords> item{
        row, rows, state.place.index, state.place.bank, chunk, chunks};
    for (std::uint32_t n = 0; n < chunks; ++n, ++chunk) {
      const std::array<std::uint32_t, kChunkWords> chunk_words{
          row + n * kChunk, std::min(kChunk, rows - n * kChunk), static_cast<std::uint32_t>(i), 0};
      std::memcpy(words + buffers_.layout.chunks + chunk * kChunkWords, chunk_words.data(),
                  sizeof(chunk_words));
    }
    std::memcpy(words + buffers_.layout.items + i * kItemWords, item.data(), sizeof(item));
    fill_rotations(state.tokens, items[i].tokens.size(),
                   words + buffers_.layout.rotations + row * buffers_.rotation_words);
    for (std::size_t t = 0; t < items[i].tokens.size(); ++t, ++row) {
      for (const TokenKind& kind : buffers_.token_kinds) {
        const auto token = token_words(kind, items[i].tokens[t], state.tokens + t, chunks > 0);
        std::memcpy(words + kind.at + row * kTokenWords, token.data(), sizeof(token));
      }
    }
  }
  words[kPassChunks] = chunk;
}

}  // namespace runnel::vulkan
