// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/decode_program.h"

#include <algorithm>
#include <bit>

namespace runnel::cuda {
namespace {

int divide_up(int n, int by) { return (n + by - 1) / by; }
int round_up(int n, int to) { return divide_up(n, to) * to; }
int log2_of(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }
bool is_power(int n) { return n > 0 && std::has_single_bit(static_cast<unsigned>(n)); }

bool is_plain(BlockType t) {
  return t == BlockType::f32 || t == BlockType::f16 || t == BlockType::bf16;
}

DecodeShape shape_of(const Matrix& m, bool pairs, bool everybody) {
  DecodeShape s{.type = m.type, .rows = m.rows, .everybody = everybody ? 1 : 0};
  if (is_plain(m.type)) {
    s.tiles = m.rows;
    s.unit = pairs ? 2 : 1;
    s.lane_shift = 5;
    s.chunks = m.cols * (m.type == BlockType::f32 ? 4 : 2) / 16;
    s.steps = divide_up(s.chunks, 32);
    s.data_bytes = s.chunks * 16;
    return s;
  }
  s.tiles = m.tiles();
  s.lane_shift = log2_of(m.lanes);
  s.row_shift = 5 - s.lane_shift;
  s.steps = m.steps;
  s.data_bytes = m.steps * (m.type == BlockType::q8_0 ? 1024 : 512);
  s.scale_bytes = m.steps * (m.type == BlockType::q4_0 || m.type == BlockType::q8_0 ? 64 : 128);
  s.high_bytes = m.type == BlockType::q6_k ? m.steps * 256 : 0;
  return s;
}

int tile_bytes(const DecodeShape& s) { return s.data_bytes + s.scale_bytes + s.high_bytes; }

/// Most tiles of a block when `blocks` share the matrix.
int share_of(const DecodeShape& s, int blocks) {
  return divide_up(s.tiles / s.unit, blocks) * s.unit;
}

/// Warps that share the steps of a tile: the fewest instructions of the busiest warp.
int best_ways(const DecodeShape& s, int share) {
  int best = 0, least = 0;
  for (int shift = 0; (1 << shift) <= kDecodeWarps; ++shift) {
    const int ways = 1 << shift, groups = kDecodeWarps / ways;
    const int cost =
        divide_up(share, groups) *
        (divide_up(s.steps, ways) * (is_plain(s.type) ? 26 : 36) + 40 + 12 * s.lane_shift);
    if (shift == 0 || cost < least) best = shift, least = cost;
  }
  return best;
}

bool same(const DecodeShape& a, const DecodeShape& b) {
  return a.type == b.type && a.rows == b.rows && a.tiles == b.tiles && a.unit == b.unit &&
         a.row_shift == b.row_shift && a.lane_shift == b.lane_shift && a.steps == b.steps &&
         a.chunks == b.chunks && a.everybody == b.everybody;
}

class Maker {
 public:
  Maker(const ModelConfig& config, const DeviceWeights& weights, const DecodeLimits& limits,
        const DecodeTuning& tuning)
      : c_(config), w_(weights), limits_(limits), tuning_(tuning), p_(out_.decode) {}

  DecodeProgram make() {
    out_.why_not = refuse();
    out_.fits = out_.why_not[0] == '\0';
    return std::move(out_);
  }

 private:
  const char* refuse() {
    if (c_.mixer != Mixer::slots || w_.layers.empty()) return "a recurrence";
    if (c_.conv_size > 0) return "convolutions";
    if (c_.feature_map != FeatureMap::identity && c_.feature_map != FeatureMap::swish &&
        c_.feature_map != FeatureMap::relu)
      return "the feature map";
    const int o = c_.num_heads * c_.head_v_dim;
    if (c_.hidden_size % 32 != 0 || c_.intermediate_size % 32 != 0 || o % 32 != 0)
      return "widths that are no multiples of 32";
    if (std::max({c_.hidden_size, c_.intermediate_size, o}) > kDecodeWidest) return "wide layers";
    if (!is_power(c_.head_k_dim) || !is_power(c_.head_v_dim) || c_.head_k_dim < 8 ||
        c_.head_v_dim < 4 || c_.head_v_dim > 4 * kDecodeThreads)
      return "head dimensions";
    if (c_.num_slots() > kDecodeSlots || c_.queries_per_kv_head() > kDecodeWarps)
      return "many slots or queries";
    if (const char* why = collect(); why[0] != '\0') return why;
    if (const char* why = share_blocks(); why[0] != '\0') return why;
    fill_model();
    return lay_out();
  }

