// SPDX-License-Identifier: Apache-2.0
// The buffers of a plan: each as large as the layer that needs most of it.
#include <algorithm>

#include "runtime/backend/cuda/plan_array.h"
#include "runtime/backend/cuda/recorder.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::cuda {

Status Recorder::allocate(int max_tokens) {
  const ModelConfig& c = m_->config;
  max_tokens_ = max_tokens;
  const auto n = static_cast<std::size_t>(max_tokens);
  const auto u = [](int v) { return static_cast<std::size_t>(v); };
  std::uint64_t bytes = 0;
  RUNNEL_CHECK_OK(plan_array(b_.tokens, n, "token ids", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.segments, n, "segments", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.x, n * hidden(), "the residual stream", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.logits, u(kLogitRows) * u(c.vocab_size), "logits", bytes));
  RUNNEL_CHECK_OK(allocate_inputs(bytes));
  RUNNEL_CHECK_OK(allocate_channel_mix(bytes));
  int widest = c.hidden_size;
  for (const LayerSpec& l : c.layers) {
    widest = std::max({widest, l.o_channels(), l.intermediate_size});
    if (l.mixer_shift == 0) continue;
    const RecurrenceSpec& r = l.recurrence();
    widest = std::max({widest, r.gate_rank, r.rate_rank, r.output_gate_rank, r.value_rank});
  }
  widest = round_up(widest, 32);
  if (m_->weights.has_f32_matrix)
    RUNNEL_CHECK_OK(plan_array(b_.operand_f32, n * u(widest), "matrix operands", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.operand, n * u(widest), "matrix operands", bytes));
  RUNNEL_CHECK_OK(
      plan_array(b_.unpacked, m_->weights.largest_unpacked, "an unpacked matrix", bytes));
  RUNNEL_CHECK_OK(allocate_recurrences(bytes));
  RUNNEL_CHECK_OK(allocate_removals(bytes));
  if (!m_->precise) RUNNEL_CHECK_OK(allocate_many(bytes));
  m_->scratch_bytes += bytes;
  return {};
}

Status Recorder::allocate_inputs(std::uint64_t& bytes) {
  const ModelConfig& c = m_->config;
  std::size_t columns = 0, outputs = 0;
  bool convolutions = false, layer_norms = c.final_norm.kind == Norm::layer;
  for (const LayerSpec& l : c.layers) {
    columns = std::max(columns, static_cast<std::size_t>(input_columns(l)));
    outputs = std::max(outputs, static_cast<std::size_t>(l.num_heads * l.value_columns()));
    convolutions = convolutions || l.conv_size > 0;
    layer_norms = layer_norms || l.norm.kind == Norm::layer || l.channel_norm.kind == Norm::layer ||
                  l.mixer_shift > 0 || l.channel_shift > 0;
  }
  const auto n = static_cast<std::size_t>(max_tokens_);
  RUNNEL_CHECK_OK(plan_array(b_.inputs, n * columns, "slot inputs", bytes));
  if (convolutions) RUNNEL_CHECK_OK(plan_array(b_.raw, n * columns, "convolution inputs", bytes));
  if (layer_norms) RUNNEL_CHECK_OK(plan_array(b_.normed, n * hidden(), "normed rows", bytes));
  return plan_array(b_.o, n * outputs, "slot outputs", bytes);
}

Status Recorder::allocate_channel_mix(std::uint64_t& bytes) {
  std::size_t ups = 0, inner = 0, blocks = 0;
  for (const LayerSpec& l : m_->config.layers) {
    const auto i = static_cast<std::size_t>(l.intermediate_size);
    ups = std::max(ups, l.channel_mix == ChannelMix::swiglu ? 2 * i : i);
    inner = std::max(inner, i);
    blocks = std::max(blocks, divide_up(i, std::size_t{32}));
  }
  const auto n = static_cast<std::size_t>(max_tokens_);
  RUNNEL_CHECK_OK(plan_array(b_.gate_up, n * ups, "gate and up", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.h, n * inner, "the hidden layer", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.h_words, n * blocks * 8, "the hidden layer", bytes));
  return plan_array(b_.h_meta, n * blocks, "the hidden layer", bytes);
}

