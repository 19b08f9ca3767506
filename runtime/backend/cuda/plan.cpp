// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/plan.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/backend/cuda/pass_graphs.h"
#include "runtime/backend/cuda/recorder.h"
#include "runtime/backend/cuda/sampled_steps.h"
#include "runtime/backend/pass_probe.h"
#include "runtime/backend/plan_items.h"
#include "runtime/base/try.h"
#include "runtime/sampling/device_draws.h"

namespace runnel::cuda {
namespace {

/// Items up to this long share one pass of matrix-vector products; a longer one has a pass of
/// matrix products of its own. The choice depends on the item alone, so that what it computes does
/// not depend on the other items.
constexpr std::size_t kFewTokens = 8;

class CudaPlan final : public Plan, private StepHost, private PassProbe {
 public:
  CudaPlan(std::shared_ptr<ResidentModel> model, int max_tokens)
      : m_(std::move(model)), max_tokens_(max_tokens) {}

  Status prepare(const Recording& recording) {
    RUNNEL_TRY(recorder_, Recorder::create(m_, max_tokens_));
    RUNNEL_CHECK_OK(recording(*recorder_));
    const auto n = static_cast<std::size_t>(max_tokens_);
    RUNNEL_TRY(tokens_, pinned_array<std::int32_t>(n, "token ids"));
    RUNNEL_TRY(segments_, pinned_array<Segment>(n, "segments"));
    RUNNEL_TRY(logits_,
               pinned_array<float>(static_cast<std::size_t>(kLogitRows) * vocab(), "logits"));
    // What the program was built from, and not another pass.
    if (m_->step_kernel != nullptr && record_step_model(recording) == m_->step_model)
      step_kernel_ = m_->step_kernel.get();
    return {};
  }

  int max_tokens() const override { return max_tokens_; }

  Status run(std::span<const PlanItem> items, std::stop_token stop) override {
    RUNNEL_CHECK_OK(check_items(items, max_tokens_, m_->config.vocab_size));
    if (stop.stop_requested()) return fail(ErrorCode::cancelled, "pass: a stop was requested");
    const DeviceScope scope(m_->device.index);
    RUNNEL_CHECK_OK(scope.status());
    RUNNEL_CHECK_OK(active.give_way());
    std::vector<PlanItem> few;
    for (const PlanItem& item : items) {
      if (item.tokens.size() <= kFewTokens) few.push_back(item);
    }
    if (!few.empty()) RUNNEL_CHECK_OK(pass(few, false));
    for (const PlanItem& item : items) {
      if (item.tokens.size() > kFewTokens) RUNNEL_CHECK_OK(pass(std::span(&item, 1), true));
    }
    return {};
  }

  Result<std::unique_ptr<SampledSteps>> sampled_steps(
      RecurrentState& state, std::span<const TokenId> recent, const SamplingOptions& sampling,
      PieceOf piece, std::chrono::milliseconds mask_timeout) override {
    if (!why_not_ahead(sampling, DrawDevice::cuda).empty()) return std::unique_ptr<SampledSteps>();
    RUNNEL_TRY(std::unique_ptr<CudaSteps> steps,
               CudaSteps::create(*this, m_, static_cast<CudaState&>(state), recent, sampling,
                                 std::move(piece), mask_timeout));
    return std::unique_ptr<SampledSteps>(std::move(steps));
  }

  PassProbe* probe() override { return this; }

