// SPDX-License-Identifier: Apache-2.0
// C = A B^T for thousands of tokens on sm_90a, with what follows each product fused behind it.
//
// One block per multiprocessor walks tiles of 128 tokens x kN rows of B. A producer thread keeps
// kStages steps of 64 inner values in flight (bulk tensor copies, 128-byte swizzle); two groups of
// four warps multiply 64 tokens each (wgmma) and hand theirs to the copy engine while the producer
// already fetches the next one. Bound: 2 T rows K operations; a step of 128 x 256 x 64 takes the
// tensor cores 1,024 cycles and 48 KB from L2. Held for longer than some 100 ms it is the board's
// power limit that bounds it.
#include <cudaTypedefs.h>

#include <algorithm>

#include "cuda/device/launch.cuh"
#include "cuda/device/ops/fast_activation.cuh"
#include "cuda/device/ops/wgmma.cuh"
#include "cuda/prefill.h"

namespace runnel::cuda {
namespace {

constexpr int kM = 128;        // tokens of a tile
constexpr int kStep = 64;      // inner values of a stage: 128 bytes, the widest swizzle
constexpr int kThreads = 384;  // a producer group, two groups that multiply

constexpr int kPiece = 64 * 128;  // bytes of a piece of output: 64 rows of 128 bytes

template <int kN>
struct Stage {
  static constexpr int kA = kM * kStep * 2, kB = kN * kStep * 2, kBytes = kA + kB;
  static constexpr int kCount = kN == 256 ? 4 : 6;
  // and alignment, barriers
  static constexpr int kShared = kCount * kBytes + 4 * kPiece + 1024 + 256;
};

struct Args {
  WideMatmul m;
  int token_tiles;  // of kM tokens
  int row_tiles;
  int group;  // token tiles
  int split;  // tiles from here on are cut into halves of kN / 2 rows, so that no wave is nearly
              // empty
  int units;  // tiles and halves
};

#if RUNNEL_WGMMA

/// The tile of unit i.
/// @return its half, or -1 for a whole one.
__device__ __forceinline__ int tile_of(const Args& a, int i, int& tile) {
  const int beyond = i - a.split;
  tile = beyond < 0 ? i : a.split + beyond / 2;
  return beyond < 0 ? -1 : beyond & 1;
}

__device__ __forceinline__ void tile_at(const Args& a, int i, int& token_tile, int& row_tile) {
  const int per_group = a.group * a.row_tiles, g = i / per_group, within = i - g * per_group;
  const int size = min(a.group, a.token_tiles - g * a.group);
  token_tile = g * a.group + within % size;
  row_tile = within / size;
}

/// A warp group's way of its sums to memory: pieces of 64 rows of 128 bytes through two buffers in
/// shared memory, swizzled as the copy engine's 128-byte pattern; it writes whole lines.
struct Pieces {
  std::uint32_t buffers;  // 2 * kPiece
  int which = 0;
  int barrier;  // of the group
  bool leader;
  std::uint32_t row;       // byte offset of this lane's row
  int row_in_eight, quad;  // lane / 4, lane % 4

