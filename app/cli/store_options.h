// SPDX-License-Identifier: Apache-2.0
// Options that convert and quantize share, and what both say about the file they wrote.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runnel/result.h"
#include "runtime/model/model_writer.h"

namespace runnel::cli {

struct StoreChoice {
  std::string type;                  // empty: not given
  std::vector<std::string> tensors;  // REGEX=TYPE
  std::string split;                 // N(M|G); empty: one file
  int threads = 0;
  bool report = false;
  bool force = false;
};

/// What --type does to tensors that are not linear weights; for the footer of --help.
std::string storage_help();

/// Adds --type, --tensor, --split-max-size, --threads, --report and --force.
CLI::Option* add_store_options(CLI::App& parser, StoreChoice& choice);

/// @return invalid_argument for a --tensor that is no REGEX=TYPE or a --split-max-size that is no size.
Result<StoreOptions> store_options(const StoreChoice& choice);

/// What to say where writing `out` would replace a file that is read for `in`, under whatever name; else nothing. `in`
/// is a model file, of one part or more, or a checkpoint: a file or a directory.
std::optional<std::string> input_replaced(const std::string& in, const std::string& out,
                                          const StoreChoice& choice);

/// @return invalid_argument if `path`, or a part of it where it is to be split, is there and --force was not given.
Status check_overwrite(const std::string& path, const StoreChoice& choice);

/// Reports the stored tensors on standard output: rows that fitted no block, the table of --report, the sizes.
void print_stored(const std::string& path, const std::vector<StoredTensor>& tensors,
                  const StoreChoice& choice);

}  // namespace runnel::cli
