// SPDX-License-Identifier: Apache-2.0
// The gated recurrence and what each model of its family feeds it: features, decays, and the second
// pass of a model with slots.
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/backend/reference/ops.h"
#include "runtime/backend/reference/weight_rows.h"

namespace runnel::reference {
namespace {

constexpr float kFeatureSumEps = 1e-4F;
constexpr float kNormalizerEps = 1e-10F;

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

/// W x + b; b may be missing.
std::vector<float> affine(const WeightView& w, const WeightView& b, std::span<const float> x) {
  std::vector<float> y(static_cast<std::size_t>(w.rows));
  linear(w, Activations::exact, x, y);
  if (b.present()) {
    const std::vector<float> bias = row_values(b, 0);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i];
  }
  return y;
}

std::vector<float> hedgehog(const std::vector<float>& y) {
  std::vector<float> out;
  out.reserve(y.size());
  for (float v : y) out.push_back(2.0F * v);
  for (float v : y) out.push_back(-2.0F * v);
  softmax(out);
  return out;
}

std::vector<float> dpfp(std::span<const float> x) {
  std::vector<float> y;
  for (float v : x) y.push_back(std::max(v, 0.0F));
  for (float v : x) y.push_back(std::max(-v, 0.0F));
  std::vector<float> out;
  for (std::size_t roll = 1; roll <= 4; ++roll) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      out.push_back(y[i] * y[(i + y.size() - roll % y.size()) % y.size()]);
    }
  }
  return out;
}

}  // namespace

void softmax(std::span<float> x) {
  const float largest = *std::max_element(x.begin(), x.end());
  float sum = 0.0F;
  for (float& v : x) sum += v = std::exp(v - largest);
  for (float& v : x) v /= sum;
}

std::vector<float> features(FeatureMap kind, const MapWeights& w, bool normalise,
                            std::span<const float> x) {
  std::vector<float> y(x.begin(), x.end());
  switch (kind) {
    case FeatureMap::identity:
    case FeatureMap::exponential:  // needs the running maximum: see recurrence_step
      break;
    case FeatureMap::swish:
      for (float& v : y) v = swish(v);
      break;
    case FeatureMap::relu:
      for (float& v : y) v = std::max(v, 0.0F);
      break;
    case FeatureMap::elu:
      for (float& v : y) v = v > 0.0F ? v + 1.0F : std::exp(v);
      break;
    case FeatureMap::t2r:
      y = affine(*w.first, {}, x);
      for (float& v : y) v = std::max(v, 0.0F);
      break;
    case FeatureMap::product: {
      y = affine(*w.first, *w.first_bias, x);
      const std::vector<float> other = affine(*w.second, *w.second_bias, x);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] *= other[i];
      break;
    }
    case FeatureMap::hedgehog:
      y = hedgehog(affine(*w.first, *w.first_bias, x));
      break;
    case FeatureMap::dpfp:
      y = dpfp(x);
      break;
  }
  if (normalise) {
    float sum = 0.0F;
    for (float v : y) sum += v;
    for (float& v : y) v /= sum + kFeatureSumEps;
  }
  return y;
}

void recurrence_core(std::span<const float> a, std::span<const float> b, std::span<const float> k,
                     std::span<const float> v, std::span<float> state) {
  for (std::size_t i = 0; i < k.size(); ++i) {
    for (std::size_t j = 0; j < v.size(); ++j) {
      float& s = state[i * v.size() + j];
      s = (a.empty() ? 1.0F : a[i]) * s * (b.empty() ? 1.0F : b[j]) + k[i] * v[j];
    }
  }
}

void recurrence_read(std::span<const float> q, float scale, std::span<const float> state,
                     std::span<float> o) {
  std::fill(o.begin(), o.end(), 0.0F);
  for (std::size_t i = 0; i < q.size(); ++i) {
    for (std::size_t j = 0; j < o.size(); ++j) o[j] += q[i] * state[i * o.size() + j];
  }
  for (float& x : o) x *= scale;
}

