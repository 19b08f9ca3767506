// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/cluster_program.h"

#include <algorithm>
#include <bit>

#include "runtime/backend/cuda/decode_shapes.h"

namespace runnel::cuda {
namespace {

/// The matrix's layout without its places.
ClusterMatrix layout_of(const Matrix& m, bool pairs) {
  ClusterMatrix c{.type = m.type, .rows = m.rows};
  const DecodeShape s = shape_of(m, pairs, false);
  c.steps = s.steps, c.lane_shift = s.lane_shift, c.row_shift = s.row_shift;
  // Four floats are sent at once; of gates and ups two make one.
  c.granule = std::max(1 << s.row_shift, pairs ? 8 : 4);
  if (is_plain(m.type)) {
    c.row_bytes[0] = s.tile_bytes;
  } else {
    c.row_bytes[0] = s.tile_bytes >> s.row_shift;
    c.row_bytes[1] = s.steps * s.scale_bytes >> s.row_shift;
    c.row_bytes[2] = s.steps * s.high_bytes >> s.row_shift;
  }
  return c;
}

int rows_of_block(const ClusterMatrix& m, int blocks) {
  return divide_up(m.rows / m.granule, blocks) * m.granule;
}

/// How many rows a warp takes at once: what the busiest scheduler issues, and what the busiest warp
/// waits for. In clocks, measured.
int best_sub_shift(const ClusterMatrix& m, int blocks, bool pairs, int warps) {
  constexpr int kIssue = 38, kLatency = 60, kUnit = 150;
  int best = 0, least = 0;
  for (int sub = pairs ? 1 : 0; sub <= m.row_shift; ++sub) {
    if (sub + m.lane_shift < std::min(3, m.row_shift + m.lane_shift)) continue;  // bank conflicts
    const int units = rows_of_block(m, blocks) >> sub,
              rounds = divide_up(m.steps, 1 << (m.row_shift - sub));
    const int cost = divide_up(units, 4) * rounds * kIssue +
                     divide_up(units, warps) * (rounds * kLatency + kUnit);
    if (least == 0 || cost < least) least = cost, best = sub;
  }
  return best;
}

class Maker {
 public:
  Maker(const ModelConfig& config, const DeviceWeights& weights, int shared_bytes, int blocks)
      : c_(config), w_(weights), shared_bytes_(shared_bytes), p_(out_.cluster) {
    p_.blocks = blocks;
  }

  ClusterProgram make() {
    out_.why_not = refuse();
    out_.fits = out_.why_not[0] == '\0';
    return std::move(out_);
  }

 private:
  const char* refuse() {
    if (const char* why = refuse_slot_model(c_, w_); why[0] != '\0') return why;
    const int o = c_.num_heads * c_.head_v_dim;
    if (std::max({c_.hidden_size, c_.intermediate_size, o}) > kClusterWidest) return "wide layers";
    if (c_.head_k_dim != c_.head_v_dim || c_.head_k_dim < 32 || c_.head_k_dim > 128)
      return "head dimensions";
    if (c_.num_heads > p_.blocks) return "many heads";
    if (c_.num_slots() * c_.head_k_dim > 4 * kClusterThreads * kClusterItems) return "many slots";
    fill_model();
    if (const char* why = collect(); why[0] != '\0') return why;
    return lay_out();
  }

  /// The same matrix in every layer.
  bool add(int i, const Matrix& m, bool pairs, int column, ClusterLayer& layer) {
    ClusterMatrix c = layout_of(m, pairs);
    c.column = column;
    c.sub_shift = best_sub_shift(c, p_.blocks, pairs, kDecodeWarps);
    if (c.rows % c.granule != 0 || column % 4 != 0) return false;
    ClusterMatrix& known = p_.matrices[i];
    if (known.rows == 0) known = c;
    const void* const parts[kClusterParts] = {m.data, m.scales, m.high};
    for (int part = 0; part < kClusterParts; ++part)
      layer.parts[part][i] = static_cast<const char*>(parts[part]);
    return known.type == c.type && known.rows == c.rows && known.column == c.column &&
           known.row_bytes[0] == c.row_bytes[0];
  }

  const char* collect() {
    bool fits = true;
    for (const LayerOnDevice& w : w_.layers) {
      if (w.gate_up.size() != 1) return "gate and up of different types";
      ClusterLayer layer;
      for (const Projection& q : w.projections) {
        const int i = is_plain(q.matrix.type) ? kPlainMatrix : 0;
        if (layer.parts[0][i] != nullptr) return "many projections";
        fits = fits && add(i, q.matrix, false, q.column, layer);
      }
      fits = fits && add(matrix_of(1), w.o_proj, false, 0, layer) &&
             add(matrix_of(2), w.gate_up[0].matrix, true, 0, layer) &&
             add(matrix_of(3), w.down, false, 0, layer);
      if (!fits) return "layers of different shapes";
      layer.norms[0] = w.attn_norm, layer.norms[1] = w.g_norm, layer.norms[2] = w.mlp_norm;
      layer.f_bias = w.f_bias, layer.read_bias = w.read_bias;
      layer.head_read_bias = w.head_read_bias;
      out_.layers.push_back(layer);
    }
    if (p_.matrices[kPlainMatrix].rows > 0)
      p_.matrices[0].sub_shift =
          best_sub_shift(p_.matrices[0], p_.blocks, false, kClusterUnitWarps);
    const BlockType type = p_.matrices[0].type;
    for (int phase = 0; phase < 4; ++phase) {
      const ClusterMatrix& m = p_.matrices[matrix_of(phase)];
      if (m.rows == 0 || is_plain(m.type) || m.type != type) return "several types";
    }
    return "";
  }

