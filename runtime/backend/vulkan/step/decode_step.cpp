// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/step/decode_step.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string_view>

#include "runtime/backend/vulkan/device_weights.h"
#include "runtime/backend/vulkan/packed_matrix.h"
#include "runtime/backend/vulkan/pass_builder.h"
#include "runtime/backend/vulkan/step/narrow_step.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

constexpr std::uint32_t kMostThreads = 512, kFewestThreads = 128;  // of a workgroup
constexpr std::uint32_t kMostParts = 8, kFewestColumns = 16;  // of a head's slots: of one of them
constexpr std::uint32_t kRoundingLanes = 8;                   // share a block of 32 columns
constexpr std::uint32_t kMostKeyVectors = 16;                 // of 4 of a key, in a lane
constexpr std::uint32_t kMostHeld = 8;                        // items of a lane under way
// Of decode_even: inputs are whole multiples of this wide; all but one of so many workgroups have
// rows; and items of a lane of a stage, each with code of its own.
constexpr std::uint32_t kEvenColumns = 64, kEvenOf = 16, kMostEvenItems = 80;
// Vectors of 4 columns that a lane has of gates of their own type.
constexpr std::uint32_t kMostGateVectors = 8;
// Places among the constants, of which the first is UNITS.
constexpr std::size_t kPartsConstant = 11, kHeldConstant = 17, kGroupsConstant = 20,
                      kQueriesConstant = 23;
// Of the head: workgroups on each multiprocessor, their threads, lanes that share a row, items of
// a row that one of them takes at most while there are more lanes.
constexpr std::uint32_t kHeadGroups = 2, kHeadThreads = 256;
constexpr std::uint32_t kFewestHeadLanes = 4, kMostHeadItems = 9;
/// Far more than a token's waiting, so that only what will never come is given up: a look takes
/// some 0.5 us on a GPU, and a thread of a software driver may not run for a while.
constexpr std::int32_t kPatience = 1 << 21, kSoftwarePatience = 1 << 30;

bool is_blocks(BlockType t) {
  return t == BlockType::q4_0 || t == BlockType::q8_0 || t == BlockType::q4_k ||
         t == BlockType::q6_k;
}
bool is_short(BlockType t) { return t == BlockType::f16 || t == BlockType::bf16; }
/// Columns of the 16 bytes of codes that a lane loads at a time.
std::uint32_t item_columns(BlockType t) { return is_short(t) ? 8 : t == BlockType::q8_0 ? 16 : 32; }

/// A matrix as the shader finds it: loads counted from the beginning of the weights, planes moved
/// so that they are indexed by the same number.
std::array<std::uint32_t, kStepMatrixWords> entry_of(const DeviceMatrix& m) {
  const DeviceMatrix::Part& part = m.parts.front();
  const std::uint64_t first = part.range.offset / 16, word = part.range.offset / 4;
  std::uint64_t scales = word + part.rows.scales, high = word + part.rows.high;
  if (m.type == BlockType::q4_0) scales -= first / 2;
  if (m.type == BlockType::q8_0) scales -= first / 4;
  if (m.type == BlockType::q4_k || m.type == BlockType::q6_k) scales -= first / 8 * 5;
  if (m.type == BlockType::q6_k) high -= 2 * first;
  const auto word_of = [](std::uint64_t n) { return static_cast<std::uint32_t>(n); };
  return {word_of(first), word_of(static_cast<std::uint64_t>(m.rows)), word_of(scales),
          word_of(high)};
}

class Maker {
 public:
  Maker(const Device& device, const StepModel& model, const DeviceWeights& weights)
      : device_(device), c_(model), w_(weights) {
    const Capabilities& limits = device.capabilities();
    const std::uint32_t most =
        device.tuning().step_threads > 0 ? device.tuning().step_threads : kMostThreads;
    threads_ = std::bit_floor(
        std::min({most, limits.group_threads, limits.group_subgroups * limits.subgroup}));
  }

