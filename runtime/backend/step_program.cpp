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

Status refuse_removals(const ModelConfig& config, const std::string& device) {
  const auto refuse = [&device](const LayerSpec& layer, const char* what) {
    return fail(ErrorCode::unsupported, device, ": layer ", layer.index, " has ", what,
                ", which only the CPU computes so far");
  };
  for (const LayerSpec& layer : config.layers) {
    if (layer.mixer_shift > 0 || layer.channel_shift > 0)
      return refuse(layer, "shifted inputs (a mix with the token before)");
    if (layer.output_norm == OutputNorm::groups)
      return refuse(layer, "a LayerNorm of each head's output");
    if (layer.kind() != Mixer::recurrence) continue;
    if (layer.recurrence().removal != Removal::none)
      return refuse(layer, "a recurrence that takes out before it adds (a delta rule)");
  }
  if (config.embedding_norm && !config.layers.empty())
    return refuse(config.layers.front(), "a norm behind the embedding");
  return {};
}

}  // namespace runnel
