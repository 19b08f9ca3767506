// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/step/shift_program.h"

#include <algorithm>
#include <bit>

#include "runtime/backend/cuda/step/matrix_shapes.h"

namespace runnel::cuda {
namespace {

constexpr int kHeadKind = static_cast<int>(ShiftPhase::head);

std::string at_most(const std::string& what, int n, int most) {
  return std::to_string(n) + " " + what + ", expected at most " + std::to_string(most);
}

/// A matrix of a phase as warps divide it.
struct Division {
  int matrix = 0, source = 0;
  int tiles = 1, parts = 1;  // of an item
  int items = 0;             // with all parts
  int bytes = 0;             // of an item
};

class ShiftLayout {
 public:
  ShiftLayout(const StepModel& model, const DeviceTensors& tensors, const ShiftLimits& limits)
      : m_(model), w_(tensors), limits_(limits), p_(out_.step) {}

  ShiftProgram make() {
    out_.why_not = refuse();
    return std::move(out_);
  }

 private:
  std::string refuse() {
    if (std::string why = refuse_model(); !why.empty()) return why;
    fill_model();
    fill_exchange();
    for (std::size_t i = 0; i < w_.layers.size(); ++i) {
      if (std::string why = add_layer(i); !why.empty()) return why;
    }
    if (std::string why = add_head(); !why.empty()) return why;
    p_.grid = limits_.multiprocessors;
    for (std::size_t i = 0; i < w_.layers.size(); ++i) {
      const ShiftShape& up = shape_at(out_.layers[i], kShiftOutput + 1);
      p_.grid = std::min(p_.grid, divide_up(up.rows, up.row_shift > 0 ? 1 << up.row_shift : 8));
    }
    p_.splits = 4;
    while (p_.splits > 1 && p_.heads * p_.splits > p_.grid) p_.splits /= 2;
    if (p_.heads * p_.splits > p_.grid) return at_most("heads", p_.heads, p_.grid);
    p_.columns = kShiftHead / p_.splits;
    for (std::size_t i = 0; i < out_.layers.size(); ++i) {
      if (std::string why = divide_layer(i); !why.empty()) return why;
    }
    join_blocks();
    return place_shared();
  }

  /// Each block's items and sources of all tables, one block after the other.
  void join_blocks() {
    for (std::size_t block = 0; block < static_cast<std::size_t>(p_.grid); ++block) {
      for (const auto& of_table : items_)
        out_.items.insert(out_.items.end(), of_table[block].begin(), of_table[block].end());
      for (const auto& of_table : sources_) out_.sources.push_back(of_table[block]);
    }
  }

  const ShiftShape& shape_at(const ShiftLayer& w, int matrix) const {
    return p_.shapes[w.matrices[matrix].shape];
  }

  std::string refuse_model() const {
    if (std::string why = refuse_shift_model(m_); !why.empty()) return why;
    const LayerSpec& first = m_.shifted.layers[0].spec;
    const int d = m_.hidden_size;
    if (d % 64 != 0 || d > kShiftWidest) return at_most("channels", d, kShiftWidest);
    if (first.intermediate_size % 64 != 0) return "a hidden layer of no whole blocks of 64";
    for (const StepShiftLayer& l : m_.shifted.layers) {
      const RecurrenceSpec& r = l.spec.recurrence();
      for (const int rank : {r.gate_rank, r.rate_rank, r.output_gate_rank, r.value_rank}) {
        if (rank % 32 != 0 || rank > 4 * kShiftThreads)
          return "ranks of " + std::to_string(rank) + ", expected whole blocks of 32";
      }
    }
    if (m_.final_norm.kind != first.norm.kind) return "norms of different kinds";
    if (m_.vocab_size % 4 != 0) return "a vocabulary of no multiple of 4";
    return "";
  }

