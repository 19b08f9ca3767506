// SPDX-License-Identifier: Apache-2.0
// A recorded pass: a list of steps over buffers that were allocated once.
#pragma once

#include <memory>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/pass.h"
#include "runtime/backend/pass_probe.h"

namespace runnel::cpu {

class CpuPlan final : public Plan, private PassProbe {
 public:
  static Result<std::unique_ptr<Plan>> record(const CpuModel& model, int max_tokens,
                                              const Recording& recording);

  int max_tokens() const override { return max_tokens_; }
  Status run(std::span<const PlanItem> items, std::stop_token stop) override;
  PassProbe* probe() override { return this; }

 private:
  friend class Recorder;
  CpuPlan(const CpuModel& model, int max_tokens) : model_(model), max_tokens_(max_tokens) {}

  // PassProbe
  Status write(PassBuffer buffer, const LayerSpec& layer, std::span<const float> rows) override;
  Status read(PassBuffer buffer, const LayerSpec& layer, std::span<float> rows) override;
  /// Calls move(own, theirs, n) for all that lies together of a buffer and of its canonical rows.
  template <class Floats, class Move>
  Status for_rows(PassBuffer buffer, const LayerSpec& layer, Floats rows, const Move& move);

  /// One op with its layer, null for those of the model.
  struct Step {
    void (*run)(Pass& pass);
    const DeviceLayer* layer;
  };

  const CpuModel& model_;
  int max_tokens_;
  std::vector<Step> steps_;
  PageBuffer arena_;  // what pass_ points to
  Pass pass_;
};

}  // namespace runnel::cpu
