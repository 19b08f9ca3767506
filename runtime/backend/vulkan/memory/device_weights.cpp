// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/memory/device_weights.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "quant/quantise.h"
#include "quant/repack.h"
#include "runtime/backend/vulkan/memory/packed_matrix.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

constexpr std::uint64_t kMaxBlockBytes = 1024U << 20;  // of one allocation
constexpr std::uint64_t kStagingBytes = 16U << 20;

/// The stored rows of a matrix: views one after the other, or two in alternation.
struct RowSource {
  std::vector<const WeightView*> views;
  bool alternate = false;

  /// Row `r` as the type that is kept, see quant::RowReader.
  std::span<const std::byte> row(std::int64_t r, std::span<quant::RowReader> readers) const {
    std::size_t which = 0;
    if (alternate) {
      which = static_cast<std::size_t>(r % 2);
      r /= 2;
    } else {
      while (r >= views[which]->rows) r -= views[which++]->rows;
    }
    const WeightView& w = *views[which];
    const std::size_t bytes = quant::row_bytes(w.type, w.cols);
    return readers[which](w.data.subspan(static_cast<std::size_t>(r) * bytes, bytes));
  }
  std::vector<quant::RowReader> readers() const {
    std::vector<quant::RowReader> all;
    for (const WeightView* w : views) all.emplace_back(w->type, quant::kept_as(w->type), w->cols);
    return all;
  }
};

/// Decides where everything goes, then uploads it.
class Loader {
 public:
  Loader(Device& device, const LoadProgress& progress) : device_(device), progress_(progress) {}

  /// @param most_rows  of a part
  void add(DeviceMatrix& matrix, RowSource source, std::int64_t most_rows = kMostPartRows) {
    const WeightView& first = *source.views.front();
    matrix.type = quant::kept_as(first.type);
    matrix.cols = first.cols;
    matrix.rows = 0;
    for (const WeightView* view : source.views) matrix.rows += view->rows;
    jobs_.push_back({&matrix, std::move(source), most_rows});
  }

  /// The values of a small tensor as f32, or kNone.
  Result<std::uint32_t> add_vector(const WeightView& w) {
    if (!w.present()) return kNone;
    const std::size_t at = floats_.size();
    const std::size_t n = static_cast<std::size_t>(w.rows * w.cols);
    floats_.resize(at + n);
    RUNNEL_CHECK_OK(
        quant::dequantize_rows(w.type, w.data, w.cols, std::span(floats_).subspan(at, n)));
    return static_cast<std::uint32_t>(at);
  }

  /// The same, at a whole vector of 4 floats.
  Result<std::uint32_t> add_norm(const WeightView& w) {
    floats_.resize(round_up(floats_.size(), 4U));
    return add_vector(w);
  }
  Result<DeviceNorm> add_norm(const NormWeights& w) {
    DeviceNorm norm;
    RUNNEL_TRY(norm.weight, add_norm(w.weight));
    RUNNEL_TRY(norm.bias, add_vector(w.bias));
    return norm;
  }

  /// The biases of q, k and v one after the other, zeros for one that is missing.
  Result<std::uint32_t> add_biases(const LayerSpec& l, const ProjectionWeights& w) {
    if (!l.qkv_bias) return kNone;
    const std::size_t at = floats_.size();
    for (const auto& [view, channels] :
         {std::pair(&w.q_bias, l.q_channels()), std::pair(&w.k_bias, l.k_channels()),
          std::pair(&w.v_bias, l.v_channels())}) {
      if (view->present()) {
        RUNNEL_CHECK_OK(add_vector(*view));
      } else {
        floats_.resize(floats_.size() + static_cast<std::size_t>(channels));
      }
    }
    return static_cast<std::uint32_t>(at);
  }