  /// Fills `step` and the words of its table; says why not.
  const char* make(DecodeStep& step, std::vector<std::uint32_t>& table) {
    if (const char* why = refuse(); *why != '\0') return why;
    const Capabilities& limits = device_.capabilities();
    const Tuning& tuned = device_.tuning();
    const auto u = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
    step.groups = limits.resident_groups;
    std::uint32_t parts =
        tuned.step_parts > 0
            ? tuned.step_parts
            : std::clamp(std::bit_floor(u(l_.head_v_dim) / kFewestColumns), 1U, kMostParts);
    while (parts > 1 && (l_.head_v_dim % u(parts) != 0 || u(l_.num_kv_heads) * parts > step.groups))
      parts /= 2;
    const std::uint32_t columns = u(l_.head_v_dim) / parts;
    // A workgroup a query, where there are enough.
    std::uint32_t queries = u(l_.queries_per_kv_head());
    if (parts > 1 && columns % 4 == 0 && u(l_.num_heads) * parts <= step.groups)
      parts *= queries, queries = 1;
    if (!std::has_single_bit(columns) || columns > threads_) return "its heads";
    const std::uint32_t o = u(l_.num_heads * l_.head_v_dim);
    const std::uint32_t other = std::max(u(l_.intermediate_size), o);
    const BlockType type = w_.layers.front().o_proj.type;
    const bool dot = is_blocks(type) && limits.integer_dot && limits.subgroup >= kRoundingLanes;
    const bool gates = w_.layers.front().projections.size() == 2;
    if (shared_bytes(type, dot, other, columns, gates, step.groups, queries) > limits.shared_bytes)
      return "its widths";
    step.shader = "decode_step." + std::string(quant::block_traits(type)->name);
    if (dot) step.shader += ".dot";
    std::uint32_t teams = 0, most_items = 1;
    for (std::uint32_t stage = 0; stage < 4; ++stage) {
      const Team team = team_of(stage, step.groups);
      teams |= static_cast<std::uint32_t>(std::countr_zero(team.lanes)) << (8 * stage);
      most_items = std::max(most_items, team.items);
    }
    const std::uint32_t held = items_held(type, most_items);
    step.constants = {1,
                      threads_,
                      u(c_.hidden_size),
                      u(l_.intermediate_size),
                      u(l_.head_k_dim),
                      u(l_.head_v_dim),
                      u(s_.num_memory_slots),
                      u(s_.num_sink_slots),
                      u(s_.num_window_slots),
                      u(l_.queries_per_kv_head()),
                      u(l_.num_kv_heads),
                      parts,
                      other,
                      shader_constant(s_.feature_map),
                      shader_constant(s_.value_activation),
                      shader_constant(l_.output_activation),
                      l_.output_norm != OutputNorm::none ? 1U : 0U,
                      held,
                      limits.software ? 1U : 0U,
                      static_cast<std::uint32_t>(layers_),
                      step.groups,
                      gates ? 1U : 0U,
                      teams,
                      queries};
    const auto fours = [](std::uint64_t n) { return (n + 3) / 4 * 4; };
    const std::uint64_t projected = u((l_.num_heads + l_.num_kv_heads) * l_.head_k_dim +
                                      l_.num_kv_heads * (l_.head_v_dim + s_.num_memory_slots));
    const std::uint64_t places =
        fours(projected) + o + 2 * u(c_.hidden_size) + u(l_.intermediate_size);
    const std::uint64_t words = places * static_cast<std::uint32_t>(layers_);
    step.act_words = words + 4;
    step.args = {.pass = {},
                 .phases = 4 * static_cast<std::uint32_t>(layers_),
                 .layer_stride = 0,
                 .layer_floats = static_cast<std::uint32_t>(c_.state().floats()),
                 .stuck_at = static_cast<std::uint32_t>(words),
                 .patience = tuned.step_patience > 0 ? tuned.step_patience
                             : limits.software       ? kSoftwarePatience
                                                     : kPatience,
                 .scale = s_.scale,
                 .gate_normalizer = s_.gate_normalizer,
                 .gate_log_min = s_.gate_log_min,
                 .eps = l_.norm.eps,
                 .g_norm_eps = l_.output_norm_eps};
    step.weights = w_.block_of(w_.layers.front().o_proj);
    if (limits.addresses) {
      const auto [low, high] = device_.address_of(step.weights);
      step.args.weights_low = low, step.args.weights_high = high;
    }
    if (step.weights.bytes > limits.storage_range || step.act_words * 4 > limits.storage_range)
      return "its size";
    for (const DeviceLayer& layer : w_.layers) add(layer, table);
    make_head(step);
    if (step.draws) add_head(table);
    return "";
  }

