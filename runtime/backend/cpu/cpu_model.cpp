// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cpu/cpu_model.h"

#include <algorithm>
#include <cmath>

#include "runtime/backend/cpu/cpu_plan.h"
#include "runtime/base/try.h"

namespace runnel::cpu {
namespace {

/// A matrix and the tensor that fills it.
struct Packing {
  PackedMatrix* matrix;
  const WeightView* view;
};

/// Tiles packed as one item of a parallel loop.
struct Slice {
  Packing packing;
  int begin, end;
};

// Of tiles; a single tile of wide rows has more.
constexpr std::size_t kSliceBytes = std::size_t{1} << 19;

/// The bytes of the file that a slice is made of.
std::span<const std::byte> slice_bytes(const Slice& s) {
  const WeightView& view = *s.packing.view;
  const std::size_t row = view.data.size() / static_cast<std::size_t>(view.rows);
  const auto first = static_cast<std::size_t>(s.begin) * kTileRows;
  const auto last =
      std::min(static_cast<std::size_t>(s.end) * kTileRows, static_cast<std::size_t>(view.rows));
  return view.data.subspan(first * row, (last - first) * row);
}

/// Slices are packed in rounds, so that the caller sees progress and can stop: how many of `left` come next.
std::size_t slices_of_round(std::span<const Slice> left) {
  constexpr std::size_t kMost = 64;
  std::size_t bytes = slice_bytes(left.front()).size(), n = 1;
  while (n < std::min(kMost, left.size()) && bytes < kMost * kSliceBytes)
    bytes += slice_bytes(left[n++]).size();
  return n;
}

Status expect(const WeightView& view, std::int64_t rows, std::int64_t cols) {
  if (view.rows == rows && view.cols == cols) return {};
  return fail(ErrorCode::invalid_argument, view.name, ": is [", view.rows, ", ", view.cols,
              "], expected [", rows, ", ", cols, "]");
}

/// Plans `view` as [rows, cols] and queues it.
Status queue(const WeightView& view, std::int64_t rows, std::int64_t cols, PackedMatrix& matrix,
             std::vector<Packing>& packings) {
  RUNNEL_CHECK_OK(expect(view, rows, cols));
  RUNNEL_TRY(matrix, plan_packing(view));
  packings.push_back({&matrix, &view});
  return {};
}

/// Floats of a small tensor, or none if the model has no such tensor.
Status take(const WeightView& view, std::size_t count, std::vector<float>& out) {
  if (!view.present()) return {};
  RUNNEL_TRY(out, to_floats(view));
  if (out.size() == count) return {};
  return fail(ErrorCode::invalid_argument, view.name, ": has ", out.size(), " values, expected ",
              count);
}

/// The same of a matrix that a layer may lack.
Status queue_present(const WeightView& view, std::int64_t rows, std::int64_t cols,
                     PackedMatrix& matrix, std::vector<Packing>& packings) {
  return view.present() ? queue(view, rows, cols, matrix, packings) : Status{};
}

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

Status take_norm(const NormWeights& w, std::int64_t d, DeviceNorm& out) {
  RUNNEL_CHECK_OK(take(w.weight, count(d), out.weight));
  return take(w.bias, count(d), out.bias);
}

/// What both mixers have.
Status pack_projections(const LayerSpec& c, const ProjectionWeights& w, std::int64_t d,
                        std::int64_t f_cols, DeviceLayer& p, std::vector<Packing>& packings) {
  const std::int64_t q_rows = c.q_channels(), k_rows = c.k_channels(), v_rows = c.v_channels();
  RUNNEL_CHECK_OK(take_norm(w.norm, d, p.norm));
  RUNNEL_CHECK_OK(queue(w.q_proj, q_rows, d, p.q, packings));
  RUNNEL_CHECK_OK(queue_present(w.k_proj, k_rows, d, p.k, packings));
  RUNNEL_CHECK_OK(queue(w.v_proj, v_rows, d, p.v, packings));
  if (c.gate_channels() > 0)
    RUNNEL_CHECK_OK(queue(w.f_proj, c.gate_channels(), f_cols, p.f, packings));
  RUNNEL_CHECK_OK(take(w.q_bias, count(q_rows), p.q_bias));
  RUNNEL_CHECK_OK(take(w.k_bias, count(k_rows), p.k_bias));
  RUNNEL_CHECK_OK(take(w.v_bias, count(v_rows), p.v_bias));
  RUNNEL_CHECK_OK(take(w.f_bias, count(c.gate_channels()), p.f_bias));
  RUNNEL_CHECK_OK(take(w.q_conv, count(q_rows * c.conv_size), p.q_conv));
  RUNNEL_CHECK_OK(take(w.k_conv, count(k_rows * c.conv_size), p.k_conv));
  return take(w.v_conv, count(v_rows * c.conv_size), p.v_conv);
}

Status pack_slots(const LayerSpec& c, const SlotWeights& w, std::int64_t d, DeviceLayer& p,
                  std::vector<Packing>& packings) {
  RUNNEL_CHECK_OK(pack_projections(c, w, d, d, p, packings));
  RUNNEL_CHECK_OK(
      take(w.feature_map, count(std::int64_t{c.head_k_dim} * c.head_k_dim), p.feature_map));
  RUNNEL_CHECK_OK(take(w.head_read_bias, count(c.num_heads), p.head_read_bias));
  std::vector<float> read_bias;
  RUNNEL_CHECK_OK(take(w.read_bias, count(c.gate_channels()), read_bias));
  if (read_bias.empty()) return {};
  const std::int32_t slots = c.slots().num_memory_slots, lanes = p.layout.memory_lanes;
  p.read_bias.resize(count(std::int64_t{c.num_kv_heads} * lanes));
  for (int head = 0; head < c.num_kv_heads; ++head) {
    std::copy_n(read_bias.begin() + head * slots, slots, p.read_bias.begin() + head * lanes);
  }
  return {};
}

/// What shifted projections, a removal by own keys and a bonus have.
Status pack_shifted(const LayerSpec& c, const RecurrenceWeights& w, std::int64_t d, DeviceLayer& p,
                    std::vector<Packing>& packings) {
  const RecurrenceSpec& spec = c.recurrence();
  RUNNEL_CHECK_OK(queue_present(w.r_down, spec.rate_rank, d, p.r_down, packings));
  RUNNEL_CHECK_OK(
      queue_present(w.out_gate_down, spec.output_gate_rank, d, p.out_gate_down, packings));
  RUNNEL_CHECK_OK(queue_present(w.v_down, spec.value_rank, d, p.v_down, packings));
  RUNNEL_CHECK_OK(queue_present(w.v_mix, c.v_channels(), spec.value_rank, p.v_mix, packings));
  RUNNEL_CHECK_OK(take(w.v_mix_bias, count(c.v_channels()), p.v_mix_bias));
  RUNNEL_CHECK_OK(take(w.lerp, count(c.shifted_inputs() * d), p.lerp));
  RUNNEL_CHECK_OK(take(w.removal_key, count(c.k_channels()), p.removal_key));
  RUNNEL_CHECK_OK(take(w.key_rate, count(c.k_channels()), p.key_rate));
  return take(w.bonus, count(c.q_channels()), p.bonus);
}

Status pack_recurrence(const LayerSpec& c, const RecurrenceWeights& w, std::int64_t d,
                       DeviceLayer& p, std::vector<Packing>& packings) {
  const std::int64_t rank = c.recurrence().gate_rank, dim = c.head_k_dim;
  const RecurrenceSpec& spec = c.recurrence();
  const std::int64_t gates = c.gate_channels(), rates = c.rate_channels();
  RUNNEL_CHECK_OK(pack_projections(c, w, d, rank > 0 ? rank : d, p, packings));
  RUNNEL_CHECK_OK(queue_present(w.f_down, rank, d, p.f_down, packings));
  RUNNEL_CHECK_OK(
      queue_present(w.r_proj, rates, spec.rate_rank > 0 ? spec.rate_rank : d, p.r, packings));
  const std::int64_t out_rank = spec.output_gate_rank;
  if (c.output_gate) {
    RUNNEL_CHECK_OK(
        queue(w.out_gate, c.o_channels(), out_rank > 0 ? out_rank : d, p.out_gate, packings));
  }
  RUNNEL_CHECK_OK(pack_shifted(c, w, d, p, packings));
  RUNNEL_CHECK_OK(queue_present(w.q_map, dim, dim, p.q_map, packings));
  RUNNEL_CHECK_OK(queue_present(w.q_map2, dim, dim, p.q_map2, packings));
  RUNNEL_CHECK_OK(queue_present(w.k_map, dim, dim, p.k_map, packings));
  RUNNEL_CHECK_OK(queue_present(w.k_map2, dim, dim, p.k_map2, packings));
  RUNNEL_CHECK_OK(take(w.q_map_bias, count(dim), p.q_map_bias));
  RUNNEL_CHECK_OK(take(w.q_map2_bias, count(dim), p.q_map2_bias));
  RUNNEL_CHECK_OK(take(w.k_map_bias, count(dim), p.k_map_bias));
  RUNNEL_CHECK_OK(take(w.k_map2_bias, count(dim), p.k_map2_bias));
  RUNNEL_CHECK_OK(take(w.r_bias, count(rates), p.r_bias));
  RUNNEL_CHECK_OK(take(w.log_rate, count(c.num_kv_heads), p.decay_rate));
  for (float& rate : p.decay_rate) rate = std::exp(rate);
  return take(w.lower_bound, count(gates), p.lower_bound);
}

Status pack_layer(const LayerSpec& c, const LayerWeights& w, std::int64_t d, DeviceLayer& p,
                  std::vector<Packing>& packings) {
  switch (c.kind()) {
    case Mixer::slots:
      RUNNEL_CHECK_OK(pack_slots(c, w.slots(), d, p, packings));
      break;
    case Mixer::recurrence:
      RUNNEL_CHECK_OK(pack_recurrence(c, w.recurrence(), d, p, packings));
      break;
  }
  RUNNEL_CHECK_OK(queue(w.output.o_proj, d, c.o_channels(), p.o, packings));
  switch (c.output_norm) {
    case OutputNorm::none:
      break;
    case OutputNorm::channels:
      RUNNEL_CHECK_OK(take(w.output.g_norm, count(c.o_channels()), p.g_norm));
      break;
    case OutputNorm::heads:
      RUNNEL_CHECK_OK(take(w.output.g_norm, count(c.head_v_dim), p.g_norm));
      break;
    case OutputNorm::groups:
      RUNNEL_CHECK_OK(take(w.output.g_norm, count(c.o_channels()), p.g_norm));
      RUNNEL_CHECK_OK(take(w.output.g_norm_bias, count(c.o_channels()), p.g_norm_bias));
      break;
  }
  const ChannelMixWeights& m = w.channel_mix;
  switch (c.channel_mix) {
    case ChannelMix::swiglu:
      RUNNEL_CHECK_OK(queue(m.gate_proj, c.intermediate_size, d, p.gate, packings));
      break;
    case ChannelMix::squared_relu:
      break;
    case ChannelMix::none:
      return {};
  }
  RUNNEL_CHECK_OK(queue(m.up_proj, c.intermediate_size, d, p.up, packings));
  RUNNEL_CHECK_OK(queue(m.down_proj, d, c.intermediate_size, p.down, packings));
  RUNNEL_CHECK_OK(take(m.lerp, count(d), p.channel_lerp));
  return take_norm(m.norm, d, p.channel_norm);
}

/// The one rotation of all layers that rotate; check_config() has checked that they agree.
Rotation rotation_of(const ModelConfig& config) {
  Rotation r;
  for (const LayerSpec& layer : config.layers) {
    if (!layer.rotates()) continue;
    if (layer.kind() == Mixer::slots && layer.slots().num_sink_slots > 0) {
      r.sinks = true;
      r.sink_distance = static_cast<std::uint64_t>(layer.slots().sink_distance);
    }
    if (!r.frequencies.empty()) continue;
    for (int i = 0; i < layer.head_k_dim / 2; ++i) {
      r.frequencies.push_back(std::pow(layer.common().rope_theta, -2.0 * i / layer.head_k_dim));
    }
  }
  return r;
}

}  // namespace

Result<std::unique_ptr<DeviceModel>> CpuModel::load(const LoadRequest& request,
                                                    const Kernels& kernels, int threads) {
  RUNNEL_CHECK_OK(expect_ops(request.step_program, "cpu"));
  std::unique_ptr<CpuModel> model(new CpuModel);
  model->config_ = request.config;
  model->layout_ = NativeLayout::of(request.config);
  model->kernels_ = kernels;
  model->rotation_ = rotation_of(request.config);
  RUNNEL_TRY(model->pool_, ThreadPool::create(threads));
  RUNNEL_CHECK_OK(model->pack(request.weights, request.progress));
  return std::unique_ptr<DeviceModel>(std::move(model));
}

Status CpuModel::pack(const Weights& weights, const LoadProgress& progress) {
  const ModelConfig& c = config_;
  const std::int64_t d = c.hidden_size;
  std::vector<Packing> packings;
  RUNNEL_CHECK_OK(queue(weights.embeddings, c.vocab_size, d, embeddings_, packings));
  if (!weights.tied()) RUNNEL_CHECK_OK(queue(weights.head, c.vocab_size, d, head_, packings));
  RUNNEL_CHECK_OK(take_norm(weights.embedding_norm, d, embedding_norm_));
  RUNNEL_CHECK_OK(take_norm(weights.final_norm, d, final_norm_));
  layers_.resize(weights.layers.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].spec = c.layers[i];
    layers_[i].layout = layout_.layers[i];
    RUNNEL_CHECK_OK(pack_layer(c.layers[i], weights.layers[i], d, layers_[i], packings));
  }

