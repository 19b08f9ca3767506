// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/reference/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/backend/pass_probe.h"
#include "runtime/backend/plan_items.h"
#include "runtime/backend/reference/weight_rows.h"
#include "runtime/base/try.h"

namespace runnel::reference {
namespace {

class ReferenceState final : public RecurrentState {
 public:
  explicit ReferenceState(const StateLayout& layout) : floats(layout.total_floats()) {}

  std::uint64_t position() const override { return tokens; }

  Status export_to(std::span<float> out) const override {
    if (out.size() != floats.size()) {
      return fail(ErrorCode::invalid_argument, "state: buffer has ", out.size(),
                  " floats, expected ", floats.size());
    }
    std::copy(floats.begin(), floats.end(), out.begin());
    return {};
  }

  Status import_from(std::span<const float> canonical, std::uint64_t position) override {
    if (canonical.size() != floats.size()) {
      return fail(ErrorCode::mismatch, "state: has ", canonical.size(), " floats, expected ",
                  floats.size());
    }
    std::copy(canonical.begin(), canonical.end(), floats.begin());
    tokens = position;
    return {};
  }

  Result<std::unique_ptr<RecurrentState>> clone() const override {
    return std::unique_ptr<RecurrentState>(std::make_unique<ReferenceState>(*this));
  }

  Status reset() override {
    std::fill(floats.begin(), floats.end(), 0.0F);
    tokens = 0;
    return {};
  }

  std::vector<float> floats;  // StateLayout order
  std::uint64_t tokens = 0;
};

/// The buffers of one pass. T = tokens of all items, one after the other.
struct Pass {
  std::span<const PlanItem> items;
  std::vector<TokenId> tokens;  // [T]
  std::vector<float> x;         // [T, D]
  std::vector<float> q;         // [T, HQ, K]
  std::vector<float> k;         // [T, H, K]
  std::vector<float> v;         // [T, H, V]
  std::vector<float> f;         // [T, H, F] gate logits
  std::vector<float> r;         // [T, H, F] refining logits
  std::vector<float> gate;      // [T, HQ, V] output gate
  std::vector<float> o;         // [T, HQ, V]
};

/// Records each op as a closure over the layer's description and the op's weights.
class Recorder final : public Ops {
 public:
  using Step = std::function<void(Pass&)>;

  Recorder(const StateLayout& layout, Activations activations)
      : layout_(layout), activations_(activations) {}

  Status embed(const WeightView& table) override {
    steps.emplace_back([&table](Pass& p) { reference::embed(table, p.tokens, p.x); });
    return {};
  }

  Status slot_projections(const LayerSpec& layer, const SlotWeights& w) override {
    steps.emplace_back([this, layer, &w](Pass& p) { project_slots(layer, w, p); });
    return {};
  }

  Status slot_attention(const LayerSpec& layer, const SlotWeights& w) override {
    steps.emplace_back([this, layer, &w](Pass& p) { attend(layer, w, p); });
    return {};
  }

  Status output_projection(const LayerSpec& layer, const OutputWeights& w) override {
    steps.emplace_back([this, layer, &w](Pass& p) {
      reference::output_projection(layer, w, activations_, p.o, p.gate, p.x);
    });
    return {};
  }

  Status recurrence_projections(const LayerSpec& layer, const RecurrenceWeights& w) override {
    steps.emplace_back([this, layer, &w](Pass& p) { project_recurrence(layer, w, p); });
    return {};
  }

  Status gated_recurrence(const LayerSpec& layer, const RecurrenceWeights& w) override {
    steps.emplace_back([this, layer, &w](Pass& p) { recur(layer, w, p); });
    return {};
  }

  Status gated_mlp(const LayerSpec& layer, const ChannelMixWeights& w) override {
    steps.emplace_back(
        [this, layer, &w](Pass& p) { reference::gated_mlp(layer, w, activations_, p.x); });
    return {};
  }

  Status squared_relu_mlp(const LayerSpec& layer, const ChannelMixWeights& w) override {
    steps.emplace_back(
        [this, layer, &w](Pass& p) { reference::squared_relu_mlp(layer, w, activations_, p.x); });
    return {};
  }

  Status logits(const NormSpec& norm, const NormWeights& norm_weights,
                const WeightView& head) override {
    steps.emplace_back([this, norm, &norm_weights, &head](Pass& p) {
      const std::size_t width = static_cast<std::size_t>(head.cols);
      std::size_t first = 0;
      for (const PlanItem& item : p.items) {
        const std::size_t n = item.tokens.size();
        const std::size_t skip = item.wanted == LogitsWanted::last ? n - 1 : 0;
        if (item.wanted != LogitsWanted::none) {
          reference::logits(norm, norm_weights, head, activations_,
                            std::span(p.x).subspan((first + skip) * width, (n - skip) * width),
                            item.logits);
        }
        first += n;
      }
    });
    return {};
  }

