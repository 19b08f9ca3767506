// SPDX-License-Identifier: Apache-2.0
// C = A B^T for thousands of tokens on sm_90a, with what follows each product fused behind it.
//
// One block a multiprocessor walks tiles of 128 tokens x kN rows of B. A producer thread keeps
// kStages steps of 64 inner values in flight (bulk tensor copies, 128-byte swizzle); two groups of
// four warps multiply 64 tokens each (wgmma) and write their tile while the producer already
// fetches the next one. With clusters of two, blocks of neighbouring token tiles fetch half of B
// each and share it. Bound: 2 T rows K operations; a step of 128 x 256 x 64 takes the tensor cores
// 1,024 cycles and 48 KB from L2, 32 KB with a cluster.
#include <cudaTypedefs.h>

#include <algorithm>

#include "cuda/device/launch.cuh"
#include "cuda/device/math.cuh"
#include "cuda/device/wgmma.cuh"
#include "cuda/prefill.h"

namespace runnel::cuda {
namespace {

constexpr int kM = 128;        // tokens of a tile
constexpr int kStep = 64;      // inner values of a stage: 128 bytes, the widest swizzle
constexpr int kThreads = 384;  // a producer group, two groups that multiply

template <int kN>
struct Stage {
  static constexpr int kA = kM * kStep * 2, kB = kN * kStep * 2, kBytes = kA + kB;
  static constexpr int kCount = kN == 256 ? 4 : 6;
  static constexpr int kShared = kCount * kBytes + 1024 + 256;  // alignment, barriers
};

struct Args {
  WideMatmul m;
  int token_tiles;  // of kM * cluster tokens
  int row_tiles;
  int group;  // token tiles
};

__device__ __forceinline__ void tile_at(const Args& a, int i, int& token_tile, int& row_tile) {
  const int per_group = a.group * a.row_tiles, g = i / per_group, within = i - g * per_group;
  const int size = min(a.group, a.token_tiles - g * a.group);
  token_tile = g * a.group + within % size;
  row_tile = within / size;
}

/// Two neighbouring blocks of eight columns, packed in pairs: lanes trade so that each holds four
/// columns in a row and four lanes cover 32 bytes. @return the first column, of the 16.
__device__ __forceinline__ int trade_pairs(std::uint32_t first, std::uint32_t second, uint2& out) {
  const int q = int(threadIdx.x) & 3;
  const bool odd = (q & 1) != 0;
  const std::uint32_t got = __shfl_xor_sync(~0U, odd ? first : second, 1);
  out = odd ? make_uint2(got, second) : make_uint2(first, got);
  return odd ? 8 + 2 * (q - 1) : 2 * q;
}

/// One value each of four blocks: lane q of four ends with the four values of block q.
__device__ __forceinline__ uint2 trade_blocks(std::uint32_t v01, std::uint32_t v23) {
  const int q = int(threadIdx.x) & 3;
  const bool high = q >= 2, odd = (q & 1) != 0;
  const std::uint32_t got = __shfl_xor_sync(~0U, high ? v01 : v23, 2);
  // Lower and upper half: of two blocks; columns of lane q & 1, then of lane (q & 1) + 2.
  const std::uint32_t low = high ? got : v01, up = high ? v23 : got;
  const std::uint32_t even_block = __byte_perm(low, up, 0x5410),
                      odd_block = __byte_perm(low, up, 0x7632);
  const std::uint32_t other = __shfl_xor_sync(~0U, odd ? even_block : odd_block, 1);
  const std::uint32_t a = odd ? other : even_block, b = odd ? odd_block : other;
  return make_uint2(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632));
}

template <int kN, WideOutput kOutput>
__device__ __forceinline__ void write_tile(const Args& args, const float (&acc)[kN / 2], int token,
                                           int row0) {
  const Matmul& p = args.m.p;
  const int q = int(threadIdx.x) & 3;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int t = token + half * 8;
    const bool valid = t < p.tokens;
    if constexpr (kOutput == WideOutput::store_f32) {
      float* out = static_cast<float*>(p.c) + std::size_t(t) * p.ldc + row0 + q * 2;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        if (valid && row0 + j * 8 + q * 2 < p.rows) {
          *reinterpret_cast<float2*>(out + j * 8) =
              make_float2(acc[j * 4 + half * 2], acc[j * 4 + half * 2 + 1]);
        }
      }
    } else if constexpr (kOutput == WideOutput::add_f32) {
      float* out = static_cast<float*>(p.c) + std::size_t(t) * p.ldc + row0 + q * 2;
      constexpr int kAhead = 16;
#pragma unroll
      for (int j0 = 0; j0 < kN / 8; j0 += kAhead) {
        float2 before[kAhead];
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          if (valid && row0 + (j0 + j) * 8 + q * 2 < p.rows)
            before[j] = *reinterpret_cast<const float2*>(out + (j0 + j) * 8);
        }
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          const int at = (j0 + j) * 4 + half * 2;
          if (valid && row0 + (j0 + j) * 8 + q * 2 < p.rows) {
            *reinterpret_cast<float2*>(out + (j0 + j) * 8) =
                make_float2(before[j].x + acc[at], before[j].y + acc[at + 1]);
          }
        }
      }
    } else if constexpr (kOutput == WideOutput::store_bf16) {
      auto* out = static_cast<std::uint16_t*>(p.c) + std::size_t(t) * p.ldc + row0;
#pragma unroll
      for (int j = 0; j < kN / 8; j += 2) {
        const int at = j * 4 + half * 2;
        uint2 v;
        const int c = j * 8 + trade_pairs(pack_bf16(acc[at], acc[at + 1]),
                                          pack_bf16(acc[at + 4], acc[at + 5]), v);
        if (valid && row0 + c < p.rows) *reinterpret_cast<uint2*>(out + c) = v;
      }
    } else if constexpr (kOutput == WideOutput::swiglu) {
      auto* out = static_cast<std::uint16_t*>(p.c) + std::size_t(t) * p.ldc + row0 / 2;
#pragma unroll
      for (int j = 0; j < kN / 8; j += 4) {
        float h[4];
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          const int at = (j + b) * 4 + half * 2;
          h[b] = swish(acc[at]) * acc[at + 1];
        }
        const uint2 v = trade_blocks(pack_bf16(h[0], h[1]), pack_bf16(h[2], h[3]));
        const int c = (j + q) * 4;
        if (valid && row0 / 2 + c < p.rows / 2) *reinterpret_cast<uint2*>(out + c) = v;
      }
    } else {
      const SlotColumns& s = args.m.slots;
#pragma unroll
      for (int j = 0; j < kN / 8; j += 2) {
        const int at = j * 4 + half * 2, row = row0 + j * 8;  // a region is a multiple of 16 rows
        if (row >= p.rows) continue;
        const int f = row - s.q - s.k - s.v;
        if (f >= 0) {
          float* out = s.gates + std::size_t(t) * s.f + f + q * 2;
#pragma unroll
          for (int b = 0; b < 2; ++b) {
            float2 bias = make_float2(0.0F, 0.0F);
            if (s.f_bias != nullptr)
              bias = *reinterpret_cast<const float2*>(s.f_bias + f + b * 8 + q * 2);
            const float2 v = make_float2(
                log_decay(acc[at + b * 4] + bias.x, s.gate_normalizer, s.gate_log_min),
                log_decay(acc[at + b * 4 + 1] + bias.y, s.gate_normalizer, s.gate_log_min));
            if (valid) *reinterpret_cast<float2*>(out + b * 8) = v;
          }
          continue;
        }
        const bool in_q = row < s.q, in_k = row < s.q + s.k;
        const Act act = in_k ? s.qk_act : s.v_act;
        const int columns = in_q ? s.q : in_k ? s.k : s.v;
        const int first = in_q ? row : in_k ? row - s.q : row - s.q - s.k;
        std::uint16_t* out = (in_q ? s.q_out : in_k ? s.k_out : s.v_out) + first;
        uint2 v;
        const int c =
            trade_pairs(pack_bf16(activate(act, acc[at]), activate(act, acc[at + 1])),
                        pack_bf16(activate(act, acc[at + 4]), activate(act, acc[at + 5])), v);
        if (valid) *reinterpret_cast<uint2*>(out + std::size_t(t) * columns + c) = v;
      }
    }
  }
}