  std::size_t total = 0;
  for (const Packing& p : packings) total += p.matrix->bytes();
  RUNNEL_TRY(arena_, PageBuffer::create(total));
  std::vector<Slice> slices;
  std::uint8_t* at = arena_.data();
  for (const Packing& p : packings) {
    p.matrix->data = at;
    at += p.matrix->bytes();
    const int tiles = std::max(1, static_cast<int>(kSliceBytes / p.matrix->tile_bytes));
    for (int t = 0; t < p.matrix->tiles; t += tiles) {
      slices.push_back({p, t, std::min(p.matrix->tiles, t + tiles)});
    }
  }
  if (weights.tied()) head_ = embeddings_;

  const auto all = static_cast<float>(slices.size());
  for (std::span<const Slice> left = slices; !left.empty();) {
    const std::span<const Slice> round = left.first(slices_of_round(left));
    left = left.subspan(round.size());
    pool_->for_each(static_cast<int>(round.size()), [&](int item, int) {
      const Slice& s = round[static_cast<std::size_t>(item)];
      pack_tiles(*s.packing.matrix, *s.packing.view, s.begin, s.end);
    });
    // So that the file's pages and the tiles are never both in memory as a whole.
    if (weights.release) {
      for (const Slice& s : round) weights.release(slice_bytes(s));
    }
    if (progress && !progress(1.0F - static_cast<float>(left.size()) / all)) {
      return fail(ErrorCode::cancelled, "load: stopped by the caller");
    }
  }
  return {};
}

Result<std::unique_ptr<RecurrentState>> CpuModel::create_state() const {
  return CpuState::create(layout_);
}

Result<std::unique_ptr<Plan>> CpuModel::record(int max_tokens, const Recording& recording) const {
  return CpuPlan::record(*this, max_tokens, recording);
}

MemoryUse CpuModel::memory() const {
  return {.weight_bytes = arena_.size(),
          .state_bytes = layout_.total_floats() * sizeof(float),
          .scratch_bytes = scratch_bytes_.load()};
}

}  // namespace runnel::cpu
