// SPDX-License-Identifier: Apache-2.0
// Draws the next token from what each block of the head kept of its rows (BlockChoices), by one block.
//
// Few blocks have a logit that reaches what min-p leaves, and only their rows are read. A logit that DRY lowers may have
// been the largest of its block, whose rows then are compared again.
#pragma once

#include "cuda/device/sample/list.cuh"
#include "cuda/device/sample/repetitions.cuh"

namespace runnel::cuda {

struct SampleBlocksShared {
  SampleShared sample;
  std::uint64_t best[kMostChoices];  // of each block
  struct Lowered {
    std::int32_t token;
    float loss;
  } lowered[kSampleDistances];
  std::uint32_t num_lowered, num_changed, num_listed;
  std::uint16_t changed[kMostChoices], listed[kMostChoices];  // blocks
};

class SampleBlocks {
 public:
  __device__ SampleBlocks(const Sample& s, const BlockChoices& from, int threads)
      : s_(s),
        from_(from),
        shared_(*reinterpret_cast<SampleBlocksShared*>(shared_memory())),
        team_(threads, shared_.sample),
        tid_(team_.tid),
        threads_(threads) {}

  __device__ void run() {
    const Repetitions before = Repetitions::of(s_);
    if (tid_ == 0) shared_.num_lowered = shared_.num_changed = shared_.num_listed = 0;
    sync_block();
    if (s_.dry_range > 0) find_lowered(before);
    const std::array<std::uint32_t, 4> words = words_of(s_, s_.next.segment->position + 1);
    wait_for_kernels();
    for (int b = tid_; b < from_.blocks; b += threads_) shared_.best[b] = from_.best[b];
    if (s_.dry_range > 0) lower();
    sync_block();
    if (s_.dry_range > 0) compare_again();
    std::uint64_t best = 0;
    for (int b = tid_; b < from_.blocks; b += threads_)
      best = shared_.best[b] > best ? shared_.best[b] : best;
    best = team_.max(best);
    const float max = key_logit(std::uint32_t(best >> 32));
    std::uint32_t token = best == 0 ? kNoToken : chosen_token(best);
    if (best != 0 && s_.inverse_temperature != 0.0F && !(max > -kLowestLogit))
      token = draw(max, words);
    if (tid_ == 0) {
      store_host(s_.next.drawn, drawn_word(s_.next, token));
      hand_on(s_.next, token);
    }
    if (s_.dry_range == 0) return;
    for (std::uint32_t i = tid_; i < shared_.num_lowered; i += threads_)
      s_.logits[shared_.lowered[i].token] = s_.dry_kept[i];
    before.follow(tid_, threads_, next_token(token));
  }

 private:
  /// Lists what DRY takes from which tokens.
  __device__ void find_lowered(const Repetitions& before) {
    before.mark(tid_, threads_);
    sync_block();
    before.for_each_marked(tid_, threads_, [this](std::int32_t token, float loss, int, int) {
      shared_.lowered[atomicAdd(&shared_.num_lowered, 1U)] = {token, loss};
    });
    sync_block();
  }
  /// Lowers their logits, until the token is drawn.
  __device__ void lower() {
    for (std::uint32_t i = tid_; i < shared_.num_lowered; i += threads_) {
      float& logit = s_.logits[shared_.lowered[i].token];
      s_.dry_kept[i] = logit;
      logit = __fsub_rn(logit, shared_.lowered[i].loss);
    }
  }
  /// The largest logits of the blocks whose largest was lowered.
  __device__ void compare_again() {
    for (std::uint32_t i = tid_; i < shared_.num_lowered; i += threads_) {
      const std::int32_t token = shared_.lowered[i].token;
      const int block = from_.block_of(token);
      const std::uint64_t best = shared_.best[block];
      if (best != 0 && chosen_token(best) == std::uint32_t(token))
        shared_.changed[atomicAdd(&shared_.num_changed, 1U)] = std::uint16_t(block);
    }
    sync_block();
    for (std::uint32_t i = team_.warp; i < shared_.num_changed; i += threads_ / 32) {
      const int block = shared_.changed[i], end = from_.end(block, s_.vocab);
      std::uint64_t best = 0;
#pragma unroll 4
      for (int row = from_.begin(block) + team_.lane; row < end; row += 32) {
        const std::uint64_t other = choice_of(s_.logits[row], std::uint32_t(row));
        best = other > best ? other : best;
      }
      best = warp_choice(best);
      if (team_.lane == 0) shared_.best[block] = best;
    }
    sync_block();
  }

  /// Among the tokens that min-p leaves.
  __device__ std::uint32_t draw(float max, const std::array<std::uint32_t, 4>& words) {
    const MayStay may_stay{.max = max,
                           .inverse_temperature = s_.inverse_temperature,
                           .bound = kLowestLogit,
                           .least = min_p_bound(s_),
                           .farthest = __int_as_float(0x7F800000)};
    ListDraw list(s_, team_);
    if (tid_ == 0) list.clear();
    for (int b = tid_; b < from_.blocks; b += threads_) {
      const std::uint64_t best = shared_.best[b];
      if (best != 0 && may_stay(key_logit(std::uint32_t(best >> 32))))
        shared_.listed[atomicAdd(&shared_.num_listed, 1U)] = std::uint16_t(b);
    }
    sync_block();
    const int most = from_.most_rows();
    const auto row_of = [this, most](int i) {
      const int block = shared_.listed[i / most], row = from_.begin(block) + i % most;
      return row < from_.end(block, s_.vocab) ? row : -1;
    };
    team_.for_each(
        int(shared_.num_listed) * most,
        [this, &row_of](int i) {
          const int row = row_of(i);
          return row >= 0 ? s_.logits[row] : -__int_as_float(0x7F800000);
        },
        [&](int i, float logit) {
          if (may_stay(logit)) list.add(logit, row_of(i));
        });
    sync_block();
    const int drawn = list.draw(max, words);
    return std::uint32_t(drawn >= 0 ? drawn : draw_from_all(may_stay, words[0]));
  }

  /// Where more may come than the list holds.
  __device__ int draw_from_all(const MayStay& may_stay, std::uint32_t word) {
    std::uint64_t total = 0;
    team_.for_each_logit(s_.vocab, s_.logits, [&](int i, float logit) {
      std::uint32_t w =
          may_stay(logit) ? token_weight(logit, may_stay.max, s_.inverse_temperature) : 0U;
      if (w < s_.min_weight) w = 0;
      s_.weights[i] = w;
      total += w;
    });
    total = team_.sum<false>(total, 0).sum;  // and shows the weights to all threads
    const std::uint32_t* const weights = s_.weights;
    return team_.index_beyond(
        s_.vocab, [weights](int i) { return weights[i]; }, draw_below(total, word));
  }

  const Sample& s_;
  const BlockChoices& from_;
  SampleBlocksShared& shared_;
  SampleTeam team_;
  const int tid_, threads_;
};

}  // namespace runnel::cuda
