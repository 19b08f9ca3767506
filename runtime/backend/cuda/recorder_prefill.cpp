// SPDX-License-Identifier: Apache-2.0
// Passes of many tokens through the kernels of prefill.h: what follows a product is fused behind
// it, and slots take bf16 operands straight from the projections.
#include "runtime/backend/cuda/activations.h"
#include "runtime/backend/cuda/recorder.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::cuda {
namespace {

bool positional(const LayerSpec& l) {
  return l.kind() == Mixer::slots && l.slots().num_positional_slots() > 0;
}

/// Cuts a pool of values of 16 bits, or, without one, only counts them.
class PoolCutter {
 public:
  explicit PoolCutter(std::uint16_t* pool) : pool_(pool) {}
  template <class T>
  void take(T** to, std::size_t rows, std::size_t columns) {
    if (pool_ != nullptr) *to = reinterpret_cast<T*>(pool_ + used_);
    used_ += round_up(rows * columns * (sizeof(T) / 2), std::size_t{128});
  }
  std::size_t used() const { return used_; }

 private:
  std::uint16_t* pool_;
  std::size_t used_ = 0;
};

std::size_t size_of(int v) { return static_cast<std::size_t>(v); }

/// What every chunk has for each kv head and 64 memory slots, but its values.
void take_tiles(PoolCutter& pool, ChunkOperands& to, std::size_t tiles, std::size_t head_k_dim) {
  pool.take(&to.decay, tiles, kChunk);
  pool.take(&to.centre, tiles, kChunk);
  pool.take(&to.rise, tiles * kChunk, kChunk);
  pool.take(&to.write, tiles * kChunk, kChunk);
  pool.take(&to.carry, tiles * kChunk, kChunk);
  pool.take(&to.strong, tiles, 1);
  pool.take(&to.keys, tiles * kChunk, head_k_dim);
}

/// The operands of n tokens for the kernels of up to 64 memory slots.
void take_operands(PoolCutter& pool, ChunkOperands& to, const LayerSpec& l, std::size_t n) {
  const std::size_t tiles = divide_up(n, std::size_t{kChunk}) * size_of(l.num_kv_heads),
                    q = size_of(l.q_channels()), k = size_of(l.k_channels()),
                    v = size_of(l.v_channels());
  const std::size_t before = positional(l) ? kChunk : 0;
  pool.take(&to.q, n, q);
  pool.take(&to.k, n, k);
  pool.take(&to.v, n + before, v);
  if (positional(l)) {
    pool.take(&to.q_turned, n, q);
    pool.take(&to.q_near, n, q);
    pool.take(&to.k_turned, n + before, k);
    pool.take(&to.k_sink, kMostSinks, k);
    pool.take(&to.v_sink, kMostSinks, v);
  }
  to.gate_stride = l.num_kv_heads * l.common().num_memory_slots;
  pool.take(&to.gates, n, size_of(to.gate_stride));
  take_tiles(pool, to, tiles, size_of(l.head_k_dim));
  pool.take(&to.values, tiles * kChunk, size_of(l.head_v_dim));
}

/// The same for the broad kernels.
void take_broad_operands(PoolCutter& pool, ChunkOperands& to, const LayerSpec& l, std::size_t n) {
  const std::size_t chunks = divide_up(n, std::size_t{kChunk}),
                    blocks = divide_up(size_of(l.slots().num_memory_slots), std::size_t{kChunk}),
                    tiles = chunks * size_of(l.num_kv_heads) * blocks, k = size_of(l.k_channels()),
                    v = size_of(l.v_channels());
  const std::size_t before = positional(l) ? kBroadWindow : 0;
  pool.take(&to.k, n, k);
  pool.take(&to.v, n + before, v);
  if (positional(l)) {
    pool.take(&to.k_turned, n + before, k);
    pool.take(&to.k_turned_low, n + before, k);
    pool.take(&to.k_sink, kMostSinks, k);
    pool.take(&to.k_sink_low, kMostSinks, k);
    pool.take(&to.v_sink, kMostSinks, v);
    pool.take(&to.rotation, n + 1, size_of(l.head_k_dim / 2));
  }
  take_tiles(pool, to, tiles, size_of(l.head_k_dim));
  pool.take(&to.keys_low, tiles * kChunk, size_of(l.head_k_dim));
  pool.take(&to.values, tiles * kChunk, size_of(l.head_v_dim));
  const std::size_t parts = std::size_t{kMostSpans} * size_of(l.num_kv_heads) * blocks * kChunk;
  pool.take(&to.ends, parts,
            round_up(size_of(l.head_k_dim), 32) + round_up(size_of(l.head_v_dim), 32));
  pool.take(&to.span_decay, parts, 1);
}

}  // namespace