Status Recorder::allocate_recurrences(std::uint64_t& bytes) {
  std::size_t q = 0, k = 0, slot_keys = 0, decays = 0, logits = 0, y = 0, maxima = 0;
  const auto most = [](std::size_t& of, std::int64_t n) {
    of = std::max(of, static_cast<std::size_t>(n));
  };
  for (const LayerSpec& l : m_->config.layers) {
    if (l.kind() == Mixer::slots) {
      if (l.output_norm == OutputNorm::heads) most(y, l.o_channels());
      continue;
    }
    const std::int64_t heads = l.num_heads, kv = l.num_kv_heads;
    const std::int64_t slots = l.common().num_memory_slots;
    const std::int64_t keys = std::max(std::int64_t{l.feature_dim()}, slots);
    most(q, heads * l.feature_dim());
    most(k, kv * keys);
    most(slot_keys, slots > 0 ? l.k_channels() : 0);
    most(decays, kv * std::max(keys, std::int64_t{l.head_v_dim}));
    most(logits, heads * slots);
    most(y, l.o_channels());
    if (l.common().feature_map == FeatureMap::exponential) most(maxima, kv);
  }
  const auto n = static_cast<std::size_t>(max_tokens_);
  RUNNEL_CHECK_OK(plan_array(b_.features_q, n * q, "query features", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.features_k, n * k, "key features", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.slot_keys, n * slot_keys, "slot keys", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.decays, n * decays, "decays", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.slot_logits, n * logits, "slot logits", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.y, n * y, "mixer outputs", bytes));
  if (maxima > 0) {
    RUNNEL_CHECK_OK(plan_array(b_.maxima, n * maxima, "key maxima", bytes));
    RUNNEL_CHECK_OK(plan_array(b_.before, n * maxima, "key maxima", bytes));
    RUNNEL_CHECK_OK(
        plan_array(b_.arrived, m_->config.layers.size() * n * maxima, "counters", bytes));
    RUNNEL_CHECK_OK(
        check(cudaMemset(b_.arrived.get(), 0, b_.arrived.bytes()), "clear the counters"));
    arrived_a_layer_ = n * maxima;
  }
  return m_->precise ? Status() : allocate_maps(bytes);
}

Status Recorder::allocate_removals(std::uint64_t& bytes) {
  std::int64_t inputs = 0, width = 0, removed = 0, in_chunks = 0, bonus = 0, first_v = 0;
  for (const LayerSpec& l : m_->config.layers) {
    if (l.channel_shift > 0) inputs = std::max<std::int64_t>(inputs, 1);
    if (l.kind() != Mixer::recurrence) continue;
    const RecurrenceSpec& r = l.recurrence();
    inputs = std::max<std::int64_t>(inputs, l.shifted_inputs());
    if (l.mixer_shift > 0) {
      width = std::max<std::int64_t>(
          {width, r.gate_rank, r.rate_rank, r.output_gate_rank, r.value_rank});
    }
    if (r.removal != Removal::none)
      removed = std::max(removed, std::int64_t{l.num_kv_heads} * l.head_k_dim);
    if (r.removal != Removal::none && removal_chunks_fit(removal_layer(l)))
      in_chunks = std::max(in_chunks, std::int64_t{l.num_kv_heads} * l.head_k_dim);
    if (r.bonus) bonus = std::max<std::int64_t>(bonus, l.num_heads);
    first_v = std::max(first_v, columns_of(PassBuffer::first_v, l, m_->config.hidden_size));
  }
  const auto n = static_cast<std::size_t>(max_tokens_);
  const auto floats = [n](std::int64_t columns) { return n * static_cast<std::size_t>(columns); };
  width = std::max<std::int64_t>(width, m_->config.hidden_size);
  shifted_floats_ = round_up(floats(width), std::size_t{4});
  RUNNEL_CHECK_OK(plan_array(b_.shifted, static_cast<std::size_t>(inputs) * shifted_floats_,
                             "shifted inputs", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.removal_c, floats(removed), "removals", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.removal_b, floats(removed), "removals", bytes));
  const std::size_t chunks = (n + kRemovalChunk - 1) / kRemovalChunk;  // of a pass of one segment
  RUNNEL_CHECK_OK(plan_array(b_.removal_taken, floats(in_chunks), "removals", bytes));
  RUNNEL_CHECK_OK(
      plan_array(b_.removal_kept, chunks * static_cast<std::size_t>(in_chunks), "removals", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.bonus, floats(bonus), "bonuses", bytes));
  return plan_array(b_.first_v, floats(first_v), "values of the first layer", bytes);
}

