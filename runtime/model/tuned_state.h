// SPDX-License-Identifier: Apache-2.0
// Tuned initial states of RWKV (blocks.i.att.time_state, "state tuning") as snapshots at position 0.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "runnel/model.h"
#include "runnel/result.h"
#include "runnel/snapshot.h"
#include "runtime/io/safetensors.h"

namespace runnel {

/// Whether the file begins as a zip archive does, so is a checkpoint of torch and no snapshot.
bool is_torch_file(const std::filesystem::path& file);

/// The state that a session of `model` starts from: each layer's S [K, V] from blocks.i.att.time_state [H, V, K], all
/// else zero.
/// @return unsupported for a model whose layers have no such state; malformed or mismatch, naming a tensor that is
///         missing, left over, or of another shape or type.
Result<Snapshot> tuned_state(const std::map<std::string, SafetensorsTensor, std::less<>>& tensors,
                             const std::shared_ptr<const Model>& model);

/// The same from a file. @return also what TorchCheckpoint::open returns
Result<Snapshot> load_tuned_state(const std::filesystem::path& file,
                                  const std::shared_ptr<const Model>& model);

}  // namespace runnel
