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
constexpr float kLengthEps = 1e-6F;
constexpr float kLeastLength = 1e-12F;
constexpr float kBoundedDecay = -0.60653066F;  // -e^(-1/2)

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

void removal_core(std::span<const float> a, std::span<const float> b, std::span<const float> c,
                  std::span<const float> k, std::span<const float> v, std::span<float> state) {
  std::vector<float> u(v.size());  // c^T S
  recurrence_read(c, 1.0F, state, u);
  recurrence_core(a, {}, k, v, state);
  for (std::size_t i = 0; i < b.size(); ++i) {
    for (std::size_t j = 0; j < u.size(); ++j) state[i * u.size() + j] += b[i] * u[j];
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

namespace {

void normalise_key(KeyNorm norm, std::span<float> x) {
  float sum = 0.0F;
  switch (norm) {
    case KeyNorm::none:
      return;
    case KeyNorm::length:
      for (float v : x) sum += v * v;
      for (float& v : x) v /= std::sqrt(sum + kLengthEps);
      return;
    case KeyNorm::sum:
      for (float v : x) sum += v;
      for (float& v : x) v /= sum;
      return;
  }
}

/// a [K] of a decay that goes with a removal; empty: 1.
std::vector<float> removal_decay(const LayerSpec& layer, const RecurrenceInput& in) {
  std::vector<float> a(static_cast<std::size_t>(layer.head_k_dim));
  switch (layer.recurrence().decay) {
    case Decay::none:
    case Decay::fixed:
    case Decay::log_sigmoid:
    case Decay::refined:
    case Decay::running_sum:
      return {};
    case Decay::softplus: {
      const float softplus = -log_sigmoid(-(in.f[0] + in.f_bias[0]));
      std::fill(a.begin(), a.end(), std::exp(-std::exp(in.log_rate) * softplus));
      return a;
    }
    case Decay::bounded:
      for (std::size_t i = 0; i < a.size(); ++i)
        a[i] = std::exp(kBoundedDecay * sigmoid(in.f[i] + in.f_bias[i]));
      return a;
  }
  return {};
}

}  // namespace

float removal_step(const LayerSpec& layer, const RecurrenceInput& in, std::span<float> state,
                   std::span<float> o) {
  const RecurrenceSpec& spec = layer.recurrence();
  const std::size_t dim = static_cast<std::size_t>(layer.head_k_dim);
  std::vector<float> q = features(spec.feature_map, in.q_map, false, in.q);
  std::vector<float> k = features(spec.feature_map, in.k_map, false, in.k);
  normalise_key(spec.key_norm, q);
  normalise_key(spec.key_norm, k);
  std::vector<float> v(in.v.begin(), in.v.end());
  for (float& x : v) x = activate(spec.value_activation, x);
  const std::vector<float> a = removal_decay(layer, in);

  std::vector<float> b(dim), c(dim);
  switch (spec.removal) {
    case Removal::none:
      break;
    case Removal::delta: {
      const float beta = spec.removal_scale * sigmoid(in.r[0]);
      for (std::size_t i = 0; i < dim; ++i) {
        c[i] = (a.empty() ? 1.0F : a[i]) * k[i];
        b[i] = -beta * k[i];
        k[i] *= beta;
      }
      break;
    }
    case Removal::own_key: {
      float squares = 0.0F;
      for (std::size_t i = 0; i < dim; ++i) {
        c[i] = k[i] * in.removal_key[i];
        squares += c[i] * c[i];
      }
      const float length = std::max(std::sqrt(squares), kLeastLength);
      for (std::size_t i = 0; i < dim; ++i) {
        const float rate = sigmoid(in.r[i] + in.r_bias[i]);
        c[i] /= -length;
        b[i] = -rate * c[i];
        k[i] *= 1.0F + (rate - 1.0F) * in.key_rate[i];
      }
      break;
    }
  }
  removal_core(a, b, c, k, v, state);
  recurrence_read(q, spec.scale, state, o);
  float bonus = 0.0F;
  for (std::size_t i = 0; i < in.bonus_weight.size(); ++i)
    bonus += q[i] * k[i] * in.bonus_weight[i];
  return bonus;
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
    case Decay::softplus:  // go with a removal: see removal_step
    case Decay::bounded:
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