  /// Takes decode_even for what decode_step would do, where it can.
  void use_even(DecodeStep& step) const {
    const Capabilities& limits = device_.capabilities();
    if (!step.shader.starts_with(kStepName)) return;
    const BlockType type = w_.layers.front().o_proj.type;
    const auto heads = static_cast<std::uint32_t>(l_.num_kv_heads);
    const std::uint32_t parts = step.constants[kPartsConstant];
    const std::uint32_t queries = step.constants[kQueriesConstant];
    const auto columns =
        static_cast<std::uint32_t>(l_.head_v_dim * l_.queries_per_kv_head()) / (parts * queries);
    const std::uint32_t groups = even_groups(step.groups);
    if (groups == 0 || (parts > 1 && groups < heads * parts) ||
        (!step.shader.ends_with(".dot") && !is_short(type)) || type == BlockType::q6_k ||
        even_bytes(type, groups, columns, queries) > limits.shared_bytes)
      return;
    step.groups = groups;
    step.shader.replace(0, kStepName.size(), "decode_even.");
    step.constants[kHeldConstant] = even_items_held(type);
    step.constants[kGroupsConstant] = groups;
    const DeviceMatrix* gates = gates_of(w_.layers.front());
    step.constants.push_back(gates == nullptr ? kStepF16 : gate_type(*gates));
  }

 private:
  static constexpr std::string_view kStepName = "decode_step.";

  /// f where it is a matrix of its own.
  static const DeviceMatrix* gates_of(const DeviceLayer& w) {
    return w.projections.size() == 2 ? &w.projections.back().matrix : nullptr;
  }
  static std::uint32_t gate_type(const DeviceMatrix& gates) {
    return gates.type == BlockType::f16 ? kStepF16 : kStepBf16;
  }

  /// How decode_even shares a stage's columns, as include/even_columns.glsl has it.
  struct EvenStage {
    std::uint32_t slices = 0;   // 0: not at all
    std::uint32_t ways = 0;     // subgroups with the same slice
    std::uint32_t vectors = 0;  // of 4 columns in a lane
    std::uint32_t sums = 0;     // of rows, by slices
    std::uint32_t rounded = 0;  // columns that pass through shared memory
  };
  EvenStage even_stage(BlockType type, std::uint32_t columns, std::uint32_t rows) const {
    const std::uint32_t lanes = device_.capabilities().subgroup, warps = threads_ / lanes;
    const std::uint32_t vectors = columns <= 4 * threads_ ? 1 : columns <= 8 * threads_ ? 2 : 4;
    const std::uint32_t slice = 4 * vectors * lanes, slices = columns / slice;
    if (columns % kEvenColumns != 0 || columns % slice != 0 || slices > warps) return {};
    const std::uint32_t across = slice / item_columns(type), team = std::min(lanes, across);
    const std::uint32_t side = lanes / team;
    const std::uint32_t ways = warps / slices;
    const std::uint32_t turns = ceil_div(rows, side * ways), rest = turns % 8;
    if (turns * (across / team) > kMostEvenItems) return {};
    const std::uint32_t room = turns - rest + (rest < 3 ? rest : rest < 5 ? 4 : 8);
    return {slices, ways, vectors, slices * room * side * ways, vectors > 1 ? columns : 0};
  }
  std::array<EvenStage, 4> even_stages(BlockType type, std::uint32_t groups) const {
    const auto u = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
    const std::uint32_t d = u(c_.hidden_size), inner = u(l_.intermediate_size);
    const DeviceLayer& w = w_.layers.front();
    EvenStage projected = even_stage(type, d, u(w.projections.front().matrix.rows) / groups);
    if (const DeviceMatrix* gates = gates_of(w); gates != nullptr && projected.slices > 0) {
      const std::uint32_t turns = ceil_div(u(gates->rows) / groups, projected.ways);
      projected.sums += projected.slices * projected.ways * std::bit_ceil(turns);
      if (turns * projected.vectors > kMostGateVectors) projected.slices = 0;
    }
    return {projected, even_stage(type, u(l_.num_heads * l_.head_v_dim), d / groups),
            even_stage(type, d, 2 * inner / groups), even_stage(type, inner, d / groups)};
  }

  /// Workgroups over which all rows divide evenly, where that is nearly all; 0: decode_step.
  std::uint32_t even_groups(std::uint32_t groups) const {
    const Capabilities& limits = device_.capabilities();
    const DeviceLayer& w = w_.layers.front();
    std::int64_t all = std::gcd(std::gcd(w.projections.front().matrix.rows, w.o_proj.rows),
                                std::int64_t{l_.intermediate_size});
    if (const DeviceMatrix* gates = gates_of(w)) {
      all = std::gcd(all, gates->rows);
      for (const DeviceLayer& other : w_.layers) {
        if (gates_of(other)->type != gates->type) return 0;
      }
    }
    std::uint32_t even = groups;
    while (all % even != 0) --even;
    if (!limits.addresses || limits.subgroup < kRoundingLanes ||
        even * kEvenOf < groups * (kEvenOf - 1) ||
        static_cast<std::uint32_t>(c_.hidden_size) > even * threads_)
      return 0;
    for (const EvenStage& stage : even_stages(w.o_proj.type, even)) {
      if (stage.slices == 0) return 0;
    }
    return even;
  }

