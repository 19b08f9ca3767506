// SPDX-License-Identifier: Apache-2.0
// Sampling by one block: a few passes over the vocabulary, which stays in the caches between them.
//
// Nothing is sorted. Where top-k or min-p gives a bound that few tokens reach, these are listed in
// shared memory and the rest of the chain works on the list. Else the k-th logit and the edge of a
// nucleus are found bit by bit from the top: how many values (or how much weight) reach a number with
// this bit set? Each bit is a pass, until what lies between the bounds fits shared memory. Weights are
// integers, so sums have no order; floats meet only rounded operations one at a time (no fused ones),
// as on the host.
#pragma once

#include "cuda/device/sample/list.cuh"
#include "cuda/device/sample/repetitions.cuh"

namespace runnel::cuda {

/// A block of `threads` threads (a multiple of 32, at most 1,024) at work on one Sample. A thread has at most 32 of
/// DRY's distances.
class Sampling {
 public:
  __device__ Sampling(const Sample& s, int threads)
      : s_(s),
        team_(threads, *reinterpret_cast<SampleShared*>(shared_memory())),
        shared_(team_.shared),
        tid_(team_.tid) {}

  __device__ void run() {
    const bool adjusts = s_.biases > 0 || s_.window > 0;
    if (adjusts) adjust();
    float* const adjusted = adjusts ? s_.adjusted : s_.logits;
    const Repetitions before = Repetitions::of(s_);
    if (s_.dry_range > 0) lower_repetitions(before, adjusted);
    const float* const logits = adjusted;
    float largest = -__int_as_float(0x7F800000);
    int at = -1;
    team_.for_each_logit(s_.vocab, logits, [&largest, &at](int i, float logit) {
      const bool larger = logit > largest;  // not a NaN; of equal ones the first
      largest = larger ? logit : largest, at = larger ? i : at;
    });
    const std::uint64_t best = team_.max(at < 0 ? 0 : choice_of(largest, std::uint32_t(at)));
    std::uint32_t token = chosen_token(best);
    const float max = key_logit(std::uint32_t(best >> 32));
    if (best == 0) {
      token = kNoToken;
    } else if (s_.inverse_temperature != 0.0F && !(max > -kLowestLogit)) {
      token = draw(logits, max, largest);
    }
    if (tid_ == 0) finish(token);
    if (s_.dry_range == 0) return;
    if (!adjusts) restore(before, adjusted);
    before.follow(tid_, team_.threads(), next_token(token));
  }

 private:
  using Sum = SampleSum;

  /// How many of this thread's values reach `cut`, and their sum: of values(i), or each as 1.
  template <bool kOnes, class Values>
  static __device__ Sum own_reach(const Values& values, int from, int step, int n,
                                  std::uint32_t cut) {
    std::uint64_t sum = 0;
    std::uint32_t count = 0;
#pragma unroll 8
    for (int i = from; i < n; i += step) {
      const std::uint32_t v = values(i);
      const bool reaches = v >= cut;
      if constexpr (!kOnes) sum += reaches ? v : 0U;
      count += reaches ? 1U : 0U;
    }
    return {sum, count};
  }
  /// The same of all threads.
  template <bool kOnes, class Values>
  __device__ Sum reach(const Values& values, std::uint32_t cut) {
    const Sum own = own_reach<kOnes>(values, tid_, team_.threads(), s_.vocab, cut);
    return team_.sum<kOnes>(own.sum, own.count);
  }

  /// @param bits    values are below 2^bits
  /// @param wanted  at least 1 and at most what all values above 0 come to
  template <bool kOnes, class Values>
  __device__ SampleEdge edge(const Values& values, int bits, std::uint64_t wanted) {
    std::uint32_t low = 0;           // at least `wanted` reach it, less reach low + 2^(bit + 1)
    Sum reached{0, 0}, above{0, 0};  // what reaches the one and the other
    bool narrow = false;             // few values lie between
    int bit = bits - 1;
    for (; bit >= 0 && !narrow; --bit) {
      const std::uint32_t middle = low | (1U << bit);
      const Sum sum = reach<kOnes>(values, middle);
      if (sum.sum >= wanted) {
        low = middle, reached = sum;
      } else {
        above = sum;
      }
      narrow = low != 0 && reached.count - above.count <= kSampleList;
    }
    if (bit < 0) return {low, above.sum, reached.sum};
    // The other bits from a list of the values between.
    if (tid_ == 0) shared_.listed = 0;
    sync_block();
    const std::uint32_t span = 1U << (bit + 1);
    team_.for_each(s_.vocab, values, [this, low, span](int, std::uint32_t v) {
      if (v >= low && v - low < span) shared_.list[atomicAdd(&shared_.listed, 1U)] = v;
    });
    sync_block();
    if (team_.warp == 0) {  // few values: a barrier would cost more than the other warps save
      const int n = int(shared_.listed);
      const std::uint64_t beyond = above.sum;
      for (; bit >= 0; --bit) {
        const std::uint32_t middle = low | (1U << bit);
        const Sum own =
            own_reach<kOnes>([this](int i) { return shared_.list[i]; }, team_.lane, 32, n, middle);
        const std::uint64_t sum =
            beyond + (kOnes ? __reduce_add_sync(~0U, own.count) : SampleTeam::warp_sum(own.sum));
        if (sum >= wanted) {
          low = middle, reached.sum = sum;
        } else {
          above.sum = sum;
        }
      }
      if (team_.lane == 0) shared_.edge = {low, above.sum, reached.sum};
    }
    sync_block();
    return shared_.edge;
  }

