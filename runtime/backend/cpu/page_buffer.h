// SPDX-License-Identifier: Apache-2.0
// A large zeroed block of memory of its own pages, huge ones where the system has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runnel/result.h"

namespace runnel::cpu {

/// Move-only. Pages that were never written cost no memory.
class PageBuffer {
 public:
  /// @return out_of_memory naming the size.
  static Result<PageBuffer> create(std::size_t bytes);

  PageBuffer() = default;
  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  ~PageBuffer();

  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

  /// The buffer as floats; `size()` is then a multiple of 4.
  std::span<float> floats() const {
    return {reinterpret_cast<float*>(data_), size_ / sizeof(float)};
  }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
};

}  // namespace runnel::cpu
