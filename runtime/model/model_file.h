// SPDX-License-Identifier: Apache-2.0
// A GGUF file read as a model: configuration, weights with checked shapes, fingerprint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runnel/result.h"
#include "runtime/io/gguf.h"
#include "runtime/model/config.h"
#include "runtime/model/weights.h"

namespace runnel {

/// Window slots of the layer that has most of them.
struct WindowChoice {
  std::int32_t slots = 0;              ///< as choose_window() left them
  std::int32_t file_slots = 0;         ///< as the file has them; 0: the model has none
  std::uint64_t file_fingerprint = 0;  ///< of the model with all of the file's

  bool chosen() const { return slots != file_slots; }
  /// The fingerprint of the model with `window` slots.
  std::uint64_t fingerprint(std::int32_t window) const;
};

/// What a model file says. The views in `weights` are valid as long as `file`.
struct ModelFile {
  std::shared_ptr<const GgufFile> file;
  ModelConfig config;
  Weights weights;
  WindowChoice window;
  std::uint64_t fingerprint = 0;  ///< of the model with this window

  /// @return malformed or unsupported, naming key or tensor, value and expectation.
  static Result<ModelFile> from_gguf(std::shared_ptr<const GgufFile> file);
};

/// The configuration as GGUF keys in the order in which they are written, and back. docs/model-file.md has the table.
std::vector<std::pair<std::string, GgufValue>> config_keys(const ModelConfig& config);
void config_to_gguf(const ModelConfig& config, GgufWriter& writer);
Result<ModelConfig> config_from_gguf(const GgufFile& file);

}  // namespace runnel
