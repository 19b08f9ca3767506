// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/decode_program.h"

#include <algorithm>
#include <bit>

#include "runtime/backend/cuda/decode_shapes.h"

namespace runnel::cuda {
namespace {

long long bytes_of_tile(const DecodeShape& s) {
  return s.tile_bytes + static_cast<long long>(s.steps) * (s.scale_bytes + s.high_bytes);
}

/// Most tiles of a block when `blocks` share the matrix.
int share_of(const DecodeShape& s, int blocks) {
  return divide_up(s.tiles / s.unit, blocks) * s.unit;
}

/// Whether a lane has the same part of the input for all tiles.
bool input_once(const DecodeShape& s, int ways) {
  return s.steps == ways && (is_plain(s.type) || s.lane_shift >= 2);
}

/// log2 of the warps that best share a tile, when a block has `tiles`. In units of a step's work.
int best_ways_shift(const DecodeShape& s, int tiles) {
  constexpr double kWithInput = 1.3, kSum = 1.5;
  int best = 0;
  double least = 0.0;
  for (int shift = 0; 1 << shift <= std::min(s.steps, kDecodeWarps); ++shift) {
    const int ways = 1 << shift;
    const double tile = divide_up(s.steps, ways) * kWithInput + kSum;
    const double cost = divide_up(tiles, kDecodeWarps / ways) * tile;
    if (input_once(s, ways)) return shift;
    if (shift == 0 || cost < least) least = cost, best = shift;
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
    if (const char* why = refuse_slot_model(c_, w_); why[0] != '\0') return why;
    const int o = c_.num_heads * c_.head_v_dim;
    if (std::max({c_.hidden_size, c_.intermediate_size, o}) > kDecodeWidest) return "wide layers";
    if (c_.head_v_dim > 4 * kDecodeThreads) return "head dimensions";
    if (c_.num_slots() > kDecodeSlots || c_.queries_per_kv_head() > kDecodeWarps)
      return "many slots or queries";
    if (const char* why = collect(); why[0] != '\0') return why;
    p_.grid = limits_.multiprocessors;
    if (!limits_.head_only) {
      if (const char* why = share_blocks(); why[0] != '\0') return why;
    }
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
      if (limits_.head_only) break;
      if (w.gate_up.size() != 1) return "gate and up of different types";
      if (w.projections.size() > std::size_t{kDecodeInputs}) return "many projections";
      DecodeLayer layer;
      layer.matrices[kDecodeInputs] = matrix(w.o_proj, false, false, 0);
      layer.matrices[kDecodeInputs + 1] = matrix(w.gate_up[0].matrix, true, false, 0);
      layer.matrices[kDecodeInputs + 2] = matrix(w.down, false, false, 0);
      layer.norms[0] = w.attn_norm, layer.norms[1] = w.g_norm, layer.norms[2] = w.mlp_norm;
      layer.f_bias = w.f_bias, layer.read_bias = w.read_bias;
      layer.head_read_bias = w.head_read_bias;
      for (const Projection& q : w.projections)
        layer.matrices[layer.num_inputs++] = matrix(q.matrix, false, false, q.column);
      out_.layers.push_back(layer);
    }
    DecodeLayer head;
    head.matrices[kDecodeInputs + 3] = matrix(w_.head, false, true, 0);
    head.norms[4] = w_.final_norm;
    out_.layers.push_back(head);
    return fits ? "" : "many matrix shapes";
  }

  /// Bytes that the busiest block streams in one layer.
  long long busiest(int blocks) const {
    long long bytes = 0;
    for (const DecodeMatrix& m : out_.layers[0].matrices) {
      if (m.shape < 0) continue;
      const DecodeShape& s = p_.shapes[m.shape];
      bytes += share_of(s, blocks) * bytes_of_tile(s);
    }
    return bytes;
  }

