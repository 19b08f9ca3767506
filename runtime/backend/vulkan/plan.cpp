// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/plan.h"

#include <algorithm>
#include <array>
#include <bit>

#include "runtime/backend/plan_items.h"
#include "runtime/backend/vulkan/pass_builder.h"
#include "runtime/backend/vulkan/sampled_steps.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

constexpr std::uint32_t kMaxLogitRows = 16;
constexpr std::uint64_t kMaxLogitBytes = 16U << 20;
/// Items of more tokens go chunk by chunk: what an item computes depends on nothing but its length.
constexpr std::size_t kTokenByToken = 16;
constexpr std::size_t kMaxPrograms = 64;  // shapes kept; a server's mix of banks must not pile up

/// Notes the ops of a pass; checks that they belong to the model.
class Recorder final : public Ops {
 public:
  Recorder(int layers, std::vector<RecordedOp>& ops) : layers_(layers), ops_(ops) {}

  Status embed(const WeightView&) override { return add({RecordedOp::Kind::embed}); }
  Status slot_projections(int layer, const LayerWeights&) override {
    return add({RecordedOp::Kind::slot_projections, layer});
  }
  Status slot_attention(int layer, const LayerWeights&) override {
    return add({RecordedOp::Kind::slot_attention, layer});
  }
  Status recurrence_projections(int layer, const LayerWeights&) override {
    return add({RecordedOp::Kind::slot_projections, layer});
  }
  Status gated_recurrence(int layer, const LayerWeights&) override {
    return add({RecordedOp::Kind::gated_recurrence, layer});
  }
  Status output_projection(int layer, const LayerWeights&) override {
    return add({RecordedOp::Kind::output_projection, layer});
  }
  Status gated_mlp(int layer, const LayerWeights&) override {
    return add({RecordedOp::Kind::gated_mlp, layer});
  }
  Status logits(const WeightView&, const WeightView&) override {
    return add({RecordedOp::Kind::logits});
  }

 private:
  Status add(RecordedOp op) {
    if (op.layer < 0 || op.layer >= layers_) {
      return fail(ErrorCode::invalid_argument, "recording: layer ", op.layer, ", expected 0 to ",
                  layers_ - 1);
    }
    ops_.push_back(op);
    return {};
  }

  int layers_;
  std::vector<RecordedOp>& ops_;
};

/// Rows of f32: whole units, and whole tiles of matrix units.
std::uint32_t padded(std::uint32_t columns) { return (columns + 15) / 16 * 16; }

/// The powers of two from `smallest` up, capped by `most`.
std::uint32_t bucket(std::size_t n, std::uint32_t smallest, std::uint32_t most) {
  const auto up = static_cast<std::uint32_t>(std::bit_ceil(std::max<std::size_t>(n, 1)));
  return std::min(std::max(up, smallest), most);
}

}  // namespace

VulkanPlan::VulkanPlan(std::shared_ptr<ResidentModel> model, int max_tokens)
    : model_(std::move(model)), max_tokens_(max_tokens) {}

VulkanPlan::~VulkanPlan() = default;

Result<std::unique_ptr<Plan>> VulkanPlan::create(std::shared_ptr<ResidentModel> model,
                                                 int max_tokens, const Recording& recording) {
  if (max_tokens < 1 || max_tokens > 32768) {
    return fail(ErrorCode::invalid_argument, "plan: ", max_tokens, " tokens, expected 1 to 32768");
  }
  std::unique_ptr<VulkanPlan> plan(new VulkanPlan(std::move(model), max_tokens));
  Recorder recorder(plan->model_->config.num_layers, plan->ops_);
  RUNNEL_CHECK_OK(recording(recorder));
  RUNNEL_CHECK_OK(plan->allocate());
  plan->prepare_rotations();
  RUNNEL_TRY(plan->pool_, plan->model_->device->create_command_pool());
  // The shapes of every conversation, so that recording fails here and not at the first token.
  const std::uint32_t first =
      max_tokens <= kFewTokens ? 1U : static_cast<std::uint32_t>(max_tokens);
  const std::uint32_t chunks = plan->chunks_of(first);
  RUNNEL_CHECK_OK(
      plan->commands_for({.tokens = first,
                          .items = chunks > 0 ? 0U : 1U,
                          .all_items = 1,
                          .chunks = chunks > 0 ? bucket(chunks, 1, plan->buffers_.most_chunks) : 0,
                          .banks = {0}}));
  RUNNEL_CHECK_OK(plan->commands_for({.logit_rows = 1}));
  if (plan->buffers_.act.bytes > 0 && !plan->model_->step.head_inside)
    RUNNEL_CHECK_OK(plan->commands_for({.logit_rows = 1, .after_one_dispatch = true}));
  plan->model_->pipelines->save();
  return std::unique_ptr<Plan>(std::move(plan));
}

