// SPDX-License-Identifier: Apache-2.0
// The gated recurrence of one state, fused with its read. A row of the state is loaded once for
// several tokens: each decays it, adds to it and reads it, in order, and only the last stores it.
// So prefill is the recurrence bit for bit, with a quarter of its loads and stores.
#pragma once

namespace runnel::cpu::RUNNEL_ISA {
namespace {

enum class Fade { none, rows, columns };

/// N registers of columns, T tokens, G query heads of each.
template <int N, int T, int G, Fade kFade>
inline void recurrence_block(const RecurrenceArgs& a, int column, int token) {
  F v[T * N], fade[kFade == Fade::columns ? T * N : 1], acc[T * G * N];
  const float* k[T];
  const float* decay[T];
  const float* q[T];
  unroll<T>([&](auto t) RUNNEL_INLINE_LAMBDA {
    k[t] = a.k + (token + t) * a.k_stride;
    q[t] = a.q + (token + t) * a.q_stride;
    decay[t] = kFade == Fade::none ? nullptr : a.decay + (token + t) * a.decay_stride;
    unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
      v[t * N + i] = load(a.v + (token + t) * a.v_stride + column + i * kLanes);
      if constexpr (kFade == Fade::columns) fade[t * N + i] = load(decay[t] + column + i * kLanes);
    });
  });
  unroll<T * G * N>([&](auto i) RUNNEL_INLINE_LAMBDA { acc[i] = splat(0); });
  float* row = a.state + column;
  for (int r = 0; r < a.rows; ++r, row += a.dim) {
    F s[N];
    unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA { s[i] = load(row + i * kLanes); });
    unroll<T>([&](auto t) RUNNEL_INLINE_LAMBDA {
      const F key = splat(k[t][r]);
      unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
        if constexpr (kFade == Fade::rows) s[i] = mul(splat(decay[t][r]), s[i]);
        if constexpr (kFade == Fade::columns) s[i] = mul(fade[t * N + i], s[i]);
        s[i] = fma(key, v[t * N + i], s[i]);
      });
      unroll<G>([&](auto g) RUNNEL_INLINE_LAMBDA {
        const F query = splat(q[t][g * a.q_head + r]);
        unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
          F& sum = acc[(t * G + g) * N + i];
          sum = fma(s[i], query, sum);
        });
      });
    });
    unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA { store(row + i * kLanes, s[i]); });
  }
  unroll<T * G>([&](auto tg) RUNNEL_INLINE_LAMBDA {
    float* out = a.out + (token + tg / G) * a.out_stride + (tg % G) * a.out_head + column;
    unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA { store(out + i * kLanes, acc[tg * N + i]); });
  });
}

/// What one more query head reads of the state as it is.
template <int N>
inline void recurrence_read(const RecurrenceArgs& a, int column, int token, int head) {
  F acc[N];
  unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA { acc[i] = splat(0); });
  const float* q = a.q + token * a.q_stride + head * a.q_head;
  const float* row = a.state + column;
  for (int r = 0; r < a.rows; ++r, row += a.dim) {
    unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
      acc[i] = fma(load(row + i * kLanes), splat(q[r]), acc[i]);
    });
  }
  float* out = a.out + token * a.out_stride + head * a.out_head + column;
  unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA { store(out + i * kLanes, acc[i]); });
}

/// All columns of tokens [token, token + T).
template <int N, int T, int G, Fade kFade>
inline void recurrence_columns(const RecurrenceArgs& a, int token) {
  int column = a.begin;
  for (; column + N * kLanes <= a.end; column += N * kLanes) {
    recurrence_block<N, T, G, kFade>(a, column, token);
    for (int head = G; head < a.heads; ++head) recurrence_read<N>(a, column, token, head);
  }
  for (; column < a.end; column += kLanes) {
    recurrence_block<1, T, G, kFade>(a, column, token);
    for (int head = G; head < a.heads; ++head) recurrence_read<1>(a, column, token, head);
  }
}