  std::vector<Step> steps;

 private:
  /// out [T, rows] = W x + bias, resized.
  void project(const WeightView& w, const WeightView& bias, std::span<const float> x, Pass& p,
               std::vector<float>& out) const {
    out.assign(p.tokens.size() * static_cast<std::size_t>(w.rows), 0.0F);
    if (!w.present()) return;
    linear(w, activations_, x, out);
    add_bias(bias, out);
  }

  /// What both mixers have: q, k, v.  @return norm(x)
  std::vector<float> project_common(const LayerSpec& layer, const ProjectionWeights& w,
                                    Pass& p) const {
    std::vector<float> normed(p.x.size());
    norm(layer.norm, w.norm, p.x, normed);
    project(w.q_proj, w.q_bias, normed, p, p.q);
    project(w.k_proj, w.k_bias, normed, p, p.k);
    project(w.v_proj, w.v_bias, normed, p, p.v);
    p.o.assign(p.tokens.size() * static_cast<std::size_t>(layer.o_channels()), 0.0F);
    p.gate.clear();
    return normed;
  }

  void project_slots(const LayerSpec& layer, const SlotWeights& w, Pass& p) const {
    const std::vector<float> normed = project_common(layer, w, p);
    project(w.f_proj, {}, normed, p, p.f);
    if (layer.conv_size > 0) convolve(layer, w, p.k, p);
  }

  /// @param keys  what the keys' convolution is on
  void convolve(const LayerSpec& layer, const ProjectionWeights& w, std::vector<float>& keys,
                Pass& p) const {
    const LayerState& state = layout_.layer(layer.index);
    std::size_t first = 0;
    for (const PlanItem& item : p.items) {
      const std::size_t n = item.tokens.size();
      std::vector<float>& floats = static_cast<ReferenceState*>(item.state)->floats;
      const auto conv = [&](const WeightView& kernel, std::vector<float>& x, std::size_t tail) {
        const std::size_t channels = static_cast<std::size_t>(kernel.rows);
        short_conv(
            kernel, layer.conv_silu, std::span(x).subspan(first * channels, n * channels),
            std::span(floats).subspan(tail, channels * static_cast<std::size_t>(layer.conv_size)));
      };
      conv(w.q_conv, p.q, state.q_conv_offset());
      conv(w.k_conv, keys, state.k_conv_offset());
      conv(w.v_conv, p.v, state.v_conv_offset());
      first += n;
    }
  }

  void project_recurrence(const LayerSpec& layer, const RecurrenceWeights& w, Pass& p) const {
    const RecurrenceSpec& spec = layer.recurrence();
    const std::vector<float> normed = project_common(layer, w, p);
    p.f.clear();
    p.r.clear();
    if (spec.gate_rank > 0) {
      std::vector<float> low;
      project(w.f_down, {}, normed, p, low);
      project(w.f_proj, {}, low, p, p.f);
    } else if (spec.has_gate()) {
      project(w.f_proj, {}, normed, p, p.f);
    }
    if (spec.decay == Decay::refined) project(w.r_proj, {}, normed, p, p.r);
    if (layer.output_gate) project(w.out_gate, {}, normed, p, p.gate);
    if (layer.conv_size > 0) convolve(layer, w, spec.complement_keys ? p.f : p.k, p);
  }

  void recur(const LayerSpec& layer, const RecurrenceWeights& w, Pass& p) const {
    const LayerState& layout = layout_.layer(layer.index);
    const std::size_t heads = static_cast<std::size_t>(layer.num_kv_heads);
    const std::size_t group = static_cast<std::size_t>(layer.queries_per_kv_head());
    const std::size_t dim_k = static_cast<std::size_t>(layer.head_k_dim);
    const std::size_t dim_v = static_cast<std::size_t>(layer.head_v_dim);
    const std::size_t gates = static_cast<std::size_t>(layer.gate_dim());
    const auto values = [](const WeightView& v) {
      return v.present() ? all_values(v) : std::vector<float>();
    };
    const std::vector<float> f_bias = values(w.f_bias);
    const std::vector<float> r_bias = values(w.r_bias);
    const std::vector<float> bound = values(w.lower_bound);
    std::size_t row = 0;  // token within the pass
    for (const PlanItem& item : p.items) {
      ReferenceState& state = *static_cast<ReferenceState*>(item.state);
      const std::span<float> floats(state.floats);
      for (std::size_t t = 0; t < item.tokens.size(); ++t, ++row) {
        for (std::size_t h = 0; h < heads; ++h) {
          const int head = static_cast<int>(h);
          const std::size_t at = row * heads + h;  // [T, H] index
          const auto of = [](const std::vector<float>& all, std::size_t index, std::size_t n) {
            return all.empty() ? std::span<const float>() : std::span(all).subspan(index * n, n);
          };
          const RecurrenceInput in{.q = of(p.q, at, group * dim_k),
                                   .k = of(p.k, at, dim_k),
                                   .v = of(p.v, at, dim_v),
                                   .f = of(p.f, at, gates),
                                   .r = of(p.r, at, gates),
                                   .f_bias = of(f_bias, h, gates),
                                   .r_bias = of(r_bias, h, gates),
                                   .lower_bound = of(bound, h, gates),
                                   .q_map = {&w.q_map, &w.q_map_bias, &w.q_map2, &w.q_map2_bias},
                                   .k_map = {&w.k_map, &w.k_map_bias, &w.k_map2, &w.k_map2_bias}};
          recurrence_step(
              layer, state.tokens + t, head, in,
              {.keys = floats.subspan(layout.keys_offset(head), layout.keys_floats()),
               .values = floats.subspan(layout.values_offset(head), layout.values_floats()),
               .extra = floats.subspan(layout.extra_offset(head),
                                       static_cast<std::size_t>(layout.head_extra))},
              std::span(p.o).subspan(at * group * dim_v, group * dim_v));
        }
      }
    }
  }

