// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/step/grid_program.h"

#include <algorithm>
#include <bit>

#include "runtime/backend/cuda/activations.h"
#include "runtime/backend/cuda/step/matrix_shapes.h"

namespace runnel::cuda {
namespace {

bool same(const DecodeShape& a, const DecodeShape& b) {
  return a.type == b.type && a.rows == b.rows && a.tiles == b.tiles && a.unit == b.unit &&
         a.row_shift == b.row_shift && a.lane_shift == b.lane_shift && a.steps == b.steps &&
         a.chunks == b.chunks && a.whole_grid == b.whole_grid;
}

class GridLayout {
 public:
  GridLayout(const StepModel& model, const DeviceTensors& tensors, const GridLimits& limits,
             const DecodeTuning& tuning)
      : m_(model),
        l_(model.layer),
        w_(tensors),
        limits_(limits),
        tuning_(tuning),
        p_(out_.decode) {}

  GridProgram make() {
    out_.why_not = refuse();
    return std::move(out_);
  }

 private:
  std::string refuse() {
    if (std::string why = refuse_tensors(m_, w_); !why.empty()) return why;
    if (l_.head_v_dim > 4 * kDecodeThreads)
      return "heads of " + std::to_string(l_.head_v_dim) + " values";
    if (l_.slots().num_positional_slots() > kDecodeSlots) {
      return std::to_string(l_.slots().num_positional_slots()) +
             " sink and window slots, expected at most " + std::to_string(kDecodeSlots);
    }
    if (l_.queries_per_kv_head() > kDecodeWarps) {
      return std::to_string(l_.queries_per_kv_head()) +
             " query heads a kv head, expected at most " + std::to_string(kDecodeWarps);
    }
    if (std::string why = collect(); !why.empty()) return why;
    p_.grid = limits_.multiprocessors;
    if (!limits_.head_only) {
      if (std::string why = share_blocks(); !why.empty()) return why;
    }
    if (std::string why = refuse_width(); !why.empty()) return why;
    fill_model();
    fill_exchange();
    return lay_out_shared(out_, limits_, tuning_);
  }

  /// Kernels of fixed shapes are as wide as they are; the general one has registers for so much of an input.
  std::string refuse_width() const {
    const int widest = limits_.head_only || p_.even != 0
                           ? m_.hidden_size
                           : std::max({m_.hidden_size, l_.intermediate_size, l_.o_channels()});
    if (widest <= kDecodeWidest) return "";
    return "layers of " + std::to_string(widest) + " channels, expected at most " +
           std::to_string(kDecodeWidest);
  }

  int add(const Matrix& m, bool pairs, bool whole_grid) {
    const DecodeShape s = shape_of(m, pairs, whole_grid);
    for (int i = 0; i < p_.num_shapes; ++i) {
      if (same(p_.shapes[i], s)) return i;
    }
    if (p_.num_shapes == kDecodeShapes) return -1;
    p_.shapes[p_.num_shapes] = s;
    return p_.num_shapes++;
  }

