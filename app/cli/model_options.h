// SPDX-License-Identifier: Apache-2.0
// Which model to load and where to compute: options that most commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runnel/model.h"
#include "runnel/result.h"
#include "runnel/session.h"
#include "runnel/snapshot.h"

namespace runnel::cli {

struct ModelChoice {
  std::string file;
  std::string name;  // of a model that comes with the program; empty like the file: the default one
  std::string device = "auto";
  int threads = 0;
  std::optional<std::int64_t> window;  // empty: the file's
  std::string chat_template;           // chatml, plain, rwkv or a file; empty: the model's own
};

/// Adds --window alone.
void add_window_option(CLI::App& parser, ModelChoice& choice);

/// Adds FILE, --model, --device, --threads and --window.
void add_model_options(CLI::App& parser, ModelChoice& choice);

/// Adds --chat-template.
void add_chat_template_option(CLI::App& parser, ModelChoice& choice);

/// The file to load: the one given, else the carried model of that name in `models` of the source tree or the directory
/// that the program runs from, or among the data files of the user or the system.
/// @return not_found, listing where it was looked for; invalid_argument if no model has the name.
Result<std::string> model_file(const ModelChoice& choice);

/// Loads with a progress bar. The environment variable RUNNEL_STEP, if set, names the step program.
/// @return errors of Model::load; those of the file's contents name the file.
Result<std::shared_ptr<const Model>> load_model(const ModelChoice& choice);

/// The same error with the name of its file before it, if it is not there yet.
Error of_file(Error error, const std::string& file);

/// A snapshot to start `model` from: a file of ours, or a tuned state of RWKV (.pth).
Result<Snapshot> load_start(const std::string& file, const std::shared_ptr<const Model>& model);

/// The same, restored into `session`. Every error names the file.
Result<Snapshot> start_from(const std::string& file, Session& session);

}  // namespace runnel::cli