template <int kN, int kCluster, WideOutput kOutput>
__global__ void __launch_bounds__(kThreads, 1)
    wide_kernel(const __grid_constant__ Args args, const __grid_constant__ CUtensorMap map_a,
                const __grid_constant__ CUtensorMap map_b) {
#if RUNNEL_WGMMA
  using S = Stage<kN>;
  extern __shared__ unsigned char raw[];
  const std::uint32_t base = (shared_address(raw) + 1023U) & ~1023U;
  const std::uint32_t full = base + S::kCount * S::kBytes, empty = full + 8 * S::kCount;
  const int tid = int(threadIdx.x), warp = tid >> 5;
  const unsigned rank = kCluster > 1 ? cluster_rank() : 0;
  const int tiles = args.token_tiles * args.row_tiles;
  const int steps = (args.m.p.inner + kStep - 1) / kStep;
  const int first = int(blockIdx.x) / kCluster, stride = int(gridDim.x) / kCluster;
  chain_trigger();
  if (tid == 0) {
    for (int s = 0; s < S::kCount; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, 8 * kCluster);  // one arrival a warp that multiplies
    }
    barrier_init_done();
  }
  __syncthreads();
  if constexpr (kCluster > 1) cluster_sync();
  chain_wait();

  if (warp < 4) {
    registers_down<40>();
    if (tid == 0) {
      int stage = 0;
      unsigned phase = 1;  // a fresh barrier counts as released
      for (int i = first; i < tiles; i += stride) {
        int token_tile = 0, row_tile = 0;
        tile_at(args, i, token_tile, row_tile);
        const int token = (token_tile * kCluster + int(rank)) * kM, row = row_tile * kN;
        for (int k = 0; k < steps; ++k) {
          barrier_wait(empty + 8 * stage, phase);
          const std::uint32_t at = base + stage * S::kBytes;
          barrier_expect(full + 8 * stage, S::kBytes);
          copy_box(at, &map_a, k * kStep, token, full + 8 * stage);
          if constexpr (kCluster == 1) {
            copy_box(at + S::kA, &map_b, k * kStep, row, full + 8 * stage);
          } else {
            constexpr int kHalf = kN / 2;
            copy_box(at + S::kA + rank * (S::kB / 2), &map_b, k * kStep, row + int(rank) * kHalf,
                     full + 8 * stage, std::uint16_t(3));
          }
          if (++stage == S::kCount) stage = 0, phase ^= 1;
        }
      }
    }
  } else {
    registers_up<232>();
    const int group = warp / 4 - 1, lane = tid & 31;
    int stage = 0;
    unsigned phase = 0;
    float acc[kN / 2];
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) acc[i] = 0.0F;
    const auto release = [&](int s) {
      if (lane < kCluster) barrier_arrive(empty + 8 * s, unsigned(lane));
    };
    for (int i = first; i < tiles; i += stride) {
      int before = -1;
      for (int k = 0; k < steps; ++k) {
        barrier_wait(full + 8 * stage, phase);
        const std::uint32_t at = base + stage * S::kBytes;
        const std::uint64_t da = tile_descriptor(at + group * (64 * kStep * 2)),
                            db = tile_descriptor(at + S::kA);
        hold(acc);
        wgmma_begin();
#pragma unroll
        for (int kk = 0; kk < kStep / 16; ++kk)
          Wgmma<kN>::run(acc, da + kk * 2, db + kk * 2, k > 0 || kk > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (before >= 0) release(before);
        before = stage;
        if (++stage == S::kCount) stage = 0, phase ^= 1;
      }
      wgmma_wait<0>();
      hold(acc);
      release(before);
      int token_tile = 0, row_tile = 0;
      tile_at(args, i, token_tile, row_tile);
      const int token =
          (token_tile * kCluster + int(rank)) * kM + group * 64 + warp % 4 * 16 + (lane >> 2);
      write_tile<kN, kOutput>(args, acc, token, row_tile * kN);
    }
  }
  __syncwarp();
  if constexpr (kCluster > 1) cluster_sync();  // the neighbour may still write here
