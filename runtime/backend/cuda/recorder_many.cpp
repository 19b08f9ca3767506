// SPDX-License-Identifier: Apache-2.0
// Passes of many tokens through the kernels of prefill.h: what follows a product is fused behind
// it, and slots take bf16 operands straight from the projections.
#include "runtime/backend/cuda/recorder.h"
#include "runtime/base/try.h"

namespace runnel::cuda {
namespace {

Act act_of(Activation a) {
  return a == Activation::swish ? Act::swish : a == Activation::relu ? Act::relu : Act::identity;
}
Act act_of(FeatureMap f) {
  return f == FeatureMap::swish ? Act::swish : f == FeatureMap::relu ? Act::relu : Act::identity;
}

int round_up(int n, int to) { return (n + to - 1) / to * to; }

bool positional(const ModelConfig& c) { return c.num_sink_slots + c.num_window_slots > 0; }

}  // namespace

/// Values of 16 bits in the pool; sets the pointers of `o` if it is given.
std::size_t Recorder::slot_pool_values(ChunkOperands* o) const {
  const ModelConfig& c = m_->config;
  const auto u = [](int v) { return static_cast<std::size_t>(v); };
  std::uint16_t* pool = b_.slot_pool.get();
  std::size_t used = 0;
  const auto take = [&](auto** to, std::size_t rows, std::size_t columns) {
    if (o != nullptr) *to = reinterpret_cast<std::remove_reference_t<decltype(*to)>>(pool + used);
    used += (rows * columns * (sizeof(**to) / 2) + 127) / 128 * 128;
  };
  ChunkOperands own;
  ChunkOperands& to = o != nullptr ? *o : own;
  const std::size_t n = u(max_tokens_), chunks = (n + kChunk - 1) / kChunk,
                    tiles = chunks * u(c.num_kv_heads), q = u(c.num_heads * c.head_k_dim),
                    k = u(c.num_kv_heads * c.head_k_dim), v = u(c.num_kv_heads * c.head_v_dim);
  const std::size_t before = positional(c) ? kChunk : 0;
  take(&to.q, n, q);
  take(&to.k, n, k);
  take(&to.v, n + before, v);
  if (positional(c)) {
    take(&to.q_turned, n, q);
    take(&to.q_near, n, q);
    take(&to.k_turned, n + before, k);
    take(&to.k_sink, kMostSinks, k);
    take(&to.v_sink, kMostSinks, v);
  }
  take(&to.gates, n, u(c.num_kv_heads * c.num_memory_slots));
  to.gate_stride = c.num_kv_heads * c.num_memory_slots;
  take(&to.decay, tiles, kChunk);
  take(&to.centre, tiles, kChunk);
  take(&to.rise, tiles * kChunk, kChunk);
  take(&to.write, tiles * kChunk, kChunk);
  take(&to.carry, tiles * kChunk, kChunk);
  take(&to.strong, tiles, 1);
  take(&to.keys, tiles * kChunk, u(c.head_k_dim));
  take(&to.values, tiles * kChunk, u(c.head_v_dim));
  return used;
}

ChunkOperands Recorder::chunk_operands() const {
  ChunkOperands o;
  slot_pool_values(&o);
  return o;
}

Status Recorder::allocate_many(std::uint64_t& bytes) {
  RUNNEL_TRY(b_.slot_pool,
             device_array<std::uint16_t>(slot_pool_values(nullptr), "chunkwise slots"));
  bytes += b_.slot_pool.bytes();
  return {};
}

bool Recorder::takes_wide(const Pass& pass, const Matrix& m) const {
  return pass.many && m_->wide && m_->prefill.wide && m.type != BlockType::f32 &&
         pass.tokens >= m_->prefill.wide_tokens;
}

Result<const void*> Recorder::as_bf16(const Pass& pass, const Matrix& m) const {
  if (m.type == BlockType::bf16) return m.data;
  RUNNEL_CHECK_OK(check(unpack_bf16(pass.launch, m, b_.unpacked.get()), "unpack a matrix"));
  return static_cast<const void*>(b_.unpacked.get());
}

bool Recorder::fuses_slots(const Pass& pass, const LayerOnDevice& w) const {
  const ModelConfig& c = m_->config;
  if (!pass.many || !m_->slot_chunks || m_->precise || positional(c) || c.conv_size > 0 ||
      c.feature_map == FeatureMap::t2r || w.projections.size() != 1 ||
      w.projections[0].matrix.type == BlockType::f32 || c.num_heads * c.head_v_dim > 8192 ||
      !slot_chunks_fit(mixer(0, true))) {
    return false;
  }
  return c.head_k_dim % 8 == 0 && c.head_v_dim % 8 == 0;
}

Status Recorder::project_slots(const Pass& pass, const LayerOnDevice& w, int layer) const {
  const ModelConfig& c = m_->config;
  const Matrix& m = w.projections[0].matrix;
  const int stride = round_up(c.hidden_size, 32);
  const Rows rows{.x = b_.x.get(),
                  .x_stride = c.hidden_size,
                  .n = c.hidden_size,
                  .out_stride = stride,
                  .normalise = true,
                  .eps = c.norm_eps,
                  .weight = w.attn_norm,
                  .out = b_.operand.get()};
  RUNNEL_CHECK_OK(check(norm_rows(pass.launch, rows, pass.tokens), "norm rows"));
  RUNNEL_TRY(const void* weights, as_bf16(pass, m));
  const ChunkOperands o = chunk_operands();
  const WideMatmul product{.p = {.a = b_.operand.get(),
                                 .lda = stride,
                                 .b = weights,
                                 .ldb = m.cols,
                                 .tokens = pass.tokens,
                                 .rows = m.rows,
                                 .inner = m.cols},
                           .output = WideOutput::slots,
                           .slots = {.q = c.num_heads * c.head_k_dim,
                                     .k = c.num_kv_heads * c.head_k_dim,
                                     .v = c.num_kv_heads * c.head_v_dim,
                                     .f = c.num_kv_heads * c.num_memory_slots,
                                     .activated = o.q,
                                     .gates = o.gates,
                                     .qk_act = act_of(c.feature_map),
                                     .v_act = act_of(c.value_activation)}};
  if (takes_wide(pass, m) && wide_matmul_fits(product))
    return check(wide_matmul(pass.launch, product, m_->prefill.tuning), "project slots");
  const int gates = c.num_kv_heads * c.num_memory_slots, qkv = m.rows - gates;
  Matmul p{.a = b_.operand.get(),
           .lda = stride,
           .b = weights,
           .ldb = m.cols,
           .tokens = pass.tokens,
           .rows = qkv,
           .inner = m.cols,
           .c = o.q,
           .ldc = qkv,
           .add = false,
           .c_bf16 = true};
  RUNNEL_CHECK_OK(multiply_bf16(pass, p, false));
  if (gates > 0) {  // an error of a gate is multiplied by every later token: f32
    p.b = static_cast<const std::uint16_t*>(weights) +
          static_cast<std::size_t>(qkv) * static_cast<std::size_t>(m.cols);
    p.rows = p.ldc = gates, p.c_bf16 = false;
    p.c = o.gates;
    RUNNEL_CHECK_OK(multiply_bf16(pass, p, false));
  }
  return check(activate_projections(pass.launch, mixer(layer, false), pass.tokens, o),
               "activate projections");
}

Status Recorder::many_slots(const Pass& pass, const LayerOnDevice& w, const SlotMixer& m) const {
  ChunkOperands o = chunk_operands();
  if (fuses_slots(pass, w)) {
    // One matrix [T, q + k + v]: it takes the place of the three, which lie one after another.
    const int q = m.heads * m.k_dim, k = m.kv_heads * m.k_dim, v = m.kv_heads * m.v_dim;
    o.k = o.q + q, o.v = o.k + k;
    o.q_stride = o.k_stride = o.v_stride = q + k + v;
    o.ready = true;
    o.out_bf16 = reinterpret_cast<std::uint16_t*>(b_.o.get());
  }
  return check(slot_chunks(pass.launch, m, {b_.segments.get(), pass.tokens}, o),
               "slots, chunkwise");
}

Status Recorder::output_rows(const Pass& pass, const LayerOnDevice& w) const {
  const ModelConfig& c = m_->config;
  const int n = c.num_heads * c.head_v_dim, stride = round_up(n, 32);
  const auto skipped = static_cast<std::size_t>(pass.first_row);
  const Rows rows{.x_bf16 = reinterpret_cast<const std::uint16_t*>(b_.o.get()) +
                            skipped * static_cast<std::size_t>(n),
                  .x_stride = n,
                  .n = n,
                  .out_stride = stride,
                  .act = act_of(c.output_activation),
                  .normalise = c.output_norm,
                  .eps = c.g_norm_eps,
                  .weight = c.output_norm ? w.g_norm : nullptr,
                  .out = b_.operand.get()};
  RUNNEL_CHECK_OK(check(norm_rows(pass.launch, rows, pass.tokens), "norm rows"));
  float* const x = b_.x.get() + skipped * static_cast<std::size_t>(c.hidden_size);
  return multiply(pass, w.o_proj, b_.operand.get(), stride, x, c.hidden_size, true, false);
}

bool Recorder::fuses_swiglu(const Pass& pass, const LayerOnDevice& w) const {
  const ModelConfig& c = m_->config;
  return w.gate_up.size() == 1 && takes_wide(pass, w.gate_up[0].matrix) &&
         w.down.type != BlockType::f32 && c.intermediate_size % 32 == 0 &&
         w.down.cols == c.intermediate_size;
}

Status Recorder::many_mlp(const Pass& pass, const LayerOnDevice& w) const {
  const ModelConfig& c = m_->config;
  const int d = c.hidden_size, inner = c.intermediate_size, stride = round_up(d, 32);
  float* const x =
      b_.x.get() + static_cast<std::size_t>(pass.first_row) * static_cast<std::size_t>(d);
  const Rows rows{.x = x,
                  .x_stride = d,
                  .n = d,
                  .out_stride = stride,
                  .normalise = true,
                  .eps = c.norm_eps,
                  .weight = w.mlp_norm,
                  .out = b_.operand.get()};
  RUNNEL_CHECK_OK(check(norm_rows(pass.launch, rows, pass.tokens), "norm rows"));
  const Matrix& m = w.gate_up[0].matrix;
  RUNNEL_TRY(const void* weights, as_bf16(pass, m));
  const WideMatmul product{.p = {.a = b_.operand.get(),
                                 .lda = stride,
                                 .b = weights,
                                 .ldb = m.cols,
                                 .tokens = pass.tokens,
                                 .rows = m.rows,
                                 .inner = m.cols,
                                 .c = b_.h.get(),
                                 .ldc = inner},
                           .output = WideOutput::swiglu,
                           .slots = {}};
  RUNNEL_CHECK_OK(check(wide_matmul(pass.launch, product, m_->prefill.tuning), "gate and up"));
  return multiply(pass, w.down, b_.h.get(), inner, x, d, true, false);
}

}  // namespace runnel::cuda
