// SPDX-License-Identifier: Apache-2.0
// Launches the cluster kernel: one cluster.
#include "cuda/device/cluster/layers.cuh"
#include "cuda/device/launch.cuh"
#include "cuda/step_cluster.h"

namespace runnel::cuda {
namespace {

template <BlockType kType, BlockType kPlain, int kShift, class M>
__global__ void __launch_bounds__(kClusterThreads, 1)
    cluster_kernel(const __grid_constant__ ClusterDecode p) {
#if __CUDA_ARCH__ >= 900
  chain_trigger();  // the head's blocks fetch their weights meanwhile, this one its first layer's
  cluster_thread<kType, kPlain, kShift, M>(p);
#endif
}

using Kernel = void (*)(ClusterDecode);

struct Choice {
  BlockType type, plain;
  int width;  // of keys and values
  int fixed;
  bool traced;
  Kernel kernel;
};
template <BlockType kType, int kShift>
constexpr Choice kChoice = {
    kType, BlockType::f16, 4 << kShift,
    0,     false,          &cluster_kernel<kType, BlockType::f16, kShift, AnyClusterModel>};
template <class M>
constexpr Choice kFixedShape = {
    BlockType::q4_0, BlockType::f16,
    M::kWidth,       1,
    M::kTraced,      &cluster_kernel<BlockType::q4_0, BlockType::f16, 4, M>};
const Choice kChoices[] = {
    kFixedShape<DefaultClusterModel>, kFixedShape<TracedClusterModel>, kChoice<BlockType::q4_0, 4>,
    kChoice<BlockType::q4_0, 5>,      kChoice<BlockType::q8_0, 4>,     kChoice<BlockType::q8_0, 5>,
};

Kernel choose(const ClusterDecode& p) {
  const ClusterMatrix& plain = p.matrices[kPlainMatrix];
  for (const Choice& c : kChoices) {
    if (p.matrices[0].type == c.type && p.k_dim == c.width && p.fixed == c.fixed &&
        (c.fixed == 0 || c.traced == (p.trace != nullptr)) &&
        (plain.rows == 0 || plain.type == c.plain))
      return c.kernel;
  }
  return nullptr;
}

struct Attributes {
  cudaLaunchAttribute all[2];
};
cudaLaunchConfig_t configure(const ClusterDecode& p, cudaStream_t stream, Attributes& attributes) {
  cudaLaunchAttribute& cluster = attributes.all[0];
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(p.blocks);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchAttribute& chain = attributes.all[1];
  chain.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  chain.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(p.blocks));
  config.blockDim = dim3(kClusterThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(p.shared.total);
  config.stream = stream;
  config.attrs = attributes.all;
  config.numAttrs = 2;
  return config;
}

}  // namespace

cudaError_t prepare_cluster(const ClusterDecode& p) {
  const Kernel kernel = choose(p);
  if (kernel == nullptr) return cudaErrorInvalidConfiguration;
  const void* const function = reinterpret_cast<const void*>(kernel);
  if (cudaError_t e = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           p.shared.total);
      e != cudaSuccess)
    return e;
  if (cudaError_t e =
          cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
      e != cudaSuccess)
    return e;
  Attributes attributes{};
  const cudaLaunchConfig_t config = configure(p, nullptr, attributes);
  int clusters = 0;
  if (cudaError_t e = cudaOccupancyMaxActiveClusters(&clusters, function, &config);
      e != cudaSuccess)
    return e;
  return clusters > 0 ? cudaSuccess : cudaErrorNotSupported;
}

cudaError_t cluster_step(cudaStream_t stream, const ClusterDecode& p) {
  Attributes attributes{};
  const cudaLaunchConfig_t config = configure(p, stream, attributes);
  return cudaLaunchKernelEx(&config, choose(p), p);
}

}  // namespace runnel::cuda