  int add(const Matrix& m, bool pairs, bool everybody) {
    const DecodeShape s = shape_of(m, pairs, everybody);
    for (int i = 0; i < p_.num_shapes; ++i) {
      if (same(p_.shapes[i], s)) return i;
    }
    if (p_.num_shapes == kDecodeShapes) return -1;
    p_.shapes[p_.num_shapes] = s;
    return p_.num_shapes++;
  }

  const char* collect() {
    bool fits = true;
    const auto matrix = [&](const Matrix& m, bool pairs, bool everybody, int column) {
      const int shape = add(m, pairs, everybody);
      fits = fits && shape >= 0;
      return DecodeMatrix{
          .data = m.data, .scales = m.scales, .high = m.high, .shape = shape, .column = column};
    };
    for (const LayerOnDevice& w : w_.layers) {
      if (w.gate_up.size() != 1) return "gate and up of different types";
      if (w.projections.size() > std::size(DecodeLayer{}.inputs)) return "many projections";
      DecodeLayer layer;
      layer.output = matrix(w.o_proj, false, false, 0);
      layer.gate_up = matrix(w.gate_up[0].matrix, true, false, 0);
      layer.down = matrix(w.down, false, false, 0);
      layer.attn_norm = w.attn_norm, layer.g_norm = w.g_norm, layer.mlp_norm = w.mlp_norm;
      layer.f_bias = w.f_bias, layer.read_bias = w.read_bias;
      layer.head_read_bias = w.head_read_bias;
      for (const Projection& q : w.projections)
        layer.inputs[layer.num_inputs++] = matrix(q.matrix, false, false, q.column);
      out_.layers.push_back(layer);
    }
    p_.head = matrix(w_.head, false, true, 0);
    return fits ? "" : "many matrix shapes";
  }

  /// Bytes that the busiest block streams in one layer.
  long long busiest(int blocks) const {
    long long bytes = 0;
    const DecodeLayer& w = out_.layers[0];
    const auto count = [&](const DecodeMatrix& m) {
      const DecodeShape& s = p_.shapes[m.shape];
      bytes += static_cast<long long>(share_of(s, blocks)) * tile_bytes(s);
    };
    for (int i = 0; i < w.num_inputs; ++i) count(w.inputs[i]);
    count(w.output), count(w.gate_up), count(w.down);
    return bytes;
  }

