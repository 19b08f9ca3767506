// SPDX-License-Identifier: Apache-2.0
// A model on a device with its recorded plans: what all sessions of a Model share.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/model/model_file.h"

namespace runnel {

/// Thread-safe: runs are serialised, one pass on the device at a time.
class Engine {
 public:
  // tokens of one decode pass: one each of up to 16 sessions
  static constexpr int kDecodeTokens = 16;
  static constexpr int kHiddenTokens = 256;  // most tokens of one run_hidden()

  /// Makes the backend that takes over if the first has too little memory or fails.
  using Fallback = std::function<Result<std::unique_ptr<Backend>>()>;

  /// With "auto" the CPU takes over from a device that has too little memory or fails.
  /// @param threads  as ModelOptions::threads
  /// @param cache    as ModelOptions::cache_directory
  /// @param step_program  as ModelOptions::step_program
  static Result<std::unique_ptr<Engine>> create(ModelFile file, const std::string& device,
                                                int threads, const LoadProgress& progress,
                                                const std::filesystem::path& cache = {},
                                                std::string step_program = {});
  /// On a backend of the caller's choice.
  static Result<std::unique_ptr<Engine>> create(ModelFile file, std::unique_ptr<Backend> backend,
                                                const LoadProgress& progress = {},
                                                Fallback fallback = {},
                                                std::string step_program = {});

  const ModelConfig& config() const { return file_.config; }
  std::uint64_t fingerprint() const { return file_.fingerprint; }
  WindowChoice window() const { return file_.window; }
  const DeviceInfo& device() const { return current()->backend->device(); }
  MemoryUse memory() const { return current()->model->memory(); }
  StepProgram step_program() const { return current()->model->step_program(); }
  StateLayout layout() const { return StateLayout::of(file_.config); }

  /// Counts the devices: states made under another number are lost.
  std::uint64_t generation() const { return current()->generation; }
  /// A state and the generation it belongs to.
  Result<std::unique_ptr<RecurrentState>> create_state(std::uint64_t* generation = nullptr) const;

  /// Most tokens of one run, over all items.
  int max_tokens() const { return current()->prefill->max_tokens(); }

  /// Plan::run of the decode plan where it suffices, else of the prefill plan. Blocks while another thread runs.
  /// @param generation  of every state
  /// @return device also for states of another generation. After it a fallback has taken over.
  Status run(std::span<const PlanItem> items, std::stop_token stop = {},
             std::uint64_t generation = 0);

  /// Feeds `tokens`, and gives what the head would see of them: the final norm of the last layer. Its plan is made by the
  /// first call.
  /// @param tokens  at most kHiddenTokens
  /// @param out     [tokens, D]
  /// @return as run(); out_of_memory for the plan
  Status run_hidden(RecurrentState& state, std::span<const TokenId> tokens, std::span<float> out,
                    std::stop_token stop = {}, std::uint64_t generation = 0);

  /// Plan::sampled_steps of the decode plan, null where the backend has none. Passes of other threads run between the
  /// steps.
  /// @param masked  each draw waits for a mask, kMaskTimeout at most
  Result<std::unique_ptr<SampledSteps>> sampled_steps(RecurrentState& state,
                                                      std::span<const TokenId> recent,
                                                      const SamplingOptions& sampling,
                                                      PieceOf piece, bool masked,
                                                      std::uint64_t generation = 0);

 private:
  class LockedSteps;

  /// A backend with the model and its plans.
  struct Loaded {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<DeviceModel> model;
    std::unique_ptr<Plan> decode, prefill;
    mutable std::unique_ptr<Plan> hidden;  // without a head; null until it is wanted
    std::uint64_t generation = 0;
  };

  Engine() = default;
  const Loaded* current() const { return current_.load(std::memory_order_acquire); }
  Status load(std::unique_ptr<Backend> backend, const LoadProgress& progress);
  Status check_generation(std::uint64_t generation) const;
  /// `status`; if it says that the device failed, after the fallback has taken over.
  Status failed_over(Status status);

  Status hidden_pass(const PlanItem& item, std::span<float> out, std::stop_token stop) const;
  Status keep_final_norm();

  ModelFile file_;  // its weights are what the device model was made of
  std::vector<float> final_norm_values_;
  NormWeights final_norm_;  // views them: the file may be gone
  std::string step_program_;
  Fallback fallback_;  // empty: none, or it has taken over
  // Every device so far: callers may still hold a device's name or free its states.
  std::vector<std::unique_ptr<Loaded>> loaded_;
  std::atomic<const Loaded*> current_{nullptr};
  std::mutex running_;
};

}  // namespace runnel