void recurrence_step(const LayerSpec& layer, std::uint64_t position, int head,
                     const RecurrenceInput& in, const HeadState& state, std::span<float> o) {
  const RecurrenceSpec& c = layer.recurrence();
  const std::size_t group = static_cast<std::size_t>(layer.queries_per_kv_head());
  const std::size_t dim_k = static_cast<std::size_t>(layer.head_k_dim);
  const std::size_t dim_v = static_cast<std::size_t>(layer.head_v_dim);
  const std::size_t gates = static_cast<std::size_t>(layer.gate_dim());
  const bool first = position == 0;

  // Features and rotations.
  std::vector<float> k;
  if (!c.complement_keys) k = features(c.feature_map, in.k_map, c.feature_norm_k, in.k);
  if (c.rotary) rotate(k, static_cast<double>(position), c.rope_theta);
  std::vector<std::vector<float>> q(group);
  for (std::size_t g = 0; g < group; ++g) {
    q[g] = features(c.feature_map, in.q_map, c.feature_norm_q, in.q.subspan(g * dim_k, dim_k));
    if (c.rotary) rotate(q[g], static_cast<double>(position), c.rope_theta);
  }

  // Decays, and what depends on them.
  std::vector<float> a(c.decay_on_values ? 0 : gates);
  std::vector<float> b(c.decay_on_values ? gates : 0);
  switch (c.decay) {
    case Decay::none:
      break;
    case Decay::fixed:
      a.assign(k.size(), static_cast<float>(1.0 - std::exp2(-5.0 - head)));
      break;
    case Decay::log_sigmoid: {
      std::vector<float> taken(gates);  // 1 - a, exact where a is near 1
      for (std::size_t i = 0; i < gates; ++i) {
        float g = log_sigmoid(in.f[i] + (in.f_bias.empty() ? 0.0F : in.f_bias[i]));
        g /= c.gate_normalizer;
        if (c.gate_log_min < 0.0F) g = std::max(g, c.gate_log_min);
        const float lb = in.lower_bound.empty() ? 0.0F : in.lower_bound[i];
        a[i] = lb + (1.0F - lb) * std::exp(g);
        taken[i] = (1.0F - lb) * -std::expm1(g);
      }
      if (c.complement_keys) k = taken;
      break;
    }
    case Decay::refined: {
      std::vector<float>& decay = c.decay_on_values ? b : a;
      for (std::size_t i = 0; i < gates; ++i) {
        const float g = sigmoid(in.f[i] + in.f_bias[i]);
        const float r = sigmoid(in.r[i] + in.r_bias[i]);
        decay[i] = (1.0F - r) * g * g + r * (1.0F - (1.0F - g) * (1.0F - g));
      }
      break;
    }
    case Decay::running_sum:
      for (std::size_t i = 0; i < gates; ++i) {
        float f = in.f[i];
        if (c.gate_logit_min != 0.0F || c.gate_logit_max != 0.0F) {
          f = std::clamp(f, c.gate_logit_min, c.gate_logit_max);
        }
        float& z = state.extra[i];
        const float high = first ? f : std::max(z, f);
        const float sum = first ? f : high + std::log1p(std::exp(std::min(z, f) - high));
        a[i] = first ? 0.0F : std::exp(z - sum);
        b.push_back(std::exp(f - sum));  // what the slots take in
        z = sum;
      }
      break;
  }

  if (c.feature_map == FeatureMap::exponential) {
    const float own = *std::max_element(k.begin(), k.end());
    float& m = state.extra[0];
    const float largest = first ? own : std::max(m, own);
    const float shrink = first ? 0.0F : std::exp(m - largest);
    for (float& x : c.decay_on_values ? b : a) x *= shrink;
    for (float& x : k) x = std::exp(x - largest);
    m = largest;
    for (std::vector<float>& x : q) {
      const float top = *std::max_element(x.begin(), x.end());
      for (float& y : x) y = std::exp(y - top);
    }
  }

  if (c.num_memory_slots > 0) {
    // Two passes: the slots' keys take in k, their values v, both as much as b.
    const std::vector<float> taken = std::move(b);
    recurrence_core(a, {}, taken, k, state.keys);
    recurrence_core(a, {}, taken, in.v, state.values);
    for (std::size_t g = 0; g < group; ++g) {
      std::vector<float> p(gates);
      for (std::size_t m = 0; m < gates; ++m) {
        for (std::size_t i = 0; i < dim_k; ++i) p[m] += q[g][i] * state.keys[m * dim_k + i];
        p[m] *= c.scale;
      }
      softmax(p);
      recurrence_read(p, 1.0F, state.values, o.subspan(g * dim_v, dim_v));
    }
    return;
  }

  std::vector<float> v(in.v.begin(), in.v.end());
  if (c.normalizer) v.push_back(1.0F);
  recurrence_core(a, b, k, v, state.values);
  std::vector<float> read(v.size());
  for (std::size_t g = 0; g < group; ++g) {
    recurrence_read(q[g], c.scale, state.values, read);
    const std::span<float> out = o.subspan(g * dim_v, dim_v);
    const float divisor = c.normalizer ? read.back() + kNormalizerEps : 1.0F;
    for (std::size_t j = 0; j < dim_v; ++j) out[j] = read[j] / divisor;
  }
}

}  // namespace runnel::reference
