// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/step_model.h"

#include <utility>

#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel {
namespace {

/// Takes the ops down as long as they follow the one form, and says where they leave it.
class StepRecorder final : public Ops {
 public:
  explicit StepRecorder(StepModel& model) : m_(model) {}

  Status embed(const WeightView& table) override {
    if (next_ != Next::embed) return stop("an embedding that is not the first op");
    m_.embeddings = &table;
    m_.vocab_size = static_cast<std::int32_t>(table.rows);
    m_.hidden_size = static_cast<std::int32_t>(table.cols);
    next_ = Next::layer;
    return {};
  }

  Status embedding_norm(const NormSpec&, const NormWeights&) override {
    return stop("a norm behind the embedding");
  }

  Status slot_projections(const LayerSpec& layer, const SlotWeights& weights) override {
    if (next_ != Next::layer) return stop("slot projections where another op is due");
    if (m_.layers.empty()) {
      m_.layer = layer;
      m_.layer.index = 0;
    } else if (!alike(m_.layer, layer)) {
      return stop("layer " + std::to_string(layer.index) + " is not like layer 0");
    }
    if (layer.index != static_cast<std::int32_t>(m_.layers.size()))
      return stop("layers out of their order");
    m_.layers.push_back({.mixer = &weights});
    next_ = Next::attention;
    return {};
  }

  Status slot_attention(const LayerSpec& layer, const SlotWeights& weights) override {
    if (next_ != Next::attention || !current(layer) || m_.layers.back().mixer != &weights) {
      return stop("slot attention apart from its projections");
    }
    next_ = Next::output;
    return {};
  }

  Status recurrence_projections(const LayerSpec&, const RecurrenceWeights&) override {
    return stop("a recurrence");
  }
  Status shifted_projections(const LayerSpec&, const RecurrenceWeights&) override {
    return stop("a recurrence");
  }
  Status gated_recurrence(const LayerSpec&, const RecurrenceWeights&) override {
    return stop("a recurrence");
  }

  Status output_projection(const LayerSpec& layer, const OutputWeights& weights) override {
    if (next_ != Next::output || !current(layer))
      return stop("an output projection where another op is due");
    m_.layers.back().output = &weights;
    next_ = Next::channel_mix;
    return {};
  }

  Status gated_mlp(const LayerSpec& layer, const ChannelMixWeights& weights) override {
    if (next_ != Next::channel_mix || !current(layer))
      return stop("a SwiGLU where another op is due");
    m_.layers.back().channel_mix = &weights;
    next_ = Next::layer;
    return {};
  }

  Status squared_relu_mlp(const LayerSpec&, const ChannelMixWeights&) override {
    return stop("a squared ReLU");
  }

  Status logits(const NormSpec& norm, const NormWeights& norm_weights,
                const WeightView& head) override {
    if (next_ == Next::channel_mix) return stop("a layer without a channel mix");
    if (next_ != Next::layer || m_.layers.empty()) return stop("logits where another op is due");
    m_.final_norm = norm;
    m_.final_norm_weights = &norm_weights;
    m_.head = &head;
    next_ = Next::nothing;
    return {};
  }

  bool complete() const { return next_ == Next::nothing; }

 private:
  enum class Next { embed, layer, attention, output, channel_mix, nothing };

  bool current(const LayerSpec& layer) const {
    return layer.index + 1 == static_cast<std::int32_t>(m_.layers.size()) && alike(m_.layer, layer);
  }

  Status stop(std::string why) {
    if (m_.why_not.empty()) m_.why_not = std::move(why);
    return fail(ErrorCode::unsupported, m_.why_not);
  }

  StepModel& m_;
  Next next_ = Next::embed;
};

/// Takes the ops of a pass of shifted projections down; any other fails.
class ShiftRecorder final : public Ops {
 public:
  explicit ShiftRecorder(StepModel& model) : m_(model) {}

