// SPDX-License-Identifier: Apache-2.0
// Tiny checkpoints of the family (GLA, HGRN2, RetNet, linear attention, ABC, ReGLA) → our file →
// every device: logits, states and the mixer's own output against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "quant/quantise.h"
#include "runnel/device.h"
#include "runtime/backend/registry.h"
#include "runtime/base/try.h"
#include "runtime/model/engine.h"
#include "tests/golden/all_logits.h"
#include "tests/support/compare.h"
#include "tests/support/loaded_model.h"
#include "tests/support/model_files.h"
#include "tests/support/safetensors.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

constexpr double kTolerance = 1e-4;  // f32 against float64, of the largest value

struct Case {
  std::string device;
  std::string checkpoint;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.device << " " << c.checkpoint; }

class Sibling : public testing::TestWithParam<Case> {
 protected:
  Sibling() {
    const TemporaryDirectory folder;
    const auto report = convert_tensors(directory_, folder / "tiny.gguf", {});
    if (!report) throw std::runtime_error(report.error().message);
    file_ = *GgufFile::open(folder / "tiny.gguf");
    auto engine = Engine::create(*ModelFile::from_gguf(file_), GetParam().device, 2, {});
    if (!engine) throw std::runtime_error(engine.error().message);
    engine_ = std::move(*engine);
    state_ = std::move(*engine_->create_state());
  }

  /// All logits of `tokens`, fed in pieces of `piece`.
  std::vector<float> run(std::span<const TokenId> tokens, std::size_t piece) {
    return all_logits(*engine_, *state_, tokens, piece);
  }

  std::filesystem::path directory_ = tiny_checkpoint("siblings") / GetParam().checkpoint;
  Vectors golden_{directory_ / "golden.safetensors"};
  std::shared_ptr<const GgufFile> file_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<RecurrentState> state_;
};

TEST_P(Sibling, LogitsOfOnePassAndOfFurtherSteps) {
  EXPECT_LE(max_relative_error(run(golden_.tokens("input_ids"), 100), golden_.floats("logits_f64")),
            kTolerance);
  EXPECT_LE(
      max_relative_error(run(golden_.tokens("decode_ids"), 1), golden_.floats("decode_logits_f64")),
      kTolerance);
}

TEST_P(Sibling, LogitsStepByStep) {
  EXPECT_LE(max_relative_error(run(golden_.tokens("input_ids"), 1), golden_.floats("logits_f64")),
            kTolerance);
}

TEST_P(Sibling, StateAfterThePrompt) {
  run(golden_.tokens("input_ids"), 100);
  const StateLayout layouts = engine_->layout();
  std::vector<float> state(layouts.total_floats(), NAN);
  ASSERT_TRUE(state_->export_to(state).has_value());
  for (const LayerSpec& c : engine_->config().layers) {
    const LayerState& layout = layouts.layer(c.index);
    const RecurrenceSpec& spec = c.recurrence();
    const std::string prefix = "state.layer" + std::to_string(c.index) + ".";
    const std::size_t rows = static_cast<std::size_t>(layout.slots);
    const std::size_t columns = static_cast<std::size_t>(c.head_v_dim);
    for (int head = 0; head < layout.kv_heads; ++head) {
      const std::size_t at = static_cast<std::size_t>(head);
      const auto part = [&](std::size_t offset, std::size_t n) {
        const auto span = std::span(state).subspan(offset, n);
        return std::vector<float>(span.begin(), span.end());
      };
      const auto golden = [&](const char* name, std::size_t n) {
        const std::vector<float> all = golden_.floats(prefix + name);
        const auto span = std::span(all).subspan(at * n, n);
        return std::vector<float>(span.begin(), span.end());
      };
      std::vector<float> values = part(layout.values_offset(head), layout.values_floats());
      if (spec.normalizer) {
        const std::vector<float> by_column = transposed(values, rows, columns + 1);
        const auto z = std::span(by_column).last(rows);
        EXPECT_LE(max_relative_error(z, golden("z", rows)), kTolerance);
        values = transposed(std::span(by_column).first(rows * columns), columns, rows);
      }
      const bool slots = spec.num_memory_slots > 0;
      EXPECT_LE(max_relative_error(values, golden(slots ? "hv" : "S", rows * columns)), kTolerance);
      if (slots) {
        const std::size_t dim = static_cast<std::size_t>(c.head_k_dim);
        const std::vector<float> keys = part(layout.keys_offset(head), layout.keys_floats());
        EXPECT_LE(max_relative_error(transposed(keys, rows, dim), golden("hk", rows * dim)),
                  kTolerance);
      }
      if (layout.head_extra > 0) {
        const std::size_t n = static_cast<std::size_t>(layout.head_extra);
        EXPECT_LE(
            max_relative_error(part(layout.extra_offset(head), n), golden(slots ? "z" : "m", n)),
            kTolerance);
      }
    }
    if (layout.conv_size == 0) continue;
    const auto tail = [&](const char* name, std::size_t offset) {
      const std::vector<float> expected = golden_.floats(prefix + name);
      EXPECT_LE(max_relative_error(std::span(state).subspan(offset, expected.size()), expected),
                kTolerance)
          << name;
    };
    tail("conv_q", layout.q_conv_offset());
    tail("conv_f", layout.k_conv_offset());
    tail("conv_i", layout.v_conv_offset());
  }
}

