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

#include "cuda/device/choice.cuh"
#include "runtime/sampling/exact_cuts.h"
#include "runtime/sampling/philox.h"

namespace runnel::cuda {

inline constexpr int kSampleList = 2048;  // values between the bounds that shared memory holds
inline constexpr int kSampleChoices = kSampleList / 2;  // tokens in their place

/// Where a set of the largest values ends.
struct SampleEdge {
  std::uint32_t value;    // the largest that at least `wanted` reach
  std::uint64_t above;    // what the values above it come to
  std::uint64_t reached;  // the same with those equal to it
};

struct SampleShared {
  union {
    std::uint32_t list[kSampleList];
    std::uint64_t choices[kSampleChoices];  // of the tokens listed, as choice_of() makes them
  };
  std::uint32_t weights[kSampleChoices];  // of the same
  std::uint64_t sums[2][32];
  std::uint32_t counts[2][32];
  SampleEdge edge;
  std::uint32_t listed;
  int index;
};

/// A block of `threads` threads (a multiple of 32, at most 1,024) at work on one Sample. A thread has at most 32 of
/// DRY's distances.
class Sampling {
 public:
  __device__ Sampling(const Sample& s, int threads)
      : s_(s),
        threads_(threads),
        tid_(thread_index()),
        lane_(tid_ % 32),
        warp_(tid_ / 32),
        shared_(*reinterpret_cast<SampleShared*>(shared_memory())) {}

  __device__ void run() {
    const bool adjusts = s_.biases > 0 || s_.window > 0;
    if (adjusts) adjust();
    float* const adjusted = adjusts ? s_.adjusted : s_.logits;
    if (s_.dry_range > 0) lower_repetitions(adjusted);
    const float* const logits = adjusted;
    float largest = -__int_as_float(0x7F800000);
    int at = -1;
    for_each_logit(logits, [&largest, &at](int i, float logit) {
      const bool larger = logit > largest;  // not a NaN; of equal ones the first
      largest = larger ? logit : largest, at = larger ? i : at;
    });
    const std::uint64_t best = block_max(at < 0 ? 0 : choice_of(largest, std::uint32_t(at)));
    std::uint32_t token = chosen_token(best);
    const float max = key_logit(std::uint32_t(best >> 32));
    if (best == 0) {
      token = kNoToken;
    } else if (s_.inverse_temperature != 0.0F && !(max > 3.4028235e38F)) {
      token = draw(logits, max, largest);
    }
    if (tid_ == 0) finish(token);
    if (s_.dry_range == 0) return;
    if (!adjusts) restore(adjusted);
    follow(next_token(token));
  }

 private:
  struct Sum {
    std::uint64_t sum;
    std::uint32_t count;
  };

  static __device__ float key_logit(std::uint32_t key) {
    return __uint_as_float((key >> 31) != 0 ? key & 0x7FFFFFFFU : ~key);
  }

  /// use(i, load(i)) for each index of the vocabulary: eight loads of a thread under way together.
  template <class Load, class Use>
  __device__ void for_each(const Load& load, const Use& use) const {
    constexpr int kTogether = 8;
    for (int first = tid_; first < s_.vocab; first += kTogether * threads_) {
      decltype(load(0)) loaded[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int i = first + j * threads_;
        if (i < s_.vocab) loaded[j] = load(i);
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int i = first + j * threads_;
        if (i < s_.vocab) use(i, loaded[j]);
      }
    }
  }

  /// use(i, logits[i]) for each index, which rises for a thread; vectors of four where the vocabulary has whole ones.
  template <class Use>
  __device__ void for_each_logit(const float* logits, const Use& use) const {
    if (s_.vocab % 4 != 0) {
      for_each([logits](int i) { return logits[i]; }, use);
      return;
    }
    constexpr int kTogether = 8;
    const int vectors = s_.vocab / 4;
    const auto* const from = reinterpret_cast<const float4*>(logits);
#pragma unroll 1
    for (int first = tid_; first < vectors; first += kTogether * threads_) {
      float4 loaded[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int i = first + j * threads_;
        if (i < vectors) loaded[j] = from[i];
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int i = first + j * threads_;
        if (i >= vectors) continue;
        use(4 * i, loaded[j].x), use(4 * i + 1, loaded[j].y);
        use(4 * i + 2, loaded[j].z), use(4 * i + 3, loaded[j].w);
      }
    }
  }

