// SPDX-License-Identifier: Apache-2.0
// Model::load on an engine of the caller's choice. For tests.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "runnel/model.h"
#include "runtime/model/engine.h"

namespace runnel {

class ModelLoader {
 public:
  using MakeEngine =
      std::function<Result<std::unique_ptr<Engine>>(ModelFile file, const LoadProgress& progress)>;

  static Result<std::shared_ptr<const Model>> load(const std::filesystem::path& file,
                                                   const ModelOptions& options,
                                                   const MakeEngine& make_engine);
};

}  // namespace runnel