  Status embed(const WeightView& table) override {
    m_.embeddings = &table;
    m_.vocab_size = static_cast<std::int32_t>(table.rows);
    m_.hidden_size = static_cast<std::int32_t>(table.cols);
    return due(Next::embed, Next::layer);
  }
  Status embedding_norm(const NormSpec& norm, const NormWeights& weights) override {
    if (!m_.shifted.layers.empty()) return other();
    m_.shifted.embedding_norm = norm;
    m_.shifted.embedding_norm_weights = &weights;
    return due(Next::layer, Next::layer);
  }
  Status slot_projections(const LayerSpec&, const SlotWeights&) override { return other(); }
  Status slot_attention(const LayerSpec&, const SlotWeights&) override { return other(); }
  Status recurrence_projections(const LayerSpec&, const RecurrenceWeights&) override {
    return other();
  }
  Status shifted_projections(const LayerSpec& layer, const RecurrenceWeights& weights) override {
    if (layer.index != static_cast<std::int32_t>(m_.shifted.layers.size())) return other();
    m_.shifted.layers.push_back({.spec = layer, .mixer = &weights});
    return due(Next::layer, Next::recurrence);
  }
  Status gated_recurrence(const LayerSpec& layer, const RecurrenceWeights& weights) override {
    if (m_.shifted.layers.empty() || m_.shifted.layers.back().mixer != &weights) return other();
    return of_last(layer, Next::recurrence, Next::output);
  }
  Status output_projection(const LayerSpec& layer, const OutputWeights& weights) override {
    if (m_.shifted.layers.empty()) return other();
    m_.shifted.layers.back().output = &weights;
    return of_last(layer, Next::output, Next::channel_mix);
  }
  Status gated_mlp(const LayerSpec&, const ChannelMixWeights&) override { return other(); }
  Status squared_relu_mlp(const LayerSpec& layer, const ChannelMixWeights& weights) override {
    if (m_.shifted.layers.empty()) return other();
    m_.shifted.layers.back().channel_mix = &weights;
    return of_last(layer, Next::channel_mix, Next::layer);
  }
  Status logits(const NormSpec& norm, const NormWeights& norm_weights,
                const WeightView& head) override {
    if (m_.shifted.layers.empty()) return other();
    m_.final_norm = norm;
    m_.final_norm_weights = &norm_weights;
    m_.head = &head;
    return due(Next::layer, Next::nothing);
  }

  bool complete() const { return next_ == Next::nothing; }

 private:
  enum class Next { embed, layer, recurrence, output, channel_mix, nothing };

  static Status other() { return fail(ErrorCode::unsupported, "a pass of another form"); }
  Status due(Next now, Next then) {
    if (next_ != now) return other();
    next_ = then;
    return {};
  }
  Status of_last(const LayerSpec& layer, Next now, Next then) {
    return layer == m_.shifted.layers.back().spec ? due(now, then) : other();
  }

  StepModel& m_;
  Next next_ = Next::embed;
};

void record_shifted(StepModel& model, const Recording& pass) {
  ShiftRecorder recorder(model);
  if (Status s = pass(recorder); !s || !recorder.complete()) model.shifted = {};
}

}  // namespace

StepModel record_step_model(const Recording& pass) {
  StepModel model;
  if (!pass) {
    model.why_not = "no pass was recorded at load";
    return model;
  }
  StepRecorder recorder(model);
  if (Status s = pass(recorder); !s && model.why_not.empty()) model.why_not = s.error().message;
  if (model.why_not.empty() && !recorder.complete()) model.why_not = "a pass without logits";
  if (!model.why_not.empty()) record_shifted(model, pass);
  return model;
}

std::string refuse_step_form(const StepModel& model) {
  if (!model.recognised()) return model.why_not;
  const LayerSpec& l = model.layer;
  if (l.norm.kind != Norm::rms || l.channel_norm.kind != Norm::rms ||
      model.final_norm.kind != Norm::rms) {
    return "a LayerNorm";
  }
  if (l.conv_size > 0) return "convolutions";
  if (l.output_gate) return "an output gate";
  switch (l.output_norm) {
    case OutputNorm::none:
    case OutputNorm::channels:
      break;
    case OutputNorm::heads:
    case OutputNorm::groups:
      return "an output norm over each head";
  }
  switch (l.slots().feature_map) {
    case FeatureMap::identity:
    case FeatureMap::swish:
    case FeatureMap::relu:
      return "";
    case FeatureMap::t2r:
    case FeatureMap::elu:
    case FeatureMap::product:
    case FeatureMap::hedgehog:
    case FeatureMap::dpfp:
    case FeatureMap::exponential:
      return "a feature map with weights";
  }
  return "";
}

