// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/backend.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {

std::string to_string(const StepProgram& program) {
  std::string text = program.name;
  if (!program.detail.empty()) text += " (" + program.detail + ")";
  // On an H200: slots of 0.5B and 1.38B 4.6 and 2.6 times, a recurrence of 1.5B 3.9; about 4 on Vulkan.
  if (program.name == "ops" && !program.refused.empty())
    text += " (two to five times slower than one kernel)";
  for (const StepProgram::Refused& r : program.refused) text += "; not " + r.name + ": " + r.reason;
  return text;
}

Status expect_ops(const std::string& wanted, const std::string& device) {
  if (wanted.empty() || wanted == "ops") return {};
  return fail(ErrorCode::not_found, "step program ", in_quotes(wanted), ": ", device,
              " has only ops");
}

}  // namespace runnel