  void fill_model() {
    const LayerSpec& l = m_.shifted.layers[0].spec;
    const RecurrenceSpec& r = l.recurrence();
    p_.embeddings = w_.embeddings;
    if (m_.shifted.embedding_norm_weights != nullptr) {
      p_.embedding_norm = w_.embedding_norm.weight, p_.embedding_bias = w_.embedding_norm.bias;
      p_.embedding_eps = m_.shifted.embedding_norm.eps;
    }
    p_.num_layers = static_cast<std::int32_t>(m_.shifted.layers.size());
    p_.d = m_.hidden_size, p_.inner = l.intermediate_size, p_.heads = l.num_heads;
    int value_rank = 0;
    for (const StepShiftLayer& each : m_.shifted.layers)
      value_rank = std::max(value_rank, each.spec.recurrence().value_rank);
    const std::int32_t ranks[] = {r.gate_rank, r.rate_rank, r.output_gate_rank, value_rank};
    std::copy(std::begin(ranks), std::end(ranks), p_.ranks);
    p_.centred = l.norm.kind == Norm::layer ? 1 : 0;
    p_.groups = l.output_norm == OutputNorm::groups ? 1 : 0;
    p_.gated = l.output_gate ? 1 : 0;
    p_.eps = l.norm.eps, p_.final_eps = m_.final_norm.eps, p_.group_eps = l.output_norm_eps;
    p_.scale = r.scale;
  }

  void fill_exchange() {
    int at = 0;
    const auto take = [&at](int floats) {
      const int here = at;
      at += round_up(floats, 32);
      return here;
    };
    ShiftExchange& e = p_.at;
    for (std::int32_t* place :
         {&e.q, &e.k, &e.v, &e.f, &e.r, &e.gate, &e.mix, &e.o, &e.bonus, &e.x1, &e.x2})
      *place = take(p_.d);
    for (int i = 0; i < 4; ++i) e.low[i] = take(p_.ranks[i]);
    e.h = take(p_.inner);
    e.total = at;
  }

  std::string take_matrix(ShiftMatrix& to, const Matrix& m, int column) {
    if (m.rows == 0) return "";  // the layer has none
    const DecodeShape s = shape_of(m, false, false);
    const ShiftShape shape{
        .type = m.type,
        .rows = m.rows,
        .steps = s.steps,
        .lane_shift = s.lane_shift,
        .row_shift = s.row_shift,
        .tile_bytes = s.tile_bytes,
        .step_bytes = s.step_bytes,
        .scale_bytes = s.scale_bytes,
        .high_bytes = s.high_bytes,
        .tail_chunks = s.chunks > 0 ? s.tail_chunks : 32,
        .piece_steps = kShiftSlotBytes / (s.step_bytes + s.scale_bytes + s.high_bytes),
        .piece_tiles =
            !quant::is_block_type(m.type) && s.steps == 1 ? kShiftSlotBytes / s.tile_bytes : 1};
    to = {.data = m.data, .scales = m.scales, .high = m.high, .shape = 0, .column = column};
    while (to.shape < p_.num_shapes && !alike(p_.shapes[to.shape], shape)) ++to.shape;
    if (to.shape == kShiftShapes)
      return "matrices of more than " + std::to_string(kShiftShapes) + " shapes";
    if (to.shape == p_.num_shapes) p_.shapes[p_.num_shapes++] = shape;
    return "";
  }

  std::string add_layer(std::size_t i) {
    const DeviceLayer& w = w_.layers[i];
    const StepShiftLayer& model = m_.shifted.layers[i];
    ShiftLayer layer;
    std::string why;
    int next = 0;
    const auto matrix = [&](const Matrix& m, int column) {
      if (why.empty()) why = take_matrix(layer.matrices[next], m, column);
      ++next;
    };
    const ShiftExchange& e = p_.at;
    matrix(w.q, e.q), matrix(w.k, e.k), matrix(w.v, e.v);
    for (std::size_t j = 0; j < 4; ++j) matrix(w.down[j], e.low[j]);
    const std::int32_t up[4] = {e.f, e.r, e.gate, e.mix};
    for (std::size_t j = 0; j < 4; ++j) matrix(w.up[j], up[j]);
    if (w.gate_up.size() != 1) return "a channel mix of several matrices";
    matrix(w.o_proj, e.x1), matrix(w.gate_up[0].matrix, e.h), matrix(w.down_proj, e.x2);
    layer.norm = w.norm.weight, layer.norm_bias = w.norm.bias, layer.lerp = w.lerp;
    layer.f_bias = w.f_bias, layer.r_bias = w.r_bias, layer.mix_bias = w.v_mix_bias;
    layer.removal_key = w.removal_key, layer.key_rate = w.key_rate, layer.bonus = w.bonus;
    layer.group_norm = w.g_norm, layer.group_bias = w.g_norm_bias;
    layer.channel_norm = w.channel_norm.weight, layer.channel_bias = w.channel_norm.bias;
    layer.channel_lerp = w.channel_lerp;
    LayerState state = LayerState::of(model.spec);
    state.offset = state_floats_;
    state_floats_ += state.floats();
    layer.state = state.values_offset(0);
    layer.mixer_shift = state.mixer_shift_offset();
    layer.channel_shift = state.channel_shift_offset();
    if (state.head_floats() != std::size_t{kShiftHead} * kShiftHead || layer.mixer_shift % 4 != 0)
      return "a state of another form";
    layer.mixes_values = model.spec.recurrence().value_rank > 0 ? 1 : 0;
    out_.layers.push_back(layer);
    return why;
  }