  const char* share_blocks() {
    int most = p_.grid;
    for (const DecodeLayer& w : std::span(out_.layers).first(w_.layers.size())) {
      const DecodeShape& s = p_.shapes[w.matrices[kDecodeInputs + 1].shape];
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
    if (tuning_.thin != 0 && thin_slots()) return "";
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

  /// Slots in shares that a warp can do: see decode_thin_slots.cuh.
  bool thin_slots() {
    if (c_.num_sink_slots + c_.num_window_slots > 0 || c_.num_heads != c_.num_kv_heads ||
        c_.num_memory_slots > 64 || c_.head_k_dim > 512)
      return false;
    int splits = tuning_.splits;
    if (splits < 1) {
      for (splits = 1; 2 * splits * c_.num_kv_heads <= p_.blocks &&
                       2 * splits <= std::min(c_.num_memory_slots, c_.head_v_dim / 4);)
        splits *= 2;
    }
    if (c_.num_kv_heads * splits > p_.blocks || !is_power(splits) || splits > c_.head_v_dim / 4)
      return false;
    p_.splits = splits, p_.slots_per_split = divide_up(c_.num_memory_slots, splits), p_.items = 0;
    p_.thin = 1, p_.columns = c_.head_v_dim / splits;
    return true;
  }

  /// Whether the kernel of decode_even.cuh computes it.
  bool even() const {
    const EvenShape& e = limits_.even;
    if (tuning_.even == 0 || p_.thin == 0 || p_.blocks != e.blocks || c_.hidden_size != e.wide ||
        c_.num_heads * c_.head_v_dim != e.wide || c_.intermediate_size != e.inner ||
        c_.head_k_dim != e.head || c_.head_v_dim != e.head)
      return false;
    const auto shape = [this](const DecodeLayer& w, int i) -> const DecodeShape& {
      return p_.shapes[w.matrices[i].shape];
    };
    const BlockType type = shape(out_.layers[0], kDecodeInputs).type;
    if (type != BlockType::q4_0 && type != BlockType::q4_k && type != BlockType::q8_0 &&
        type != BlockType::bf16)
      return false;
    for (const DecodeLayer& w : std::span(out_.layers).first(w_.layers.size())) {
      if (w.num_inputs > (is_plain(type) ? 1 : 2)) return false;
      int rows = 0;  // of a block in the first phase
      for (int i = 0; i < w.num_inputs; ++i) {
        const DecodeShape& s = shape(w, i);
        if (s.type != (i == 0 ? type : BlockType::f16) || s.rows % (1 << s.row_shift) != 0)
          return false;
        rows += share_of(s, e.blocks) << s.row_shift;
      }
      if (shape(w, 0).tiles < e.blocks || rows > e.rows) return false;
      for (int kind = 1; kind < 4; ++kind) {
        const DecodeShape& s = shape(w, kDecodeInputs - 1 + kind);
        if (s.type != type || s.tiles % e.blocks != 0) return false;
        for (int i = 0; i < kDecodeInputs - 1 + kind; ++i) {  // pieces are chosen by shape
          if (w.matrices[i].shape == w.matrices[kDecodeInputs - 1 + kind].shape) return false;
        }
      }
    }
    return true;
  }

  void fill_model() {
    const StateLayout layout = StateLayout::of(c_);
    p_.num_layers = limits_.head_only ? 0 : c_.num_layers;
    p_.embeddings = w_.embeddings;
    p_.poll = tuning_.poll > 0 ? 2 - tuning_.poll : p_.thin, p_.keep = tuning_.keep;
    p_.even = !limits_.head_only && even() ? 1 : 0;
    if (p_.even != 0) {
      // An answer takes that long at least, and questions keep it off.
      constexpr std::uint32_t kPauses[kDecodePauses] = {1200, 4000, 1200, 1500, 900};
      for (int i = 0; i < kDecodePauses; ++i)
        p_.pauses[i] =
            tuning_.pauses[i] < 0 ? kPauses[i] : static_cast<std::uint32_t>(tuning_.pauses[i]);
    }
    p_.d = c_.hidden_size, p_.inner = c_.intermediate_size, p_.vocab = c_.vocab_size;
    p_.heads = c_.num_heads, p_.kv_heads = c_.num_kv_heads;
    p_.group = c_.queries_per_kv_head();
    p_.k_dim = c_.head_k_dim, p_.v_dim = c_.head_v_dim;
    p_.sinks = c_.num_sink_slots, p_.window = c_.num_window_slots, p_.memory = c_.num_memory_slots;
    p_.sink_distance = c_.sink_distance;
    p_.scale = c_.scale, p_.gate_normalizer = c_.gate_normalizer, p_.gate_log_min = c_.gate_log_min;
    p_.norm_eps = c_.norm_eps, p_.g_norm_eps = c_.g_norm_eps;
    p_.qk_act = act_of(c_.feature_map);
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
    p_.at.inputs =
        take((c_.num_heads + c_.num_kv_heads) * c_.head_k_dim +
             c_.num_kv_heads * (c_.head_v_dim + (p_.thin != 0 ? 2 : 1) * c_.num_memory_slots));
    if (p_.thin != 0) p_.at.logits = take(c_.num_heads * c_.num_memory_slots);
    p_.at.parts = take(p_.thin != 0 ? c_.num_heads * c_.head_v_dim
                                    : c_.num_heads * p_.splits * (c_.head_v_dim + 4));
    p_.at.x1 = take(c_.hidden_size);
    p_.at.h = take(c_.intermediate_size);
    p_.at.x2 = take(c_.hidden_size);
    p_.at.copy = at;
    p_.copies = p_.even != 0 ? 1 : tuning_.copies > 0 ? tuning_.copies : p_.thin != 0 ? 2 : 1;
    p_.at.total = p_.copies * at;
    const int widths[kDecodeKinds] = {c_.hidden_size, c_.num_heads * c_.head_v_dim, c_.hidden_size,
                                      c_.intermediate_size, c_.hidden_size};
    const int places[kDecodeKinds] = {p_.at.x2, p_.at.parts, p_.at.x1, p_.at.h, 2 * p_.at.total};
    std::copy(std::begin(widths), std::end(widths), p_.widths);
    for (int i = 0; i < kDecodeKinds; ++i)
      p_.inverse_widths[i] = 1.0F / static_cast<float>(widths[i]);
    std::copy(std::begin(places), std::end(places), p_.in_at);
  }

  /// Pieces as the kernel of decode_even.cuh expects them.
  void take_even_pieces() {
    for (const DecodeLayer& w : std::span(out_.layers).first(w_.layers.size())) {
      for (int i = 0; i < kDecodeInputs + 3; ++i) {
        if (w.matrices[i].shape < 0) continue;
        DecodeShape& s = p_.shapes[w.matrices[i].shape];
        s.piece_tiles = even_plan(s.type, i < kDecodeInputs ? 0 : i - kDecodeInputs + 1).piece;
      }
    }
  }

  const char* lay_out() {
    long long largest = 0;
    for (int i = 0; i < p_.num_shapes; ++i) {
      DecodeShape& s = p_.shapes[i];
      largest = std::max(largest, bytes_of_tile(s));
      s.ways_shift = best_ways_shift(s, share_of(s, s.everybody != 0 ? p_.grid : p_.blocks));
    }
    // What the widest phase needs beside the ring.
    int rounded = 0, plain = 0, partial = 0;
    for (DecodeLayer& w : out_.layers) {
      int floats = 0;  // of the phase
      for (int i = 0; i < kDecodeInputs + 4; ++i) {
        const int kind = i < kDecodeInputs ? 0 : i - kDecodeInputs + 1, n = p_.widths[kind];
        DecodeMatrix& m = w.matrices[i];
        if (m.shape < 0) continue;
        if (kind > 0) floats = 0;
        const DecodeShape& s = p_.shapes[m.shape];
        if (is_plain(s.type)) {
          plain = std::max(plain, n / 32 * 128);
        } else {
          rounded = std::max(rounded, n / 32 * 40);
        }
        w.forms |= (is_plain(s.type) ? kFormPlain : kFormRounded) << (2 * kind);
        m.partial = floats;
        floats += round_up(
            share_of(s, s.everybody != 0 ? p_.grid : p_.blocks) << (s.row_shift + s.ways_shift), 4);
        partial = std::max(partial, floats * 4);
      }
    }
    if (p_.even != 0) partial = std::max(partial, 2 * 4 * even_partial(limits_.even));
    DecodeSlots& slots = p_.slots;
    if (!limits_.head_only && p_.thin == 0) {
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
      slots.reduce = place((p_.value_shift < 5 ? kDecodeWarps : kDecodeThreads >> p_.value_shift) *
                           p_.group * p_.v_dim);
      slots.total = floats;
    }
    int at = 0;
    const auto take = [&at](int bytes) {
      const int here = at;
      at += round_up(bytes, 128);
      return here;
    };
    DecodeShared& s = p_.shared;
    take(static_cast<int>(sizeof(Decode)));
    s.token = take(static_cast<int>(sizeof(DecodeToken)));
    s.barriers = take(2 * 8 * kDecodePieces);
    s.starts = take(4 * kDecodePieces);
    s.marks = take(8);
    s.layers = take((p_.num_layers + 1) * static_cast<int>(sizeof(DecodeLayer)));
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
    // A multiprocessor's 256 KB serve L1 too, which gets 60 KB beside 196 and 28 beside more; the
    // kernel's few spilled registers and everybody's questions need some of it.
    // Even kernels of plain types spill nothing, and memory bounds them: 2 % for 32 KB more.
    const bool all = p_.even != 0 && is_plain(p_.shapes[0].type);
    const int most_shared = all ? limits_.shared_bytes : 195 * 1024;
    int ring = std::min(limits_.shared_bytes, most_shared) - at;
    if (tuning_.ring_kb > 0) ring = std::min(limits_.shared_bytes - at, tuning_.ring_kb * 1024);
    p_.ring_bytes = ring / 128 * 128;
    if (p_.ring_bytes < 3 * round_up(static_cast<int>(largest), 128)) return "wide layers";
    for (int i = 0; i < p_.num_shapes; ++i) {
      DecodeShape& shape = p_.shapes[i];
      const int tile = static_cast<int>(bytes_of_tile(shape)), ways = 1 << shape.ways_shift;
      // Large pieces where work bounds the products, small ones where memory does: measured.
      const bool four_bits = shape.type == BlockType::q4_0 || shape.type == BlockType::q4_k;
      const int most_kb = tuning_.piece_kb > 0 ? tuning_.piece_kb : four_bits ? 42 : 24;
      const int most = std::min(p_.ring_bytes / 3, most_kb * 1024);
      if (input_once(shape, ways)) {
        // Four tiles a warp at a time, or as many as there is room for.
        const int apart = kDecodeWarps / ways;
        int each = 4;
        while (each > 1 && each * apart * tile > most) each /= 2;
        shape.piece_tiles = std::clamp(most / tile, 1, each * apart);
      } else {
        shape.piece_tiles = std::max(1, most / 2 / tile);
      }
    }
    if (p_.even != 0) take_even_pieces();
    for (int i = 0; i < p_.num_shapes; ++i) {
      const DecodeShape& shape = p_.shapes[i];
      p_.piece_bytes =
          std::max(p_.piece_bytes, shape.piece_tiles * static_cast<int>(bytes_of_tile(shape)));
    }
    if (p_.ring_bytes < p_.piece_bytes) return "wide layers";
    s.total = s.ring + p_.ring_bytes;
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
