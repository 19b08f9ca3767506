// SPDX-License-Identifier: Apache-2.0
// What a generation writes with a constraint, whatever the model says: forced tokens, cuts, snapshots, stops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stop_token>
#include <string>
#include <vector>

#include "runnel/batch.h"
#include "runnel/generation.h"
#include "runnel/snapshot.h"
#include "tests/constraint/byte_model.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;

class ConstrainedGeneration : public ByteModelTest {
 protected:
  GenerationOptions options(const ConstraintSource& source, std::uint64_t seed,
                            std::uint64_t tokens = 400) const {
    return {.sampling = {.temperature = 1.5F, .seed = seed},
            .max_tokens = tokens,
            .constraint = compile(source)};
  }
  Session fork() const { return *session_->fork(); }

  const ConstraintSource record_{
      .kind = ConstraintKind::json_schema,
      .text = R"({"type": "object", "properties": {"colour": {"enum": ["red", "green"]},
                  "size": {"type": "integer", "minimum": 1, "maximum": 99},
                  "note": {"type": "string", "maxLength": 6}}, "required": ["colour", "size", "note"]})"};
  const ConstraintSource mixed_{.kind = ConstraintKind::regex,
                                .text = "start (left|right){3} [a-f]{2,5} and the end of it[.!]"};
};

TEST_F(ConstrainedGeneration, WritesWhatTheConstraintDescribes) {
  for (const ConstraintSource& source : {record_, mixed_}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Session own = fork();
      const GenerationOptions wanted = options(source, seed);
      const auto done = generate(own, wanted);
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_EQ(done->reason, FinishReason::end) << done->text;
      EXPECT_TRUE(wanted.constraint->accepts(done->text)) << done->text;
    }
  }
}

TEST_F(ConstrainedGeneration, ForcedTokensAreThoseOfOneByOne) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Session together = fork(), apart = fork();
    const GenerationOptions wanted = options(mixed_, seed);
    const auto expected = generate(together, wanted);
    ASSERT_TRUE(expected) << expected.error().message;
    auto steps = SessionGeneration::create(apart, wanted);
    ASSERT_TRUE(steps) << steps.error().message;
    std::vector<TokenId> tokens;
    for (auto token = steps->step(); token && *token; token = steps->step())
      tokens.push_back(**token);
    const std::vector<TokenId>& all = expected->tokens;
    ASSERT_GE(all.size(), tokens.size());
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), all.begin()));
    EXPECT_GE(tokens.size() + 1, all.size());  // an end token is no step
  }
}

TEST_F(ConstrainedGeneration, GoesOnAfterASnapshotAsIfItHadNotStopped) {
  for (std::uint64_t cut = 1; cut < 40; cut += 3) {
    Session whole = fork(), part = fork();
    const GenerationOptions all = options(mixed_, 5), some = options(mixed_, 5, cut);
    const auto expected = generate(whole, all);
    ASSERT_TRUE(expected);
    const auto first = generate(part, some);
    ASSERT_TRUE(first) << first.error().message;
    const auto kept = part.snapshot();
    ASSERT_TRUE(kept);
    const auto bytes = kept->to_bytes();
    ASSERT_TRUE(bytes);
    const auto read = Snapshot::from_bytes(*bytes);
    ASSERT_TRUE(read) << read.error().message;
    auto restored = Session::create(model_);
    ASSERT_TRUE(restored);
    ASSERT_TRUE(restored->restore(*read));
    const auto last = last_constraint(*restored);
    ASSERT_TRUE(last) << last.error().message;
    std::string text = first->text;
    if (*last != nullptr) {
      EXPECT_EQ((*last)->source(), mixed_);
      const auto rest = generate(*restored, all);
      ASSERT_TRUE(rest) << rest.error().message;
      text += rest->text;
    }
    EXPECT_EQ(text, expected->text) << "cut after " << cut;
  }
}

