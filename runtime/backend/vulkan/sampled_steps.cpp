// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/sampled_steps.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "runtime/backend/vulkan/chain_words.h"
#include "runtime/backend/vulkan/pass/pass_builder.h"
#include "runtime/sampling/device_draws.h"

namespace runnel::vulkan {
namespace {

constexpr std::uint64_t kDrawnBytes = 4 * kDrawnWords;
// with candidates
constexpr std::uint64_t kFoundBytes = 8 + 8ULL * kMostCandidates + 4ULL * kMostCandidateLists;
// With candidates, behind what is found: the words of a drawn token, of which only the report is used.
constexpr std::uint64_t kDrawnBehind = (kFoundBytes + kDrawnBytes - 1) / kDrawnBytes * kDrawnBytes;
static_assert(kFoundBytes >= kStepPlaces * kDrawnBytes);
/// What draw.comp finds: how many, the largest, two unused words, then pairs.
constexpr std::uint64_t kChainFoundBytes = 16 + 8ULL * kMostCandidates;
constexpr std::uint64_t kSpreadBytes = 4ULL * 7 * kDrawGroups;
static_assert(kMostTurns == kStepPlaces);
/// Where the host finds the words of the token of a place.
std::uint64_t host_words_at(bool candidates, std::uint32_t place) {
  return candidates ? kDrawnBehind : place * kDrawnBytes;
}
/// Where its step's time-out report is.
std::uint64_t report_at(bool candidates, std::uint32_t place) {
  return host_words_at(candidates, place) + 4 * kDrawnReport;
}
/// Few enough that what is found fits with room for the bin at the edge.
constexpr std::size_t kMostWanted = kMostCandidates / 2;
static_assert(kMostWanted == kMostTokensBehindTopK);
constexpr float kNever = -std::numeric_limits<float>::infinity();

Dispatch of_shader(const char* shader, const ModelConfig& c, std::array<Range, kBindings> bindings,
                   std::uint32_t groups) {
  const GreedyArgs args{.vocab = static_cast<std::uint32_t>(c.vocab_size), .place = 0};
  Dispatch d{
      .shader = shader, .bindings = bindings, .push_bytes = sizeof(args), .groups = {groups, 1, 1}};
  std::memcpy(d.push.data(), &args, sizeof(args));
  return d;
}

/// The step program of a plan, if it has one.
const StepDispatch* step_of(const ResidentModel& model, const PlanBuffers& buffers) {
  return buffers.act.bytes > 0 ? &*model.step.dispatch : nullptr;
}

Range whole(const Buffer& b) { return {b.get(), 0, b.bytes}; }

/// Words that the host writes for candidates.
std::size_t candidate_words(std::int32_t vocab) {
  return kWantedMaskAt + TokenMask(static_cast<std::size_t>(vocab)).words().size();
}

/// Records one command buffer that starts after everything before it.
template <class Commands>
Result<VkCommandBuffer> record(const Device& device, const OwnedCommandPool& pool,
                               const Commands& commands) {
  const DeviceFunctions& f = device.functions();
  RUNNEL_TRY(const VkCommandBuffer made, device.allocate_commands(pool));
  const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  RUNNEL_VK_CHECK(f.vkBeginCommandBuffer(made, &begin), device.named("vkBeginCommandBuffer"));
  full_barrier(f, made);
  commands(f, made);
  RUNNEL_VK_CHECK(f.vkEndCommandBuffer(made), device.named("vkEndCommandBuffer"));
  return made;
}

}  // namespace

Range StepSet::drawn_at(std::uint32_t place) const {
  return {host.get(), host_words_at(drawing == Drawing::host, place), kDrawnBytes};
}

Result<std::vector<Dispatch>> StepSet::dispatches(ResidentModel& model, const PlanBuffers& buffers,
                                                  const StepHead* head) {
  Device& device = *model.device;
  std::vector<Dispatch> all;
  std::uint64_t found_bytes = kFoundBytes;
  if (drawing == Drawing::chain) found_bytes = kChainFoundBytes;
  if (drawing == Drawing::greedy)
    found_bytes = 16 + 8 * std::max(kGreedyGroups, draws ? head->groups : 0);
  RUNNEL_TRY(found, device.create_buffer(found_bytes, MemoryKind::device, "likely tokens"));
  RUNNEL_CHECK_OK(device.fill_zero(found));
  if (draws) {
    all.push_back(
        {.shader = head->shader + ".draw",
         .bindings = {head->weights, buffers.x, model.weights->vectors(), buffers.whole_logits(),
                      whole(found), whole(host), whole(buffers.act)},
         .push_bytes = sizeof(head->draw_args),
         .groups = {head->groups, 1, 1}});
    return all;
  }
  if (drawing != Drawing::host) {
    RUNNEL_TRY(drawn, device.create_buffer(kDrawnBytes, MemoryKind::device, "drawn token"));
  }
  if (drawing == Drawing::greedy) {
    all.push_back(of_shader("greedy", model.config,
                            {buffers.whole_logits(), whole(found), whole(drawn)}, kGreedyGroups));
    return all;
  }
  RUNNEL_TRY(bins, device.create_buffer(4ULL * kCandidateBins, MemoryKind::device, "bins"));
  const std::int32_t vocab = model.config.vocab_size;
  const std::uint64_t words =
      drawing == Drawing::chain ? chain_words(vocab) : candidate_words(vocab);
  RUNNEL_TRY(wanted, device.create_buffer(4 * words, MemoryKind::input, "tokens to look at"));
  std::array<Range, kBindings> bindings{buffers.whole_logits(), whole(bins), whole(found),
                                        whole(wanted)};
  if (drawing == Drawing::host) {
    for (const char* shader : {"candidates.count", "candidates.collect"})
      all.push_back(of_shader(shader, model.config, bindings, kGreedyGroups));
    return all;
  }
  RUNNEL_TRY(spreads, device.create_buffer(kSpreadBytes, MemoryKind::device, "sums of logits"));
  const std::uint64_t past_words = kPastTokens + static_cast<std::uint64_t>(vocab);
  RUNNEL_TRY(past, device.create_buffer(4 * past_words, MemoryKind::device, "generated tokens"));
  RUNNEL_CHECK_OK(device.fill_zero(past));
  bindings = {buffers.whole_logits(), whole(bins), whole(found), whole(spreads),
              whole(wanted),          whole(past), whole(drawn)};
  for (const auto& [shader, groups] :
       {std::pair("draw.change", 1U), std::pair("draw.count", kDrawGroups),
        std::pair("draw.collect", kDrawGroups), std::pair("draw.choose", 1U)})
    all.push_back(of_shader(shader, model.config, bindings, groups));
  return all;
}

Status StepSet::record_place(ResidentModel& model, const PlanBuffers& buffers, std::uint32_t place,
                             std::span<Dispatch> all, std::span<const VkDescriptorSet> sets) {
  const Device& device = *model.device;
  const StepDispatch* step = step_of(model, buffers);
  const VkPipelineLayout layout = model.pipelines->layout();
  const PassShape shape{.tokens = 1, .items = 1, .all_items = 1};
  const bool copies = !reads_host(model, buffers, shape);
  const auto parameters = [&](const DeviceFunctions& f, VkCommandBuffer to) {
    copy_parameters(f, to, buffers, shape, 1 + place);
  };
  if (copies) {
    RUNNEL_TRY(begin[place], record(device, pool, parameters));
  }
  chained[place] = begin[place];
  if (drawing != Drawing::host && !draws) {
    const auto after_drawn = [&](const DeviceFunctions& f, VkCommandBuffer to) {
      if (copies) {
        parameters(f, to);
        full_barrier(f, to);
      }
      const Range pass = copies ? buffers.whole_pass() : buffers.host_pass(1 + place);
      const VkBufferCopy next{
          .srcOffset = 4 * kDrawnNext, .dstOffset = pass.offset + 4 * kPassHeader, .size = 4};
      f.vkCmdCopyBuffer(to, drawn.get(), pass.buffer, 1, &next);
    };
    RUNNEL_TRY(chained[place], record(device, pool, after_drawn));
  }
  const auto draw = [&](const DeviceFunctions& f, VkCommandBuffer to) {
    if (drawing != Drawing::greedy) {
      host_barrier(f, to);  // a mask may have come since this was queued
      f.vkCmdFillBuffer(to, bins.get(), 0, VK_WHOLE_SIZE, 0);
      f.vkCmdFillBuffer(to, found.get(), 0, 8, 0);
      full_barrier(f, to);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i > 0) dispatch_barrier(f, to);
      f.vkCmdBindPipeline(to, VK_PIPELINE_BIND_POINT_COMPUTE, all[i].pipeline);
      if (draws) {  // to the host's memory: a copy is a phase of its own
        HeadArgs args = step->head->draw_args;
        args.drawn_at = place * kDrawnWords, args.timed_out_at = step->timed_out_at();
        std::memcpy(all[i].push.data(), &args, sizeof(args));
      } else {
        std::memcpy(all[i].push.data() + offsetof(GreedyArgs, place), &place, sizeof(place));
      }
      record_dispatch(f, to, layout, all[i], sets[i]);
    }
    if (!draws) {
      full_barrier(f, to);
      const bool candidates = drawing == Drawing::host;
      const VkBufferCopy read{.dstOffset = candidates ? 0 : place * kDrawnBytes,
                              .size = candidates ? kFoundBytes : 4 * kDrawnReport};
      f.vkCmdCopyBuffer(to, candidates ? found.get() : drawn.get(), host.get(), 1, &read);
      if (step != nullptr) {
        const VkBufferCopy report{.srcOffset = 4ULL * step->timed_out_at(),
                                  .dstOffset = report_at(candidates, place),
                                  .size = 4};
        f.vkCmdCopyBuffer(to, buffers.act.get(), host.get(), 1, &report);
      }
    }
    full_barrier(f, to, true);
  };
  RUNNEL_TRY(end[place], record(device, pool, draw));
  return {};
}