  std::string add_head() {
    ShiftLayer head;
    head.norm = w_.final_norm.weight, head.norm_bias = w_.final_norm.bias;
    std::string why = take_matrix(head.matrices[0], w_.head, 0);
    out_.layers.push_back(head);
    return why;
  }

  /// The matrices of a phase and the input of each.
  std::vector<Division> matrices_of(const ShiftLayer& w, int kind) const {
    const auto one = [](int matrix) { return std::vector<Division>{{.matrix = matrix}}; };
    std::vector<Division> all;
    switch (static_cast<ShiftPhase>(kind)) {
      case ShiftPhase::project: {
        constexpr int kSources[kShiftUp] = {0, 2, 3, 1, 4, 5, 3};  // of the lerps' rows
        for (int i = 0; i < kShiftUp; ++i) all.push_back({.matrix = i, .source = kSources[i]});
        break;
      }
      case ShiftPhase::raise:
        for (int i = 0; i < 4; ++i) all.push_back({.matrix = kShiftUp + i, .source = i});
        break;
      case ShiftPhase::output:
        return one(kShiftOutput);
      case ShiftPhase::up:
        return one(kShiftOutput + 1);
      case ShiftPhase::down:
        return one(kShiftOutput + 2);
      case ShiftPhase::head:
        return one(0);
    }
    std::erase_if(all, [&w](const Division& d) { return w.matrices[d.matrix].shape < 0; });
    return all;
  }

  /// Makes parts of several tiles of it, as many, where a part can be a piece of each.
  static void share_input(const ShiftShape& m, int tiles, Division& d) {
    if (m.row_shift == 0 || m.piece_steps < 2 ||
        !std::has_single_bit(static_cast<unsigned>(m.piece_steps)))
      return;
    const int times = m.steps / (d.parts * m.piece_steps);
    if (times < 2 || d.parts * times * m.piece_steps != m.steps || tiles % times != 0 ||
        d.parts * times > kShiftWarps || times << m.row_shift > kShiftRows)
      return;
    d.tiles = times, d.parts *= times;
  }

  /// Items of about `bytes`.
  static void divide(const ShiftShape& m, int bytes, Division& d) {
    const int tile = m.tile_bytes + m.steps * (m.scale_bytes + m.high_bytes);
    const int tiles = divide_up(m.rows, 1 << m.row_shift);
    d.tiles = d.parts = 1;
    if (tile > bytes) {
      const auto most = std::bit_floor(static_cast<unsigned>(std::min(m.steps, kShiftWarps)));
      d.parts =
          std::min(static_cast<int>(most),
                   static_cast<int>(std::bit_ceil(static_cast<unsigned>(divide_up(tile, bytes)))));
    } else if (m.row_shift == 0) {
      d.tiles = std::clamp(bytes / tile, 1, 8);
    }
    share_input(m, tiles, d);
    d.items = divide_up(tiles, d.tiles) * d.parts;
    d.bytes = d.tiles * divide_up(tile, d.parts);
  }

