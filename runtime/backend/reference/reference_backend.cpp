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
  std::vector<float> r;         // [T, H, R] refining or rate logits
  std::vector<float> gate;      // [T, HQ, V] output gate
  std::vector<float> o;         // [T, HQ, V]
  std::vector<float> bonus;     // [T, HQ]
  std::vector<float> first_v;   // [T, H, V] of an earlier layer
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

  Status embedding_norm(const NormSpec& spec, const NormWeights& w) override {
    steps.emplace_back([spec, &w](Pass& p) {
      std::vector<float> normed(p.x.size());
      norm(spec, w, p.x, normed);
      p.x = std::move(normed);
    });
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
      reference::output_projection(layer, w, activations_,
                                   {.o = p.o, .gate = p.gate, .bonus = p.bonus, .v = p.v}, p.x);
    });
    return {};
  }

  Status recurrence_projections(const LayerSpec& layer, const RecurrenceWeights& w) override {
    steps.emplace_back([this, layer, &w](Pass& p) { project_recurrence(layer, w, p); });
    return {};
  }

  Status shifted_projections(const LayerSpec& layer, const RecurrenceWeights& w) override {
    steps.emplace_back([this, layer, &w](Pass& p) { project_shifted(layer, w, p); });
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
    steps.emplace_back([this, layer, &w](Pass& p) {
      std::vector<float> normed(p.x.size());
      norm(layer.channel_norm, w.norm, p.x, normed);
      if (layer.channel_shift > 0) {
        shift_items(all_values(w.lerp), layout_.layer(layer.index).channel_shift_offset(), normed,
                    p);
      }
      reference::squared_relu_mlp(layer, w, activations_, normed, p.x);
    });
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
    p.bonus.clear();
    return normed;
  }

  /// shift() of each item's rows, by the part of its state at `offset`.
  void shift_items(std::span<const float> lerp, std::size_t offset, std::vector<float>& rows,
                   Pass& p) const {
    std::size_t first = 0;
    for (const PlanItem& item : p.items) {
      const std::size_t n = item.tokens.size() * lerp.size();
      shift(
          lerp, std::span(rows).subspan(first, n),
          std::span(static_cast<ReferenceState*>(item.state)->floats).subspan(offset, lerp.size()));
      first += n;
    }
  }

  void project_shifted(const LayerSpec& layer, const RecurrenceWeights& w, Pass& p) const {
    const auto sigmoid = [](float x) { return 1.0F / (1.0F + std::exp(-x)); };
    std::vector<float> h(p.x.size());
    norm(layer.norm, w.norm, p.x, h);
    const std::vector<float> lerps = all_values(w.lerp);
    const std::size_t width = static_cast<std::size_t>(w.lerp.cols);
    const std::size_t offset = layout_.layer(layer.index).mixer_shift_offset();
    // Each input begins from the same state; the last leaves it advanced.
    std::vector<std::vector<float>> before;
    for (const PlanItem& item : p.items) {
      const auto& floats = static_cast<ReferenceState*>(item.state)->floats;
      const auto at = floats.begin() + static_cast<std::ptrdiff_t>(offset);
      before.emplace_back(at, at + static_cast<std::ptrdiff_t>(width));
    }
    const auto input = [&](std::size_t i) {
      for (std::size_t j = 0; j < p.items.size(); ++j) {
        auto& floats = static_cast<ReferenceState*>(p.items[j].state)->floats;
        std::copy(before[j].begin(), before[j].end(),
                  floats.begin() + static_cast<std::ptrdiff_t>(offset));
      }
      std::vector<float> x = h;
      shift_items(std::span(lerps).subspan(i * width, width), offset, x, p);
      return x;
    };
    std::vector<float> low;
    project(w.q_proj, {}, input(0), p, p.q);
    project(w.f_down, {}, input(1), p, low);
    for (float& v : low) v = std::tanh(v);
    project(w.f_proj, {}, low, p, p.f);
    project(w.k_proj, {}, input(2), p, p.k);
    const std::vector<float> x_v = input(3);
    project(w.v_proj, {}, x_v, p, p.v);
    project(w.r_down, {}, input(4), p, low);
    project(w.r_proj, {}, low, p, p.r);
    p.gate.clear();
    if (layer.output_gate) {
      project(w.out_gate_down, {}, input(5), p, low);
      for (float& v : low) v = sigmoid(v);
      project(w.out_gate, {}, low, p, p.gate);
    }
    if (layer.recurrence().first_values) p.first_v = p.v;
    if (layer.recurrence().value_rank > 0) {
      std::vector<float> mix;
      project(w.v_down, {}, x_v, p, low);
      project(w.v_mix, w.v_mix_bias, low, p, mix);
      for (std::size_t i = 0; i < p.v.size(); ++i)
        p.v[i] += (p.first_v[i] - p.v[i]) * sigmoid(mix[i]);
    }
    p.bonus.clear();
    p.o.assign(p.tokens.size() * static_cast<std::size_t>(layer.o_channels()), 0.0F);
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
    if (layer.rate_dim() > 0) project(w.r_proj, {}, normed, p, p.r);
    if (layer.output_gate) project(w.out_gate, {}, normed, p, p.gate);
    if (layer.conv_size > 0) convolve(layer, w, spec.complement_keys ? p.f : p.k, p);
  }

  /// recur() with a removal, a state head at a time.
  void remove(const LayerSpec& layer, const RecurrenceWeights& w, Pass& p) const {
    const LayerState& layout = layout_.layer(layer.index);
    const std::size_t heads = static_cast<std::size_t>(layer.num_kv_heads);
    const std::size_t shared = static_cast<std::size_t>(layer.values_per_key());
    const std::size_t dim_k = static_cast<std::size_t>(layer.head_k_dim);
    const std::size_t dim_v = static_cast<std::size_t>(layer.head_v_dim);
    const std::size_t gates = static_cast<std::size_t>(layer.gate_dim());
    const std::size_t rates = static_cast<std::size_t>(layer.rate_dim());
    const auto of = [](const std::vector<float>& all, std::size_t index, std::size_t n) {
      return all.empty() ? std::span<const float>() : std::span(all).subspan(index * n, n);
    };
    const auto values = [](const WeightView& v) {
      return v.present() ? all_values(v) : std::vector<float>();
    };
    const std::vector<float> f_bias = values(w.f_bias), r_bias = values(w.r_bias),
                             log_rate = values(w.log_rate), removal_key = values(w.removal_key),
                             key_rate = values(w.key_rate), bonus = values(w.bonus);
    if (layer.recurrence().bonus) p.bonus.assign(p.tokens.size() * heads, 0.0F);
    std::size_t row = 0;  // token within the pass
    for (const PlanItem& item : p.items) {
      const std::span<float> floats(static_cast<ReferenceState*>(item.state)->floats);
      for (std::size_t t = 0; t < item.tokens.size(); ++t, ++row) {
        for (std::size_t h = 0; h < heads; ++h) {
          const std::size_t at = row * heads + h, key = row * (heads / shared) + h / shared;
          const RecurrenceInput in{.q = of(p.q, key, dim_k),
                                   .k = of(p.k, key, dim_k),
                                   .v = of(p.v, at, dim_v),
                                   .f = of(p.f, at, gates),
                                   .r = of(p.r, at, rates),
                                   .f_bias = of(f_bias, h, gates),
                                   .r_bias = of(r_bias, h, rates),
                                   .lower_bound = {},
                                   .q_map = {},
                                   .k_map = {},
                                   .log_rate = log_rate.empty() ? 0.0F : log_rate[h],
                                   .removal_key = of(removal_key, h, dim_k),
                                   .key_rate = of(key_rate, h, dim_k),
                                   .bonus_weight = of(bonus, h, dim_k)};
          const float own = removal_step(
              layer, in,
              floats.subspan(layout.values_offset(static_cast<int>(h)), layout.values_floats()),
              std::span(p.o).subspan(at * dim_v, dim_v));
          if (!p.bonus.empty()) p.bonus[at] = own;
        }
      }
    }
  }

  void recur(const LayerSpec& layer, const RecurrenceWeights& w, Pass& p) const {
    if (layer.recurrence().removal != Removal::none) return remove(layer, w, p);
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
      case PassBuffer::first_v:
        return pass_.first_v;
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
