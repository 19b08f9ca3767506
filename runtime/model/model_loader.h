// SPDX-License-Identifier: Apache-2.0
// Model::load of any file, on an engine of the caller's choice.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "runnel/model.h"
#include "runtime/io/gguf.h"
#include "runtime/model/engine.h"

namespace runnel {

class ModelLoader {
 public:
  using MakeEngine =
      std::function<Result<std::unique_ptr<Engine>>(ModelFile file, const LoadProgress& progress)>;
  using OpenFile = std::function<Result<std::shared_ptr<const GgufFile>>()>;

  /// @param name  what errors call the file
  /// @param open  called once the options are checked
  static Result<std::shared_ptr<const Model>> load(const std::string& name, const OpenFile& open,
                                                   const ModelOptions& options,
                                                   const MakeEngine& make_engine);

  static Result<std::shared_ptr<const Model>> load(const std::filesystem::path& file,
                                                   const ModelOptions& options,
                                                   const MakeEngine& make_engine) {
    return load(
        file.string(), [&file] { return GgufFile::open(file); }, options, make_engine);
  }
};

}  // namespace runnel
