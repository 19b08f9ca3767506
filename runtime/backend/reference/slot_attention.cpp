// SPDX-License-Identifier: Apache-2.0
// The slot step: gated memory slots, a ring of window slots and write-once sinks under one softmax
// (arXiv:2409.07146).
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/backend/reference/ops.h"

namespace runnel::reference {
namespace {

float dot(const float* a, const float* b, std::size_t n) {
  float sum = 0.0F;
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

void slot_step(const LayerSpec& layer, std::uint64_t position, const SlotInput& in,
               std::span<float> keys, std::span<float> values, std::span<float> o) {
  const SlotSpec& spec = layer.slots();
  const std::size_t dim_k = static_cast<std::size_t>(layer.head_k_dim);
  const std::size_t dim_v = static_cast<std::size_t>(layer.head_v_dim);
  const std::size_t sinks = static_cast<std::size_t>(spec.num_sink_slots);
  const std::size_t window = static_cast<std::size_t>(spec.num_window_slots);
  const std::size_t positional = sinks + window;
  const std::size_t slots = positional + static_cast<std::size_t>(spec.num_memory_slots);

  // Write: the positional slot of this position, if there is one …
  if (position < sinks || window > 0) {
    const std::size_t slot = position < sinks
                                 ? static_cast<std::size_t>(position)
                                 : sinks + static_cast<std::size_t>((position - sinks) % window);
    const std::span<float> key = keys.subspan(slot * dim_k, dim_k);
    std::copy(in.k.begin(), in.k.end(), key.begin());
    rotate(key, static_cast<double>(position), spec.rope_theta);
    std::copy(in.v.begin(), in.v.end(), values.begin() + static_cast<std::ptrdiff_t>(slot * dim_v));
  }
  // … and every memory slot by its gate.
  for (std::size_t m = 0; positional + m < slots; ++m) {
    const float alpha = std::exp(in.log_alpha[m]);
    float* key = keys.data() + (positional + m) * dim_k;
    float* value = values.data() + (positional + m) * dim_v;
    for (std::size_t c = 0; c < dim_k; ++c) key[c] = alpha * key[c] + in.s[m] * in.k[c];
    for (std::size_t c = 0; c < dim_v; ++c) value[c] = alpha * value[c] + in.s[m] * in.v[c];
  }

  // Read. Positional slots in use: sinks and window slots that some position up to this one has written.
  const std::size_t used_sinks =
      static_cast<std::size_t>(std::min<std::uint64_t>(sinks, position + 1));
  const std::size_t used_window =
      position < sinks
          ? 0
          : static_cast<std::size_t>(std::min<std::uint64_t>(window, position - sinks + 1));
  const std::size_t groups = in.q.size() / dim_k;
  std::vector<float> p(slots);
  for (std::size_t g = 0; g < groups; ++g) {
    const std::span<const float> q = in.q.subspan(g * dim_k, dim_k);
    std::fill(p.begin(), p.end(), -INFINITY);
    if (used_sinks > 0) {
      std::vector<float> rotated(q.begin(), q.end());
      const std::uint64_t distance =
          std::min<std::uint64_t>(position, static_cast<std::uint64_t>(spec.sink_distance));
      rotate(rotated, static_cast<double>(distance), spec.rope_theta);
      for (std::size_t i = 0; i < used_sinks; ++i) {
        p[i] = spec.scale * dot(rotated.data(), keys.data() + i * dim_k, dim_k);
      }
    }
    if (used_window > 0) {
      std::vector<float> rotated(q.begin(), q.end());
      rotate(rotated, static_cast<double>(position), spec.rope_theta);
      for (std::size_t i = sinks; i < sinks + used_window; ++i) {
        p[i] = spec.scale * dot(rotated.data(), keys.data() + i * dim_k, dim_k);
      }
    }
    for (std::size_t i = positional; i < slots; ++i) {
      p[i] = spec.scale * dot(q.data(), keys.data() + i * dim_k, dim_k);
      if (!in.read_bias.empty()) p[i] += in.read_bias[i - positional];
      if (!in.head_read_bias.empty()) p[i] += in.head_read_bias[g];
    }
    const float largest = *std::max_element(p.begin(), p.end());
    float sum = 0.0F;
    for (float& v : p) sum += v = std::exp(v - largest);
    const std::span<float> out = o.subspan(g * dim_v, dim_v);
    std::fill(out.begin(), out.end(), 0.0F);
    for (std::size_t i = 0; i < slots; ++i) {
      if (p[i] == 0.0F) continue;  // unwritten slots may hold anything finite
      const float weight = p[i] / sum;
      for (std::size_t c = 0; c < dim_v; ++c) out[c] += weight * values[i * dim_v + c];
    }
  }
}

}  // namespace runnel::reference