Status VulkanPlan::allocate() {
  const ResidentModel& m = *model_;
  const ModelConfig& c = m.config;
  const auto tokens = static_cast<std::uint64_t>(max_tokens_);
  const auto hidden = static_cast<std::uint32_t>(c.hidden_size);
  buffers_.x_stride = padded(hidden);
  buffers_.inputs_stride = padded(std::max(hidden, m.o_columns()));
  buffers_.projected_stride = padded(m.q_columns() + m.k_columns() + m.v_columns() + m.f_columns());
  buffers_.slots_stride = static_cast<std::uint32_t>(c.num_heads) * m.slots.splits *
                          (2 + static_cast<std::uint32_t>(c.head_v_dim));
  if (c.mixer == Mixer::recurrence) {
    const RecurrenceColumns columns = RecurrenceColumns::of(c);
    buffers_.projected_stride = padded(columns.all);
    buffers_.features_stride = padded(columns.features);
    buffers_.slots_stride = static_cast<std::uint32_t>(c.num_heads * c.value_columns());
  }
  buffers_.hidden_stride = padded(static_cast<std::uint32_t>(c.intermediate_size));
  const bool many = max_tokens_ > kFewTokens;
  // A chunk's floats: memories of all heads and their decays.
  const auto u = [](std::int32_t n) { return static_cast<std::uint64_t>(n); };
  const std::uint64_t chunk_slots = u(c.num_kv_heads) * u(c.num_memory_slots);
  const std::uint64_t columns = u(c.head_k_dim) + u(c.head_v_dim);
  if (many && chunks_take(*m.device, c)) {
    // Each chunk has more than kTokenByToken tokens or is the last of more than kChunk.
    const std::uint64_t most = tokens / (kTokenByToken + 1) + 1;
    if (most * chunk_slots * (columns + 1) * sizeof(float) <=
        m.device->capabilities().storage_range) {
      buffers_.most_chunks = static_cast<std::uint32_t>(most);
      buffers_.features_stride =
          padded((c.num_positional_slots() > 0 ? m.k_columns() : 0) + m.f_columns());
    }
  }
  std::uint64_t bytes = 0;
  const std::uint64_t alignment = m.device->capabilities().storage_alignment;
  const auto section = [&](Range& range, std::uint64_t size) {
    range.offset = bytes;
    range.bytes = size;
    bytes = (bytes + size + alignment - 1) / alignment * alignment;
  };
  allocate_tiles(section);
  const std::uint64_t n_rows =
      buffers_.tiles.allowed ? (tokens + kTileRows - 1) / kTileRows * kTileRows : tokens;
  const auto floats = [&](Range& range, std::uint32_t stride) {
    section(range, n_rows * stride * sizeof(float));
  };
  floats(buffers_.x, buffers_.x_stride);
  floats(buffers_.inputs, buffers_.inputs_stride);
  floats(buffers_.projected, buffers_.projected_stride);
  floats(buffers_.slots, buffers_.slots_stride);
  floats(buffers_.hidden, buffers_.tiles.mlp ? 0 : buffers_.hidden_stride);
  floats(buffers_.features, buffers_.features_stride);
  const std::uint64_t all_slots = buffers_.most_chunks * chunk_slots;
  buffers_.chunk_decays = static_cast<std::uint32_t>(all_slots * columns);
  section(buffers_.chunks, all_slots * (columns + 1) * sizeof(float));
  // Rows of tiles begin at multiples of 16 bytes.
  if (buffers_.most_chunks > 0 && buffers_.slots_stride % 4 == 0 && slots_take_tiles(m)) {
    // A last block of 16 reads past its item's rows.
    const bool rotary = c.num_positional_slots() > 0;
    const std::uint64_t row = (rotary ? 3 : 1) * m.q_columns() + (rotary ? 2 : 1) * m.k_columns() +
                              std::uint64_t{m.v_columns()};
    const std::uint64_t window =
        rotary ? (kMostChunkWindow + kMostChunkSinks) * u(c.num_kv_heads) * columns : 0;
    const std::uint64_t operands = (n_rows + kChunk) * row + buffers_.most_chunks * window;
    const std::uint64_t memories = all_slots * columns;
    buffers_.slot_window = static_cast<std::uint32_t>((n_rows + kChunk) * row / kUnit);
    if (2 * std::max(operands, memories) <= m.device->capabilities().storage_range) {
      section(buffers_.slot_operands, 2 * operands);
      section(buffers_.slot_memories, 2 * memories);
    }
  }
  RUNNEL_TRY(buffers_.scratch, m.device->create_buffer(bytes, MemoryKind::device, "activations"));
  for (Range* range :
       {&buffers_.x, &buffers_.inputs, &buffers_.projected, &buffers_.slots, &buffers_.hidden,
        &buffers_.features, &buffers_.chunks, &buffers_.slot_operands, &buffers_.slot_memories,
        &buffers_.tiles.inputs, &buffers_.tiles.hidden, &buffers_.tiles.weights[0],
        &buffers_.tiles.weights[1]})
    range->buffer = buffers_.scratch.get();
  RUNNEL_CHECK_OK(m.device->fill_zero(buffers_.scratch));  // the padding of rows stays zero

  const auto n = static_cast<std::uint32_t>(max_tokens_);
  const std::uint32_t rotary =
      c.num_positional_slots() > 0 || c.rotary ? static_cast<std::uint32_t>(c.head_k_dim) / 2 : 0;
  buffers_.layout.items = kPassHeader + n * kTokenWords;
  buffers_.layout.rows = buffers_.layout.items + n * kItemWords;
  buffers_.layout.chunks = buffers_.layout.rows + kMaxLogitRows;
  buffers_.layout.rotations =
      (buffers_.layout.chunks + buffers_.most_chunks * kChunkWords + 3) / 4 * 4;
  const std::uint64_t words = buffers_.layout.rotations + std::uint64_t{n} * rotary * 4;
  RUNNEL_TRY(buffers_.pass,
             m.device->create_buffer(words * 4, MemoryKind::device, "pass parameters"));
  buffers_.host_stride = (words * 4 + alignment - 1) / alignment * alignment;
  RUNNEL_TRY(buffers_.pass_host,
             m.device->create_buffer(buffers_.host_stride * (many ? 1 : 1 + kStepPlaces),
                                     MemoryKind::input, "pass parameters, host"));
  std::memset(buffers_.pass_host.mapped, 0, buffers_.pass_host.bytes);

  const std::uint64_t row_bytes = static_cast<std::uint64_t>(c.vocab_size) * sizeof(float);
  logit_rows_ = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(kMaxLogitBytes / row_bytes, 1, std::min(n, kMaxLogitRows)));
  logit_rows_ = std::bit_floor(logit_rows_);
  RUNNEL_TRY(buffers_.logits,
             m.device->create_buffer(logit_rows_ * row_bytes, MemoryKind::device, "logits"));
  RUNNEL_TRY(buffers_.logits_host, m.device->create_buffer(logit_rows_ * row_bytes + 16,
                                                           MemoryKind::output, "logits, host"));
  std::memset(buffers_.logits_host.mapped, 0, buffers_.logits_host.bytes);
  if (m.step.fits() && max_tokens_ <= kFewTokens &&
      m.states->bank(0).bytes <= m.device->capabilities().storage_range) {
    RUNNEL_TRY(buffers_.act, m.device->create_buffer(4 * m.step.act_words, MemoryKind::device,
                                                     "activations of a step"));
    RUNNEL_CHECK_OK(m.device->fill_zero(buffers_.act));
  }
  return {};
}

