// SPDX-License-Identifier: Apache-2.0
// Per kv head and token, with alpha = exp(log alpha), s = -expm1(log alpha):
//   K~ <- alpha K~ + s k,  V~ <- alpha V~ + s v    memory slots
//   K~ <- R(t) k,          V~ <- v                 the slot of the position
//   o = V~^T softmax(scale K~ q + biases)
//
// One token: an item is a head, its state passes by once, from front to back. Several: three loops, logits by
// blocks of slots, softmax, values by blocks of channels, each block so small that it stays in the first
// cache while all tokens pass by (values: rows of it). Both run the same kernels in the same order of additions, so
// prefill is the recurrence bit for bit. Bound: one token, the bytes of the state, read once and
// written once; several, arithmetic: 2 + G multiply-adds per state element (G queries per head). The
// chunkwise form would save one of them and pay (C/2)(K + M) for its triangles: nothing to gain without matrix units.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/backend/cpu/pass.h"
#include "runtime/base/integers.h"

namespace runnel::cpu {
namespace {

constexpr int kLaneBlock = 64;     // slots of an item: 16 KiB of keys at 64 channels
constexpr int kChannelBlock = 64;  // channels of an item: 16 KiB of values at 64 slots
constexpr int kTokenBlock = 16;    // tokens of an item that prepares or joins
constexpr std::size_t kFirstValueBytes = std::size_t{16} << 10;  // what slot_values() takes at once

std::ptrdiff_t at(int a, int b) { return std::ptrdiff_t{a} * b; }

/// phi on `count` vectors of K channels.
/// @param scratch  [K], of the calling thread
void map_features(const Pass& pass, const DeviceLayer& w, float* x, int count, float* scratch) {
  const int dim = pass.spec().head_k_dim;
  switch (pass.spec().slots().feature_map) {
    case FeatureMap::identity:
      return;
    case FeatureMap::swish:
      pass.kernels().silu(x, count * dim);
      return;
    case FeatureMap::relu:
      for (int i = 0; i < count * dim; ++i) x[i] = std::max(x[i], 0.0F);
      return;
    case FeatureMap::t2r:
      break;
    case FeatureMap::elu:
    case FeatureMap::product:
    case FeatureMap::hedgehog:
    case FeatureMap::dpfp:
    case FeatureMap::exponential:
      return;  // of a recurrence
  }
  // relu(W x), in place by way of a small buffer of outputs.
  for (; count > 0; --count, x += dim) {
    const float* row = w.feature_map.data();
    for (int r = 0; r < dim; ++r, row += dim) {
      float sum = 0.0F;
      for (int c = 0; c < dim; ++c) sum += row[c] * x[c];
      scratch[r] = std::max(sum, 0.0F);
    }
    std::copy_n(scratch, dim, x);
  }
}

/// Maps, rotations and gates of one token and kv head.
void prepare_head(const Pass& pass, const DeviceLayer& w, int t, int head, int thread) {
  const LayerSpec& c = pass.spec();
  const SlotSpec& spec = c.slots();
  const NativeLayer& n = pass.layout();
  const int dim = c.head_k_dim, group = c.queries_per_kv_head();
  float* q = pass.q + at(t * c.num_heads + head * group, dim);
  float* k = pass.k + at(t * c.num_kv_heads + head, dim);
  float* scratch = pass.scratch + static_cast<std::size_t>(thread) * pass.scratch_floats;
  map_features(pass, w, q, group, scratch);
  map_features(pass, w, k, 1, scratch);

  float* v = pass.padded_v + at(t * c.num_kv_heads + head, n.channels);
  std::copy_n(pass.v + at(t * c.num_kv_heads + head, c.head_v_dim), c.head_v_dim, v);
  activate(pass.kernels(), spec.value_activation, v, c.head_v_dim);
  std::fill(v + c.head_v_dim, v + n.channels, 0.0F);

  if (n.positional > 0) {
    const int half = dim / 2;
    const float* turn = pass.turn + at(t, dim);
    const float* sink_turn = pass.sink_turn + at(t, dim);
    rotate(k, half, turn, pass.turned_k + at(t * c.num_kv_heads + head, dim));
    for (int g = 0; g < group; ++g) {
      const std::ptrdiff_t h = at(t * c.num_heads + head * group + g, dim);
      rotate(q + at(g, dim), half, turn, pass.turned_q + h);
      if (spec.num_sink_slots > 0) rotate(q + at(g, dim), half, sink_turn, pass.sink_q + h);
    }
  }
  if (n.memory > 0) {
    const std::ptrdiff_t gate = at(t * c.num_kv_heads + head, n.memory_lanes);
    pass.kernels().gates(pass.f + at(t * c.num_kv_heads + head, n.memory),
                         w.f_bias.empty() ? nullptr : w.f_bias.data() + at(head, n.memory),
                         n.memory, spec.gate_normalizer, spec.gate_log_min, pass.alpha + gate,
                         pass.write + gate);
    // Padding lanes keep their slots as they are: at zero.
    std::fill(pass.alpha + gate + n.memory, pass.alpha + gate + n.memory_lanes, 1.0F);
    std::fill(pass.write + gate + n.memory, pass.write + gate + n.memory_lanes, 0.0F);
  }
}

/// What the kernels need of one item and kv head.
struct Head {
  const Pass& pass;
  const DeviceLayer& w;
  const PassItem& item;
  int head;
  float* state;

