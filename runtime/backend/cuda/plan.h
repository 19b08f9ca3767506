// SPDX-License-Identifier: Apache-2.0
// Replays a recorded pass: one token, and many of a number that has come before, as a CUDA graph;
// anything else launch by launch.
#pragma once

#include <memory>

#include "runtime/backend/cuda/resident_model.h"

namespace runnel::cuda {

Result<std::unique_ptr<Plan>> record_plan(std::shared_ptr<ResidentModel> model, int max_tokens,
                                          const Recording& recording);

}  // namespace runnel::cuda