Result<StepSet> StepSet::create(ResidentModel& model, const PlanBuffers& buffers, Drawing drawing) {
  Device& device = *model.device;
  StepSet s;
  s.drawing = drawing;
  const StepDispatch* step = step_of(model, buffers);
  // Its head, where that draws.
  const StepHead* head =
      step != nullptr && step->head && step->head->draws ? &*step->head : nullptr;
  s.draws = drawing == Drawing::greedy && head != nullptr;
  RUNNEL_TRY(s.host,
             device.create_buffer(kDrawnBehind + kDrawnBytes, MemoryKind::output, "drawn tokens"));
  std::memset(s.host.mapped, 0, s.host.bytes);
  if (s.draws && step->head_inside) return s;  // nothing goes before or behind a step
  RUNNEL_TRY(s.masks, device.create_semaphore());
  RUNNEL_TRY(std::vector<Dispatch> dispatches, s.dispatches(model, buffers, head));
  for (Dispatch& d : dispatches) {
    RUNNEL_TRY(d.pipeline, model.pipelines->get(
                               d.shader, s.draws ? head->constants : std::vector<std::uint32_t>{}));
  }
  RUNNEL_TRY(const std::vector<VkDescriptorSet> sets, make_sets(model, dispatches, s.descriptors));
  RUNNEL_TRY(s.pool, device.create_command_pool());
  for (std::uint32_t place = 0; place < kStepPlaces; ++place)
    RUNNEL_CHECK_OK(s.record_place(model, buffers, place, dispatches, sets));
  return s;
}