/// Weights and rows of f16, where the device has matrix units and the buffers fit its bindings.
template <class Section>
void VulkanPlan::allocate_tiles(const Section& section) {
  const ResidentModel& m = *model_;
  const ModelConfig& c = m.config;
  const std::uint64_t limit = m.device->capabilities().storage_range;
  TileBuffers& tiles = buffers_.tiles;
  if (max_tokens_ <= kFewTokens || !m.device->capabilities().cooperative_matrix() ||
      c.hidden_size % 16 != 0)
    return;
  std::uint64_t areas[2] = {0, 0};
  tiles.mlp = c.intermediate_size % 16 == 0;
  const auto bytes = [](const DeviceMatrix& w) {
    return static_cast<std::uint64_t>(w.rows) * tile_units(w.cols) * 16;
  };
  for (const DeviceLayer& layer : m.weights->layers) {
    std::uint64_t projections = 0, gate_up = 0;
    for (const DeviceProjection& p : layer.projections)
      projections += tiles_take(p.matrix) ? bytes(p.matrix) : 0;
    for (const DeviceMatrix& w : layer.gate_up) {
      gate_up += bytes(w);
      tiles.mlp = tiles.mlp && tiles_take(w);
    }
    tiles.mlp = tiles.mlp && tiles_take(layer.down_proj);
    areas[0] = std::max({areas[0], projections, gate_up});
    areas[1] = std::max({areas[1], bytes(layer.o_proj), bytes(layer.down_proj)});
  }
  tiles.allowed = std::max(areas[0], areas[1]) <= limit;
  tiles.mlp = tiles.mlp && tiles.allowed;
  if (!tiles.allowed) return;
  const std::uint64_t rows =
      (static_cast<std::uint64_t>(max_tokens_) + kTileRows - 1) / kTileRows * kTileRows;
  const auto widest = std::max<std::int64_t>(c.hidden_size, m.o_columns());
  section(tiles.inputs, rows * tile_units(widest) * 16);
  section(tiles.hidden, tiles.mlp ? rows * tile_units(c.intermediate_size) * 16 : 0);
  section(tiles.weights[0], areas[0]);
  section(tiles.weights[1], areas[1]);
}

