// SPDX-License-Identifier: Apache-2.0
// The backend that computes what ops.h says, token by token, on one thread. Slow; right.
#pragma once

#include <memory>

#include "runtime/backend/backend.h"
#include "runtime/backend/reference/ops.h"

namespace runnel::reference {

/// @param activations  rounded: as backends with int8 activations see them, for comparing like with like.
std::unique_ptr<Backend> make_backend(Activations activations = Activations::exact);

}  // namespace runnel::reference