VulkanSteps::VulkanSteps(VulkanPlan& plan, std::shared_ptr<ResidentModel> model, VulkanState& state,
                         TokenId first, std::chrono::milliseconds mask_timeout)
    : DrawAhead(plan.active, model->config.vocab_size, first, kStepPlaces, mask_timeout),
      plan_(plan),
      model_(std::move(model)),
      state_(state) {}

Result<std::unique_ptr<SampledSteps>> VulkanSteps::create(
    VulkanPlan& plan, std::shared_ptr<ResidentModel> model, VulkanState& state,
    std::span<const TokenId> recent, const SamplingOptions& sampling, PieceOf piece,
    std::chrono::milliseconds mask_timeout) {
  RUNNEL_CHECK_OK(check_recent(recent));
  if (!why_not_ahead(sampling, DrawDevice::vulkan).empty()) return std::unique_ptr<SampledSteps>();
  std::unique_ptr<VulkanSteps> steps(
      new VulkanSteps(plan, std::move(model), state, recent.back(), mask_timeout));
  VulkanSteps& s = *steps;
  Drawing drawing = Drawing::host;
  if (is_device_chain(sampling)) {
    // The likeliest may be drawn within the step, which waits for no mask.
    drawing = draws_largest(sampling) && !s.masked() ? Drawing::greedy : Drawing::chain;
  } else {
    RUNNEL_TRY(const bool fits, s.begin_candidates(sampling, piece));
    if (!fits) return std::unique_ptr<SampledSteps>();
    s.recent_.assign(recent.begin(), recent.end() - 1);
  }
  RUNNEL_TRY(s.set_, plan.take_step_set(drawing));
  s.first_mask_ = s.set_.mask_value;
  if (drawing == Drawing::chain) s.begin_chain(sampling, recent, std::move(piece));
  return std::unique_ptr<SampledSteps>(std::move(steps));
}

