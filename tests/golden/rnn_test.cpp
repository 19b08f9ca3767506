// SPDX-License-Identifier: Apache-2.0
// Tiny checkpoints of models with a removal (RWKV-7 and ARWKV as GGUF and as a checkpoint, DeltaNet, Gated DeltaNet) on
// every device: logits, states and the first mixer's own output against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "runnel/device.h"
#include "runtime/backend/pass_probe.h"
#include "runtime/backend/registry.h"
#include "runtime/base/try.h"
#include "runtime/model/engine.h"
#include "runtime/model/quantize_model.h"
#include "tests/golden/all_logits.h"
#include "tests/support/compare.h"
#include "tests/support/loaded_model.h"
#include "tests/support/model_files.h"
#include "tests/support/safetensors.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

// f32 against float64, of the largest value.
constexpr double kTolerance = 1e-4;
constexpr double kReferenceTolerance = 1e-5;
// A driver's exponentials and tanh, of the decay and of thousands of gates.
constexpr double kVulkanTolerance = 5e-4;

struct Case {
  std::string device;
  std::string vectors;     // folder of golden.safetensors
  std::string checkpoint;  // file or folder beside it; empty: the folder
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.device << " " << c.vectors << "/" << c.checkpoint;
}

class Removing : public testing::TestWithParam<Case> {
 protected:
  Removing() {
    const TemporaryDirectory folder;
    std::filesystem::path file = directory_ / GetParam().checkpoint;
    if (file.extension() != ".gguf") {
      const auto report = convert_tensors(file, folder / "tiny.gguf", {});
      if (!report) throw std::runtime_error(report.error().message);
      file = folder / "tiny.gguf";
    }
    auto gguf = GgufFile::open(file);
    if (!gguf) throw std::runtime_error(gguf.error().message);
    file_ = *gguf;
    auto model = ModelFile::from_gguf(file_);
    if (!model) throw std::runtime_error(model.error().message);
    // Beside weights of 16 bits it rounds what it multiplies.
    if (GetParam().device.starts_with("cuda")) {
      const auto stored =
          quantize_model(*model, folder / "f32.gguf", {.type = quant::BlockType::f32});
      if (!stored) throw std::runtime_error(stored.error().message);
      file_ = *GgufFile::open(folder / "f32.gguf");
      model = ModelFile::from_gguf(file_);
    }
    auto engine = Engine::create(*std::move(model), GetParam().device, 2, {});
    if (!engine) throw std::runtime_error(engine.error().message);
    engine_ = std::move(*engine);
    state_ = std::move(*engine_->create_state());
  }

  double tolerance() const {
    if (GetParam().device == "reference") return kReferenceTolerance;
    return GetParam().device.starts_with("vulkan") ? kVulkanTolerance : kTolerance;
  }

  std::vector<float> run(std::span<const TokenId> tokens, std::size_t piece) {
    return all_logits(*engine_, *state_, tokens, piece);
  }

  std::filesystem::path directory_ = tiny_checkpoint("rnn") / GetParam().vectors;
  Vectors golden_{directory_ / "golden.safetensors"};
  std::shared_ptr<const GgufFile> file_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<RecurrentState> state_;
};

TEST_P(Removing, LogitsOfOnePassAndOfFurtherSteps) {
  EXPECT_LE(max_relative_error(run(golden_.tokens("input_ids"), 100), golden_.floats("logits_f64")),
            tolerance());
  EXPECT_LE(
      max_relative_error(run(golden_.tokens("decode_ids"), 1), golden_.floats("decode_logits_f64")),
      tolerance());
}

TEST_P(Removing, LogitsStepByStep) {
  EXPECT_LE(max_relative_error(run(golden_.tokens("input_ids"), 1), golden_.floats("logits_f64")),
            tolerance());
}