#endif
}

PFN_cuTensorMapEncodeTiled_v12000 find_encode() {
  void* f = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault,
                                       &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    return nullptr;
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(f);
}

PFN_cuTensorMapEncodeTiled_v12000 encode() {
  static const PFN_cuTensorMapEncodeTiled_v12000 f = find_encode();
  return f;
}

/// bf16 [rows, columns], boxes of kStep columns.
bool describe(CUtensorMap& map, const void* data, int rows, int columns, int ld, int box_rows) {
  const cuuint64_t sizes[2] = {cuuint64_t(columns), cuuint64_t(rows)};
  const cuuint64_t strides[1] = {cuuint64_t(ld) * 2};
  const cuuint32_t box[2] = {kStep, cuuint32_t(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  return encode()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(data), sizes,
                  strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int kN, int kCluster, WideOutput kOutput>
cudaError_t start(const Launch& l, const WideMatmul& m, const WideTuning& t) {
  const Matmul& p = m.p;
  Args a{.m = m,
         .token_tiles = (p.tokens + kM * kCluster - 1) / (kM * kCluster),
         .row_tiles = (p.rows + kN - 1) / kN,
         .group = std::max(1, t.group / kCluster)};
  CUtensorMap map_a, map_b;
  if (!describe(map_a, p.a, p.tokens, p.inner, p.lda, kM) ||
      !describe(map_b, p.b, p.rows, p.inner, p.ldb, kN / kCluster)) {
    return cudaErrorInvalidValue;
  }
  const int blocks = std::min(a.token_tiles * a.row_tiles, l.multiprocessors / kCluster) * kCluster;
  return launch(l, wide_kernel<kN, kCluster, kOutput>, dim3(unsigned(blocks)), kThreads,
                Stage<kN>::kShared, kCluster, a, map_a, map_b);
}

template <int kN, int kCluster>
cudaError_t choose(const Launch& l, const WideMatmul& m, const WideTuning& t) {
  switch (m.output) {
    case WideOutput::store_f32:
      return start<kN, kCluster, WideOutput::store_f32>(l, m, t);
    case WideOutput::add_f32:
      return start<kN, kCluster, WideOutput::add_f32>(l, m, t);
    case WideOutput::store_bf16:
      return start<kN, kCluster, WideOutput::store_bf16>(l, m, t);
    case WideOutput::swiglu:
      return start<kN, kCluster, WideOutput::swiglu>(l, m, t);
    case WideOutput::slots:
      return start<kN, kCluster, WideOutput::slots>(l, m, t);
  }
  return cudaErrorInvalidValue;
}

template <int kN, int kCluster, WideOutput kOutput>
bool allow() {
  const void* kernel = reinterpret_cast<const void*>(&wide_kernel<kN, kCluster, kOutput>);
  cudaFuncAttributes facts{};
  // Built for plain sm_90 the body is empty: hardly any registers.
  return cudaFuncGetAttributes(&facts, kernel) == cudaSuccess && facts.numRegs >= 128 &&
         cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Stage<kN>::kShared) == cudaSuccess;
}
template <int kN, int kCluster>
bool allow_all() {
  return allow<kN, kCluster, WideOutput::store_f32>() &&
         allow<kN, kCluster, WideOutput::add_f32>() &&
         allow<kN, kCluster, WideOutput::store_bf16>() &&
         allow<kN, kCluster, WideOutput::swiglu>() && allow<kN, kCluster, WideOutput::slots>();
}

}  // namespace

bool prepare_wide_matmul() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
      major != 9 || minor != 0 || encode() == nullptr) {
    return false;
  }
  const bool allowed = allow_all<256, 1>() && allow_all<256, 2>() && allow_all<128, 1>();
  if (!allowed) static_cast<void>(cudaGetLastError());
  return allowed;
}