  /// The size of items that lets the slowest warp finish first.
  std::vector<Division> best_division(const ShiftLayer& w, int kind) const {
    std::vector<Division> best;
    double least = 0.0;
    for (int bytes = 512; bytes <= 64 * 1024; bytes += bytes / 4) {
      std::vector<Division> all = matrices_of(w, kind);
      int items = 0, largest = 0;
      for (Division& d : all) {
        divide(shape_at(w, d.matrix), bytes, d);
        items += d.items, largest = std::max(largest, d.bytes);
      }
      constexpr double kItem = 400.0;  // what an item costs besides, in bytes
      const double cost = divide_up(items, p_.grid * kShiftWarps) * (largest + kItem);
      if (best.empty() || cost < least) best = std::move(all), least = cost;
    }
    return best;
  }

  static bool alike(const ShiftShape& a, const ShiftShape& b) {
    return a.type == b.type && a.rows == b.rows && a.steps == b.steps &&
           a.tile_bytes == b.tile_bytes && a.lane_shift == b.lane_shift;
  }

  std::string divide_layer(std::size_t i) {
    const bool head = i + 1 == out_.layers.size();
    for (int kind = head ? kHeadKind : 0; kind < (head ? kHeadKind + 1 : kShiftPhases); ++kind) {
      const auto at = static_cast<std::size_t>(head ? 0 : kind);
      if (!head && i > 0) {
        // As the layer before, where it is the same: the second layer differs from the first, the others seldom.
        const ShiftLayer &own = out_.layers[i], &before = out_.layers[i - 1];
        bool same = true;
        for (const Division& d : matrices_of(own, kind))
          same = same && own.matrices[d.matrix].shape == before.matrices[d.matrix].shape;
        if (same && matrices_of(own, kind).size() == matrices_of(before, kind).size()) {
          out_.layers[i].tables[at] = before.tables[at];
          continue;
        }
      }
      out_.layers[i].tables[at] = {.sources = p_.block_sources, .items = p_.block_items};
      if (std::string why = divide_phase(out_.layers[i], kind, out_.layers[i].tables[at]);
          !why.empty())
        return why;
    }
    return "";
  }

  std::string divide_phase(const ShiftLayer& w, int kind, ShiftTable& table) {
    const std::vector<Division> all = best_division(w, kind);
    long long slots = 0;  // of all warps
    for (const Division& d : all) slots += d.items;
    // Which tiles each block has; a tile's parts stay together in one round.
    std::vector<std::vector<ShiftItem>> of_block(static_cast<std::size_t>(p_.grid));
    std::vector<ShiftSources> sources(static_cast<std::size_t>(p_.grid));
    long long at = 0;
    for (const Division& d : all) {
      const ShiftShape& m = shape_at(w, d.matrix);
      const int tiles = divide_up(m.rows, 1 << m.row_shift);
      for (int tile = 0; tile < tiles; tile += d.tiles, at += d.parts) {
        const auto block = static_cast<std::size_t>(at * p_.grid / slots);
        ShiftItem item{.matrix = static_cast<std::int16_t>(d.matrix),
                       .input = input_of(sources[block], d.source, m.type),
                       .first_tile = tile,
                       .tiles = static_cast<std::int16_t>(std::min(d.tiles, tiles - tile)),
                       .parts = static_cast<std::int16_t>(d.parts)};
        p_.item_rows = std::max(p_.item_rows, d.tiles << m.row_shift);
        std::vector<ShiftItem>& items = of_block[block];
        while (items.size() % kShiftWarps + static_cast<std::size_t>(d.parts) > kShiftWarps)
          items.emplace_back();
        for (int part = 0; part < d.parts; ++part) {
          item.first_step = static_cast<std::int16_t>(m.steps * part / d.parts);
          item.steps = static_cast<std::int16_t>(m.steps * (part + 1) / d.parts - item.first_step);
          items.push_back(item);
        }
      }
    }
    std::size_t rounds = 1;
    for (const auto& items : of_block)
      rounds = std::max(rounds, divide_up(items.size(), std::size_t{kShiftWarps}));
    for (auto& items : of_block) {
      if (kind == static_cast<int>(ShiftPhase::up) && items.empty())
        return "fewer rows of the channel mix than blocks";
      items.resize(rounds * kShiftWarps);
    }
    table.rounds = static_cast<std::int32_t>(rounds);
    p_.block_items += table.rounds * kShiftWarps, ++p_.block_sources;
    measure_inputs(kind, sources);
    items_.push_back(std::move(of_block)), sources_.push_back(std::move(sources));
    return "";
  }