  /// Items of a lane of a stage under way in decode_even, with two stages' in its registers.
  static std::uint32_t even_items_held(BlockType type) { return type == BlockType::q8_0 ? 12 : 16; }

  /// Shared memory that decode_even declares.
  std::uint64_t even_bytes(BlockType type, std::uint32_t groups, std::uint64_t columns,
                           std::uint64_t g) const {
    const auto stages = even_stages(type, groups);
    std::uint64_t rounded = 0;
    for (const EvenStage& stage : stages) rounded = std::max<std::uint64_t>(rounded, stage.rounded);
    const std::uint64_t sums =
        std::max(stages[0].sums, stages[2].sums) + std::max(stages[1].sums, stages[3].sums);
    return 4 * (sums + 2 * (threads_ / device_.capabilities().subgroup)) + rounded + rounded / 8 +
           20 + slot_bytes(columns, g);
  }

  /// Lanes that share a row of a stage, and its items in each.
  struct Team {
    std::uint32_t lanes = 0, items = 0;
  };

  /// The team that a multiprocessor is through with first: of all subgroups the instructions, of one its waits.
  Team team_of(std::uint32_t stage, std::uint32_t groups) const {
    constexpr std::uint32_t kSchedulers = 4, kItem = 40, kItemWait = 60, kPass = 180,
                            kPassWait = 300, kLoadWait = 1500;
    const std::uint32_t lanes = device_.capabilities().subgroup, warps = threads_ / lanes;
    const DeviceLayer& w = w_.layers.front();
    const DeviceMatrix& m = stage == 0   ? w.projections.front().matrix
                            : stage == 1 ? w.o_proj
                            : stage == 2 ? w.gate_up.front()
                                         : w.down_proj;
    const std::uint32_t pair = stage == 2 ? 2 : 1;  // gate and up meet in a subgroup
    const std::uint32_t rows = pair * ceil_div(static_cast<std::uint64_t>(m.rows) / pair, groups);
    const std::uint32_t items = static_cast<std::uint32_t>(m.cols) / item_columns(m.type);
    Team best;
    std::uint32_t least = UINT32_MAX;
    for (std::uint32_t team = lanes / pair; team >= std::min(4U, lanes / 2); team /= 2) {
      const std::uint32_t passes = ceil_div(rows * team, lanes), each = ceil_div(items, team);
      const std::uint32_t cost =
          std::max(passes * (each * kItem + kPass) / kSchedulers,
                   ceil_div(passes, warps) *
                       (each * kItemWait + kPassWait + (each - 1) / kMostHeld * kLoadWait));
      if (cost < least) least = cost, best = {team, each};
    }
    return best;
  }

  /// Items of a lane under way.
  std::uint32_t items_held(BlockType type, std::uint32_t most) const {
    const std::uint32_t tuned = device_.tuning().step_chunk;
    // 8 would not fit registers
    const bool wide = type == BlockType::q4_k || type == BlockType::q6_k;
    const std::uint32_t wanted = tuned > 0                         ? std::max(tuned, 2U)
                                 : device_.capabilities().software ? 2
                                 : wide                            ? kMostHeld / 2
                                                                   : kMostHeld;
    return std::min({std::bit_ceil(std::max(most, 2U)), std::bit_ceil(wanted), kMostHeld});
  }

  /// What no program of one token computes.
  const char* refuse_form() const {
    if (!c_.recognised()) return c_.why_not.c_str();
    if (l_.norm.kind != Norm::rms || l_.channel_norm.kind != Norm::rms ||
        c_.final_norm.kind != Norm::rms || l_.norm.eps != l_.channel_norm.eps)
      return "norms of other kinds";
    if (l_.qkv_bias) return "biases on q, k and v";
    if (l_.conv_size > 0) return "convolutions";
    if (l_.output_gate || l_.output_norm == OutputNorm::heads)
      return "an output gate or norms of heads";
    switch (s_.feature_map) {
      case FeatureMap::identity:
      case FeatureMap::swish:
      case FeatureMap::relu:
        return "";
      case FeatureMap::t2r:
      case FeatureMap::elu:
      case FeatureMap::product:
      case FeatureMap::hedgehog:
      case FeatureMap::dpfp:
      case FeatureMap::exponential:
        return "a feature map with weights";
    }
    return "";
  }