std::string refuse_step_model(const StepModel& model) {
  if (std::string why = refuse_step_form(model); !why.empty()) return why;
  const LayerSpec& l = model.layer;
  const auto uneven = [](const char* what, std::int32_t n) {
    return std::string(what) + " " + std::to_string(n) + " is not a multiple of 32";
  };
  if (model.hidden_size % 32 != 0) return uneven("hidden size", model.hidden_size);
  if (l.intermediate_size % 32 != 0) return uneven("intermediate size", l.intermediate_size);
  if (l.o_channels() % 32 != 0) return uneven("output channels", l.o_channels());
  if (!is_power_of_two(l.head_k_dim) || !is_power_of_two(l.head_v_dim) || l.head_k_dim < 8 ||
      l.head_v_dim < 4) {
    return "heads of " + std::to_string(l.head_k_dim) +
           (l.head_v_dim == l.head_k_dim ? "" : " and " + std::to_string(l.head_v_dim)) +
           ", expected a power of two";
  }
  return "";
}

namespace {

std::string refuse_shifted_recurrence(const LayerSpec& l, std::int32_t width) {
  constexpr std::int32_t kHead = 64;
  const RecurrenceSpec& r = l.recurrence();
  if (l.head_k_dim != kHead || l.head_v_dim != kHead || r.values_per_key != 1 ||
      l.num_heads != l.num_kv_heads || l.num_heads * kHead != width) {
    return std::to_string(l.num_heads) + " heads of " + std::to_string(l.head_k_dim) + " and " +
           std::to_string(l.head_v_dim) + ", expected heads of 64 that make up the channels";
  }
  if (r.removal != Removal::own_key || r.decay != Decay::bounded || r.key_norm != KeyNorm::none ||
      r.feature_map != FeatureMap::identity || r.value_activation != Activation::identity ||
      l.conv_size > 0 || l.qkv_bias || r.num_memory_slots > 0)
    return "a recurrence of another form";
  if (r.gate_rank == 0 || r.rate_rank == 0 || l.output_gate != (r.output_gate_rank > 0))
    return "gates of full rank";
  if (l.output_norm != OutputNorm::groups && l.output_norm != OutputNorm::none)
    return "an output norm of another form";
  if (l.output_gate && l.gate_activation != Activation::identity)
    return "an activation of the output gate";
  return l.output_activation == Activation::identity ? "" : "an activation behind the recurrence";
}

/// What must be the same in all layers.
bool same_constants(const LayerSpec& a, const LayerSpec& b) {
  const RecurrenceSpec &r = a.recurrence(), &s = b.recurrence();
  return a.norm == b.norm && a.norm == b.channel_norm && a.output_norm == b.output_norm &&
         a.output_norm_eps == b.output_norm_eps && a.output_gate == b.output_gate &&
         a.intermediate_size == b.intermediate_size && r.scale == s.scale && r.bonus == s.bonus &&
         r.gate_rank == s.gate_rank && r.rate_rank == s.rate_rank &&
         r.output_gate_rank == s.output_gate_rank;
}

}  // namespace

std::string refuse_shift_model(const StepModel& model) {
  const std::vector<StepShiftLayer>& layers = model.shifted.layers;
  if (layers.empty()) return "a pass without shifted projections throughout";
  const LayerSpec& first = layers.front().spec;
  for (const StepShiftLayer& each : layers) {
    const LayerSpec& l = each.spec;
    if (std::string why = refuse_shifted_recurrence(l, model.hidden_size); !why.empty()) return why;
    if (l.mixer_shift != model.hidden_size) return "projections without a shift";
    if (l.channel_shift != model.hidden_size) return "a channel mix without a shift";
    if (!same_constants(first, l)) return "layers of different constants";
    const RecurrenceSpec& r = l.recurrence();
    if (r.first_values != (l.index == 0) || (l.index == 0 && r.value_rank > 0) ||
        (l.index > 1 && r.value_rank != layers[1].spec.recurrence().value_rank))
      return "values that are mixed in another way";
    if (l.output_norm == OutputNorm::groups &&
        (each.output->g_norm.rows == 0 || each.output->g_norm_bias.rows == 0))
      return "an output norm without weights";
  }
  if (model.shifted.embedding_norm_weights != nullptr &&
      model.shifted.embedding_norm.kind != first.norm.kind)
    return "norms of different kinds";
  return "";
}

}  // namespace runnel
