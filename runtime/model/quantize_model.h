// SPDX-License-Identifier: Apache-2.0
// A model file stored again in other types.
#pragma once

#include <filesystem>
#include <vector>

#include "runtime/model/model_file.h"
#include "runtime/model/model_writer.h"

namespace runnel {

/// Writes `model` to `path`; every key is kept, tensors whose type does not change are copied byte for byte.
/// @return as write_model.
Result<std::vector<StoredTensor>> quantize_model(const ModelFile& model,
                                                 const std::filesystem::path& path,
                                                 const StoreOptions& options);

}  // namespace runnel
