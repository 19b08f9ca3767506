// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cpu/cpu_plan.h"

#include <algorithm>

#include "runtime/backend/plan_items.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::cpu {

/// Appends ops to a plan. The weights were repacked at load; what is recorded is which layer's.
class Recorder final : public Ops {
 public:
  explicit Recorder(CpuPlan& plan) : plan_(plan) {}

  Status embed(const WeightView& table) override {
    return add(cpu::embed, table.rows == plan_.model_.config().vocab_size, table.name);
  }
  Status slot_projections(int layer, const LayerWeights& w) override {
    return add(cpu::slot_projections, known(layer), w.q_proj.name, layer);
  }
  Status slot_attention(int layer, const LayerWeights& w) override {
    return add(cpu::slot_attention, known(layer), w.k_proj.name, layer);
  }
  Status recurrence_projections(int layer, const LayerWeights& w) override {
    return add(cpu::recurrence_projections, known(layer), w.q_proj.name, layer);
  }
  Status gated_recurrence(int layer, const LayerWeights& w) override {
    return add(cpu::gated_recurrence, known(layer), w.v_proj.name, layer);
  }
  Status output_projection(int layer, const LayerWeights& w) override {
    return add(cpu::output_projection, known(layer), w.o_proj.name, layer);
  }
  Status gated_mlp(int layer, const LayerWeights& w) override {
    return add(cpu::gated_mlp, known(layer), w.up_proj.name, layer);
  }
  Status logits(const WeightView&, const WeightView& head) override {
    return add(cpu::logits, head.rows == plan_.model_.config().vocab_size, head.name);
  }

 private:
  bool known(int layer) const { return layer >= 0 && layer < plan_.model_.config().num_layers; }

  Status add(void (*run)(Pass&, int), bool fits, const std::string& name, int layer = 0) {
    if (!fits) {
      return fail(ErrorCode::invalid_argument, name, " (layer ", layer,
                  "): not of the loaded model");
    }
    plan_.steps_.push_back({run, layer});
    return {};
  }

  CpuPlan& plan_;
};

Result<std::unique_ptr<Plan>> CpuPlan::record(const CpuModel& model, int max_tokens,
                                              const Recording& recording) {
  if (max_tokens < 1 || max_tokens > ThreadPool::kMaxItems) {
    return fail(ErrorCode::invalid_argument, "plan: max_tokens is ", max_tokens, ", expected 1 to ",
                ThreadPool::kMaxItems);
  }
  std::unique_ptr<CpuPlan> plan(new CpuPlan(model, max_tokens));
  Recorder recorder(*plan);
  RUNNEL_CHECK_OK(recording(recorder));

  const ModelConfig& c = model.config();
  const NativeLayout& n = model.layout();
  Pass& pass = plan->pass_;
  pass.model = &model;
  const auto tokens = static_cast<std::size_t>(max_tokens);
  const auto size = [](std::int64_t a, std::int64_t b = 1) {
    return static_cast<std::size_t>(a * b);
  };
  const std::size_t q = tokens * size(c.num_heads, c.head_k_dim);
  const std::size_t k = tokens * size(c.num_kv_heads, c.head_k_dim);
  const bool recurrence = c.mixer == Mixer::recurrence;
  std::size_t widest = std::max(size(c.hidden_size), size(c.num_heads, c.head_v_dim));
  if (recurrence) widest = std::max({widest, size(c.num_heads, c.head_k_dim), size(c.gate_rank)});
  pass.scratch_floats =
      (std::max({widest, size(c.intermediate_size), size(c.head_k_dim), size(3, c.gate_dim())}) +
       15) /
      16 * 16;
  const bool turns = n.positional > 0;
  const std::size_t gates =
      tokens * size(c.num_kv_heads, std::max(n.memory_lanes, c.decay_on_values ? n.channels : 0));
  const std::size_t mapped =
      recurrence && !model.layer(0).q_map.present() ? 0 : tokens * size(c.num_heads, c.head_k_dim);

  // Carved twice: first to add up, then to hand out.
  std::size_t used = 0;
  const auto carve = [&](auto& pointer, std::size_t bytes) {
    if (plan->arena_.data() != nullptr) {
      pointer =
          reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(plan->arena_.data() + used);
    }
    used += round_up(bytes, 64);
  };
  const auto carve_all = [&] {
    used = 0;
    constexpr std::size_t kFloat = sizeof(float);
    carve(pass.x, tokens * size(c.hidden_size) * kFloat);
    carve(pass.scratch, size(model.pool().threads()) * pass.scratch_floats * kFloat);
    carve(pass.input.groups, tokens * (widest / 32) * kGroupBytes);
    carve(pass.input.floats, tokens * widest * kFloat);
    carve(pass.hidden.groups, tokens * size(c.intermediate_size / 32) * kGroupBytes);
    carve(pass.hidden.floats, tokens * size(c.intermediate_size) * kFloat);
    carve(pass.q, q * kFloat);
    carve(pass.k, k * kFloat);
    carve(pass.v, tokens * size(c.num_kv_heads, c.head_v_dim) * kFloat);
    carve(pass.f, tokens * size(c.num_kv_heads, c.gate_dim()) * kFloat);
    carve(pass.turned_q, turns ? q * kFloat : 0);
    carve(pass.sink_q, turns ? q * kFloat : 0);
    carve(pass.turned_k, turns ? k * kFloat : 0);
    carve(pass.padded_v, tokens * size(c.num_kv_heads, n.channels) * kFloat);
    carve(pass.alpha, gates * kFloat);
    carve(pass.write, gates * kFloat);
    carve(pass.turn, turns || c.rotary ? tokens * size(c.head_k_dim) * kFloat : 0);
    carve(pass.sink_turn, turns ? tokens * size(c.head_k_dim) * kFloat : 0);
    carve(pass.p, tokens * size(c.num_heads, n.slot_lanes()) * kFloat);
    carve(pass.o, tokens * size(c.num_heads, n.channels) * kFloat);
    if (!recurrence) return;
    const bool refined = c.decay == Decay::refined;
    carve(pass.low, tokens * size(c.gate_rank) * kFloat);
    carve(pass.r, refined ? tokens * size(c.num_kv_heads, c.gate_dim()) * kFloat : 0);
    carve(pass.gate, c.output_gate ? tokens * size(c.num_heads, c.head_v_dim) * kFloat : 0);
    carve(pass.mapped, mapped * kFloat);
    carve(pass.mapped2, mapped * kFloat);
  };
  carve_all();
  RUNNEL_TRY(plan->arena_, PageBuffer::create(used));
  carve_all();
  // Padding lanes of the gates keep their slots at zero. A plan of one row of lanes has none.
  if (n.memory_lanes != n.memory) std::fill_n(pass.alpha, gates, 1.0F);
  pass.items.reserve(tokens);
  pass.ids.reserve(tokens);
  pass.position.reserve(tokens);
  pass.item_of.reserve(tokens);
  pass.wanted.reserve(tokens);
  pass.wanted_out.reserve(tokens);
  model.count_scratch(used);
  return std::unique_ptr<Plan>(std::move(plan));
}