  std::string collect() {
    bool fits = true;
    const auto matrix = [&](const Matrix& m, bool pairs, bool whole_grid, int column) {
      const int shape = add(m, pairs, whole_grid);
      fits = fits && shape >= 0;
      return DecodeMatrix{
          .data = m.data, .scales = m.scales, .high = m.high, .shape = shape, .column = column};
    };
    for (const DeviceLayer& w : w_.layers) {
      if (limits_.head_only) break;
      if (w.projections.size() > std::size_t{kDecodeInputs}) return "projections of many types";
      DecodeLayer layer;
      layer.matrices[kDecodeInputs] = matrix(w.o_proj, false, false, 0);
      layer.matrices[kDecodeInputs + 1] = matrix(w.gate_up[0].matrix, true, false, 0);
      layer.matrices[kDecodeInputs + 2] = matrix(w.down_proj, false, false, 0);
      layer.norms[0] = w.norm.weight, layer.norms[1] = w.g_norm;
      layer.norms[2] = w.channel_norm.weight, layer.norms[kQkvBias] = w.qkv_bias;
      layer.f_bias = w.f_bias, layer.read_bias = w.read_bias;
      layer.head_read_bias = w.head_read_bias;
      for (const DeviceProjection& q : w.projections)
        layer.matrices[layer.num_inputs++] = matrix(q.matrix, false, false, q.column);
      out_.layers.push_back(layer);
    }
    DecodeLayer head;
    head.matrices[kDecodeInputs + 3] = matrix(w_.head, false, true, 0);
    head.norms[4] = w_.final_norm.weight;
    out_.layers.push_back(head);
    return fits ? "" : "matrices of more than " + std::to_string(kDecodeShapes) + " shapes";
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

  std::string share_blocks() {
    int most = p_.grid;
    for (const DecodeLayer& w : std::span(out_.layers).first(w_.layers.size())) {
      const DecodeShape& s = p_.shapes[w.matrices[kDecodeInputs + 1].shape];
      most = std::min(most, s.tiles / s.unit);  // every block has rows of gate and up
    }
    if (most < 1) return "a SwiGLU of no rows";
    if (take_even()) return "";
    p_.blocks = most;
    if (tuning_.blocks > 0) {
      p_.blocks = std::min(most, tuning_.blocks);
    } else {
      long long least = busiest(most);
      for (int n = 1; n < most; ++n) least = std::min(least, busiest(n));
      while (p_.blocks > 1 && busiest(p_.blocks - 1) * 100 <= least * 103) --p_.blocks;
    }
    if (tuning_.warp_slots != 0 && warp_slots()) return "";
    // Splits: as asked, else four where they fit.
    for (int splits : {tuning_.splits, 4, 8, 2, 1}) {
      if (splits < 1 || splits > kDecodeSplits || l_.num_kv_heads * splits > p_.blocks) continue;
      const int per = divide_up(l_.slots().num_slots(), splits);
      const int lanes = std::min(32, l_.head_k_dim / 4), groups = l_.head_k_dim / 4 / lanes;
      const int keys = divide_up(per, kDecodeThreads / lanes) * groups;
      const int values = divide_up(per, kDecodeThreads / (l_.head_v_dim / 4));
      const int items =
          static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(keys, values))));
      if (items > 4) continue;
      p_.splits = splits, p_.slots_per_split = per, p_.items = items;
      p_.key_shift = log2_floor(lanes), p_.key_groups = log2_floor(groups);
      p_.value_shift = log2_floor(l_.head_v_dim / 4);
      return "";
    }
    return std::to_string(l_.slots().num_slots()) + " slots, more than blocks have registers for";
  }

  /// Slots in shares that a warp can do: see step/warp_slots.cuh.
  bool warp_slots() {
    if (!slots_for_warps()) return false;
    int splits = tuning_.splits;
    if (splits < 1) {
      for (splits = 1; 2 * splits * l_.num_kv_heads <= p_.blocks &&
                       2 * splits <= std::min(l_.slots().num_memory_slots, l_.head_v_dim / 4);)
        splits *= 2;
    }
    if (l_.num_kv_heads * splits > p_.blocks || !is_power_of_two(splits) ||
        splits > l_.head_v_dim / 4)
      return false;
    p_.splits = splits, p_.slots_per_split = divide_up(l_.slots().num_memory_slots, splits),
    p_.items = 0;
    p_.warp_slots = 1, p_.columns = l_.head_v_dim / splits;
    return true;
  }

  bool slots_for_warps() const {
    return !(l_.qkv_bias || l_.slots().num_positional_slots() > 0 ||
             l_.num_heads != l_.num_kv_heads || l_.slots().num_memory_slots > 64 ||
             l_.head_k_dim > 512);
  }

  /// The layers by a kernel of a fixed shape, if they are of one.
  bool take_even() {
    const EvenShape* shape = nullptr;
    for (const EvenShape& e : limits_.even) {
      if (m_.hidden_size == e.wide && l_.o_channels() == e.wide &&
          l_.intermediate_size == e.inner && l_.head_k_dim == e.head && l_.head_v_dim == e.head &&
          l_.queries_per_kv_head() == e.group)
        shape = &e;
    }
    out_.why_not_even = shape == nullptr ? refuse_widths() : refuse_even(*shape);
    if (!out_.why_not_even.empty()) return false;
    p_.blocks = shape->blocks;
    p_.even = static_cast<std::int32_t>(shape - limits_.even.data()) + 1;
    if (shape->splits > 0) {
      p_.splits = shape->splits, p_.slots_per_split = shape->share, p_.items = 0;
      p_.split_queries = shape->group;
      return true;
    }
    return warp_slots();
  }

  std::string refuse_widths() const {
    std::string known;
    for (const EvenShape& e : limits_.even) {
      known += (known.empty() ? "" : "; ") + std::to_string(e.wide) + ", " +
               std::to_string(e.inner) + ", " + std::to_string(e.wide / e.head) + " of " +
               std::to_string(e.head);
    }
    return "channels, SwiGLU and heads of " + std::to_string(m_.hidden_size) + ", " +
           std::to_string(l_.intermediate_size) + ", " + std::to_string(l_.num_heads) + " of " +
           std::to_string(l_.head_k_dim) + ", expected one of: " + known;
  }