  Status place() {
    const DeviceFacts& c = device_.facts();
    const std::uint64_t part_limit = std::min(c.storage_range, kMostPartBytes);
    // Where a token is one dispatch, all layers are one binding.
    const std::uint64_t block_limit = std::min(
        c.allocation_bytes,
        c.resident_groups > 0 ? std::max(c.storage_range, kMaxBlockBytes) : kMaxBlockBytes);
    block_bytes_.push_back(0);
    for (Job& job : jobs_) {
      DeviceMatrix& m = *job.matrix;
      std::int64_t rows = std::min(m.rows, job.most_rows);
      while (rows > 8 && part_bytes(m, rows) > part_limit) rows = round_up(rows / 2, 8);
      if (part_bytes(m, rows) > part_limit) {
        return fail(ErrorCode::unsupported, device_.id(), ": ", job.source.views.front()->name,
                    ": 8 rows of ", m.cols, " columns take ", part_bytes(m, rows),
                    " bytes, expected at most ", part_limit);
      }
      for (std::int64_t first = 0; first < m.rows; first += rows) {
        const std::int64_t n = std::min(rows, m.rows - first);
        const std::uint64_t bytes = part_bytes(m, n);
        std::uint64_t offset = align(block_bytes_.back());
        if (offset + bytes > block_limit) {
          block_bytes_.push_back(0);
          offset = 0;
        }
        block_bytes_.back() = offset + bytes;
        part_blocks_.push_back(block_bytes_.size() - 1);
        const PartLayout layout = part_layout(m.type, n, m.cols);
        m.parts.push_back({.rows = {.first_row = static_cast<std::uint32_t>(first),
                                    .rows = static_cast<std::uint32_t>(n),
                                    .scales = static_cast<std::uint32_t>(layout.scales),
                                    .high = static_cast<std::uint32_t>(layout.high)},
                           .range = {VK_NULL_HANDLE, offset, bytes}});
        total_ += bytes;
      }
    }
    if (floats_.size() * sizeof(float) > c.storage_range) {
      return fail(ErrorCode::unsupported, device_.id(), ": norms, biases and convolutions take ",
                  floats_.size() * sizeof(float), " bytes, expected at most ", c.storage_range);
    }
    return {};
  }

  Status upload(std::vector<Buffer>& blocks, Buffer& vectors) {
    for (const std::uint64_t bytes : block_bytes_) {
      RUNNEL_TRY(Buffer block, device_.create_buffer(std::max<std::uint64_t>(bytes, 16),
                                                     MemoryKind::device, "weights"));
      blocks.push_back(std::move(block));
    }
    floats_.resize(std::max<std::size_t>(floats_.size(), 4));
    RUNNEL_TRY(vectors, device_.create_buffer(floats_.size() * sizeof(float), MemoryKind::device,
                                              "norms and biases"));
    RUNNEL_TRY(staging_, device_.create_buffer(kStagingBytes, MemoryKind::input, "staging"));
    RUNNEL_TRY(pool_, device_.create_command_pool());
    RUNNEL_TRY(commands_, device_.allocate_commands(pool_));
    RUNNEL_CHECK_OK(copy({vectors.get(), 0, vectors.bytes}, std::as_bytes(std::span(floats_))));
    std::size_t which = 0;
    std::uint64_t done = 0;
    std::vector<std::uint32_t> packed;
    for (const Job& job : jobs_) {
      std::vector<quant::RowReader> readers = job.source.readers();
      for (DeviceMatrix::Part& part : job.matrix->parts) {
        part.range.buffer = blocks[part_blocks_[which++]].get();
        const PartLayout layout = part_layout(job.matrix->type, part.rows.rows, job.matrix->cols);
        packed.assign(layout.words, 0);
        for (std::uint32_t r = 0; r < part.rows.rows; ++r) {
          pack_row(job.matrix->type, job.source.row(part.rows.first_row + std::int64_t{r}, readers),
                   r, job.matrix->cols, layout, packed);
        }
        RUNNEL_CHECK_OK(copy(part.range, std::as_bytes(std::span(packed))));
        done += part.range.bytes;
        if (progress_ &&
            !progress_(static_cast<float>(static_cast<double>(done) / static_cast<double>(total_))))
          return fail(ErrorCode::cancelled, "load: stopped by the caller");
      }
    }
    return {};
  }

