// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/backend.h"

namespace runnel {

std::string to_string(const StepProgram& program) {
  std::string text = program.name;
  if (!program.detail.empty()) text += " (" + program.detail + ")";
  for (const StepProgram::Refused& r : program.refused) text += "; not " + r.name + ": " + r.reason;
  return text;
}

}  // namespace runnel