  void fill_model() {
    const StateLayout layout = StateLayout::of(c_);
    p_.num_layers = c_.num_layers;
    p_.embeddings = w_.embeddings;
    p_.d = c_.hidden_size, p_.inner = c_.intermediate_size;
    p_.heads = c_.num_heads, p_.kv_heads = c_.num_kv_heads;
    p_.group = c_.queries_per_kv_head(), p_.k_dim = c_.head_k_dim;
    p_.sinks = c_.num_sink_slots, p_.window = c_.num_window_slots, p_.memory = c_.num_memory_slots;
    p_.sink_distance = c_.sink_distance;
    if (p_.memory > 0) p_.heads_a_gate = 1.0F / static_cast<float>(p_.memory);
    p_.scale = c_.scale, p_.gate_normalizer = c_.gate_normalizer, p_.gate_log_min = c_.gate_log_min;
    p_.norm_eps = c_.norm_eps, p_.g_norm_eps = c_.g_norm_eps;
    p_.qk_act = act_of(c_.feature_map), p_.v_act = act_of(c_.value_activation);
    p_.o_act = act_of(c_.output_activation);
    p_.output_norm = c_.output_norm ? 1 : 0;
    p_.turns = w_.turns;
    p_.layer_floats = layout.layer_floats(), p_.head_floats = layout.head_floats();
  }

  /// Whether the kernel for the default model takes it.
  bool is_known() const {
    using M = DefaultClusterModel;
    const LayerOnDevice& w = w_.layers[0];
    return p_.blocks == kClusterBlocks && p_.matrices[0].type == BlockType::q4_0 &&
           p_.matrices[kPlainMatrix].type == BlockType::f16 &&
           p_.matrices[kPlainMatrix].rows == M::kKvHeads * M::kMemory &&
           c_.hidden_size == M::kWide && c_.intermediate_size == M::kInner &&
           c_.num_heads == M::kHeads && c_.num_kv_heads == M::kKvHeads &&
           c_.head_k_dim == M::kWidth && c_.num_sink_slots == M::kSinks &&
           c_.num_window_slots == M::kWindow && c_.num_memory_slots == M::kMemory &&
           !c_.output_norm && w.g_norm == nullptr && p_.qk_act == Act::identity &&
           p_.v_act == Act::identity && p_.o_act == Act::identity;
  }

  const char* lay_out() {
    p_.known = is_known() ? 1 : 0;
    p_.gates = (c_.num_heads + 2 * c_.num_kv_heads) * c_.head_k_dim;
    const int o = c_.num_heads * c_.head_v_dim;
    int counts[kClusterExchanges] = {3 * c_.head_k_dim + 2 * c_.num_memory_slots,
                                     o,
                                     c_.hidden_size,
                                     c_.intermediate_size,
                                     c_.hidden_size,
                                     0};
    int reads = 1;  // of a warp
    if (p_.known != 0) {
      using Split = ClusterSplit<DefaultClusterModel>;
      // A block of 32 that is rounded by who sends it is 40 bytes.
      for (int i : {kRead, kHidden}) counts[i] = counts[i] / 32 * 10;
      counts[kInputs] = Split::kFloats, counts[kPiece] = 2 * Split::kBlocks * kClusterPiece;
      reads = Split::kGroup;
    }
    int floats = 0;
    for (int i = 0; i < kClusterExchanges; ++i) {
      p_.exchange_at[i] = floats, p_.exchange_floats[i] = counts[i];
      floats += round_up(counts[i], 32);
    }
    int at = 0;
    const auto take = [&at](int bytes) {
      const int here = at;
      at += round_up(bytes, 128);
      return here;
    };
    int rounded = 0, plain = 0;
    const int widths[4] = {c_.hidden_size, o, c_.hidden_size, c_.intermediate_size};
    for (int i = 0; i < kClusterMatrices; ++i) {
      ClusterMatrix& m = p_.matrices[i];
      if (m.rows == 0) continue;
      const int phase = std::max(0, i - 1), rows = rows_of_block(m, p_.blocks);
      for (int part = 0; part < kClusterParts; ++part) m.at[part] = take(rows * m.row_bytes[part]);
      p_.forms[phase] |= is_plain(m.type) ? kFormPlain : kFormRounded;
      if (is_plain(m.type)) {
        plain = std::max(plain, widths[phase] * 4);
      } else {
        rounded = std::max(rounded, widths[phase] / 32 * 40);
      }
    }
    auto& s = p_.shared;
    s.layers = take(p_.num_layers * static_cast<int>(sizeof(ClusterLayer)));
    s.token = take(static_cast<int>(sizeof(ClusterToken)));
    s.shares = take(kClusterMatrices * static_cast<int>(sizeof(ClusterShare)));
    s.expected = take(4 * kClusterExchanges);
    s.hopeless = take(4);
    s.barriers = take(8 * (kClusterMatrices + kClusterExchanges));
    s.exchanged = take(4 * floats);
    s.rounded = take(rounded);
    s.plain = take(plain);
    s.squares = take(4 * kDecodeWarps);
    s.set = at - s.rounded;
    take(s.set);
    s.rotation = take(8 * p_.k_dim);
    s.about = take(8 * kDecodeWarps * reads);
    s.parts = take(4 * kDecodeWarps * reads * p_.k_dim);
    s.total = at;
    return at <= shared_bytes_ ? "" : "large layers";
  }

  const ModelConfig& c_;
  const DeviceWeights& w_;
  int shared_bytes_;
  ClusterProgram out_;
  ClusterDecode& p_;
};

}  // namespace

ClusterProgram make_cluster_program(const ModelConfig& config, const DeviceWeights& weights,
                                    int shared_bytes, int blocks) {
  return Maker(config, weights, shared_bytes, blocks).make();
}

}  // namespace runnel::cuda
