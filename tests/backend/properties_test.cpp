// SPDX-License-Identifier: Apache-2.0
// What must hold on every backend, whatever its kernels: chunked = stepwise, restore = never
// stopped, sessions are independent, the state has one size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>

#include "runtime/backend/registry.h"
#include "runtime/model/weight_table.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/shapes.h"

namespace runnel::test {
namespace {

// chunkwise against stepwise, both f32, of the largest logit
constexpr double kSplitTolerance = 2e-5;
// the last bits of a program for one token against the ops, through two to four layers of 32-bit weights
constexpr double kProgramTolerance = 1e-4;
constexpr double kGroupTolerance = 1e-5;  // one state per kv head against repeated heads

struct Case {
  std::string device;
  std::string model;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.device << " " << c.model; }

RandomModel model_named(const std::string& name) {
  const std::vector<std::string> family = family_names();
  if (std::ranges::find(family, name) != family.end()) {
    return make_random_model(family_config(name), {}, 7);
  }
  ModelConfig config = small_config();
  RandomParts parts;
  if (name == "positional") {
    config = small_positional_config();
    parts = {.tied = true, .gate_bias = true, .read_biases = true};
  } else if (name == "conv") {
    set(config, &LayerSpec::conv_size, 4);
  } else if (name == "t2r") {
    set(config, &MixerSpec::feature_map, FeatureMap::t2r);
  } else if (name == "wide_values") {
    set(config, &LayerSpec::head_k_dim, 24);
    set(config, &LayerSpec::head_v_dim, 16);
    set(config, &MixerSpec::feature_map, FeatureMap::relu);
    parts.g_norm_weight = false;
  } else if (name == "window_only") {
    config = small_positional_config();
    set(config, &SlotSpec::num_sink_slots, 0);
    set(config, &SlotSpec::sink_distance, 0);
    set(config, &SlotSpec::num_window_slots, 5);
  } else if (name == "biases") {
    config = small_positional_config();
    set(config, &LayerSpec::qkv_bias, true);
  } else if (name == "many_slots") {
    config = small_positional_config();
    set(config, &LayerSpec::qkv_bias, true);
    set_memory(config, 72);
  } else if (name == "layer_norm") {
    for (LayerSpec& layer : config.layers) layer.norm.kind = layer.channel_norm.kind = Norm::layer;
    config.final_norm.kind = Norm::layer;
  } else if (name == "squared_relu") {
    set(config, &LayerSpec::channel_mix, ChannelMix::squared_relu);
  } else if (name == "mixed") {
    config = mixed_config();
  }
  return make_random_model(config, parts, 7);
}

class BackendProperties : public testing::TestWithParam<Case> {
 protected:
  BackendProperties() {
    auto backend = make_backend(GetParam().device, 2);
    if (!backend) throw std::runtime_error(backend.error().message);
    backend_ = std::move(*backend);
    loaded_ = load_on(*backend_, model_named(GetParam().model));
    vocab_ = loaded_.source.config.vocab_size;
  }

  /// A driver on the CPU takes a second for ten passes of most models.
  bool slow() const { return backend_->device().name.find("llvmpipe") != std::string::npos; }
  /// Minutes there, of a test that loads many models.
  bool too_slow() const { return slow() && GetParam().model == "many_slots"; }