  /// The logits after biases and penalties.
  __device__ void adjust() {
    float* const to = s_.adjusted;
    team_.for_each(
        s_.vocab, [this](int i) { return s_.logits[i]; },
        [to](int i, float logit) { to[i] = logit; });
    sync_block();
    for (int i = tid_; i < s_.biases; i += team_.threads()) {
      float& logit = to[s_.bias_ids[i]];
      logit = __fadd_rn(logit, s_.bias_values[i]);
    }
    sync_block();
    if (s_.window == 0) return;
    for (int i = tid_; i < s_.vocab; i += team_.threads()) {
      const int count = s_.counts[i];
      if (count == 0) continue;
      const float logit = to[i];
      const float kept =
          __fmul_rn(logit, logit > 0.0F ? s_.inverse_penalty : s_.repetition_penalty);
      const float often = __fmul_rn(float(count), s_.frequency_penalty);
      to[i] = __fsub_rn(kept, __fadd_rn(s_.presence_penalty, often));
    }
    sync_block();
  }

  // ---- DRY: a thread for each distance to an earlier place ----

  /// Dry::apply.
  __device__ void lower_repetitions(const Repetitions& before, float* logits) {
    before.mark(tid_, team_.threads());
    sync_block();
    before.for_each_marked(tid_, team_.threads(),
                           [&](std::int32_t token, float loss, int distance, int own) {
                             const float logit = logits[token];
                             s_.dry_kept[distance] = logit;
                             logits[token] = __fsub_rn(logit, loss);
                             lowered_ |= 1U << own;
                           });
    sync_block();
  }

  /// Undoes it: every thread what it did. All threads have read the logits.
  __device__ void restore(const Repetitions& before, float* logits) const {
    before.for_each(tid_, team_.threads(),
                    [&](std::int32_t token, std::uint32_t, int distance, int own) {
                      if ((lowered_ >> own & 1U) != 0) logits[token] = s_.dry_kept[distance];
                    });
  }

  /// How far below the largest logit top-n-sigma cuts: as far as can be, if it is off.
  __device__ float sigma_limit(const float* logits) {
    if (!(s_.top_n_sigma > 0.0F)) return __int_as_float(0x7F800000);
    constexpr std::int64_t kOffset = 1 << 22;  // no number of units is below minus this
    constexpr int kLow = 28;                   // bits; what a block sums stays below 2^48
    std::uint64_t sum = 0, squares = 0;
    std::uint32_t count = 0;
    team_.for_each_logit(s_.vocab, logits, [&](int, float logit) {
      if (!(logit > -__int_as_float(0x7F800000))) return;  // NaN as well
      const float near = fminf(fmaxf(logit, -LogitSpread::kFarthest), LogitSpread::kFarthest);
      const float scaled = __fmul_rn(near, LogitSpread::kUnit);
      const int towards_zero = __float2int_rz(scaled);
      const std::int64_t units = towards_zero - (float(towards_zero) > scaled ? 1 : 0);
      sum += std::uint64_t(units + kOffset);
      squares += std::uint64_t(units * units);
      ++count;
    });
    const Sum all = team_.sum<false>(sum, count);
    const std::uint64_t low = team_.sum<false>(squares & ((1U << kLow) - 1), 0).sum;
    const std::uint64_t high = team_.sum<false>(squares >> kLow, 0).sum;
    const LogitSpread spread{.count = all.count,
                             .sum = std::int64_t(all.sum) - std::int64_t(all.count) * kOffset,
                             .squares = (high << kLow) + low};
    return __fmul_rn(s_.top_n_sigma, __fmul_rn(float(deviation(spread)), kDeviationUnit));
  }

  // ---- A draw from a list ----

  __device__ bool lists_by_top_k() const { return s_.top_k > 0 && s_.top_k <= team_.threads(); }

  /// A lower bound of the top_k-th largest logit: at least top_k threads have one that reaches it, and not many more.
  /// The lowest finite number if fewer threads have a logit that can be chosen.
  /// @param largest  of this thread's logits
  __device__ float top_k_bound(float largest) const {
    constexpr std::uint32_t kSlack = 16;           // a few tokens more cost less than further bits
    constexpr std::uint32_t kLowest = 0x00800000;  // logit_key of the lowest finite number
    const std::uint32_t own = logit_key(largest), k = std::uint32_t(s_.top_k);
    const std::uint32_t enough = k + min(k / 4, kSlack);
    std::uint32_t low = 0, reached = ~0U;
    for (int bit = 31; bit >= 0 && reached > enough; --bit) {
      const std::uint32_t middle = low | (1U << bit);
      const std::uint32_t count = sync_block_count(own >= middle);
      if (count >= k) low = middle, reached = count;
    }
    return key_logit(max(low, kLowest));
  }

