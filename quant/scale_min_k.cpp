// SPDX-License-Identifier: Apache-2.0
// Q4_K and Q5_K: 8 groups of 32 values, w = d * scale * q - dmin * min. Encoding alternates between choosing
// codes for given scales and solving the weighted least squares for the scales given the codes,
// first per group in floats, then with the six-bit scales and minima, last for the block's own d and dmin.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/block_codecs.h"
#include "quant/lanes.h"
#include "runtime/base/half.h"

namespace runnel::quant {
namespace {

constexpr int kGroups = 8;
constexpr int kGroup = kSuperBlock / kGroups;  // 32 values share a scale and a minimum
constexpr int kMaxField = 63;                  // six-bit scales and minima

/// One group with what does not change during the search.
struct Group {
  const float* x = nullptr;  // [kGroup]
  float weight[kGroup];      // importance of each value's error
  float sum_w = 0;
  float sum_wx = 0;
  float sum_wxx = 0;
  float low = 0;   // min(0, smallest value): the offset can only be subtracted
  float high = 0;  // largest value
};

/// x ~ scale * q - min, and its weighted square error.
struct Fit {
  float scale = 0;
  float min = 0;
  float error = std::numeric_limits<float>::max();
};

/// Large weights carry most of a dot product, so their errors count more: w = rms + |x|.
Group make_group(const float* x) {
  Group g;
  g.x = x;
  const float rms = std::sqrt(lane_sum(kGroup, [&](int i) { return x[i] * x[i]; }) / kGroup);
  for (int i = 0; i < kGroup; ++i) g.weight[i] = rms + std::fabs(x[i]);
  g.sum_w = lane_sum(kGroup, [&](int i) { return g.weight[i]; });
  g.sum_wx = lane_sum(kGroup, [&](int i) { return g.weight[i] * x[i]; });
  g.sum_wxx = lane_sum(kGroup, [&](int i) { return g.weight[i] * x[i] * x[i]; });
  for (int i = 0; i < kGroup; ++i) {
    g.low = std::min(g.low, x[i]);
    g.high = i == 0 ? x[0] : std::max(g.high, x[i]);
  }
  return g;
}

/// q = round((x + min) / scale), clamped. A scale of 0 gives zeros.
template <int kMaxCode>
void choose_codes(const float* x, float scale, float min, float* q) {
  const float inverse = scale > 0 ? 1.0F / scale : 0.0F;
  const float finite = std::isfinite(inverse) ? inverse : 0.0F;
  for (int i = 0; i < kGroup; ++i) {
    // Clamped before rounding: the conversion of a large float to int is undefined.
    float v = (x[i] + min) * finite;
    v = v < 0.0F ? 0.0F : v;
    v = v > static_cast<float>(kMaxCode) ? static_cast<float>(kMaxCode) : v;
    const float half_up = v + 0.5F;
    q[i] = static_cast<float>(static_cast<int>(half_up));
  }
}

/// The sum of weight (x - (scale q - min))^2: of residuals, since sums of squares would cancel where the fit is good.
float error_of(const Group& g, const float* q, float scale, float min) {
  return lane_sum(kGroup, [&](int i) {
    const float residual = g.x[i] - (scale * q[i] - min);
    return g.weight[i] * residual * residual;
  });
}

/// The best scale >= 0 and min >= 0 for fixed codes.
Fit solve(const Group& g, const float* q) {
  Fit fit;
  const float mean_q = lane_sum(kGroup, [&](int i) { return g.weight[i] * q[i]; }) / g.sum_w;
  const float mean_x = g.sum_wx / g.sum_w;
  const float variance =
      lane_sum(kGroup, [&](int i) { return g.weight[i] * (q[i] - mean_q) * (q[i] - mean_q); });
  // Codes are integers and no weight is far below the others: what is less is the rounding of equal codes.
  constexpr float kLeastVariance = 1e-4F;
  const bool vary = variance > kLeastVariance * g.sum_w;
  if (vary) {
    fit.scale =
        lane_sum(kGroup, [&](int i) { return g.weight[i] * (q[i] - mean_q) * (g.x[i] - mean_x); }) /
        variance;
    fit.min = fit.scale * mean_q - mean_x;
  }
  if (!vary || fit.min < 0) {
    const float wqq = lane_sum(kGroup, [&](int i) { return g.weight[i] * q[i] * q[i]; });
    const float wxq = lane_sum(kGroup, [&](int i) { return g.weight[i] * g.x[i] * q[i]; });
    fit.min = 0;
    fit.scale = wqq > 0 ? wxq / wqq : 0.0F;
  }
  fit.scale = std::max(fit.scale, 0.0F);
  fit.error = error_of(g, q, fit.scale, fit.min);
  return fit;
}

/// Tries ranges a little narrower and wider than [low, high], and solves for each.
template <int kMaxCode>
Fit search_group(const Group& g) {
  Fit best;
  best.scale = 0;
  best.min = -g.low;
  // Fits that differ by less are as good: the first is taken, so that groups alike have scales alike, which round alike.
  const float worth = 1e-7F * g.sum_wxx;
  float q[kGroup] = {};
  best.error = error_of(g, q, best.scale, best.min);
  const float range = g.high - g.low;
  if (!(range > 0)) return best;
  constexpr int kSteps = 16;
  for (int step = 0; step < kSteps; ++step) {
    const float levels = static_cast<float>(kMaxCode) - 1.2F + 0.15F * static_cast<float>(step);
    choose_codes<kMaxCode>(g.x, range / levels, -g.low, q);
    const Fit fit = solve(g, q);
    if (fit.error < best.error - worth) best = fit;
  }
  return best;
}

/// Six-bit scale and minimum of every group, and the block's d and dmin as the file will have them.
struct Fields {
  float d = 0;
  float dmin = 0;
  int scale[kGroups] = {};
  int min[kGroups] = {};
};

int to_field(float value, float unit) {
  if (!(unit > 0)) return 0;
  const float half_up = std::min(value / unit, static_cast<float>(kMaxField)) + 0.5F;
  return static_cast<int>(half_up);
}

float as_stored(float v) { return f16_to_f32(f32_to_f16(v)); }

/// The neighbours of the rounded fields may fit better together; q receives the codes of the best pair.
template <int kMaxCode>
float refine_fields(const Group& g, float d, float dmin, int& scale, int& min, float* q) {
  float best_error = std::numeric_limits<float>::max();
  const int scale0 = scale;
  const int min0 = min;
  float trial[kGroup];
  for (int s = std::max(scale0 - 1, 0); s <= std::min(scale0 + 1, kMaxField); ++s) {
    for (int m = std::max(min0 - 1, 0); m <= std::min(min0 + 1, kMaxField); ++m) {
      const float a = d * static_cast<float>(s);
      const float b = dmin * static_cast<float>(m);
      choose_codes<kMaxCode>(g.x, a, b, trial);
      const float error = error_of(g, trial, a, b);
      if (error < best_error) {
        best_error = error;
        scale = s;
        min = m;
        std::copy(trial, trial + kGroup, q);
      }
    }
  }
  return best_error;
}

/// d and dmin that fit the whole block best for fixed codes and fields.
void solve_block(const Group* groups, const float* q, Fields& f) {
  double aa = 0;
  double ab = 0;
  double bb = 0;
  double ax = 0;
  double bx = 0;  // normal equations of x ~ d * (scale q) - dmin * min
  for (int i = 0; i < kSuperBlock; ++i) {
    const int g = i / kGroup;
    const double w = groups[g].weight[i % kGroup];
    const double x = groups[g].x[i % kGroup];
    const double a = static_cast<double>(f.scale[g]) * static_cast<double>(q[i]);
    const double b = f.min[g];
    aa += w * a * a;
    ab += w * a * b;
    bb += w * b * b;
    ax += w * a * x;
    bx += w * b * x;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant > 1e-12 * aa * bb) {
    const double d = (ax * bb - bx * ab) / determinant;
    const double dmin = (ax * ab - bx * aa) / determinant;
    if (d > 0 && dmin >= 0) {
      f.d = static_cast<float>(d);
      f.dmin = static_cast<float>(dmin);
    }
  } else if (aa > 0 && bb <= 0 && ax > 0) {
    f.d = static_cast<float>(ax / aa);
  }
}

/// What both formats have.
template <class Block>
void pack_fields(const Fields& f, Block& block) {
  block.d = f32_to_f16(f.d);
  block.dmin = f32_to_f16(f.dmin);
  for (int g = 0; g < 4; ++g) {
    const int high = g + 4;
    block.scales[g] = static_cast<std::uint8_t>(f.scale[g] | ((f.scale[high] >> 4) << 6));
    block.scales[g + 4] = static_cast<std::uint8_t>(f.min[g] | ((f.min[high] >> 4) << 6));
    block.scales[g + 8] =
        static_cast<std::uint8_t>((f.scale[high] & 15) | ((f.min[high] & 15) << 4));
  }
}

/// The low four bits of the codes.
void pack_nibbles(const float* q, std::uint8_t* qs) {
  for (int pair = 0; pair < kGroups / 2; ++pair) {
    const float* low = q + pair * 2 * kGroup;
    for (int l = 0; l < kGroup; ++l) {
      qs[pair * kGroup + l] = static_cast<std::uint8_t>(
          (static_cast<int>(low[l]) & 15) | ((static_cast<int>(low[l + kGroup]) & 15) << 4));
    }
  }
}

template <class Block>
void decode_groups(const Block& block, const std::uint8_t* codes, float* out) {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int g = 0; g < kGroups; ++g) {
    const ScaleMin fields = unpack_scale_min(block.scales, g);
    const float scale = d * static_cast<float>(fields.scale);
    const float min = dmin * static_cast<float>(fields.min);
    for (int l = g * kGroup; l < (g + 1) * kGroup; ++l)
      out[l] = scale * static_cast<float>(codes[l]) - min;
  }
}

/// Byte 32p + l holds value l of group 2p in its low and of group 2p + 1 in its high half.
void unpack_nibbles(const std::uint8_t* qs, std::uint8_t* codes) {
  for (int pair = 0; pair < kGroups / 2; ++pair, qs += kGroup, codes += 2 * kGroup) {
    for (int l = 0; l < kGroup; ++l) {
      codes[l] = qs[l] & 15;
      codes[l + kGroup] = qs[l] >> 4;
    }
  }
}

/// The fields of the block, and its codes in q.
template <int kMaxCode>
Fields encode(const float* x, float* q) {
  Group groups[kGroups];
  Fit fits[kGroups];
  float largest_scale = 0;
  float largest_min = 0;
  for (int g = 0; g < kGroups; ++g) {
    groups[g] = make_group(x + g * kGroup);
    fits[g] = search_group<kMaxCode>(groups[g]);
    largest_scale = std::max(largest_scale, fits[g].scale);
    largest_min = std::max(largest_min, fits[g].min);
  }
  Fields f;
  f.d = as_stored(largest_scale / kMaxField);
  f.dmin = as_stored(largest_min / kMaxField);
  float error = 0;
  for (int g = 0; g < kGroups; ++g) {
    f.scale[g] = to_field(fits[g].scale, f.d);
    f.min[g] = to_field(fits[g].min, f.dmin);
    error += refine_fields<kMaxCode>(groups[g], f.d, f.dmin, f.scale[g], f.min[g], q + g * kGroup);
  }

  Fields better = f;
  solve_block(groups, q, better);
  better.d = as_stored(better.d);
  better.dmin = as_stored(better.dmin);
  float better_q[kSuperBlock];
  float better_error = 0;
  for (int g = 0; g < kGroups; ++g) {
    const float a = better.d * static_cast<float>(better.scale[g]);
    const float b = better.dmin * static_cast<float>(better.min[g]);
    choose_codes<kMaxCode>(x + g * kGroup, a, b, better_q + g * kGroup);
    better_error += error_of(groups[g], better_q + g * kGroup, a, b);
  }
  if (!(better_error < error)) return f;
  std::copy(better_q, better_q + kSuperBlock, q);
  return better;
}

}  // namespace