  /// Why the kernel of step/grid_even.cuh for layers of these widths does not compute it, or "".
  std::string refuse_even(const EvenShape& e) const {
    if (tuning_.even == 0) return "not requested";
    if (p_.grid < e.blocks || (tuning_.blocks > 0 && tuning_.blocks != e.blocks)) {
      return std::to_string(tuning_.blocks > 0 ? tuning_.blocks : p_.grid) +
             " blocks, expected at least " + std::to_string(e.blocks);
    }
    if (std::string why = refuse_slots(e); !why.empty()) return why;
    const BlockType type = p_.shapes[out_.layers[0].matrices[kDecodeInputs].shape].type;
    if (type != BlockType::q4_0 && (e.splits > 0 || !has_even_products(type)))
      return e.splits > 0 ? "products of another type than Q4_0"
                          : "products of another type than Q4_0, Q4_1, Q4_K, Q5_0, Q5_K, Q8_0, "
                            "wide and BF16";
    for (const DecodeLayer& w : std::span(out_.layers).first(w_.layers.size())) {
      if (!is_even(e, w, type)) return "rows or types that do not divide evenly over blocks";
    }
    const BlockType head = w_.head.type;
    const bool small = type == BlockType::q4_0 || type == BlockType::q5_0,
               super =
                   type == BlockType::q4_k || type == BlockType::q5_k || type == BlockType::wide;
    const bool with_head = head == type || (small && head == BlockType::q8_0) ||
                           (super && head == BlockType::q6_k) ||
                           (type == BlockType::q4_k && head == BlockType::q8_0);
    return with_head ? "" : "a head of a type that goes with other products";
  }

  static bool has_even_products(BlockType type) {
    return type == BlockType::q4_0 || type == BlockType::q4_k || type == BlockType::q5_0 ||
           type == BlockType::q5_k || type == BlockType::q8_0 || type == BlockType::wide ||
           type == BlockType::bf16;
  }

  std::string refuse_slots(const EvenShape& e) const {
    if (e.splits == 0) {
      if (l_.qkv_bias) return "biases on q, k and v";
      return slots_for_warps() ? "" : "slots that are not all memory";
    }
    const int positional = l_.slots().num_positional_slots(), slots = l_.slots().num_slots();
    if (slots != e.splits * e.share || positional % e.share != 0) {
      return std::to_string(positional) + " positional and " + std::to_string(slots - positional) +
             " memory slots, expected " + std::to_string(e.splits * e.share) +
             " in all and of each kind a multiple of " + std::to_string(e.share);
    }
    return l_.output_norm == OutputNorm::none ? "" : "a norm behind the slots";
  }

  bool is_even(const EvenShape& e, const DecodeLayer& w, BlockType type) const {
    const auto shape = [&](int i) -> const DecodeShape& { return p_.shapes[w.matrices[i].shape]; };
    const auto rows_of = [&](int i) { return share_of(shape(i), e.blocks) << shape(i).row_shift; };
    if (w.num_inputs > (quant::is_block_type(type) ? 2 : 1)) return false;
    int rows = 0;  // of a block in the first phase
    for (int i = 0; i < w.num_inputs; ++i) {
      const DecodeShape& s = shape(i);
      if (s.type != (i == 0 ? type : BlockType::f16) || s.rows % (1 << s.row_shift) != 0)
        return false;
      rows += rows_of(i);
    }
    if (shape(0).tiles < e.blocks || std::max(rows, rows_of(kDecodeInputs + 1)) > e.rows)
      return false;
    for (int i = 0; i < w.num_inputs; ++i) {
      if (e.splits > 0 && rows_of(i) > 32) return false;  // a warp shows them
    }
    for (int kind = 1; kind < 4; ++kind) {
      const DecodeShape& s = shape(kDecodeInputs - 1 + kind);
      if (s.type != type || s.rows % (1 << s.row_shift) != 0) return false;
      if ((kind != 2 || e.splits == 0) && s.tiles % e.blocks != 0) return false;
      for (int i = 0; i < kDecodeInputs - 1 + kind; ++i) {  // pieces are chosen by shape
        if (w.matrices[i].shape == w.matrices[kDecodeInputs - 1 + kind].shape) return false;
      }
    }
    return true;
  }