  static __device__ std::uint64_t shuffle(std::uint64_t v, int other) {
    const std::uint32_t low = __shfl_xor_sync(~0U, std::uint32_t(v), other);
    const std::uint32_t high = __shfl_xor_sync(~0U, std::uint32_t(v >> 32), other);
    return (std::uint64_t(high) << 32) | low;
  }

  __device__ std::uint64_t block_max(std::uint64_t v) {
    for (int o = 16; o > 0; o >>= 1) {
      const std::uint64_t other = shuffle(v, o);
      v = other > v ? other : v;
    }
    turn_ ^= 1;
    if (lane_ == 0) shared_.sums[turn_][warp_] = v;
    sync_block();
    for (int w = 0; w < threads_ / 32; ++w) {
      const std::uint64_t other = shared_.sums[turn_][w];
      v = other > v ? other : v;
    }
    return v;
  }

  /// Sum over the warp.
  /// @param v  below 2^48 in all
  static __device__ std::uint64_t warp_sum(std::uint64_t v) {
    const std::uint32_t low = __reduce_add_sync(~0U, std::uint32_t(v) & 0xFFFFFFU);
    const std::uint32_t high = __reduce_add_sync(~0U, std::uint32_t(v >> 24));
    return (std::uint64_t(high) << 24) + low;
  }

  /// Sums over the block, the same in every thread. Two sets of places: one barrier is enough.
  template <bool kOnes>
  __device__ Sum block_sum(std::uint64_t sum, std::uint32_t count) {
    const int warps = threads_ / 32;
    turn_ ^= 1;
    count = __reduce_add_sync(~0U, count);
    if constexpr (!kOnes) sum = warp_sum(sum);
    if (lane_ == 0) {
      shared_.counts[turn_][warp_] = count;
      if constexpr (!kOnes) shared_.sums[turn_][warp_] = sum;
    }
    sync_block();
    count = __reduce_add_sync(~0U, lane_ < warps ? shared_.counts[turn_][lane_] : 0U);
    if constexpr (kOnes) return {count, count};
    return {warp_sum(lane_ < warps ? shared_.sums[turn_][lane_] : 0), count};
  }

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
    const Sum own = own_reach<kOnes>(values, tid_, threads_, s_.vocab, cut);
    return block_sum<kOnes>(own.sum, own.count);
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
    for_each(values, [this, low, span](int, std::uint32_t v) {
      if (v >= low && v - low < span) shared_.list[atomicAdd(&shared_.listed, 1U)] = v;
    });
    sync_block();
    if (warp_ == 0) {  // few values: a barrier would cost more than the other warps save
      const int n = int(shared_.listed);
      const std::uint64_t beyond = above.sum;
      for (; bit >= 0; --bit) {
        const std::uint32_t middle = low | (1U << bit);
        const Sum own =
            own_reach<kOnes>([this](int i) { return shared_.list[i]; }, lane_, 32, n, middle);
        const std::uint64_t sum =
            beyond + (kOnes ? __reduce_add_sync(~0U, own.count) : warp_sum(own.sum));
        if (sum >= wanted) {
          low = middle, reached.sum = sum;
        } else {
          above.sum = sum;
        }
      }
      if (lane_ == 0) shared_.edge = {low, above.sum, reached.sum};
    }
    sync_block();
    return shared_.edge;
  }

