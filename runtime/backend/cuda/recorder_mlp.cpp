// SPDX-License-Identifier: Apache-2.0
// The channel mixes on the buffers of a plan.
#include "cuda/row_ops.h"
#include "runtime/backend/cuda/recorder.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::cuda {
namespace {

/// The first row of x that an op works on.
float* rows_from(const DeviceArray<float>& x, const Pass& pass, int columns) {
  return x.get() + static_cast<std::size_t>(pass.first_row) * static_cast<std::size_t>(columns);
}

}  // namespace

Status Recorder::gated_mlp(const LayerSpec& layer, const ChannelMixWeights&) {
  steps_.emplace_back([this, layer](const Pass& pass) -> Status {
    const Pass p = behind_mixer(pass, layer);
    if (p.tokens == 0) return {};
    if (fuses_swiglu(p, layer)) return fused_swiglu(p, layer);
    return p.many ? many_swiglu(p, layer) : swiglu(p, layer);
  });
  return {};
}

Status Recorder::squared_relu_mlp(const LayerSpec& layer, const ChannelMixWeights&) {
  steps_.emplace_back([this, layer](const Pass& pass) -> Status {
    const Pass p = behind_mixer(pass, layer);
    return p.tokens == 0 ? Status() : squared_relu(p, layer);
  });
  return {};
}

/// Few tokens: h goes quantised from one product to the next where both are of block types.
Status Recorder::swiglu(const Pass& p, const LayerSpec& layer) const {
  const DeviceLayer& w = weights_of(layer);
  const int d = m_->config.hidden_size, inner = layer.intermediate_size;
  float* const x = rows_from(b_.x, p, d);
  RUNNEL_TRY(const Linear in, normed(p, x, layer.channel_norm, w.channel_norm));
  const bool joined = w.gate_up.size() == 1;
  const bool quantised = joined && quant::is_block_type(w.down_proj.type);
  const QuantisedVector hq{quantised ? b_.h_words.get() : nullptr, b_.h_meta.get()};
  if (joined) {
    Matvec v{.x = in.x,
             .n = d,
             .x_stride = d,
             .norm_weight = in.norm_weight,
             .normalise = in.normalise,
             .eps = in.eps};
    v.segments[v.num_segments++] = {.w = w.gate_up[0].matrix};
    RUNNEL_CHECK_OK(
        check(matvec(p.launch, MatvecOutput::swiglu, v, p.tokens, b_.h.get(), hq), "gate and up"));
  } else {
    RUNNEL_CHECK_OK(linear(p, in, w.gate_up, b_.gate_up.get(), 2 * inner, false));
    RUNNEL_CHECK_OK(check(swiglu_rows(p.launch,
                                      {.gu = b_.gate_up.get(),
                                       .gu_stride = 2 * inner,
                                       .split = true,
                                       .n = inner,
                                       .h = b_.h.get(),
                                       .h_stride = inner},
                                      p.tokens),
                          "swiglu"));
  }
  Matvec v{.x = quantised ? nullptr : b_.h.get(), .n = inner, .x_stride = inner, .quantised = hq};
  v.segments[v.num_segments++] = {.w = w.down_proj, .out = x, .out_stride = d};
  return check(matvec(p.launch, MatvecOutput::add, v, p.tokens, nullptr, {}), "down");
}

Status Recorder::many_swiglu(const Pass& p, const LayerSpec& layer) const {
  const DeviceLayer& w = weights_of(layer);
  const int d = m_->config.hidden_size, inner = layer.intermediate_size;
  float* const x = rows_from(b_.x, p, d);
  RUNNEL_TRY(const Linear in, normed(p, x, layer.channel_norm, w.channel_norm));
  const bool joined = w.gate_up.size() == 1;
  const bool f32 = w.down_proj.type == BlockType::f32;
  const bool gu_bf16 = joined && w.gate_up[0].matrix.type != BlockType::f32;
  if (gu_bf16) {
    const Rows rows = rows_of(in, b_.operand.get());
    RUNNEL_CHECK_OK(check(norm_rows(p.launch, rows, p.tokens), "norm rows"));
    RUNNEL_CHECK_OK(multiply(p, w.gate_up[0].matrix, b_.operand.get(), rows.out_stride,
                             b_.gate_up.get(), 2 * inner, WideOutput::store_bf16));
  } else {
    RUNNEL_CHECK_OK(linear(p, in, w.gate_up, b_.gate_up.get(), 2 * inner, false));
  }
  const int stride = round_up(inner, 32);
  void* h = f32 ? static_cast<void*>(b_.operand_f32.get()) : b_.operand.get();
  RUNNEL_CHECK_OK(check(swiglu_rows(p.launch,
                                    {.gu = b_.gate_up.get(),
                                     .gu_bf16 = gu_bf16,
                                     .gu_stride = 2 * inner,
                                     .split = !joined,
                                     .n = inner,
                                     .h = h,
                                     .h_bf16 = !f32,
                                     .h_stride = stride},
                                    p.tokens),
                        "swiglu"));
  return multiply(p, w.down_proj, h, stride, x, d, WideOutput::add_f32);
}