std::vector<float> values_of(const WeightView& w) {
  std::vector<float> values(static_cast<std::size_t>(w.rows * w.cols));
  if (!quant::dequantize_rows(w.type, w.data, w.cols, values)) throw std::runtime_error(w.name);
  return values;
}

TEST_P(Sibling, RecurrenceOutputOfTheFirstLayerHasItsScale) {
  // The output norm hides the scale of the recurrence, so it is left out here: the logits of
  // x + W_o o tell what o was.
  auto model = ModelFile::from_gguf(file_);
  ASSERT_TRUE(model.has_value());
  ModelConfig c = model->config;
  set_layers(c, 1);
  LayerSpec& layer = c.layers.front();
  layer.output_norm = OutputNorm::none;
  layer.output_gate = false;
  model->weights.layers.resize(1);
  const Weights& w = model->weights;
  auto backend = make_backend(GetParam().device, 2);
  ASSERT_TRUE(backend.has_value());
  auto loaded = (*backend)->load({.config = c, .weights = w, .keep_alive = file_});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  auto plan = (*loaded)->record(64, [&c, &w](Ops& ops) -> Status {
    const LayerSpec& first = c.layers.front();
    RUNNEL_CHECK_OK(ops.embed(w.embeddings));
    RUNNEL_CHECK_OK(ops.recurrence_projections(first, w.layers[0].recurrence()));
    RUNNEL_CHECK_OK(ops.gated_recurrence(first, w.layers[0].recurrence()));
    RUNNEL_CHECK_OK(ops.output_projection(first, w.layers[0].output));
    return ops.logits(c.final_norm, w.final_norm, w.head);
  });
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  auto state = (*loaded)->create_state();
  ASSERT_TRUE(state.has_value());
  const std::vector<TokenId> tokens = golden_.tokens("input_ids");
  const std::size_t vocab = static_cast<std::size_t>(c.vocab_size);
  std::vector<float> logits(tokens.size() * vocab, NAN);
  const PlanItem item{
      .state = state->get(), .tokens = tokens, .wanted = LogitsWanted::all, .logits = logits};
  ASSERT_TRUE((*plan)->run(std::span(&item, 1), {}).has_value());

  const std::vector<float> o = golden_.floats("act.layer0.o");  // [1, T, HQ, V]
  const std::vector<float> table = values_of(w.embeddings), head = values_of(w.head),
                           out = values_of(w.layers[0].output.o_proj),
                           norm = values_of(w.final_norm.weight);
  const std::size_t width = static_cast<std::size_t>(c.hidden_size);
  const std::size_t channels = o.size() / tokens.size();
  std::vector<double> expected;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    std::vector<double> x(width);
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) {
      x[i] = table[static_cast<std::size_t>(tokens[t]) * width + i];
      for (std::size_t j = 0; j < channels; ++j) {
        x[i] += double{out[i * channels + j]} * double{o[t * channels + j]};
      }
      squares += x[i] * x[i];
    }
    const double scale =
        1.0 / std::sqrt(squares / static_cast<double>(width) + double{c.final_norm.eps});
    for (std::size_t r = 0; r < vocab; ++r) {
      double sum = 0;
      for (std::size_t i = 0; i < width; ++i) {
        sum += double{head[r * width + i]} * x[i] * scale * double{norm[i]};
      }
      expected.push_back(sum);
    }
  }
  EXPECT_LE(max_relative_error(logits, expected), kTolerance);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const DeviceInfo& device : devices()) {
    for (const char* name :
         {"gla", "gla_gqa", "hgrn2", "hgrn2_conv", "retnet", "retnet_gqa", "linear_attn",
          "linear_attn_norm", "linear_attn_hedgehog", "abc", "regla", "regla_key"}) {
      cases.push_back({device.id, name});
    }
  }
  return cases;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.device + "_" + info.param.checkpoint;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Devices, Sibling, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace runnel::test