  /// The first index at which the values up to it come to more than `target`, which all together do.
  template <class Values>
  __device__ int index_beyond(const Values& values, std::uint64_t target) {
    const int warps = threads_ / 32;
    const int own = (s_.vocab + 32 * warps - 1) / (32 * warps) * 32;  // of a warp
    const int begin = warp_ * own, end = min(begin + own, s_.vocab);
    std::uint64_t sum = 0;
#pragma unroll 8
    for (int i = begin + lane_; i < end; i += 32) sum += values(i);
    sum = warp_sum(sum);
    turn_ ^= 1;
    if (lane_ == 0) shared_.sums[turn_][warp_] = sum;
    sync_block();
    for (int w = 0; w < warp_; ++w) target -= shared_.sums[turn_][w];  // wraps for warps after it
    if (target < sum) {
      int i = begin;
      std::uint32_t v = 0;
#pragma unroll 1
      for (int rows = 8; rows > 0; rows -= 7) {  // eight rows of lanes at a time, then one
        while (true) {
          std::uint64_t own_sum = 0;
          for (int r = 0; r < rows; ++r) {
            const int at = i + r * 32 + lane_;
            v = at < end ? values(at) : 0U;
            own_sum += v;
          }
          const std::uint64_t here = warp_sum(own_sum);
          if (target < here) break;
          target -= here;
          i += 32 * rows;
        }
      }
      int found = 0;
      while (true) {
        const std::uint32_t other = __shfl_sync(~0U, v, found);
        if (target < other) break;
        target -= other;
        ++found;
      }
      if (lane_ == 0) shared_.index = i + found;
    }
    sync_block();
    return shared_.index;
  }

