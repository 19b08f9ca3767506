// SPDX-License-Identifier: Apache-2.0
// What a Model holds, for the parts of the library that work on it.
#pragma once

#include <memory>

#include "runnel/model.h"
#include "runtime/base/access.h"
#include "runtime/constraint/constraint_cache.h"
#include "runtime/model/engine.h"
#include "runtime/text/tokenizer.h"

namespace runnel {

struct Model::Impl {
  ModelInfo info;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: ids only
  ChatFormat chat;
  SamplingOptions sampling;
  std::unique_ptr<Engine> engine;
  mutable ConstraintCache constraints;
};

/// The engine that its sessions run on.
inline Engine& engine_of(const Model& model) { return *Access::impl(model).engine; }

/// Its compiled constraints.
inline ConstraintCache& constraints_of(const Model& model) {
  return Access::impl(model).constraints;
}

/// Null if the file had none.
inline const Tokenizer* tokenizer_of(const Model& model) {
  return Access::impl(model).tokenizer.get();
}

}  // namespace runnel
