// SPDX-License-Identifier: Apache-2.0
// The CPU as a Backend: threads, SIMD kernels chosen at run time, quantised weights used as they are.
//
//   RUNNEL_TRY(std::unique_ptr<Backend> backend, cpu::make_backend(0, {}));
#pragma once

#include <memory>
#include <optional>

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/isa.h"

namespace runnel::cpu {

/// @param threads  of every model loaded through it; 0: the CPUs this process may use
/// @param force    an instruction set other than the fastest this CPU has; for tests
/// @return invalid_argument for a bad number of threads; unsupported if the CPU lacks the forced instruction set
Result<std::unique_ptr<Backend>> make_backend(int threads, std::optional<Isa> force);

}  // namespace runnel::cpu
