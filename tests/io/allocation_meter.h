// SPDX-License-Identifier: Apache-2.0
// Counts the bytes that one thread asks operator new for.
#pragma once

#include <cstdint>

namespace runnel::test {

/// Bytes asked for since this thread began, whether freed since or not: an upper bound of what was held at once.
std::uint64_t allocated_bytes();

}  // namespace runnel::test
