// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "runtime/io/snapshot_data.h"

namespace runnel {

/// What one generation leaves for the next on the same session, so that stopping and continuing changes nothing.
struct GenerationCarry {
  std::string utf8;    // bytes of a character begun by the last generated token
  std::string stop;    // text held back because it may be the beginning of a stop string
  std::string unread;  // shown text of an answer that the next turn begins with
  std::optional<float> mirostat_mu = {};  // of SamplingOptions::mirostat, where that was on
  std::optional<ConstraintState> constraint = {};  // of GenerationOptions::constraint

  bool operator==(const GenerationCarry&) const = default;
};

}  // namespace runnel
