// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/recorder.h"

#include <algorithm>

#include "cuda/row_ops.h"
#include "runtime/backend/cuda/activations.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::cuda {
namespace {

/// Where row `first` of a dense matrix begins.
std::size_t row(int first, int columns) {
  return static_cast<std::size_t>(first) * static_cast<std::size_t>(columns);
}

Status launched(cudaError_t code, const char* op) { return check(code, op); }

}  // namespace

int input_columns(const LayerSpec& l) {
  switch (l.kind()) {
    case Mixer::slots:
      return round_up(l.q_channels() + l.k_channels() + l.v_channels() + l.gate_channels(), 4);
    case Mixer::recurrence:
      return recurrence_columns(l).stride;
  }
  return 0;
}

Result<std::unique_ptr<Recorder>> Recorder::create(std::shared_ptr<ResidentModel> model,
                                                   int max_tokens) {
  std::unique_ptr<Recorder> r(new Recorder(std::move(model)));
  r->layout_ = StateLayout::of(r->m_->config);
  RUNNEL_CHECK_OK(r->allocate(max_tokens));
  for (const LayerSpec& layer : r->m_->config.layers) RUNNEL_CHECK_OK(r->check_mixer(layer));
  return r;
}

Status Recorder::check_mixer(const LayerSpec& layer) const {
  switch (layer.kind()) {
    case Mixer::slots: {
      const SlotMixer m = mixer(layer, false);
      if (slot_recurrent_fits(m_->launch(), m)) return {};
      return fail(ErrorCode::unsupported, "cuda: a head of ", m.sinks + m.window + m.memory,
                  " slots of ", m.k_dim, " + ", m.v_dim,
                  " channels does not fit this device's registers");
    }
    case Mixer::recurrence: {
      if (layer.recurrence().removal != Removal::none) {
        if (removal_fits(removal_layer(layer))) return {};
        return fail(ErrorCode::unsupported, "cuda: a state of ", layer.head_k_dim,
                    " rows does not fit a block's shared memory");
      }
      const Recurrence a = recurrence(layer);
      if (gated_recurrence_fits(a)) return {};
      return fail(ErrorCode::unsupported, "cuda: a state of ", std::max(a.features, a.slots),
                  " rows read by ", layer.queries_per_kv_head(),
                  " queries does not fit this device's registers and shared memory");
    }
  }
  return {};
}

SlotMixer Recorder::mixer(const LayerSpec& layer, bool prepared) const {
  const SlotSpec& s = layer.slots();
  const DeviceLayer& w = weights_of(layer);
  const LayerState& state = layout_.layer(layer.index);
  // Nothing but the rotation comes after the projection.
  const bool plain_keys = s.feature_map == FeatureMap::identity && layer.conv_size == 0;
  const bool biased_keys = w.qkv_bias != nullptr && plain_keys;
  return {.heads = layer.num_heads,
          .kv_heads = layer.num_kv_heads,
          .k_dim = layer.head_k_dim,
          .v_dim = layer.head_v_dim,
          .sinks = s.num_sink_slots,
          .window = s.num_window_slots,
          .memory = s.num_memory_slots,
          .sink_distance = s.sink_distance,
          .scale = s.scale,
          .gate_normalizer = s.gate_normalizer,
          .gate_log_min = s.gate_log_min,
          .qk_act = act_of(s.feature_map),
          .v_act = act_of(s.value_activation),
          .prepared = prepared,
          .f_bias = w.f_bias,
          .read_bias = w.read_bias,
          .head_read_bias = w.head_read_bias,
          .turns = layer.rotates() ? m_->weights.turns : nullptr,
          .layer_offset = state.keys_offset(0),
          .head_floats = state.head_floats(),
          .inputs = b_.inputs.get(),
          .input_stride = input_columns(layer),
          .out = b_.o.get(),
          .k_bias = biased_keys ? w.qkv_bias + layer.q_channels() : nullptr};
}

Pass Recorder::behind_mixer(const Pass& pass, const LayerSpec& layer) const {
  Pass p = pass;
  if (layer.channel_shift > 0) return p;  // every row is the one before another, or the state's
  if (pass.many && layer.index == m_->config.num_layers() - 1) {
    p.first_row = pass.first_wanted;
    p.tokens = pass.tokens - pass.first_wanted;
  }
  return p;
}

