// SPDX-License-Identifier: Apache-2.0
// Inputs of the stages of shift_step: x with its norm, what lies between it and the token before, and products of low
// rank with such an input, which stays f32.

// Vectors of x of a thread: this many, of an array of 2.
const uint kRounds = (D / 4 + THREADS - 1) / THREADS;

shared vec2 warp_moments[2][kWarps];  // mean, squares around it
uint moments_side = 0;

uint vectors_of(uint warp) {
  uint n = 0;
  [[unroll]] for (uint r = 0; r < kRounds; ++r) {
    const uint first = r * THREADS + warp * kLanes;
    n += first < D / 4 ? min(D / 4 - first, kLanes) : 0;
  }
  return n;
}

/// v <- norm(v) of D channels; all threads.
void norm(inout vec4 v[2], const vec4 weight[2], const vec4 bias[2], float eps) {
  const uint warp = WARP;
  float mean = 0.0;
  if (CENTRED != 0) {
    precise float sum = 0.0;
    [[unroll]] for (uint r = 0; r < kRounds; ++r) sum += (v[r].x + v[r].y) + (v[r].z + v[r].w);
    mean = lanes_sum(sum) / float(max(4 * vectors_of(warp), 1));
  }
  precise float squares = 0.0;
  [[unroll]] for (uint r = 0; r < kRounds; ++r) {
    if (r * THREADS + THREAD < D / 4) {
      const vec4 away = v[r] - mean;
      [[unroll]] for (uint e = 0; e < 4; ++e) squares = fma(away[e], away[e], squares);
    }
  }
  squares = lanes_sum(squares);
  if (LANE == 0) warp_moments[moments_side][warp] = vec2(mean, squares);
  barrier();
  precise float total = 0.0, all = 0.0;
  if (CENTRED != 0) {
    for (uint w = 0; w < kWarps; ++w) total = fma(warp_moments[moments_side][w].x, float(4 * vectors_of(w)), total);
  }
  const float centre = total / float(D);
  for (uint w = 0; w < kWarps; ++w) {
    const vec2 moments = warp_moments[moments_side][w];
    const float away = moments.x - centre;
    all += CENTRED != 0 ? fma(away * away, float(4 * vectors_of(w)), moments.y) : moments.y;
  }
  const float factor = 1.0 / sqrt(all / float(D) + eps);
  [[unroll]] for (uint r = 0; r < kRounds; ++r) v[r] = fma((v[r] - centre) * factor, weight[r], bias[r]);
  moments_side ^= 1;
}

/// Weight and bias of a norm, this thread's vectors.
void ask_norm(uint weight_at, uint bias_at, out vec4 weight[2], out vec4 bias[2]) {
  [[unroll]] for (uint r = 0; r < 2; ++r) {
    weight[r] = vec4(1.0), bias[r] = vec4(0.0);
    const uint at = min(r * THREADS + THREAD, D / 4 - 1);
    if (r < kRounds && weight_at != kNone) weight[r] = vectors4.v[weight_at / 4 + at];
    if (r < kRounds && bias_at != kNone) bias[r] = vectors4.v[bias_at / 4 + at];
  }
}

/// Keeps those of vector `at` of D that belong to this workgroup's rows of matrix `m`.
void keep_own(uint which, uint m, uint at, vec4 v) {
  const uvec2 own = own_rows[m];
  if (4 * at + 3 - own.x >= own.y + 3) return;
  [[unroll]] for (uint e = 0; e < 4; ++e) {
    if (4 * at + e - own.x < own.y) own_values[which][4 * at + e - own.x] = v[e];
  }
}