  std::unique_ptr<Backend> backend_;
  LoadedModel loaded_;
  Random random_{11};
  std::int32_t vocab_ = 0;
};

TEST_P(BackendProperties, AnySplitGivesTheLogitsOfSingleSteps) {
  const std::size_t length = slow() ? 80 : 150;  // past the end of a chunk
  const std::vector<TokenId> tokens = random_.tokens(length, vocab_);
  auto stepwise = loaded_.state();
  const std::vector<float> expected = loaded_.run(*stepwise, tokens, 1);
  for (std::size_t piece : {length, std::size_t{2}, std::size_t{3}, std::size_t{17},
                            std::size_t{64}, std::size_t{65}, std::size_t{128}}) {
    if (slow() && (piece == 3 || piece > length)) continue;
    auto state = loaded_.state();
    EXPECT_LE(max_relative_error(loaded_.run(*state, tokens, piece), expected), kSplitTolerance)
        << "pieces of " << piece;
    EXPECT_LE(max_relative_error(loaded_.canonical(*state), loaded_.canonical(*stepwise)),
              kSplitTolerance)
        << "state after pieces of " << piece;
    EXPECT_EQ(state->position(), length);
  }
}

TEST_P(BackendProperties, RestoredStateContinuesBitForBit) {
  const std::vector<TokenId> tokens = random_.tokens(90, vocab_);
  const std::span<const TokenId> all(tokens);
  for (std::size_t cut : {1UL, 2UL, 5UL, 33UL, 70UL}) {
    auto control = loaded_.state();
    loaded_.run(*control, all.first(cut));
    auto restored = loaded_.state();
    ASSERT_TRUE(
        restored->import_from(loaded_.canonical(*control), control->position()).has_value());
    EXPECT_EQ(loaded_.canonical(*restored), loaded_.canonical(*control));
    EXPECT_EQ(loaded_.run(*restored, all.subspan(cut), 7),
              loaded_.run(*control, all.subspan(cut), 7))
        << "cut at " << cut;
    EXPECT_EQ(loaded_.canonical(*restored), loaded_.canonical(*control));
  }
}

TEST_P(BackendProperties, CloneLeavesItsOriginAlone) {
  const std::vector<TokenId> tokens = random_.tokens(40, vocab_);
  auto origin = loaded_.state();
  loaded_.run(*origin, tokens);
  const std::vector<float> before = loaded_.canonical(*origin);
  auto clone = origin->clone();
  ASSERT_TRUE(clone.has_value());
  EXPECT_EQ(loaded_.canonical(**clone), before);
  loaded_.run(**clone, tokens, 1);
  EXPECT_EQ(loaded_.canonical(*origin), before);
  EXPECT_EQ(origin->position(), 40U);
  EXPECT_EQ((*clone)->position(), 80U);
}

TEST_P(BackendProperties, SessionsOfOnePassDoNotTouchEachOther) {
  // Three sessions of different lengths in one pass give what each gives alone, bit for bit.
  const std::vector<std::vector<TokenId>> tokens = {
      random_.tokens(1, vocab_), random_.tokens(37, vocab_), random_.tokens(12, vocab_)};
  std::vector<std::unique_ptr<RecurrentState>> states;
  std::vector<std::vector<float>> logits;
  std::vector<std::vector<float>> alone;
  std::vector<std::vector<float>> alone_states;
  std::vector<PlanItem> items;
  for (const auto& t : tokens) {
    auto single = loaded_.state();
    alone.push_back(loaded_.run(*single, t));
    alone_states.push_back(loaded_.canonical(*single));
    states.push_back(loaded_.state());
    logits.emplace_back(t.size() * static_cast<std::size_t>(vocab_), NAN);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    items.push_back({.state = states[i].get(),
                     .tokens = tokens[i],
                     .wanted = LogitsWanted::all,
                     .logits = logits[i]});
  }
  ASSERT_TRUE(loaded_.plan->run(items, {}).has_value());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(logits[i], alone[i]) << "session " << i;
    EXPECT_EQ(loaded_.canonical(*states[i]), alone_states[i]) << "session " << i;
  }
}

TEST_P(BackendProperties, TwoOneTokenSessionsOfOnePassAreAsEachAlone) {
  // A lone token may be computed by another program than the same token beside others: bit for bit within one.
  for (const char* row : {"", "ops"}) {
    const LoadedModel loaded = load_on(*backend_, loaded_.source, 4, row);
    const bool one_program = loaded.model->step_program().name == "ops";
    const auto vocab = static_cast<std::size_t>(vocab_);
    std::vector<std::unique_ptr<RecurrentState>> together, alone;
    for (const std::size_t before : {0UL, 11UL}) {
      auto state = loaded.state();
      loaded.run(*state, random_.tokens(before, vocab_), 4);
      auto clone = state->clone();
      ASSERT_TRUE(clone.has_value());
      together.push_back(std::move(*clone));
      alone.push_back(std::move(state));
    }
    for (int pass = 0; pass < 3; ++pass) {
      const std::vector<TokenId> tokens = random_.tokens(2, vocab_);
      std::vector<float> logits(2 * vocab, NAN);
      std::vector<PlanItem> items;
      for (std::size_t i = 0; i < 2; ++i) {
        items.push_back({.state = together[i].get(),
                         .tokens = std::span(tokens).subspan(i, 1),
                         .wanted = LogitsWanted::last,
                         .logits = std::span(logits).subspan(i * vocab, vocab)});
      }
      ASSERT_TRUE(loaded.plan->run(items, {}).has_value());
      for (std::size_t i = 0; i < 2; ++i) {
        const std::vector<float> own = loaded.run(*alone[i], items[i].tokens);
        const std::vector<float> state = loaded.canonical(*alone[i]);
        EXPECT_EQ(together[i]->position(), alone[i]->position());
        if (one_program) {
          EXPECT_TRUE(std::ranges::equal(items[i].logits, own)) << "session " << i << row;
          EXPECT_EQ(loaded.canonical(*together[i]), state) << "session " << i << row;
        } else {
          EXPECT_LE(max_relative_error(items[i].logits, own), kProgramTolerance);
          EXPECT_LE(max_relative_error(loaded.canonical(*together[i]), state), kProgramTolerance);
        }
      }
    }
    if (row == std::string() && one_program) break;  // the same once more
  }
}

TEST_P(BackendProperties, LastLogitsAreTheLastOfAll) {
  const std::vector<TokenId> tokens = random_.tokens(21, vocab_);
  auto state = loaded_.state();
  const std::vector<float> all = loaded_.run(*state, tokens);
  ASSERT_TRUE(state->reset().has_value());
  EXPECT_EQ(state->position(), 0U);
  std::vector<float> last(static_cast<std::size_t>(vocab_), NAN);
  const PlanItem item{
      .state = state.get(), .tokens = tokens, .wanted = LogitsWanted::last, .logits = last};
  ASSERT_TRUE(loaded_.plan->run(std::span(&item, 1), {}).has_value());
  EXPECT_TRUE(std::equal(last.begin(), last.end(), all.end() - vocab_));
}

TEST_P(BackendProperties, PositionsPastThirtyTwoBitsKeepTheirRotation) {
  // Two sessions a whole number of window turns apart differ only by rotation, which relative attention does not see.
  const std::uint64_t turns = 1ULL << 32;
  if (GetParam().model == "mixed")
    GTEST_SKIP() << "what layers above the slots remember of the first turns differs";
  std::int32_t window = 1;
  bool positional = false, rotary = false;
  for (const LayerSpec& layer : loaded_.source.config.layers) {
    switch (layer.kind()) {
      case Mixer::slots:
        window = std::max(window, layer.slots().num_window_slots);
        positional = positional || layer.rotates();
        break;
      case Mixer::recurrence:
        rotary = rotary || layer.rotates();
        break;
    }
  }
  const std::uint64_t shift = turns * static_cast<std::uint64_t>(window);
  const std::vector<TokenId> tokens = random_.tokens(64, vocab_);
  auto far = loaded_.state();
  loaded_.run(*far, tokens);
  std::vector<float> before = loaded_.canonical(*far);
  // A recurrence keeps its rotated keys for ever: there the two sessions begin with nothing.
  if (rotary) std::ranges::fill(before, 0.0F);
  ASSERT_TRUE(far->import_from(before, shift + 64).has_value());
  const std::size_t length = slow() ? 40 : 100;  // some more than the ring has slots
  const std::vector<TokenId> more = random_.tokens(length, vocab_);
  auto near = loaded_.state();
  loaded_.run(*near, tokens);
  if (rotary) {
    ASSERT_TRUE(near->import_from(before, 64).has_value());
  }
  const std::vector<float> near_logits = loaded_.run(*near, more, 1);
  const std::vector<float> far_logits = loaded_.run(*far, more, 1);
  EXPECT_EQ(far->position(), shift + 64 + length);
  // After the ring has turned over once, nothing of the old rotation is left in it.
  const std::size_t tail = static_cast<std::size_t>(vocab_) * (length - 20);
  // sinks and memory still carry the first turns' small differences
  constexpr double kFarTolerance = 5e-3;
  if (!positional && !rotary) {
    EXPECT_EQ(far_logits, near_logits);
  } else {
    EXPECT_LE(
        max_relative_error(std::span(far_logits).last(tail), std::span(near_logits).last(tail)),
        kFarTolerance);
  }
}

TEST_P(BackendProperties, StateBytesDoNotGrow) {
  auto state = loaded_.state();
  const std::uint64_t bytes = loaded_.model->memory().state_bytes;
  EXPECT_GE(bytes, StateLayout::of(loaded_.source.config).total_floats() * sizeof(float));
  loaded_.run(*state, random_.tokens(200, vocab_));
  EXPECT_EQ(loaded_.model->memory().state_bytes, bytes);
}

TEST_P(BackendProperties, BadItemsAreRefusedBeforeAnyStateMoves) {
  auto state = loaded_.state();
  const std::vector<TokenId> good = {1, 2, 3};
  const std::vector<TokenId> bad = {1, vocab_, 3};
  std::vector<float> logits(3, 0.0F);
  const auto refused = [&](std::vector<PlanItem> items) {
    const Status status = loaded_.plan->run(items, {});
    return !status && status.error().code == ErrorCode::invalid_argument && state->position() == 0;
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({{.state = state.get(), .tokens = {}}}));
  EXPECT_TRUE(refused({{.state = state.get(), .tokens = bad}}));
  EXPECT_TRUE(refused({{.state = nullptr, .tokens = good}}));
  EXPECT_TRUE(
      refused({{.state = state.get(), .tokens = good}, {.state = state.get(), .tokens = good}}));
  EXPECT_TRUE(refused(
      {{.state = state.get(), .tokens = good, .wanted = LogitsWanted::all, .logits = logits}}));
}

TEST_P(BackendProperties, StopRequestedBeforeThePassChangesNothing) {
  auto state = loaded_.state();
  const std::vector<TokenId> tokens = {1, 2, 3};
  std::stop_source stop;
  stop.request_stop();
  const PlanItem item{.state = state.get(), .tokens = tokens};
  const Status status = loaded_.plan->run(std::span(&item, 1), stop.get_token());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::cancelled);
  EXPECT_EQ(state->position(), 0U);
}