bool wide_matmul_fits(const WideMatmul& m) {
  const Matmul& p = m.p;
  const auto aligned = [](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  };
  if (p.lda % 8 != 0 || p.ldb % 8 != 0 || !aligned(p.a) || !aligned(p.b) || p.tokens < 1 ||
      p.rows < 1 || p.inner < 1) {
    return false;
  }
  switch (m.output) {
    case WideOutput::store_f32:
    case WideOutput::add_f32:
      return p.rows % 2 == 0 && p.ldc % 2 == 0 && aligned(p.c);
    case WideOutput::store_bf16:
      return p.rows % 4 == 0 && p.ldc % 4 == 0 && aligned(p.c);
    case WideOutput::swiglu:
      return p.rows % 8 == 0 && p.ldc % 4 == 0 && aligned(p.c);
    case WideOutput::slots: {
      const SlotColumns& s = m.slots;
      return s.q % 32 == 0 && s.k % 32 == 0 && s.v % 32 == 0 && s.f % 32 == 0 &&
             s.q + s.k + s.v + s.f == p.rows && aligned(s.q_out) && aligned(s.k_out) &&
             aligned(s.v_out) && aligned(s.gates) && aligned(s.f_bias);
    }
  }
  return false;
}

cudaError_t wide_matmul(const Launch& l, const WideMatmul& m, const WideTuning& t) {
  if (t.columns == 128) return choose<128, 1>(l, m, t);
  return t.cluster == 2 ? choose<256, 2>(l, m, t) : choose<256, 1>(l, m, t);
}

}  // namespace runnel::cuda