std::span<std::uint32_t> VulkanSteps::words() {
  return {reinterpret_cast<std::uint32_t*>(set_.wanted.mapped), chain_words(vocab())};
}

void VulkanSteps::begin_chain(const SamplingOptions& sampling, std::span<const TokenId> recent,
                              PieceOf piece) {
  chain_ = sampling;
  // Looking at the text of every token takes milliseconds: once for many generations.
  const bool known = set_.has_breakers && set_.breakers == sampling.dry_breakers;
  put_chain(words(), sampling, vocab(), recent, std::move(piece), known);
  if (sampling.dry_multiplier == 0.0F || sampling.dry_range == 0) return;
  set_.has_breakers = true;
  set_.breakers = sampling.dry_breakers;
}

Result<bool> VulkanSteps::begin_candidates(const SamplingOptions& sampling, PieceOf piece) {
  if (has_penalties(sampling)) window_ = static_cast<std::size_t>(sampling.penalty_window);
  seen_ = std::max(window_, has_dry(sampling) ? static_cast<std::size_t>(sampling.dry_range) : 0);
  likeliest_ = sampling.top_k;
  const std::size_t wanted =
      sampling.logit_bias.size() + window_ + static_cast<std::size_t>(likeliest_);
  if (likeliest_ < 1 || wanted > kMostWanted) return false;
  RUNNEL_TRY(Sampler sampler, Sampler::create(sampling, vocab(), std::move(piece)));
  sampler_.emplace(std::move(sampler));
  for (const auto& [token, bias] : sampling.logit_bias) biased_.push_back(token);
  row_.assign(static_cast<std::size_t>(vocab()), kNever);
  return true;
}

VulkanSteps::~VulkanSteps() {
  forgo_mask();
  const std::lock_guard lock(plan_.mutex());
  // What is queued writes to memory that the next chain uses.
  if (queued() > 0) static_cast<void>(model_->device->wait(submissions_[queued() % kStepPlaces]));
  static_cast<void>(leave());
  if (set_.host.bytes > 0) plan_.keep_step_set(std::move(set_));
}

Status VulkanSteps::queue() {
  if (candidates()) {
    RUNNEL_CHECK_OK(last_has_mask());
    RUNNEL_CHECK_OK(decide());
  }
  const std::lock_guard lock(plan_.mutex());
  return DrawAhead::queue();
}

Status VulkanSteps::logits(std::span<float> out) {
  forgo_mask();  // before the mutex, which a thread that waits for the mask holds
  const std::lock_guard lock(plan_.mutex());
  return DrawAhead::logits(out);
}

Status VulkanSteps::launch(std::uint32_t pass, std::optional<TokenId> token) {
  const bool chained = !token && !candidates();
  const TokenId next = chained ? 0 : token.value_or(next_after(pass - 1));
  if (candidates()) {
    recent_.push_back(next);
    list_special_tokens();
  }
  const std::uint32_t place = pass % kStepPlaces;
  if (submissions_[place] != 0) RUNNEL_CHECK_OK(model_->device->wait(submissions_[place]));
  std::memset(set_.host.mapped + report_at(candidates(), place), 0, 4);
  if (chain_) {
    put_turn(
        words(), *chain_,
        {.place = place, .position = state_.tokens + 1, .begins = pass == 1, .masked = masked()});
  }
  const PlanItem item{.state = &state_, .tokens = std::span(&next, 1)};
  const std::uint64_t mask_value = masked() ? first_mask_ + pass : 0;
  RUNNEL_TRY(submissions_[place], plan_.queue_step(item, set_, place, chained, mask_value));
  if (masked()) set_.mask_value = mask_value;
  state_.tokens += 1;
  return {};
}

