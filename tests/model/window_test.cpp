// SPDX-License-Identifier: Apache-2.0
// Fewer window slots than the file has: the model is that of a file with so many, snapshots know their window, and
// choices that cannot be are errors.
#include "runtime/model/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runnel/session.h"
#include "runtime/io/snapshot_data.h"
#include "tests/support/compare.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t kFileWindow = 12;
constexpr std::int32_t kSinks = 3;
constexpr std::int64_t kWindows[] = {0, 1, 5, 7, 11, kFileWindow};
// chunkwise against stepwise, activations rounded alike, of the largest logit
constexpr double kSplitTolerance = 2e-5;

/// Two layers, one of them with `window` slots and the other with half as many.
RandomModel model_with(std::int32_t window, std::int32_t other) {
  ModelConfig config = small_positional_config();
  set(config, &SlotSpec::num_sink_slots, kSinks);
  set(config, &SlotSpec::sink_distance, kSinks + kFileWindow);
  set(config, &SlotSpec::num_window_slots, window);
  config.layers[1].slots().num_window_slots = other;
  return make_random_model(config, {.tied = true, .gate_bias = true, .read_biases = true}, 8);
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

class WindowTest : public testing::TestWithParam<std::string> {
 protected:
  WindowTest() { write_gguf(model_with(kFileWindow, 6), file_); }

  Result<std::shared_ptr<const Model>> load(std::optional<std::int64_t> window) const {
    return Model::load(file_, {.device = GetParam(), .threads = 1, .window_slots = window});
  }
  std::shared_ptr<const Model> loaded(std::optional<std::int64_t> window) const {
    auto model = load(window);
    if (!model) throw std::runtime_error(model.error().message);
    return *model;
  }
  static Session session(const std::shared_ptr<const Model>& model) {
    auto made = Session::create(model);
    if (!made) throw std::runtime_error(made.error().message);
    return *std::move(made);
  }
  static std::vector<float> scores(Session& session, std::span<const TokenId> tokens,
                                   std::size_t piece) {
    std::vector<float> all;
    for (std::size_t at = 0; at < tokens.size(); at += piece) {
      const auto part = session.score(tokens.subspan(at, std::min(piece, tokens.size() - at)));
      if (!part) throw std::runtime_error(part.error().message);
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }

  TemporaryDirectory folder_;
  std::string file_ = (folder_ / "model.gguf").string();
  Random random_{5};
  const std::vector<TokenId> tokens_ = random_.tokens(75, 96);
};

TEST_P(WindowTest, IsTheModelOfAFileWithSoManySlotsBitForBit) {
  for (const std::int64_t window : kWindows) {
    const auto n = static_cast<std::int32_t>(window);
    const TemporaryDirectory folder;
    write_gguf(model_with(n, std::min(n, 6)), folder / "n.gguf");
    const auto written = Model::load(folder / "n.gguf", {.device = GetParam(), .threads = 1});
    ASSERT_TRUE(written) << written.error().message;
    Session expected = session(*written), chosen = session(loaded(window));
    EXPECT_EQ(scores(chosen, tokens_, 13), scores(expected, tokens_, 13)) << "window " << n;
    EXPECT_EQ(data_of(*chosen.snapshot()).state, data_of(*expected.snapshot()).state);
  }
}

TEST_P(WindowTest, AnySplitGivesTheLogitsOfSingleSteps) {
  for (const std::int64_t window : kWindows) {
    const auto model = loaded(window);
    Session stepwise = session(model);
    const std::vector<float> expected = scores(stepwise, tokens_, 1);
    for (const std::size_t piece : {2UL, 17UL, 64UL, 75UL}) {
      Session split = session(model);
      EXPECT_LE(max_relative_error(scores(split, tokens_, piece), expected), kSplitTolerance)
          << "window " << window << ", pieces of " << piece;
      EXPECT_LE(
          max_relative_error(data_of(*split.snapshot()).state, data_of(*stepwise.snapshot()).state),
          kSplitTolerance)
          << "window " << window << ", pieces of " << piece;
    }
  }
}

TEST_P(WindowTest, RestoredGoesOnAsIfNeverStopped) {
  for (const std::int64_t window : kWindows) {
    const auto model = loaded(window);
    for (const std::size_t cut : {1UL, 4UL, 16UL, 40UL}) {
      Session control = session(model);
      scores(control, std::span(tokens_).first(cut), cut);
      const auto taken = control.snapshot();
      ASSERT_TRUE(taken && taken->save(folder_ / "s.snap"));
      const auto read = Snapshot::load(folder_ / "s.snap");
      ASSERT_TRUE(read) << read.error().message;
      Session restored = session(model);
      const Status status = restored.restore(*read);
      ASSERT_TRUE(status) << status.error().message;
      const std::span<const TokenId> rest = std::span(tokens_).subspan(cut);
      EXPECT_EQ(scores(restored, rest, 7), scores(control, rest, 7))
          << "window " << window << ", cut at " << cut;
    }
  }
}

TEST_P(WindowTest, TheStateHasSlotsForTheWindowAlone) {
  const auto whole = loaded({});
  EXPECT_EQ(whole->info().window_slots, kFileWindow);
  for (const std::int64_t window : kWindows) {
    const auto model = loaded(window);
    const ModelConfig config = small_positional_config();
    const LayerSpec& layer = config.layers[0];
    const std::int64_t rows = window + std::min<std::int64_t>(window, 6) +
                              2 * (kSinks + std::int64_t{layer.slots().num_memory_slots});
    EXPECT_EQ(data_of(*session(model).snapshot()).state.size(),
              static_cast<std::size_t>(rows * layer.num_kv_heads *
                                       (layer.head_k_dim + layer.head_v_dim)));
    EXPECT_EQ(model->info().window_slots, window);
    EXPECT_EQ(model->info().file_window_slots, kFileWindow);
    if (window < kFileWindow) {
      EXPECT_LT(model->info().state_bytes, whole->info().state_bytes);
    }
  }
}

TEST_P(WindowTest, ASnapshotOfAnotherWindowIsRefusedByBothNames) {
  Session five = session(loaded(5)), all = session(loaded({}));
  scores(five, tokens_, 20);
  scores(all, tokens_, 20);
  const std::vector<float> before = copy(*five.logits());
  const auto of_five = five.snapshot(), of_all = all.snapshot();
  EXPECT_EQ(of_five->window_slots(), 5);
  EXPECT_EQ(of_all->window_slots(), std::nullopt);
  const auto refusal = [](Session& into, const Snapshot& snapshot) {
    const Status status = into.restore(snapshot);
    if (status) return std::string("restored");
    EXPECT_EQ(status.error().code, ErrorCode::mismatch);
    return status.error().message;
  };
  EXPECT_THAT(refusal(five, *of_all), HasSubstr("a window of 12 slots, this model was loaded with "
                                                "one of 5"));
  EXPECT_THAT(refusal(all, *of_five), HasSubstr("a window of 5 slots, this model was loaded with "
                                                "one of 12"));
  Session seven = session(loaded(7));
  EXPECT_THAT(refusal(seven, *of_five), HasSubstr("of 5 slots, this model was loaded with one of "
                                                  "7"));
  EXPECT_EQ(copy(*five.logits()), before);
  // What says a window but is of another model is of another model.
  auto foreign = std::make_shared<SnapshotData>(data_of(*of_five));
  foreign->model_fingerprint += 1;
  EXPECT_THAT(refusal(all, make_snapshot(foreign)), HasSubstr("fingerprint"));
}

TEST_P(WindowTest, AllOfTheFilesSlotsAreTheModelOfTheFile) {
  const auto chosen = loaded(kFileWindow), file = loaded({});
  EXPECT_EQ(chosen->info().fingerprint, file->info().fingerprint);
  Session s = session(file), other = session(chosen);
  scores(s, tokens_, 20);
  EXPECT_TRUE(other.restore(*s.snapshot()));
}

TEST_P(WindowTest, EveryWindowHasAFingerprintOfItsOwn) {
  std::vector<std::uint64_t> seen;
  for (const std::int64_t window : kWindows) seen.push_back(loaded(window)->info().fingerprint);
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
}

INSTANTIATE_TEST_SUITE_P(Devices, WindowTest, testing::ValuesIn([] {
                           std::vector<std::string> ids;
                           for (const DeviceInfo& device : devices()) ids.push_back(device.id);
                           return ids;
                         }()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace(name, ':', '_');
                           return name;
                         });

TEST(WindowChoice, OutsideTheFilesWindowIsAnErrorThatNamesIt) {
  const TemporaryDirectory folder;
  write_gguf(model_with(kFileWindow, 6), folder / "model.gguf");
  for (const std::int64_t window :
       {std::int64_t{-1}, std::int64_t{13}, std::int64_t{1'000'000'000'000},
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    const auto model =
        Model::load(folder / "model.gguf", {.device = "cpu", .window_slots = window});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(model.error().message,
                HasSubstr("window_slots: " + std::to_string(window) + ", expected 0 to 12"));
  }
}

TEST(WindowChoice, OfAModelWithoutWindowSlotsIsAnError) {
  const TemporaryDirectory folder;
  write_gguf(make_random_model(small_config(), {}, 1), folder / "model.gguf");
  for (const std::int64_t window : {0, 1, -1}) {
    const auto model =
        Model::load(folder / "model.gguf", {.device = "cpu", .window_slots = window});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, ErrorCode::unsupported);
    EXPECT_THAT(model.error().message, HasSubstr("this model has no window slots"));
  }
}

TEST(WindowChoice, LeavesTheSinksTheirDistance) {
  const TemporaryDirectory folder;
  write_gguf(model_with(kFileWindow, 6), folder / "model.gguf");
  auto model = ModelFile::from_gguf(*GgufFile::open(folder / "model.gguf"));
  ASSERT_TRUE(model && choose_window(*model, 2));
  for (const LayerSpec& layer : model->config.layers) {
    EXPECT_EQ(layer.slots().num_window_slots, 2);
    EXPECT_EQ(layer.slots().num_sink_slots, kSinks);
    EXPECT_EQ(layer.slots().sink_distance, kSinks + kFileWindow);
  }
}

}  // namespace
}  // namespace runnel::test
