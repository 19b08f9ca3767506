// SPDX-License-Identifier: Apache-2.0
// One block to and from floats, per format. Callers check sizes and that the values are finite and not too large.
#pragma once

#include "quant/formats.h"

namespace runnel::quant {

/// `x` has kQ8Block values. Rounding of ggml's reference: d = max|x| / 127, codes rounded half away from zero.
BlockQ8_0 encode_q8_0(const float* x);
void decode(const BlockQ8_0& block, float* out);

/// `x` has kQ8Block values. Rounding of ggml's reference: the value of largest magnitude gets code
/// 0, d = it / -8.
BlockQ4_0 encode_q4_0(const float* x);
void decode(const BlockQ4_0& block, float* out);

/// `x` has kSuperBlock values. Weighted least squares over scales and minima; never worse than plain rounding.
BlockQ4_K encode_q4_k(const float* x);
void decode(const BlockQ4_K& block, float* out);

/// `x` has kSuperBlock values. Least squares over scales.
BlockQ6_K encode_q6_k(const float* x);
void decode(const BlockQ6_K& block, float* out);

/// Scale and minimum of group 0 … 7 from the packed six-bit fields of a Q4_K block.
struct ScaleMin {
  std::uint8_t scale;
  std::uint8_t min;
};
ScaleMin unpack_scale_min(const BlockQ4_K& block, int group);

}  // namespace runnel::quant
