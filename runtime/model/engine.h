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
  static constexpr int kPrefillChunk = 512;  // tokens of one prefill pass

  /// @param threads  as ModelOptions::threads
  static Result<std::unique_ptr<Engine>> create(ModelFile file, const std::string& device, int threads,
                                                const LoadProgress& progress);

  const ModelConfig& config() const { return config_; }
  std::uint64_t fingerprint() const { return fingerprint_; }
  const DeviceInfo& device() const;
  MemoryUse memory() const;
  StateLayout layout() const { return StateLayout::of(config_); }

  Result<std::unique_ptr<RecurrentState>> create_state() const;

  /// Most tokens of one run, over all items.
  int max_tokens() const { return kPrefillChunk; }

  /// Plan::run of the decode plan where it suffices, else of the prefill plan. Blocks while another thread runs.
  Status run(std::span<const PlanItem> items, std::stop_token stop = {});

 private:
  Engine() = default;

  ModelConfig config_;
  std::uint64_t fingerprint_ = 0;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<DeviceModel> model_;
  std::unique_ptr<Plan> decode_;   // few tokens: one per session
  std::unique_ptr<Plan> prefill_;  // kPrefillChunk tokens
  std::mutex running_;
};

}  // namespace runnel