  static std::int16_t input_of(ShiftSources& of, int source, BlockType type) {
    const int form = quant::is_block_type(type) ? kFormRounded : kFormPlain;
    for (std::int32_t i = 0; i < of.count; ++i) {
      if (of.in[i].source != source) continue;
      of.in[i].forms = static_cast<std::int16_t>(of.in[i].forms | form);
      return static_cast<std::int16_t>(i);
    }
    of.in[of.count] = {static_cast<std::int16_t>(source), static_cast<std::int16_t>(form)};
    return static_cast<std::int16_t>(of.count++);
  }

  /// How much room the inputs of a phase take.
  void measure_inputs(int kind, const std::vector<ShiftSources>& sources) {
    int n = p_.d, count = 0, forms = 0;
    if (kind == static_cast<int>(ShiftPhase::down)) n = p_.inner;
    if (kind == static_cast<int>(ShiftPhase::raise)) n = *std::max_element(p_.ranks, p_.ranks + 4);
    for (const ShiftSources& s : sources) {
      count = std::max(count, s.count);
      for (std::int32_t i = 0; i < s.count; ++i) forms |= s.in[i].forms;
    }
    forms_[kind] |= forms;
    p_.plain_at[kind] = (forms_[kind] & kFormRounded) != 0 ? round_up(n / 32 * 40, 128) : 0;
    p_.input_bytes[kind] =
        p_.plain_at[kind] + ((forms_[kind] & kFormPlain) != 0 ? round_up(4 * n, 128) : 0);
    most_inputs_[kind] = std::max(most_inputs_[kind], count);
  }

  std::string place_shared() {
    int at = 0;
    const auto take = [&at](int bytes) {
      const int here = at;
      at += round_up(bytes, 128);
      return here;
    };
    int widest = 0, rounds = 1;
    for (int kind = 0; kind <= kShiftPhases; ++kind)
      widest = std::max(widest, most_inputs_[kind] * p_.input_bytes[kind]);
    for (const ShiftLayer& w : out_.layers) {
      for (const ShiftTable& t : w.tables) rounds = std::max(rounds, t.rounds);
    }
    ShiftShared& s = p_.shared;
    take(static_cast<int>(sizeof(ShiftStep)));
    s.segment = take(static_cast<int>(sizeof(Segment)));
    s.barriers = take(2 * 8 * kShiftWarps * kShiftSlots);
    s.layers = take((p_.num_layers + 1) * static_cast<int>(sizeof(ShiftLayer)));
    s.sums = take(2 * kShiftWarps * 8);
    s.x = take(2 * 4 * p_.d);
    s.first_v = take(4 * kShiftHead);
    s.vectors = take(p_.columns / 4 * 5 * kShiftHead * 4);
    s.partial = take(std::min(rounds, kShiftRounds) * kShiftWarps * p_.item_rows * 4);
    s.sources = take(p_.block_sources * static_cast<int>(sizeof(ShiftSources)));
    s.inputs = take(widest);
    constexpr int kOfAll = kShiftWarps * kShiftSlotBytes;
    p_.slots = std::min(kShiftSlots, (limits_.shared_bytes - at) / kOfAll);
    if (p_.slots < 2)
      return at_most("bytes of shared memory", at + 2 * kOfAll, limits_.shared_bytes);
    const int items = p_.block_items * static_cast<int>(sizeof(ShiftItem));
    if (at + round_up(items, 128) + p_.slots * kOfAll <= limits_.shared_bytes)
      s.items = take(items);
    s.ring = take(p_.slots * kOfAll);
    s.total = at;
    return "";
  }

  const StepModel& m_;
  const DeviceTensors& w_;
  const ShiftLimits& limits_;
  ShiftProgram out_;
  ShiftStep& p_;
  std::size_t state_floats_ = 0;
  std::vector<std::vector<std::vector<ShiftItem>>> items_;  // of each table, of each block
  std::vector<std::vector<ShiftSources>> sources_;
  int forms_[kShiftPhases + 1] = {}, most_inputs_[kShiftPhases + 1] = {};
};

}  // namespace

ShiftProgram make_shift_program(const StepModel& model, const DeviceTensors& tensors,
                                const ShiftLimits& limits) {
  return ShiftLayout(model, tensors, limits).make();
}

}  // namespace runnel::cuda
