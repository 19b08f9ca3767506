// SPDX-License-Identifier: Apache-2.0
// runnel snapshot bench, and what it shares with the other snapshot commands.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/cli/model_options.h"
#include "runnel/result.h"
#include "runnel/snapshot.h"

namespace runnel::cli {

struct SnapshotBenchOptions {
  ModelChoice model;
  std::string directory = ".";
  std::string text;  // a file; empty: tokens of no meaning
  int tokens = 300;
};

/// Prints times and sizes of saving and restoring, and what rounding the state changes.
/// @return an exit code.
Result<int> bench_snapshots(const SnapshotBenchOptions& options);

/// How two lists of equal length differ.
struct Difference {
  double largest = 0.0;
  double relative_rms = 0.0;  // of a - b, by that of a
  std::size_t unequal = 0;
};

Difference compare(const std::vector<float>& a, const std::vector<float>& b);

const char* name_of(StateEncoding encoding);

}  // namespace runnel::cli
