// SPDX-License-Identifier: Apache-2.0
// Per state head and token, with a removal:
//   S <- diag(a) S + b (c^T S) + k v^T, of the S before,  o = scale S^T q,  bonus = sum q k w
//
// Two loops: what a token feeds each head; the recurrence, one item per block of columns. Bound: one token, the bytes of
// the state, read and written once; several, arithmetic: 5 multiply-adds a state element, the block in the first cache.
// The chunkwise form (a triangular solve per chunk) would not be the recurrence bit for bit, and the recurrence of a
// token costs a twentieth of its matrix products.
#include <algorithm>
#include <cmath>

#include "runtime/backend/cpu/pass.h"
#include "runtime/base/integers.h"

namespace runnel::cpu {
namespace {

constexpr int kColumnBlock = 64;  // columns of an item
constexpr float kLengthEps = 1e-6F;
constexpr float kLeastLength = 1e-12F;
constexpr float kBoundedDecay = -0.60653066F;  // -e^(-1/2)

std::ptrdiff_t at(int a, int b) { return std::ptrdiff_t{a} * b; }

/// The numbers of one head; null where the model has none.
const float* of_head(const std::vector<float>& all, int head, int n) {
  return all.empty() ? nullptr : all.data() + at(head, n);
}

float sum_of_squares(const float* x, int n) {
  return sum_in_lanes(n, [x](int i) { return x[i] * x[i]; });
}

void multiply(float* x, int n, float by) {
  for (int i = 0; i < n; ++i) x[i] *= by;
}

void normalise_key(KeyNorm norm, float* x, int n) {
  switch (norm) {
    case KeyNorm::none:
      return;
    case KeyNorm::length:
      multiply(x, n, 1.0F / std::sqrt(sum_of_squares(x, n) + kLengthEps));
      return;
    case KeyNorm::sum: {
      const float sum = sum_in_lanes(n, [x](int i) { return x[i]; });
      for (int i = 0; i < n; ++i) x[i] /= sum;
      return;
    }
  }
}

/// a [K] of one token and head.
void prepare_decay(const Pass& pass, int row, int head, float* a) {
  const LayerSpec& c = pass.spec();
  const DeviceLayer& w = *pass.layer;
  const int dim = c.head_k_dim, gates = c.gate_dim();
  const float* f = pass.f + at(row, gates);
  const float* bias = of_head(w.f_bias, head, gates);
  switch (c.recurrence().decay) {
    case Decay::none:
    case Decay::fixed:
    case Decay::log_sigmoid:
    case Decay::refined:
    case Decay::running_sum:
      return;
    case Decay::softplus: {
      const float x = f[0] + bias[0];
      const float softplus = std::max(x, 0.0F) + std::log1p(std::exp(-std::fabs(x)));
      std::fill_n(a, dim, std::exp(-w.decay_rate[static_cast<std::size_t>(head)] * softplus));
      return;
    }
    case Decay::bounded:
      pass.kernels().sigmoid(f, bias, dim, a);
      pass.kernels().exp_scaled(a, dim, kBoundedDecay);
      return;
  }
}

/// c, b and the key of one token and head; a is null without a decay.
void prepare_removal(const Pass& pass, int row, int head, const float* a, float* k) {
  const LayerSpec& spec = pass.spec();
  const DeviceLayer& w = *pass.layer;
  const int dim = spec.head_k_dim, lanes = pass.layout().memory_lanes;
  float* c = pass.removal_c + at(row, lanes);
  float* b = pass.removal_b + at(row, lanes);
  switch (spec.recurrence().removal) {
    case Removal::none:
      return;
    case Removal::delta: {
      const float beta = spec.recurrence().removal_scale / (1.0F + std::exp(-pass.r[row]));
      for (int i = 0; i < dim; ++i) {
        c[i] = a == nullptr ? k[i] : a[i] * k[i];
        k[i] *= beta;
        b[i] = -k[i];
      }
      return;
    }
    case Removal::own_key: {
      const float* own = of_head(w.removal_key, head, dim);
      const float* key_rate = of_head(w.key_rate, head, dim);
      for (int i = 0; i < dim; ++i) c[i] = k[i] * own[i];
      const float length = std::max(std::sqrt(sum_of_squares(c, dim)), kLeastLength);
      multiply(c, dim, -1.0F / length);
      pass.kernels().sigmoid(pass.r + at(row, dim), of_head(w.r_bias, head, dim), dim, b);
      for (int i = 0; i < dim; ++i) {
        k[i] -= k[i] * (1.0F - b[i]) * key_rate[i];
        b[i] *= -c[i];
      }
      return;
    }
  }
}

void prepare_head(const Pass& pass, int t, int head) {
  const LayerSpec& c = pass.spec();
  const RecurrenceSpec& spec = c.recurrence();
  const NativeLayer& n = pass.layout();
  const int dim = c.head_k_dim, heads = c.num_kv_heads;
  const int row = t * heads + head;
  const int key = t * (heads / spec.values_per_key) + head / spec.values_per_key;
  float* q = pass.p + at(row, n.memory_lanes);
  float* k = pass.write + at(row, n.memory_lanes);
  float* a = pass.alpha + at(row, n.memory_lanes);
  map_elements(pass.kernels(), spec.feature_map, pass.q + at(key, dim), dim, q);
  map_elements(pass.kernels(), spec.feature_map, pass.k + at(key, dim), dim, k);
  normalise_key(spec.key_norm, q, dim);
  normalise_key(spec.key_norm, k, dim);
  float* v = pass.padded_v + at(row, n.channels);
  std::copy_n(pass.v + at(row, c.head_v_dim), c.head_v_dim, v);
  activate(pass.kernels(), spec.value_activation, v, c.head_v_dim);
  std::fill(v + c.head_v_dim, v + n.channels, 0.0F);
  prepare_decay(pass, row, head, a);
  prepare_removal(pass, row, head, spec.has_gate() ? a : nullptr, k);
  if (const float* w = of_head(pass.layer->bonus, head, dim); w != nullptr) {
    pass.bonus[row] = sum_in_lanes(dim, [=](int i) { return q[i] * k[i] * w[i]; });
  }
  if (spec.scale != 1.0F) multiply(q, dim, spec.scale);
}

void run_columns(const Pass& pass, const PassItem& item, int head, int begin, int end) {
  const LayerSpec& c = pass.spec();
  const NativeLayer& n = pass.layout();
  const int heads = c.num_kv_heads, lanes = n.memory_lanes, row = item.first * heads + head;
  const std::ptrdiff_t stride = at(heads, lanes), out_stride = at(heads, n.channels);
  RecurrenceArgs a{};
  a.state = item.state->data() + n.head_offset(head) + n.memory_values();
  a.rows = n.memory;
  a.dim = n.channels;
  a.begin = begin;
  a.end = end;
  a.tokens = item.count;
  a.heads = 1;
  a.k = pass.write + at(row, lanes);
  a.k_stride = stride;
  a.v = pass.padded_v + at(row, n.channels);
  a.v_stride = out_stride;
  a.decay = c.recurrence().has_gate() ? pass.alpha + at(row, lanes) : nullptr;
  a.decay_stride = stride;
  a.q = pass.p + at(row, lanes);
  a.q_stride = stride;
  a.c = pass.removal_c + at(row, lanes);
  a.b = pass.removal_b + at(row, lanes);
  a.removal_stride = stride;
  a.out = pass.o + at(row, n.channels);
  a.out_stride = out_stride;
  pass.kernels().recurrence(a);
}

}  // namespace

void removal_recurrence(Pass& pass) {
  const NativeLayer& n = pass.layout();
  const int heads = pass.spec().num_kv_heads;
  // Several tokens: an item reads one from front to back.
  const int heads_of_item = pass.tokens > 1 ? heads : 1;
  pass.pool().for_each(pass.tokens * heads / heads_of_item, [&](int i, int) {
    for (int row = i * heads_of_item; row < (i + 1) * heads_of_item; ++row)
      prepare_head(pass, row / heads, row % heads);
  });
  const int blocks = divide_up(n.channels, kColumnBlock);
  for (const PassItem& item : pass.items) {
    pass.pool().for_each(heads * blocks, [&](int i, int) {
      const int begin = i % blocks * kColumnBlock;
      run_columns(pass, item, i / blocks, begin, std::min(n.channels, begin + kColumnBlock));
    });
  }
}

}  // namespace runnel::cpu