  const char* refuse() const {
    const Capabilities& limits = device_.capabilities();
    if (limits.resident_groups == 0) return "a device that promises no workgroups at the same time";
    if (limits.subgroup < 4 || limits.subgroup > 32 || threads_ < kFewestThreads)
      return "small workgroups";
    if (const char* why = refuse_form(); *why != '\0') return why;
    const std::int64_t o = std::int64_t{l_.num_heads} * l_.head_v_dim;
    for (const DeviceLayer& w : w_.layers) {
      if (w.projections.size() != w_.layers.front().projections.size())
        return "layers of several kinds";
    }
    if (l_.head_k_dim % 4 != 0 || l_.head_v_dim % 4 != 0 || c_.state().floats() % 4 != 0)
      return "head dimensions";
    if (static_cast<std::uint32_t>(l_.head_k_dim) > 4 * kMostKeyVectors * limits.subgroup)
      return "its head dimensions";
    const BlockType type = w_.layers.front().o_proj.type;
    if (!is_blocks(type) && !is_short(type)) return "its weight type";
    const std::int64_t width = type == BlockType::q4_k || type == BlockType::q6_k ? 256 : 32;
    if (c_.hidden_size % width != 0 || l_.intermediate_size % width != 0 || o % width != 0)
      return "its widths";
    const Range block = w_.block_of(w_.layers.front().o_proj);
    const auto takes = [&](const DeviceMatrix& m) {
      return m.type == type && m.parts.size() == 1 && m.parts.front().range.buffer == block.buffer;
    };
    const auto gates_at = static_cast<std::uint32_t>(
        (l_.num_heads + l_.num_kv_heads) * l_.head_k_dim + l_.num_kv_heads * l_.head_v_dim);
    for (const DeviceLayer& w : w_.layers) {
      if (!takes(w.projections.front().matrix) || !takes(w.o_proj) || w.gate_up.size() != 1 ||
          !takes(w.gate_up.front()) || !takes(w.down_proj))
        return "matrices of several types";
      if (w.projections.size() == 1) continue;
      const DeviceMatrix& gates = w.projections.back().matrix;
      if (w.projections.size() != 2 || w.projections.back().out_column != gates_at ||
          !is_short(gates.type) || gates.parts.size() != 1 ||
          gates.parts.front().range.buffer != block.buffer)
        return "projections of several types";
    }
    return "";
  }

  void make_head(DecodeStep& step) const {
    const Capabilities& limits = device_.capabilities();
    const BlockType type = w_.head.type;
    const bool blocks = is_blocks(type) && limits.integer_dot && limits.subgroup >= kRoundingLanes;
    const auto columns = static_cast<std::uint32_t>(c_.hidden_size);
    if ((!blocks && !is_short(type)) || columns % item_columns(type) != 0 || columns % 32 != 0 ||
        (type == BlockType::q4_k || type == BlockType::q6_k ? columns % 256 != 0 : false) ||
        4 * columns + 1024 > limits.shared_bytes)
      return;
    const std::uint32_t items = columns / item_columns(type);
    std::uint32_t team = std::min(kFewestHeadLanes, limits.subgroup);
    while (team < limits.subgroup && ceil_div(items, team) > kMostHeadItems) team *= 2;
    const std::uint32_t threads = std::min(threads_, kHeadThreads);
    step.head_shader = "head." + std::string(quant::block_traits(type)->name);
    if (blocks) step.head_shader += ".dot";
    step.head_constants = {1, threads, columns, team};
    step.head_groups = device_.capabilities().resident_groups * kHeadGroups;
    const DeviceMatrix& table = w_.embeddings;
    const Range block = w_.block_of(w_.head);
    step.draws = table.type == type && w_.head.parts.size() == 1 && table.parts.size() == 1 &&
                 table.parts.front().range.buffer == block.buffer &&
                 block.bytes <= limits.storage_range;
    if (!step.draws) return;
    const auto part_of = [](const DeviceMatrix& m) {
      const auto entry = entry_of(m);
      return MatrixPart{.first_row = 0, .rows = entry[1], .scales = entry[2], .high = entry[3]};
    };
    step.head_weights = block;
    step.draw_args = {.w = part_of(w_.head),
                      .first = entry_of(w_.head)[0],
                      .norm_weight = w_.final_norm.weight,
                      .eps = c_.final_norm.eps,
                      .table_first = entry_of(table)[0] * (item_columns(type) / kUnit),
                      .table = part_of(table)};
  }