Result<Recorder::Linear> Recorder::normed(const Pass& pass, const float* x, const NormSpec& norm,
                                          const DeviceNorm& weights) const {
  const int d = m_->config.hidden_size;
  switch (norm.kind) {
    case Norm::rms:
      return Linear{
          .x = x, .n = d, .norm_weight = weights.weight, .normalise = true, .eps = norm.eps};
    case Norm::layer:
      break;
  }
  RUNNEL_CHECK_OK(launched(layer_norm_rows(pass.launch,
                                           {.x = x,
                                            .n = d,
                                            .eps = norm.eps,
                                            .weight = weights.weight,
                                            .bias = weights.bias,
                                            .out = b_.normed.get()},
                                           pass.tokens),
                           "norm rows"));
  return Linear{.x = b_.normed.get(), .n = d};
}

Rows Recorder::rows_of(const Linear& in, void* out) const {
  return {.x = in.x,
          .x_stride = in.n,
          .n = in.n,
          .out_stride = round_up(in.n, 32),
          .act = in.act,
          .normalise = in.normalise,
          .eps = in.eps,
          .weight = in.norm_weight,
          .out = out};
}

Status Recorder::multiply(const Pass& pass, const Matrix& m, const void* a, int lda, void* c,
                          int ldc, WideOutput to) const {
  Matmul p{.a = a,
           .lda = lda,
           .b = m.data,
           .ldb = m.cols,
           .tokens = pass.tokens,
           .rows = m.rows,
           .inner = m.cols,
           .c = c,
           .ldc = ldc,
           .add = to == WideOutput::add_f32,
           .c_bf16 = to == WideOutput::store_bf16};
  if (m.type == BlockType::f32) return launched(matmul_f32(pass.launch, p), "multiply matrices");
  RUNNEL_TRY(p.b, as_bf16(pass, m));
  return multiply_bf16(pass, p, m_->prefill.wide_products && takes_wide(pass, m));
}

Status Recorder::multiply_bf16(const Pass& pass, const Matmul& p, bool wide) const {
  const WideMatmul own{.p = p,
                       .output = p.c_bf16 ? WideOutput::store_bf16
                                 : p.add  ? WideOutput::add_f32
                                          : WideOutput::store_f32,
                       .slots = {}};
  if (wide && wide_matmul_fits(own))
    return launched(wide_matmul(pass.launch, own, m_->prefill.tuning), "multiply matrices");
  if (m_->cublas != nullptr && m_->cublas->matmul(pass.launch.stream, p)) return {};
  return launched(matmul_bf16(pass.launch, p), "multiply matrices");
}

Status Recorder::linear(const Pass& pass, const Linear& in, std::span<const DeviceProjection> to,
                        float* out, int out_stride, bool add) const {
  if (!pass.many) {
    Matvec v{.x = in.x,
             .n = in.n,
             .x_stride = in.n,
             .act = in.act,
             .norm_weight = in.norm_weight,
             .normalise = in.normalise,
             .eps = in.eps};
    for (const DeviceProjection& p : to) {
      v.segments[v.num_segments++] = {
          .w = p.matrix, .out = out + p.column, .out_stride = out_stride};
    }
    return launched(matvec(pass.launch, add ? MatvecOutput::add : MatvecOutput::store, v, in.heads,
                           pass.tokens, nullptr, {}),
                    "multiply a vector");
  }
  Rows rows = rows_of(in, nullptr);
  bool have_f32 = false, have_bf16 = false;
  for (const DeviceProjection& p : to) {
    const bool f32 = p.matrix.type == BlockType::f32;
    bool& have = f32 ? have_f32 : have_bf16;
    rows.out = f32 ? static_cast<void*>(b_.operand_f32.get()) : b_.operand.get();
    rows.out_bf16 = !f32;
    if (!have) RUNNEL_CHECK_OK(launched(norm_rows(pass.launch, rows, pass.tokens), "norm rows"));
    have = true;
    RUNNEL_CHECK_OK(multiply(pass, p.matrix, rows.out, rows.out_stride, out + p.column, out_stride,
                             add ? WideOutput::add_f32 : WideOutput::store_f32));
  }
  return {};
}

Status Recorder::embed(const WeightView&) {
  steps_.emplace_back([this](const Pass& p) {
    Launch first = p.launch;
    first.chain = false;  // follows copies, not a kernel
    return launched(cuda::embed(first, m_->weights.embeddings, b_.tokens.get(), p.tokens,
                                m_->config.hidden_size, b_.x.get()),
                    "embed");
  });
  return {};
}

