// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cpu/page_buffer.h"

#include <sys/mman.h>

#include <utility>

#include "runtime/base/try.h"

namespace runnel::cpu {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

Result<PageBuffer> PageBuffer::create(std::size_t bytes) {
  PageBuffer buffer;
  if (bytes == 0) return buffer;
  // Small buffers get ordinary pages, large ones start on a huge page.
  const bool huge = bytes >= kHugePage;
  const std::size_t mapped = huge ? bytes + kHugePage : bytes;
  void* p = mapped < bytes ? MAP_FAILED
                           : mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    return fail(ErrorCode::out_of_memory, "the system gives no ", bytes, " bytes");
  }
  buffer.mapping_ = p;
  buffer.mapped_ = mapped;
  buffer.data_ = static_cast<std::uint8_t*>(p);
  if (huge)
    buffer.data_ += (kHugePage - reinterpret_cast<std::uintptr_t>(p) % kHugePage) % kHugePage;
  buffer.size_ = bytes;
  // Only whole huge pages: the last one would otherwise be filled up with zeros that are not used.
  if (huge) (void)madvise(buffer.data_, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return buffer;
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)) {}

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

PageBuffer::~PageBuffer() {
  if (mapping_ != nullptr) (void)munmap(mapping_, mapped_);
}

}  // namespace runnel::cpu