  void add_head(std::vector<std::uint32_t>& table) const {
    std::array<std::uint32_t, kStepLayerWords> words{};
    words[kStepFinalNorm] = w_.final_norm.weight;
    std::ranges::copy(entry_of(w_.head), &words[kStepHead]);
    std::ranges::copy(entry_of(w_.embeddings), &words[kStepTable]);
    table.insert(table.end(), words.begin(), words.end());
  }

  void add(const DeviceLayer& w, std::vector<std::uint32_t>& table) const {
    std::array<std::uint32_t, kStepLayerWords> words{};
    words[kStepAttnNorm] = w.norm.weight;
    words[kStepGNorm] = w.g_norm;
    words[kStepMlpNorm] = w.channel_norm.weight;
    words[kStepFBias] = w.f_bias;
    words[kStepReadBias] = w.read_bias;
    words[kStepHeadReadBias] = w.head_read_bias;
    words[kStepGates] = kNone;
    if (const DeviceMatrix* gates = gates_of(w)) {
      words[kStepGates] = entry_of(*gates)[0];
      words[kStepGateType] = gate_type(*gates);
    }
    std::size_t at = kStepMatrices;
    for (const DeviceMatrix* m :
         {&w.projections.front().matrix, &w.o_proj, &w.gate_up.front(), &w.down_proj}) {
      for (const std::uint32_t word : entry_of(*m)) words[at++] = word;
    }
    table.insert(table.end(), words.begin(), words.end());
  }

  /// What decode_step.comp declares; g: queries that a workgroup takes.
  std::uint64_t shared_bytes(BlockType type, bool dot, std::uint64_t other, std::uint64_t columns,
                             bool gates, std::uint64_t groups, std::uint64_t g) const {
    const auto u = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
    const std::uint64_t d = u(c_.hidden_size);
    const auto padded = [type](std::uint64_t n) {
      return 4 * n + (is_short(type) ? 0 : 16 * (n / item_columns(type) + 1));
    };
    const std::uint64_t inputs =
        dot ? (d + other) + (d + other) / 32 * 8 : padded(d) + padded(other);
    const std::uint64_t warps = threads_ / device_.capabilities().subgroup;
    return inputs + (gates ? 4 * d : 0) + 16 + 4 * (warps + 9 + 2 * ((d + groups - 1) / groups)) +
           slot_bytes(columns, g);
  }

  /// Of it, what the slots and the table of layers take.
  std::uint64_t slot_bytes(std::uint64_t columns, std::uint64_t g) const {
    const auto u = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
    const std::uint64_t lanes = device_.capabilities().subgroup, warps = threads_ / lanes;
    const std::uint64_t k = u(l_.head_k_dim);
    const bool rotary = s_.num_positional_slots() > 0;
    const std::uint64_t partials = columns < lanes ? warps : threads_ / columns;
    return 4 * (kStepLayerWords * static_cast<std::uint32_t>(layers_) + warps + 16 +
                (rotary ? 3 : 1) * g * k + (rotary ? 2 : 1) * k + 2 * u(s_.num_memory_slots) +
                g * (u(s_.num_slots()) + 2) + columns + partials * g * columns) +
           128;  // alignment
  }

  const Device& device_;
  const StepModel& c_;
  const LayerSpec& l_ = c_.layer;
  const SlotSpec s_ = c_.recognised() ? c_.layer.slots() : SlotSpec{};
  const std::size_t layers_ = c_.layers.size();
  const DeviceWeights& w_;
  std::uint32_t threads_ = 0;
};

}  // namespace

Result<DecodeStep> DecodeStep::create(Device& device, const StepModel& model,
                                      const DeviceWeights& weights) {
  DecodeStep step;
  std::vector<std::uint32_t> table;
  Maker maker(device, model, weights);
  step.why_not = maker.make(step, table);
  if (!step.fits()) return step;
  use_mixers(step, device, model, weights);
  maker.use_even(step);
  RUNNEL_TRY(step.table,
             device.create_buffer(4 * table.size(), MemoryKind::device, "table of layers"));
  RUNNEL_CHECK_OK(device.copy_in(step.table, std::as_bytes(std::span(table))));
  return step;
}

}  // namespace runnel::vulkan
