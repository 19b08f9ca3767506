// SPDX-License-Identifier: Apache-2.0
// Functions of one value or one vector: activations, RMSNorm, int8 rounding, feature maps, gate, rotation.
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/backend/reference/ops.h"
#include "runtime/backend/reference/weight_rows.h"

namespace runnel::reference {

float swish(float x) { return x / (1.0F + std::exp(-x)); }

float log_sigmoid(float x) { return std::min(x, 0.0F) - std::log1p(std::exp(-std::fabs(x))); }

float activate(Activation a, float x) {
  switch (a) {
    case Activation::identity:
      return x;
    case Activation::swish:
      return swish(x);
    case Activation::relu:
      return std::max(x, 0.0F);
  }
  return x;
}

void rms_norm(std::span<const float> x, const WeightView& w, float eps, std::span<float> out) {
  float squares = 0.0F;
  for (float v : x) squares += v * v;
  const float scale = 1.0F / std::sqrt(squares / static_cast<float>(x.size()) + eps);
  const std::vector<float> weight =
      w.present() ? row_values(w, 0) : std::vector<float>(x.size(), 1.0F);
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * weight[i];
}

namespace {

void layer_norm(std::span<const float> x, const NormWeights& w, float eps, std::span<float> out) {
  const auto n = static_cast<float>(x.size());
  float sum = 0.0F, squares = 0.0F;
  for (float v : x) sum += v;
  const float mean = sum / n;
  for (float v : x) squares += (v - mean) * (v - mean);
  const float scale = 1.0F / std::sqrt(squares / n + eps);
  const std::vector<float> weight = row_values(w.weight, 0), bias = row_values(w.bias, 0);
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

}  // namespace

void norm(const NormSpec& spec, const NormWeights& w, std::span<const float> x,
          std::span<float> out) {
  const auto width = static_cast<std::size_t>(w.weight.cols);
  for (std::size_t at = 0; at < x.size(); at += width) {
    const std::span<const float> row = x.subspan(at, width);
    switch (spec.kind) {
      case Norm::rms:
        rms_norm(row, w.weight, spec.eps, out.subspan(at, width));
        break;
      case Norm::layer:
        layer_norm(row, w, spec.eps, out.subspan(at, width));
        break;
    }
  }
}

void round_to_int8_blocks(std::span<float> x) {
  for (std::size_t start = 0; start < x.size(); start += quant::kQ8Block) {
    const std::span<float> block =
        x.subspan(start, std::min<std::size_t>(quant::kQ8Block, x.size() - start));
    float largest = 0.0F;
    for (float v : block) largest = std::max(largest, std::fabs(v));
    const float d = largest / 127.0F;
    const float inverse = d > 0.0F ? 127.0F / largest : 0.0F;
    for (float& v : block) v = d * std::nearbyint(v * inverse);
  }
}

void feature_map(FeatureMap kind, const WeightView& map, std::int32_t head_dim,
                 std::span<float> x) {
  switch (kind) {
    case FeatureMap::identity:
      return;
    case FeatureMap::swish:
      for (float& v : x) v = swish(v);
      return;
    case FeatureMap::relu:
      for (float& v : x) v = std::max(v, 0.0F);
      return;
    case FeatureMap::t2r: {
      std::vector<float> mapped(x.size());  // each head is a row of its own
      linear(map, Activations::exact, x, mapped);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::max(mapped[i], 0.0F);
      static_cast<void>(head_dim);
      return;
    }
    case FeatureMap::elu:
    case FeatureMap::product:
    case FeatureMap::hedgehog:
    case FeatureMap::dpfp:
    case FeatureMap::exponential:
      return;  // of the recurrence: see features()
  }
}

void log_decay(const WeightView& bias, float normalizer, float floor, std::span<float> f) {
  const std::vector<float> b = bias.present() ? row_values(bias, 0) : std::vector<float>();
  for (std::size_t i = 0; i < f.size(); ++i) {
    const float logit = b.empty() ? f[i] : f[i] + b[i % b.size()];
    f[i] = log_sigmoid(logit) / normalizer;
    if (floor < 0.0F) f[i] = std::max(f[i], floor);
  }
}

void rotate(std::span<float> x, double position, double theta) {
  const std::size_t half = x.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(x.size());
    const double angle = position * std::pow(theta, exponent);
    const float c = static_cast<float>(std::cos(angle));
    const float s = static_cast<float>(std::sin(angle));
    const float a = x[i];
    const float b = x[i + half];
    x[i] = a * c - b * s;
    x[i + half] = b * c + a * s;
  }
}

}  // namespace runnel::reference
