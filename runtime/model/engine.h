// SPDX-License-Identifier: Apache-2.0
// A model on a device with its recorded plans: what all sessions of a Model share.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "runtime/backend/backend.h"
#include "runtime/model/model_file.h"

namespace runnel {

/// Thread-safe: runs are serialised, one pass on the device at a time.
class Engine {
 public:
  static constexpr int kDecodeTokens =
      16;  // tokens of one decode pass: one each of up to 16 sessions

  /// @param threads  as ModelOptions::threads
  static Result<std::unique_ptr<Engine>> create(ModelFile file, const std::string& device,
                                                int threads, const LoadProgress& progress);
  /// On a backend of the caller's choice. For tests.
  static Result<std::unique_ptr<Engine>> create(ModelFile file, std::unique_ptr<Backend> backend,
                                                const LoadProgress& progress = {});

  const ModelConfig& config() const { return file_.config; }
  std::uint64_t fingerprint() const { return file_.fingerprint; }
  const DeviceInfo& device() const { return backend_->device(); }
  MemoryUse memory() const { return model_->memory(); }
  StateLayout layout() const { return StateLayout::of(file_.config); }

  Result<std::unique_ptr<RecurrentState>> create_state() const { return model_->create_state(); }

  /// Most tokens of one run, over all items.
  int max_tokens() const { return prefill_->max_tokens(); }

  /// Plan::run of the decode plan where it suffices, else of the prefill plan. Blocks while another
  /// thread runs.
  Status run(std::span<const PlanItem> items, std::stop_token stop = {});

 private:
  Engine() = default;

  ModelFile file_;  // its weights are what the device model was made of
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<DeviceModel> model_;
  std::unique_ptr<Plan> decode_;
  std::unique_ptr<Plan> prefill_;
  std::mutex running_;
};

}  // namespace runnel