  void attend(const LayerSpec& layer, const SlotWeights& w, Pass& p) const {
    const SlotSpec& spec = layer.slots();
    feature_map(spec.feature_map, w.feature_map, layer.head_k_dim, p.q);
    feature_map(spec.feature_map, w.feature_map, layer.head_k_dim, p.k);
    for (float& v : p.v) v = activate(spec.value_activation, v);
    std::vector<float>& log_alpha = p.f;  // [T, H, M]
    log_decay(w.f_bias, spec.gate_normalizer, spec.gate_log_min, log_alpha);
    std::vector<float> write(log_alpha.size());  // [T, H, M]
    std::transform(log_alpha.begin(), log_alpha.end(), write.begin(),
                   [](float g) { return -std::expm1(g); });
    const LayerState& layout = layout_.layer(layer.index);
    const std::size_t heads = static_cast<std::size_t>(layer.num_kv_heads);
    const std::size_t group = static_cast<std::size_t>(layer.queries_per_kv_head());
    const std::size_t dim_k = static_cast<std::size_t>(layer.head_k_dim);
    const std::size_t dim_v = static_cast<std::size_t>(layer.head_v_dim);
    const std::size_t slots = static_cast<std::size_t>(spec.num_memory_slots);
    const std::vector<float> bias =
        w.read_bias.present() ? all_values(w.read_bias) : std::vector<float>();
    const std::vector<float> head_bias =
        w.head_read_bias.present() ? all_values(w.head_read_bias) : std::vector<float>();
    std::size_t row = 0;  // token within the pass
    for (const PlanItem& item : p.items) {
      ReferenceState& state = *static_cast<ReferenceState*>(item.state);
      for (std::size_t t = 0; t < item.tokens.size(); ++t, ++row) {
        for (std::size_t h = 0; h < heads; ++h) {
          const std::size_t at = row * heads + h;  // [T, H] index
          const auto gate = [&](const std::vector<float>& a) {
            return std::span(a).subspan(at * slots, slots);
          };
          const SlotInput in{
              .q = std::span(p.q).subspan(at * group * dim_k, group * dim_k),
              .k = std::span(p.k).subspan(at * dim_k, dim_k),
              .v = std::span(p.v).subspan(at * dim_v, dim_v),
              .log_alpha = gate(log_alpha),
              .s = gate(write),
              .read_bias = bias.empty() ? std::span<const float>()
                                        : std::span(bias).subspan(h * slots, slots),
              .head_read_bias = head_bias.empty() ? std::span<const float>()
                                                  : std::span(head_bias).subspan(h * group, group)};
          slot_step(layer, state.tokens + t, in,
                    std::span(state.floats)
                        .subspan(layout.keys_offset(static_cast<int>(h)), layout.keys_floats()),
                    std::span(state.floats)
                        .subspan(layout.values_offset(static_cast<int>(h)), layout.values_floats()),
                    std::span(p.o).subspan(at * group * dim_v, group * dim_v));
        }
      }
    }
  }

