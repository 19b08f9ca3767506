// SPDX-License-Identifier: Apache-2.0
// What conversations may begin from: a state before the first token, and nothing else of its snapshot.
#include "runtime/model/initial_state.h"

#include <gtest/gtest.h>

#include "runnel/session.h"
#include "tests/support/chat_model.h"
#include "tests/support/initial_state.h"
#include "tests/support/loaded_model.h"

namespace runnel {
namespace {

class InitialState : public ::testing::Test {
 protected:
  std::string refusal(const Snapshot& snapshot) const {
    const auto initial = initial_state(snapshot, model_);
    return initial ? "" : initial.error().message;
  }
  Snapshot with(const std::function<void(SnapshotData&)>& change) const {
    auto data = std::make_shared<SnapshotData>(data_of(tuned_));
    change(*data);
    return make_snapshot(std::move(data));
  }

  std::shared_ptr<const Model> model_ = test::load_model(test::chat_weights());
  Snapshot tuned_ = test::random_initial_state(model_);
};

TEST_F(InitialState, IsTheStateAlone) {
  const auto initial = initial_state(with([](SnapshotData& data) {
                                       data.has_sampler = true;
                                       data.history_hash = 5;
                                       data.recent_tokens = {1, 2};
                                       data.unread_carry = "text";
                                     }),
                                     model_);
  ASSERT_TRUE(initial.has_value()) << initial.error().message;
  const Snapshot expected =
      with([&](SnapshotData& data) { data.history_hash = initial_state_id(tuned_); });
  EXPECT_EQ(data_of(*initial), data_of(expected));
}

TEST_F(InitialState, IsHeldOnceIfItIsAloneAlready) {
  const Snapshot alone = state_alone(tuned_);
  EXPECT_NE(&data_of(alone), &data_of(tuned_)) << "its history is another";
  EXPECT_EQ(&data_of(state_alone(alone)), &data_of(alone));
  EXPECT_EQ(&data_of(*initial_state(alone, model_)), &data_of(alone));
}

TEST_F(InitialState, IsToldApartByItsState) {
  EXPECT_EQ(initial_state_id(tuned_), initial_state_id(test::random_initial_state(model_)));
  EXPECT_NE(initial_state_id(tuned_), initial_state_id(test::random_initial_state(model_, 8)));
  EXPECT_NE(initial_state_id(tuned_), 0U);
}

TEST_F(InitialState, OtherSnapshotsAreRefused) {
  auto session = Session::create(model_);
  const TokenId tokens[] = {1, 2, 3};
  ASSERT_TRUE(session->prefill(tokens));
  EXPECT_EQ(refusal(*session->snapshot()),
            "the snapshot was taken after 3 tokens, expected one before the first, such as a "
            "tuned state");
  EXPECT_EQ(refusal(with([](SnapshotData& data) {
              data.context.messages = {{"system", "Be kind."}};
            })),
            "the snapshot has messages, expected a state before the first");
  model_ = test::load_model(test::chat_weights(5));
  EXPECT_EQ(refusal(tuned_).substr(0, 43), "snapshot: belongs to the model with fingerp");
}

}  // namespace
}  // namespace runnel
