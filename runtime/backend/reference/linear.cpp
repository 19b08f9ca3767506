// SPDX-License-Identifier: Apache-2.0
// Everything that multiplies by a weight matrix.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "quant/quantise.h"
#include "runtime/backend/reference/ops.h"
#include "runtime/backend/reference/weight_rows.h"

namespace runnel::reference {

std::vector<float> row_values(const WeightView& w, std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(w.cols));
  const std::size_t bytes = quant::row_bytes(w.type, w.cols);
  const std::span<const std::byte> stored =
      w.data.subspan(static_cast<std::size_t>(row) * bytes, bytes);
  if (!quant::dequantize_rows(w.type, stored, w.cols, values)) {
    std::fill(values.begin(), values.end(), NAN);  // sizes and types were checked at load
  }
  return values;
}

void round_to_bf16(std::span<float> x) {
  for (float& v : x) {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    if (std::isnan(v)) continue;
    v = std::bit_cast<float>((bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U);
  }
}

void linear(const WeightView& w, Activations activations, std::span<const float> x,
            std::span<float> y) {
  const std::size_t cols = static_cast<std::size_t>(w.cols);
  const std::size_t rows = static_cast<std::size_t>(w.rows);
  const std::size_t tokens = x.size() / cols;
  std::vector<float> inputs(x.begin(), x.end());
  if (activations == Activations::rounded && quant::is_block_type(w.type)) {
    for (std::size_t t = 0; t < tokens; ++t)
      round_to_int8_blocks(std::span(inputs).subspan(t * cols, cols));
  }
  if (activations == Activations::tensor && w.type != quant::BlockType::f32) round_to_bf16(inputs);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::vector<float> weight = row_values(w, static_cast<std::int64_t>(r));
    for (std::size_t t = 0; t < tokens; ++t) {
      const float* input = inputs.data() + t * cols;
      float sum = 0.0F;
      for (std::size_t c = 0; c < cols; ++c) sum += weight[c] * input[c];
      y[t * rows + r] = sum;
    }
  }
}

void embed(const WeightView& table, std::span<const TokenId> tokens, std::span<float> x) {
  const std::size_t width = static_cast<std::size_t>(table.cols);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::vector<float> row = row_values(table, tokens[t]);
    std::copy(row.begin(), row.end(), x.begin() + static_cast<std::ptrdiff_t>(t * width));
  }
}

void short_conv(const WeightView& w, bool silu, std::span<float> x, std::span<float> tail) {
  const std::size_t channels = static_cast<std::size_t>(w.rows);
  const std::size_t taps = static_cast<std::size_t>(w.cols);
  const std::size_t tokens = x.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    const std::vector<float> weight = row_values(w, static_cast<std::int64_t>(c));
    const std::span<float> last = tail.subspan(c * taps, taps);
    for (std::size_t t = 0; t < tokens; ++t) {
      std::shift_left(last.begin(), last.end(), 1);
      last.back() = x[t * channels + c];
      float sum = 0.0F;
      for (std::size_t j = 0; j < taps; ++j) sum += weight[j] * last[j];
      x[t * channels + c] = silu ? swish(sum) : sum;
    }
  }
}

void output_projection(const ModelConfig& config, const LayerWeights& w, Activations activations,
                       std::span<const float> o, std::span<const float> gate, std::span<float> x) {
  const std::size_t channels = static_cast<std::size_t>(w.o_proj.cols);
  const std::size_t tokens = o.size() / channels;
  std::vector<float> normed(o.begin(), o.end());
  for (float& v : normed) v = activate(config.output_activation, v);
  if (config.output_norm) {
    const std::size_t width =
        config.output_norm_heads ? static_cast<std::size_t>(config.head_v_dim) : channels;
    for (std::size_t at = 0; at < tokens * channels; at += width) {
      const std::span<float> row = std::span(normed).subspan(at, width);
      rms_norm(row, w.g_norm, config.g_norm_eps, row);
    }
  }
  for (std::size_t i = 0; i < gate.size(); ++i) normed[i] *= swish(gate[i]);
  std::vector<float> y(x.size());
  linear(w.o_proj, activations, normed, y);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

void gated_mlp(const ModelConfig& config, const LayerWeights& w, Activations activations,
               std::span<float> x) {
  const std::size_t width = static_cast<std::size_t>(config.hidden_size);
  const std::size_t tokens = x.size() / width;
  std::vector<float> normed(x.size());
  for (std::size_t t = 0; t < tokens; ++t) {
    rms_norm(x.subspan(t * width, width), w.mlp_norm, config.norm_eps,
             std::span(normed).subspan(t * width, width));
  }
  std::vector<float> gate(tokens * static_cast<std::size_t>(config.intermediate_size));
  std::vector<float> up(gate.size());
  linear(w.gate_proj, activations, normed, gate);
  linear(w.up_proj, activations, normed, up);
  if (activations == Activations::tensor && w.gate_proj.type != quant::BlockType::f32) {
    round_to_bf16(gate);
    round_to_bf16(up);
  }
  for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = swish(gate[i]) * up[i];
  std::vector<float> y(x.size());
  linear(w.down_proj, activations, gate, y);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

void logits(const ModelConfig& config, const WeightView& final_norm, const WeightView& head,
            Activations activations, std::span<const float> x, std::span<float> out) {
  const std::size_t width = static_cast<std::size_t>(config.hidden_size);
  std::vector<float> normed(x.size());
  for (std::size_t at = 0; at < x.size(); at += width) {
    rms_norm(x.subspan(at, width), final_norm, config.norm_eps,
             std::span(normed).subspan(at, width));
  }
  linear(head, activations == Activations::tensor ? Activations::exact : activations, normed, out);
}

}  // namespace runnel::reference
