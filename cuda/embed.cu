// SPDX-License-Identifier: Apache-2.0
// x[t] = table[token[t]]: one block per token, eight values per thread. Bound: a row of the table, a
// few microseconds' latency.
#include "cuda/device/launch.cuh"
#include "cuda/device/packed.cuh"

namespace runnel::cuda {
namespace {

__global__ void embed_kernel(const __grid_constant__ Matrix table, const std::int32_t* tokens,
                             int d, float* x) {
  chain_trigger();
  chain_wait();
  const int token = tokens[blockIdx.x];
  for (int i = int(threadIdx.x) * 8; i < d; i += int(blockDim.x) * 8) {
    float v[8];
    unpack8(table, token, i, v);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      if (i + c < d) x[std::size_t(blockIdx.x) * d + i + c] = v[c];
    }
  }
}

/// bf16 copy of a packed matrix: one thread eight values. Bound: 2 bytes a weight written.
__global__ void unpack_kernel(const __grid_constant__ Matrix m, uint4* out) {
  chain_wait();
  const int pieces = m.cols / 8;
  const std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= std::size_t(m.rows) * pieces) return;
  float v[8];
  unpack8(m, int(i / pieces), int(i % pieces) * 8, v);
  __nv_bfloat162 p[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) p[c] = __floats2bfloat162_rn(v[2 * c], v[2 * c + 1]);
  out[i] = *reinterpret_cast<uint4*>(p);
}

}  // namespace

cudaError_t embed(const Launch& l, const Matrix& table, const std::int32_t* tokens, int count,
                  int d, float* x) {
  return launch(l, embed_kernel, dim3(unsigned(count)), 128, 0, 1, table, tokens, d, x);
}

cudaError_t unpack_bf16(const Launch& l, const Matrix& m, void* out) {
  const std::size_t threads = std::size_t(m.rows) * (m.cols / 8);
  return launch(l, unpack_kernel, dim3(unsigned((threads + 255) / 256)), 256, 0, 1, m,
                static_cast<uint4*>(out));
}

}  // namespace runnel::cuda
