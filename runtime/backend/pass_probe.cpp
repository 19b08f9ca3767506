// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/pass_probe.h"

#include "runtime/base/try.h"

namespace runnel {

std::int64_t columns_of(PassBuffer buffer, const LayerSpec& layer, std::int64_t hidden_size) {
  const bool recurrent = layer.kind() == Mixer::recurrence;
  switch (buffer) {
    case PassBuffer::x:
      return hidden_size;
    case PassBuffer::q:
      return layer.q_channels();
    case PassBuffer::k:
      return recurrent && layer.recurrence().complement_keys ? 0 : layer.k_channels();
    case PassBuffer::v:
      return layer.v_channels();
    case PassBuffer::f:
      return layer.gate_channels();
    case PassBuffer::r:
      return layer.rate_channels();
    case PassBuffer::gate:
      return layer.output_gate ? layer.o_channels() : 0;
    case PassBuffer::o:
      return layer.o_channels();
    case PassBuffer::first_v:
      return recurrent && (layer.recurrence().first_values || layer.recurrence().value_rank > 0)
                 ? layer.v_channels()
                 : 0;
  }
  return 0;
}

Status check_rows(PassBuffer buffer, const LayerSpec& layer, std::int64_t hidden_size,
                  std::size_t floats, int max_tokens) {
  const auto columns = static_cast<std::size_t>(columns_of(buffer, layer, hidden_size));
  if (columns > 0 && floats % columns == 0 &&
      floats / columns <= static_cast<std::size_t>(max_tokens))
    return {};
  return fail(ErrorCode::invalid_argument, "probe: buffer ", static_cast<int>(buffer), " has ",
              floats, " floats, expected up to ", max_tokens, " rows of ", columns);
}

}  // namespace runnel