std::uint32_t VulkanPlan::chunks_of(std::size_t tokens) const {
  if (buffers_.most_chunks == 0 || tokens <= kTokenByToken) return 0;
  return ceil_div(tokens, kChunk);
}

PassShape VulkanPlan::body_shape(std::span<const PlanItem> items) const {
  const auto most = static_cast<std::uint32_t>(max_tokens_);
  PassShape shape;
  shape.tokens = bucket(total_tokens(items), max_tokens_ <= kFewTokens ? 1 : 64, most);
  shape.all_items = bucket(items.size(), 1, most);
  std::uint32_t chunks = 0;
  for (const PlanItem& item : items) {
    chunks += chunks_of(item.tokens.size());
    if (chunks_of(item.tokens.size()) == 0) shape.items = shape.all_items;
  }
  if (chunks > 0) shape.chunks = bucket(chunks, 1, buffers_.most_chunks);
  for (const PlanItem& item : items)
    shape.banks.push_back(static_cast<const VulkanState&>(*item.state).place.bank);
  std::sort(shape.banks.begin(), shape.banks.end());
  shape.banks.erase(std::unique(shape.banks.begin(), shape.banks.end()), shape.banks.end());
  return shape;
}

Result<VkCommandBuffer> VulkanPlan::commands_for(const PassShape& shape) {
  if (const auto found = programs_.find(shape); found != programs_.end())
    return found->second.commands;
  RUNNEL_TRY(Program program,
             build_program(*model_, buffers_, ops_, max_tokens_ <= kFewTokens, shape, pool_));
  const VkCommandBuffer commands = program.commands;
  programs_.emplace(shape, std::move(program));
  return commands;
}

/// Before a pass that may record: nothing is queued.
Status VulkanPlan::make_room_for_programs() {
  if (programs_.size() < kMaxPrograms) return {};
  programs_.clear();
  logits_copy_ = VK_NULL_HANDLE;
  RUNNEL_TRY(pool_, model_->device->create_command_pool());
  return {};
}

Status VulkanPlan::add_times(std::span<const VkCommandBuffer> commands) const {
  for (const auto& [shape, program] : programs_) {
    if (program.timestamps &&
        std::find(commands.begin(), commands.end(), program.commands) != commands.end())
      RUNNEL_CHECK_OK(program.timestamps->add_to(*model_->profile, *model_->device));
  }
  return {};
}