 private:
  // PassProbe
  Status write(PassBuffer buffer, const LayerSpec& layer, std::span<const float> rows) override {
    if (recorder_->probed(buffer, layer).first == nullptr) return {};
    return copy_rows(buffer, layer, rows.size(), [&](const ProbedRows& own, std::size_t bytes) {
      return cudaMemcpy2DAsync(own.first, own.stride, rows.data(), bytes, bytes,
                               rows.size_bytes() / bytes, cudaMemcpyHostToDevice, m_->stream.get());
    });
  }
  Status read(PassBuffer buffer, const LayerSpec& layer, std::span<float> rows) override {
    return copy_rows(buffer, layer, rows.size(), [&](const ProbedRows& own, std::size_t bytes) {
      return cudaMemcpy2DAsync(rows.data(), bytes, own.first, own.stride, bytes,
                               rows.size_bytes() / bytes, cudaMemcpyDeviceToHost, m_->stream.get());
    });
  }
  /// copy(rows on the device, bytes of a canonical row) queues the copy.
  template <class Copy>
  Status copy_rows(PassBuffer buffer, const LayerSpec& layer, std::size_t floats,
                   const Copy& copy) {
    const std::int64_t hidden = m_->config.hidden_size;
    RUNNEL_CHECK_OK(check_rows(buffer, layer, hidden, floats, max_tokens_));
    const DeviceScope scope(m_->device.index);
    RUNNEL_CHECK_OK(scope.status());
    const auto columns = static_cast<std::size_t>(columns_of(buffer, layer, hidden));
    const ProbedRows own = recorder_->probed(buffer, layer);
    if (own.first == nullptr)
      return fail(ErrorCode::unsupported, "probe: no buffer ", static_cast<int>(buffer),
                  " of this layer on CUDA");
    RUNNEL_CHECK_OK(check(copy(own, columns * sizeof(float)), "copy probed rows"));
    return check(cudaStreamSynchronize(m_->stream.get()), "copy probed rows");
  }

  // StepHost
  const PlanBuffers& buffers() const override { return recorder_->buffers(); }
  Status put(TokenId token, const Segment& segment) override {
    tokens_.get()[0] = token;
    segments_.get()[0] = segment;
    return upload(1, 1);
  }
  Status wait_for_logits(float* to) override { return copy_logits(m_->stream.get(), 1, to); }
  std::uint32_t failures() const override {
    return step_kernel_ != nullptr ? step_kernel_->failures() : 0;
  }
  bool stuck(std::uint32_t since) const override {
    return step_kernel_ != nullptr && step_kernel_->stuck(since);
  }
  Status finished(std::uint32_t since) override {
    return step_kernel_ != nullptr ? step_kernel_->finished(m_->stream.get(), since) : Status();
  }

  std::size_t vocab() const { return static_cast<std::size_t>(m_->config.vocab_size); }

  Status copy_in(std::span<const PlanItem> items, Pass& p) {
    std::size_t at = 0, i = 0;
    for (const PlanItem& item : items) {
      const auto* state = static_cast<const CudaState*>(item.state);
      std::copy(item.tokens.begin(), item.tokens.end(), tokens_.get() + at);
      segments_.get()[i++] = {.state_in = state->data(),
                              .state_out = state->data(),
                              .position = state->position(),
                              .first = static_cast<std::int32_t>(at),
                              .count = static_cast<std::int32_t>(item.tokens.size())};
      at += item.tokens.size();
    }
    p.tokens = static_cast<int>(at);
    p.num_segments = static_cast<int>(i);
    return upload(at, i);
  }

  Status upload(std::size_t tokens, std::size_t segments) {
    const PlanBuffers& b = recorder_->buffers();
    const cudaStream_t stream = m_->stream.get();
    RUNNEL_CHECK_OK(
        check(cudaMemcpyAsync(b.tokens.get(), tokens_.get(), tokens * sizeof(std::int32_t),
                              cudaMemcpyHostToDevice, stream),
              "copy token ids"));
    return check(cudaMemcpyAsync(b.segments.get(), segments_.get(), segments * sizeof(Segment),
                                 cudaMemcpyHostToDevice, stream),
                 "copy segments");
  }

  Status pass(std::span<const PlanItem> items, bool many) {
    Pass p{.launch = m_->launch(), .many = many};
    RUNNEL_CHECK_OK(copy_in(items, p));
    const std::uint32_t since = failures();
    const Status done = launch(p, items);
    // Whatever happened, nothing may still be running on buffers that the caller frees next.
    const Status idle = check(cudaStreamSynchronize(p.launch.stream), "wait for a pass");
    RUNNEL_CHECK_OK(done);
    RUNNEL_CHECK_OK(idle);
    if (p.tokens == 1) RUNNEL_CHECK_OK(finished(since));  // other passes are ops alone
    for (const PlanItem& item : items)
      static_cast<CudaState*>(item.state)->advance(item.tokens.size());
    return {};
  }

