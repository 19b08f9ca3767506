// SPDX-License-Identifier: Apache-2.0
// Tuned initial states: each layer's matrices in their places, and what is refused.
#include "runtime/model/tuned_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runnel/session.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/model_impl.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random_model.h"

namespace runnel {
namespace {

using Tensors = std::map<std::string, SafetensorsTensor, std::less<>>;

constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kWidth = 16;  // of keys and of values

class TunedState : public ::testing::Test {
 protected:
  TunedState() {
    for (int layer = 0; layer < 2; ++layer) {
      std::vector<float>& values = numbers_.emplace_back(kHeads * kWidth * kWidth);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(layer) + 0.001F * static_cast<float>(i);
      SafetensorsTensor& tensor = tensors_["blocks." + std::to_string(layer) + ".att.time_state"];
      tensor.shape = {kHeads, kWidth, kWidth};
      tensor.bytes = std::as_bytes(std::span(values));
    }
  }

  std::string refusal() const {
    const auto state = tuned_state(tensors_, model_);
    return state ? "" : state.error().message;
  }

  std::vector<std::vector<float>> numbers_;
  Tensors tensors_;
  std::shared_ptr<const Model> model_ =
      test::load_model(test::make_random_model(test::family_config("rwkv7"), {}, 3));
};

TEST_F(TunedState, IsASnapshotBeforeTheFirstToken) {
  const auto state = tuned_state(tensors_, model_);
  ASSERT_TRUE(state.has_value()) << state.error().message;
  EXPECT_EQ(state->position(), 0U);
  const StateLayout& layout = engine_of(*model_).layout();
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < kHeads; ++head) {
      for (int value = 0; value < kWidth; ++value) {
        for (int key = 0; key < kWidth; ++key) {
          const auto from = static_cast<std::size_t>((head * kWidth + value) * kWidth + key);
          const auto to = layout.layer(layer).values_offset(head) +
                          static_cast<std::size_t>(key * kWidth + value);
          ASSERT_EQ(data_of(*state).state[to], numbers_[static_cast<std::size_t>(layer)][from]);
        }
      }
    }
  }
}

TEST_F(TunedState, ASessionStartsFromIt) {
  const auto state = tuned_state(tensors_, model_);
  ASSERT_TRUE(state.has_value()) << state.error().message;
  auto tuned = Session::create(model_), empty = Session::create(model_);
  ASSERT_TRUE(tuned->restore(*state).has_value());
  EXPECT_EQ(tuned->position(), 0U);
  const TokenId token = 5;
  ASSERT_TRUE(tuned->prefill(std::span(&token, 1)) && empty->prefill(std::span(&token, 1)));
  EXPECT_FALSE(
      std::equal(tuned->logits()->begin(), tuned->logits()->end(), empty->logits()->begin()));
}

TEST_F(TunedState, OutlivesAFile) {
  const auto state = tuned_state(tensors_, model_);
  ASSERT_TRUE(state.has_value()) << state.error().message;
  const auto bytes = state->to_bytes();
  ASSERT_TRUE(bytes.has_value());
  const auto again = Snapshot::from_bytes(*bytes);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(data_of(*again), data_of(*state));
}

TEST_F(TunedState, NamesWhatDoesNotFit) {
  EXPECT_EQ(refusal(), "");
  tensors_["blocks.2.att.time_state"] = tensors_["blocks.1.att.time_state"];
  EXPECT_EQ(refusal(), "the file has states of 3 layers, this model has 2");
  tensors_.erase("blocks.2.att.time_state");
  tensors_["emb.weight"] = {};
  EXPECT_EQ(refusal(),
            "tensor emb.weight is no tuned state: expected blocks.i.att.time_state alone");
  tensors_.erase("emb.weight");
  tensors_["blocks.1.att.time_state"].shape = {kHeads, kWidth * kWidth};
  EXPECT_EQ(refusal(), "tensor blocks.1.att.time_state has shape [4, 256], expected [4, 16, 16]");
  tensors_["blocks.1.att.time_state"].shape = {kHeads, kWidth, kWidth};
  numbers_[1][7] = INFINITY;
  EXPECT_EQ(refusal(), "tensor blocks.1.att.time_state[7] is not finite");
  tensors_.erase("blocks.1.att.time_state");
  EXPECT_EQ(refusal(), "tensor blocks.1.att.time_state is missing");
  model_ = test::load_model(test::make_random_model(test::small_config(), {}, 3));
  EXPECT_EQ(refusal(),
            "tuned states are for RWKV: layer 0 of this model has no state [keys, values] alone");
}

}  // namespace
}  // namespace runnel
