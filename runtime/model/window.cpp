// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/window.h"

#include <algorithm>
#include <array>
#include <span>

#include "runtime/base/hash.h"
#include "runtime/base/try.h"

namespace runnel {

std::int32_t most_window_slots(const ModelConfig& config) {
  std::int32_t most = 0;
  for (const LayerSpec& layer : config.layers) {
    if (layer.kind() == Mixer::slots) most = std::max(most, layer.slots().num_window_slots);
  }
  return most;
}

std::uint64_t WindowChoice::fingerprint(std::int32_t window) const {
  if (window == file_slots) return file_fingerprint;
  const std::array<std::uint64_t, 2> both = {file_fingerprint, static_cast<std::uint64_t>(window)};
  return hash64(std::as_bytes(std::span(both)));
}

Status choose_window(ModelFile& model, std::optional<std::int64_t> wanted) {
  if (!wanted) return {};
  const std::int32_t most = model.window.file_slots;
  if (most == 0) {
    return fail(ErrorCode::unsupported, "window_slots: ", *wanted,
                ", but this model has no window slots, expected no choice");
  }
  if (*wanted < 0 || *wanted > most) {
    return fail(ErrorCode::invalid_argument, "window_slots: ", *wanted, ", expected 0 to ", most,
                ", the window of the model's file");
  }
  model.window.slots = static_cast<std::int32_t>(*wanted);
  model.fingerprint = model.window.fingerprint(model.window.slots);
  for (LayerSpec& layer : model.config.layers) {
    if (layer.kind() != Mixer::slots) continue;
    SlotSpec& s = layer.slots();
    s.num_window_slots = std::min(s.num_window_slots, model.window.slots);
  }
  return {};
}

}  // namespace runnel
