// SPDX-License-Identifier: Apache-2.0
// The arrays of a plan: counted as they are made.
#pragma once

#include <type_traits>

#include "runtime/backend/cuda/handles.h"
#include "runtime/base/try.h"

namespace runnel::cuda {

/// Makes `array` and adds its size to `bytes`; nothing for a count of zero.
template <class T>
Status plan_array(DeviceArray<T>& array, std::size_t count, std::string_view what,
                  std::uint64_t& bytes) {
  if (count == 0) return {};
  RUNNEL_TRY(array, device_array<T>(count, what));
  bytes += array.bytes();
  return {};
}

}  // namespace runnel::cuda
