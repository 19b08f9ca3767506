// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs as backends.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/cuda/resident_model.h"

namespace runnel::cuda {

/// Usable devices, in the driver's order; none without a driver.
std::vector<DeviceInfo> devices();

/// Facts about device `index`, which must exist.
DeviceFacts facts_of(int index);

/// The device "cuda:<index>", its weights where weight_place() says or where the caller wants them.
/// @return not_found, saying how many there are and why none.
Result<std::unique_ptr<Backend>> make_backend(int index, std::optional<WeightPlace> place = {});

}  // namespace runnel::cuda
