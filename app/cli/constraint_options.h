// SPDX-License-Identifier: Apache-2.0
// Options of chat and run that say what an answer must be.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "runnel/constraint.h"
#include "runnel/model.h"
#include "runnel/result.h"

namespace runnel::cli {

/// What the command line says: one of these at most.
struct ConstraintChoice {
  bool json = false;
  std::string schema;   // file
  std::string grammar;  // file
  std::string regex;
  std::vector<std::string> choices;

  bool any() const {
    return json || !schema.empty() || !grammar.empty() || !regex.empty() || !choices.empty();
  }
};

/// Adds --json, --json-schema, --grammar, --regex and --choice.
void add_constraint_options(CLI::App& parser, ConstraintChoice& choice);

/// The constraint, or null if none was given.
/// @return as Constraint::compile(), with the option's name; not_found or io for a file
Result<std::shared_ptr<const Constraint>> chosen_constraint(const ConstraintChoice& choice,
                                                            const Model& model);

}  // namespace runnel::cli