  __device__ __forceinline__ std::uint32_t begin() {
    if (leader) store_wait_read<1>();
    group_barrier(barrier, 128);
    return buffers + which * kPiece + row;
  }
  __device__ __forceinline__ void end(const CUtensorMap* map, int column, int token, bool add) {
    fence_for_copies();
    group_barrier(barrier, 128);
    if (leader) {
      if (add) {
        add_box(map, column, token, buffers + which * kPiece);
      } else {
        store_box(map, column, token, buffers + which * kPiece);
      }
      store_commit();
    }
    which ^= 1;
  }
  /// Pair of bf16 values `pair` of 16-byte column c, eight rows further with `half`.
  __device__ __forceinline__ void put(std::uint32_t at, int c, int half, int pair,
                                      std::uint32_t v) const {
    store_shared(at + half * 1024 + ((c ^ row_in_eight) << 4) + pair * 4, v);
  }
  /// Columns 2 quad, + 1 of eight f32 columns that begin at 16-byte column c.
  __device__ __forceinline__ void put(std::uint32_t at, int c, int half, float x, float y) const {
    store_shared(at + half * 1024 + (((c + (quad >> 1)) ^ row_in_eight) << 4) + (quad & 1) * 8, x,
                 y);
  }
};

/// Where a warp group's sums belong: 64 tokens and `width` rows of B.
struct SumsAt {
  int token, row, width;
};

template <int kN, WideOutput kOutput>
__device__ __forceinline__ void write_tile(const Args& args, const float (&acc)[kN / 2],
                                           const CUtensorMap* map_c, const CUtensorMap* map_g,
                                           Pieces& pieces, SumsAt place) {
  const Matmul& p = args.m.p;
  const int token = place.token, row0 = place.row, width = place.width;
  if (token >= p.tokens) return;
  if constexpr (kOutput == WideOutput::store_f32 || kOutput == WideOutput::add_f32) {
#pragma unroll
    for (int g = 0; g < kN / 32; ++g) {
      if (g * 32 >= width || row0 + g * 32 >= p.rows) return;
      const std::uint32_t at = pieces.begin();
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int e = (g * 4 + j) * 4 + half * 2;
          pieces.put(at, 2 * j, half, acc[e], acc[e + 1]);
        }
      }
      pieces.end(map_c, row0 + g * 32, token, kOutput == WideOutput::add_f32);
    }
  } else if constexpr (kOutput == WideOutput::swiglu) {
#pragma unroll
    for (int g = 0; g < kN / 128; ++g) {
      if (g * 128 >= width || row0 + g * 128 >= p.rows) return;
      const std::uint32_t at = pieces.begin();
      const bool odd = (pieces.quad & 1) != 0;
#pragma unroll
      for (int j = 0; j < 16; j += 2) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int e = (g * 16 + j) * 4 + half * 2;
          const float first = fast_swish(acc[e]) * acc[e + 1],
                      second = fast_swish(acc[e + 4]) * acc[e + 5];
          // Neighbours trade: even lanes take two columns of the first block, odd of the second.
          const float got = __shfl_xor_sync(~0U, odd ? first : second, 1);
          pieces.put(at, j / 2, half, odd ? 2 + (pieces.quad >> 1) : pieces.quad >> 1,
                     odd ? pack_bf16(got, second) : pack_bf16(first, got));
        }
      }
      pieces.end(map_c, row0 / 2 + g * 64, token, false);
    }
  } else {
    const SlotColumns& s = args.m.slots;
    const int wide = kOutput == WideOutput::slots ? s.q + s.k + s.v : p.rows;
#pragma unroll
    for (int g = 0; g < kN / 64; ++g) {
      const int column = row0 + g * 64;
      if (g * 64 >= width || column >= p.rows) return;
      if (column < wide) {
        const std::uint32_t at = pieces.begin();
        const auto put_all = [&](auto activation) {
#pragma unroll
          for (int j = 0; j < 8; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const int e = (g * 8 + j) * 4 + half * 2;
              pieces.put(at, j, half, pieces.quad,
                         pack_bf16(activation(acc[e]), activation(acc[e + 1])));
            }
          }
        };
        Act act = Act::identity;
        if constexpr (kOutput == WideOutput::slots) act = column < s.q + s.k ? s.qk_act : s.v_act;
        if (act == Act::swish) {
          put_all([](float x) { return fast_swish(x); });
        } else if (act == Act::relu) {
          put_all([](float x) { return fmaxf(x, 0.0F); });
        } else {
          put_all([](float x) { return x; });
        }
        pieces.end(map_c, column, token, false);
        continue;
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int f = column - wide + h * 32;
        const std::uint32_t at = pieces.begin();
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int e = (g * 8 + h * 4 + j) * 4 + half * 2;
            pieces.put(at, 2 * j, half, acc[e], acc[e + 1]);
          }
        }
        pieces.end(map_g, f, token, false);
      }
    }
  }
}

#endif