  static std::vector<float> all_values(const WeightView& w) {
    std::vector<float> all;
    for (std::int64_t r = 0; r < w.rows; ++r) {
      const std::vector<float> row = row_values(w, r);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

  const StateLayout& layout_;
  Activations activations_;
};

class ReferencePlan final : public Plan, private PassProbe {
 public:
  ReferencePlan(const ModelConfig& config, const StateLayout& layout, Activations activations,
                int max_tokens)
      : recorder(layout, activations), c_(config), max_tokens_(max_tokens) {}

  int max_tokens() const override { return max_tokens_; }

  Status run(std::span<const PlanItem> items, std::stop_token stop) override {
    RUNNEL_CHECK_OK(check_items(items, max_tokens_, c_.vocab_size));
    if (stop.stop_requested()) return fail(ErrorCode::cancelled, "pass: a stop was requested");
    pass_.items = items;
    pass_.tokens.clear();
    for (const PlanItem& item : items)
      pass_.tokens.insert(pass_.tokens.end(), item.tokens.begin(), item.tokens.end());
    pass_.x.resize(pass_.tokens.size() * static_cast<std::size_t>(c_.hidden_size));
    for (const Recorder::Step& step : recorder.steps) step(pass_);
    for (const PlanItem& item : items)
      static_cast<ReferenceState*>(item.state)->tokens += item.tokens.size();
    return {};
  }

  PassProbe* probe() override { return this; }

  Recorder recorder;

 private:
  // PassProbe
  Status write(PassBuffer buffer, const LayerSpec& layer, std::span<const float> rows) override {
    RUNNEL_CHECK_OK(check_rows(buffer, layer, c_.hidden_size, rows.size(), max_tokens_));
    rows_of(buffer).assign(rows.begin(), rows.end());
    return {};
  }
  Status read(PassBuffer buffer, const LayerSpec& layer, std::span<float> rows) override {
    RUNNEL_CHECK_OK(check_rows(buffer, layer, c_.hidden_size, rows.size(), max_tokens_));
    const std::vector<float>& own = rows_of(buffer);
    if (own.size() < rows.size()) {
      return fail(ErrorCode::invalid_argument, "probe: ", rows.size(), " floats, expected at most ",
                  own.size());
    }
    std::copy_n(own.begin(), rows.size(), rows.begin());
    return {};
  }
  std::vector<float>& rows_of(PassBuffer buffer) {
    switch (buffer) {
      case PassBuffer::x:
        return pass_.x;
      case PassBuffer::q:
        return pass_.q;
      case PassBuffer::k:
        return pass_.k;
      case PassBuffer::v:
        return pass_.v;
      case PassBuffer::f:
        return pass_.f;
      case PassBuffer::r:
        return pass_.r;
      case PassBuffer::gate:
        return pass_.gate;
      case PassBuffer::o:
        break;
    }
    return pass_.o;
  }

  const ModelConfig& c_;
  int max_tokens_;
  Pass pass_;
};

class ReferenceModel final : public DeviceModel {
 public:
  ReferenceModel(ModelConfig config, const Weights& weights, std::shared_ptr<const void> keep_alive,
                 Activations activations)
      : config_(std::move(config)),
        layout_(StateLayout::of(config_)),
        keep_alive_(std::move(keep_alive)),
        activations_(activations) {
    const auto add = [this](const WeightView& w) { weight_bytes_ += w.data.size(); };
    add(weights.embeddings);
    if (!weights.tied()) add(weights.head);
    for (const LayerWeights& l : weights.layers) for_each_view(l, add);
  }

  Result<std::unique_ptr<RecurrentState>> create_state() const override {
    return std::unique_ptr<RecurrentState>(std::make_unique<ReferenceState>(layout_));
  }

  Result<std::unique_ptr<Plan>> record(int max_tokens, const Recording& recording) const override {
    auto plan = std::make_unique<ReferencePlan>(config_, layout_, activations_, max_tokens);
    RUNNEL_CHECK_OK(recording(plan->recorder));
    return std::unique_ptr<Plan>(std::move(plan));
  }

  MemoryUse memory() const override {
    return {.weight_bytes = weight_bytes_,
            .state_bytes = layout_.total_floats() * sizeof(float),
            .scratch_bytes = 0};
  }

 private:
  ModelConfig config_;
  StateLayout layout_;
  std::shared_ptr<const void> keep_alive_;
  Activations activations_;
  std::uint64_t weight_bytes_ = 0;
};

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(Activations activations) : activations_(activations) {}

  const DeviceInfo& device() const override { return device_; }

  Result<std::unique_ptr<DeviceModel>> load(const LoadRequest& request) override {
    RUNNEL_CHECK_OK(expect_ops(request.step_program, device_.id));
    if (request.progress && !request.progress(1.0F))
      return fail(ErrorCode::cancelled, "load: stopped by the caller");
    return std::unique_ptr<DeviceModel>(std::make_unique<ReferenceModel>(
        request.config, request.weights, request.keep_alive, activations_));
  }

 private:
  DeviceInfo device_{.id = "reference",
                     .backend = "reference",
                     .name = "Reference (scalar, one thread)",
                     .detail = "f32"};
  Activations activations_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(Activations activations) {
  return std::make_unique<ReferenceBackend>(activations);
}

}  // namespace runnel::reference
