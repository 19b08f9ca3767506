// SPDX-License-Identifier: Apache-2.0
// Comparing logits as the host's sampler does.

/// Orders logits as integers; 0 for what can never be chosen: NaN and -inf.
uint logit_key(float logit) {
  uint bits = floatBitsToUint(logit);
  const uint magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u || bits == 0xFF800000u) return 0;
  if (magnitude == 0) bits = 0;  // -0 counts as 0
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
