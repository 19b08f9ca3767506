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
    return add(cpu::embed, nullptr, table.rows == plan_.model_.config().vocab_size, table.name);
  }
  Status embedding_norm(const NormSpec& norm, const NormWeights& w) override {
    return add(cpu::embedding_norm, nullptr, plan_.model_.config().embedding_norm == norm,
               w.weight.name);
  }
  Status slot_projections(const LayerSpec& layer, const SlotWeights& w) override {
    return add(cpu::slot_projections, layer, w.q_proj.name);
  }
  Status slot_attention(const LayerSpec& layer, const SlotWeights& w) override {
    return add(cpu::slot_attention, layer, w.k_proj.name);
  }
  Status recurrence_projections(const LayerSpec& layer, const RecurrenceWeights& w) override {
    return add(cpu::recurrence_projections, layer, w.q_proj.name);
  }
  Status shifted_projections(const LayerSpec& layer, const RecurrenceWeights& w) override {
    return add(cpu::shifted_projections, layer, w.q_proj.name);
  }
  Status gated_recurrence(const LayerSpec& layer, const RecurrenceWeights& w) override {
    return add(cpu::gated_recurrence, layer, w.v_proj.name);
  }
  Status output_projection(const LayerSpec& layer, const OutputWeights& w) override {
    return add(cpu::output_projection, layer, w.o_proj.name);
  }
  Status gated_mlp(const LayerSpec& layer, const ChannelMixWeights& w) override {
    return add(cpu::channel_mix, layer, w.up_proj.name);
  }
  Status squared_relu_mlp(const LayerSpec& layer, const ChannelMixWeights& w) override {
    return add(cpu::channel_mix, layer, w.up_proj.name);
  }
  Status logits(const NormSpec&, const NormWeights&, const WeightView& head) override {
    return add(cpu::logits, nullptr, head.rows == plan_.model_.config().vocab_size, head.name);
  }

 private:
  /// The op of a layer, which must be that of the loaded model.
  Status add(void (*run)(Pass&), const LayerSpec& layer, const std::string& name) {
    const bool has_index = layer.index >= 0 && layer.index < plan_.model_.config().num_layers();
    const DeviceLayer* packed = has_index ? &plan_.model_.layer(layer.index) : nullptr;
    return add(run, packed, has_index && packed->spec == layer, name);
  }

  Status add(void (*run)(Pass&), const DeviceLayer* layer, bool fits, const std::string& name) {
    if (!fits) return fail(ErrorCode::invalid_argument, name, ": not of the loaded model");
    plan_.steps_.push_back({run, layer});
    return {};
  }

  CpuPlan& plan_;
};

namespace {

/// Floats per token of a plan's buffers: the most that a layer needs of each.
struct TokenFloats {
  std::size_t widest = 0;   // channels of a product's input but down's
  std::size_t scratch = 0;  // of a thread
  std::size_t q = 0, k = 0, v = 0, f = 0, padded_v = 0, gates = 0, p = 0, o = 0;
  std::size_t inner = 0, low = 0, r = 0, output_gate = 0, mapped = 0;
  std::size_t turned_q = 0, turned_k = 0, turn = 0;
  std::size_t bonus = 0, first_v = 0, v_mix = 0, normed = 0, shifted = 0;
};

void take_most(std::size_t& most, std::int64_t n) {
  most = std::max(most, static_cast<std::size_t>(n));
}

bool removes(const LayerSpec& c) {
  return c.kind() == Mixer::recurrence && c.recurrence().removal != Removal::none;
}

TokenFloats token_floats(const CpuModel& model) {
  TokenFloats most;
  const std::int64_t d = model.config().hidden_size;
  take_most(most.widest, d);
  take_most(most.scratch, d);
  for (int i = 0; i < model.config().num_layers(); ++i) {
    const DeviceLayer& layer = model.layer(i);
    const LayerSpec& c = layer.spec;
    const NativeLayer& n = layer.layout;
    take_most(most.widest, c.o_channels());
    for (std::int64_t floats : {std::int64_t{c.o_channels()}, std::int64_t{c.head_k_dim},
                                std::int64_t{2} * c.gate_dim()}) {
      take_most(most.scratch, floats);
    }
    take_most(most.q, c.q_channels());
    take_most(most.k, c.k_channels());
    take_most(most.v, c.v_channels());
    take_most(most.f, c.gate_channels());
    take_most(most.o, std::int64_t{c.num_heads} * n.channels);
    take_most(most.inner, c.intermediate_size);
    take_most(most.output_gate, c.output_gate ? c.o_channels() : 0);
    take_most(most.turn, c.rotates() ? c.head_k_dim : 0);
    take_most(most.normed, std::max(c.mixer_shift, c.channel_shift));
    int gate_lanes = n.memory_lanes;
    if (removes(c)) {
      take_most(most.scratch, std::int64_t{kRemovalTokens} * removal_floats(n));
      gate_lanes = 0;
    } else {
      take_most(most.padded_v, std::int64_t{c.num_kv_heads} * n.channels);
      take_most(most.p, std::int64_t{c.num_heads} * n.slot_lanes());
    }
    switch (c.kind()) {
      case Mixer::slots:
        take_most(most.turned_q, c.rotates() ? c.q_channels() : 0);
        take_most(most.turned_k, c.rotates() ? c.k_channels() : 0);
        break;
      case Mixer::recurrence: {
        const RecurrenceSpec& spec = c.recurrence();
        if (spec.decay_on_values) gate_lanes = std::max(gate_lanes, n.channels);
        take_most(most.widest, std::max(c.q_channels(), spec.gate_rank));
        take_most(most.low,
                  spec.gate_rank + spec.rate_rank + spec.output_gate_rank + spec.value_rank);
        take_most(most.r, c.rate_channels());
        if (c.mixer_shift > 0) {
          take_most(most.shifted, std::max({c.mixer_shift, spec.gate_rank, spec.rate_rank,
                                            spec.output_gate_rank, spec.value_rank}));
        }
        take_most(most.bonus, spec.bonus ? c.num_heads : 0);
        take_most(most.first_v, spec.first_values || spec.value_rank > 0 ? c.v_channels() : 0);
        take_most(most.v_mix, spec.value_rank > 0 ? c.v_channels() : 0);
        take_most(most.mapped, layer.q_map.present() ? c.q_channels() : 0);
        break;
      }
    }
    take_most(most.gates, std::int64_t{c.num_kv_heads} * gate_lanes);
  }
  most.scratch = round_up(most.scratch, std::size_t{16});
  return most;
}

}  // namespace

