// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/engine.h"

#include "runtime/backend/plan_items.h"
#include "runtime/backend/registry.h"
#include "runtime/base/try.h"
#include "runtime/model/forward.h"

namespace runnel {

Result<std::unique_ptr<Engine>> Engine::create(ModelFile file, const std::string& device,
                                               int threads, const LoadProgress& progress) {
  RUNNEL_TRY(std::unique_ptr<Backend> backend, make_backend(device, threads));
  return create(std::move(file), std::move(backend), progress);
}

Result<std::unique_ptr<Engine>> Engine::create(ModelFile file, std::unique_ptr<Backend> backend,
                                               const LoadProgress& progress) {
  std::unique_ptr<Engine> engine(new Engine);
  engine->file_ = std::move(file);
  engine->backend_ = std::move(backend);
  const ModelFile& source = engine->file_;
  RUNNEL_TRY(engine->model_,
             engine->backend_->load(source.config, source.weights, source.file, progress));
  const Recording recording = [&source](Ops& ops) {
    return forward(ops, source.config, source.weights);
  };
  RUNNEL_TRY(engine->decode_, engine->model_->record(kDecodeTokens, recording));
  RUNNEL_TRY(engine->prefill_, engine->model_->record(engine->model_->prefill_tokens(), recording));
  engine->file_.file.reset();  // a backend that still reads the mapping holds it itself
  return engine;
}

Status Engine::run(std::span<const PlanItem> items, std::stop_token stop) {
  const std::lock_guard lock(running_);
  Plan& plan =
      total_tokens(items) <= static_cast<std::size_t>(kDecodeTokens) ? *decode_ : *prefill_;
  return plan.run(items, std::move(stop));
}

}  // namespace runnel