Status Recorder::add_biases(const Pass& pass, const LayerSpec& layer, int column) const {
  const DeviceLayer& w = weights_of(layer);
  if (w.qkv_bias == nullptr) return {};
  return launched(bias_rows(pass.launch, b_.inputs.get() + column, input_columns(layer), w.qkv_bias,
                            w.num_qkv_bias, pass.tokens),
                  "add biases");
}

Status Recorder::slot_projections(const LayerSpec& layer, const SlotWeights&) {
  steps_.emplace_back([this, layer](const Pass& p) -> Status {
    if (fuses_slots(p, layer)) return project_slots(p, layer);
    const DeviceLayer& w = weights_of(layer);
    RUNNEL_TRY(const Linear in, normed(p, b_.x.get(), layer.norm, w.norm));
    RUNNEL_CHECK_OK(linear(p, in, w.projections, b_.inputs.get(), input_columns(layer), false));
    return defers_biases(p, layer) ? Status() : add_biases(p, layer, 0);
  });
  return {};
}

Status Recorder::slot_attention(const LayerSpec& layer, const SlotWeights&) {
  const DeviceLayer& w = weights_of(layer);
  const bool mapped = layer.conv_size > 0 || layer.slots().feature_map == FeatureMap::t2r;
  const SlotMixer raw = mixer(layer, false), prepared = mixer(layer, true);
  const bool chunks = chunkwise(layer, prepared);
  SlotInputs inputs{.mixer = raw,
                    .conv = layer.conv_size,
                    .q_conv = w.q_conv,
                    .k_conv = w.k_conv,
                    .v_conv = w.v_conv,
                    .t2r = w.feature_map,
                    .conv_offset = layout_.layer(layer.index).q_conv_offset(),
                    .raw = b_.raw.get()};
  steps_.emplace_back(
      [this, layer, mapped, raw, prepared, chunks, inputs](const Pass& p) -> Status {
        if (mapped) {
          RUNNEL_CHECK_OK(
              launched(slot_inputs(p.launch, inputs, b_.segments.get(), p.num_segments, p.tokens),
                       "map slot inputs"));
        }
        if (p.many && chunks) return many_slots(p, layer, mapped ? prepared : raw);
        return launched(
            slot_recurrent(p.launch, mapped ? prepared : raw, b_.segments.get(), p.num_segments),
            "slots");
      });
  return {};
}

Status Recorder::output_projection(const LayerSpec& layer, const OutputWeights&) {
  if (layer.kind() == Mixer::recurrence || layer.output_norm == OutputNorm::heads)
    return gated_output_projection(layer);
  steps_.emplace_back([this, layer](const Pass& pass) -> Status {
    const DeviceLayer& w = weights_of(layer);
    const Pass p = behind_mixer(pass, layer);
    if (p.tokens == 0) return {};
    if (reads_bf16(p, layer)) return output_rows(p, layer);
    const int o = layer.o_channels(), d = m_->config.hidden_size;
    const bool normalise = layer.output_norm != OutputNorm::none;
    const Linear in{.x = b_.o.get() + row(p.first_row, o),
                    .n = o,
                    .act = act_of(layer.output_activation),
                    .norm_weight = normalise ? w.g_norm : nullptr,
                    .normalise = normalise,
                    .eps = layer.output_norm_eps};
    const DeviceProjection to{w.o_proj, 0};
    return linear(p, in, std::span(&to, 1), b_.x.get() + row(p.first_row, d), d, true);
  });
  return {};
}

Status Recorder::logits(const NormSpec& norm, const NormWeights&, const WeightView&) {
  final_norm_ = norm;
  has_head_ = true;
  return {};
}

Status Recorder::run(const Pass& pass) const {
  for (const Step& step : steps_) RUNNEL_CHECK_OK(step(pass));
  return {};
}

Status Recorder::run_head(const Launch& launch, int first, int count) const {
  const int d = m_->config.hidden_size;
  const Pass pass{.launch = launch, .tokens = count};
  RUNNEL_TRY(const Linear in,
             normed(pass, b_.x.get() + row(first, d), final_norm_, m_->weights.final_norm));
  const DeviceProjection to{m_->weights.head, 0};
  return linear(pass, in, std::span(&to, 1), b_.logits.get(), m_->config.vocab_size, false);
}

}  // namespace runnel::cuda