  Status launch(const Pass& p, std::span<const PlanItem> items) {
    if (p.tokens == 1) {
      RUNNEL_CHECK_OK(launch_step(p.launch, nullptr));
      if (items[0].wanted == LogitsWanted::none) return {};
      return copy_logits(p.launch.stream, 1, items[0].logits.data());
    }
    if (p.many) {
      Pass whole = p;
      whole.first_wanted = items[0].wanted == LogitsWanted::all || !recorder_->has_head() ? 0
                           : items[0].wanted == LogitsWanted::last ? p.tokens - 1
                                                                   : p.tokens;
      RUNNEL_CHECK_OK(passes_.run(p.launch.stream, {p.tokens, whole.first_wanted},
                                  [&] { return recorder_->run(whole); }));
    } else {
      RUNNEL_CHECK_OK(recorder_->run(p));
    }
    int first = 0;
    for (const PlanItem& item : items) {
      const int n = static_cast<int>(item.tokens.size());
      const int skip = item.wanted == LogitsWanted::all    ? 0
                       : item.wanted == LogitsWanted::last ? n - 1
                                                           : n;
      for (int at = skip; at < n; at += kLogitRows) {
        const int rows = std::min(kLogitRows, n - at);
        Launch l = p.launch;
        l.chain = l.chain && at == skip && !p.many;  // later ones follow a copy, or a graph
        RUNNEL_CHECK_OK(recorder_->run_head(l, first + at, rows));
        RUNNEL_CHECK_OK(copy_logits(
            l.stream, rows, item.logits.data() + static_cast<std::size_t>(at - skip) * vocab()));
      }
      first += n;
    }
    return {};
  }

  Status copy_logits(cudaStream_t stream, int rows, float* to) {
    const std::size_t count = static_cast<std::size_t>(rows) * vocab();
    RUNNEL_CHECK_OK(check(cudaMemcpyAsync(logits_.get(), recorder_->buffers().logits.get(),
                                          count * sizeof(float), cudaMemcpyDeviceToHost, stream),
                          "copy logits"));
    RUNNEL_CHECK_OK(check(cudaStreamSynchronize(stream), "compute logits"));
    std::memcpy(to, logits_.get(), count * sizeof(float));
    return {};
  }

  /// One token and its logits, as a graph that is recorded on first use. Everything that differs
  /// between sessions and tokens is read from device memory, so one graph serves them all.
  Status launch_step(const Launch& l, const Sample* draw) override {
    if (step_kernel_ != nullptr) {
      const PlanBuffers& b = recorder_->buffers();
      return step_kernel_->launch(l.stream, b.tokens.get(), b.segments.get(), b.logits.get(), draw);
    }
    if (!step_) {
      const Pass one{.launch = l, .tokens = 1, .num_segments = 1, .many = false};
      RUNNEL_TRY(step_, record_graph(l.stream, "record a step", [&]() -> Status {
                   RUNNEL_CHECK_OK(recorder_->run(one));
                   return recorder_->has_head() ? recorder_->run_head(l, 0, 1) : Status();
                 }));
    }
    return check(cudaGraphLaunch(step_.get(), l.stream), "launch a step");
  }

  bool draws(const Sample& sample) const override {
    return step_kernel_ != nullptr && step_kernel_->draws(sample);
  }

  std::shared_ptr<ResidentModel> m_;
  int max_tokens_;
  std::unique_ptr<Recorder> recorder_;
  PinnedArray<std::int32_t> tokens_;
  PinnedArray<Segment> segments_;
  PinnedArray<float> logits_;  // [kLogitRows, vocab]
  GraphExec step_;
  PassGraphs passes_;
  StepKernel* step_kernel_ = nullptr;  // the model's, instead of the graph
};

}  // namespace

Result<std::unique_ptr<Plan>> record_plan(std::shared_ptr<ResidentModel> model, int max_tokens,
                                          const Recording& recording) {
  const DeviceScope scope(model->device.index);
  RUNNEL_CHECK_OK(scope.status());
  auto plan = std::make_unique<CudaPlan>(std::move(model), max_tokens);
  RUNNEL_CHECK_OK(plan->prepare(recording));
  return std::unique_ptr<Plan>(std::move(plan));
}

}  // namespace runnel::cuda
