// SPDX-License-Identifier: Apache-2.0
// A one-token program on a device, ready to run on any plan's buffers: cuda/step_grid.h, cuda/step_cluster.h,
// cuda/step_shift.h.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "cuda/step_head.h"
#include "runtime/backend/cuda/handles.h"
#include "runtime/backend/cuda/step/cluster_program.h"
#include "runtime/backend/cuda/step/grid_program.h"
#include "runtime/backend/cuda/step/shift_program.h"

namespace runnel::cuda {

/// How a token is computed, without anything on a device.
struct StepLayout {
  std::string why_not;  // empty: it fits
  std::string detail;   // for people
  // The layers, if they run in one cluster: `grid` is the head alone.
  std::optional<ClusterProgram> cluster;
  std::optional<ShiftProgram> shift;  // the whole token; `grid` is nothing then
  GridProgram grid;
  bool fixed_head = false;  // the head by the kernel of cuda/step_head.h, not by `grid`
};

class StepKernel {
 public:
  static constexpr std::uint32_t kPollLimit = 1U << 22;  // questions before a wait is given up

  /// @return unsupported, if the device refuses the program.
  static Result<std::unique_ptr<StepKernel>> create(StepLayout layout, const DeviceTensors& tensors,
                                                    cudaStream_t stream,
                                                    std::uint32_t poll_limit = kPollLimit);

  /// One token: reads *token and *segment on the device, advances the state, writes the logits. All calls on one stream.
  /// @param draw  null or, if draws(), of the next token
  Status launch(cudaStream_t stream, const std::int32_t* token, const Segment* segment,
                float* logits, const Sample* draw = nullptr);
  bool draws(const Sample& sample) const { return choices_.size() > 0 && draws_by_blocks(sample); }

  /// How often the kernel was made ready again because a token did not finish. Plans share it: one that launches
  /// keeps the number, and learns by it later what others found. Any thread may call it.
  std::uint32_t failures() const { return failures_.load(std::memory_order_acquire); }

  /// After the stream is idle: a device error if a token launched at `since` failures or later did not finish,
  /// or may not have. Then it is ready for others again.
  Status finished(cudaStream_t stream, std::uint32_t since = 0);

  /// The same at any time. Any thread may call it.
  bool stuck(std::uint32_t since) const {
    const bool now = *static_cast<volatile std::uint32_t*>(timed_out_.get()) != 0;
    std::atomic_thread_fence(std::memory_order_acquire);  // finished() counts, then clears the flag
    return now || failures() != since;
  }

  std::uint64_t bytes() const {
    return layers_.bytes() + cluster_layers_.bytes() + exchange_.bytes() + choices_.bytes() +
           shift_layers_.bytes() + shift_sources_.bytes() + shift_items_.bytes();
  }

  const Decode& decode() const { return decode_; }
  const ClusterDecode* cluster() const { return in_cluster_ ? &cluster_ : nullptr; }
  bool fixed_head() const { return head_.grid > 0; }
  /// Where the kernels leave their clocks from now on, see kDecodeTrace; null: nowhere.
  Status trace(std::uint64_t* clocks);

 private:
  StepKernel() = default;
  Status create_shift(ShiftProgram program, cudaStream_t stream, std::uint32_t poll_limit);
  Status clear(cudaStream_t stream);
  Status prepare();

  std::mutex launching_;  // the kernels of a token follow each other
  std::atomic<std::uint32_t> failures_{0};
  Decode decode_;
  bool in_cluster_ = false;
  ClusterDecode cluster_;
  HeadStep head_;  // beside the cluster; without blocks: `decode_`
  bool shifted_ = false;
  ShiftStep shift_;  // instead of all of that
  DeviceArray<ShiftLayer> shift_layers_;
  DeviceArray<ShiftSources> shift_sources_;
  DeviceArray<ShiftItem> shift_items_;
  DeviceArray<DecodeLayer> layers_;
  DeviceArray<ClusterLayer> cluster_layers_;
  DeviceArray<float> exchange_;
  DeviceArray<std::uint64_t> choices_;  // [grid + 1]: of each block, and how many have chosen
  BlockChoices kept_;
  PinnedArray<std::uint32_t> timed_out_;
};

}  // namespace runnel::cuda
