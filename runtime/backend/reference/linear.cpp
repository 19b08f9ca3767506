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

void add_bias(const WeightView& bias, std::span<float> y) {
  if (!bias.present()) return;
  const std::vector<float> b = row_values(bias, 0);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += b[i % b.size()];
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

void group_norm(const WeightView& w, const WeightView& b, float eps, std::size_t width,
                std::span<float> row) {
  const std::vector<float> weight = row_values(w, 0), bias = row_values(b, 0);
  for (std::size_t at = 0; at < row.size(); at += width) {
    const std::span<float> group = row.subspan(at, width);
    float sum = 0.0F, squares = 0.0F;
    for (float v : group) sum += v;
    const float mean = sum / static_cast<float>(width);
    for (float v : group) squares += (v - mean) * (v - mean);
    const float scale = 1.0F / std::sqrt(squares / static_cast<float>(width) + eps);
    for (std::size_t i = 0; i < width; ++i)
      group[i] = (group[i] - mean) * scale * weight[at + i] + bias[at + i];
  }
}

void output_projection(const LayerSpec& layer, const OutputWeights& w, Activations activations,
                       const OutputInput& in, std::span<float> x) {
  const std::size_t channels = static_cast<std::size_t>(w.o_proj.cols);
  const std::size_t dim = static_cast<std::size_t>(layer.head_v_dim);
  std::vector<float> normed(in.o.begin(), in.o.end());
  for (float& v : normed) v = activate(layer.output_activation, v);
  const auto norm_rows = [&](std::size_t width) {
    for (std::size_t at = 0; at < normed.size(); at += width) {
      const std::span<float> row = std::span(normed).subspan(at, width);
      rms_norm(row, w.g_norm, layer.output_norm_eps, row);
    }
  };
  switch (layer.output_norm) {
    case OutputNorm::none:
      break;
    case OutputNorm::channels:
      norm_rows(channels);
      break;
    case OutputNorm::heads:
      norm_rows(dim);
      break;
    case OutputNorm::groups:
      for (std::size_t at = 0; at < normed.size(); at += channels) {
        group_norm(w.g_norm, w.g_norm_bias, layer.output_norm_eps, dim,
                   std::span(normed).subspan(at, channels));
      }
      break;
  }
  for (std::size_t i = 0; i < in.bonus.size() * dim; ++i) normed[i] += in.bonus[i / dim] * in.v[i];
  for (std::size_t i = 0; i < in.gate.size(); ++i)
    normed[i] *= activate(layer.gate_activation, in.gate[i]);
  std::vector<float> y(x.size());
  linear(w.o_proj, activations, normed, y);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

void gated_mlp(const LayerSpec& layer, const ChannelMixWeights& w, Activations activations,
               std::span<float> x) {
  std::vector<float> normed(x.size());
  norm(layer.channel_norm, w.norm, x, normed);
  const std::size_t tokens = x.size() / static_cast<std::size_t>(w.up_proj.cols);
  std::vector<float> gate(tokens * static_cast<std::size_t>(layer.intermediate_size));
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

void shift(std::span<const float> lerp, std::span<float> h, std::span<float> last) {
  const std::size_t width = last.size();
  for (std::size_t t = 0; t < h.size() / width; ++t) {
    for (std::size_t i = 0; i < width; ++i) {
      float& x = h[t * width + i];
      const float own = x;
      x = own + lerp[i] * (last[i] - own);
      last[i] = own;
    }
  }
}

void squared_relu_mlp(const LayerSpec& layer, const ChannelMixWeights& w, Activations activations,
                      std::span<const float> normed, std::span<float> x) {
  const std::size_t tokens = x.size() / static_cast<std::size_t>(w.up_proj.cols);
  std::vector<float> up(tokens * static_cast<std::size_t>(layer.intermediate_size));
  linear(w.up_proj, activations, normed, up);
  for (float& v : up) v = std::max(v, 0.0F) * std::max(v, 0.0F);
  std::vector<float> y(x.size());
  linear(w.down_proj, activations, up, y);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

void logits(const NormSpec& spec, const NormWeights& norm_weights, const WeightView& head,
            Activations activations, std::span<const float> x, std::span<float> out) {
  std::vector<float> normed(x.size());
  norm(spec, norm_weights, x, normed);
  linear(head, activations == Activations::tensor ? Activations::exact : activations, normed, out);
}

}  // namespace runnel::reference
