// SPDX-License-Identifier: Apache-2.0
// Replaces operator new of the test program that it is linked into.
#include "tests/io/allocation_meter.h"

#include <cstdlib>
#include <new>

namespace {
thread_local std::uint64_t allocated = 0;
}  // namespace

namespace runnel::test {
std::uint64_t allocated_bytes() { return allocated; }
}  // namespace runnel::test

void* operator new(std::size_t size) {
  allocated += size;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
