// SPDX-License-Identifier: Apache-2.0
// The decode kernels of cuda/decode.h and cuda/decode_cluster.h ready to run on a plan's buffers.
#pragma once

#include <memory>

#include "cuda/decode.h"
#include "cuda/decode_cluster.h"
#include "cuda/decode_head.h"
#include "runtime/backend/cuda/device_model.h"

namespace runnel::cuda {

/// The head of a program that is the head alone, where head_fits().
HeadStep make_head(const Decode& program, const DeviceWeights& weights);

class DecodeKernel {
 public:
  /// Null: this model or device needs the graph of kernels.
  static Result<std::unique_ptr<DecodeKernel>> create(const ModelOnDevice& model,
                                                      const DecodeTuning& tuning);

  /// One token: reads *token and *segment on the device, advances the state, writes the logits.
  Status launch(cudaStream_t stream, const std::int32_t* token, const Segment* segment,
                float* logits);

  /// After the stream is idle: a device error if a token did not come to its end.
  Status finished(cudaStream_t stream);

  /// Whether a token did not come to its end.
  bool stuck() const { return *static_cast<volatile std::uint32_t*>(trouble_.get()) != 0; }

  std::uint64_t bytes() const {
    return layers_.bytes() + cluster_layers_.bytes() + exchange_.bytes();
  }
  /// For the benchmark.
  Decode& decode() { return decode_; }
  ClusterDecode* cluster() { return in_cluster_ ? &cluster_ : nullptr; }

 private:
  /// Whether the layers run in one cluster; then `decode_` is the head alone.
  Result<bool> create_cluster(const ModelOnDevice& model, int shared_bytes, int blocks);
  Status clear(cudaStream_t stream);

  Decode decode_;
  bool in_cluster_ = false;
  ClusterDecode cluster_;
  HeadStep head_;  // beside the cluster; without blocks: `decode_`
  DeviceArray<DecodeLayer> layers_;
  DeviceArray<ClusterLayer> cluster_layers_;
  DeviceArray<float> exchange_;
  PinnedArray<std::uint32_t> trouble_;
};

}  // namespace runnel::cuda