  Head(const Pass& p, int item_index, int kv_head)
      : pass(p),
        w(*p.layer),
        item(p.items[static_cast<std::size_t>(item_index)]),
        head(kv_head),
        state(item.state->data() + p.layout().head_offset(kv_head)) {}

  std::uint64_t position() const { return item.state->position(); }

  /// Logits of lanes [begin, end) of the row [positional lanes | memory lanes], for all tokens.
  void keys(int begin, int end) const {
    const LayerSpec& c = pass.spec();
    const SlotSpec& spec = c.slots();
    const NativeLayer& n = pass.layout();
    const int group = c.queries_per_kv_head();
    const std::ptrdiff_t kv = at(item.first * c.num_kv_heads + head, 1);
    const std::ptrdiff_t query = at(item.first * c.num_heads + head * group, c.head_k_dim);
    SlotKeysArgs a{};
    a.dim = c.head_k_dim;
    a.tokens = item.count;
    a.k_stride = at(c.num_kv_heads, c.head_k_dim);
    a.gate_stride = at(c.num_kv_heads, n.memory_lanes);
    a.position = position();
    a.sinks = spec.num_sink_slots;
    a.window = spec.num_window_slots;
    a.q_stride = at(c.num_heads, c.head_k_dim);
    a.q_head = c.head_k_dim;
    a.heads = group;
    a.out_stride = at(c.num_heads, n.slot_lanes());
    a.out_head = n.slot_lanes();
    float* out = pass.p + at(item.first * c.num_heads + head * group, n.slot_lanes());
    if (begin < n.positional_lanes) {
      a.keys = state;
      a.lane_begin = begin;
      a.lane_end = std::min(end, n.positional_lanes);
      a.k = pass.turned_k + kv * c.head_k_dim;
      a.q = pass.turned_q + query;
      a.out = out;
      a.out_lanes = n.positional_lanes;
      pass.kernels().slot_keys(a);
      // Sinks see the query from no farther than the sink distance. They are written once, so a
      // later look is as good.
      if (begin < spec.num_sink_slots) {
        a.k = nullptr;
        a.q = pass.sink_q + query;
        a.out_lanes = spec.num_sink_slots;
        a.lane_end = std::min(a.lane_end, (spec.num_sink_slots + 15) / 16 * 16);
        pass.kernels().slot_keys(a);
      }
    }
    if (end > n.positional_lanes) {
      a.keys = state + n.memory_keys();
      a.lane_begin = std::max(begin - n.positional_lanes, 0);
      a.lane_end = end - n.positional_lanes;
      a.k = pass.k + kv * c.head_k_dim;
      a.alpha = pass.alpha + kv * n.memory_lanes;
      a.write = pass.write + kv * n.memory_lanes;
      a.q = pass.q + query;
      a.out = out + n.positional_lanes;
      a.out_lanes = n.memory_lanes;
      pass.kernels().slot_keys(a);
    }
  }

  /// Tokens [first, first + count) of the item.
  void softmax(int first, int count) const {
    const LayerSpec& c = pass.spec();
    const SlotSpec& spec = c.slots();
    const NativeLayer& n = pass.layout();
    const int group = c.queries_per_kv_head();
    for (int t = first; t < first + count; ++t) {
      const std::uint64_t seen = position() + static_cast<std::uint64_t>(t) + 1;
      for (int g = 0; g < group; ++g) {
        const int h = head * group + g;
        SlotSoftmaxArgs a{};
        a.logits = pass.p + at((item.first + t) * c.num_heads + h, n.slot_lanes());
        a.positional_lanes = n.positional_lanes;
        a.valid = static_cast<int>(
            std::min<std::uint64_t>(seen, static_cast<std::uint64_t>(n.positional)));
        a.memory_lanes = n.memory_lanes;
        a.memory = n.memory;
        a.scale = spec.scale;
        a.head_bias =
            w.head_read_bias.empty() ? 0.0F : w.head_read_bias[static_cast<std::size_t>(h)];
        a.read_bias = w.read_bias.empty() ? nullptr : w.read_bias.data() + at(head, n.memory_lanes);
        pass.kernels().slot_softmax(a);
      }
    }
  }

  /// The values that slot_values() takes first.
  void prefetch_values() const {
    const auto* const first =
        reinterpret_cast<const std::uint8_t*>(state + pass.layout().positional_values());
    prefetch({first, kFirstValueBytes});
  }

