// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/step/step_kernel.h"

#include "cuda/step_grid_even.h"
#include "runtime/base/try.h"

namespace runnel::cuda {
namespace {

template <class T>
Status upload(DeviceArray<T>& to, const std::vector<T>& from, cudaStream_t stream) {
  RUNNEL_TRY(to, device_array<T>(from.size(), "the layers of a one-token program"));
  return check(cudaMemcpyAsync(to.get(), from.data(), to.bytes(), cudaMemcpyHostToDevice, stream),
               "upload a one-token program");
}

/// A refusal of the driver, which leaves nothing behind.
Status accepted(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());
  return fail(ErrorCode::unsupported, "the device refuses ", what, " (", cudaGetErrorString(code),
              ")");
}

HeadStep make_head(const Decode& d, const DeviceTensors& tensors) {
  return {.data = tensors.head.data,
          .scales = tensors.head.scales,
          .norm = tensors.final_norm.weight,
          .x = d.exchange + d.in_at[4],
          .timed_out = d.timed_out,
          .poll_limit = d.poll_limit,
          .tiles = tensors.head.tiles(),
          .grid = d.grid,
          .norm_eps = d.norm_eps};
}

}  // namespace

Status StepKernel::prepare() {
  RUNNEL_CHECK_OK(accepted(prepare_decode(), "kernels whose blocks wait for each other"));
  return in_cluster_ ? accepted(prepare_cluster(cluster_), "the cluster or its shared memory")
                     : Status();
}

Result<std::unique_ptr<StepKernel>> StepKernel::create(StepLayout layout,
                                                       const DeviceTensors& tensors,
                                                       cudaStream_t stream,
                                                       std::uint32_t poll_limit) {
  std::unique_ptr<StepKernel> kernel(new StepKernel);
  StepKernel& k = *kernel;
  if (layout.shift) {
    RUNNEL_CHECK_OK(k.create_shift(std::move(*layout.shift), stream, poll_limit));
    return kernel;
  }
  Decode& d = k.decode_;
  d = layout.grid.decode;
  k.in_cluster_ = layout.cluster.has_value();
  if (k.in_cluster_) k.cluster_ = layout.cluster->cluster;
  RUNNEL_CHECK_OK(k.prepare());
  if (layout.fixed_head) RUNNEL_CHECK_OK(accepted(prepare_head(), "the head's shared memory"));
  d.poll_limit = k.cluster_.poll_limit = poll_limit;
  RUNNEL_TRY(k.exchange_, device_array<float>(2 * static_cast<std::size_t>(d.at.total) +
                                                  static_cast<std::size_t>(d.d),
                                              "what blocks exchange"));
  if (d.even != 0 && even_kernel(d) != nullptr && d.grid <= kMostChoices) {
    RUNNEL_TRY(k.choices_, device_array<std::uint64_t>(static_cast<std::size_t>(d.grid) + 1,
                                                       "what blocks choose"));
    d.choice.counted = reinterpret_cast<std::uint32_t*>(k.choices_.get() + d.grid);
    k.kept_ = kept_choices(layout.grid, k.choices_.get());
  }
  RUNNEL_TRY(k.timed_out_, pinned_array<std::uint32_t>(1, "a flag"));
  RUNNEL_CHECK_OK(upload(k.layers_, layout.grid.layers, stream));
  if (k.in_cluster_) RUNNEL_CHECK_OK(upload(k.cluster_layers_, layout.cluster->layers, stream));
  RUNNEL_CHECK_OK(k.clear(stream));  // and waits: the layout's copies end with this function
  d.layers = k.layers_.get();
  d.exchange = k.exchange_.get();
  d.timed_out = k.cluster_.timed_out = k.timed_out_.get();
  k.cluster_.layers = k.cluster_layers_.get();
  k.cluster_.last = d.exchange + d.in_at[4];
  if (layout.fixed_head) k.head_ = make_head(d, tensors);
  return kernel;
}

