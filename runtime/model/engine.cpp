// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/engine.h"

#include <utility>

#include "quant/quantise.h"
#include "runtime/backend/pass_probe.h"
#include "runtime/backend/plan_items.h"
#include "runtime/backend/reference/ops.h"
#include "runtime/backend/registry.h"
#include "runtime/base/try.h"
#include "runtime/model/forward.h"

namespace runnel {

namespace {

/// Whether the CPU may succeed where a device gave this error.
bool may_fall_back(ErrorCode code) {
  return code == ErrorCode::out_of_memory || code == ErrorCode::device ||
         code == ErrorCode::unsupported;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(ModelFile file, const std::string& device,
                                               int threads, const LoadProgress& progress,
                                               const std::filesystem::path& cache,
                                               std::string step_program) {
  RUNNEL_TRY(std::unique_ptr<Backend> backend, make_backend(device, threads, cache));
  Fallback fallback;
  if (device == "auto" && backend->device().backend != "cpu") {
    fallback = [threads] { return make_backend("cpu", threads); };
  }
  return create(std::move(file), std::move(backend), progress, std::move(fallback),
                std::move(step_program));
}

Result<std::unique_ptr<Engine>> Engine::create(ModelFile file, std::unique_ptr<Backend> backend,
                                               const LoadProgress& progress, Fallback fallback,
                                               std::string step_program) {
  std::unique_ptr<Engine> engine(new Engine);
  engine->file_ = std::move(file);
  RUNNEL_CHECK_OK(engine->keep_final_norm());
  engine->fallback_ = std::move(fallback);
  engine->step_program_ = std::move(step_program);
  Status loaded = engine->load(std::move(backend), progress);
  // A program named for one device is not meant for another.
  if (!loaded && engine->fallback_ && engine->step_program_.empty() &&
      may_fall_back(loaded.error().code)) {
    RUNNEL_TRY(std::unique_ptr<Backend> other, std::exchange(engine->fallback_, {})());
    loaded = engine->load(std::move(other), progress);
  }
  RUNNEL_CHECK_OK(loaded);
  // A backend that still reads the mapping owns a reference to it; a fallback will read it.
  if (!engine->fallback_) engine->file_.file.reset();
  return engine;
}

Status Engine::load(std::unique_ptr<Backend> backend, const LoadProgress& progress) {
  auto next = std::make_unique<Loaded>();
  next->backend = std::move(backend);
  next->generation = loaded_.size();
  const ModelFile& source = file_;
  const Recording recording = forward_of(source.config, source.weights);
  RUNNEL_TRY(next->model, next->backend->load({.config = source.config,
                                               .weights = source.weights,
                                               .keep_alive = source.file,
                                               .pass = recording,
                                               .progress = progress,
                                               .step_program = step_program_}));
  RUNNEL_TRY(next->decode, next->model->record(kDecodeTokens, recording));
  RUNNEL_TRY(next->prefill, next->model->record(next->model->prefill_tokens(), recording));
  loaded_.push_back(std::move(next));
  current_.store(loaded_.back().get(), std::memory_order_release);
  return {};
}

Status Engine::failed_over(Status status) {
  if (status || status.error().code != ErrorCode::device || !fallback_) return status;
  Result<std::unique_ptr<Backend>> other = std::exchange(fallback_, {})();
  step_program_.clear();  // it was the failed device's
  const Status loaded = other ? load(*std::move(other), {}) : Status(other.error());
  if (!loaded) {
    return fail(ErrorCode::device, status.error().message, "; ", loaded.error().message);
  }
  file_.file.reset();
  return fail(ErrorCode::device, status.error().message, "; the model continues on ", device().id);
}

Result<std::unique_ptr<RecurrentState>> Engine::create_state(std::uint64_t* generation) const {
  const Loaded* const here = current();
  if (generation != nullptr) *generation = here->generation;
  return here->model->create_state();
}

Status Engine::check_generation(std::uint64_t generation) const {
  if (generation == current()->generation) return {};
  return fail(ErrorCode::device, "pass: the device of this state failed and its memory is lost");
}

Status Engine::run(std::span<const PlanItem> items, std::stop_token stop,
                   std::uint64_t generation) {
  const std::lock_guard lock(running_);
  RUNNEL_CHECK_OK(check_generation(generation));
  Plan& plan = total_tokens(items) <= static_cast<std::size_t>(kDecodeTokens) ? *current()->decode
                                                                              : *current()->prefill;
  return failed_over(plan.run(items, std::move(stop)));
}

Status Engine::keep_final_norm() {
  const NormWeights& given = file_.weights.final_norm;
  final_norm_ = given;
  final_norm_values_.resize(
      static_cast<std::size_t>(given.weight.rows * given.weight.cols +
                               (given.bias.present() ? given.bias.rows * given.bias.cols : 0)));
  std::span<float> left(final_norm_values_);
  for (WeightView* view : {&final_norm_.weight, &final_norm_.bias}) {
    if (!view->present()) continue;
    const std::span<float> own = left.first(static_cast<std::size_t>(view->rows * view->cols));
    RUNNEL_CHECK_OK(quant::dequantize_rows(view->type, view->data, view->cols, own));
    view->type = quant::BlockType::f32;
    view->data = std::as_bytes(own);
    left = left.subspan(own.size());
  }
  return {};
}

Status Engine::hidden_pass(const PlanItem& item, std::span<float> out, std::stop_token stop) const {
  const Loaded& here = *current();
  if (here.hidden == nullptr) {
    // No device has a program of its own for a pass without a head, so that x is in its buffer also after one token.
    RUNNEL_TRY(here.hidden, here.model->record(kHiddenTokens, [this](Ops& ops) {
      return forward_layers(ops, file_.config, file_.weights);
    }));
  }
  RUNNEL_CHECK_OK(here.hidden->run(std::span(&item, 1), std::move(stop)));
  PassProbe* probe = here.hidden->probe();
  if (probe == nullptr)
    return fail(ErrorCode::unsupported, here.backend->device().id, ": shows no hidden states");
  std::vector<float> x(out.size());
  RUNNEL_CHECK_OK(probe->read(PassBuffer::x, file_.config.layers.back(), x));
  reference::norm(file_.config.final_norm, final_norm_, x, out);
  return {};
}

Status Engine::run_hidden(RecurrentState& state, std::span<const TokenId> tokens,
                          std::span<float> out, std::stop_token stop, std::uint64_t generation) {
  const std::lock_guard lock(running_);
  RUNNEL_CHECK_OK(check_generation(generation));
  return failed_over(
      hidden_pass({.state = &state, .tokens = tokens, .logits = {}}, out, std::move(stop)));
}

/// Steps of a plan that several threads use.
class Engine::LockedSteps final : public SampledSteps {
 public:
  LockedSteps(Engine& engine, std::unique_ptr<SampledSteps> steps)
      : engine_(engine), steps_(std::move(steps)) {}
  ~LockedSteps() override {
    forgo_mask();
    const std::lock_guard lock(engine_.running_);
    steps_.reset();
  }

  Status queue() override {
    const std::lock_guard lock(engine_.running_);
    return engine_.failed_over(steps_->queue());
  }
  Result<TokenId> drawn() override {
    Result<TokenId> token = steps_->drawn();  // others run while it waits
    if (token || token.error().code != ErrorCode::device) return token;
    const std::lock_guard lock(engine_.running_);
    return engine_.failed_over(token.error()).error();
  }
  // Without the lock: a thread that holds it may wait for the mask.
  Status mask(const TokenMask& mask) override { return steps_->mask(mask); }
  void forgo_mask() override { steps_->forgo_mask(); }
  Status logits(std::span<float> out) override {
    forgo_mask();
    const std::lock_guard lock(engine_.running_);
    return engine_.failed_over(steps_->logits(out));
  }

 private:
  Engine& engine_;
  std::unique_ptr<SampledSteps> steps_;
};

Result<std::unique_ptr<SampledSteps>> Engine::sampled_steps(RecurrentState& state,
                                                            std::span<const TokenId> recent,
                                                            const SamplingOptions& sampling,
                                                            PieceOf piece, bool masked,
                                                            std::uint64_t generation) {
  const std::lock_guard lock(running_);
  RUNNEL_CHECK_OK(check_generation(generation));
  RUNNEL_TRY(std::unique_ptr<SampledSteps> steps,
             current()->decode->sampled_steps(state, recent, sampling, std::move(piece),
                                              masked ? kMaskTimeout : std::chrono::milliseconds{}));
  if (steps == nullptr) return steps;
  return std::unique_ptr<SampledSteps>(std::make_unique<LockedSteps>(*this, std::move(steps)));
}

}  // namespace runnel