BlockQ4_K encode_q4_k(const float* x) {
  float q[kSuperBlock];
  BlockQ4_K block;
  pack_fields(encode<15>(x, q), block);
  pack_nibbles(q, block.qs);
  return block;
}

BlockQ5_K encode_q5_k(const float* x) {
  float q[kSuperBlock];
  BlockQ5_K block{};
  pack_fields(encode<31>(x, q), block);
  pack_nibbles(q, block.qs);
  for (int i = 0; i < kSuperBlock; ++i) {
    std::uint8_t& high = block.qh[i % kGroup];
    high = static_cast<std::uint8_t>(high | ((static_cast<int>(q[i]) >> 4) << (i / kGroup)));
  }
  return block;
}

ScaleMin unpack_scale_min(const std::uint8_t (&s)[12], int group) {
  if (group < 4) {
    return {static_cast<std::uint8_t>(s[group] & 63), static_cast<std::uint8_t>(s[group + 4] & 63)};
  }
  return {static_cast<std::uint8_t>((s[group + 4] & 15) | ((s[group - 4] >> 6) << 4)),
          static_cast<std::uint8_t>((s[group + 4] >> 4) | ((s[group] >> 6) << 4))};
}

void unpack_codes(const BlockQ5_K& block, std::uint8_t* codes) {
  unpack_nibbles(block.qs, codes);
  for (int g = 0; g < kGroups; ++g, codes += kGroup) {
    for (int l = 0; l < kGroup; ++l)
      codes[l] = static_cast<std::uint8_t>(codes[l] | (((block.qh[l] >> g) & 1) << 4));
  }
}

void decode(const BlockQ4_K& block, float* out) {
  std::uint8_t codes[kSuperBlock];
  unpack_nibbles(block.qs, codes);
  decode_groups(block, codes, out);
}

void decode(const BlockQ5_K& block, float* out) {
  std::uint8_t codes[kSuperBlock];
  unpack_codes(block, codes);
  decode_groups(block, codes, out);
}

}  // namespace runnel::quant
