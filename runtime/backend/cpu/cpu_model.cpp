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

/// The bytes of the file that a slice is made of.
std::span<const std::byte> slice_bytes(const Slice& s) {
  const WeightView& view = *s.packing.view;
  const std::size_t row = view.data.size() / static_cast<std::size_t>(view.rows);
  const auto first = static_cast<std::size_t>(s.begin) * kTileRows;
  const auto last =
      std::min(static_cast<std::size_t>(s.end) * kTileRows, static_cast<std::size_t>(view.rows));
  return view.data.subspan(first * row, (last - first) * row);
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

}  // namespace

Result<std::unique_ptr<DeviceModel>> CpuModel::load(const ModelConfig& config,
                                                    const Weights& weights, const Kernels& kernels,
                                                    int threads, const LoadProgress& progress) {
  std::unique_ptr<CpuModel> model(new CpuModel);
  model->config_ = config;
  model->layout_ = NativeLayout::of(config);
  model->kernels_ = &kernels;
  for (int i = 0; i < config.head_k_dim / 2; ++i) {
    model->frequencies_.push_back(std::pow(config.rope_theta, -2.0 * i / config.head_k_dim));
  }
  RUNNEL_TRY(model->pool_, ThreadPool::create(threads));
  RUNNEL_CHECK_OK(model->pack(weights, progress));
  return std::unique_ptr<DeviceModel>(std::move(model));
}

