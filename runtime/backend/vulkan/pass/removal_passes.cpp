// SPDX-License-Identifier: Apache-2.0
// Recurrences with a removal, token by token; shifted projections; a norm behind the embedding. In f32, without matrix
// units.
#include "runtime/backend/vulkan/pass/pass_builder.h"

namespace runnel::vulkan {
namespace {

std::uint32_t u(std::size_t n) { return static_cast<std::uint32_t>(n); }

std::uint32_t removal_constant(Removal removal) {
  switch (removal) {
    case Removal::none:
      return 0;
    case Removal::delta:
      return kRemovalDelta;
    case Removal::own_key:
      return kRemovalOwnKey;
  }
  return 0;
}

std::uint32_t key_norm_constant(KeyNorm norm) {
  switch (norm) {
    case KeyNorm::none:
      return kKeyNormNone;
    case KeyNorm::length:
      return kKeyNormLength;
    case KeyNorm::sum:
      return kKeyNormSum;
  }
  return kKeyNormNone;
}

}  // namespace

Status PassBuilder::embedding_norm(const NormSpec& norm) {
  const DeviceNorm& w = m_.weights->embedding_norm;
  // In place: a thread writes what it alone has read last.
  const LayerNormArgs args{
      .in_ = {.stride = b_.x_stride, .norm_weight = w.weight, .eps = norm.eps, .rows_at = kNone},
      .bias = w.bias,
      .columns = static_cast<std::uint32_t>(m_.config.hidden_size),
      .out_stride = b_.x_stride,
      .count_at = count_at()};
  return dispatch("layer_norm", {}, {b_.x, m_.weights->vectors(), b_.x, b_.whole_pass()}, args,
                  {rows(), 1, 1});
}

ProductInput PassBuilder::shifted_input(std::size_t input, std::uint32_t columns) const {
  const Range own{b_.shifted.buffer, b_.shifted.offset + input * b_.shifted_bytes,
                  b_.shifted_bytes};
  return plain(own, b_.inputs_stride, columns);
}

Status PassBuilder::shift(const PassLayer& l, const Shift& s) {
  RUNNEL_TRY(const ProductInput in, normed(s.norm, s.weights));
  if (in.kind != kInputPlain) {  // as rows of their own, even of one token
    const RowsArgs args{.in_ = in.args, .out_stride = b_.inputs_stride, .count_at = count_at()};
    std::vector<std::uint32_t> constants{1};
    const std::vector<std::uint32_t> input = input_constants(in);
    constants.insert(constants.end(), input.begin(), input.end());
    RUNNEL_CHECK_OK(dispatch("rows", constants,
                             {in.rows, m_.weights->vectors(), b_.inputs, b_.whole_pass()}, args,
                             {rows(), 1, 1}));
  }
  const auto columns = static_cast<std::uint32_t>(m_.config.hidden_size);
  ShiftArgs args{.stride = b_.inputs_stride,
                 .columns = columns,
                 .column = 0,
                 .out_stride = b_.inputs_stride,
                 .vector = s.lerp,
                 .inputs = s.inputs,
                 .input_floats = u(b_.shifted_bytes / sizeof(float)),
                 .tail = u(s.tail),
                 .layer_floats = u(l.state.floats()),
                 .bank = 0,
                 .items_at = b_.layout.items,
                 .kind = 0,
                 .mix_column = 0};
  return for_banks(l.index(), [&](std::uint32_t bank, const Range& state, bool after_all) {
    args.bank = bank;
    return dispatch("token_shift.mix", {},
                    {b_.inputs, state, m_.weights->vectors(), b_.whole_pass(), b_.shifted}, args,
                    {ceil_div(columns, kThreads), shape_.all_items, 1}, after_all);
  });
}

Status PassBuilder::shifted_projections(const PassLayer& l) {
  const LayerSpec& c = l.spec;
  const DeviceLayer& w = l.weights;
  const RecurrenceColumns at = RecurrenceColumns::of(c);
  const auto width = static_cast<std::uint32_t>(m_.config.hidden_size);
  RUNNEL_CHECK_OK(shift(l, {.norm = c.norm,
                            .weights = w.norm,
                            .lerp = w.lerp,
                            .inputs = static_cast<std::uint32_t>(c.shifted_inputs()),
                            .tail = l.state.mixer_shift_offset()}));
  const auto to = [&](std::uint32_t column) {
    return ProductOutput{.kind = kOutputStore,
                         .rows = b_.projected,
                         .stride = b_.projected_stride,
                         .column = column};
  };
  // Inputs in the order of the lerps' rows: q, f, k, v, r, output gate.
  RUNNEL_CHECK_OK(product(w.q, shifted_input(0, width), to(at.q)));
  RUNNEL_CHECK_OK(product(w.k, shifted_input(2, width), to(at.k), true));
  RUNNEL_CHECK_OK(product(w.v, shifted_input(3, width), to(at.v), true));
  struct LowRank {
    std::size_t which;  // of DeviceLayer::down and up
    std::size_t input;
    std::uint32_t low, out, kind;
  };
  const LowRank all[] = {{0, 1, at.low, at.f, kTanh},
                         {1, 4, at.low_r, at.r, kIdentity},
                         {2, 5, at.low_gate, at.gate, kSigmoid},
                         {3, 3, at.low_v, at.v_mix, kIdentity}};
  const auto there = [&](const LowRank& r) { return !w.down[r.which].parts.empty(); };
  for (const LowRank& r : all) {
    if (there(r))
      RUNNEL_CHECK_OK(product(w.down[r.which], shifted_input(r.input, width), to(r.low), true));
  }
  // What a product of one token takes from the projections itself; else a row of its own.
  const auto taken = [&](const LowRank& r) {
    return ProductInput{.kind = kInputNorm,
                        .rows = b_.projected,
                        .args = {.stride = b_.projected_stride,
                                 .norm_weight = kNone,
                                 .eps = 0.0F,
                                 .rows_at = kNone,
                                 .column = r.low},
                        .columns = static_cast<std::uint32_t>(w.down[r.which].rows),
                        .activation = r.kind};
  };
  const auto takes = [&](const LowRank& r) { return r.low % 4 == 0 && fuses(taken(r)); };
  bool after_all = true;
  for (const LowRank& r : all) {
    if (!there(r) || takes(r)) continue;
    const auto rank = static_cast<std::uint32_t>(w.down[r.which].rows);
    const ShiftArgs args{.stride = b_.projected_stride,
                         .columns = rank,
                         .column = r.low,
                         .out_stride = b_.inputs_stride,
                         .kind = r.kind};
    RUNNEL_CHECK_OK(
        dispatch("token_shift.low", {},
                 {b_.projected, {}, {}, b_.whole_pass(), shifted_input(r.input, rank).rows}, args,
                 {ceil_div(b_.inputs_stride, kThreads), shape_.tokens, 1}, after_all));
    after_all = false;
  }
  bool overlaps = false;
  for (const LowRank& r : all) {
    if (!there(r)) continue;
    const auto rank = static_cast<std::uint32_t>(w.down[r.which].rows);
    RUNNEL_CHECK_OK(product(w.up[r.which], takes(r) ? taken(r) : shifted_input(r.input, rank),
                            to(r.out), overlaps));
    overlaps = true;
  }
  return mix_values(l);
}

Status PassBuilder::mix_values(const PassLayer& l) {
  const RecurrenceSpec& r = l.spec.recurrence();
  if (!r.first_values && r.value_rank == 0) return {};
  const RecurrenceColumns at = RecurrenceColumns::of(l.spec);
  const auto columns = static_cast<std::uint32_t>(l.spec.v_channels());
  const ShiftArgs args{.stride = b_.projected_stride,
                       .columns = columns,
                       .column = at.v,
                       .out_stride = b_.first_v_stride,
                       .vector = l.weights.v_mix_bias,
                       .kind = r.first_values ? kValuesKept : kValuesMixed,
                       .mix_column = at.v_mix};
  return dispatch("token_shift.values", {},
                  {b_.projected, b_.first_v, m_.weights->vectors(), b_.whole_pass()}, args,
                  {ceil_div(columns, kThreads), shape_.tokens, 1});
}

Status PassBuilder::removal(const PassLayer& l) {
  const LayerSpec& c = l.spec;
  const RecurrenceSpec& r = c.recurrence();
  const DeviceLayer& w = l.weights;
  const RecurrenceColumns at = RecurrenceColumns::of(c);
  RUNNEL_CHECK_OK(short_convolutions(l));
  RemovalArgs args{.stride = b_.projected_stride,
                   .at_q = at.q,
                   .at_k = at.k,
                   .at_v = at.v,
                   .at_f = at.f,
                   .at_r = at.r,
                   .at_bonus = at.bonus,
                   .feature_stride = b_.features_stride,
                   .queries = at.queries,
                   .keys = at.keys,
                   .decays = at.decays,
                   .removal_c = at.removal_c,
                   .removal_b = at.removal_b,
                   .items_at = b_.layout.items,
                   .layer_floats = u(l.state.floats()),
                   .head_floats = u(l.state.head_floats()),
                   .values = u(l.state.values_offset(0)),
                   .bank = 0,
                   .f_bias = w.f_bias,
                   .r_bias = w.r_bias,
                   .log_rate = w.log_rate,
                   .removal_key = w.removal_key,
                   .key_rate = w.key_rate,
                   .bonus = w.bonus,
                   .scale = r.scale,
                   .removal_scale = r.removal_scale};
  constexpr std::uint32_t kColumns = 16, kGroups = kThreads / kColumns;
  const auto dim_k = static_cast<std::uint32_t>(c.head_k_dim);
  const auto dim_v = static_cast<std::uint32_t>(c.head_v_dim);
  const auto heads = static_cast<std::uint32_t>(c.num_kv_heads);
  const std::vector<std::uint32_t> constants = {dim_k,
                                                dim_v,
                                                heads,
                                                static_cast<std::uint32_t>(r.values_per_key),
                                                decay_constant(r.decay),
                                                map_constant(r.feature_map),
                                                removal_constant(r.removal),
                                                key_norm_constant(r.key_norm),
                                                shader_constant(r.value_activation),
                                                ceil_div(dim_k, kGroups)};
  if (shape_.tokens == 1) {
    return for_banks(l.index(), [&](std::uint32_t bank, const Range& state, bool after_all) {
      args.bank = bank;
      return dispatch("removal.one", constants,
                      {b_.projected, m_.weights->vectors(), b_.slots, b_.whole_pass(), state}, args,
                      {ceil_div(dim_v, kColumns), heads, 1}, after_all);
    });
  }
  RUNNEL_CHECK_OK(dispatch("removal.inputs", constants,
                           {b_.projected, b_.features, m_.weights->vectors(), b_.whole_pass()},
                           args, {heads, shape_.tokens, 1}));
  return for_banks(l.index(), [&](std::uint32_t bank, const Range& state, bool after_all) {
    args.bank = bank;
    return dispatch("removal.core", constants,
                    {b_.projected, b_.features, b_.slots, b_.whole_pass(), state}, args,
                    {ceil_div(dim_v, kColumns), heads, shape_.all_items}, after_all);
  });
}

}  // namespace runnel::vulkan
