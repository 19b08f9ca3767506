// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/decode_kernel.h"

#include <algorithm>

#include "runtime/backend/cuda/cluster_program.h"
#include "runtime/backend/cuda/decode_program.h"
#include "runtime/base/try.h"

namespace runnel::cuda {

namespace {

template <class T>
Status upload(DeviceArray<T>& to, const std::vector<T>& from, cudaStream_t stream) {
  RUNNEL_TRY(to, device_array<T>(from.size(), "decode layers"));
  return check(cudaMemcpyAsync(to.get(), from.data(), to.bytes(), cudaMemcpyHostToDevice, stream),
               "upload decode layers");
}

}  // namespace

HeadStep make_head(const Decode& d, const DeviceWeights& weights) {
  return {.data = weights.head.data,
          .scales = weights.head.scales,
          .norm = weights.final_norm,
          .x = d.exchange + d.in_at[4],
          .trouble = d.trouble,
          .tiles = weights.head.tiles(),
          .grid = d.grid,
          .norm_eps = d.norm_eps};
}

Result<bool> DecodeKernel::create_cluster(const ModelOnDevice& model, int shared_bytes,
                                          int blocks) {
  if (model.device.multiprocessors <= blocks) return false;
  const ClusterProgram program =
      make_cluster_program(model.config, model.weights, shared_bytes, blocks);
  if (!program.fits) return false;
  if (prepare_cluster(program.cluster) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  cluster_ = program.cluster;
  RUNNEL_CHECK_OK(upload(cluster_layers_, program.layers, model.stream.get()));
  // The program's copy ends with this function.
  RUNNEL_CHECK_OK(check(cudaStreamSynchronize(model.stream.get()), "upload decode layers"));
  cluster_.layers = cluster_layers_.get();
  return true;
}

Result<std::unique_ptr<DecodeKernel>> DecodeKernel::create(const ModelOnDevice& model,
                                                           const DecodeTuning& tuning) {
  if (prepare_decode() != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return std::unique_ptr<DecodeKernel>();
  }
  int shared = 0;
  RUNNEL_CHECK_OK(check(
      cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, model.device.index),
      "ask for shared memory"));
  auto kernel = std::make_unique<DecodeKernel>();
  if (tuning.cluster != 0) {
    const int blocks = tuning.cluster_blocks > 0 ? tuning.cluster_blocks : kClusterBlocks;
    RUNNEL_TRY(kernel->in_cluster_, kernel->create_cluster(model, shared, blocks));
  }
  int left = model.device.multiprocessors;
  if (kernel->in_cluster_) left -= kernel->cluster_.blocks;
  if (tuning.grid > 0) left = std::min(left, tuning.grid);
  const DecodeLimits limits{
      .multiprocessors = left, .shared_bytes = shared, .head_only = kernel->in_cluster_};
  const DecodeProgram program = make_decode_program(model.config, model.weights, limits, tuning);
  if (!program.fits) return std::unique_ptr<DecodeKernel>();
  Decode& d = kernel->decode_;
  d = program.decode;
  RUNNEL_TRY(kernel->exchange_, device_array<float>(2 * static_cast<std::size_t>(d.at.total) +
                                                        static_cast<std::size_t>(d.d),
                                                    "what decode blocks exchange"));
  RUNNEL_TRY(kernel->trouble_, pinned_array<std::uint32_t>(1, "a flag"));
  const cudaStream_t stream = model.stream.get();
  RUNNEL_CHECK_OK(upload(kernel->layers_, program.layers, stream));
  RUNNEL_CHECK_OK(kernel->clear(stream));
  d.layers = kernel->layers_.get();
  d.exchange = kernel->exchange_.get();
  d.trouble = kernel->cluster_.trouble = kernel->trouble_.get();
  kernel->cluster_.last = d.exchange + d.in_at[4];
  if (kernel->in_cluster_ && head_fits(model.weights.head, left, shared)) {
    RUNNEL_CHECK_OK(check(prepare_head(), "prepare the head"));
    kernel->head_ = make_head(d, model.weights);
  }
  return kernel;
}

Status DecodeKernel::clear(cudaStream_t stream) {
  decode_.use = 0;
  decode_.final_bit = 1;
  *trouble_.get() = 0;
  RUNNEL_CHECK_OK(check(cudaMemsetAsync(exchange_.get(), 0, exchange_.bytes(), stream),
                        "clear what decode blocks exchange"));
  return check(cudaStreamSynchronize(stream), "clear what decode blocks exchange");
}

Status DecodeKernel::launch(cudaStream_t stream, const std::int32_t* token, const Segment* segment,
                            float* logits) {
  decode_.token = token;
  decode_.segment = segment;
  decode_.logits = logits;
  if (in_cluster_) {
    cluster_.token = token;
    cluster_.segment = segment;
    cluster_.last_bit = decode_.final_bit;
    RUNNEL_CHECK_OK(check(cluster_step(stream, cluster_), "launch a token"));
  }
  if (head_.grid > 0) {
    head_.bit = decode_.final_bit, head_.logits = logits;
    RUNNEL_CHECK_OK(check(head_step(stream, head_), "launch a token's head"));
  } else {
    RUNNEL_CHECK_OK(check(decode_step(stream, decode_), "launch a token"));
  }
  decode_.use += static_cast<std::uint32_t>(decode_.num_layers);
  decode_.final_bit ^= 1U;
  return {};
}

Status DecodeKernel::finished(cudaStream_t stream) {
  const std::uint32_t trouble = *static_cast<volatile std::uint32_t*>(trouble_.get());
  if (trouble == 0) return {};
  RUNNEL_CHECK_OK(clear(stream));
  return fail(ErrorCode::device, "cuda: a token did not come to its end: blocks waited too long (",
              trouble, ")");
}

}  // namespace runnel::cuda
