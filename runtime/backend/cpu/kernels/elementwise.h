// SPDX-License-Identifier: Apache-2.0
// Kernels over the channels of one token: norm, rounding to int8, activations, gates. Equations in kernels.h.
#pragma once

namespace runnel::cpu::RUNNEL_ISA {
namespace {

/// Calls f(offset) for every whole register of [0, n), then tail(offset, count) for what is left.
template <class Full, class Tail>
inline void for_registers(int n, const Full& f, const Tail& tail) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i);
  if (i < n) tail(i, n - i);
}

inline F load_some(const float* p, int count, float rest = 0) {
  float lanes[kLanes];
  store(lanes, splat(rest));
  for (int i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
}
inline void store_some(float* p, int count, F v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int i = 0; i < count; ++i) p[i] = lanes[i];
}

/// The sum of what add_to(sums, register) adds for x [n], in four chains. To `neutral` it adds 0.
template <class AddTo>
inline float sum_of(const float* x, int n, float neutral, const AddTo& add_to) {
  F sums[4] = {splat(0), splat(0), splat(0), splat(0)};
  int i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) sums[j] = add_to(sums[j], load(x + i + j * kLanes));
  }
  for_registers(
      n - i, [&](int at) { sums[0] = add_to(sums[0], load(x + i + at)); },
      [&](int at, int count) { sums[0] = add_to(sums[0], load_some(x + i + at, count, neutral)); });
  return sum(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

void rms_norm(const float* x, int n, float eps, const float* w, float* y) {
  const float total = sum_of(x, n, 0, [](F sums, F v) { return fma(v, v, sums); });
  const F scale = splat(1.0F / __builtin_sqrtf(total / static_cast<float>(n) + eps));
  for_registers(
      n,
      [&](int at) {
        const F v = mul(load(x + at), scale);
        store(y + at, w != nullptr ? mul(v, load(w + at)) : v);
      },
      [&](int at, int count) {
        const F v = mul(load_some(x + at, count), scale);
        store_some(y + at, count, w != nullptr ? mul(v, load_some(w + at, count)) : v);
      });
}

void layer_norm(const float* x, int n, float eps, const float* w, const float* b, float* y) {
  const auto count_of = static_cast<float>(n);
  const float mean = sum_of(x, n, 0, [](F sums, F v) { return add(sums, v); }) / count_of;
  const F middle = splat(mean);
  const float squares = sum_of(x, n, mean, [&](F sums, F v) {
    const F from_mean = sub(v, middle);
    return fma(from_mean, from_mean, sums);
  });
  const F scale = splat(1.0F / __builtin_sqrtf(squares / count_of + eps));
  for_registers(
      n,
      [&](int at) {
        store(y + at, fma(mul(sub(load(x + at), middle), scale), load(w + at), load(b + at)));
      },
      [&](int at, int count) {
        const F v = mul(sub(load_some(x + at, count), middle), scale);
        store_some(y + at, count, fma(v, load_some(w + at, count), load_some(b + at, count)));
      });
}

void lerp(const float* from, const float* to, const float* by, int n, float* out) {
  for_registers(
      n,
      [&](int at) {
        const F v = load(from + at);
        store(out + at, fma(load(by + at), sub(load(to + at), v), v));
      },
      [&](int at, int count) {
        const F v = load_some(from + at, count);
        store_some(out + at, count,
                   fma(load_some(by + at, count), sub(load_some(to + at, count), v), v));
      });
}

void quantise(const float* x, int cols, uint8_t* pack, int width, int t) {
  constexpr int kRegisters = 32 / kLanes;
  const int groups = cols / 32;
  for (int g = 0; g < groups; ++g, x += 32, pack += kGroupBytes * static_cast<size_t>(width)) {
    F v[kRegisters];
    F largest = splat(0);
    for (int i = 0; i < kRegisters; ++i) {
      v[i] = load(x + i * kLanes);
      largest = max(largest, abs(v[i]));
    }
    const float amax = max_lane(largest);
    const float d = amax / 127.0F;
    const F inverse = splat(amax > 0 ? 127.0F / amax : 0.0F);
    auto* q = reinterpret_cast<int8_t*>(pack) + 32 * t;
    const auto store_half = [&](int half) {
      constexpr int kOfHalf = kRegisters / 2;
      I codes[kOfHalf];
      for (int i = 0; i < kOfHalf; ++i) codes[i] = to_int(mul(v[half * kOfHalf + i], inverse));
      return store_codes(q + 16 * half, codes);
    };
    const int32_t first = store_half(0), total = first + store_half(1);
    const float ds = d * static_cast<float>(total);
    const int32_t t8 = -8 * total, h8 = -8 * first;
    uint8_t* const fields = pack + 32 * static_cast<size_t>(width) + 4 * static_cast<size_t>(t);
    const size_t next = 4 * static_cast<size_t>(width);
    __builtin_memcpy(fields, &d, 4);
    __builtin_memcpy(fields + next, &ds, 4);
    __builtin_memcpy(fields + 2 * next, &t8, 4);
    __builtin_memcpy(fields + 3 * next, &h8, 4);
  }
}

void silu(float* x, int n) {
  for_registers(
      n, [&](int at) { store(x + at, silu_of(load(x + at))); },
      [&](int at, int count) { store_some(x + at, count, silu_of(load_some(x + at, count))); });
}

void sigmoid(const float* x, const float* bias, int n, float* out) {
  for_registers(
      n,
      [&](int at) {
        const F v = load(x + at);
        store(out + at, sigmoid_of(bias != nullptr ? add(v, load(bias + at)) : v));
      },
      [&](int at, int count) {
        const F v = load_some(x + at, count);
        store_some(out + at, count,
                   sigmoid_of(bias != nullptr ? add(v, load_some(bias + at, count)) : v));
      });
}

void squared_relu(float* x, int n) {
  const auto of = [](F v) {
    const F positive = max(splat(0), v);  // v if that is NaN
    return mul(positive, positive);
  };
  for_registers(
      n, [&](int at) { store(x + at, of(load(x + at))); },
      [&](int at, int count) { store_some(x + at, count, of(load_some(x + at, count))); });
}

void swiglu(float* gate, const float* up, int n) {
  for_registers(
      n, [&](int at) { store(gate + at, mul(silu_of(load(gate + at)), load(up + at))); },
      [&](int at, int count) {
        const F g = silu_of(load_some(gate + at, count));
        store_some(gate + at, count, mul(g, load_some(up + at, count)));
      });
}

void exp_of(float* x, int n, float by, float less) {
  const F scale = splat(by), shift = splat(less);
  const auto of = [&](F v) { return exp(sub(mul(v, scale), shift)); };
  for_registers(
      n, [&](int at) { store(x + at, of(load(x + at))); },
      [&](int at, int count) { store_some(x + at, count, of(load_some(x + at, count))); });
}

void gates(const float* f, const float* bias, int n, float tau, float floor, float* alpha,
           float* write) {
  const auto log_alpha = [&](F x) {
    const F g = div(logsigmoid(x), splat(tau));
    return floor < 0 ? max(g, splat(floor)) : g;
  };
  for_registers(
      n,
      [&](int at) {
        const F x = load(f + at);
        const F g = log_alpha(bias != nullptr ? add(x, load(bias + at)) : x);
        store(alpha + at, exp(g));
        store(write + at, sub(splat(0), expm1(g)));
      },
      [&](int at, int count) {
        const F x = load_some(f + at, count);
        const F g = log_alpha(bias != nullptr ? add(x, load_some(bias + at, count)) : x);
        store_some(alpha + at, count, exp(g));
        store_some(write + at, count, sub(splat(0), expm1(g)));
      });
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
