// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/step/cluster_program.h"

#include <algorithm>
#include <utility>

#include "runtime/backend/cuda/activations.h"
#include "runtime/backend/cuda/step/matrix_shapes.h"

namespace runnel::cuda {
namespace {

/// The matrix's layout without its places.
ClusterMatrix layout_of(const Matrix& m, bool pairs) {
  ClusterMatrix c{.type = m.type, .rows = m.rows};
  const DecodeShape s = shape_of(m, pairs, false);
  c.steps = s.steps, c.lane_shift = s.lane_shift, c.row_shift = s.row_shift;
  // Four floats are sent at once; of gates and ups two make one.
  c.granule = std::max(1 << s.row_shift, pairs ? 8 : 4);
  if (!quant::is_block_type(m.type)) {
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

class ClusterLayout {
 public:
  ClusterLayout(const StepModel& model, const DeviceTensors& tensors, const ClusterLimits& limits)
      : m_(model), l_(model.layer), w_(tensors), limits_(limits), p_(out_.cluster) {
    p_.blocks = limits.blocks;
  }

  ClusterProgram make() {
    out_.why_not = refuse();
    return std::move(out_);
  }

 private:
  std::string refuse() {
    if (std::string why = refuse_tensors(m_, w_); !why.empty()) return why;
    if (l_.qkv_bias) return "biases on q, k and v";
    const int widest = std::max({m_.hidden_size, l_.intermediate_size, l_.o_channels()});
    if (widest > kClusterWidest) {
      return "layers of " + std::to_string(widest) + " channels, expected at most " +
             std::to_string(kClusterWidest);
    }
    if (l_.head_k_dim != l_.head_v_dim || l_.head_k_dim < 32 || l_.head_k_dim > 128) {
      return "heads of " + std::to_string(l_.head_k_dim) + " and " + std::to_string(l_.head_v_dim) +
             ", expected both the same, 32 to 128";
    }
    if (l_.num_heads > p_.blocks) {
      return std::to_string(l_.num_heads) + " query heads, expected at most " +
             std::to_string(p_.blocks);
    }
    const int slots = l_.slots().num_slots();
    const int most_slots = 4 * kClusterThreads * kClusterItems / l_.head_k_dim;
    if (slots > most_slots) {
      return std::to_string(slots) + " slots, expected at most " + std::to_string(most_slots);
    }
    fill_model();
    if (std::string why = collect(); !why.empty()) return why;
    return lay_out();
  }

  /// The same matrix in every layer.
  bool add(int i, const Matrix& m, bool pairs, int column, ClusterLayer& layer) {
    ClusterMatrix c = layout_of(m, pairs);
    c.column = column;
    c.sub_shift = best_sub_shift(c, p_.blocks, pairs, kDecodeWarps);
    if (c.rows % c.granule != 0 || column % 4 != 0) return false;
    ClusterMatrix& first = p_.matrices[i];
    if (first.rows == 0) first = c;
    const void* const parts[kClusterParts] = {m.data, m.scales, m.high};
    for (int part = 0; part < kClusterParts; ++part)
      layer.parts[part][i] = static_cast<const char*>(parts[part]);
    return first.type == c.type && first.rows == c.rows && first.column == c.column &&
           first.row_bytes[0] == c.row_bytes[0];
  }

  std::string collect() {
    bool fits = true;
    for (const DeviceLayer& w : w_.layers) {
      ClusterLayer layer;
      bool taken[kClusterMatrices] = {};
      for (const DeviceProjection& q : w.projections) {
        const int i = quant::is_block_type(q.matrix.type) ? 0 : kPlainMatrix;
        if (std::exchange(taken[i], true)) return "projections of several types";
        fits = fits && add(i, q.matrix, false, q.column, layer);
      }
      fits = fits && add(matrix_of(1), w.o_proj, false, 0, layer) &&
             add(matrix_of(2), w.gate_up[0].matrix, true, 0, layer) &&
             add(matrix_of(3), w.down_proj, false, 0, layer);
      if (!fits) return "layers of different shapes, or rows in no whole units";
      layer.norms[0] = w.norm.weight, layer.norms[1] = w.g_norm;
      layer.norms[2] = w.channel_norm.weight;
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
      if (m.rows == 0 || !quant::is_block_type(m.type) || m.type != type)
        return "products of other types than one block type";
    }
    return "";
  }

  void fill_model() {
    const SlotSpec& s = l_.slots();
    const LayerState state = m_.state();
    p_.num_layers = static_cast<std::int32_t>(m_.layers.size());
    p_.embeddings = w_.embeddings;
    p_.d = m_.hidden_size, p_.inner = l_.intermediate_size;
    p_.heads = l_.num_heads, p_.kv_heads = l_.num_kv_heads;
    p_.group = l_.queries_per_kv_head(), p_.k_dim = l_.head_k_dim;
    p_.sinks = s.num_sink_slots, p_.window = s.num_window_slots, p_.memory = s.num_memory_slots;
    p_.sink_distance = s.sink_distance;
    if (p_.memory > 0) p_.heads_a_gate = 1.0F / static_cast<float>(p_.memory);
    p_.scale = s.scale, p_.gate_normalizer = s.gate_normalizer, p_.gate_log_min = s.gate_log_min;
    p_.norm_eps = l_.norm.eps, p_.g_norm_eps = l_.output_norm_eps;
    p_.qk_act = act_of(s.feature_map), p_.v_act = act_of(s.value_activation);
    p_.o_act = act_of(l_.output_activation);
    p_.output_norm = l_.output_norm != OutputNorm::none ? 1 : 0;
    p_.turns = w_.turns;
    p_.layer_floats = state.floats(), p_.head_floats = state.head_floats();
  }

  /// Whether the kernel for the 135M shape takes it.
  bool is_fixed_shape() const {
    using M = DefaultClusterModel;
    const SlotSpec& s = l_.slots();
    return p_.blocks == kClusterBlocks && p_.matrices[0].type == BlockType::q4_0 &&
           p_.matrices[kPlainMatrix].type == BlockType::f16 &&
           p_.matrices[kPlainMatrix].rows == M::kKvHeads * M::kMemory &&
           m_.hidden_size == M::kWide && l_.intermediate_size == M::kInner &&
           l_.num_heads == M::kHeads && l_.num_kv_heads == M::kKvHeads &&
           l_.head_k_dim == M::kWidth && s.num_sink_slots == M::kSinks &&
           s.num_window_slots == M::kWindow && s.num_memory_slots == M::kMemory &&
           l_.output_norm == OutputNorm::none && !m_.layers[0].output->g_norm.present() &&
           p_.qk_act == Act::identity && p_.v_act == Act::identity && p_.o_act == Act::identity;
  }

  /// What is exchanged, one behind the other. Sets `reads`, those of a warp.
  int lay_out_exchanges(int& reads) {
    p_.gates = l_.q_channels() + l_.k_channels() + l_.v_channels();
    int counts[kClusterExchanges] = {3 * l_.head_k_dim + 2 * l_.slots().num_memory_slots,
                                     l_.o_channels(),
                                     m_.hidden_size,
                                     l_.intermediate_size,
                                     m_.hidden_size,
                                     0};
    reads = 1;
    if (p_.fixed != 0) {
      using Split = ClusterSplit<DefaultClusterModel>;
      // A block of 32 that its sender rounds is 40 bytes.
      for (int i : {kRead, kHidden}) counts[i] = counts[i] / 32 * 10;
      counts[kInputs] = Split::kFloats, counts[kPiece] = 2 * Split::kBlocks * kClusterPiece;
      reads = Split::kGroup;
    }
    int floats = 0;
    for (int i = 0; i < kClusterExchanges; ++i) {
      p_.exchange_at[i] = floats, p_.exchange_floats[i] = counts[i];
      floats += round_up(counts[i], 32);
    }
    return floats;
  }

  std::string lay_out() {
    p_.fixed = limits_.fixed && is_fixed_shape() ? 1 : 0;
    int reads = 1;
    const int floats = lay_out_exchanges(reads);
    int at = 0;
    const auto take = [&at](int bytes) {
      const int here = at;
      at += round_up(bytes, 128);
      return here;
    };
    int rounded = 0, plain = 0;
    const int widths[4] = {m_.hidden_size, l_.o_channels(), m_.hidden_size, l_.intermediate_size};
    for (int i = 0; i < kClusterMatrices; ++i) {
      ClusterMatrix& m = p_.matrices[i];
      if (m.rows == 0) continue;
      const int phase = std::max(0, i - 1), rows = rows_of_block(m, p_.blocks);
      for (int part = 0; part < kClusterParts; ++part) m.at[part] = take(rows * m.row_bytes[part]);
      p_.forms[phase] |= !quant::is_block_type(m.type) ? kFormPlain : kFormRounded;
      if (!quant::is_block_type(m.type)) {
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
    s.given_up = take(4);
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
    if (at <= limits_.shared_bytes) return "";
    return "layers that need " + std::to_string(at) + " bytes of shared memory a block, of " +
           std::to_string(limits_.shared_bytes);
  }

  const StepModel& m_;
  const LayerSpec& l_;
  const DeviceTensors& w_;
  const ClusterLimits& limits_;
  ClusterProgram out_;
  ClusterDecode& p_;
};

}  // namespace

ClusterProgram make_cluster_program(const StepModel& model, const DeviceTensors& tensors,
                                    const ClusterLimits& limits) {
  return ClusterLayout(model, tensors, limits).make();
}

}  // namespace runnel::cuda
