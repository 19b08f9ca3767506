// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/pass/pass_builder.h"

#include "runtime/backend/vulkan/memory/packed_matrix.h"

namespace runnel::vulkan {

Status PassBuilder::add(const RecordedOp& op) {
  using Kind = RecordedOp::Kind;
  const bool body = shape_.logit_rows == 0;
  if (body != (op.kind != Kind::logits)) return {};
  tokens_at_ = kPassHeader;
  switch (op.kind) {
    case Kind::embed:
      return embed();
    case Kind::embedding_norm:
      return embedding_norm(op.norm);
    case Kind::projections:
      return projections(layer(op));
    case Kind::shifted_projections:
      return shifted_projections(layer(op));
    case Kind::slot_attention:
      tokens_at_ = b_.tokens_at[static_cast<std::size_t>(op.layer.index)];
      return slot_attention(layer(op));
    case Kind::gated_recurrence:
      tokens_at_ = b_.tokens_at[static_cast<std::size_t>(op.layer.index)];
      return gated_recurrence(layer(op));
    case Kind::output_projection:
      return output_projection(layer(op));
    case Kind::gated_mlp:
      return gated_mlp(layer(op));
    case Kind::squared_relu_mlp:
      return squared_relu_mlp(layer(op));
    case Kind::logits:
      return logits(op.norm);
  }
  return {};
}

Status PassBuilder::add_dispatch(Dispatch d, const std::vector<std::uint32_t>& constants) {
  const DeviceFacts& c = m_.device->facts();
  RUNNEL_TRY(d.pipeline, m_.pipelines->get(d.shader, constants, tokens_at_));
  for (const Range& range : d.bindings) {
    if (range.bytes > c.storage_range) {
      return fail(ErrorCode::unsupported, m_.device->id(), ": ", d.shader, ": a binding of ",
                  range.bytes, " bytes, expected at most ", c.storage_range);
    }
  }
  dispatches.push_back(std::move(d));
  return {};
}

Status PassBuilder::add(const StepDispatch& step) {
  if (!shape_.embedded) RUNNEL_CHECK_OK(embed());
  const std::uint32_t bank = shape_.banks.front();
  StepArgs args = step.args;
  args.pass = b_.layout;
  args.layer_stride = static_cast<std::uint32_t>(m_.states->layer_stride(bank));
  if (m_.device->facts().addresses) {
    const auto act = m_.device->address_of({b_.act.get(), 0, b_.act.bytes});
    const auto state = m_.device->address_of(m_.states->bank(bank));
    args.act_low = act[0], args.act_high = act[1];
    args.state_low = state[0], args.state_high = state[1];
  }
  if (shape_.makes_logits) {
    const auto logits = m_.device->address_of(b_.whole_logits());
    args.logits_low = logits[0], args.logits_high = logits[1];
  }
  return dispatch(step.shader, step.constants,
                  {step.weights,
                   {b_.act.get(), 0, b_.act.bytes},
                   m_.weights->vectors(),
                   {step.table.get(), 0, step.table.bytes},
                   parameters(),
                   m_.states->bank(bank),
                   b_.x},
                  args, {step.groups, 1, 1});
}

Range PassBuilder::parameters() const {
  return reads_host(m_, b_, shape_) ? b_.host_pass(shape_.place) : b_.whole_pass();
}

Status PassBuilder::embed() {
  const DeviceMatrix& table = m_.weights->embeddings;
  const std::uint32_t units = units_of(table.cols);
  bool first = true;
  for (const DeviceMatrix::Part& part : table.parts) {
    const EmbedArgs args{.w = part.rows, .x_stride = b_.x_stride};
    RUNNEL_CHECK_OK(dispatch("embed." + std::string(quant::format_of(table.type).name), {units},
                             {part.range, b_.x, parameters()}, args,
                             {ceil_div(units, kThreads), shape_.tokens, 1}, first));
    first = false;  // parts write different rows
  }
  return {};
}

Status PassBuilder::gated_mlp(const PassLayer& l) {
  const DeviceLayer& w = l.weights;
  const auto inner_columns = static_cast<std::uint32_t>(l.spec.intermediate_size);
  RUNNEL_TRY(const ProductInput in, normed(l.spec.channel_norm, w.channel_norm));
  if (b_.tiles.mlp) {
    RUNNEL_CHECK_OK(prepare_tiles(in));
    std::vector<const DeviceMatrix*> gate_up, down{&w.down_proj};
    for (const DeviceMatrix& matrix : w.gate_up) gate_up.push_back(&matrix);
    RUNNEL_CHECK_OK(unpack(gate_up, 0, true));
    RUNNEL_CHECK_OK(unpack(down, 1));
    RUNNEL_CHECK_OK(product_on_tiles(gate_up, 0, b_.tiles.inputs,
                                     {.kind = kOutputSwigluPairs,
                                      .rows = b_.tiles.hidden,
                                      .stride = tile_units(inner_columns)}));
    return product_on_tiles(down, 1, b_.tiles.hidden,
                            {.kind = kOutputAdd, .rows = b_.x, .stride = b_.x_stride});
  }
  RUNNEL_TRY(const ProductInput ready, prepare(in));
  ProductOutput hidden{.kind = kOutputSwigluPairs, .rows = b_.hidden, .stride = b_.hidden_stride};
  if (w.gate_up.size() == 1) {
    RUNNEL_CHECK_OK(product(w.gate_up[0], ready, hidden));
  } else {
    hidden.kind = kOutputStore;
    RUNNEL_CHECK_OK(product(w.gate_up[0], ready, hidden));
    hidden.kind = kOutputSwigluWith;
    RUNNEL_CHECK_OK(product(w.gate_up[1], ready, hidden));
  }
  return product(w.down_proj, plain(b_.hidden, b_.hidden_stride, inner_columns),
                 {.kind = kOutputAdd, .rows = b_.x, .stride = b_.x_stride});
}

/// In f32, without matrix units.
Status PassBuilder::squared_relu_mlp(const PassLayer& l) {
  const DeviceLayer& w = l.weights;
  const auto inner_columns = static_cast<std::uint32_t>(l.spec.intermediate_size);
  ProductInput ready;
  if (l.spec.channel_shift > 0) {
    RUNNEL_CHECK_OK(shift(l, {.norm = l.spec.channel_norm,
                              .weights = w.channel_norm,
                              .lerp = w.channel_lerp,
                              .inputs = 1,
                              .tail = l.state.channel_shift_offset()}));
    ready = shifted_input(0, static_cast<std::uint32_t>(m_.config.hidden_size));
  } else {
    RUNNEL_TRY(const ProductInput in, normed(l.spec.channel_norm, w.channel_norm));
    RUNNEL_TRY(ready, prepare(in));
  }
  RUNNEL_CHECK_OK(
      product(w.gate_up.front(), ready,
              {.kind = kOutputSquaredRelu, .rows = b_.hidden, .stride = b_.hidden_stride}));
  return product(w.down_proj, plain(b_.hidden, b_.hidden_stride, inner_columns),
                 {.kind = kOutputAdd, .rows = b_.x, .stride = b_.x_stride});
}

/// What a token that went in one dispatch has of logits.
Status PassBuilder::head_of_step(const StepHead& head) {
  for (const DeviceMatrix::Part& part : m_.weights->head.parts) {
    const HeadArgs args{.w = part.rows,
                        .first = 0,
                        .norm_weight = m_.weights->final_norm.weight,
                        .norm_bias = m_.weights->final_norm.bias,
                        .eps = m_.config.final_norm.eps,
                        .table_first = 0,
                        .table = {}};
    RUNNEL_CHECK_OK(dispatch(head.shader, head.constants,
                             {part.range, b_.x, m_.weights->vectors(), b_.whole_logits()}, args,
                             {head.groups, 1, 1}, &part == &m_.weights->head.parts.front()));
  }
  return {};
}

Status PassBuilder::logits(const NormSpec& norm) {
  if (shape_.after_one_dispatch && m_.step.dispatch->head)
    return head_of_step(*m_.step.dispatch->head);
  RUNNEL_TRY(const ProductInput input, normed(norm, m_.weights->final_norm));
  RUNNEL_TRY(const ProductInput in, prepare(input));
  return product(m_.weights->head, in,
                 {.kind = kOutputStore,
                  .rows = b_.whole_logits(),
                  .stride = static_cast<std::uint32_t>(m_.config.vocab_size)});
}

}  // namespace runnel::vulkan