Status VulkanPlan::run(std::span<const PlanItem> items, std::stop_token stop) {
  const auto vocab = static_cast<std::size_t>(model_->config.vocab_size);
  RUNNEL_CHECK_OK(check_items(items, max_tokens_, model_->config.vocab_size));
  if (stop.stop_requested()) return fail(ErrorCode::cancelled, "pass: a stop was requested");
  const std::lock_guard lock(mutex_);
  if (active != nullptr) RUNNEL_CHECK_OK(active->give_way());
  RUNNEL_CHECK_OK(make_room_for_programs());
  fill_pass(items, reinterpret_cast<std::uint32_t*>(buffers_.pass_host.mapped));

  // Rows whose logits are wanted, and where they go.
  std::vector<std::pair<std::uint32_t, float*>> wanted;
  std::uint32_t row = 0;
  for (const PlanItem& item : items) {
    const auto n = static_cast<std::uint32_t>(item.tokens.size());
    if (item.wanted == LogitsWanted::last) wanted.emplace_back(row + n - 1, item.logits.data());
    if (item.wanted == LogitsWanted::all) {
      for (std::uint32_t t = 0; t < n; ++t) wanted.emplace_back(row + t, &item.logits[t * vocab]);
    }
    row += n;
  }

  auto* words = reinterpret_cast<std::uint32_t*>(buffers_.pass_host.mapped);
  std::array<VkCommandBuffer, 2> commands{};
  PassShape body = body_shape(items);
  const bool one_dispatch = in_one_dispatch(buffers_, body);
  body.makes_logits = one_dispatch && !wanted.empty() && model_->step.head_inside;
  mark_step(body, {buffers_.act.get(), 4ULL * model_->step.drawn_at(), 4 * kDrawnWords}, words);
  RUNNEL_TRY(commands[0], commands_for(body));
  bool body_done = false;
  std::size_t at = 0;
  do {
    const auto n =
        static_cast<std::uint32_t>(std::min<std::size_t>(wanted.size() - at, logit_rows_));
    words[kPassRows] = n;
    for (std::uint32_t i = 0; i < n; ++i) words[buffers_.layout.rows + i] = wanted[at + i].first;
    std::size_t last = 1;
    if (body.makes_logits) {
      RUNNEL_TRY(commands[1], logits_copy());
      last = 2;
    } else if (n > 0) {
      RUNNEL_TRY(commands[1], commands_for({.logit_rows = bucket(n, 1, logit_rows_),
                                            .after_one_dispatch = one_dispatch && n == 1}));
      last = 2;
    }
    // The body copies all parameters, another batch of rows needs only its own.
    if (body_done) {
      RUNNEL_TRY(commands[0], commands_for({}));
    }
    RUNNEL_CHECK_OK(model_->device->run(std::span(commands).first(last)));
    if (!body_done) flip_tags(body);
    if (one_dispatch && n > 0) {
      std::uint32_t report = 0;
      std::memcpy(&report, buffers_.logits_host.mapped + buffers_.logits.bytes, sizeof(report));
      RUNNEL_CHECK_OK(check_report(report));
    }
    if (model_->profile != nullptr) RUNNEL_CHECK_OK(add_times(std::span(commands).first(last)));
    body_done = true;
    const auto* logits = reinterpret_cast<const float*>(buffers_.logits_host.mapped);
    for (std::uint32_t i = 0; i < n; ++i)
      std::copy_n(logits + i * vocab, vocab, wanted[at + i].second);
    at += n;
  } while (at < wanted.size());
  for (const PlanItem& item : items)
    static_cast<VulkanState&>(*item.state).tokens += item.tokens.size();
  return {};
}

Result<std::unique_ptr<SampledSteps>> VulkanPlan::sampled_steps(RecurrentState& state,
                                                                std::span<const TokenId> recent,
                                                                const SamplingOptions& sampling) {
  // Times are read after each pass, before the next is queued.
  if (max_tokens_ > kFewTokens || model_->profile != nullptr)
    return std::unique_ptr<SampledSteps>();
  return VulkanSteps::create(*this, model_, static_cast<VulkanState&>(state), recent, sampling);
}

