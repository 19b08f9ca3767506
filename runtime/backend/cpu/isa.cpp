// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cpu/isa.h"

#include "runtime/backend/cpu/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace runnel::cpu {

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::generic:
      return "generic";
    case Isa::avx2:
      return "avx2";
    case Isa::avx_vnni:
      return "avx_vnni";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_vnni:
      return "avx512_vnni";
    case Isa::avx512_zen4:
      return "avx512_zen4";
    case Isa::avx512_amx:
      return "avx512_amx";
    case Isa::neon:
      return "neon";
    case Isa::neon_dotprod:
      return "neon_dotprod";
    case Isa::neon_i8mm:
      return "neon_i8mm";
  }
  return "unknown";
}

#if defined(__x86_64__)
namespace {

bool has_avx_vnni() {
  // CPUID leaf 7, subleaf 1, EAX bit 4; GCC 12's __builtin_cpu_supports has no name for it.
  unsigned highest = 0, a = 0, b = 0, c = 0, d = 0;
  asm volatile("cpuid" : "=a"(highest), "=b"(b), "=c"(c), "=d"(d) : "a"(0), "c"(0));
  if (highest < 7) return false;
  asm volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(1));
  return (a & (1U << 4)) != 0;
}

/// AMD's family 19h; with AVX-512 it is Zen 4, without Zen 3.
bool is_zen3_or_4() { return __builtin_cpu_is("amdfam19h") != 0; }

bool has_amx_int8() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kTile = 1U << 24, kInt8 = 1U << 25;
  return (d & (kTile | kInt8)) == (kTile | kInt8);
}

/// Asks Linux for the tile registers, which a process has to before it uses them. Refused by kernels before 5.16, and where a
/// thread's alternative stack for signals is too small for 8 KiB of registers more.
bool may_use_amx() {
  constexpr long kRequestPermission = 0x1023,
                 kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace
#endif

std::vector<Isa> supported_isas() {
  std::vector<Isa> found{Isa::generic};
#if defined(__x86_64__)
  __builtin_cpu_init();
  // __builtin_cpu_supports also asks whether the system saves the wide registers.
  // F16C is read from cpuid: clang 14 has no name for it.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx2) found.push_back(Isa::avx2);
  if (avx2 && has_avx_vnni()) found.push_back(Isa::avx_vnni);
  if (avx512) found.push_back(Isa::avx512);
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  if (vnni) found.push_back(Isa::avx512_vnni);
  if (vnni && is_zen3_or_4()) found.push_back(Isa::avx512_zen4);
  if (vnni && has_amx_int8() && may_use_amx()) found.push_back(Isa::avx512_amx);
#elif defined(__aarch64__)
  found.push_back(Isa::neon);
  const unsigned long caps = getauxval(AT_HWCAP);
  const unsigned long caps2 = getauxval(AT_HWCAP2);
  if ((caps & HWCAP_ASIMDDP) != 0) {
    found.push_back(Isa::neon_dotprod);
    if ((caps2 & HWCAP2_I8MM) != 0) found.push_back(Isa::neon_i8mm);
  }
#endif
  return found;
}

std::optional<Kernels> find_kernels(Isa isa) {
  bool supported = false;
  for (const Isa s : supported_isas()) supported = supported || s == isa;
  if (!supported) return std::nullopt;
  switch (isa) {
    case Isa::generic:
      return generic::kernels();
#if defined(__x86_64__)
    case Isa::avx2:
      return avx2::kernels();
    case Isa::avx_vnni:
      return avx_vnni::kernels();
    case Isa::avx512:
      return avx512::kernels();
    case Isa::avx512_vnni:
      return avx512_vnni::kernels();
    case Isa::avx512_zen4:
      return avx512_zen4::kernels();
    case Isa::avx512_amx:
      return avx512_amx::kernels();
#elif defined(__aarch64__)
    case Isa::neon:
      return neon::kernels();
    case Isa::neon_dotprod:
      return neon_dotprod::kernels();
    case Isa::neon_i8mm:
      return neon_i8mm::kernels();
#endif
    default:
      return std::nullopt;
  }
}

}  // namespace runnel::cpu
