// SPDX-License-Identifier: Apache-2.0
// Counts what this process takes from the heap.
#pragma once

#include <cstdint>

namespace runnel::test {

/// Allocations so far, by any thread: malloc and its relatives, hence operator new too.
std::uint64_t heap_allocations();

}  // namespace runnel::test