Status CpuModel::pack(const Weights& weights, const LoadProgress& progress) {
  const ModelConfig& c = config_;
  const std::int64_t d = c.hidden_size, inner = c.intermediate_size;
  const std::int64_t q_rows = std::int64_t{c.num_heads} * c.head_k_dim;
  const std::int64_t k_rows = std::int64_t{c.num_kv_heads} * c.head_k_dim;
  const std::int64_t v_rows = std::int64_t{c.num_kv_heads} * c.head_v_dim;
  const std::int64_t f_rows = std::int64_t{c.num_kv_heads} * c.gate_dim();
  const std::int64_t dim = c.head_k_dim;
  const std::int64_t f_cols = c.gate_rank > 0 ? c.gate_rank : d;
  const std::int64_t o_cols = std::int64_t{c.num_heads} * c.head_v_dim;
  const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };

  std::vector<Packing> packings;
  RUNNEL_CHECK_OK(queue(weights.embeddings, c.vocab_size, d, embeddings_, packings));
  if (!weights.tied()) RUNNEL_CHECK_OK(queue(weights.head, c.vocab_size, d, head_, packings));
  RUNNEL_CHECK_OK(take(weights.final_norm, count(d), final_norm_));
  layers_.resize(weights.layers.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerWeights& w = weights.layers[i];
    PackedLayer& p = layers_[i];
    RUNNEL_CHECK_OK(queue(w.q_proj, q_rows, d, p.q, packings));
    if (!c.complement_keys) RUNNEL_CHECK_OK(queue(w.k_proj, k_rows, d, p.k, packings));
    RUNNEL_CHECK_OK(queue(w.v_proj, v_rows, d, p.v, packings));
    if (f_rows > 0) RUNNEL_CHECK_OK(queue(w.f_proj, f_rows, f_cols, p.f, packings));
    if (c.mixer == Mixer::recurrence) {
      const auto some = [&packings](const WeightView& view, std::int64_t rows, std::int64_t cols,
                                    PackedMatrix& matrix) -> Status {
        return view.present() ? queue(view, rows, cols, matrix, packings) : Status{};
      };
      RUNNEL_CHECK_OK(some(w.f_down, c.gate_rank, d, p.f_down));
      RUNNEL_CHECK_OK(some(w.r_proj, f_rows, d, p.r));
      if (c.output_gate) RUNNEL_CHECK_OK(some(w.out_gate, o_cols, d, p.out_gate));
      RUNNEL_CHECK_OK(some(w.q_map, dim, dim, p.q_map));
      RUNNEL_CHECK_OK(some(w.q_map2, dim, dim, p.q_map2));
      RUNNEL_CHECK_OK(some(w.k_map, dim, dim, p.k_map));
      RUNNEL_CHECK_OK(some(w.k_map2, dim, dim, p.k_map2));
      RUNNEL_CHECK_OK(take(w.q_map_bias, count(dim), p.q_map_bias));
      RUNNEL_CHECK_OK(take(w.q_map2_bias, count(dim), p.q_map2_bias));
      RUNNEL_CHECK_OK(take(w.k_map_bias, count(dim), p.k_map_bias));
      RUNNEL_CHECK_OK(take(w.k_map2_bias, count(dim), p.k_map2_bias));
      RUNNEL_CHECK_OK(take(w.r_bias, count(f_rows), p.r_bias));
      RUNNEL_CHECK_OK(take(w.lower_bound, count(f_rows), p.lower_bound));
    }
    RUNNEL_CHECK_OK(queue(w.o_proj, d, o_cols, p.o, packings));
    RUNNEL_CHECK_OK(queue(w.gate_proj, inner, d, p.gate, packings));
    RUNNEL_CHECK_OK(queue(w.up_proj, inner, d, p.up, packings));
    RUNNEL_CHECK_OK(queue(w.down_proj, d, inner, p.down, packings));
    RUNNEL_CHECK_OK(take(w.attn_norm, count(d), p.attn_norm));
    RUNNEL_CHECK_OK(take(w.mlp_norm, count(d), p.mlp_norm));
    if (c.output_norm) {
      RUNNEL_CHECK_OK(take(w.g_norm, count(c.output_norm_heads ? c.head_v_dim : o_cols), p.g_norm));
    }
    RUNNEL_CHECK_OK(take(w.f_bias, count(f_rows), p.f_bias));
    RUNNEL_CHECK_OK(take(w.head_read_bias, count(c.num_heads), p.head_read_bias));
    std::vector<float> read_bias;
    RUNNEL_CHECK_OK(take(w.read_bias, count(f_rows), read_bias));
    if (!read_bias.empty()) {
      p.read_bias.resize(count(c.num_kv_heads) * count(layout_.memory_lanes));
      for (int head = 0; head < c.num_kv_heads; ++head) {
        std::copy_n(read_bias.begin() + head * c.num_memory_slots, c.num_memory_slots,
                    p.read_bias.begin() + head * layout_.memory_lanes);
      }
    }
    if (c.conv_size > 0) {
      RUNNEL_CHECK_OK(take(w.q_conv, count(q_rows * c.conv_size), p.q_conv));
      RUNNEL_CHECK_OK(take(w.k_conv, count(k_rows * c.conv_size), p.k_conv));
      RUNNEL_CHECK_OK(take(w.v_conv, count(v_rows * c.conv_size), p.v_conv));
    }
    if (c.mixer == Mixer::slots && c.feature_map == FeatureMap::t2r) {
      RUNNEL_CHECK_OK(
          take(w.feature_map, count(std::int64_t{c.head_k_dim} * c.head_k_dim), p.feature_map));
    }
  }

  std::size_t total = 0;
  for (const Packing& p : packings) total += p.matrix->bytes();
  RUNNEL_TRY(arena_, PageBuffer::create(total));
  std::vector<Slice> slices;
  std::uint8_t* at = arena_.data();
  constexpr std::size_t kSliceBytes = std::size_t{1} << 19;
  for (const Packing& p : packings) {
    p.matrix->data = at;
    at += p.matrix->bytes();
    const int tiles = std::max(1, static_cast<int>(kSliceBytes / p.matrix->tile_bytes));
    for (int t = 0; t < p.matrix->tiles; t += tiles) {
      slices.push_back({p, t, std::min(p.matrix->tiles, t + tiles)});
    }
  }
  if (weights.tied()) head_ = embeddings_;

  // In rounds, so that the caller sees progress and can stop.
  constexpr int kRound = 64;
  const int n = static_cast<int>(slices.size());
  for (int first = 0; first < n; first += kRound) {
    const int items = std::min(kRound, n - first);
    pool_->for_each(items, [&](int item, int) {
      const Slice& s = slices[static_cast<std::size_t>(first) + static_cast<std::size_t>(item)];
      pack_tiles(*s.packing.matrix, *s.packing.view, s.begin, s.end);
    });
    // So that the file's pages and the tiles are never both in memory as a whole.
    for (int item = 0; item < items && weights.release; ++item) {
      const Slice& s = slices[static_cast<std::size_t>(first) + static_cast<std::size_t>(item)];
      weights.release(slice_bytes(s));
    }
    if (progress && !progress(static_cast<float>(first + items) / static_cast<float>(n))) {
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