  /// The logits after biases and penalties.
  __device__ void adjust() {
    float* const to = s_.adjusted;
    for_each([this](int i) { return s_.logits[i]; }, [to](int i, float logit) { to[i] = logit; });
    sync_block();
    for (int i = tid_; i < s_.biases; i += threads_) {
      float& logit = to[s_.bias_ids[i]];
      logit = __fadd_rn(logit, s_.bias_values[i]);
    }
    sync_block();
    if (s_.window == 0) return;
    for (int i = tid_; i < s_.vocab; i += threads_) {
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

  __device__ bool is_breaker(std::int32_t token) const {
    return (s_.dry_breakers[token / 32] >> (token % 32) & 1U) != 0;
  }
  /// The token generated `distance` places before the next one.
  __device__ std::int32_t dry_token(int distance) const {
    return s_.dry_recent[(dry_at_ - distance) % s_.dry_range];
  }
  /// use(token, repetition it would extend, distance, number among this thread's distances) for each that costs.
  template <class Use>
  __device__ void for_each_repetition(const Use& use) const {
    const int seen = min(dry_at_, s_.dry_range);
    for (int i = 1 + tid_, own = 0; i < seen; i += threads_, ++own) {
      const std::uint32_t length = min(s_.dry_lengths[i], std::uint32_t(seen - i));
      if (length < s_.dry_allowed) continue;
      const std::int32_t token = dry_token(i);
      if (!is_breaker(token)) use(token, length, i, own);
    }
  }

  /// Dry::apply.
  __device__ void lower_repetitions(float* logits) {
    dry_at_ = *s_.dry_recent_at;
    for_each_repetition([this](std::int32_t token, std::uint32_t length, int, int) {
      atomicMax(s_.dry_longest + token, length);
    });
    sync_block();
    for_each_repetition([&](std::int32_t token, std::uint32_t, int distance, int own) {
      const std::uint32_t longest = atomicExch(s_.dry_longest + token, 0U);
      if (longest == 0) return;  // another thread's
      const float logit = logits[token];
      s_.dry_kept[distance] = logit;
      logits[token] = __fsub_rn(logit, s_.dry_losses[longest]);
      lowered_ |= 1U << own;
    });
    sync_block();
  }

  /// Undoes it: every thread what it did. All threads have read the logits.
  __device__ void restore(float* logits) const {
    for_each_repetition([&](std::int32_t token, std::uint32_t, int distance, int own) {
      if ((lowered_ >> own & 1U) != 0) logits[token] = s_.dry_kept[distance];
    });
  }

  /// The lengths after a further token, which goes into the ring.
  __device__ void follow(std::int32_t token) {
    const bool breaks = is_breaker(token);
    const int last = min(dry_at_, s_.dry_range - 1);
    for (int i = 1 + tid_; i <= last; i += threads_) {
      std::uint32_t& length = s_.dry_lengths[i];
      length = !breaks && dry_token(i) == token ? length + 1 : 0U;
    }
    if (tid_ != 0) return;
    s_.dry_recent[dry_at_ % s_.dry_range] = token;  // no distance of above leads there
    *s_.dry_recent_at = dry_at_ + 1 < 2 * s_.dry_range ? dry_at_ + 1 : s_.dry_range;
  }

  /// portable_exp and token_weights of runtime/sampling/token_weights.cpp.
  __device__ std::uint32_t weight(float logit, float max) const {
    constexpr float kNothing = -20.5F, kRound = 12582912.0F;
    const float scaled = __fmul_rn(__fsub_rn(logit, max), s_.inverse_temperature);
    if (!(scaled > kNothing)) return 0;
    const float n = __fsub_rn(__fadd_rn(__fmul_rn(scaled, 1.44269504F), kRound), kRound);
    const float r =
        __fsub_rn(__fsub_rn(scaled, __fmul_rn(n, 0.693359375F)), __fmul_rn(n, -2.12194440e-4F));
    float p = __fadd_rn(__fmul_rn(r, 1.0F / 5040.0F), 1.0F / 720.0F);
    p = __fadd_rn(__fmul_rn(p, r), 1.0F / 120.0F);
    p = __fadd_rn(__fmul_rn(p, r), 1.0F / 24.0F);
    p = __fadd_rn(__fmul_rn(p, r), 1.0F / 6.0F);
    p = __fadd_rn(__fmul_rn(p, r), 0.5F);
    p = __fadd_rn(__fmul_rn(p, r), 1.0F);
    p = __fadd_rn(__fmul_rn(p, r), 1.0F);
    const float power = __int_as_float((__float2int_rz(n) + 127) << 23);
    const float one = 268435456.0F;  // kWeightOne
    return std::uint32_t(__float2int_rz(__fadd_rn(__fmul_rn(__fmul_rn(p, power), one), 0.5F)));
  }

  /// How far below the largest logit top-n-sigma cuts: as far as can be, if it is off.
  __device__ float sigma_limit(const float* logits) {
    if (!(s_.top_n_sigma > 0.0F)) return __int_as_float(0x7F800000);
    constexpr std::int64_t kOffset = 1 << 22;  // no number of units is below minus this
    constexpr int kLow = 28;                   // bits; what a block sums stays below 2^48
    std::uint64_t sum = 0, squares = 0;
    std::uint32_t count = 0;
    for_each_logit(logits, [&](int, float logit) {
      if (!(logit > -__int_as_float(0x7F800000))) return;  // NaN as well
      const float near = fminf(fmaxf(logit, -LogitSpread::kFarthest), LogitSpread::kFarthest);
      const float scaled = __fmul_rn(near, LogitSpread::kUnit);
      const int towards_zero = __float2int_rz(scaled);
      const std::int64_t units = towards_zero - (float(towards_zero) > scaled ? 1 : 0);
      sum += std::uint64_t(units + kOffset);
      squares += std::uint64_t(units * units);
      ++count;
    });
    const Sum all = block_sum<false>(sum, count);
    const std::uint64_t low = block_sum<false>(squares & ((1U << kLow) - 1), 0).sum;
    const std::uint64_t high = block_sum<false>(squares >> kLow, 0).sum;
    const LogitSpread spread{.count = all.count,
                             .sum = std::int64_t(all.sum) - std::int64_t(all.count) * kOffset,
                             .squares = (high << kLow) + low};
    return __fmul_rn(s_.top_n_sigma, __fmul_rn(float(deviation(spread)), kDeviationUnit));
  }

  /// What XTC takes away: what weighs `least` or more, but for the id `kept`.
  struct Excluded {
    std::uint64_t least = ~std::uint64_t(0);
    std::uint32_t kept = 0;
    __device__ bool holds(std::uint32_t weight, std::uint32_t id) const {
      return weight >= least && id != kept;
    }
  };
  /// @param weights  (i) for i in [0, n), `total` in all
  /// @param ids      (i)
  template <class Weights, class Ids>
  __device__ Excluded top_choices(const Weights& weights, const Ids& ids, int n,
                                  std::uint64_t total) {
    const std::uint64_t least = top_choice_weight(total, s_.xtc_units);
    std::uint32_t count = 0;
    std::uint64_t last = 0;  // the lightest of the heaviest; of equal ones the highest id
    for (int i = tid_; i < n; i += threads_) {
      const std::uint32_t w = weights(i);
      if (w < least) continue;
      const std::uint64_t key = std::uint64_t(~w) << 32 | ids(i);
      last = key > last ? key : last;
      ++count;
    }
    count = block_sum<true>(count, count).count;
    if (count < 2) return {};
    return {.least = least, .kept = std::uint32_t(block_max(last))};
  }
  __device__ bool excludes() const {
    return s_.xtc_probability > 0.0F && happens(s_.xtc_probability, words()[1]);
  }
  __device__ std::array<std::uint32_t, 4> words() const {
    return sampling_words(s_.seed, s_.next.segment->position + 1);
  }

  // ---- A draw from a list ----

  __device__ bool lists_by_min_p() const { return s_.min_weight > 1 && s_.top_p_units == 0; }
  __device__ bool lists_by_top_k() const { return s_.top_k > 0 && s_.top_k <= threads_; }

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
    // However the exponential is rounded, what lies below weighs less than min_weight.
    constexpr float kMargin = 0.01F, kPerOne = 1.0F / 268435456.0F;  // kWeightOne
    const float least = lists_by_min_p() ? __logf((float(s_.min_weight) - 0.5F) * kPerOne) - kMargin
                                         : -__int_as_float(0x7F800000);
    if (tid_ == 0) shared_.listed = 0;
    sync_block();
    const float bound = lists_by_top_k() ? top_k_bound(largest) : -3.4028235e38F;  // any finite
    const auto may_stay = [&](float logit) {  // not NaN or -inf
      const float below = __fsub_rn(logit, max);
      return logit >= bound && __fmul_rn(below, s_.inverse_temperature) >= least &&
             -below <= farthest;
    };
    if (may_stay(largest)) {
      for_each_logit(logits, [&](int i, float logit) {
        if (!may_stay(logit)) return;
        const std::uint32_t place = atomicAdd(&shared_.listed, 1U);
        if (place >= kSampleChoices) return;
        shared_.choices[place] = choice_of_key(ordinary_key(logit), std::uint32_t(i));
      });
    }
    sync_block();
    const std::uint32_t n = shared_.listed;
    if (n > kSampleChoices) return -1;
    std::uint64_t total = weigh_list(n, max);
    if (s_.top_p_units > 0) total = cut_list(n, share_of(total, s_.top_p_units));
    if (excludes()) total = exclude_from_list(n, total);
    const std::uint64_t target = draw_below(total, words()[0]);
    for_each_weight(n, [&](std::uint32_t own, std::uint32_t w) {
      const std::uint32_t id = listed_token(own);
      std::uint64_t before = 0;  // of those that come first in the vocabulary
#pragma unroll 4
      for (std::uint32_t i = 0; i < n; ++i)
        before += listed_token(i) < id ? shared_.weights[i] : 0U;
      if (target >= before && target - before < w) shared_.index = int(id);
    });
    sync_block();
    return shared_.index;
  }

  __device__ std::uint32_t listed_token(std::uint32_t i) const {
    return chosen_token(shared_.choices[i]);
  }
  /// use(i, weight) for each of this thread's places in the list of n that weighs anything.
  template <class Use>
  __device__ void for_each_weight(std::uint32_t n, const Use& use) const {
    for (auto i = std::uint32_t(tid_); i < n; i += std::uint32_t(threads_)) {
      if (const std::uint32_t w = shared_.weights[i]; w > 0) use(i, w);
    }
  }

  /// Weighs the list: what top-k takes away weighs nothing, nor, without top-p, what min-p does.
  /// @return the total
  __device__ std::uint64_t weigh_list(std::uint32_t n, float max) {
    const std::uint32_t k = s_.top_k > 0 ? std::uint32_t(s_.top_k) : n;
    const std::uint32_t least = s_.top_p_units > 0 ? 1U : s_.min_weight;
    std::uint64_t total = 0;
    for (auto own = std::uint32_t(tid_); own < n; own += std::uint32_t(threads_)) {
      const std::uint64_t choice = shared_.choices[own];
      std::uint32_t better = 0;
      if (n > k) {
#pragma unroll 4
        for (std::uint32_t i = 0; i < n; ++i) better += shared_.choices[i] > choice ? 1U : 0U;
      }
      std::uint32_t w = better < k ? weight(key_logit(std::uint32_t(choice >> 32)), max) : 0U;
      if (w < least) w = 0;
      shared_.weights[own] = w;
      total += w;
    }
    return block_sum<false>(total, 0).sum;  // and shows the weights to all threads
  }

  /// Leaves what top-p and min-p do.
  /// @param wanted  from 1 to the total
  /// @return the total of what is left
  __device__ std::uint64_t cut_list(std::uint32_t n, std::uint64_t wanted) {
    for_each_weight(n, [&](std::uint32_t own, std::uint32_t w) {
      const std::uint32_t id = listed_token(own);
      std::uint64_t before = 0;  // of heavier ones, and of equal ones with lower ids
#pragma unroll 4
      for (std::uint32_t i = 0; i < n; ++i) {
        const std::uint32_t other = shared_.weights[i];
        before += other > w || (other == w && listed_token(i) < id) ? other : 0U;
      }
      if (before < wanted && wanted - before <= w) {  // the last that is needed
        shared_.edge.value = w;
        shared_.index = int(id);
      }
    });
    sync_block();
    const std::uint32_t cut = shared_.edge.value, last = std::uint32_t(shared_.index);
    std::uint64_t total = 0;
    for_each_weight(n, [&](std::uint32_t own, std::uint32_t w) {
      const bool stays = w >= s_.min_weight && (w > cut || (w == cut && listed_token(own) <= last));
      if (!stays) shared_.weights[own] = 0;
      total += stays ? w : 0U;
    });
    return block_sum<false>(total, 0).sum;
  }

  /// @param total  of the list
  /// @return the total of what is left
  __device__ std::uint64_t exclude_from_list(std::uint32_t n, std::uint64_t total) {
    const Excluded gone =
        top_choices([this](int i) { return shared_.weights[i]; },
                    [this](int i) { return listed_token(std::uint32_t(i)); }, int(n), total);
    // Each thread has read no weights but its own.
    total = 0;
    for_each_weight(n, [&](std::uint32_t own, std::uint32_t w) {
      const bool goes = gone.holds(w, listed_token(own));
      if (goes) shared_.weights[own] = 0;
      total += goes ? 0U : w;
    });
    return block_sum<false>(total, 0).sum;
  }

  __device__ std::uint32_t draw(const float* logits, float max, float largest) {
    const int n = s_.vocab;
    const float farthest = sigma_limit(logits);
    if (lists_by_min_p() || lists_by_top_k()) {
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
          last = index_beyond(ties, k - e.above - 1);
        }
      }
    }
    std::uint64_t total = 0;
    for_each([logits](int i) { return logits[i]; },
             [&](int i, float logit) {
               const std::uint32_t own = logit_key(logit);
               const bool stays = own > key || (own == key && i <= last);
               const std::uint32_t w =
                   stays && __fsub_rn(max, logit) <= farthest ? weight(logit, max) : 0U;
               s_.weights[i] = w;
               total += w;
             });
    total = block_sum<false>(total, 0).sum;  // and shows the weights to all threads
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
        last =
            index_beyond([weights, cut](int i) { return weights[i] == cut ? 1U : 0U; }, ties - 1);
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
    if (excludes()) {
      gone = top_choices(
          left, [](int i) { return std::uint32_t(i); }, n, total);
      total = reach<false>(left, 1).sum;
    }
    return std::uint32_t(index_beyond(left, draw_below(total, words()[0])));
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

  const Sample& s_;
  const int threads_, tid_, lane_, warp_;
  SampleShared& shared_;
  int turn_ = 0;
  int dry_at_ = 0;  // of the ring, before this token
  // A bit for each of this thread's distances whose token it made less likely.
  std::uint32_t lowered_ = 0;
};

}  // namespace runnel::cuda