  /// A draw where top-k leaves few, or min-p without top-p: what may stay is listed. -1: more than the list holds.
  /// @param farthest  below `max` what top-n-sigma leaves
  /// @param largest   of this thread's logits; most threads see from it that they have nothing to list
  __device__ int draw_from_list(const float* logits, float max, float farthest, float largest) {
    ListDraw list(s_, team_);
    if (tid_ == 0) list.clear();
    sync_block();
    const MayStay may_stay{
        .max = max,
        .inverse_temperature = s_.inverse_temperature,
        .bound = lists_by_top_k() ? top_k_bound(largest) : kLowestLogit,
        .least = lists_by_min_p(s_) ? min_p_bound(s_) : -__int_as_float(0x7F800000),
        .farthest = farthest};
    if (may_stay(largest)) {
      team_.for_each_logit(s_.vocab, logits, [&](int i, float logit) {
        if (may_stay(logit)) list.add(logit, i);
      });
    }
    sync_block();
    return list.draw(max, words());
  }

  __device__ std::uint32_t draw(const float* logits, float max, float largest) {
    const int n = s_.vocab;
    const float farthest = sigma_limit(logits);
    if (lists_by_min_p(s_) || lists_by_top_k()) {
      const int drawn = draw_from_list(logits, max, farthest, largest);
      if (drawn >= 0) return std::uint32_t(drawn);
    }
    // What top-k leaves: keys above `key`, and those equal to it up to an index.
    std::uint32_t key = 0;
    int last = n;
    if (s_.top_k > 0) {
      const auto keys = [logits](int i) { return logit_key(logits[i]); };
      const auto k = std::uint64_t(s_.top_k);
      if (reach<true>(keys, 1).sum > k) {
        const SampleEdge e = edge<true>(keys, 32, k);
        key = e.value;
        if (e.reached > k) {
          const auto ties = [logits, key](int i) { return logit_key(logits[i]) == key ? 1U : 0U; };
          last = team_.index_beyond(n, ties, k - e.above - 1);
        }
      }
    }
    std::uint64_t total = 0;
    team_.for_each(
        s_.vocab, [logits](int i) { return logits[i]; },
        [&](int i, float logit) {
          const std::uint32_t own = logit_key(logit);
          const bool stays = own > key || (own == key && i <= last);
          const std::uint32_t w = stays && __fsub_rn(max, logit) <= farthest
                                      ? token_weight(logit, max, s_.inverse_temperature)
                                      : 0U;
          s_.weights[i] = w;
          total += w;
        });
    total = team_.sum<false>(total, 0).sum;  // and shows the weights to all threads
    const std::uint32_t* const weights = s_.weights;
    // What top-p and min-p leave: weights above `cut`, and those equal to it up to an index.
    std::uint32_t cut = 1;
    last = n;
    if (s_.top_p_units > 0) {
      const std::uint64_t wanted = share_of(total, s_.top_p_units);  // from 1 to total
      const SampleEdge e = edge<false>([weights](int i) { return weights[i]; }, 29, wanted);
      cut = e.value;
      const std::uint64_t ties = (wanted - e.above + cut - 1) / cut;
      if (ties < (e.reached - e.above) / cut) {
        last = team_.index_beyond(
            n, [weights, cut](int i) { return weights[i] == cut ? 1U : 0U; }, ties - 1);
      }
    }
    if (s_.min_weight > cut) cut = s_.min_weight, last = n;
    Excluded gone;
    const auto left = [weights, cut, last, &gone](int i) {
      const std::uint32_t w = weights[i];
      const bool stays = w > cut || (w == cut && i <= last);
      return stays && !gone.holds(w, std::uint32_t(i)) ? w : 0U;
    };
    total = reach<false>(left, 1).sum;
    if (s_.xtc_probability > 0.0F && happens(s_.xtc_probability, words()[1])) {
      gone = top_choices(
          s_, team_, left, [](int i) { return std::uint32_t(i); }, n, total);
      total = reach<false>(left, 1).sum;
    }
    return std::uint32_t(team_.index_beyond(n, left, draw_below(total, words()[0])));
  }

  /// Thread 0: what the next step and the host need.
  __device__ void finish(std::uint32_t token) {
    hand_on(s_.next, token);
    if (s_.window > 0) {
      const int at = *s_.recent_at, place = at % s_.window;
      if (at >= s_.window) s_.counts[s_.recent[place]] -= 1;
      s_.recent[place] = next_token(token);
      s_.counts[next_token(token)] += 1;
      *s_.recent_at = at + 1 < 2 * s_.window ? at + 1 : s_.window;
    }
    store_host(s_.next.drawn, drawn_word(s_.next, token));
  }

  __device__ std::array<std::uint32_t, 4> words() const {
    return words_of(s_, s_.next.segment->position + 1);
  }

  const Sample& s_;
  SampleTeam team_;
  SampleShared& shared_;
  const int tid_;
  std::uint32_t lowered_ =
      0;  // a bit for each of this thread's distances whose token it made less likely
};

}  // namespace runnel::cuda