Status StepKernel::create_shift(ShiftProgram program, cudaStream_t stream,
                                std::uint32_t poll_limit) {
  RUNNEL_CHECK_OK(accepted(prepare_shift_step(), "kernels whose blocks wait for each other"));
  shifted_ = true;
  RUNNEL_TRY(exchange_, device_array<float>(program.exchange_floats() + program.shifted_floats(),
                                            "what blocks exchange"));
  RUNNEL_TRY(timed_out_, pinned_array<std::uint32_t>(1, "a flag"));
  RUNNEL_CHECK_OK(upload(shift_sources_, program.sources, stream));
  RUNNEL_CHECK_OK(upload(shift_items_, program.items, stream));
  RUNNEL_CHECK_OK(upload(shift_layers_, program.layers, stream));
  RUNNEL_CHECK_OK(clear(stream));  // and waits: the program's copies end with this function
  shift_ = program.step;
  shift_.layers = shift_layers_.get();
  shift_.sources = shift_sources_.get(), shift_.items = shift_items_.get();
  shift_.exchange = exchange_.get();
  shift_.shifted = exchange_.get() + program.exchange_floats();
  shift_.timed_out = timed_out_.get();
  shift_.poll_limit = poll_limit;
  return {};
}

Status StepKernel::clear(cudaStream_t stream) {
  shift_.use = shift_.mix_use = 0;
  decode_.use = 0;
  decode_.final_bit = 1;
  *timed_out_.get() = 0;
  RUNNEL_CHECK_OK(check(cudaMemsetAsync(exchange_.get(), 0, exchange_.bytes(), stream),
                        "clear what blocks exchange"));
  if (choices_.size() > 0)
    RUNNEL_CHECK_OK(check(cudaMemsetAsync(choices_.get(), 0, choices_.bytes(), stream),
                          "clear what blocks exchange"));
  return check(cudaStreamSynchronize(stream), "clear what blocks exchange");
}

Status StepKernel::trace(std::uint64_t* clocks) {
  (in_cluster_ ? cluster_.trace : decode_.trace) = clocks;
  return prepare();  // it may be another kernel
}

Status StepKernel::launch(cudaStream_t stream, const std::int32_t* token, const Segment* segment,
                          float* logits, const Sample* draw) {
  const std::lock_guard lock(launching_);
  if (shifted_) {
    shift_.token = token, shift_.segment = segment, shift_.logits = logits;
    RUNNEL_CHECK_OK(check(shift_step(stream, shift_), "launch a token"));
    shift_.use += static_cast<std::uint32_t>(shift_.num_layers);
    shift_.mix_use += static_cast<std::uint32_t>(shift_.num_layers - 1);
    return {};
  }
  decode_.token = token;
  decode_.segment = segment;
  decode_.logits = logits;
  decode_.choice.best = draw != nullptr ? choices_.get() : nullptr;
  decode_.choice.next = draw != nullptr && draws_largest(*draw) ? draw->next : NextStep();
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
    if (draw != nullptr && !draws_largest(*draw))
      RUNNEL_CHECK_OK(check(sample_blocks(stream, *draw, kept_), "draw a token"));
  }
  decode_.use += static_cast<std::uint32_t>(decode_.num_layers);
  decode_.final_bit ^= 1U;
  return {};
}

Status StepKernel::finished(cudaStream_t stream, std::uint32_t since) {
  const std::lock_guard lock(launching_);
  const std::uint32_t timed_out = *static_cast<volatile std::uint32_t*>(timed_out_.get());
  if (timed_out == 0) {
    if (failures() == since) return {};
    return fail(ErrorCode::device, "cuda: a token before or beside this one did not finish");
  }
  failures_.fetch_add(1);  // before the flag is cleared, see stuck()
  std::atomic_thread_fence(std::memory_order_release);
  // Tokens of other plans may be on their way, and may still read the flag and set it.
  RUNNEL_CHECK_OK(check(cudaStreamSynchronize(stream), "wait for a token"));
  RUNNEL_CHECK_OK(clear(stream));
  return fail(ErrorCode::device, "cuda: a token did not finish: blocks waited too long (",
              timed_out, ")");
}

}  // namespace runnel::cuda
