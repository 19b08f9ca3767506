// SPDX-License-Identifier: Apache-2.0
// cuBLASLt where it is installed: found at run time, never linked. Without it our own matrix product does the work.
#pragma once

#include <memory>

#include "cuda/launch.h"
#include "runnel/result.h"

namespace runnel::cuda {

/// A handle with its workspace. Used by one thread at a time.
class CublasLt {
 public:
  /// Null if the library is not there or refuses.
  static std::unique_ptr<CublasLt> load();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// matmul_bf16 by the library.
  /// @return false if it has no kernel for the shape: use ours.
  bool matmul(cudaStream_t stream, const Matmul& p);

 private:
  struct Impl;
  explicit CublasLt(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace runnel::cuda
