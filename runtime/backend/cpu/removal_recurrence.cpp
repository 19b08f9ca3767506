// SPDX-License-Identifier: Apache-2.0
// Per state head and token, with a removal:
//   S <- diag(a) S + b (c^T S) + k v^T, of the S before,  o = scale S^T q,  bonus = sum q k w
//
// An item of the loop is a head of a session, or some columns of it: it prepares up to 16 tokens in the thread's scratch,
// runs the recurrence over them, and so on. Bound: one token, the bytes of the state, read and written once; several,
// arithmetic: 5 multiply-adds a state element, state and tokens in the first two caches. The chunkwise form (a triangular
// solve per chunk) would not be the recurrence bit for bit, and the recurrence of a token costs a twentieth of its matrix
// products.
#include <algorithm>
#include <cmath>

#include "runtime/backend/cpu/pass.h"
#include "runtime/base/integers.h"

namespace runnel::cpu {
namespace {

constexpr int kColumnBlock = 64;
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
      pass.kernels().exp_of(a, dim, kBoundedDecay, 0.0F);
      return;
  }
}

/// What a token feeds a head.
struct Fed {
  float *q, *k, *a, *c, *b;  // [K]
  float* v;                  // [V]
};

/// c, b and the key of one token and head.
void prepare_removal(const Pass& pass, int row, int head, const Fed& fed) {
  const LayerSpec& spec = pass.spec();
  const DeviceLayer& w = *pass.layer;
  const int dim = spec.head_k_dim;
  float *const k = fed.k, *const b = fed.b, *const c = fed.c;
  switch (spec.recurrence().removal) {
    case Removal::none:
      return;
    case Removal::delta: {
      const float beta = spec.recurrence().removal_scale / (1.0F + std::exp(-pass.r[row]));
      for (int i = 0; i < dim; ++i) {
        c[i] = spec.recurrence().has_gate() ? fed.a[i] * k[i] : k[i];
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

void prefetch_row(const float* from, int n) {
  for (int i = 0; i < n; i += 16) __builtin_prefetch(from + i);
}

/// Of several items that prepare a head, one keeps the bonus.
void prepare_head(const Pass& pass, int t, int head, const Fed& fed, bool keep_bonus) {
  const LayerSpec& c = pass.spec();
  const RecurrenceSpec& spec = c.recurrence();
  const NativeLayer& n = pass.layout();
  const int dim = c.head_k_dim, heads = c.num_kv_heads, keys = heads / spec.values_per_key;
  const int row = t * heads + head, key = t * keys + head / spec.values_per_key;
  if (t + 1 < pass.tokens) {  // whose row is far away
    prefetch_row(pass.q + at(key + keys, dim), dim);
    prefetch_row(pass.k + at(key + keys, dim), dim);
    prefetch_row(pass.v + at(row + heads, c.head_v_dim), c.head_v_dim);
    prefetch_row(pass.f + at(row + heads, c.gate_dim()), c.gate_dim());
    prefetch_row(pass.r + at(row + heads, c.rate_channels() / heads), c.rate_channels() / heads);
  }
  map_elements(pass.kernels(), spec.feature_map, pass.q + at(key, dim), dim, fed.q);
  map_elements(pass.kernels(), spec.feature_map, pass.k + at(key, dim), dim, fed.k);
  normalise_key(spec.key_norm, fed.q, dim);
  normalise_key(spec.key_norm, fed.k, dim);
  std::copy_n(pass.v + at(row, c.head_v_dim), c.head_v_dim, fed.v);
  activate(pass.kernels(), spec.value_activation, fed.v, c.head_v_dim);
  std::fill(fed.v + c.head_v_dim, fed.v + n.channels, 0.0F);
  prepare_decay(pass, row, head, fed.a);
  prepare_removal(pass, row, head, fed);
  if (const float* w = of_head(pass.layer->bonus, head, dim); w != nullptr && keep_bonus) {
    pass.bonus[row] = sum_in_lanes(dim, [&](int i) { return fed.q[i] * fed.k[i] * w[i]; });
  }
  if (spec.scale != 1.0F) multiply(fed.q, dim, spec.scale);
}

/// Columns [begin, end) of a head.
struct Columns {
  int head, begin, end;
};

/// Tokens [first, first + count), at most kRemovalTokens.
void run_tokens(const Pass& pass, CpuState& state, const Columns& columns, int first, int count,
                float* scratch) {
  const NativeLayer& n = pass.layout();
  const std::ptrdiff_t stride = removal_floats(n);
  const int lanes = n.memory_lanes;
  const auto fed_by = [&](int t) {
    float* const own = scratch + t * stride;
    return Fed{
        own, own + lanes, own + 2 * lanes, own + 3 * lanes, own + 4 * lanes, own + 5 * lanes};
  };
  const int head = columns.head;
  for (int t = 0; t < count; ++t)
    prepare_head(pass, first + t, head, fed_by(t), columns.begin == 0);
  const Fed fed = fed_by(0);
  const int heads = pass.spec().num_kv_heads;
  RecurrenceArgs a{};
  a.state = state.data() + n.head_offset(head) + n.memory_values();
  a.rows = n.memory;
  a.dim = n.channels;
  a.begin = columns.begin;
  a.end = columns.end;
  a.tokens = count;
  a.heads = 1;
  a.k = fed.k;
  a.v = fed.v;
  a.decay = pass.spec().recurrence().has_gate() ? fed.a : nullptr;
  a.q = fed.q;
  a.c = fed.c;
  a.b = fed.b;
  a.k_stride = a.v_stride = a.decay_stride = a.q_stride = a.removal_stride = stride;
  a.out = pass.o + at(first * heads + head, n.channels);
  a.out_stride = at(heads, n.channels);
  pass.kernels().recurrence(a);
}

}  // namespace

void removal_recurrence(Pass& pass) {
  const int heads = pass.spec().num_kv_heads, channels = pass.layout().channels;
  const int items = static_cast<int>(pass.items.size());
  // A few wide heads are cut, so that all threads have some.
  const int columns = items * heads < 2 * pass.pool().threads() ? kColumnBlock : channels;
  const int blocks = divide_up(channels, columns), parts = heads * blocks;
  const int together = std::max(1, ThreadPool::kMaxItems / parts);
  for (int from = 0; from < items; from += together) {
    pass.pool().for_each(std::min(together, items - from) * parts, [&](int i, int thread) {
      const int at_item = from + i / parts, begin = i % blocks * columns;
      const PassItem& item = pass.items[static_cast<std::size_t>(at_item)];
      const Columns own{i % parts / blocks, begin, std::min(channels, begin + columns)};
      float* scratch = pass.scratch + static_cast<std::size_t>(thread) * pass.scratch_floats;
      for (int t = 0; t < item.count; t += kRemovalTokens) {
        run_tokens(pass, *item.state, own, item.first + t, std::min(kRemovalTokens, item.count - t),
                   scratch);
      }
    });
  }
}

}  // namespace runnel::cpu
