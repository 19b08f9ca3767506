// SPDX-License-Identifier: Apache-2.0
// The thought before a constrained text is free; what may end it, and what the text may begin with.
#include "runtime/generate/constraint_walk.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/generate/session_source.h"
#include "runtime/model/model_impl.h"
#include "tests/constraint/byte_model.h"

namespace runnel::test {
namespace {

class ConstraintWalkTest : public ByteModelTest {
 protected:
  ConstraintWalk begin(const AnswerForm& form, std::string_view taken = {}) {
    auto walk = ConstraintWalk::begin(digits_, form, piece_, taken);
    if (!walk) throw std::runtime_error(walk.error().message);
    return *std::move(walk);
  }
  void take(ConstraintWalk& walk, const std::string& text) {
    for (const TokenId token : *model_->encode(text)) {
      const auto mask = walk.mask();
      ASSERT_TRUE(mask) << mask.error().message;
      ASSERT_TRUE((*mask)->has(token)) << text << ": " << piece_(token);
      walk.took(token, piece_(token));
    }
  }
  bool may(ConstraintWalk& walk, const std::string& text) {
    const auto mask = walk.mask();
    return mask && (*mask)->has(model_->encode(text)->front());
  }

  const std::shared_ptr<const Constraint> digits_ =
      compile({.kind = ConstraintKind::regex, .text = "[0-9]{2}"});
  const PieceOf piece_ = [this](TokenId token) { return piece_of(tokenizer_of(*model_), token); };
};

TEST_F(ConstraintWalkTest, AllowsOnlyWhatFollows) {
  ConstraintWalk walk = begin({});
  EXPECT_TRUE(may(walk, "4"));
  EXPECT_FALSE(may(walk, "x"));
  take(walk, "42");
  EXPECT_FALSE(may(walk, "4"));
}

TEST_F(ConstraintWalkTest, AThoughtIsFree) {
  ConstraintWalk walk = begin({.opening = "<think>\n", .thinks = true});
  EXPECT_TRUE(may(walk, "x"));
  take(walk, "let me see, 1 < 2 > 0\n</think>\n\n");
  EXPECT_FALSE(may(walk, "x"));
  EXPECT_TRUE(may(walk, "7"));
  take(walk, "77");
}

TEST_F(ConstraintWalkTest, AThoughtMayBeginOrNot) {
  ConstraintWalk thinks = begin({.thinks = true});
  take(thinks, "<think>hm</think>12");
  ConstraintWalk answers = begin({.thinks = true});
  take(answers, "12");
}

TEST_F(ConstraintWalkTest, GoesOnWhereAnEarlierOneWas) {
  ConstraintWalk walk = begin({}, "4");
  take(walk, "2");
  EXPECT_FALSE(ConstraintWalk::begin(digits_, {}, piece_, "x"));
}

}  // namespace
}  // namespace runnel::test