/// x of stage 0 or 2, normed; `change` leads from it to the row of the token before.
void take_normed(uint layer, uint stage, uint from, out vec4 x[2], out vec4 change[2]) {
  vec4 weight[2], bias[2], before[2];
  uvec4 seen[2];
  const uint norm_at = stage == 0 ? kShiftNorm : kShiftChannelNorm;
  ask_norm(in_table(layer, norm_at), in_table(layer, norm_at + 1), weight, bias);
  const uint shift = state_at(layer, kMixerShift + (stage == 0 ? 0 : D)) / 4;
  [[unroll]] for (uint r = 0; r < 2; ++r) {
    before[r] = x[r] = change[r] = vec4(0.0), seen[r] = uvec4(tag);
    if (r < kRounds) before[r] = state4.v[shift + min(r * THREADS + THREAD, D / 4 - 1)];
  }
  const bool of_stream = subgroupAll(from == kNone);
  [[unroll]] for (uint r = 0; r < kRounds; ++r) {
    const uint at = r * THREADS + THREAD;
    if (!of_stream) seen[r] = look4(at < D / 4, from / 4 + at);
  }
  if (of_stream) {
    [[unroll]] for (uint r = 0; r < kRounds; ++r) {
      if (r * THREADS + THREAD < D / 4) x[r] = stream4.v[r * THREADS + THREAD];
    }
    if (EMBEDDING_NORM != 0) {
      const uint at = LAYERS * kShiftLayerWords + kShiftEmbeddingNorm;
      vec4 first_weight[2], first_bias[2];
      ask_norm(table.v[at], table.v[at + 1], first_weight, first_bias);
      norm(x, first_weight, first_bias, a.embedding_eps);
      [[unroll]] for (uint r = 0; r < kRounds; ++r) {
        if (r * THREADS + THREAD >= D / 4) x[r] = vec4(0.0);
      }
    }
  } else {
    [[unroll]] for (uint r = 0; r < kRounds; ++r) {
      const uint at = r * THREADS + THREAD;
      const vec4 v = wait_on4(at < D / 4, seen[r], from / 4 + at);
      x[r] = at < D / 4 ? v : vec4(0.0);
    }
  }
  [[unroll]] for (uint r = 0; r < kRounds; ++r) {
    const uint at = r * THREADS + THREAD;
    if (at < D / 4) keep_own(stage == 0 ? kOwnX : kOwnMiddle, stage == 0 ? kShiftOutput : kShiftLast, at, x[r]);
  }
  norm(x, weight, bias, a.eps);
  [[unroll]] for (uint r = 0; r < kRounds; ++r) {
    const uint at = r * THREADS + THREAD;
    if (at < D / 4) keep_own(stage == 0 ? kOwnMixerShift : kOwnChannelShift, kShiftLast, at, x[r]);
    change[r] = before[r] - x[r];
  }
}

/// `columns` exchanged values as the input of stage 1 or 3.
void take_exchanged(uint stage, uint columns, uint from) {
  [[dont_unroll]] for (uint n = 0; n < columns / 4; n += 4 * THREADS) {
    uvec4 seen[4];
    [[unroll]] for (uint r = 0; r < 4; ++r)
      seen[r] = look4(n + r * THREADS + THREAD < columns / 4, from / 4 + n + r * THREADS + THREAD);
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      const uint at = n + r * THREADS + THREAD;
      if (subgroupAll(n + r * THREADS < columns / 4))
        keep_vector(stage, columns, at, wait_on4(at < columns / 4, seen[r], from / 4 + at));
    }
  }
}

// The input of products of low rank: even vectors, then odd ones, so that lanes side by side meet on no bank.
#ifdef RUNNEL_DOT
shared vec4 plain[D / 4];
#else
#define plain prepared
#endif

/// Product of 16 bytes of such a row, columns from kLowColumns * i on.
float low_term(uvec4 w, uint i) {
  if (LOW_TYPE == kStepF32) return dot(uintBitsToFloat(w), plain[i % 2 * (D / 8) + i / 2]);
  return dot(short_values(w.xy, LOW_TYPE), plain[i]) + dot(short_values(w.zw, LOW_TYPE), plain[D / 8 + i]);
}
