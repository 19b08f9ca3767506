// SPDX-License-Identifier: Apache-2.0
// The buffers between the ops of a plan. The engine reads x after the layers of a pass without a head; a test runs an op
// alone: it records embed and the op, writes what the op reads, runs the plan and reads what the op wrote.
#pragma once

#include <cstdint>
#include <span>

#include "runnel/result.h"
#include "runtime/model/layer_spec.h"

namespace runnel {

/// What ops hand to one another, f32, a row per token. D, HQ, H, K, V, F as in LayerSpec.
enum class PassBuffer {
  x,        // [T, D]    the residual stream
  q,        // [T, HQ*K] as the projections leave it: with its bias, before maps and rotations
  k,        // [T, H*K]  the same
  v,        // [T, H*V]  the same
  f,        // [T, H*F]  gate logits without their bias
  r,        // [T, H*R]  refining or rate logits without their bias
  gate,     // [T, HQ*V] output gate
  o,        // [T, HQ*V] what the mixer read
  first_v,  // [T, H*V] values that a layer keeps for later ones
};

/// Columns of a row of `buffer` in a layer; 0: the layer has none.
std::int64_t columns_of(PassBuffer buffer, const LayerSpec& layer, std::int64_t hidden_size);

/// Between runs of its plan, on the thread that uses the plan. Rows are those of one item.
///
/// Convolutions and gates of low rank belong to the projections on some devices and to the mixer on others, and a
/// normalizer divides in the mixer or in the output projection, as a bonus goes from one to the other: there the ops on
/// both sides are one unit.
class PassProbe {
 public:
  virtual ~PassProbe() = default;

  /// Sets the first rows of a buffer; nothing, if this device has no such buffer of this layer.
  /// @param rows  [T, columns_of(buffer)], T at most Plan::max_tokens()
  /// @return invalid_argument for another size; device
  virtual Status write(PassBuffer buffer, const LayerSpec& layer, std::span<const float> rows) = 0;

  /// The first rows of a buffer, as the last run or write() left them. Sizes and errors as above.
  /// @return unsupported if this device has no such buffer of this layer
  virtual Status read(PassBuffer buffer, const LayerSpec& layer, std::span<float> rows) = 0;
};

/// invalid_argument unless `floats` are whole rows of the buffer, at most `max_tokens` of them.
Status check_rows(PassBuffer buffer, const LayerSpec& layer, std::int64_t hidden_size,
                  std::size_t floats, int max_tokens);

}  // namespace runnel