 private:
  struct Job {
    DeviceMatrix* matrix;
    RowSource source;
    std::int64_t most_rows;
  };

  static std::uint64_t part_bytes(const DeviceMatrix& m, std::int64_t rows) {
    return part_layout(m.type, rows, m.cols).words * sizeof(std::uint32_t);
  }

  std::uint64_t align(std::uint64_t offset) const {
    const std::uint64_t to = std::max(kMatrixAlignment, device_.facts().storage_alignment);
    return round_up(offset, to);
  }

  Status copy(const Range& to, std::span<const std::byte> bytes) {
    const DeviceFunctions& f = device_.functions();
    for (std::size_t at = 0; at < bytes.size(); at += kStagingBytes) {
      const std::size_t n = std::min<std::size_t>(kStagingBytes, bytes.size() - at);
      std::memcpy(staging_.mapped, bytes.data() + at, n);
      RUNNEL_VK_CHECK(f.vkResetCommandPool(device_.handle(), pool_.get(), 0),
                      device_.named("vkResetCommandPool"));
      const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
      RUNNEL_VK_CHECK(f.vkBeginCommandBuffer(commands_, &begin),
                      device_.named("vkBeginCommandBuffer"));
      full_barrier(f, commands_);
      const VkBufferCopy region{.srcOffset = 0, .dstOffset = to.offset + at, .size = n};
      f.vkCmdCopyBuffer(commands_, staging_.get(), to.buffer, 1, &region);
      RUNNEL_VK_CHECK(f.vkEndCommandBuffer(commands_), device_.named("vkEndCommandBuffer"));
      RUNNEL_CHECK_OK(device_.run(std::span(&commands_, 1)));
    }
    return {};
  }

