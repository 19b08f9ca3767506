// SPDX-License-Identifier: Apache-2.0
// Recurrences with a removal, shifted projections and a norm behind the embedding on the buffers of a plan. All in f32
// but for the products.
#include "cuda/removal.h"

#include <array>

#include "cuda/row_ops.h"
#include "runtime/backend/cuda/activations.h"
#include "runtime/backend/cuda/recorder.h"
#include "runtime/base/try.h"

namespace runnel::cuda {
namespace {

struct LowRankProduct {
  std::size_t which;  // of DeviceLayer::down and up
  std::size_t input;
  int rank, low, out;  // rank 0: there is none
  Between between;
};

std::array<LowRankProduct, 4> low_rank_products(const RecurrenceSpec& spec,
                                                const RecurrenceColumns& at) {
  return {{{0, 1, spec.gate_rank, at.low, at.f, Between::tanh},
           {1, 4, spec.rate_rank, at.low_r, at.r, Between::nothing},
           {2, 5, spec.output_gate_rank, at.low_gate, at.gate, Between::sigmoid},
           {3, 3, spec.value_rank, at.low_v, at.v_mix, Between::nothing}}};
}

}  // namespace

Status Recorder::norm_into(const Pass& pass, const NormSpec& norm, const DeviceNorm& weights,
                           float* out) const {
  const int d = m_->config.hidden_size;
  switch (norm.kind) {
    case Norm::layer:
      return check(layer_norm_rows(pass.launch,
                                   {.x = b_.x.get(),
                                    .n = d,
                                    .eps = norm.eps,
                                    .weight = weights.weight,
                                    .bias = weights.bias,
                                    .out = out},
                                   pass.tokens),
                   "norm rows");
    case Norm::rms:
      break;
  }
  const Rows rows{.x = b_.x.get(),
                  .x_stride = d,
                  .n = d,
                  .out_stride = d,
                  .normalise = true,
                  .eps = norm.eps,
                  .weight = weights.weight,
                  .out = out,
                  .out_bf16 = false};
  return check(norm_rows(pass.launch, rows, pass.tokens), "norm rows");
}

Status Recorder::embedding_norm(const NormSpec& norm, const NormWeights&) {
  // In place: a thread writes what it alone has read last.
  steps_.emplace_back([this, norm](const Pass& p) {
    return norm_into(p, norm, m_->weights.embedding_norm, b_.x.get());
  });
  return {};
}

float* Recorder::shifted_input(std::size_t input) const {
  return b_.shifted.get() + input * shifted_floats_;
}

Status Recorder::shift(const Pass& pass, const Shift& s) const {
  RUNNEL_CHECK_OK(norm_into(pass, s.norm, *s.weights, b_.normed.get()));
  const TokenShift args{.rows = b_.normed.get(),
                        .lerp = s.lerp,
                        .n = m_->config.hidden_size,
                        .inputs = s.inputs,
                        .offset = s.offset,
                        .out = b_.shifted.get(),
                        .input_floats = shifted_floats_};
  return check(token_shift(pass.launch, args, b_.segments.get(), pass.num_segments), "token shift");
}

Status Recorder::product_of_rows(const Pass& pass, const float* x, const Matrix& m, int n,
                                 int column, int stride) const {
  const Linear in{.x = x, .n = n};
  const DeviceProjection to{m, column};
  return linear(pass, in, std::span(&to, 1), b_.inputs.get(), stride, false);
}

Status Recorder::shifted_projections(const LayerSpec& layer, const RecurrenceWeights&) {
  steps_.emplace_back([this, layer](const Pass& p) { return project_shifted(p, layer); });
  return {};
}

Status Recorder::project_shifted(const Pass& p, const LayerSpec& layer) const {
  if (rounds_projections(p, layer)) return project_rounded(p, layer);
  const DeviceLayer& w = weights_of(layer);
  const RecurrenceSpec& spec = layer.recurrence();
  const RecurrenceColumns at = recurrence_columns(layer);
  const int d = m_->config.hidden_size;
  RUNNEL_CHECK_OK(shift(p, {.norm = layer.norm,
                            .weights = &w.norm,
                            .lerp = w.lerp,
                            .inputs = layer.shifted_inputs(),
                            .offset = layout_.layer(layer.index).mixer_shift_offset()}));
  struct Product {
    const Matrix& matrix;
    std::size_t input;  // in the order of the lerps' rows: q, f, k, v, r, output gate
    int column;
  };
  for (const Product& m : {Product{w.q, 0, at.q}, Product{w.k, 2, at.k}, Product{w.v, 3, at.v}})
    RUNNEL_CHECK_OK(product_of_rows(p, shifted_input(m.input), m.matrix, d, m.column, at.stride));
  const std::array<LowRankProduct, 4> all = low_rank_products(spec, at);
  for (const LowRankProduct& r : all) {
    if (r.rank == 0) continue;
    float* const rows = shifted_input(r.input);
    RUNNEL_CHECK_OK(product_of_rows(p, rows, w.down[r.which], d, r.low, at.stride));
  }
  for (const LowRankProduct& r : all) {
    if (r.rank == 0) continue;
    float* const rows = shifted_input(r.input);  // which nothing else reads any more
    RUNNEL_CHECK_OK(check(between_rows(p.launch, r.between, b_.inputs.get() + r.low, at.stride,
                                       r.rank, rows, p.tokens),
                          "low rank"));
    RUNNEL_CHECK_OK(product_of_rows(p, rows, w.up[r.which], r.rank, r.out, at.stride));
  }
  return mix_first_values(p, layer);
}

Status Recorder::mix_first_values(const Pass& p, const LayerSpec& layer) const {
  const RecurrenceSpec& spec = layer.recurrence();
  const RecurrenceColumns at = recurrence_columns(layer);
  const int values = layer.v_channels();
  float* const v = b_.inputs.get() + at.v;
  if (spec.first_values) {
    return check(
        between_rows(p.launch, Between::nothing, v, at.stride, values, b_.first_v.get(), p.tokens),
        "first values");
  }
  if (spec.value_rank == 0) return {};
  return check(mix_values(p.launch,
                          {.v = v,
                           .mix = b_.inputs.get() + at.v_mix,
                           .stride = at.stride,
                           .bias = weights_of(layer).v_mix_bias,
                           .first = b_.first_v.get(),
                           .n = values},
                          p.tokens),
               "mix of values");
}

bool Recorder::shifts_rounded(const Pass& pass, const Matrix& m, std::size_t offset) const {
  const int d = m_->config.hidden_size;
  return pass.many && m.type != BlockType::f32 && m.cols == d && d % 32 == 0 &&
         shifted_rows_fit(d) && offset % 4 == 0;
}

Status Recorder::shift_rounded(const Pass& pass, const Shift& s, std::uint16_t* out,
                               std::size_t input_values) const {
  const ShiftedRows args{.x = b_.x.get(),
                         .n = m_->config.hidden_size,
                         .inputs = s.inputs,
                         .centred = s.norm.kind == Norm::layer,
                         .eps = s.norm.eps,
                         .weight = s.weights->weight,
                         .bias = s.weights->bias,
                         .lerp = s.lerp,
                         .offset = s.offset,
                         .out = out,
                         .input_values = input_values};
  return check(shifted_rows(pass.launch, args, b_.segments.get(), pass.num_segments, pass.tokens),
               "shifted rows");
}

bool Recorder::rounds_projections(const Pass& pass, const LayerSpec& layer) const {
  const DeviceLayer& w = weights_of(layer);
  const std::size_t offset = layout_.layer(layer.index).mixer_shift_offset();
  bool fits = true;
  for (const Matrix* m : {&w.q, &w.k, &w.v, &w.down[0], &w.down[1], &w.down[2], &w.down[3]})
    fits = fits && (m->data == nullptr || shifts_rounded(pass, *m, offset));
  for (const Matrix& m : w.up)
    fits = fits &&
           (m.data == nullptr || (m.type != BlockType::f32 && m.cols <= m_->config.hidden_size));
  return fits;
}

/// Many tokens: all operands are bf16, what lies between products of low rank is one kernel.
Status Recorder::project_rounded(const Pass& p, const LayerSpec& layer) const {
  const DeviceLayer& w = weights_of(layer);
  const RecurrenceColumns at = recurrence_columns(layer);
  const int d = m_->config.hidden_size;
  const std::size_t values = static_cast<std::size_t>(p.tokens) * hidden();
  auto* const operands = reinterpret_cast<std::uint16_t*>(b_.shifted.get());
  RUNNEL_CHECK_OK(shift_rounded(p,
                                {.norm = layer.norm,
                                 .weights = &w.norm,
                                 .lerp = w.lerp,
                                 .inputs = layer.shifted_inputs(),
                                 .offset = layout_.layer(layer.index).mixer_shift_offset()},
                                operands, values));
  const auto product = [&](const Matrix& m, const std::uint16_t* a, int lda, int column) {
    return multiply(p, m, a, lda, b_.inputs.get() + column, at.stride, WideOutput::store_f32);
  };
  RUNNEL_CHECK_OK(product(w.q, operands, d, at.q));
  RUNNEL_CHECK_OK(product(w.k, operands + 2 * values, d, at.k));
  RUNNEL_CHECK_OK(product(w.v, operands + 3 * values, d, at.v));
  const std::array<LowRankProduct, 4> all = low_rank_products(layer.recurrence(), at);
  LowRanks ranks;
  for (const LowRankProduct& r : all) {
    if (r.rank == 0) continue;
    std::uint16_t* const rows = operands + r.input * values;
    RUNNEL_CHECK_OK(product(w.down[r.which], rows, d, r.low));
    // In place of an input that is read no more: v's product of low rank comes last of all that read x_v.
    ranks.all[ranks.count++] = {.between = r.between,
                                .at = r.low,
                                .rank = r.rank,
                                .padded = w.up[r.which].cols,
                                .out = rows};
  }
  RUNNEL_CHECK_OK(
      check(low_ranks(p.launch, ranks, b_.inputs.get(), at.stride, p.tokens), "low ranks"));
  int next = 0;
  for (const LowRankProduct& r : all) {
    if (r.rank == 0) continue;
    const LowRank& rows = ranks.all[next++];
    RUNNEL_CHECK_OK(product(w.up[r.which], rows.out, rows.padded, r.out));
  }
  return mix_first_values(p, layer);
}

RemovalLayer Recorder::removal_layer(const LayerSpec& l) const {
  const RecurrenceSpec& r = l.recurrence();
  const LayerState& s = layout_.layer(l.index);
  const DeviceLayer& w = weights_of(l);
  return {.heads = l.num_kv_heads,
          .values_per_key = r.values_per_key,
          .k_dim = l.head_k_dim,
          .v_dim = l.head_v_dim,
          .decay = r.decay,
          .map = r.feature_map,
          .removal = r.removal,
          .key_norm = r.key_norm,
          .v_act = act_of(r.value_activation),
          .scale = r.scale,
          .removal_scale = r.removal_scale,
          .f_bias = w.f_bias,
          .r_bias = w.r_bias,
          .log_rate = w.log_rate,
          .removal_key = w.removal_key,
          .key_rate = w.key_rate,
          .bonus_weight = w.bonus,
          .layer_offset = s.keys_offset(0),
          .head_floats = s.head_floats(),
          .values_offset = s.keys_floats(),
          .inputs = l.conv_size > 0 ? b_.raw.get() : b_.inputs.get(),
          .at = recurrence_columns(l),
          .q = b_.features_q.get(),
          .k = b_.features_k.get(),
          .a = b_.decays.get(),
          .c = b_.removal_c.get(),
          .b = b_.removal_b.get(),
          .bonus = b_.bonus.get(),
          .o = b_.o.get()};
}

Status Recorder::removal(const LayerSpec& layer) {
  const RemovalLayer a = removal_layer(layer);
  // The convolutions count channels by heads: those of the keys, with the values that share them.
  Recurrence conv = recurrence(layer);
  conv.heads /= a.values_per_key;
  conv.kv_heads /= a.values_per_key;
  conv.v_dim *= a.values_per_key;
  const bool chunks = removal_chunks_fit(a);
  steps_.emplace_back([=, this](const Pass& p) -> Status {
    const Segment* segments = b_.segments.get();
    RUNNEL_CHECK_OK(
        check(recurrence_convolutions(p.launch, conv, segments, p.num_segments, p.tokens),
              "convolutions"));
    RUNNEL_CHECK_OK(check(removal_inputs(p.apart(), a, p.tokens), "recurrence inputs"));
    if (chunks && p.many) {
      const RemovalChunks to{.taken = b_.removal_taken.get(), .kept = b_.removal_kept.get()};
      return check(removal_chunks(p.apart(), a, to, segments, p.num_segments, p.tokens),
                   "recurrence by chunks");
    }
    return check(removal_core(p.apart(), a, segments, p.num_segments), "recurrence");
  });
  return {};
}

Status Recorder::bonus_output_projection(const LayerSpec& layer) {
  const DeviceLayer& w = weights_of(layer);
  const RemovalOutput out{.o = b_.o.get(),
                          .heads = layer.num_heads,
                          .v_dim = layer.head_v_dim,
                          .normalise = layer.output_norm == OutputNorm::groups,
                          .eps = layer.output_norm_eps,
                          .weight = w.g_norm,
                          .bias = w.g_norm_bias,
                          .bonus = layer.recurrence().bonus ? b_.bonus.get() : nullptr,
                          .inputs = b_.inputs.get(),
                          .at = recurrence_columns(layer),
                          .y = b_.y.get()};
  const int n = out.heads * out.v_dim;
  const bool rounded = w.o_proj.type != BlockType::f32 && w.o_proj.cols == n;
  steps_.emplace_back([this, &w, out, n, rounded](const Pass& p) -> Status {
    if (p.many && rounded) {
      RemovalOutput as_operand = out;
      as_operand.y_bf16 = b_.operand.get();
      RUNNEL_CHECK_OK(check(removal_output(p.apart(), as_operand, p.tokens), "norm and gate"));
      return multiply(p, w.o_proj, b_.operand.get(), n, b_.x.get(), m_->config.hidden_size,
                      WideOutput::add_f32);
    }
    RUNNEL_CHECK_OK(check(removal_output(p.apart(), out, p.tokens), "norm and gate"));
    const Linear in{.x = b_.y.get(), .n = n};
    const DeviceProjection to{w.o_proj, 0};
    return linear(p, in, std::span(&to, 1), b_.x.get(), m_->config.hidden_size, true);
  });
  return {};
}

}  // namespace runnel::cuda
