// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/plan.h"

#include <algorithm>
#include <array>
#include <bit>

#include "runtime/backend/plan_items.h"
#include "runtime/backend/vulkan/pass/pass_builder.h"
#include "runtime/backend/vulkan/sampled_steps.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

constexpr std::size_t kMaxPrograms = 64;  // shapes kept; a server's mix of banks must not pile up

/// Notes the ops of a pass; checks that they belong to the model.
class Recorder final : public Ops {
 public:
  Recorder(const ModelConfig& config, std::vector<RecordedOp>& ops) : config_(config), ops_(ops) {}

  Status embed(const WeightView&) override {
    ops_.push_back({RecordedOp::Kind::embed, {}, {}});
    return {};
  }
  Status embedding_norm(const NormSpec& norm, const NormWeights&) override {
    ops_.push_back({RecordedOp::Kind::embedding_norm, {}, norm});
    return {};
  }
  Status shifted_projections(const LayerSpec& layer, const RecurrenceWeights&) override {
    return add(RecordedOp::Kind::shifted_projections, layer);
  }
  Status slot_projections(const LayerSpec& layer, const SlotWeights&) override {
    return add(RecordedOp::Kind::projections, layer);
  }
  Status slot_attention(const LayerSpec& layer, const SlotWeights&) override {
    return add(RecordedOp::Kind::slot_attention, layer);
  }
  Status recurrence_projections(const LayerSpec& layer, const RecurrenceWeights&) override {
    return add(RecordedOp::Kind::projections, layer);
  }
  Status gated_recurrence(const LayerSpec& layer, const RecurrenceWeights&) override {
    return add(RecordedOp::Kind::gated_recurrence, layer);
  }
  Status output_projection(const LayerSpec& layer, const OutputWeights&) override {
    return add(RecordedOp::Kind::output_projection, layer);
  }
  Status gated_mlp(const LayerSpec& layer, const ChannelMixWeights&) override {
    return add(RecordedOp::Kind::gated_mlp, layer);
  }
  Status squared_relu_mlp(const LayerSpec& layer, const ChannelMixWeights&) override {
    return add(RecordedOp::Kind::squared_relu_mlp, layer);
  }
  Status logits(const NormSpec& norm, const NormWeights&, const WeightView&) override {
    ops_.push_back({RecordedOp::Kind::logits, {}, norm});
    return {};
  }

 private:
  Status add(RecordedOp::Kind kind, const LayerSpec& layer) {
    if (layer.index < 0 || layer.index >= config_.num_layers()) {
      return fail(ErrorCode::invalid_argument, "recording: layer ", layer.index, ", expected 0 to ",
                  config_.num_layers() - 1);
    }
    if (layer != config_.layers[static_cast<std::size_t>(layer.index)]) {
      return fail(ErrorCode::invalid_argument, "recording: layer ", layer.index,
                  " differs from the model's, expected the description that was loaded");
    }
    ops_.push_back({kind, layer, {}});
    return {};
  }

  const ModelConfig& config_;
  std::vector<RecordedOp>& ops_;
};

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
  Recorder recorder(plan->model_->config, plan->ops_);
  RUNNEL_CHECK_OK(recording(recorder));
  plan->takes_step_ = record_step_model(recording) == plan->model_->step.model;
  plan->prepare_rotations();
  RUNNEL_CHECK_OK(plan->allocate());
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
  if (plan->buffers_.act.bytes > 0 && !plan->model_->step.dispatch->head_inside)
    RUNNEL_CHECK_OK(plan->commands_for({.logit_rows = 1, .after_one_dispatch = true}));
  plan->model_->pipelines->save();
  return std::unique_ptr<Plan>(std::move(plan));
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
  RUNNEL_CHECK_OK(active.give_way());
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
  body.makes_logits = one_dispatch && !wanted.empty() && model_->step.dispatch->head_inside;
  Range unread;  // where a token goes that such a pass draws in vain
  if (body.makes_logits)
    unread = {buffers_.act.get(), 4ULL * model_->step.dispatch->drawn_at(), 4 * kDrawnWords};
  mark_step(body, unread, words);
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

Result<std::unique_ptr<SampledSteps>> VulkanPlan::sampled_steps(
    RecurrentState& state, std::span<const TokenId> recent, const SamplingOptions& sampling,
    PieceOf piece, std::chrono::milliseconds mask_timeout) {
  // Times are read after each pass, before the next is queued.
  if (max_tokens_ > kFewTokens || model_->profile != nullptr)
    return std::unique_ptr<SampledSteps>();
  return VulkanSteps::create(*this, model_, static_cast<VulkanState&>(state), recent, sampling,
                             std::move(piece), mask_timeout);
}

Result<StepSet> VulkanPlan::take_step_set(Drawing drawing) {
  static_assert(std::tuple_size_v<decltype(spare_)> == kDrawings);
  const std::lock_guard lock(mutex_);
  std::vector<StepSet>& spare = spare_[static_cast<std::size_t>(drawing)];
  if (spare.empty()) return StepSet::create(*model_, buffers_, drawing);
  StepSet set = std::move(spare.back());
  spare.pop_back();
  return set;
}

void VulkanPlan::keep_step_set(StepSet set) {
  std::vector<StepSet>& spare = spare_[static_cast<std::size_t>(set.drawing)];
  spare.push_back(std::move(set));
}

Result<std::uint64_t> VulkanPlan::queue_step(const PlanItem& item, const StepSet& set,
                                             std::uint32_t place, bool chained,
                                             std::uint64_t mask_value) {
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
  shape.makes_logits = in_one_dispatch(buffers_, shape) && model_->step.dispatch->head_inside;
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
  AwaitingHost last;
  if (mask_value > 0) {
    last = {std::span(&set.end[place], 1), set.masks.get(), mask_value};
  } else if (set.end[place] != VK_NULL_HANDLE) {
    commands[n++] = set.end[place];
  }
  RUNNEL_TRY(const std::uint64_t submission,
             model_->device->submit(std::span(commands).first(n), last));
  flip_tags(shape);
  return submission;
}

Status VulkanPlan::check_report(std::uint32_t report) {
  if (report == 0) return {};
  tag_ = head_tag_ = 1;
  RUNNEL_CHECK_OK(model_->device->fill_zero(buffers_.act));
  return fail(ErrorCode::device, model_->device->id(),
              ": a token did not finish: workgroups waited too long for each other");
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
