// SPDX-License-Identifier: Apache-2.0
// Whether this build runs many times slower than the one that ships.
#pragma once

namespace runnel::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSlowBuild = true;
#else
inline constexpr bool kSlowBuild = false;
#endif

/// Races do not depend on the instruction set: one is enough where every access is watched.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kOneInstructionSet = true;
#else
inline constexpr bool kOneInstructionSet = false;
#endif

}  // namespace runnel::test
