// SPDX-License-Identifier: Apache-2.0
// Launches matvec_kernel with a work split that fits the matrices.
#include "cuda/device/ops/matvec.cuh"

namespace runnel::cuda {
namespace {

// A block's threads: one block per multiprocessor, so that a block of the next kernel finds room beside it and has
// its first weights before its input. swiglu takes 64 rows: gate and up of 32 channels.
constexpr int kWarps = 16;

template <MatvecOutput kOutput>
cudaError_t start(const Launch& l, const Matvec& a, const HeadNorm& heads, dim3 grid,
                  std::size_t shared, float* h, QuantisedVector hq) {
  return launch(l, matvec_kernel<kOutput, kWarps>, grid, kWarps * 32, shared, 1, a, heads, h, hq);
}

}  // namespace

cudaError_t prepare_matvec() {
  int device = 0, most = 0;
  if (cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return e;
  if (cudaError_t e =
          cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
      e != cudaSuccess) {
    return e;
  }
  const int dynamic = most - 16 * 1024;
  for (const void* kernel :
       {reinterpret_cast<const void*>(&matvec_kernel<MatvecOutput::store, kWarps>),
        reinterpret_cast<const void*>(&matvec_kernel<MatvecOutput::add, kWarps>),
        reinterpret_cast<const void*>(&matvec_kernel<MatvecOutput::swiglu, kWarps>)}) {
    if (cudaError_t e =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic);
        e != cudaSuccess) {
      return e;
    }
  }
  return cudaSuccess;
}

cudaError_t matvec(const Launch& l, MatvecOutput output, Matvec a, int tokens, float* h,
                   QuantisedVector hq) {
  return matvec(l, output, a, {}, tokens, h, hq);
}

cudaError_t matvec(const Launch& l, MatvecOutput output, Matvec a, const HeadNorm& heads,
                   int tokens, float* h, QuantisedVector hq) {
  int blocks = 0;
  bool plain = false, packed = false;
  int total_tiles = 0;
  for (int i = 0; i < a.num_segments; ++i) total_tiles += a.segments[i].w.tiles();
  for (int i = 0; i < a.num_segments; ++i) {
    MatvecSegment& s = a.segments[i];
    const bool block_type =
        s.w.type != BlockType::f32 && s.w.type != BlockType::f16 && s.w.type != BlockType::bf16;
    (block_type ? packed : plain) = true;
    if (output == MatvecOutput::swiglu) {
      s.tiles_per_block = 64 / s.w.tile_rows();
    } else {
      // Enough blocks for every multiprocessor, but at least two steps per warp.
      s.tiles_per_block = kWarps;
      while (s.tiles_per_block > 1 && s.w.steps / (2 * kWarps / s.tiles_per_block) >= 2 &&
             (total_tiles + s.tiles_per_block - 1) / s.tiles_per_block < l.multiprocessors) {
        s.tiles_per_block /= 2;
      }
    }
    s.first_block = blocks;
    blocks += (s.w.tiles() + s.tiles_per_block - 1) / s.tiles_per_block;
  }
  const std::size_t blocks32 = std::size_t(a.n + 31) / 32;
  const std::size_t shared = plain ? blocks32 * 128 : packed ? blocks32 * 40 : 0;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(tokens));
  switch (output) {
    case MatvecOutput::store:
      return start<MatvecOutput::store>(l, a, heads, grid, shared, h, hq);
    case MatvecOutput::add:
      return start<MatvecOutput::add>(l, a, heads, grid, shared, h, hq);
    case MatvecOutput::swiglu:
      return start<MatvecOutput::swiglu>(l, a, heads, grid, shared, h, hq);
  }
  return cudaErrorInvalidValue;
}

}  // namespace runnel::cuda
