// SPDX-License-Identifier: Apache-2.0
// Q6_K: 16 groups of 16 values, w = d * scale * q with q in [-32, 31]. Encoding searches each
// group's scale by least squares, then adjusts the eight-bit scales and the block's d to each other.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/block_codecs.h"
#include "quant/lanes.h"
#include "runtime/base/half.h"

namespace runnel::quant {
namespace {

constexpr int kGroups = 16;
constexpr int kGroup = kSuperBlock / kGroups;  // 16 values share a scale
constexpr float kLowest = -32.0F;
constexpr float kHighest = 31.0F;

/// q = round(x / scale), clamped.
void choose_codes(const float* x, float scale, float* q) {
  const float inverse = scale != 0.0F ? 1.0F / scale : 0.0F;
  const float finite = std::isfinite(inverse) ? inverse : 0.0F;
  for (int i = 0; i < kGroup; ++i) {
    float v = x[i] * finite;
    v = v < kLowest ? kLowest : v;
    v = v > kHighest ? kHighest : v;
    // From -32 the sum is positive, so that truncation rounds to nearest.
    q[i] = static_cast<float>(static_cast<int>(v + 32.5F) - 32);
  }
}

struct Moments {
  float qq = 0;
  float xq = 0;
};

Moments moments_of(const float* x, const float* q) {
  Moments m;
  m.qq = lane_sum(kGroup, [&](int i) { return q[i] * q[i]; });
  m.xq = lane_sum(kGroup, [&](int i) { return x[i] * q[i]; });
  return m;
}

/// Square error less the constant sum of x^2.
float error_of(const Moments& m, float scale) { return scale * scale * m.qq - 2.0F * scale * m.xq; }

/// The scale of least error; the value of largest magnitude lies at code -32 or a little inside, whatever its sign.
float search_group(const float* x) {
  float extreme = 0;
  for (int i = 0; i < kGroup; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  if (extreme == 0.0F) return 0.0F;
  float best_scale = extreme / kLowest;
  float best_error = std::numeric_limits<float>::max();
  float q[kGroup];
  constexpr int kSteps = 15;
  for (int step = 0; step < kSteps; ++step) {
    const float levels = 31.0F + 0.15F * static_cast<float>(step);
    choose_codes(x, -extreme / levels, q);
    const Moments m = moments_of(x, q);
    if (!(m.qq > 0)) continue;
    const float scale = m.xq / m.qq;
    const float error = error_of(m, scale);
    if (error < best_error) {
      best_error = error;
      best_scale = scale;
    }
  }
  return best_scale;
}

/// Rounds the scale to a multiple of d; its neighbours may fit better. q receives the codes.
float refine_scale(const float* x, float wanted, float d, int& scale, float* q) {
  const float ratio = std::clamp(wanted / d, -128.0F, 127.0F);
  const int middle = static_cast<int>(std::lround(ratio));
  float best_error = std::numeric_limits<float>::max();
  float trial[kGroup];
  for (int s = std::max(middle - 1, -128); s <= std::min(middle + 1, 127); ++s) {
    const float a = d * static_cast<float>(s);
    choose_codes(x, a, trial);
    const float error = error_of(moments_of(x, trial), a);
    if (error < best_error) {
      best_error = error;
      scale = s;
      std::copy(trial, trial + kGroup, q);
    }
  }
  return best_error;
}

float as_stored(float v) { return f16_to_f32(f32_to_f16(v)); }

BlockQ6_K pack(float d, const int* scales, const float* q) {
  BlockQ6_K block;
  block.d = f32_to_f16(d);
  for (int g = 0; g < kGroups; ++g) block.scales[g] = static_cast<std::int8_t>(scales[g]);
  for (int half = 0; half < 2; ++half) {
    const float* x = q + half * 128;
    for (int l = 0; l < 32; ++l) {
      int code[4];
      for (int part = 0; part < 4; ++part) code[part] = static_cast<int>(x[l + 32 * part]) + 32;
      block.ql[64 * half + l] = static_cast<std::uint8_t>((code[0] & 15) | ((code[2] & 15) << 4));
      block.ql[64 * half + 32 + l] =
          static_cast<std::uint8_t>((code[1] & 15) | ((code[3] & 15) << 4));
      block.qh[32 * half + l] = static_cast<std::uint8_t>(
          (code[0] >> 4) | ((code[1] >> 4) << 2) | ((code[2] >> 4) << 4) | ((code[3] >> 4) << 6));
    }
  }
  return block;
}

}  // namespace

BlockQ6_K encode_q6_k(const float* x) {
  float wanted[kGroups];
  float largest = 0;  // of the scales, with its sign
  for (int g = 0; g < kGroups; ++g) {
    wanted[g] = search_group(x + g * kGroup);
    if (std::fabs(wanted[g]) > std::fabs(largest)) largest = wanted[g];
  }
  int scales[kGroups] = {};
  float q[kSuperBlock] = {};
  const float d = as_stored(largest / -128.0F);
  if (d == 0.0F) return pack(0.0F, scales, q);

  float error = 0;
  double qq = 0;
  double xq = 0;  // of x ~ d * (scale q)
  for (int g = 0; g < kGroups; ++g) {
    const float* group = x + g * kGroup;
    error += refine_scale(group, wanted[g], d, scales[g], q + g * kGroup);
    const Moments m = moments_of(group, q + g * kGroup);
    qq += static_cast<double>(scales[g]) * scales[g] * static_cast<double>(m.qq);
    xq += static_cast<double>(scales[g]) * static_cast<double>(m.xq);
  }
  const float better_d = qq > 0 ? as_stored(static_cast<float>(xq / qq)) : d;
  float better_q[kSuperBlock];
  float better_error = 0;
  for (int g = 0; g < kGroups; ++g) {
    const float a = better_d * static_cast<float>(scales[g]);
    choose_codes(x + g * kGroup, a, better_q + g * kGroup);
    better_error += error_of(moments_of(x + g * kGroup, better_q + g * kGroup), a);
  }
  return better_error < error ? pack(better_d, scales, better_q) : pack(d, scales, q);
}

void decode(const BlockQ6_K& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int half = 0; half < 2; ++half) {
    for (int part = 0; part < 4; ++part) {
      for (int l = 0; l < 32; ++l) {
        const int value = 128 * half + 32 * part + l;
        const std::uint8_t low = block.ql[64 * half + 32 * (part % 2) + l];
        const int code = ((part < 2 ? low & 15 : low >> 4) |
                          (((block.qh[32 * half + l] >> (2 * part)) & 3) << 4)) -
                         32;
        const int group = value / kGroup;
        const float scale = d * static_cast<float>(block.scales[group]);
        out[value] = scale * static_cast<float>(code);
      }
    }
  }
}

}  // namespace runnel::quant
