// SPDX-License-Identifier: Apache-2.0
// Tiny checkpoints in both fla-hub layouts → our file → every device: logits and states against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "runnel/device.h"
#include "runtime/model/engine.h"
#include "tests/golden/all_logits.h"
#include "tests/support/compare.h"
#include "tests/support/loaded_model.h"
#include "tests/support/model_files.h"
#include "tests/support/safetensors.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

constexpr double kLogitTolerance = 1e-4;  // f32 against float64, of the largest logit
constexpr double kStateTolerance = 1e-4;

struct Case {
  std::string device;
  std::string checkpoint;
  std::string vectors;  // folder of golden.safetensors
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.device << " " << c.checkpoint; }

class TinyModel : public testing::TestWithParam<Case> {
 protected:
  TinyModel() {
    const TemporaryDirectory folder;
    const auto report =
        convert_tensors(tiny_checkpoint(GetParam().checkpoint), folder / "tiny.gguf", {});
    if (!report) throw std::runtime_error(report.error().message);
    auto engine = Engine::create(*ModelFile::from_gguf(*GgufFile::open(folder / "tiny.gguf")),
                                 GetParam().device, 2, {});
    if (!engine) throw std::runtime_error(engine.error().message);
    engine_ = std::move(*engine);
    state_ = std::move(*engine_->create_state());
  }

  /// All logits of `tokens`, fed in pieces of `piece`.
  std::vector<float> run(std::span<const TokenId> tokens, std::size_t piece) {
    return all_logits(*engine_, *state_, tokens, piece);
  }

  Vectors golden_{std::filesystem::path(RUNNEL_TEST_DATA) / "golden" / GetParam().vectors /
                  "golden.safetensors"};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<RecurrentState> state_;
};

TEST_P(TinyModel, LogitsOfOnePassAndOfFurtherSteps) {
  EXPECT_LE(max_relative_error(run(golden_.tokens("input_ids"), 100), golden_.floats("logits_f64")),
            kLogitTolerance);
  EXPECT_LE(
      max_relative_error(run(golden_.tokens("decode_ids"), 1), golden_.floats("decode_logits_f64")),
      kLogitTolerance);
}

TEST_P(TinyModel, LogitsStepByStep) {
  EXPECT_LE(max_relative_error(run(golden_.tokens("input_ids"), 1), golden_.floats("logits_f64")),
            kLogitTolerance);
}

TEST_P(TinyModel, StateAfterThePrompt) {
  run(golden_.tokens("input_ids"), 100);
  const StateLayout all = engine_->layout();
  std::vector<float> state(all.total_floats(), NAN);
  ASSERT_TRUE(state_->export_to(state).has_value());
  for (int layer = 0; layer < static_cast<int>(all.layers.size()); ++layer) {
    const LayerState& layout = all.layer(layer);
    const std::string prefix = "act.layer" + std::to_string(layer) + ".";
    const std::vector<float> hk = golden_.floats(prefix + "hk");  // [1, heads, K, M]
    const std::vector<float> hv = golden_.floats(prefix + "hv");  // [1, heads, M, V]
    // The checkpoint's own code repeats kv heads for every query head.
    const std::size_t heads = static_cast<std::size_t>(golden_.shape(prefix + "hk")[1]);
    const std::size_t repeat = heads / static_cast<std::size_t>(layout.kv_heads);
    for (int head = 0; head < layout.kv_heads; ++head) {
      const std::size_t from = static_cast<std::size_t>(head) * repeat;
      const std::vector<float> keys = transposed(
          std::span(hk).subspan(from * layout.keys_floats(), layout.keys_floats()),
          static_cast<std::size_t>(layout.head_k_dim), static_cast<std::size_t>(layout.slots));
      EXPECT_LE(max_relative_error(
                    std::span(state).subspan(layout.keys_offset(head), layout.keys_floats()), keys),
                kStateTolerance);
      EXPECT_LE(max_relative_error(
                    std::span(state).subspan(layout.values_offset(head), layout.values_floats()),
                    std::span(hv).subspan(from * layout.values_floats(), layout.values_floats())),
                kStateTolerance);
    }
    if (layout.conv_size == 0) continue;
    const auto tail = [&](const char* name, std::size_t offset, std::int32_t channels) {
      const std::vector<float> expected = golden_.floats(prefix + name);
      ASSERT_EQ(expected.size(),
                static_cast<std::size_t>(channels) * static_cast<std::size_t>(layout.conv_size));
      EXPECT_LE(max_relative_error(std::span(state).subspan(offset, expected.size()), expected),
                kStateTolerance)
          << name;
    };
    tail("conv_state_q", layout.q_conv_offset(), layout.q_channels);
    tail("conv_state_k", layout.k_conv_offset(), layout.k_channels);
    tail("conv_state_v", layout.v_conv_offset(), layout.v_channels);
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const DeviceInfo& device : devices()) {
    for (const char* name :
         {"tiny_base", "tiny_conv", "tiny_gqa", "tiny_noaffine_relu", "tiny_t2r", "tiny_tied"}) {
      cases.push_back({device.id, name, name});
    }
    cases.push_back({device.id, "tiny_base_legacy", "tiny_base"});
  }
  return cases;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.device + "_" + info.param.checkpoint;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Devices, TinyModel, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace runnel::test