Status Recorder::allocate_maps(std::uint64_t& bytes) {
  std::size_t rows = 0, weights = 0, products = 0;
  const auto n = static_cast<std::size_t>(max_tokens_);
  for (const LayerSpec& l : m_->config.layers) {
    if (l.kind() != Mixer::recurrence || l.recurrence().removal != Removal::none) continue;
    const Recurrence shape = recurrence(l);
    if (!recurrence_maps_apart(shape)) continue;
    const auto k = static_cast<std::size_t>(l.head_k_dim);
    const std::size_t all = n * static_cast<std::size_t>(l.num_heads);
    const std::size_t matrices = shape.q_map.second != nullptr ? 2 : 1;
    rows = std::max(rows, all * 3 * k);
    weights = std::max(weights, matrices * k * 3 * k);
    products = std::max(products, all * matrices * k);
  }
  RUNNEL_CHECK_OK(plan_array(b_.map_rows, rows, "map operands", bytes));
  RUNNEL_CHECK_OK(plan_array(b_.map_weights, weights, "map operands", bytes));
  return plan_array(b_.map_products, products, "map products", bytes);
}

Status Recorder::allocate_many(std::uint64_t& bytes) {
  std::size_t values = 0;
  for (const LayerSpec& l : m_->config.layers) {
    const bool removes = l.kind() == Mixer::recurrence && l.recurrence().removal != Removal::none;
    const bool slots = l.kind() == Mixer::slots || (!removes && recurrence_is_slots(recurrence(l)));
    if (slots) values = std::max(values, slot_pool_values(l, nullptr));
  }
  return plan_array(b_.slot_pool, values, "chunkwise slots", bytes);
}

ProbedRows Recorder::probed(PassBuffer buffer, const LayerSpec& layer) const {
  RecurrenceColumns at;
  switch (layer.kind()) {
    case Mixer::slots:
      at.q = 0;
      at.k = layer.q_channels();
      at.v = at.k + layer.k_channels();
      at.f = at.v + layer.v_channels();
      break;
    case Mixer::recurrence:
      at = recurrence_columns(layer);
      break;
  }
  const auto rows = [](float* first, int columns) {
    return ProbedRows{first, static_cast<std::size_t>(columns) * sizeof(float)};
  };
  const auto inputs = [&](int column) {
    return column < 0 ? ProbedRows() : rows(b_.inputs.get() + column, input_columns(layer));
  };
  switch (buffer) {
    case PassBuffer::x:
      return rows(b_.x.get(), m_->config.hidden_size);
    case PassBuffer::q:
      return inputs(at.q);
    case PassBuffer::k:
      return inputs(at.k);
    case PassBuffer::v:
      return inputs(at.v);
    case PassBuffer::f:
      return inputs(at.f);
    case PassBuffer::r:
      return inputs(at.r);
    case PassBuffer::gate:
      return inputs(at.gate);
    case PassBuffer::first_v:
      return rows(b_.first_v.get(), layer.v_channels());
    case PassBuffer::o:
      break;
  }
  return rows(b_.o.get(), layer.num_heads * layer.value_columns());
}

}  // namespace runnel::cuda
