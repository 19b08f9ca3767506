// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/backend.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {

std::string to_string(const StepProgram& program) {
  std::string text = program.name;
  if (!program.detail.empty()) text += " (" + program.detail + ")";
  for (const StepProgram::Refused& r : program.refused) text += "; not " + r.name + ": " + r.reason;
  return text;
}

Status expect_ops(const std::string& wanted, const std::string& device) {
  if (wanted.empty() || wanted == "ops") return {};
  return fail(ErrorCode::not_found, "step program ", in_quotes(wanted), ": ", device,
              " has only ops");
}

}  // namespace runnel