bool Recorder::rounds_squared_relu(const Pass& p, const LayerSpec& layer) const {
  const DeviceLayer& w = weights_of(layer);
  const Matrix &up = w.gate_up[0].matrix, &down = w.down_proj;
  return layer.channel_shift > 0 && up.type != BlockType::f32 && down.type != BlockType::f32 &&
         down.cols == layer.intermediate_size && layer.intermediate_size % 1024 == 0 &&
         shifts_rounded(p, up, layout_.layer(layer.index).channel_shift_offset());
}

/// Many tokens: between the products all is bf16.
Status Recorder::rounded_squared_relu(const Pass& p, const LayerSpec& layer) const {
  const DeviceLayer& w = weights_of(layer);
  const int d = m_->config.hidden_size, inner = layer.intermediate_size;
  const Shift s{.norm = layer.channel_norm,
                .weights = &w.channel_norm,
                .lerp = w.channel_lerp,
                .inputs = 1,
                .offset = layout_.layer(layer.index).channel_shift_offset()};
  RUNNEL_CHECK_OK(shift_rounded(p, s, b_.operand.get(), 0));
  auto* const up = reinterpret_cast<std::uint16_t*>(b_.gate_up.get());
  RUNNEL_CHECK_OK(
      multiply(p, w.gate_up[0].matrix, b_.operand.get(), d, up, inner, WideOutput::store_bf16));
  RUNNEL_CHECK_OK(
      check(squared_relu_bf16(p.launch, up, b_.operand.get(), inner, p.tokens), "squared ReLU"));
  return multiply(p, w.down_proj, b_.operand.get(), inner, b_.x.get(), d, WideOutput::add_f32);
}

Status Recorder::squared_relu(const Pass& p, const LayerSpec& layer) const {
  const DeviceLayer& w = weights_of(layer);
  if (rounds_squared_relu(p, layer)) return rounded_squared_relu(p, layer);
  const int d = m_->config.hidden_size, inner = layer.intermediate_size;
  float* const x = rows_from(b_.x, p, d);
  Linear in{.x = shifted_input(0), .n = d};
  if (layer.channel_shift > 0) {
    RUNNEL_CHECK_OK(shift(p, {.norm = layer.channel_norm,
                              .weights = &w.channel_norm,
                              .lerp = w.channel_lerp,
                              .inputs = 1,
                              .offset = layout_.layer(layer.index).channel_shift_offset()}));
  } else {
    RUNNEL_TRY(in, normed(p, x, layer.channel_norm, w.channel_norm));
  }
  RUNNEL_CHECK_OK(linear(p, in, w.gate_up, b_.gate_up.get(), inner, false));
  if (!p.many) {
    RUNNEL_CHECK_OK(check(
        squared_relu_rows(p.launch, b_.gate_up.get(), inner, b_.h.get(), false, inner, p.tokens),
        "squared ReLU"));
    const Linear h{.x = b_.h.get(), .n = inner};
    const DeviceProjection to{w.down_proj, 0};
    return linear(p, h, std::span(&to, 1), x, d, true);
  }
  const bool f32 = w.down_proj.type == BlockType::f32;
  const int stride = round_up(inner, 32);
  void* h = f32 ? static_cast<void*>(b_.operand_f32.get()) : b_.operand.get();
  RUNNEL_CHECK_OK(
      check(squared_relu_rows(p.launch, b_.gate_up.get(), inner, h, !f32, stride, p.tokens),
            "squared ReLU"));
  return multiply(p, w.down_proj, h, stride, x, d, WideOutput::add_f32);
}

}  // namespace runnel::cuda
