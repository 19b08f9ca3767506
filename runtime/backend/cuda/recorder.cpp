// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/recorder.h"

#include <algorithm>

#include "runtime/base/try.h"

namespace runnel::cuda {
namespace {

Act act_of(Activation a) {
  switch (a) {
    case Activation::identity:
      return Act::identity;
    case Activation::swish:
      return Act::swish;
    case Activation::relu:
      return Act::relu;
  }
  return Act::identity;
}

Act act_of(FeatureMap f) {
  switch (f) {
    case FeatureMap::swish:
      return Act::swish;
    case FeatureMap::relu:
      return Act::relu;
    default:
      return Act::identity;
  }
  return Act::identity;
}

int round_up(int n, int to) { return (n + to - 1) / to * to; }

/// Where row `first` of a dense matrix begins.
std::size_t row(int first, int columns) {
  return static_cast<std::size_t>(first) * static_cast<std::size_t>(columns);
}

Status launched(cudaError_t code, const char* op) { return check(code, op); }

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::create(std::shared_ptr<ModelOnDevice> model,
                                                   int max_tokens) {
  std::unique_ptr<Recorder> r(new Recorder(std::move(model)));
  RUNNEL_CHECK_OK(r->allocate(max_tokens));
  if (r->m_->config.mixer == Mixer::recurrence) return r;
  const SlotMixer m = r->mixer(0, false);
  if (!slot_recurrent_fits(r->m_->launch(), m)) {
    return fail(ErrorCode::unsupported, "cuda: a head of ", m.sinks + m.window + m.memory,
                " slots of ", m.k_dim, " + ", m.v_dim,
                " channels does not fit this device's registers");
  }
  return r;
}

Status Recorder::allocate(int max_tokens) {
  const ModelConfig& c = m_->config;
  max_tokens_ = max_tokens;
  columns_ = round_up((c.num_heads + c.num_kv_heads) * c.head_k_dim +
                          c.num_kv_heads * (c.head_v_dim + c.num_memory_slots),
                      4);
  const bool recurrence = c.mixer == Mixer::recurrence;
  if (recurrence) columns_ = recurrence_columns(c).stride;
  const auto n = static_cast<std::size_t>(max_tokens);
  std::uint64_t bytes = 0;
  const auto make = [&bytes](auto& array, std::size_t count, const char* what) -> Status {
    using T = std::remove_pointer_t<decltype(array.get())>;
    RUNNEL_TRY(array, device_array<T>(count, what));
    bytes += array.bytes();
    return {};
  };
  const auto u = [](int v) { return static_cast<std::size_t>(v); };
  const int v_columns = c.num_heads * c.head_v_dim;
  const int hidden32 = round_up(c.intermediate_size, 32);
  RUNNEL_CHECK_OK(make(b_.tokens, n, "token ids"));
  RUNNEL_CHECK_OK(make(b_.segments, n, "segments"));
  RUNNEL_CHECK_OK(make(b_.x, n * u(c.hidden_size), "the residual stream"));
  RUNNEL_CHECK_OK(make(b_.inputs, n * u(columns_), "slot inputs"));
  if (c.conv_size > 0) RUNNEL_CHECK_OK(make(b_.raw, n * u(columns_), "convolution inputs"));
  RUNNEL_CHECK_OK(make(b_.o, n * u(c.num_heads * c.value_columns()), "slot outputs"));
  RUNNEL_CHECK_OK(make(b_.gate_up, n * u(2 * c.intermediate_size), "gate and up"));
  RUNNEL_CHECK_OK(make(b_.h, n * u(c.intermediate_size), "the hidden layer"));
  RUNNEL_CHECK_OK(make(b_.h_words, n * u(hidden32 / 4), "the hidden layer"));
  RUNNEL_CHECK_OK(make(b_.h_meta, n * u(hidden32 / 32), "the hidden layer"));
  RUNNEL_CHECK_OK(make(b_.logits, u(kLogitRows) * u(c.vocab_size), "logits"));
  const int widest = round_up(std::max({c.hidden_size, v_columns, c.intermediate_size}), 32);
  if (m_->weights.has_f32_matrix) {
    RUNNEL_CHECK_OK(make(b_.operand_f32, n * u(widest), "matrix operands"));
  }
  RUNNEL_CHECK_OK(make(b_.operand, n * u(widest), "matrix operands"));
  RUNNEL_CHECK_OK(make(b_.unpacked, m_->weights.largest_unpacked, "an unpacked matrix"));
  if (recurrence) {
    RUNNEL_CHECK_OK(allocate_recurrence(bytes));
  } else if (!m_->precise) {
    RUNNEL_CHECK_OK(allocate_many(bytes));
  }
  m_->scratch_bytes += bytes;
  return {};
}

SlotMixer Recorder::mixer(int layer, bool prepared) const {
  const ModelConfig& c = m_->config;
  const StateLayout layout = StateLayout::of(c);
  const LayerOnDevice* w =
      m_->weights.layers.empty() ? nullptr : &m_->weights.layers[static_cast<std::size_t>(layer)];
  return {.heads = c.num_heads,
          .kv_heads = c.num_kv_heads,
          .k_dim = c.head_k_dim,
          .v_dim = c.head_v_dim,
          .sinks = c.num_sink_slots,
          .window = c.num_window_slots,
          .memory = c.num_memory_slots,
          .sink_distance = c.sink_distance,
          .scale = c.scale,
          .gate_normalizer = c.gate_normalizer,
          .gate_log_min = c.gate_log_min,
          .qk_act = act_of(c.feature_map),
          .v_act = act_of(c.value_activation),
          .prepared = prepared,
          .f_bias = w != nullptr ? w->f_bias : nullptr,
          .read_bias = w != nullptr ? w->read_bias : nullptr,
          .head_read_bias = w != nullptr ? w->head_read_bias : nullptr,
          .turns = m_->weights.turns,
          .layer_offset = layout.keys_offset(layer, 0),
          .head_floats = layout.head_floats(),
          .inputs = b_.inputs.get(),
          .input_stride = columns_,
          .out = b_.o.get()};
}

Pass Recorder::behind_mixer(const Pass& pass, int layer) const {
  Pass p = pass;
  if (pass.many && layer == m_->config.num_layers - 1) {
    p.first_row = pass.first_wanted;
    p.tokens = pass.tokens - pass.first_wanted;
  }
  return p;
}

Status Recorder::multiply(const Pass& pass, const Matrix& m, const void* a, int lda, void* c,
                          int ldc, bool add, bool c_bf16) const {
  Matmul p{.a = a,
           .lda = lda,
           .b = m.data,
           .ldb = m.cols,
           .tokens = pass.tokens,
           .rows = m.rows,
           .inner = m.cols,
           .c = c,
           .ldc = ldc,
           .add = add,
           .c_bf16 = c_bf16};
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

Status Recorder::linear(const Pass& pass, const Linear& in, std::span<const Projection> to,
                        float* out, int out_stride, bool add) const {
  if (!pass.many) {
    Matvec v{.x = in.x,
             .n = in.n,
             .x_stride = in.n,
             .act = in.act,
             .norm_weight = in.norm_weight,
             .normalise = in.normalise,
             .eps = in.eps};
    for (const Projection& p : to) {
      v.segments[v.num_segments++] = {
          .w = p.matrix, .out = out + p.column, .out_stride = out_stride};
    }
    return launched(matvec(pass.launch, add ? MatvecOutput::add : MatvecOutput::store, v, in.heads,
                           pass.tokens, nullptr, {}),
                    "multiply a vector");
  }
  const int stride = round_up(in.n, 32);
  Rows rows{.x = in.x,
            .x_stride = in.n,
            .n = in.n,
            .out_stride = stride,
            .act = in.act,
            .normalise = in.normalise,
            .eps = in.eps,
            .weight = in.norm_weight};
  bool have_f32 = false, have_bf16 = false;
  for (const Projection& p : to) {
    const bool f32 = p.matrix.type == BlockType::f32;
    bool& have = f32 ? have_f32 : have_bf16;
    rows.out = f32 ? static_cast<void*>(b_.operand_f32.get()) : b_.operand.get();
    rows.out_bf16 = !f32;
    if (!have) RUNNEL_CHECK_OK(launched(norm_rows(pass.launch, rows, pass.tokens), "norm rows"));
    have = true;
    RUNNEL_CHECK_OK(
        multiply(pass, p.matrix, rows.out, stride, out + p.column, out_stride, add, false));
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

Status Recorder::slot_projections(int layer, const LayerWeights&) {
  const LayerOnDevice& w = m_->weights.layers[static_cast<std::size_t>(layer)];
  steps_.emplace_back([this, &w, layer](const Pass& p) {
    const Linear in{.x = b_.x.get(),
                    .n = m_->config.hidden_size,
                    .norm_weight = w.attn_norm,
                    .normalise = true,
                    .eps = m_->config.norm_eps};
    if (fuses_slots(p, w)) return project_slots(p, w, layer);
    return linear(p, in, w.projections, b_.inputs.get(), columns_, false);
  });
  return {};
}

Status Recorder::slot_attention(int layer, const LayerWeights&) {
  const LayerOnDevice& w = m_->weights.layers[static_cast<std::size_t>(layer)];
  const bool mapped = m_->config.conv_size > 0 || m_->config.feature_map == FeatureMap::t2r;
  const SlotMixer raw = mixer(layer, false), prepared = mixer(layer, true);
  const bool chunkwise = m_->slot_chunks && !m_->precise && slot_chunks_fit(prepared);
  SlotInputs inputs{.mixer = raw,
                    .conv = m_->config.conv_size,
                    .q_conv = w.q_conv,
                    .k_conv = w.k_conv,
                    .v_conv = w.v_conv,
                    .t2r = w.feature_map,
                    .conv_offset = StateLayout::of(m_->config).q_conv_offset(layer),
                    .raw = b_.raw.get()};
  steps_.emplace_back(
      [this, &w, mapped, raw, prepared, chunkwise, inputs](const Pass& p) -> Status {
        if (mapped) {
          RUNNEL_CHECK_OK(
              launched(slot_inputs(p.launch, inputs, b_.segments.get(), p.num_segments, p.tokens),
                       "map slot inputs"));
        }
        if (p.many && chunkwise) return many_slots(p, w, mapped ? prepared : raw);
        return launched(
            slot_recurrent(p.launch, mapped ? prepared : raw, b_.segments.get(), p.num_segments),
            "slots");
      });
  return {};
}

Status Recorder::output_projection(int layer, const LayerWeights&) {
  if (m_->config.mixer == Mixer::recurrence) return recurrence_output_projection(layer);
  const LayerOnDevice& w = m_->weights.layers[static_cast<std::size_t>(layer)];
  steps_.emplace_back([this, &w, layer](const Pass& pass) -> Status {
    const ModelConfig& c = m_->config;
    const Pass p = behind_mixer(pass, layer);
    if (p.tokens == 0) return {};
    const Linear in{.x = b_.o.get() + row(p.first_row, c.num_heads * c.head_v_dim),
                    .n = c.num_heads * c.head_v_dim,
                    .act = act_of(c.output_activation),
                    .norm_weight = c.output_norm ? w.g_norm : nullptr,
                    .normalise = c.output_norm,
                    .eps = c.g_norm_eps};
    if (fuses_slots(p, w)) return output_rows(p, w);
    const Projection to{w.o_proj, 0};
    return linear(p, in, std::span(&to, 1), b_.x.get() + row(p.first_row, c.hidden_size),
                  c.hidden_size, true);
  });
  return {};
}

Status Recorder::gated_mlp(int layer, const LayerWeights&) {
  const LayerOnDevice& w = m_->weights.layers[static_cast<std::size_t>(layer)];
  steps_.emplace_back([this, &w, layer](const Pass& pass) -> Status {
    const ModelConfig& c = m_->config;
    const Pass p = behind_mixer(pass, layer);
    if (p.tokens == 0) return {};
    const int d = c.hidden_size, inner = c.intermediate_size;
    float* const x = b_.x.get() + row(p.first_row, d);
    const Linear in{
        .x = x, .n = d, .norm_weight = w.mlp_norm, .normalise = true, .eps = c.norm_eps};
    const bool joined = w.gate_up.size() == 1;
    if (fuses_swiglu(p, w)) return many_mlp(p, w);
    if (p.many) {
      const bool f32 = w.down.type == BlockType::f32;
      const bool gu_bf16 = joined && w.gate_up[0].matrix.type != BlockType::f32;
      if (gu_bf16) {
        const int stride = round_up(d, 32);
        const Rows rows{.x = in.x,
                        .x_stride = d,
                        .n = d,
                        .out_stride = stride,
                        .normalise = true,
                        .eps = in.eps,
                        .weight = in.norm_weight,
                        .out = b_.operand.get()};
        RUNNEL_CHECK_OK(launched(norm_rows(p.launch, rows, p.tokens), "norm rows"));
        RUNNEL_CHECK_OK(multiply(p, w.gate_up[0].matrix, b_.operand.get(), stride, b_.gate_up.get(),
                                 2 * inner, false, true));
      } else {
        RUNNEL_CHECK_OK(linear(p, in, w.gate_up, b_.gate_up.get(), 2 * inner, false));
      }
      const int stride = round_up(inner, 32);
      void* h = f32 ? static_cast<void*>(b_.operand_f32.get()) : b_.operand.get();
      RUNNEL_CHECK_OK(launched(swiglu_rows(p.launch, b_.gate_up.get(), gu_bf16, 2 * inner, !joined,
                                           inner, p.tokens, h, !f32, stride),
                               "swiglu"));
      return multiply(p, w.down, h, stride, x, d, true, false);
    }
    const bool quantised = joined && quant::is_block_type(w.down.type);
    const QuantisedVector hq{quantised ? b_.h_words.get() : nullptr, b_.h_meta.get()};
    if (joined) {
      Matvec v{.x = in.x,
               .n = d,
               .x_stride = d,
               .norm_weight = in.norm_weight,
               .normalise = true,
               .eps = in.eps};
      v.segments[v.num_segments++] = {.w = w.gate_up[0].matrix};
      RUNNEL_CHECK_OK(launched(matvec(p.launch, MatvecOutput::swiglu, v, p.tokens, b_.h.get(), hq),
                               "gate and up"));
    } else {
      RUNNEL_CHECK_OK(linear(p, in, w.gate_up, b_.gate_up.get(), 2 * inner, false));
      RUNNEL_CHECK_OK(launched(swiglu_rows(p.launch, b_.gate_up.get(), false, 2 * inner, true,
                                           inner, p.tokens, b_.h.get(), false, inner),
                               "swiglu"));
    }
    Matvec v{.x = quantised ? nullptr : b_.h.get(), .n = inner, .x_stride = inner, .quantised = hq};
    v.segments[v.num_segments++] = {.w = w.down, .out = x, .out_stride = d};
    return launched(matvec(p.launch, MatvecOutput::add, v, p.tokens, nullptr, {}), "down");
  });
  return {};
}

Status Recorder::logits(const WeightView&, const WeightView&) { return {}; }

Status Recorder::run(const Pass& pass) const {
  for (const Step& step : steps_) RUNNEL_CHECK_OK(step(pass));
  return {};
}

Status Recorder::run_head(const Launch& launch, int first, int count) const {
  const ModelConfig& c = m_->config;
  Matvec v{
      .x = b_.x.get() + static_cast<std::size_t>(first) * static_cast<std::size_t>(c.hidden_size),
      .n = c.hidden_size,
      .x_stride = c.hidden_size,
      .norm_weight = m_->weights.final_norm,
      .normalise = true,
      .eps = c.norm_eps};
  v.segments[v.num_segments++] = {
      .w = m_->weights.head, .out = b_.logits.get(), .out_stride = c.vocab_size};
  return launched(matvec(launch, MatvecOutput::store, v, count, nullptr, {}), "logits");
}

}  // namespace runnel::cuda
