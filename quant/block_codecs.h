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

/// `x` has kQ8Block values. Rounding of ggml's reference: codes 0 and 15 are the smallest and the largest value.
BlockQ4_1 encode_q4_1(const float* x);
void decode(const BlockQ4_1& block, float* out);

/// `x` has kQ8Block values. Rounding of ggml's reference: as Q4_0, d = the value of largest magnitude / -16.
BlockQ5_0 encode_q5_0(const float* x);
void decode(const BlockQ5_0& block, float* out);

void decode(const BlockQ5_1& block, float* out);
void decode(const BlockIQ4_NL& block, float* out);

/// `x` has kSuperBlock values. Weighted least squares over scales and minima; never worse than plain rounding.
BlockQ4_K encode_q4_k(const float* x);
void decode(const BlockQ4_K& block, float* out);

/// The same with codes of five bits.
BlockQ5_K encode_q5_k(const float* x);
void decode(const BlockQ5_K& block, float* out);

void decode(const BlockQ2_K& block, float* out);
void decode(const BlockQ3_K& block, float* out);
void decode(const BlockIQ4_XS& block, float* out);
void decode(const BlockWide& block, float* out);

/// `x` has kSuperBlock values. Least squares over scales.
BlockQ6_K encode_q6_k(const float* x);
void decode(const BlockQ6_K& block, float* out);

/// The codes of a block in the order of its values, none negative: q of quant/formats.h, of Q3_K q + 4.
void unpack_codes(const BlockQ4_1& block, std::uint8_t* codes);
void unpack_codes(const BlockQ5_0& block, std::uint8_t* codes);
void unpack_codes(const BlockQ5_1& block, std::uint8_t* codes);
void unpack_codes(const BlockQ5_K& block, std::uint8_t* codes);
void unpack_codes(const BlockQ2_K& block, std::uint8_t* codes);
void unpack_codes(const BlockQ3_K& block, std::uint8_t* codes);

/// The factor of d of group 0 … 15 of Q3_K, 0 … 7 of IQ4_XS: -32 … 31.
int unpack_scale(const BlockQ3_K& block, int group);
int unpack_scale(const BlockIQ4_XS& block, int group);

/// Scale and minimum of group 0 … 7 from the packed six-bit fields of a Q4_K or Q5_K block.
struct ScaleMin {
  std::uint8_t scale;
  std::uint8_t min;
};
ScaleMin unpack_scale_min(const std::uint8_t (&scales)[12], int group);

}  // namespace runnel::quant