template <int kN, WideOutput kOutput>
__global__ void __launch_bounds__(kThreads, 1)
    wide_kernel(const __grid_constant__ Args args, const __grid_constant__ CUtensorMap map_a,
                const __grid_constant__ CUtensorMap map_b,
                const __grid_constant__ CUtensorMap map_half,
                const __grid_constant__ CUtensorMap map_c,
                const __grid_constant__ CUtensorMap map_g) {
#if RUNNEL_WGMMA
  using S = Stage<kN>;
  extern __shared__ unsigned char raw[];
  const std::uint32_t base = (shared_address(raw) + 1023U) & ~1023U;
  const std::uint32_t buffers = base + S::kCount * S::kBytes, full = buffers + 4 * kPiece,
                      empty = full + 8 * S::kCount;
  const int tid = int(threadIdx.x), warp = tid >> 5;
  const int steps = (args.m.p.inner + kStep - 1) / kStep;
  const int first = int(blockIdx.x), stride = int(gridDim.x);
  chain_trigger();
  if (tid == 0) {
    for (int s = 0; s < S::kCount; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, 8);  // one arrival per warp that multiplies
    }
    barrier_init_done();
  }
  __syncthreads();
  chain_wait();

  if (warp < 4) {
    registers_down<40>();
    if (tid == 0) {
      int stage = 0;
      unsigned phase = 1;  // a fresh barrier counts as released
      for (int i = first; i < args.units; i += stride) {
        int t = 0, token_tile = 0, row_tile = 0;
        const int half = tile_of(args, i, t);
        tile_at(args, t, token_tile, row_tile);
        const int token = token_tile * kM, row = row_tile * kN + (half > 0 ? kN / 2 : 0);
        for (int k = 0; k < steps; ++k) {
          barrier_wait(empty + 8 * stage, phase);
          const std::uint32_t at = base + stage * S::kBytes;
          barrier_expect(full + 8 * stage, half < 0 ? S::kBytes : S::kBytes - S::kB / 2);
          copy_box(at, &map_a, k * kStep, token, full + 8 * stage);
          copy_box(at + S::kA, half < 0 ? &map_b : &map_half, k * kStep, row, full + 8 * stage);
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
    Pieces pieces{.buffers = buffers + group * 2 * kPiece,
                  .barrier = 1 + group,
                  .leader = tid % 128 == 0,
                  .row = std::uint32_t(warp % 4 * 16 + (lane >> 2)) * 128,
                  .row_in_eight = lane >> 2,
                  .quad = lane & 3};
    const auto release = [&](int s) {
      if (lane == 0) barrier_arrive(empty + 8 * s);
    };
    const auto multiply = [&]<int kWidth>(float(&sums)[kWidth / 2]) {
      int before = -1;
      for (int k = 0; k < steps; ++k) {
        barrier_wait(full + 8 * stage, phase);
        const std::uint32_t at = base + stage * S::kBytes;
        const std::uint64_t da = tile_descriptor(at + group * (64 * kStep * 2)),
                            db = tile_descriptor(at + S::kA);
        hold(sums);
        wgmma_begin();
#pragma unroll
        for (int kk = 0; kk < kStep / 16; ++kk)
          Wgmma<kWidth>::run(sums, da + kk * 2, db + kk * 2, k > 0 || kk > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (before >= 0) release(before);
        before = stage;
        if (++stage == S::kCount) stage = 0, phase ^= 1;
      }
      wgmma_wait<0>();
      hold(sums);
      release(before);
    };
    for (int i = first; i < args.units; i += stride) {
      int t = 0, token_tile = 0, row_tile = 0;
      const int half = tile_of(args, i, t);
      tile_at(args, t, token_tile, row_tile);
      const int token = token_tile * kM + group * 64;
      if constexpr (kN == 256) {
        if (half >= 0) {
          multiply.template operator()<kN / 2>(reinterpret_cast<float(&)[kN / 4]>(acc));
        } else {
          multiply.template operator()<kN>(acc);
        }
      } else {
        multiply.template operator()<kN>(acc);
      }
      write_tile<kN, kOutput>(
          args, acc, &map_c, &map_g, pieces,
          {token, row_tile * kN + (half > 0 ? kN / 2 : 0), half < 0 ? kN : kN / 2});
    }
    if (pieces.leader) store_wait();
  }
  __syncwarp();
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

/// A matrix [rows, columns] in boxes of 128 bytes x box_rows.
bool describe(CUtensorMap& map, const void* data, bool bf16, int rows, int columns, int ld,
              int box_rows) {
  const cuuint64_t bytes = bf16 ? 2 : 4;
  const cuuint64_t sizes[2] = {cuuint64_t(columns), cuuint64_t(rows)};
  const cuuint64_t strides[1] = {cuuint64_t(ld) * bytes};
  const cuuint32_t box[2] = {cuuint32_t(128 / bytes), cuuint32_t(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  return encode()(&map, bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                  2, const_cast<void*>(data), sizes, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int kN, WideOutput kOutput>
cudaError_t start(const Launch& l, const WideMatmul& m, const WideTuning& t) {
  const Matmul& p = m.p;
  Args a{.m = m,
         .token_tiles = (p.tokens + kM - 1) / kM,
         .row_tiles = (p.rows + kN - 1) / kN,
         .group = std::max(1, t.group)};
  const int tiles = a.token_tiles * a.row_tiles, wave = l.multiprocessors, rest = tiles % wave;
  const bool halves = kN == 256 && t.halves && 2 * rest <= wave;
  a.split = halves ? tiles - rest : tiles;
  a.units = halves ? tiles + rest : tiles;
  CUtensorMap map_a, map_b, map_half, map_c{}, map_g{};
  bool described = describe(map_a, p.a, true, p.tokens, p.inner, p.lda, kM) &&
                   describe(map_b, p.b, true, p.rows, p.inner, p.ldb, kN) &&
                   describe(map_half, p.b, true, p.rows, p.inner, p.ldb, kN / 2);
  if constexpr (kOutput == WideOutput::slots) {
    const int wide = m.slots.q + m.slots.k + m.slots.v;
    described = described && describe(map_c, m.slots.activated, true, p.tokens, wide, wide, 64) &&
                describe(map_g, m.slots.gates, false, p.tokens, m.slots.f, m.slots.f, 64);
  } else {
    constexpr bool kFloats = kOutput == WideOutput::store_f32 || kOutput == WideOutput::add_f32;
    const int columns = kOutput == WideOutput::swiglu ? p.rows / 2 : p.rows;
    described = described && describe(map_c, p.c, !kFloats, p.tokens, columns, p.ldc, 64);
  }
  if (!described) return cudaErrorInvalidValue;
  const int blocks = std::min(a.units, wave);
  return launch(l, wide_kernel<kN, kOutput>, dim3(unsigned(blocks)), kThreads, Stage<kN>::kShared,
                1, a, map_a, map_b, map_half, map_c, map_g);
}

template <int kN>
cudaError_t choose(const Launch& l, const WideMatmul& m, const WideTuning& t) {
  switch (m.output) {
    case WideOutput::store_f32:
      return start<kN, WideOutput::store_f32>(l, m, t);
    case WideOutput::add_f32:
      return start<kN, WideOutput::add_f32>(l, m, t);
    case WideOutput::store_bf16:
      return start<kN, WideOutput::store_bf16>(l, m, t);
    case WideOutput::swiglu:
      return start<kN, WideOutput::swiglu>(l, m, t);
    case WideOutput::slots:
      return start<kN, WideOutput::slots>(l, m, t);
  }
  return cudaErrorInvalidValue;
}

template <int kN, WideOutput kOutput>
bool allow() {
  const void* kernel = reinterpret_cast<const void*>(&wide_kernel<kN, kOutput>);
  cudaFuncAttributes facts{};
  // Built for plain sm_90 the body is empty: hardly any registers.
  return cudaFuncGetAttributes(&facts, kernel) == cudaSuccess && facts.numRegs >= 128 &&
         cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Stage<kN>::kShared) == cudaSuccess;
}
template <int kN>
bool allow_all() {
  return allow<kN, WideOutput::store_f32>() && allow<kN, WideOutput::add_f32>() &&
         allow<kN, WideOutput::store_bf16>() && allow<kN, WideOutput::swiglu>() &&
         allow<kN, WideOutput::slots>();
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
  const bool allowed = allow_all<256>() && allow_all<128>();
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
  switch (m.output) {  // the copy engine clips rows of C at 16 bytes
    case WideOutput::store_f32:
    case WideOutput::add_f32:
      return p.rows % 4 == 0 && p.ldc % 4 == 0 && aligned(p.c);
    case WideOutput::store_bf16:
      return p.rows % 8 == 0 && p.ldc % 8 == 0 && aligned(p.c);
    case WideOutput::swiglu:
      return p.rows % 16 == 0 && p.ldc % 8 == 0 && aligned(p.c);
    case WideOutput::slots: {
      const SlotColumns& s = m.slots;
      return (s.q + s.k) % 64 == 0 && s.v % 64 == 0 && s.f % 64 == 0 &&
             s.q + s.k + s.v + s.f == p.rows && s.f > 0 && aligned(s.activated) && aligned(s.gates);
    }
  }
  return false;
}

cudaError_t wide_matmul(const Launch& l, const WideMatmul& m, const WideTuning& t) {
  return t.columns == 128 ? choose<128>(l, m, t) : choose<256>(l, m, t);
}

}  // namespace runnel::cuda