/// Values of 16 bits in the pool; sets the pointers of `o` if it is given.
std::size_t Recorder::slot_pool_values(const LayerSpec& l, ChunkOperands* o) const {
  PoolCutter pool(o != nullptr ? b_.slot_pool.get() : nullptr);
  ChunkOperands own;
  ChunkOperands& to = o != nullptr ? *o : own;
  const bool broad =
      l.kind() == Mixer::slots && chunk_kernels_of(mixer(l, false)) == ChunkKernels::broad;
  const auto n = static_cast<std::size_t>(max_tokens_);
  if (broad) {
    take_broad_operands(pool, to, l, n);
  } else {
    take_operands(pool, to, l, n);
  }
  return pool.used();
}

ChunkOperands Recorder::chunk_operands(const LayerSpec& layer) const {
  ChunkOperands o;
  slot_pool_values(layer, &o);
  return o;
}

bool Recorder::chunkwise(const LayerSpec& layer, const SlotMixer& mixer) const {
  return m_->slot_chunks && !m_->precise && (!layer.qkv_bias || mixer.k_bias != nullptr) &&
         chunk_kernels_of(mixer) != ChunkKernels::none;
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

bool Recorder::broad_slots(const Pass& pass, const LayerSpec& l) const {
  if (!pass.many || l.kind() != Mixer::slots) return false;
  const SlotMixer m = mixer(l, false);
  return chunkwise(l, m) && chunk_kernels_of(m) == ChunkKernels::broad;
}

bool Recorder::defers_biases(const Pass& pass, const LayerSpec& l) const {
  return m_->prefill.defer_biases && l.qkv_bias && broad_slots(pass, l);
}

bool Recorder::reads_bf16(const Pass& pass, const LayerSpec& l) const {
  if (fuses_slots(pass, l)) return true;
  const Matrix& m = weights_of(l).o_proj;
  return m_->prefill.bf16_outputs && broad_slots(pass, l) && l.output_norm != OutputNorm::heads &&
         m.type != BlockType::f32 && m.cols == l.o_channels() && l.o_channels() % 8 == 0 &&
         l.o_channels() <= 8192;
}

bool Recorder::fuses_slots(const Pass& pass, const LayerSpec& l) const {
  const DeviceLayer& w = weights_of(l);
  if (!pass.many || positional(l) || l.qkv_bias || l.conv_size > 0 ||
      l.output_norm == OutputNorm::heads || l.slots().feature_map == FeatureMap::t2r ||
      w.projections.size() != 1 || w.projections[0].matrix.type == BlockType::f32 ||
      l.o_channels() > 8192 || !chunkwise(l, mixer(l, true)) ||
      chunk_kernels_of(mixer(l, true)) != ChunkKernels::narrow) {
    return false;
  }
  return l.head_k_dim % 8 == 0 && l.head_v_dim % 8 == 0;
}

Status Recorder::project_slots(const Pass& pass, const LayerSpec& l) const {
  const DeviceLayer& w = weights_of(l);
  const Matrix& m = w.projections[0].matrix;
  RUNNEL_TRY(const Linear in, normed(pass, b_.x.get(), l.norm, w.norm));
  const Rows rows = rows_of(in, b_.operand.get());
  const int stride = rows.out_stride;
  RUNNEL_CHECK_OK(check(norm_rows(pass.launch, rows, pass.tokens), "norm rows"));
  RUNNEL_TRY(const void* weights, as_bf16(pass, m));
  const ChunkOperands o = chunk_operands(l);
  const int gates = l.gate_channels(), qkv = m.rows - gates;
  const WideMatmul product{.p = {.a = b_.operand.get(),
                                 .lda = stride,
                                 .b = weights,
                                 .ldb = m.cols,
                                 .tokens = pass.tokens,
                                 .rows = m.rows,
                                 .inner = m.cols},
                           .output = WideOutput::slots,
                           .slots = {.q = l.q_channels(),
                                     .k = l.k_channels(),
                                     .v = l.v_channels(),
                                     .f = gates,
                                     .activated = o.q,
                                     .gates = o.gates,
                                     .qk_act = act_of(l.slots().feature_map),
                                     .v_act = act_of(l.slots().value_activation)}};
  if (takes_wide(pass, m) && wide_matmul_fits(product))
    return check(wide_matmul(pass.launch, product, m_->prefill.tuning), "project slots");
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
  return check(activate_projections(pass.launch, mixer(l, false), pass.tokens, o),
               "activate projections");
}

Status Recorder::many_slots(const Pass& pass, const LayerSpec& layer, const SlotMixer& m) const {
  ChunkOperands o = chunk_operands(layer);
  if (fuses_slots(pass, layer)) {
    // One matrix [T, q + k + v]: it takes the place of the three, which lie one after another.
    const int q = m.heads * m.k_dim, k = m.kv_heads * m.k_dim, v = m.kv_heads * m.v_dim;
    o.k = o.q + q, o.v = o.k + k;
    o.q_stride = o.k_stride = o.v_stride = q + k + v;
    o.ready = true;
  }
  if (reads_bf16(pass, layer)) o.out_bf16 = reinterpret_cast<std::uint16_t*>(b_.o.get());
  SlotMixer own = m;
  if (defers_biases(pass, layer)) own.qkv_bias = weights_of(layer).qkv_bias;
  return check(
      slot_chunks(pass.launch, own, {b_.segments.get(), pass.tokens, m_->prefill.broad}, o),
      "slots, chunkwise");
}

Status Recorder::output_rows(const Pass& pass, const LayerSpec& l) const {
  const DeviceLayer& w = weights_of(l);
  const int n = l.o_channels(), stride = round_up(n, 32), d = m_->config.hidden_size;
  const auto skipped = static_cast<std::size_t>(pass.first_row);
  const bool normalise = l.output_norm != OutputNorm::none;
  const std::uint16_t* const from =
      reinterpret_cast<const std::uint16_t*>(b_.o.get()) + skipped * static_cast<std::size_t>(n);
  float* const x = b_.x.get() + skipped * static_cast<std::size_t>(d);
  if (!normalise && act_of(l.output_activation) == Act::identity)
    return multiply(pass, w.o_proj, from, n, x, d, WideOutput::add_f32);
  const Rows rows{.x_bf16 = from,
                  .x_stride = n,
                  .n = n,
                  .out_stride = stride,
                  .act = act_of(l.output_activation),
                  .normalise = normalise,
                  .eps = l.output_norm_eps,
                  .weight = normalise ? w.g_norm : nullptr,
                  .out = b_.operand.get()};
  RUNNEL_CHECK_OK(check(norm_rows(pass.launch, rows, pass.tokens), "norm rows"));
  return multiply(pass, w.o_proj, b_.operand.get(), stride, x, d, WideOutput::add_f32);
}

bool Recorder::fuses_swiglu(const Pass& pass, const LayerSpec& l) const {
  const DeviceLayer& w = weights_of(l);
  return w.gate_up.size() == 1 && takes_wide(pass, w.gate_up[0].matrix) &&
         w.down_proj.type != BlockType::f32 && l.intermediate_size % 32 == 0 &&
         w.down_proj.cols == l.intermediate_size;
}

Status Recorder::fused_swiglu(const Pass& pass, const LayerSpec& l) const {
  const DeviceLayer& w = weights_of(l);
  const int d = m_->config.hidden_size, inner = l.intermediate_size;
  float* const x =
      b_.x.get() + static_cast<std::size_t>(pass.first_row) * static_cast<std::size_t>(d);
  RUNNEL_TRY(const Linear in, normed(pass, x, l.channel_norm, w.channel_norm));
  const Rows rows = rows_of(in, b_.operand.get());
  RUNNEL_CHECK_OK(check(norm_rows(pass.launch, rows, pass.tokens), "norm rows"));
  const Matrix& m = w.gate_up[0].matrix;
  RUNNEL_TRY(const void* weights, as_bf16(pass, m));
  const WideMatmul product{.p = {.a = b_.operand.get(),
                                 .lda = rows.out_stride,
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
  return multiply(pass, w.down_proj, b_.h.get(), inner, x, d, WideOutput::add_f32);
}

}  // namespace runnel::cuda