Result<std::unique_ptr<Plan>> CpuPlan::record(const CpuModel& model, int max_tokens,
                                              const Recording& recording) {
  if (max_tokens < 1 || max_tokens > ThreadPool::kMaxItems) {
    return fail(ErrorCode::invalid_argument, "plan: max_tokens is ", max_tokens, ", expected 1 to ",
                ThreadPool::kMaxItems);
  }
  std::unique_ptr<CpuPlan> plan(new CpuPlan(model, max_tokens));
  Recorder recorder(*plan);
  RUNNEL_CHECK_OK(recording(recorder));

  Pass& pass = plan->pass_;
  pass.model = &model;
  const auto tokens = static_cast<std::size_t>(max_tokens);
  const auto threads = static_cast<std::size_t>(model.pool().threads());
  const TokenFloats n = token_floats(model);
  pass.scratch_floats = n.scratch;
  const bool sinks = model.rotation().sinks;

  // Carved twice: first to add up, then to hand out.
  std::size_t used = 0;
  const auto carve = [&](auto& pointer, std::size_t bytes) {
    if (plan->arena_.data() != nullptr) {
      pointer =
          reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(plan->arena_.data() + used);
    }
    used += round_up(bytes, 64);
  };
  const auto floats = [&](float*& pointer, std::size_t per_token) {
    carve(pointer, tokens * per_token * sizeof(float));
  };
  const auto carve_all = [&] {
    used = 0;
    floats(pass.x, static_cast<std::size_t>(model.config().hidden_size));
    carve(pass.scratch, threads * n.scratch * sizeof(float));
    carve(pass.input.groups, tokens * (n.widest / 32) * kGroupBytes);
    floats(pass.input.floats, n.widest);
    carve(pass.hidden.groups, tokens * (n.inner / 32) * kGroupBytes);
    floats(pass.hidden.floats, n.inner);
    floats(pass.q, n.q);
    floats(pass.k, n.k);
    floats(pass.v, n.v);
    floats(pass.f, n.f);
    floats(pass.turned_q, n.turned_q);
    floats(pass.sink_q, sinks ? n.turned_q : 0);
    floats(pass.turned_k, n.turned_k);
    floats(pass.padded_v, n.padded_v);
    floats(pass.alpha, n.gates);
    floats(pass.write, n.gates);
    floats(pass.turn, n.turn);
    floats(pass.sink_turn, sinks ? n.turn : 0);
    floats(pass.p, n.p);
    floats(pass.o, n.o);
    floats(pass.low, n.low);
    floats(pass.r, n.r);
    floats(pass.gate, n.output_gate);
    floats(pass.mapped, n.mapped);
    floats(pass.mapped2, n.mapped);
    floats(pass.bonus, n.bonus);
    floats(pass.first_v, n.first_v);
    floats(pass.v_mix, n.v_mix);
    floats(pass.normed, n.normed);
    for (PackedInput& input : pass.shifted) {
      carve(input.groups, tokens * (n.shifted / 32) * kGroupBytes);
      floats(input.floats, n.shifted);
    }
  };
  carve_all();
  RUNNEL_TRY(plan->arena_, PageBuffer::create(used));
  carve_all();
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
  for (const Step& step : steps_) {
    pass_.layer = step.layer;
    step.run(pass_);
  }
  for (const PassItem& item : pass_.items)
    item.state->advance(static_cast<std::size_t>(item.count));
  return {};
}

}  // namespace runnel::cpu