TEST_P(Removing, StateAfterAllTokens) {
  run(golden_.tokens("input_ids"), 100);
  run(golden_.tokens("decode_ids"), 100);
  const StateLayout layouts = engine_->layout();
  std::vector<float> state(layouts.total_floats(), NAN);
  ASSERT_TRUE(state_->export_to(state).has_value());
  std::size_t compared = 0;
  for (const LayerSpec& c : engine_->config().layers) {
    const LayerState& layout = layouts.layer(c.index);
    const std::string prefix = "state.layer" + std::to_string(c.index) + ".";
    const auto compare = [&](const char* name, std::size_t offset) {
      const std::vector<float> expected = golden_.floats(prefix + name);
      EXPECT_LE(max_relative_error(std::span(state).subspan(offset, expected.size()), expected),
                tolerance())
          << prefix << name;
      compared += expected.size();
    };
    compare("S", layout.values_offset(0));
    if (layout.conv_size > 0) {
      compare("conv_q", layout.q_conv_offset());
      compare("conv_k", layout.k_conv_offset());
      compare("conv_v", layout.v_conv_offset());
    }
    if (layout.mixer_shift > 0) compare("x_att", layout.mixer_shift_offset());
    if (layout.channel_shift > 0) compare("x_ffn", layout.channel_shift_offset());
  }
  EXPECT_EQ(compared, state.size());  // all of it
}

TEST_P(Removing, MixerOutputOfTheFirstLayer) {
  auto model = ModelFile::from_gguf(file_);
  ASSERT_TRUE(model.has_value());
  const ModelConfig& c = model->config;
  const Weights& w = model->weights;
  auto backend = make_backend(GetParam().device, 2);
  ASSERT_TRUE(backend.has_value());
  auto loaded = (*backend)->load({.config = c, .weights = w, .keep_alive = file_});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  const auto rows_after = [&](int ops, PassBuffer buffer) {
    auto plan = (*loaded)->record(64, [&](Ops& to) -> Status {
      const LayerSpec& first = c.layers.front();
      const RecurrenceWeights& mixer = w.layers[0].recurrence();
      RUNNEL_CHECK_OK(to.embed(w.embeddings));
      if (c.embedding_norm) RUNNEL_CHECK_OK(to.embedding_norm(*c.embedding_norm, w.embedding_norm));
      if (ops == 0) return {};
      if (first.mixer_shift > 0) {
        RUNNEL_CHECK_OK(to.shifted_projections(first, mixer));
      } else {
        RUNNEL_CHECK_OK(to.recurrence_projections(first, mixer));
      }
      RUNNEL_CHECK_OK(to.gated_recurrence(first, mixer));
      return ops == 1 ? Status{} : to.output_projection(first, w.layers[0].output);
    });
    if (!plan) throw std::runtime_error(plan.error().message);
    auto state = (*loaded)->create_state();
    const std::vector<TokenId> tokens = golden_.tokens("input_ids");
    const PlanItem item{
        .state = state->get(), .tokens = tokens, .wanted = LogitsWanted::none, .logits = {}};
    if (!(*plan)->run(std::span(&item, 1), {})) throw std::runtime_error("a pass failed");
    std::vector<float> rows(
        tokens.size() * static_cast<std::size_t>(columns_of(buffer, c.layers[0], c.hidden_size)),
        NAN);
    const Status read = (*plan)->probe()->read(buffer, c.layers[0], rows);
    if (!read) throw std::runtime_error(read.error().message);
    return rows;
  };
  EXPECT_LE(max_relative_error(rows_after(1, PassBuffer::o), golden_.floats("act.layer0.o")),
            tolerance());
  std::vector<float> added = rows_after(2, PassBuffer::x);
  const std::vector<float> before = rows_after(0, PassBuffer::x);
  for (std::size_t i = 0; i < added.size(); ++i) added[i] -= before[i];
  EXPECT_LE(max_relative_error(added, golden_.floats("act.layer0.attn_out")), tolerance());
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const DeviceInfo& device : devices()) {
    const std::string& id = device.id;
    cases.push_back({id, "rwkv7/rwkv7_64", "model.gguf"});
    cases.push_back({id, "rwkv7/rwkv7_64", "hf"});
    cases.push_back({id, "rwkv7/rwkv7_128", "model.gguf"});
    cases.push_back({id, "arwkv7", "model.gguf"});
    cases.push_back({id, "arwkv7_nogate", "model.gguf"});
    for (const char* name : {"delta_net", "delta_net_sum", "gated_deltanet", "gated_deltanet_gva"})
      cases.push_back({id, std::string("delta/") + name, ""});
  }
  return cases;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.device + "_" + info.param.vectors + "_" + info.param.checkpoint;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '/' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Devices, Removing, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace runnel::test
