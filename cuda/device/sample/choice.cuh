// SPDX-License-Identifier: Apache-2.0
// How logits are compared where the largest is chosen, and what is done with the token.
#pragma once

#include "cuda/device/async.cuh"
#include "cuda/sample.h"

namespace runnel::cuda {

/// Orders logits as integers, above 0; not NaN and -inf.
__device__ __forceinline__ std::uint32_t ordinary_key(float logit) {
  const std::uint32_t bits = __float_as_uint(__fadd_rn(logit, 0.0F));  // -0 counts as 0
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}
/// The same; 0 for what can never be chosen, NaN and -inf.
__device__ __forceinline__ std::uint32_t logit_key(float logit) {
  return logit > -__int_as_float(0x7F800000) ? ordinary_key(logit) : 0U;
}
/// Of a key above 0.
__device__ __forceinline__ std::uint64_t choice_of_key(std::uint32_t key, std::uint32_t token) {
  return std::uint64_t(key) << 32 | (0xFFFFFFFFU - token);
}
/// The larger logit is the larger choice, and among equal ones the first; 0: never.
__device__ __forceinline__ std::uint64_t choice_of(float logit, std::uint32_t token) {
  const std::uint32_t key = logit_key(logit);
  return key == 0 ? 0 : choice_of_key(key, token);
}
/// The token of a choice that is not 0.
__device__ __forceinline__ std::uint32_t chosen_token(std::uint64_t choice) {
  return 0xFFFFFFFFU - std::uint32_t(choice);
}

/// The best choice of a warp's lanes, in all of them.
__device__ __forceinline__ std::uint64_t warp_choice(std::uint64_t best) {
  const unsigned key = __reduce_max_sync(~0U, unsigned(best >> 32));
  const unsigned token = __reduce_max_sync(~0U, unsigned(best >> 32) == key ? unsigned(best) : 0U);
  return std::uint64_t(key) << 32 | token;
}

/// The token that the next step consumes.
__device__ __forceinline__ std::int32_t next_token(std::uint32_t drawn) {
  return std::int32_t(drawn == kNoToken ? 0U : drawn);
}
/// Makes the next step ready.
__device__ __forceinline__ void hand_on(const NextStep& next, std::uint32_t drawn) {
  *next.token = next_token(drawn);
  next.segment->position += 1;
}
/// What the host reads.
__device__ __forceinline__ std::uint64_t drawn_word(const NextStep& next, std::uint32_t drawn) {
  return (std::uint64_t(next.ticket) << 32) | drawn;
}

}  // namespace runnel::cuda