TEST_F(ConstrainedGeneration, OfAnotherTextBeginsAnew) {
  Session own = fork();
  const auto cut = generate(own, options(mixed_, 1, 4));
  ASSERT_TRUE(cut);
  const ConstraintSource digits{.kind = ConstraintKind::regex, .text = "[0-9]{3}"};
  const auto done = generate(own, options(digits, 1));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->text.size(), 3U);
}

TEST_F(ConstrainedGeneration, AfterAStopKeepsTheConstraint) {
  Session own = fork();
  std::stop_source stop;
  std::string text;
  const GenerationOptions wanted = options(record_, 3);
  const auto cut = generate(
      own, wanted,
      [&](std::string_view piece) {
        text += piece;
        if (text.size() > 5) stop.request_stop();
        return true;
      },
      stop.get_token());
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(cut->reason, FinishReason::cancelled);
  const auto rest = generate(own, wanted);
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_TRUE(wanted.constraint->accepts(cut->text + rest->text)) << cut->text << rest->text;
}

TEST_F(ConstrainedGeneration, AForkInTheMiddleGoesOnLikeItsOrigin) {
  Session own = fork();
  const auto cut = generate(own, options(mixed_, 2, 9));
  ASSERT_TRUE(cut) << cut.error().message;
  auto other = own.fork();
  ASSERT_TRUE(other) << other.error().message;
  const GenerationOptions wanted = options(mixed_, 2);
  const auto one = generate(own, wanted), two = generate(*other, wanted);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->text, two->text);
  EXPECT_TRUE(wanted.constraint->accepts(cut->text + one->text)) << cut->text << one->text;
}

TEST_F(ConstrainedGeneration, GoesBackToWhereItWasInTheMiddle) {
  Session own = fork();
  const GenerationOptions wanted = options(mixed_, 2);
  const auto cut = generate(own, options(mixed_, 2, 9));
  ASSERT_TRUE(cut) << cut.error().message;
  const auto middle = own.snapshot();
  ASSERT_TRUE(middle);
  const auto first = generate(own, wanted);
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(own.restore(*middle));
  const auto again = generate(own, wanted);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->text, first->text);
}

TEST_F(ConstrainedGeneration, AStopTextCutsItAsItWouldBeCutWithout) {
  Session own = fork();
  GenerationOptions wanted = options(mixed_, 2);
  wanted.stop = {" and the"};
  const auto cut = generate(own, wanted);
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(cut->reason, FinishReason::stop_text);
  EXPECT_THAT(cut->text,
              ::testing::MatchesRegex("start (left|right)(left|right)(left|right) [a-f]+"));
}

TEST_F(ConstrainedGeneration, CannotIgnoreTheEnd) {
  GenerationOptions wanted = options(mixed_, 1);
  wanted.ignore_end = true;
  const auto refused = generate(*session_, wanted);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr("ignore_end"));
}

TEST_F(ConstrainedGeneration, IsForItsOwnModel) {
  const TemporaryDirectory folder;
  write_world_chat_model(folder / "other.gguf");
  const auto other = Model::load(folder / "other.gguf", {.device = "cpu", .threads = 1});
  ASSERT_TRUE(other);
  const auto made = Constraint::regex(**other, "a+");
  ASSERT_TRUE(made) << made.error().message;
  GenerationOptions wanted = options(mixed_, 1);
  wanted.constraint = *made;
  const auto refused = generate(*session_, wanted);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::mismatch);
}

TEST_F(ConstrainedGeneration, ABiasAgainstAllThatMayComeIsAnError) {
  GenerationOptions wanted = options({.kind = ConstraintKind::regex, .text = "[ab]"}, 1);
  for (const TokenId token : *model_->encode("ab"))
    wanted.sampling.logit_bias[token] = -std::numeric_limits<float>::infinity();
  const auto refused = generate(*session_, wanted);
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().message.empty());
}

}  // namespace
}  // namespace runnel::test