  void fill_model() {
    const SlotSpec& s = l_.slots();
    const LayerState state = m_.state();
    p_.num_layers = limits_.head_only ? 0 : static_cast<std::int32_t>(m_.layers.size());
    p_.embeddings = w_.embeddings;
    p_.poll = tuning_.poll > 0 ? 2 - tuning_.poll : p_.warp_slots, p_.keep = tuning_.keep;
    if (limits_.head_only) out_.why_not_even = "the head alone";
    if (p_.even != 0) {
      const EvenShape& shape = limits_.even[static_cast<std::size_t>(p_.even) - 1];
      std::copy(std::begin(shape.pauses), std::end(shape.pauses), p_.pauses);
      if (p_.shapes[0].type == BlockType::wide) p_.pauses[4] = 2500;
      for (int i = 0; i < kDecodePauses; ++i) {
        if (tuning_.pauses[i] >= 0) p_.pauses[i] = static_cast<std::uint32_t>(tuning_.pauses[i]);
      }
    }
    p_.d = m_.hidden_size, p_.inner = l_.intermediate_size, p_.vocab = m_.vocab_size;
    p_.heads = l_.num_heads, p_.kv_heads = l_.num_kv_heads;
    p_.group = l_.queries_per_kv_head();
    p_.k_dim = l_.head_k_dim, p_.v_dim = l_.head_v_dim;
    p_.sinks = s.num_sink_slots, p_.window = s.num_window_slots, p_.memory = s.num_memory_slots;
    p_.sink_distance = s.sink_distance;
    p_.scale = s.scale, p_.gate_normalizer = s.gate_normalizer, p_.gate_log_min = s.gate_log_min;
    p_.norm_eps = l_.norm.eps, p_.g_norm_eps = l_.output_norm_eps;
    p_.qk_act = act_of(s.feature_map);
    p_.v_act = act_of(s.value_activation), p_.o_act = act_of(l_.output_activation);
    p_.output_norm = l_.output_norm != OutputNorm::none ? 1 : 0;
    p_.biased = l_.qkv_bias ? 1 : 0;
    p_.turns = w_.turns;
    p_.layer_floats = state.floats(), p_.head_floats = state.head_floats();
  }

  void fill_exchange() {
    int at = 0;
    const auto take = [&at](int floats) {
      const int here = at;
      at += round_up(floats, 32);
      return here;
    };
    p_.at.inputs = take(l_.q_channels() + l_.k_channels() + l_.v_channels() +
                        (p_.warp_slots != 0 || p_.even != 0 ? 2 : 1) * l_.gate_channels());
    if (p_.warp_slots != 0) p_.at.logits = take(l_.num_heads * l_.slots().num_memory_slots);
    p_.at.parts =
        take(p_.warp_slots != 0 ? l_.o_channels() : l_.num_heads * p_.splits * (l_.head_v_dim + 4));
    p_.at.x1 = take(m_.hidden_size);
    p_.at.h = take(l_.intermediate_size);
    p_.at.x2 = take(m_.hidden_size);
    p_.at.copy = at;
    p_.copies = p_.even != 0 ? 1 : tuning_.copies > 0 ? tuning_.copies : p_.warp_slots != 0 ? 2 : 1;
    p_.at.total = p_.copies * at;
    const int widths[kDecodeKinds] = {m_.hidden_size, l_.o_channels(), m_.hidden_size,
                                      l_.intermediate_size, m_.hidden_size};
    const int places[kDecodeKinds] = {p_.at.x2, p_.at.parts, p_.at.x1, p_.at.h, 2 * p_.at.total};
    std::copy(std::begin(widths), std::end(widths), p_.widths);
    for (int i = 0; i < kDecodeKinds; ++i)
      p_.inverse_widths[i] = 1.0F / static_cast<float>(widths[i]);
    std::copy(std::begin(places), std::end(places), p_.in_at);
  }

  const StepModel& m_;
  const LayerSpec& l_;
  const DeviceTensors& w_;
  const GridLimits& limits_;
  const DecodeTuning& tuning_;
  GridProgram out_;
  Decode& p_;
};

}  // namespace

GridProgram make_grid_program(const StepModel& model, const DeviceTensors& tensors,
                              const GridLimits& limits, const DecodeTuning& tuning) {
  return GridLayout(model, tensors, limits, tuning).make();
}

BlockChoices kept_choices(const GridProgram& program, const std::uint64_t* best) {
  const Decode& d = program.decode;
  const DecodeMatrix& head = program.layers.back().matrices[kDecodeInputs + 3];
  const DecodeShape& shape = d.shapes[head.shape];
  return {.best = best,
          .blocks = d.grid,
          .units = shape.tiles / shape.unit,
          .unit_rows = shape.unit << shape.row_shift};
}

}  // namespace runnel::cuda