Status CpuPlan::run(std::span<const PlanItem> items, std::stop_token stop) {
  const int vocab = model_.config().vocab_size;
  RUNNEL_CHECK_OK(check_items(items, max_tokens_, vocab));
  if (stop.stop_requested()) return fail(ErrorCode::cancelled, "pass: a stop was requested");
  const std::lock_guard lock(model_.pool_in_use());
  pass_.items.clear();
  pass_.ids.clear();
  pass_.position.clear();
  pass_.item_of.clear();
  pass_.wanted.clear();
  pass_.wanted_out.clear();
  pass_.single = true;
  for (const PlanItem& item : items) {
    auto* state = dynamic_cast<CpuState*>(item.state);
    const int first = static_cast<int>(pass_.ids.size()),
              count = static_cast<int>(item.tokens.size());
    if (state == nullptr || state->layout().total_floats() != model_.layout().total_floats()) {
      return fail(ErrorCode::invalid_argument, "item ", pass_.items.size(),
                  ": its state is not of this model");
    }
    pass_.single = pass_.single && count == 1;
    for (int t = 0; t < count; ++t) {
      pass_.ids.push_back(item.tokens[static_cast<std::size_t>(t)]);
      pass_.position.push_back(state->position() + static_cast<std::uint64_t>(t));
      pass_.item_of.push_back(static_cast<int>(pass_.items.size()));
    }
    pass_.items.push_back({state, first, count});
    float* out = item.logits.data();
    const int skip = item.wanted == LogitsWanted::last ? count - 1 : 0;
    for (int t = skip; t < count && item.wanted != LogitsWanted::none; ++t, out += vocab) {
      pass_.wanted.push_back(first + t);
      pass_.wanted_out.push_back(out);
    }
  }
  pass_.tokens = static_cast<int>(pass_.ids.size());
  prepare_rotations(pass_);
  for (const Step& step : steps_) step.run(pass_, step.layer);
  for (const PassItem& item : pass_.items)
    item.state->advance(static_cast<std::size_t>(item.count));
  return {};
}

}  // namespace runnel::cpu