TEST_P(BackendProperties, OneStatePerKvHeadEqualsRepeatedHeads) {
  // The same model with its kv heads written out for every query head computes the same function.
  const RandomModel& grouped = loaded_.source;
  const LayerSpec& layer = grouped.config.layers.front();
  const int group = layer.queries_per_kv_head();
  if (group == 1) GTEST_SKIP() << "no query groups in this model";
  if (GetParam().model == "mixed") GTEST_SKIP() << "layers of several shapes";
  if (too_slow()) GTEST_SKIP() << "minutes on a software driver";
  if (layer.kind() == Mixer::recurrence && layer.recurrence().decay == Decay::fixed)
    GTEST_SKIP() << "each head has a decay of its own";
  const auto repeat = [&](const WeightView& w, int heads,
                          std::vector<std::vector<std::byte>>& arena) {
    if (!w.present()) return w;
    const std::int64_t total_rows = w.rows == 1 ? w.cols : w.rows;  // vectors repeat by element
    const std::size_t row = w.data.size() / static_cast<std::size_t>(total_rows);
    const std::size_t head_bytes = static_cast<std::size_t>(total_rows / heads) * row;
    std::vector<std::byte> bytes;
    for (int h = 0; h < heads; ++h) {
      for (int g = 0; g < group; ++g) {
        const auto head = w.data.subspan(static_cast<std::size_t>(h) * head_bytes, head_bytes);
        bytes.insert(bytes.end(), head.begin(), head.end());
      }
    }
    arena.push_back(std::move(bytes));
    WeightView copy = w;
    (w.rows == 1 ? copy.cols : copy.rows) *= group;
    copy.data = arena.back();
    return copy;
  };
  RandomModel repeated = grouped;
  auto arena = std::make_shared<std::vector<std::vector<std::byte>>>();
  auto weights = std::make_shared<Weights>(*grouped.weights);
  const int heads = layer.num_kv_heads;
  for (LayerWeights& w : weights->layers) {
    ProjectionWeights& p = w.projections();
    std::vector<WeightView*> views = {&p.k_proj, &p.k_bias, &p.v_proj, &p.v_bias,
                                      &p.f_proj, &p.f_bias, &p.k_conv, &p.v_conv};
    if (auto* slots = std::get_if<SlotWeights>(&w.mixer)) views.push_back(&slots->read_bias);
    if (auto* r = std::get_if<RecurrenceWeights>(&w.mixer))
      views.insert(views.end(), {&r->r_proj, &r->r_bias, &r->lower_bound});
    for (WeightView* view : views) *view = repeat(*view, heads, *arena);
  }
  set(repeated.config, &LayerSpec::num_kv_heads, layer.num_heads);
  repeated.weights = weights;
  const LoadedModel wide = load_on(*backend_, repeated);
  const std::vector<TokenId> tokens = random_.tokens(80, vocab_);
  for (std::size_t piece : {1UL, 80UL}) {
    auto a = loaded_.state();
    auto b = wide.state();
    EXPECT_LE(max_relative_error(loaded_.run(*a, tokens, piece), wide.run(*b, tokens, piece)),
              kGroupTolerance);
  }
}