Status VulkanSteps::put_mask(std::uint32_t pass, const TokenMask& mask) {
  if (candidates()) {
    mask_ = mask;
    const std::span<const std::uint32_t> bits = mask.words();
    std::memcpy(set_.wanted.mapped + 4 * kWantedMaskAt, bits.data(), bits.size_bytes());
  } else {
    vulkan::put_mask(words(), pass % kStepPlaces, mask);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // memory may combine what is written to it
  return model_->device->raise(set_.masks, first_mask_ + pass);
}

/// Biased tokens and those that penalties or DRY make less likely, each once: their logits change after the search.
void VulkanSteps::list_special_tokens() {
  std::vector<TokenId> list = biased_;
  const std::size_t seen = std::min(window_, recent_.size());
  list.insert(list.end(), recent_.end() - static_cast<std::ptrdiff_t>(seen), recent_.end());
  for (const Dry::Loss& loss : sampler_->dry_losses(recent_)) list.push_back(loss.token);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  whole_ = list.size() + static_cast<std::size_t>(likeliest_) > kMostWanted;
  if (whole_) list.clear();
  std::array<std::uint32_t, kWantedList> header{};
  header[kWantedListed] = static_cast<std::uint32_t>(list.size());
  header[kWantedLikeliest] = static_cast<std::uint32_t>(likeliest_) + header[kWantedListed];
  header[kWantedMasked] = masked() ? 1 : 0;
  std::memcpy(set_.wanted.mapped, header.data(), sizeof(header));
  std::memcpy(set_.wanted.mapped + sizeof(header), list.data(), list.size() * sizeof(TokenId));
}

Result<std::span<const float>> VulkanSteps::row() {
  std::uint32_t count = 0;
  std::memcpy(&count, set_.host.mapped, sizeof(count));
  if (!whole_ && count <= kMostCandidates) {
    std::vector<std::array<std::uint32_t, 2>> found(count);
    if (count > 0) std::memcpy(found.data(), set_.host.mapped + 8, 8 * found.size());
    for (const auto& [id, bits] : found) std::memcpy(&row_[id], &bits, sizeof(bits));
    std::uint32_t listed = 0;
    std::memcpy(&listed, set_.wanted.mapped + 4 * kWantedListed, sizeof(listed));
    for (std::uint32_t i = 0; i < listed; ++i) {
      std::uint32_t id = 0;
      std::memcpy(&id, set_.wanted.mapped + 4 * (kWantedList + i), sizeof(id));
      std::memcpy(&row_[id], set_.host.mapped + 8 + 8 * kMostCandidates + 4 * i, sizeof(float));
    }
    return std::span<const float>(row_);
  }
  // More tokens are special, or as likely as the last candidate, than there is room for: the whole row.
  const std::lock_guard lock(plan_.mutex());
  return logits_on_host();
}

Status VulkanSteps::decide() {
  const std::uint32_t last = queued();
  if (decided_ == last) return {};
  RUNNEL_CHECK_OK(model_->device->wait(submissions_[last % kStepPlaces]));
  RUNNEL_CHECK_OK(check_end(last));
  RUNNEL_TRY(const std::span<const float> logits, row());
  const std::size_t seen = std::min(seen_, recent_.size());
  const Result<TokenId> token =
      sampler_->sample(logits, std::span<const TokenId>(recent_).last(seen), state_.tokens,
                       masked() ? &mask_ : nullptr);
  tokens_[last % kStepPlaces] = token ? std::optional(*token) : std::nullopt;
  if (logits.data() == row_.data()) std::fill(row_.begin(), row_.end(), kNever);
  decided_ = last;
  return {};
}

Status VulkanSteps::check_end(std::uint32_t pass) {
  std::uint32_t report = 0;
  std::memcpy(&report, set_.host.mapped + report_at(candidates(), pass % kStepPlaces),
              sizeof(report));
  if (report == 0) return {};
  return fail(ErrorCode::device, model_->device->id(),
              ": a token did not finish: workgroups waited too long for each other");
}

Status VulkanSteps::wait_for(std::uint32_t pass) {
  if (candidates()) return decided_ < pass ? decide() : Status();
  RUNNEL_CHECK_OK(model_->device->wait(submissions_[pass % kStepPlaces]));
  return check_end(pass);
}

std::optional<TokenId> VulkanSteps::token_of(std::uint32_t pass) const {
  if (candidates()) return tokens_[pass % kStepPlaces];
  std::uint32_t token = 0;
  std::memcpy(&token, set_.host.mapped + pass % kStepPlaces * kDrawnBytes + 4 * kDrawnToken,
              sizeof(token));
  return token == kNoToken ? std::nullopt : std::optional(static_cast<TokenId>(token));
}

}  // namespace runnel::vulkan
