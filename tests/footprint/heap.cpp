// SPDX-License-Identifier: Apache-2.0
// Stands in for glibc's malloc family, counts, and hands on.
#include "tests/footprint/heap.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* pointer, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace {

std::atomic<std::uint64_t> allocations{0};

void count() { allocations.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

namespace runnel::test {

std::uint64_t heap_allocations() { return allocations.load(); }

}  // namespace runnel::test

extern "C" {

void* malloc(std::size_t bytes) noexcept {
  count();
  return __libc_malloc(bytes);
}

void* calloc(std::size_t n, std::size_t bytes) noexcept {
  count();
  return __libc_calloc(n, bytes);
}

void* realloc(void* pointer, std::size_t bytes) noexcept {
  count();
  return __libc_realloc(pointer, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  count();
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return memalign(alignment, bytes);
}

int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
  void* pointer = memalign(alignment, bytes);
  if (pointer == nullptr) return ENOMEM;
  *out = pointer;
  return 0;
}

}  // extern "C"