  const char* share_blocks() {
    p_.grid = limits_.multiprocessors;
    int most = p_.grid;
    for (const DecodeLayer& w : out_.layers) {
      const DecodeShape& s = p_.shapes[w.gate_up.shape];
      most = std::min(most, s.tiles / s.unit);  // every block has rows of gate and up
    }
    if (most < 1) return "few rows";
    p_.blocks = most;
    if (tuning_.blocks > 0) {
      p_.blocks = std::min(most, tuning_.blocks);
    } else {
      long long least = busiest(most);
      for (int n = 1; n < most; ++n) least = std::min(least, busiest(n));
      while (p_.blocks > 1 && busiest(p_.blocks - 1) * 100 <= least * 103) --p_.blocks;
    }
    // Splits: as asked, else four where they fit.
    for (int splits : {tuning_.splits, 4, 8, 2, 1}) {
      if (splits < 1 || splits > kDecodeSplits || c_.num_kv_heads * splits > p_.blocks) continue;
      const int per = divide_up(c_.num_slots(), splits);
      const int lanes = std::min(32, c_.head_k_dim / 4), groups = c_.head_k_dim / 4 / lanes;
      const int keys = divide_up(per, kDecodeThreads / lanes) * groups;
      const int values = divide_up(per, kDecodeThreads / (c_.head_v_dim / 4));
      const int items =
          static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(keys, values))));
      if (items > 4) continue;
      p_.splits = splits, p_.slots_per_split = per, p_.items = items;
      p_.key_shift = log2_of(lanes), p_.key_groups = log2_of(groups);
      p_.value_shift = log2_of(c_.head_v_dim / 4);
      return "";
    }
    return "many slots a block";
  }

  static Act act_of(Activation a) {
    return a == Activation::swish ? Act::swish : a == Activation::relu ? Act::relu : Act::identity;
  }

  void fill_model() {
    const StateLayout layout = StateLayout::of(c_);
    p_.num_layers = c_.num_layers;
    p_.embeddings = w_.embeddings;
    p_.final_norm = w_.final_norm;
    p_.poll = tuning_.poll, p_.keep = tuning_.keep;
    p_.d = c_.hidden_size, p_.inner = c_.intermediate_size, p_.vocab = c_.vocab_size;
    p_.heads = c_.num_heads, p_.kv_heads = c_.num_kv_heads;
    p_.group = c_.queries_per_kv_head();
    p_.k_dim = c_.head_k_dim, p_.v_dim = c_.head_v_dim;
    p_.sinks = c_.num_sink_slots, p_.window = c_.num_window_slots, p_.memory = c_.num_memory_slots;
    p_.sink_distance = c_.sink_distance;
    p_.scale = c_.scale, p_.gate_normalizer = c_.gate_normalizer, p_.gate_log_min = c_.gate_log_min;
    p_.norm_eps = c_.norm_eps, p_.g_norm_eps = c_.g_norm_eps;
    p_.qk_act = c_.feature_map == FeatureMap::swish  ? Act::swish
                : c_.feature_map == FeatureMap::relu ? Act::relu
                                                     : Act::identity;
    p_.v_act = act_of(c_.value_activation), p_.o_act = act_of(c_.output_activation);
    p_.output_norm = c_.output_norm ? 1 : 0;
    p_.turns = w_.turns;
    p_.layer_floats = layout.layer_floats(), p_.head_floats = layout.head_floats();
    int at = 0;
    const auto take = [&at](int floats) {
      const int here = at;
      at += round_up(floats, 32);
      return here;
    };
    p_.at.inputs = take((c_.num_heads + c_.num_kv_heads) * c_.head_k_dim +
                        c_.num_kv_heads * (c_.head_v_dim + c_.num_memory_slots));
    p_.at.parts = take(c_.num_heads * p_.splits * (c_.head_v_dim + 4));
    p_.at.x1 = take(c_.hidden_size);
    p_.at.h = take(c_.intermediate_size);
    p_.at.x2 = take(c_.hidden_size);
    p_.at.total = at;
  }

  const char* lay_out() {
    int largest = 0;
    for (int i = 0; i < p_.num_shapes; ++i) {
      DecodeShape& s = p_.shapes[i];
      largest = std::max(largest, tile_bytes(s));
      s.way_shift = log2_of(kDecodeWarps);  // the most, until stages are known
    }
    // What the widest phase needs beside the ring.
    int rounded = 0, plain = 0, partial = 0;
    const auto phase = [&](std::span<const DecodeMatrix> matrices, int n) {
      int floats = 0, forms = 0;
      for (const DecodeMatrix& m : matrices) {
        const DecodeShape& s = p_.shapes[m.shape];
        forms |= is_plain(s.type) ? kFormPlain : kFormRounded;
        (is_plain(s.type) ? plain : rounded) =
            std::max(is_plain(s.type) ? plain : rounded, n / 32 * (is_plain(s.type) ? 128 : 40));
        floats += share_of(s, s.everybody != 0 ? p_.grid : p_.blocks)
                  << (s.way_shift + s.row_shift);
      }
      partial = std::max(partial, floats * 4);
      return forms;
    };
    for (DecodeLayer& w : out_.layers) {
      w.forms = phase(std::span(w.inputs).first(static_cast<std::size_t>(w.num_inputs)), p_.d) |
                phase(std::span(&w.output, 1), p_.heads * p_.v_dim) << 2 |
                phase(std::span(&w.gate_up, 1), p_.d) << 4 |
                phase(std::span(&w.down, 1), p_.inner) << 6;
    }
    p_.head_forms = phase(std::span(&p_.head, 1), p_.d);
    DecodeSlots& slots = p_.slots;
    {
      int floats = 0;
      const auto place = [&floats](int n) {
        const int here = floats;
        floats += round_up(n, 4);
        return here;
      };
      slots.queries = place((p_.sinks + p_.window > 0 ? 3 : 1) * p_.group * p_.k_dim);
      slots.key = place(p_.k_dim);
      slots.key_turned = place(p_.k_dim);
      slots.value = place(p_.v_dim);
      slots.decay = place(p_.slots_per_split);
      slots.write = place(p_.slots_per_split);
      slots.bias = place(p_.slots_per_split);
      slots.weight = place(p_.group * p_.slots_per_split);
      slots.reduce = place(kDecodeWarps * p_.group * p_.v_dim);
      slots.total = floats;
    }
    int at = 0;
    const auto take = [&at](int bytes) {
      const int here = at;
      at += round_up(bytes, 128);
      return here;
    };
    DecodeShared& s = p_.shared;
    constexpr int kMostStages = 32;
    take(static_cast<int>(sizeof(Decode)));
    s.token = take(static_cast<int>(sizeof(DecodeToken)));
    s.barriers = take(16 * kMostStages);
    s.layers = take(p_.num_layers * static_cast<int>(sizeof(DecodeLayer)));
    s.ranges = take(8 * kDecodeShapes);
    s.squares = take(8 * kDecodeWarps);  // two sets
    s.rotation = take(8 * p_.k_dim);
    s.x = take(4 * p_.d);
    s.rounded = take(rounded);
    s.plain = take(plain);
    s.slots = s.rounded;
    at = std::max(at, s.slots + round_up(4 * slots.total, 128));
    s.partial = take(partial);
    s.ring = at;
    // A multiprocessor's 256 KB serve L1 too; the kernel's few spilled registers need some of it.
    constexpr int kMostShared = 195 * 1024;
    int ring = std::min(limits_.shared_bytes, kMostShared) - at;
    if (tuning_.ring_kb > 0) ring = std::min(ring, tuning_.ring_kb * 1024);
    // The stage size that fills the ring best.
    double best = 0.0;
    for (int kb = 8; kb <= 32; ++kb) {
      if (tuning_.stage_kb > 0 && kb != std::max(tuning_.stage_kb, divide_up(largest, 1024)))
        continue;
      const int bytes = round_up(std::max(kb * 1024, largest), 128);
      const int stages = std::min(ring / bytes, kMostStages);
      if (stages < 2) continue;
      double used = 0.0, taken = 0.0;
      const DecodeLayer& w = out_.layers[0];
      const auto count = [&](const DecodeMatrix& m) {
        const DecodeShape& shape = p_.shapes[m.shape];
        const int share = share_of(shape, shape.everybody != 0 ? p_.grid : p_.blocks);
        used += static_cast<double>(share) * tile_bytes(shape);
        taken += static_cast<double>(divide_up(share, bytes / tile_bytes(shape))) * bytes;
      };
      for (int i = 0; i < w.num_inputs; ++i) count(w.inputs[i]);
      count(w.output), count(w.gate_up), count(w.down);
      const double in_flight = used / taken * stages * bytes;
      if (in_flight > best * 1.05) best = in_flight, p_.stage_bytes = bytes, p_.stages = stages;
    }
    if (p_.stages == 0) return "wide rows";
    for (int i = 0; i < p_.num_shapes; ++i) {
      DecodeShape& shape = p_.shapes[i];
      shape.stage_tiles = p_.stage_bytes / tile_bytes(shape);
      shape.scale_at = shape.stage_tiles * shape.data_bytes;
      shape.high_at = shape.scale_at + shape.stage_tiles * shape.scale_bytes;
      shape.way_shift =
          best_ways(shape, share_of(shape, shape.everybody != 0 ? p_.grid : p_.blocks));
    }
    s.total = s.ring + p_.stages * p_.stage_bytes;
    return "";
  }

  const ModelConfig& c_;
  const DeviceWeights& w_;
  const DecodeLimits& limits_;
  const DecodeTuning& tuning_;
  DecodeProgram out_;
  Decode& p_;
};

}  // namespace

DecodeProgram make_decode_program(const ModelConfig& config, const DeviceWeights& weights,
                                  const DecodeLimits& limits, const DecodeTuning& tuning) {
  return Maker(config, weights, limits, tuning).make();
}

}  // namespace runnel::cuda