  /// Channels [begin, end) of the outputs, for all tokens.
  void values(int begin, int end) const {
    const LayerSpec& c = pass.spec();
    const SlotSpec& spec = c.slots();
    const NativeLayer& n = pass.layout();
    const int group = c.queries_per_kv_head();
    const std::ptrdiff_t kv = at(item.first * c.num_kv_heads + head, 1);
    const std::ptrdiff_t query = at(item.first * c.num_heads + head * group, 1);
    SlotValuesArgs a{};
    a.positional = state + n.positional_values();
    a.memory = state + n.memory_values();
    a.dim = n.channels;
    a.begin = begin;
    a.end = end;
    a.tokens = item.count;
    a.v = pass.padded_v + kv * n.channels;
    a.v_stride = at(c.num_kv_heads, n.channels);
    a.alpha = pass.alpha + kv * n.memory_lanes;
    a.write = pass.write + kv * n.memory_lanes;
    a.gate_stride = at(c.num_kv_heads, n.memory_lanes);
    a.position = position();
    a.sinks = spec.num_sink_slots;
    a.window = spec.num_window_slots;
    a.memory_slots = n.memory;
    a.p = pass.p + query * n.slot_lanes();
    a.p_stride = at(c.num_heads, n.slot_lanes());
    a.p_head = n.slot_lanes();
    a.p_memory = n.positional_lanes;
    a.heads = group;
    a.out = pass.o + query * n.channels;
    a.out_stride = at(c.num_heads, n.channels);
    a.out_head = n.channels;
    pass.kernels().slot_values(a);
  }
};

}  // namespace

void rotate(const float* x, int half, const float* turn, float* out) {
  for (int i = 0; i < half; ++i) {
    const float c = turn[i], s = turn[half + i], a = x[i], b = x[half + i];
    out[i] = a * c - b * s;
    out[half + i] = b * c + a * s;
  }
}

void prepare_rotations(Pass& pass) {
  const Rotation& r = pass.model->rotation();
  if (r.frequencies.empty()) return;
  const auto half = r.frequencies.size();
  const auto turn = [&](double position, float* out) {
    for (std::size_t i = 0; i < half; ++i) {
      out[i] = static_cast<float>(std::cos(position * r.frequencies[i]));
      out[half + i] = static_cast<float>(std::sin(position * r.frequencies[i]));
    }
  };
  const auto dim = static_cast<int>(2 * half);
  pass.pool().for_each(pass.tokens, [&](int t, int) {
    const std::uint64_t position = pass.position[static_cast<std::size_t>(t)];
    turn(static_cast<double>(position), pass.turn + at(t, dim));
    if (!r.sinks) return;
    turn(static_cast<double>(std::min(position, r.sink_distance)), pass.sink_turn + at(t, dim));
  });
}

void slot_attention(Pass& pass) {
  const DeviceLayer& w = *pass.layer;
  const NativeLayer& n = pass.layout();
  const int heads = pass.spec().num_kv_heads;
  const int items = static_cast<int>(pass.items.size()) * heads;
  if (pass.single) {
    pass.pool().for_each(items, [&](int i, int thread) {
      const Head head(pass, i / heads, i % heads);
      prepare_head(pass, w, head.item.first, head.head, thread);
      head.keys(0, n.slot_lanes());
      head.prefetch_values();
      head.softmax(0, 1);
      head.values(0, n.channels);
    });
    return;
  }
  const int blocks = divide_up(pass.tokens, kTokenBlock);
  pass.pool().for_each(blocks, [&](int block, int thread) {
    const int first = block * kTokenBlock, last = std::min(pass.tokens, first + kTokenBlock);
    for (int t = first; t < last; ++t) {
      for (int head = 0; head < heads; ++head) prepare_head(pass, w, t, head, thread);
    }
  });
  const int lane_blocks = divide_up(n.slot_lanes(), kLaneBlock);
  pass.pool().for_each(items * lane_blocks, [&](int i, int) {
    const Head head(pass, i / lane_blocks / heads, i / lane_blocks % heads);
    const int begin = i % lane_blocks * kLaneBlock;
    head.keys(begin, std::min(n.slot_lanes(), begin + kLaneBlock));
  });
  pass.pool().for_each(blocks, [&](int block, int) {
    const int first = block * kTokenBlock, last = std::min(pass.tokens, first + kTokenBlock);
    for (int t = first; t < last; ++t) {
      const int item = pass.item_of[static_cast<std::size_t>(t)];
      for (int j = 0; j < heads; ++j) {
        const Head head(pass, item, j);
        head.softmax(t - head.item.first, 1);
      }
    }
  });
  const int channel_blocks = divide_up(n.channels, kChannelBlock);
  pass.pool().for_each(items * channel_blocks, [&](int i, int) {
    const Head head(pass, i / channel_blocks / heads, i / channel_blocks % heads);
    const int begin = i % channel_blocks * kChannelBlock;
    head.values(begin, std::min(n.channels, begin + kChannelBlock));
  });
}

}  // namespace runnel::cpu
