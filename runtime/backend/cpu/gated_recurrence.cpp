// SPDX-License-Identifier: Apache-2.0
// Per kv head and token:
//   S <- diag(a) S diag(b) + k v^T,  o = scale S^T q
// with slots twice, and a softmax between (the slots' keys as S^T, decayed along the columns, then their values).
//
// Three loops: features and decays of every token and head; what runs from token to token (log
// sums, running maxima), one item per head; the recurrence, one item per block of columns, so that a few
// wide heads keep all threads busy. Bound: one token, the bytes of the state, read and written
// once; several, arithmetic: 3 multiply-adds a state element. The chunkwise form needs 2 and its
// triangles, and would not be the recurrence bit for bit: a state row that stays in a register for
// four tokens costs about as much.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/backend/cpu/pass.h"
#include "runtime/base/integers.h"

namespace runnel::cpu {
namespace {

constexpr int kColumnBlock = 64;  // columns of an item
constexpr int kTokenBlock = 16;   // tokens of an item that prepares
constexpr float kFeatureSumEps = 1e-4F;

std::ptrdiff_t at(int a, int b) { return std::ptrdiff_t{a} * b; }

/// Lanes of one head's decay.
int decay_lanes(const Pass& pass) {
  return pass.spec().recurrence().decay_on_values ? pass.layout().channels
                                                  : pass.layout().memory_lanes;
}

/// W x on every head of `x`, [T, heads, K].
void map_rows(Pass& pass, const PackedMatrix& m, const float* x, int rows, float* out) {
  const int dim = m.cols;
  pack_rows(pass, rows, dim, pass.input.only_for(m), [&](int t, float*) { return x + at(t, dim); });
  const Product product{.matrix = &m, .out = out, .stride = dim, .accumulate = false};
  run_products(pass, {&product, 1}, pass.input, rows);
}

/// The biases of a feature map's matrices.
struct MapBias {
  const std::vector<float>& first;
  const std::vector<float>& second;
};

/// phi of one head's x [K] into out [K'], by way of what map_rows made (y, y2).
void features(const Pass& pass, const float* x, const float* y, const float* y2,
              const MapBias& bias, bool normalise, float* out) {
  const LayerSpec& c = pass.spec();
  const RecurrenceSpec& spec = c.recurrence();
  const int dim = c.head_k_dim;
  switch (spec.feature_map) {
    case FeatureMap::identity:
    case FeatureMap::exponential:
    case FeatureMap::swish:
    case FeatureMap::relu:
    case FeatureMap::elu:
      map_elements(pass.kernels(), spec.feature_map, x, dim, out);
      break;
    case FeatureMap::t2r:
      for (int i = 0; i < dim; ++i) out[i] = std::max(y[i], 0.0F);
      break;
    case FeatureMap::product:
      for (int i = 0; i < dim; ++i) {
        const auto j = static_cast<std::size_t>(i);
        out[i] = (y[i] + bias.first[j]) * (y2[i] + bias.second[j]);
      }
      break;
    case FeatureMap::hedgehog: {
      float largest = 0.0F;
      for (int i = 0; i < dim; ++i) {
        out[i] = 2.0F * (y[i] + bias.first[static_cast<std::size_t>(i)]);
        out[dim + i] = -out[i];
        largest = std::max(largest, std::fabs(out[i]));
      }
      pass.kernels().exp_of(out, 2 * dim, 1.0F, largest);
      float sum = 0.0F;
      for (int i = 0; i < 2 * dim; ++i) sum += out[i];
      for (int i = 0; i < 2 * dim; ++i) out[i] /= sum;
      break;
    }
    case FeatureMap::dpfp: {
      const auto positive = [&](int i) {
        return i < dim ? std::max(x[i], 0.0F) : std::max(-x[i - dim], 0.0F);
      };
      for (int roll = 1; roll <= 4; ++roll) {
        for (int i = 0; i < 2 * dim; ++i) {
          const int other = (i + 2 * dim - roll % (2 * dim)) % (2 * dim);
          *out++ = positive(i) * positive(other);
        }
      }
      out -= 8 * dim;
      break;
    }
  }
  if (!normalise) return;
  const int n = c.feature_dim();
  float sum = kFeatureSumEps;
  for (int i = 0; i < n; ++i) sum += out[i];
  for (int i = 0; i < n; ++i) out[i] /= sum;
}

/// The decay of one token and kv head, and the keys if they are its complement.
void prepare_decay(const Pass& pass, const DeviceLayer& w, int t, int head, float* scratch) {
  const LayerSpec& c = pass.spec();
  const RecurrenceSpec& spec = c.recurrence();
  const NativeLayer& n = pass.layout();
  const int gates = c.gate_dim(), row = t * c.num_kv_heads + head;
  float* decay = pass.alpha + at(row, decay_lanes(pass));
  const float* f = pass.f + at(row, gates);
  const auto of = [&](const std::vector<float>& all) {
    return all.empty() ? nullptr : all.data() + at(head, gates);
  };
  switch (spec.decay) {
    case Decay::none:
    case Decay::running_sum:
    case Decay::softplus:  // go with a removal
    case Decay::bounded:
      return;
    case Decay::fixed:
      std::fill_n(decay, n.memory, static_cast<float>(1.0 - std::exp2(-5.0 - head)));
      return;
    case Decay::log_sigmoid: {
      float* taken = spec.complement_keys ? pass.write + at(row, n.memory_lanes) : scratch;
      pass.kernels().gates(f, of(w.f_bias), gates, spec.gate_normalizer, spec.gate_log_min, decay,
                           taken);
      if (const float* bound = of(w.lower_bound); bound != nullptr) {
        for (int i = 0; i < gates; ++i) {
          decay[i] = bound[i] + (1.0F - bound[i]) * decay[i];
          taken[i] *= 1.0F - bound[i];
        }
      }
      return;
    }
    case Decay::refined: {
      float* not_g = scratch;
      float* r = scratch + gates;
      pass.kernels().gates(f, of(w.f_bias), gates, 1.0F, 0.0F, decay, not_g);  // g and 1 - g
      pass.kernels().sigmoid(pass.r + at(row, gates), of(w.r_bias), gates, r);
      for (int i = 0; i < gates; ++i) {
        const float g = decay[i];
        decay[i] = (1.0F - r[i]) * g * g + r[i] * (1.0F - not_g[i] * not_g[i]);
      }
      return;
    }
  }
}

/// Features, rotations, values and decays of one token and kv head.
void prepare_head(const Pass& pass, const DeviceLayer& w, int t, int head, float* scratch) {
  const LayerSpec& c = pass.spec();
  const RecurrenceSpec& spec = c.recurrence();
  const NativeLayer& n = pass.layout();
  const int dim = c.head_k_dim, group = c.queries_per_kv_head(), half = dim / 2;
  const int row = t * c.num_kv_heads + head, query = t * c.num_heads + head * group;
  const float* turn = pass.turn + at(t, dim);
  // With slots q and k stay where they are, because p and write are the slots'.
  const bool slots = spec.num_memory_slots > 0;
  for (int g = 0; g < group; ++g) {
    const std::ptrdiff_t own = at(query + g, dim);
    float* out = slots ? pass.q + own : pass.p + at(query + g, n.memory_lanes);
    features(pass, pass.q + own, pass.mapped + own, pass.mapped2 + own,
             {w.q_map_bias, w.q_map2_bias}, spec.feature_norm_q, out);
    if (spec.rotary) rotate(out, half, turn, out);
    if (spec.feature_map == FeatureMap::exponential) {
      pass.kernels().exp_of(out, dim, 1.0F, *std::max_element(out, out + dim));
    }
    if (slots) continue;
    for (int i = 0; i < c.feature_dim(); ++i) out[i] *= spec.scale;
  }
  float* v = pass.padded_v + at(row, n.channels);
  std::copy_n(pass.v + at(row, c.head_v_dim), c.head_v_dim, v);
  if (spec.normalizer) v[c.head_v_dim] = 1.0F;
  std::fill(v + c.value_columns(), v + n.channels, 0.0F);
  prepare_decay(pass, w, t, head, scratch);
}

/// Keys of one token and kv head; apart from the queries because one buffer holds what the maps'
/// matrices make of either.
void prepare_keys(const Pass& pass, const DeviceLayer& w, int t, int head) {
  const LayerSpec& c = pass.spec();
  const RecurrenceSpec& spec = c.recurrence();
  const int dim = c.head_k_dim, row = t * c.num_kv_heads + head;
  const bool slots = spec.num_memory_slots > 0;
  float* out = slots ? pass.k + at(row, dim) : pass.write + at(row, pass.layout().memory_lanes);
  features(pass, pass.k + at(row, dim), pass.mapped + at(row, dim), pass.mapped2 + at(row, dim),
           {w.k_map_bias, w.k_map2_bias}, spec.feature_norm_k, out);
  if (spec.rotary) rotate(out, dim / 2, pass.turn + at(t, dim), out);
}

/// What runs from token to token: z of the running sum, m of exponential keys.
void scan_head(const Pass& pass, const PassItem& item, int head, float* extra) {
  const LayerSpec& c = pass.spec();
  const RecurrenceSpec& spec = c.recurrence();
  const NativeLayer& n = pass.layout();
  const bool clamp = spec.gate_logit_min != 0.0F || spec.gate_logit_max != 0.0F;
  for (int t = item.first; t < item.first + item.count; ++t) {
    const bool first = pass.position[static_cast<std::size_t>(t)] == 0;
    const int row = t * c.num_kv_heads + head;
    float* decay = pass.alpha + at(row, decay_lanes(pass));
    float* write = pass.write + at(row, n.memory_lanes);
    if (spec.decay == Decay::running_sum) {
      const float* f = pass.f + at(row, n.memory);
      for (int i = 0; i < n.memory; ++i) {
        const float x = clamp ? std::clamp(f[i], spec.gate_logit_min, spec.gate_logit_max) : f[i];
        const float z = extra[i];
        const float sum = first ? x : std::max(z, x) + std::log1p(std::exp(-std::fabs(z - x)));
        decay[i] = first ? 0.0F : std::exp(z - sum);
        write[i] = std::exp(x - sum);
        extra[i] = sum;
      }
      // Padding lanes keep their slots as they are: at zero.
      std::fill(decay + n.memory, decay + n.memory_lanes, 1.0F);
      std::fill(write + n.memory, write + n.memory_lanes, 0.0F);
    }
    if (spec.feature_map == FeatureMap::exponential) {
      const float own = *std::max_element(write, write + c.head_k_dim);
      const float largest = first ? own : std::max(extra[0], own);
      const float shrink = first ? 0.0F : std::exp(extra[0] - largest);
      for (int i = 0; i < c.gate_dim(); ++i) decay[i] *= shrink;
      pass.kernels().exp_of(write, c.head_k_dim, 1.0F, largest);
      extra[0] = largest;
    }
  }
}

/// Columns [begin, end) of the slots' keys as S^T, of their values, or of the one state.
enum class Stage { slot_keys, values };

void run_columns(const Pass& pass, const PassItem& item, int head, Stage stage, int begin,
                 int end) {
  const LayerSpec& c = pass.spec();
  const RecurrenceSpec& spec = c.recurrence();
  const NativeLayer& n = pass.layout();
  const int group = c.queries_per_kv_head(), heads = c.num_kv_heads;
  const int row = item.first * heads + head, query = item.first * c.num_heads + head * group;
  float* state = item.state->data() + n.head_offset(head);
  RecurrenceArgs a{};
  a.begin = begin;
  a.end = end;
  a.tokens = item.count;
  a.heads = group;
  a.decay = spec.decay == Decay::none ? nullptr : pass.alpha + at(row, decay_lanes(pass));
  a.decay_stride = at(heads, decay_lanes(pass));
  if (stage == Stage::slot_keys) {
    a.state = state + n.memory_keys();
    a.rows = c.head_k_dim;
    a.dim = n.memory_lanes;
    a.k = pass.k + at(row, c.head_k_dim);
    a.k_stride = at(heads, c.head_k_dim);
    a.v = pass.write + at(row, n.memory_lanes);
    a.v_stride = at(heads, n.memory_lanes);
    a.on_columns = 1;
    a.q = pass.q + at(query, c.head_k_dim);
    a.q_stride = at(c.num_heads, c.head_k_dim);
    a.q_head = c.head_k_dim;
    a.out = pass.p + at(query, n.memory_lanes);
    a.out_stride = at(c.num_heads, n.memory_lanes);
    a.out_head = n.memory_lanes;
  } else {
    a.state = state + n.memory_values();
    a.rows = n.memory;
    a.dim = n.channels;
    a.k = pass.write + at(row, n.memory_lanes);
    a.k_stride = at(heads, n.memory_lanes);
    a.v = pass.padded_v + at(row, n.channels);
    a.v_stride = at(heads, n.channels);
    a.on_columns = spec.decay_on_values ? 1 : 0;
    a.q = pass.p + at(query, n.memory_lanes);
    a.q_stride = at(c.num_heads, n.memory_lanes);
    a.q_head = n.memory_lanes;
    a.out = pass.o + at(query, n.channels);
    a.out_stride = at(c.num_heads, n.channels);
    a.out_head = n.channels;
  }
  pass.kernels().recurrence(a);
}

void run_stage(Pass& pass, Stage stage, int columns) {
  const int heads = pass.spec().num_kv_heads;
  const int blocks = (columns + kColumnBlock - 1) / kColumnBlock;
  for (const PassItem& item : pass.items) {
    pass.pool().for_each(heads * blocks, [&](int i, int) {
      const int begin = i % blocks * kColumnBlock;
      run_columns(pass, item, i / blocks, stage, begin, std::min(columns, begin + kColumnBlock));
    });
  }
}

void softmax_slots(Pass& pass) {
  const NativeLayer& n = pass.layout();
  const int heads = pass.spec().num_heads;
  pass.pool().for_each(pass.tokens, [&](int t, int) {
    for (int h = 0; h < heads; ++h) {
      SlotSoftmaxArgs a{};
      a.logits = pass.p + at(t * heads + h, n.memory_lanes);
      a.memory_lanes = n.memory_lanes;
      a.memory = n.memory;
      a.scale = pass.spec().recurrence().scale;
      pass.kernels().slot_softmax(a);
    }
  });
}

}  // namespace

void map_elements(const Kernels& kernels, FeatureMap map, const float* x, int n, float* out) {
  switch (map) {
    case FeatureMap::swish:
      std::copy_n(x, n, out);
      kernels.silu(out, n);
      return;
    case FeatureMap::relu:
      for (int i = 0; i < n; ++i) out[i] = std::max(x[i], 0.0F);
      return;
    case FeatureMap::elu:
      for (int i = 0; i < n; ++i) out[i] = std::min(x[i], 0.0F);
      kernels.exp_of(out, n, 1.0F, 0.0F);
      for (int i = 0; i < n; ++i) out[i] += std::max(x[i], 0.0F);  // e^0 = 1 where x > 0
      return;
    case FeatureMap::identity:
    case FeatureMap::t2r:
    case FeatureMap::product:
    case FeatureMap::hedgehog:
    case FeatureMap::dpfp:
    case FeatureMap::exponential:
      std::copy_n(x, n, out);
      return;
  }
}

void gated_recurrence(Pass& pass) {
  if (pass.spec().recurrence().removal != Removal::none) {
    removal_recurrence(pass);
    return;
  }
  const DeviceLayer& w = *pass.layer;
  const LayerSpec& c = pass.spec();
  const RecurrenceSpec& spec = c.recurrence();
  const NativeLayer& n = pass.layout();
  const int heads = c.num_kv_heads;
  const auto map = [&](const PackedMatrix& first, const PackedMatrix& second, const float* x,
                       int rows) {
    if (first.present()) map_rows(pass, first, x, rows, pass.mapped);
    if (second.present()) map_rows(pass, second, x, rows, pass.mapped2);
  };
  const int blocks = divide_up(pass.tokens, kTokenBlock);
  const int step = pass.single ? 1 : heads;  // one token: one item per head
  const auto for_heads = [&](const auto& body) {
    const int parts = heads / step;
    pass.pool().for_each(blocks * parts, [&](int i, int thread) {
      float* scratch = pass.scratch + static_cast<std::size_t>(thread) * pass.scratch_floats;
      const int first = i / parts * kTokenBlock;
      const int last = std::min(pass.tokens, first + kTokenBlock);
      for (int t = first; t < last; ++t) {
        for (int h = i % parts * step; h < (i % parts + 1) * step; ++h) body(t, h, scratch);
      }
    });
  };
  map(w.q_map, w.q_map2, pass.q, pass.tokens * c.num_heads);
  const bool mapped = w.q_map.present();
  for_heads([&](int t, int h, float* scratch) {
    prepare_head(pass, w, t, h, scratch);
    if (!mapped && !spec.complement_keys) prepare_keys(pass, w, t, h);
  });
  if (mapped) {
    map(w.k_map, w.k_map2, pass.k, pass.tokens * heads);
    for_heads([&](int t, int h, float*) { prepare_keys(pass, w, t, h); });
  }
  if (spec.decay == Decay::running_sum || spec.feature_map == FeatureMap::exponential) {
    const int items = static_cast<int>(pass.items.size());
    pass.pool().for_each(items * heads, [&](int i, int) {
      const PassItem& item = pass.items[static_cast<std::size_t>(i / heads)];
      float* extra = item.state->data() + n.head_offset(i % heads) + n.extra_offset();
      scan_head(pass, item, i % heads, extra);
    });
  }
  if (spec.num_memory_slots > 0) {
    run_stage(pass, Stage::slot_keys, n.memory_lanes);
    softmax_slots(pass);
  }
  run_stage(pass, Stage::values, n.channels);
}

}  // namespace runnel::cpu
