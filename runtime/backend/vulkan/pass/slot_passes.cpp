// SPDX-License-Identifier: Apache-2.0
// Slot mixers: projections, the slots token by token or chunk by chunk, output.
#include <algorithm>
#include <utility>

#include "runtime/backend/vulkan/pass/pass_builder.h"

namespace runnel::vulkan {

namespace {

bool at_most(std::int32_t n, std::uint32_t limit) { return static_cast<std::uint32_t>(n) <= limit; }

/// Whether a slot mixer's memory and window are those of slot_read and slot_read_tiles.
bool is_narrow(const LayerSpec& l) {
  const SlotSpec& s = l.slots();
  return at_most(s.num_memory_slots, kMostChunkSlots) &&
         at_most(s.num_window_slots, kMostChunkWindow);
}

/// Whether slot_read_broad takes them.
bool fits_broad(const LayerSpec& l) {
  const SlotSpec& s = l.slots();
  return at_most(s.num_memory_slots, kMostBroadSlots) &&
         at_most(s.num_window_slots, kMostBroadWindow) && at_most(l.head_k_dim, kMostBroadHead) &&
         at_most(l.head_v_dim, kMostBroadHead);
}

bool chunks_take(const LayerSpec& l) {
  switch (l.kind()) {
    case Mixer::recurrence:
      return true;  // has none
    case Mixer::slots:
      break;
  }
  const SlotSpec& s = l.slots();
  return s.num_memory_slots > 0 && (is_narrow(l) || fits_broad(l)) &&
         at_most(s.num_sink_slots, kMostChunkSinks) &&
         (s.num_positional_slots() == 0 || l.head_k_dim % 2 == 0);
}

bool has_slots(const LayerSpec& l) { return l.kind() == Mixer::slots; }

}  // namespace

bool chunks_take(const Device& device, const ModelConfig& config) {
  return device.facts().chunks && device.facts().shared_bytes >= kChunkSharedBytes &&
         std::ranges::any_of(config.layers, has_slots) &&
         std::ranges::all_of(config.layers, [](const LayerSpec& l) { return chunks_take(l); });
}

bool slots_take_tiles(const ResidentModel& m) {
  if (!m.device->facts().slot_tiles) return false;
  for (const LayerSpec& l : m.config.layers) {
    const DeviceLayer& w = m.weights->layers[static_cast<std::size_t>(l.index)];
    if (w.o_proj.type == quant::BlockType::f32) return false;
    if (has_slots(l) && (!is_narrow(l) || l.head_k_dim % 16 != 0 || l.head_v_dim % 16 != 0 ||
                         l.slots().num_memory_slots % 16 != 0)) {
      return false;
    }
  }
  return true;
}

/// q, k, v, f, or what a recurrence has, with their biases.
Status PassBuilder::projections(const PassLayer& l) {
  const DeviceLayer& w = l.weights;
  RUNNEL_TRY(const ProductInput in, normed(l.spec.norm, w.norm));
  // Neighbours that matrix units take are one product.
  struct Group {
    std::vector<const DeviceMatrix*> matrices;
    std::uint32_t column = 0;
    bool on_tiles = false;
  };
  std::vector<Group> groups;
  for (const DeviceProjection& p : w.projections) {
    const bool tiles = on_tiles(p.matrix) && p.column % 16 == 0;
    if (groups.empty() || !tiles || !groups.back().on_tiles)
      groups.push_back({.matrices = {}, .column = p.column, .on_tiles = tiles});
    groups.back().matrices.push_back(&p.matrix);
  }
  const bool any_tiles =
      std::any_of(groups.begin(), groups.end(), [](const Group& g) { return g.on_tiles; });
  const bool any_plain =
      std::any_of(groups.begin(), groups.end(), [](const Group& g) { return !g.on_tiles; });
  const auto output = [&](const Group& g) {
    return ProductOutput{.kind = kOutputStore,
                         .rows = b_.projected,
                         .stride = b_.projected_stride,
                         .column = g.column};
  };
  ProductInput ready;
  if (any_plain) {
    RUNNEL_TRY(ready, prepare(in));
  }
  bool overlaps = false;  // with the dispatches before
  if (any_tiles) {
    RUNNEL_CHECK_OK(prepare_tiles(in));
    for (const Group& g : groups) {
      if (!g.on_tiles) continue;
      RUNNEL_CHECK_OK(unpack(g.matrices, 0, false, overlaps));
      RUNNEL_CHECK_OK(product_on_tiles(g.matrices, 0, b_.tiles.inputs, output(g)));
      overlaps = true;
    }
  }
  for (const Group& g : groups) {
    if (g.on_tiles) continue;
    for (const DeviceMatrix* matrix : g.matrices) {
      RUNNEL_CHECK_OK(product(*matrix, ready, output(g), overlaps));
      overlaps = true;
    }
  }
  return add_biases(l);
}

/// On q, k and v, in place.
Status PassBuilder::add_biases(const PassLayer& l) {
  if (!l.spec.qkv_bias) return {};
  const auto columns =
      static_cast<std::uint32_t>(l.spec.q_channels() + l.spec.k_channels() + l.spec.v_channels());
  const ElementwiseArgs args{
      .stride = b_.projected_stride, .columns = columns, .bias = l.weights.qkv_bias};
  return dispatch("elementwise", {}, {b_.projected, m_.weights->vectors(), b_.whole_pass()}, args,
                  {ceil_div(columns, kThreads), shape_.tokens, 1});
}

/// On q, k (or f) and v, in place.
Status PassBuilder::short_convolutions(const PassLayer& l) {
  const LayerSpec& c = l.spec;
  if (c.conv_size == 0) return {};
  const auto channels =
      static_cast<std::uint32_t>(c.q_channels() + c.k_channels() + c.v_channels());
  ConvArgs args{.stride = b_.projected_stride,
                .channels = channels,
                .taps = static_cast<std::uint32_t>(c.conv_size),
                .weights = l.weights.conv,
                .tail = static_cast<std::uint32_t>(l.state.q_conv_offset()),
                .layer_floats = static_cast<std::uint32_t>(l.state.floats()),
                .bank = 0,
                .items_at = b_.layout.items,
                .silu = c.conv_silu ? 1U : 0U};
  return for_banks(l.index(), [&](std::uint32_t bank, const Range& state, bool after_all) {
    args.bank = bank;
    return dispatch("short_conv", {args.taps},
                    {b_.projected, state, m_.weights->vectors(), b_.whole_pass()}, args,
                    {ceil_div(channels, kThreads), shape_.all_items, 1}, after_all);
  });
}

Status PassBuilder::slot_attention(const PassLayer& l) {
  const LayerSpec& c = l.spec;
  RUNNEL_CHECK_OK(short_convolutions(l));
  if (c.slots().feature_map == FeatureMap::t2r) {
    const MapArgs args{.stride = b_.projected_stride, .matrix = l.weights.feature_map};
    RUNNEL_CHECK_OK(
        dispatch("feature_map", {static_cast<std::uint32_t>(c.head_k_dim)},
                 {b_.projected, m_.weights->vectors(), b_.whole_pass()}, args,
                 {static_cast<std::uint32_t>(c.num_heads + c.num_kv_heads), shape_.tokens, 1}));
  }
  // What one way writes the other does not touch: items go one way or the other.
  if (shape_.chunks > 0) RUNNEL_CHECK_OK(slots_by_chunks(l));
  if (shape_.items > 0) {
    RUNNEL_CHECK_OK(slots_token_by_token(l, shape_.chunks == 0));
    slots_read_ = false;
  }
  return {};
}

Status PassBuilder::slots_token_by_token(const PassLayer& l, bool after_all) {
  const LayerSpec& c = l.spec;
  const SlotSpec& slots = c.slots();
  const DeviceLayer& w = l.weights;
  const auto layer_floats = static_cast<std::uint32_t>(l.state.floats());
  const std::vector<std::uint32_t> constants = slot_constants(c, l.split);
  SlotArgs args{.pass = b_.layout,
                .stride = b_.projected_stride,
                .layer_floats = layer_floats,
                .bank = 0,
                .gate_bias = w.f_bias,
                .read_bias = w.read_bias,
                .head_read_bias = w.head_read_bias,
                .scale = slots.scale,
                .gate_normalizer = slots.gate_normalizer,
                .gate_log_min = slots.gate_log_min};
  return for_banks(
      l.index(),
      [&](std::uint32_t bank, const Range& state, bool first) {
        args.bank = bank;
        return dispatch(
            "slot_attention", constants,
            {b_.projected, state, b_.slots, m_.weights->vectors(), b_.whole_pass()}, args,
            {l.split.splits, static_cast<std::uint32_t>(c.num_kv_heads), shape_.all_items}, first);
      },
      after_all);
}

Status PassBuilder::slots_by_chunks(const PassLayer& l) {
  const LayerSpec& c = l.spec;
  const SlotSpec& slots = c.slots();
  const DeviceLayer& w = l.weights;
  const auto u = [](std::int32_t n) { return static_cast<std::uint32_t>(n); };
  const std::uint32_t heads = u(c.num_heads), kv = u(c.num_kv_heads), k = u(c.head_k_dim),
                      v = u(c.head_v_dim), memory = u(slots.num_memory_slots),
                      positional = u(slots.num_positional_slots());
  const std::vector<std::uint32_t> constants{k,
                                             v,
                                             memory,
                                             u(slots.num_sink_slots),
                                             u(slots.num_window_slots),
                                             u(c.queries_per_kv_head()),
                                             kv,
                                             shader_constant(slots.feature_map),
                                             shader_constant(slots.value_activation)};
  ChunkArgs args{.pass = b_.layout,
                 .stride = b_.projected_stride,
                 .feature_stride = b_.features_stride,
                 .layer_floats = static_cast<std::uint32_t>(l.state.floats()),
                 .bank = 0,
                 .decays = b_.chunk_decays,
                 .window = b_.slot_window,
                 .out_stride = slots_stride(c, l.split),
                 .gate_bias = w.f_bias,
                 .read_bias = w.read_bias,
                 .head_read_bias = w.head_read_bias,
                 .scale = slots.scale,
                 .gate_normalizer = slots.gate_normalizer,
                 .gate_log_min = slots.gate_log_min};
  const Range vectors = m_.weights->vectors(), pass = b_.whole_pass();
  if (b_.slot_operands.bytes > 0) return slots_on_tiles(constants, args, l);
  const std::uint32_t values = kv * ((positional > 0 ? k / 2 : k) + v + memory);
  RUNNEL_CHECK_OK(dispatch("slot_inputs", constants, {b_.projected, b_.features, vectors, pass},
                           args, {ceil_div(values, kThreads), shape_.tokens, 1}));
  const bool broad = !is_narrow(c);
  const std::uint32_t blocks = broad ? ceil_div(memory, 64) : 1;  // of slots
  RUNNEL_CHECK_OK(dispatch(broad ? "slot_states.sums_broad" : "slot_states.sums", constants,
                           {b_.projected, b_.features, b_.chunks, pass}, args,
                           {blocks * (ceil_div(k, 64) + ceil_div(v, 64)), kv, shape_.chunks}));
  RUNNEL_CHECK_OK(for_banks(l.index(), [&](std::uint32_t bank, const Range& state, bool first) {
    args.bank = bank;
    return dispatch("slot_states.scan", constants, {state, {}, b_.chunks, pass}, args,
                    {ceil_div(memory * (k + v), kThreads), kv, shape_.all_items}, first);
  }));
  RUNNEL_CHECK_OK(for_banks(l.index(), [&](std::uint32_t bank, const Range& state, bool first) {
    args.bank = bank;
    return dispatch(broad ? "slot_read_broad" : "slot_read", constants,
                    {b_.projected, b_.features, b_.chunks, state, b_.slots, vectors, pass}, args,
                    {shape_.chunks * (kChunk / kReadRows), heads, 1}, first);
  }));
  if (positional == 0) return {};
  slots_read_ = true;
  return for_banks(l.index(), [&](std::uint32_t bank, const Range& state, bool first) {
    args.bank = bank;
    return dispatch("slot_states.keep", constants, {state, b_.features, b_.projected, pass}, args,
                    {positional, kv, shape_.all_items}, first);
  });
}

/// The same on matrix units.
Status PassBuilder::slots_on_tiles(const std::vector<std::uint32_t>& constants, ChunkArgs args,
                                   const PassLayer& l) {
  const LayerSpec& c = l.spec;
  const SlotSpec& slots = c.slots();
  const auto u = [](std::int32_t n) { return static_cast<std::uint32_t>(n); };
  const std::uint32_t kv = u(c.num_kv_heads), k = u(c.head_k_dim), v = u(c.head_v_dim),
                      memory = u(slots.num_memory_slots),
                      positional = u(slots.num_positional_slots());
  const Range vectors = m_.weights->vectors(), pass = b_.whole_pass(), operands = b_.slot_operands;
  const std::uint32_t turned = u(c.q_channels() + c.k_channels());
  const std::uint32_t threads = turned / (positional > 0 ? 8 : 4) + kv * (v / 4 + memory);
  RUNNEL_CHECK_OK(dispatch("slot_inputs.f16", constants,
                           {b_.projected, b_.features, vectors, pass, operands}, args,
                           {ceil_div(threads, kThreads), shape_.tokens, 1}));
  RUNNEL_CHECK_OK(dispatch("slot_states.sums_tiles", constants,
                           {b_.projected, b_.features, b_.chunks, pass, operands}, args,
                           {ceil_div(k + v, 128), kv, shape_.chunks}));
  RUNNEL_CHECK_OK(for_banks(l.index(), [&](std::uint32_t bank, const Range& state, bool first) {
    args.bank = bank;
    return dispatch("slot_states.scan_f16", constants,
                    {state, {}, b_.chunks, pass, b_.slot_memories}, args,
                    {ceil_div(memory * (k + v) / 2, kThreads), kv, shape_.all_items}, first);
  }));
  if (positional > 0) {
    // Beside the scan, which touches memory slots.
    RUNNEL_CHECK_OK(for_banks(
        l.index(),
        [&](std::uint32_t bank, const Range& state, bool first) {
          args.bank = bank;
          return dispatch("slot_states.window", constants, {state, operands, {}, pass}, args,
                          {kMostChunkWindow + kMostChunkSinks, kv, shape_.all_items}, first);
        },
        false));
  }
  RUNNEL_CHECK_OK(
      dispatch("slot_read_tiles", constants,
               {b_.projected, b_.features, operands, b_.slot_memories, b_.slots, vectors, pass},
               args, {shape_.chunks * (kChunk / kReadRows), u(c.num_heads), 1}));
  if (positional == 0) return {};
  // Nothing from here to the rows of the output projection touches positional slots.
  slots_read_ = true;
  return for_banks(l.index(), [&](std::uint32_t bank, const Range& state, bool first) {
    args.bank = bank;
    return dispatch("slot_states.keep_f16", constants, {state, operands, {}, pass}, args,
                    {positional, kv, shape_.all_items}, first);
  });
}

Status PassBuilder::output_projection(const PassLayer& l) {
  switch (l.spec.kind()) {
    case Mixer::slots:
      return slot_output(l);
    case Mixer::recurrence:
      return recurrence_output(l);
  }
  return {};
}

Status PassBuilder::slot_output(const PassLayer& l) {
  const DeviceLayer& w = l.weights;
  const ProductInput in{.kind = kInputSlots,
                        .rows = b_.slots,
                        .args = {.stride = slots_stride(l.spec, l.split),
                                 .norm_weight = w.g_norm,
                                 .eps = l.spec.output_norm_eps,
                                 .rows_at = kNone},
                        .columns = static_cast<std::uint32_t>(l.spec.o_channels()),
                        .activation = shader_constant(l.spec.output_activation),
                        .normalise = l.spec.output_norm != OutputNorm::none,
                        .value_dim = static_cast<std::uint32_t>(l.spec.head_v_dim),
                        .splits = l.split.splits};
  const ProductOutput out{.kind = kOutputAdd, .rows = b_.x, .stride = b_.x_stride};
  if (on_tiles(w.o_proj)) {
    const DeviceMatrix* const matrices[] = {&w.o_proj};
    RUNNEL_CHECK_OK(prepare_tiles(in, !std::exchange(slots_read_, false)));
    RUNNEL_CHECK_OK(unpack(matrices, 1));
    return product_on_tiles(matrices, 1, b_.tiles.inputs, out);
  }
  const bool after_all = !std::exchange(slots_read_, false);
  // Where every workgroup would read more splits than weights, they are joined once.
  constexpr std::uint32_t kMostJoined = 16U << 10;  // values
  const std::uint32_t few = m_.device->tuning().few_splits;
  const bool apart = few > 0 ? l.split.splits > few : l.split.splits * in.columns > kMostJoined;
  if (few_tokens_ && apart) {
    const RowsArgs args{.in_ = in.args, .out_stride = b_.inputs_stride, .count_at = count_at()};
    std::vector<std::uint32_t> constants{1};
    const std::vector<std::uint32_t> input = input_constants(in);
    constants.insert(constants.end(), input.begin(), input.end());
    RUNNEL_CHECK_OK(dispatch("slot_join", constants,
                             {in.rows, m_.weights->vectors(), b_.inputs, b_.whole_pass()}, args,
                             {ceil_div(in.columns, kThreads), rows(), 1}, after_all));
    ProductInput joined = plain(b_.inputs, b_.inputs_stride, in.columns);
    joined.kind = kInputNorm;
    joined.normalise = in.normalise;
    joined.args.norm_weight = in.args.norm_weight;
    joined.args.eps = in.args.eps;
    if (!joined.normalise && rows() > 1) joined.kind = kInputPlain;
    RUNNEL_TRY(const ProductInput ready, prepare(joined));
    return product(w.o_proj, ready, out);
  }
  RUNNEL_TRY(const ProductInput ready, prepare(in, after_all));
  return product(w.o_proj, ready, out);
}

}  // namespace runnel::vulkan