Result<StepSet> VulkanPlan::take_step_set(bool candidates) {
  const std::lock_guard lock(mutex_);
  std::vector<StepSet>& spare = spare_[candidates ? 1 : 0];
  if (spare.empty()) return StepSet::create(*model_, buffers_, candidates);
  StepSet set = std::move(spare.back());
  spare.pop_back();
  return set;
}

void VulkanPlan::keep_step_set(StepSet set, bool candidates) {
  spare_[candidates ? 1 : 0].push_back(std::move(set));
}

Result<std::uint64_t> VulkanPlan::queue_step(const PlanItem& item, const StepSet& set,
                                             std::uint32_t place, bool chained) {
  if (!chained) RUNNEL_CHECK_OK(make_room_for_programs());
  auto* words = reinterpret_cast<std::uint32_t*>(buffers_.pass_host.mapped +
                                                 (1 + place) * buffers_.host_stride);
  fill_pass(std::span(&item, 1), words);
  words[kPassRows] = 1;
  words[buffers_.layout.rows] = 0;
  PassShape shape = body_shape(std::span(&item, 1));
  shape.step = true;
  shape.embedded = chained && set.draws;
  if (reads_host(*model_, buffers_, shape)) shape.place = 1 + place;
  shape.makes_logits = in_one_dispatch(buffers_, shape) && model_->step.head_inside;
  mark_step(shape, set.drawn_at(place), words);
  std::array<VkCommandBuffer, 4> commands{};
  std::size_t n = 0;
  const VkCommandBuffer before = chained ? set.chained[place] : set.begin[place];
  if (before != VK_NULL_HANDLE) commands[n++] = before;
  RUNNEL_TRY(commands[n++], commands_for(shape));
  if (!set.draws && !shape.makes_logits) {
    RUNNEL_TRY(commands[n++],
               commands_for({.logit_rows = 1,
                             .step = true,
                             .after_one_dispatch = in_one_dispatch(buffers_, shape)}));
  }
  if (set.end[place] != VK_NULL_HANDLE) commands[n++] = set.end[place];
  RUNNEL_TRY(const std::uint64_t submission, model_->device->submit(std::span(commands).first(n)));
  flip_tags(shape);
  return submission;
}

Status VulkanPlan::check_report(std::uint32_t report) {
  if (report == 0) return {};
  tag_ = head_tag_ = 1;
  RUNNEL_CHECK_OK(model_->device->fill_zero(buffers_.act));
  return fail(ErrorCode::device, model_->device->id(),
              ": a token did not come to its end: workgroups waited too long for each other");
}

void VulkanPlan::mark_step(const PassShape& shape, const Range& drawn, std::uint32_t* words) const {
  words[kPassTag] = tag_;
  if (!shape.makes_logits) return;
  words[kPassTag] |= head_tag_ << 1;
  const auto [low, high] = model_->device->address_of(drawn);
  words[kPassDrawn] = low, words[kPassDrawn + 1] = high;
}

void VulkanPlan::flip_tags(const PassShape& shape) {
  if (in_one_dispatch(buffers_, shape)) tag_ ^= 1;
  if (shape.makes_logits) head_tag_ ^= 1;
}

Result<VkCommandBuffer> VulkanPlan::logits_copy() {
  if (logits_copy_ != VK_NULL_HANDLE) return logits_copy_;
  const Device& device = *model_->device;
  const DeviceFunctions& f = device.functions();
  RUNNEL_TRY(const VkCommandBuffer commands, device.allocate_commands(pool_));
  const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  RUNNEL_VK_CHECK(f.vkBeginCommandBuffer(commands, &begin), device.named("vkBeginCommandBuffer"));
  full_barrier(f, commands);
  copy_logits(f, commands, *model_, buffers_, 1);
  RUNNEL_VK_CHECK(f.vkEndCommandBuffer(commands), device.named("vkEndCommandBuffer"));
  logits_copy_ = commands;
  return commands;
}

Status VulkanPlan::read_logits(std::span<float> out) {
  RUNNEL_TRY(const VkCommandBuffer commands, logits_copy());
  RUNNEL_CHECK_OK(model_->device->run(std::span(&commands, 1)));
  std::memcpy(out.data(), buffers_.logits_host.mapped, out.size_bytes());
  return {};
}

}  // namespace runnel::vulkan