template <Fade kFade>
inline void recurrence_tokens(const RecurrenceArgs& a) {
  constexpr int kOne = kLanes == 8 ? 2 : 4;   // registers of columns for one token …
  constexpr int kMany = kLanes == 8 ? 1 : 2;  // … and for several: T values and T sums each
  int t = 0;
  switch (a.heads) {
    case 1:
      for (; t + 4 <= a.tokens; t += 4) recurrence_columns<kMany, 4, 1, kFade>(a, t);
      for (; t < a.tokens; ++t) recurrence_columns<kOne, 1, 1, kFade>(a, t);
      break;
    case 2:
      for (; t + 2 <= a.tokens; t += 2) recurrence_columns<kMany, 2, 2, kFade>(a, t);
      for (; t < a.tokens; ++t) recurrence_columns<kMany, 1, 2, kFade>(a, t);
      break;
    case 3:
      for (; t < a.tokens; ++t) recurrence_columns<kMany, 1, 3, kFade>(a, t);
      break;
    default:
      for (; t < a.tokens; ++t) recurrence_columns<kMany, 1, 4, kFade>(a, t);
      break;
  }
}

/// N registers of columns, one token of a removal: `u` is c^T S of the state before, and then c'^T S of the state after
/// with the next token's c', so that a token passes over the state once.
template <int N, Fade kFade, bool kNext>
inline void removal_token(const RecurrenceArgs& a, int column, int token, F* u) {
  const float* k = a.k + token * a.k_stride;
  const float* q = a.q + token * a.q_stride;
  const float* b = a.b + token * a.removal_stride;
  const float* c = a.c + (token + 1) * a.removal_stride;
  const float* decay = kFade == Fade::none ? nullptr : a.decay + token * a.decay_stride;
  F v[N], acc[N], next[N];
  unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
    v[i] = load(a.v + token * a.v_stride + column + i * kLanes);
    acc[i] = next[i] = splat(0);
  });
  float* row = a.state + column;
  const int rows = a.rows;
  const ptrdiff_t dim = a.dim;
  for (int r = 0; r < rows; ++r, row += dim) {
    // All loads before the stores: the compiler cannot know that they do not overlap.
    const F key = splat(k[r]), out = splat(b[r]), query = splat(q[r]);
    const F fade = kFade == Fade::rows ? splat(decay[r]) : key;
    const F read = kNext ? splat(c[r]) : key;
    F s[N];
    unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
      s[i] = load(row + i * kLanes);
      if constexpr (kFade == Fade::rows) s[i] = mul(fade, s[i]);
      s[i] = fma(out, u[i], s[i]);
      s[i] = fma(key, v[i], s[i]);
    });
    unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
      store(row + i * kLanes, s[i]);
      acc[i] = fma(s[i], query, acc[i]);
      if constexpr (kNext) next[i] = fma(s[i], read, next[i]);
    });
  }
  unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
    store(a.out + token * a.out_stride + column + i * kLanes, acc[i]);
    u[i] = next[i];
  });
}

/// All tokens of N registers of columns, which stay in the first cache.
template <int N, Fade kFade>
inline void removal_block(const RecurrenceArgs& a, int column) {
  F u[N];
  unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA { u[i] = splat(0); });
  const float* row = a.state + column;
  for (int r = 0; r < a.rows; ++r, row += a.dim) {
    unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
      u[i] = fma(load(row + i * kLanes), splat(a.c[r]), u[i]);
    });
  }
  int t = 0;
  for (; t + 1 < a.tokens; ++t) removal_token<N, kFade, true>(a, column, t, u);
  removal_token<N, kFade, false>(a, column, t, u);
}

template <Fade kFade>
inline void removal(const RecurrenceArgs& a) {
  constexpr int kColumns = kLanes == 8 ? 2 : 4;
  int column = a.begin;
  for (; column + kColumns * kLanes <= a.end; column += kColumns * kLanes)
    removal_block<kColumns, kFade>(a, column);
  for (; column < a.end; column += kLanes) removal_block<1, kFade>(a, column);
}

void recurrence(const RecurrenceArgs& a) {
  if (a.c != nullptr) {
    if (a.decay == nullptr) {
      removal<Fade::none>(a);
    } else {
      removal<Fade::rows>(a);
    }
    return;
  }
  if (a.decay == nullptr) {
    recurrence_tokens<Fade::none>(a);
  } else if (a.on_columns != 0) {
    recurrence_tokens<Fade::columns>(a);
  } else {
    recurrence_tokens<Fade::rows>(a);
  }
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
