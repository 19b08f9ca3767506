// SPDX-License-Identifier: Apache-2.0
// The instruction sets that the kernels are compiled for, and which of them this CPU has.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "runtime/backend/cpu/kernels.h"

namespace runnel::cpu {

/// One compilation of the kernels. `generic` runs on every CPU of the architecture the library was built for.
enum class Isa {
  generic,      // GCC vector extensions: SSE2 on x86-64
  avx2,         // with FMA and F16C
  avx_vnni,     // AVX2 and AVX-VNNI
  avx512,       // F, BW, DQ, VL
  avx512_vnni,  // the same and VNNI
  avx512_zen4,  // avx512_vnni, tuned for AMD's Zen 4
  avx512_amx,  // avx512_vnni and AMX for int8, where the system lets the process have its registers
  neon,        // ARMv8.0
  neon_dotprod,
  neon_i8mm,  // with dotprod
};

/// "avx512_vnni", as written above.
std::string_view isa_name(Isa isa);

/// What this build and this CPU can run, slowest first. Asks Linux for the registers of AMX where there are some, for the
/// whole process and for good; see devices() in runnel/device.h.
std::vector<Isa> supported_isas();

/// The kernels of `isa`, or nothing if this build or this CPU does not have it.
std::optional<Kernels> find_kernels(Isa isa);

}  // namespace runnel::cpu
