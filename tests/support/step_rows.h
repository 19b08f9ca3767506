// SPDX-License-Identifier: Apache-2.0
// Every row of a ladder of one-token programs × every random model that it takes × {alone, two sessions of one pass,
// after a restore}, against the reference and against itself.
#pragma once

#include <string>
#include <vector>

#include "runtime/backend/reference/reference_backend.h"
#include "tests/support/random_model.h"

namespace runnel::test {

struct StepRowModel {
  std::string name;
  RandomModel (*make)();
  /// It has so many weights, or such shaders, that a software driver takes too long.
  bool large = false;
};

/// The smallest models that the rows of all ladders take between them, and one that none but "ops" takes.
const std::vector<StepRowModel>& step_row_models();

/// Shifted projections of three layers with heads of 64 and ranks of 32 to 96.
ModelConfig shifted_config(int hidden_size, int intermediate_size, int layers = 3);
/// The same with RMSNorms, and without a norm of heads, output gate, bonus and norm of the embedding.
ModelConfig without_norms(ModelConfig config);

/// How a row computes a model: what the reference does with activations to do the same, and how near it then is.
struct StepRowRules {
  reference::Activations activations = reference::Activations::exact;
  double tolerance = 0.0;
};

/// The three checks on one model. A row that does not take it runs nothing; any other failure fails the test.
/// @return whether the row takes the model
bool check_step_row(Backend& backend, const std::string& row, const StepRowModel& model,
                    StepRowRules (*rules)(const std::string& row, const RandomModel& model));

/// What ModelConfig and weights look like to the rows' own fits().
bool has_blocks(const RandomModel& model);

}  // namespace runnel::test
