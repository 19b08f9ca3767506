// SPDX-License-Identifier: Apache-2.0
// A recorded pass: a list of steps over buffers that were allocated once.
#pragma once

#include <memory>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/pass.h"

namespace runnel::cpu {

class CpuPlan final : public Plan {
 public:
  static Result<std::unique_ptr<Plan>> record(const CpuModel& model, int max_tokens,
                                              const Recording& recording);

  int max_tokens() const override { return max_tokens_; }
  Status run(std::span<const PlanItem> items, std::stop_token stop) override;

 private:
  friend class Recorder;
  CpuPlan(const CpuModel& model, int max_tokens) : model_(model), max_tokens_(max_tokens) {}

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
