// SPDX-License-Identifier: Apache-2.0
// The compiled constraints of one model, and what compiles them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "runnel/constraint.h"
#include "runnel/result.h"
#include "runtime/constraint/grammar_engine.h"

namespace runnel {

/// Keeps the constraints used last. Any number of threads.
class ConstraintCache {
 public:
  static constexpr std::size_t kMost = 32;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

  /// @return as Constraint::compile()
  Result<std::shared_ptr<const Constraint>> get(const Model& model, const ConstraintSource& source);

 private:
  Result<std::shared_ptr<const GrammarCompiler>> compiler(const Model& model);
  std::shared_ptr<const Constraint> find(std::uint64_t hash, const ConstraintSource& source);
  void keep(std::shared_ptr<const Constraint> made);

  std::mutex mutex_;
  std::shared_ptr<const GrammarCompiler> compiler_;     // made with the first constraint
  std::deque<std::shared_ptr<const Constraint>> kept_;  // the one used last in front
};

/// What a Constraint is.
struct Constraint::Impl {
  ConstraintSource source;
  std::uint64_t hash = 0;
  std::uint64_t model_fingerprint = 0;
  std::size_t vocab = 0;  // tokens of a mask
  std::shared_ptr<const CompiledGrammar> grammar;
};

}  // namespace runnel