/// A copy of the model with one tensor of its last layer changed, every value by another amount.
RandomModel with_changed(const RandomModel& model, const LayerTensor& tensor) {
  RandomModel changed = model;
  auto weights = std::make_shared<Weights>(*model.weights);
  WeightView& view = tensor.view(weights->layers.back());
  auto bytes = std::make_shared<std::vector<std::byte>>(view.data.begin(), view.data.end());
  for (std::size_t i = 0; i * sizeof(float) < bytes->size(); ++i) {
    float value = 0.0F;
    std::memcpy(&value, bytes->data() + i * sizeof(float), sizeof(float));
    value += 0.1F * static_cast<float>(1 + i % 7);
    std::memcpy(bytes->data() + i * sizeof(float), &value, sizeof(float));
  }
  view.data = *bytes;
  changed.weights = weights;
  changed.storage = std::make_shared<std::pair<std::shared_ptr<const void>, decltype(bytes)>>(
      model.storage, bytes);
  return changed;
}

TEST_P(BackendProperties, EveryTensorOfALayerMatters) {
  if (too_slow()) GTEST_SKIP() << "minutes on a software driver";
  const std::vector<TokenId> tokens = random_.tokens(12, vocab_);
  auto state = loaded_.state();
  const std::vector<float> expected = loaded_.run(*state, tokens);
  const ModelConfig& config = loaded_.source.config;
  for (const LayerTensor& tensor : layer_tensors(config.layers.back(), config.hidden_size)) {
    if (!tensor.view_of(loaded_.source.weights->layers.back()).present()) continue;
    const LoadedModel other = load_on(*backend_, with_changed(loaded_.source, tensor));
    auto own = other.state();
    EXPECT_GT(max_relative_error(other.run(*own, tokens), expected), kSplitTolerance)
        << "a model computes the same with another " << tensor.suffix;
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const DeviceInfo& device : devices()) {
    for (const char* model : {"plain", "positional", "conv", "t2r", "wide_values", "window_only",
                              "biases", "many_slots", "layer_norm", "squared_relu", "mixed"}) {
      cases.push_back({device.id, model});
    }
    for (const std::string& model : family_names()) cases.push_back({device.id, model});
  }
  return cases;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.device + "_" + info.param.model;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Devices, BackendProperties, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace runnel::test