  Device& device_;
  const LoadProgress& progress_;
  std::vector<Job> jobs_;
  std::vector<float> floats_;
  std::vector<std::uint64_t> block_bytes_;
  std::vector<std::size_t> part_blocks_;  // block of each part, in order of jobs
  std::uint64_t total_ = 0;
  Buffer staging_;
  OwnedCommandPool pool_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

bool stored_alike(const WeightView& a, const WeightView& b) {
  return quant::kept_as(a.type) == quant::kept_as(b.type) && a.cols == b.cols;
}

/// What makes a row of projections, in the order of its columns; some may be missing. The convolutions are on the
/// first three.
std::vector<const WeightView*> projections_of(const LayerSpec& l, const LayerWeights& layer) {
  const ProjectionWeights& w = layer.projections();
  switch (l.kind()) {
    case Mixer::slots:
      return {&w.q_proj, &w.k_proj, &w.v_proj, &w.f_proj};
    case Mixer::recurrence: {
      const RecurrenceWeights& r = layer.recurrence();
      const bool complement = l.recurrence().complement_keys,
                 low_rank = l.recurrence().gate_rank > 0;
      std::vector<const WeightView*> all{&w.q_proj, complement ? &w.f_proj : &w.k_proj, &w.v_proj};
      if (low_rank) all.push_back(&r.f_down);
      if (!low_rank && !complement) all.push_back(&w.f_proj);
      all.push_back(&r.r_proj);
      if (l.output_gate) all.push_back(&r.out_gate);
      return all;
    }
  }
  return {};
}

/// Neighbours of one type become one matrix.
void add_projections(Loader& loader, const LayerSpec& l, const LayerWeights& w,
                     DeviceLayer& layer) {
  std::vector<RowSource> sources;
  std::uint32_t column = 0;
  for (const WeightView* view : projections_of(l, w)) {
    if (!view->present()) continue;
    if (sources.empty() || !stored_alike(*sources.back().views.back(), *view)) {
      sources.emplace_back();
      layer.projections.push_back({.matrix = {}, .column = column});
    }
    sources.back().views.push_back(view);
    column += static_cast<std::uint32_t>(view->rows);
  }
  for (std::size_t i = 0; i < sources.size(); ++i)
    loader.add(layer.projections[i].matrix, std::move(sources[i]));
}

Status add_removal_vectors(Loader& loader, const RecurrenceWeights& r, DeviceLayer& layer) {
  RUNNEL_TRY(layer.log_rate, loader.add_vector(r.log_rate));
  RUNNEL_TRY(layer.removal_key, loader.add_vector(r.removal_key));
  RUNNEL_TRY(layer.key_rate, loader.add_vector(r.key_rate));
  RUNNEL_TRY(layer.bonus, loader.add_vector(r.bonus));
  RUNNEL_TRY(layer.lerp, loader.add_norm(r.lerp));
  RUNNEL_TRY(layer.v_mix_bias, loader.add_vector(r.v_mix_bias));
  return {};
}

/// The products of shifted projections.
void add_shifted(Loader& loader, const RecurrenceWeights& r, DeviceLayer& layer) {
  struct Pair {
    DeviceMatrix& matrix;
    const WeightView& view;
  };
  for (const Pair& p :
       {Pair{layer.q, r.q_proj}, Pair{layer.k, r.k_proj}, Pair{layer.v, r.v_proj},
        Pair{layer.down[0], r.f_down}, Pair{layer.up[0], r.f_proj}, Pair{layer.down[1], r.r_down},
        Pair{layer.up[1], r.r_proj}, Pair{layer.down[2], r.out_gate_down},
        Pair{layer.up[2], r.out_gate}, Pair{layer.down[3], r.v_down}, Pair{layer.up[3], r.v_mix}}) {
    if (p.view.present()) loader.add(p.matrix, {.views = {&p.view}});
  }
}

Status add_mixer(Loader& loader, const LayerSpec& l, const LayerWeights& weights,
                 DeviceLayer& layer) {
  const ProjectionWeights& w = weights.projections();
  RUNNEL_TRY(layer.norm, loader.add_norm(w.norm));
  RUNNEL_TRY(layer.qkv_bias, loader.add_biases(l, w));
  RUNNEL_TRY(layer.f_bias, loader.add_vector(w.f_bias));
  RUNNEL_TRY(layer.conv, loader.add_vector(w.q_conv));
  RUNNEL_CHECK_OK(loader.add_vector(w.k_conv));  // adjacent: channels count through q, k, v
  RUNNEL_CHECK_OK(loader.add_vector(w.v_conv));
  switch (l.kind()) {
    case Mixer::slots: {
      const SlotWeights& s = weights.slots();
      RUNNEL_TRY(layer.feature_map, loader.add_vector(s.feature_map));
      RUNNEL_TRY(layer.read_bias, loader.add_vector(s.read_bias));
      RUNNEL_TRY(layer.head_read_bias, loader.add_vector(s.head_read_bias));
      break;
    }
    case Mixer::recurrence: {
      const RecurrenceWeights& r = weights.recurrence();
      if (l.recurrence().gate_rank > 0 && l.mixer_shift == 0) {
        RUNNEL_TRY(layer.f_up, loader.add_vector(w.f_proj));
      }
      RUNNEL_TRY(layer.r_bias, loader.add_vector(r.r_bias));
      RUNNEL_CHECK_OK(add_removal_vectors(loader, r, layer));
      RUNNEL_TRY(layer.lower_bound, loader.add_vector(r.lower_bound));
      RUNNEL_TRY(layer.maps, loader.add_vector(r.q_map));
      for (const WeightView* view : {&r.q_map_bias, &r.q_map2, &r.q_map2_bias, &r.k_map,
                                     &r.k_map_bias, &r.k_map2, &r.k_map2_bias}) {
        RUNNEL_CHECK_OK(loader.add_vector(*view));  // adjacent
      }
      break;
    }
  }
  RUNNEL_TRY(layer.g_norm, loader.add_norm(weights.output.g_norm));
  RUNNEL_TRY(layer.g_norm_bias, loader.add_vector(weights.output.g_norm_bias));
  return {};
}

void add_channel_mix(Loader& loader, const LayerSpec& l, const ChannelMixWeights& w,
                     DeviceLayer& layer) {
  switch (l.channel_mix) {
    case ChannelMix::none:
      return;
    case ChannelMix::squared_relu:
      layer.gate_up.resize(1);
      loader.add(layer.gate_up[0], {.views = {&w.up_proj}});
      break;
    case ChannelMix::swiglu:
      if (stored_alike(w.gate_proj, w.up_proj)) {
        layer.gate_up.resize(1);
        loader.add(layer.gate_up[0], {.views = {&w.gate_proj, &w.up_proj}, .alternate = true});
      } else {
        layer.gate_up.resize(2);
        loader.add(layer.gate_up[0], {.views = {&w.gate_proj}});
        loader.add(layer.gate_up[1], {.views = {&w.up_proj}});
      }
      break;
  }
  loader.add(layer.down_proj, {.views = {&w.down_proj}});
}

Status add_layer(Loader& loader, const LayerSpec& l, const LayerWeights& w, DeviceLayer& layer) {
  RUNNEL_CHECK_OK(add_mixer(loader, l, w, layer));
  RUNNEL_TRY(layer.channel_norm, loader.add_norm(w.channel_mix.norm));
  RUNNEL_TRY(layer.channel_lerp, loader.add_norm(w.channel_mix.lerp));
  if (l.mixer_shift > 0) {
    add_shifted(loader, w.recurrence(), layer);
  } else {
    add_projections(loader, l, w, layer);
  }
  loader.add(layer.o_proj, {.views = {&w.output.o_proj}});
  add_channel_mix(loader, l, w.channel_mix, layer);
  return {};
}

}  // namespace

Result<std::unique_ptr<DeviceWeights>> DeviceWeights::create(Device& device,
                                                             const ModelConfig& config,
                                                             const Weights& weights,
                                                             const LoadProgress& progress) {
  auto store = std::make_unique<DeviceWeights>();
  Loader loader(device, progress);
  // Neither is unpacked by one workgroup per row.
  loader.add(store->embeddings, {.views = {&weights.embeddings}}, weights.embeddings.rows);
  store->layers.resize(config.layers.size());
  for (std::size_t i = 0; i < store->layers.size(); ++i)
    RUNNEL_CHECK_OK(add_layer(loader, config.layers[i], weights.layers[i], store->layers[i]));
  RUNNEL_TRY(store->embedding_norm, loader.add_norm(weights.embedding_norm));
  RUNNEL_TRY(store->final_norm, loader.add_norm(weights.final_norm));
  if (!weights.tied()) loader.add(store->head, {.views = {&weights.head}}, weights.head.rows);
  RUNNEL_CHECK_OK(loader.place());
  RUNNEL_CHECK_OK(loader.upload(store->blocks_, store->vectors_));
  if (weights.tied()) store->head = store->embeddings;
  return store;
}

Range DeviceWeights::block_of(const DeviceMatrix& m) const {
  for (const Buffer& block : blocks_) {
    if (block.get() == m.parts.front().range.buffer) return {block.get(), 0, block.bytes};
  }
  return {};
}

std::uint64_t DeviceWeights::bytes() const {
  std::uint64_t sum = vectors_.bytes;
  for (const Buffer& block : blocks_) sum += block.bytes;
  return sum;
}

}  // namespace runnel::vulkan
