// SPDX-License-Identifier: Apache-2.0
// A constrained generation on a source that draws its tokens ahead, as GPUs do: the same as step by step, whatever ends
// it, and every draw has its mask before anything else can wait for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "runnel/generation.h"
#include "runtime/generate/generation_loop.h"
#include "runtime/generate/session_source.h"
#include "tests/constraint/byte_model.h"

namespace runnel::test {
namespace {

using ::testing::Each;
using ::testing::Gt;

/// Draws ahead on the host: what is queued is consumed at once, and drawn from when its mask comes.
class DrawsAhead final : public TokenSource {
 public:
  explicit DrawsAhead(Session& session) : session_(session), plain_(session) {}

  std::span<const float> logits() const override { return plain_.logits(); }
  std::span<const TokenId> generated_tokens() const override { return plain_.generated_tokens(); }
  std::uint64_t position() const override { return plain_.position(); }
  std::string_view piece(TokenId token) const override { return plain_.piece(token); }
  bool is_end(TokenId token) const override { return plain_.is_end(token); }
  Status step(std::span<const TokenId> tokens) override {
    if (ahead_) return Error{ErrorCode::internal, "a step while tokens are drawn ahead"};
    passes.push_back(tokens.size());
    return plain_.step(tokens);
  }

  Result<bool> draw_ahead(TokenId first, const SamplingOptions& sampling, bool masked) override {
    auto made = Sampler::create(sampling, static_cast<std::int32_t>(logits().size()));
    if (!made) return made.error();
    sampler_.emplace(*std::move(made));
    next_ = first;
    known_.clear();
    begins_ = ahead_ = true;
    masked_ = masked;
    return true;
  }
  Status queue() override {
    if (waits_) return Error{ErrorCode::internal, "a pass was queued before the mask of another"};
    if (!next_) return Error{ErrorCode::internal, "a pass was queued behind one without a token"};
    if (!std::exchange(begins_, false)) known_.push_back(*next_);
    passes.push_back(1);
    const TokenId token = *next_;
    if (Status stepped = plain_.step(std::span(&token, 1)); !stepped) return stepped;
    waits_ = masked_;
    if (!masked_) draw(nullptr);
    return {};
  }
  Status mask(const TokenMask& mask) override {
    if (!waits_) return Error{ErrorCode::internal, "a mask for no pass"};
    waits_ = false;
    draw(&mask);
    return {};
  }
  Result<TokenId> drawn() override {
    if (known_.empty()) return Error{ErrorCode::internal, "reads a token that was not queued"};
    const TokenId token = known_.front();
    known_.pop_front();
    return token;
  }
  Status settle() override {
    ahead_ = waits_ = false;
    return {};
  }

  bool waits() const { return waits_; }
  std::vector<std::size_t> passes;  // tokens of each

 private:
  void draw(const TokenMask* mask) {
    const auto token = sampler_->sample(logits(), generated_tokens(), position(), mask);
    next_ = token ? std::optional(*token) : std::nullopt;
  }

  Session& session_;
  SessionSource plain_;
  std::optional<Sampler> sampler_;
  std::optional<TokenId> next_;  // drawn last
  std::deque<TokenId> known_;
  bool begins_ = false, ahead_ = false, masked_ = false, waits_ = false;
};

class DrawingAheadWithAConstraint : public ByteModelTest {
 protected:
  struct Done {
    GenerationResult result;
    GenerationCarry carry;
    std::vector<float> logits;
    std::uint64_t position = 0;
  };

  GenerationOptions options(const ConstraintSource& source, std::uint64_t seed) const {
    return {.sampling = {.temperature = 1.5F, .seed = seed},
            .max_tokens = 400,
            .constraint = compile(source)};
  }
  static Done done(Session& session, Result<GenerationResult> result, GenerationCarry carry) {
    if (!result) throw std::runtime_error(result.error().message);
    const std::span<const float> logits = *session.logits();
    return {
        *std::move(result), std::move(carry), {logits.begin(), logits.end()}, session.position()};
  }
  Done step_by_step(const GenerationOptions& options, const TextCallback& on_text = {},
                    const std::stop_token& stop = {}) const {
    Session own = *session_->fork();
    SessionSource source(own);
    GenerationCarry carry;
    auto result = run_generation(source, options, carry, on_text, stop);
    return done(own, std::move(result), carry);
  }
  Done ahead(const GenerationOptions& options, const TextCallback& on_text = {},
             const std::stop_token& stop = {}) {
    Session own = *session_->fork();
    DrawsAhead source(own);
    GenerationCarry carry;
    auto result = run_generation(
        source, options, carry,
        [&](std::string_view text) {
          EXPECT_FALSE(source.waits()) << "a draw waits while text is shown";
          return !on_text || on_text(text);
        },
        stop);
    passes_ = source.passes;
    return done(own, std::move(result), carry);
  }
  static void expect_same(const Done& got, const Done& expected) {
    EXPECT_EQ(got.result.reason, expected.result.reason);
    EXPECT_EQ(got.result.tokens, expected.result.tokens);
    EXPECT_EQ(got.result.text, expected.result.text);
    EXPECT_EQ(got.result.held_back, expected.result.held_back);
    EXPECT_EQ(got.position, expected.position);
    EXPECT_EQ(got.logits, expected.logits);
    ASSERT_EQ(got.carry.constraint.has_value(), expected.carry.constraint.has_value());
    if (got.carry.constraint) {
      EXPECT_EQ(got.carry.constraint->taken, expected.carry.constraint->taken);
    }
  }

  // Runs of certain tokens of every length from one to more than a pass takes.
  const ConstraintSource mixed_{
      .kind = ConstraintKind::regex,
      .text = "(left|right){3} [a-f]x[a-f]xy[a-f]xyz[a-f]wxyz[a-f] and this is the end of it[.!]"};
  const ConstraintSource free_{.kind = ConstraintKind::regex, .text = "[a-z ]{1,60}"};
  std::vector<std::size_t> passes_;
};

TEST_F(DrawingAheadWithAConstraint, GivesWhatStepByStepDoes) {
  for (const ConstraintSource& source : {mixed_, free_}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const GenerationOptions wanted = options(source, seed);
      const Done expected = step_by_step(wanted);
      EXPECT_EQ(expected.result.reason, FinishReason::end);
      expect_same(ahead(wanted), expected);
    }
  }
}

TEST_F(DrawingAheadWithAConstraint, FeedsManyCertainTokensInOnePass) {
  ahead(options(mixed_, 3));
  EXPECT_EQ(std::ranges::max(passes_), Constraint::kMostForced);
  EXPECT_THAT(passes_, Each(Gt(0U)));
}

TEST_F(DrawingAheadWithAConstraint, ACutAnywhereLeavesWhatStepByStepLeaves) {
  GenerationOptions wanted = options(mixed_, 5);
  const std::size_t all = step_by_step(wanted).result.tokens.size();
  for (std::size_t cut = 1; cut <= all; ++cut) {
    wanted.max_tokens = cut;
    expect_same(ahead(wanted), step_by_step(wanted));
    if (HasFailure()) FAIL() << "cut after " << cut << " tokens";
  }
}

TEST_F(DrawingAheadWithAConstraint, ACallbackMayEndItAnywhere) {
  const GenerationOptions wanted = options(mixed_, 6);
  for (std::size_t most = 1; most < 60; ++most) {
    const auto run = [&](const auto& generate) {
      std::size_t shown = 0;
      return generate([&, most](std::string_view) { return ++shown < most; });
    };
    expect_same(run([&](const TextCallback& f) { return ahead(wanted, f); }),
                run([&](const TextCallback& f) { return step_by_step(wanted, f); }));
    if (HasFailure()) FAIL() << "ended after " << most << " pieces";
  }
}

TEST_F(DrawingAheadWithAConstraint, AStopMayComeAnywhere) {
  const GenerationOptions wanted = options(mixed_, 7);
  for (std::size_t most = 1; most < 60; most += 3) {
    const auto run = [&](const auto& generate) {
      std::size_t shown = 0;
      std::stop_source stop;
      return generate(
          [&, most](std::string_view) {
            if (++shown == most) stop.request_stop();
            return true;
          },
          stop.get_token());
    };
    expect_same(
        run([&](const TextCallback& f, const std::stop_token& s) { return ahead(wanted, f, s); }),
        run([&](const TextCallback& f, const std::stop_token& s) {
          return step_by_step(wanted, f, s);
        }));
  }
}

TEST_F(DrawingAheadWithAConstraint, StopTextsEndIt) {
  for (const char* text : {"right", "xyz", " the end", "."}) {
    GenerationOptions wanted = options(mixed_, 8);
    wanted.stop = {text};
    expect_same(ahead(wanted), step_by_step(wanted));
  }
}

TEST_F(DrawingAheadWithAConstraint, GoesOnWhereAnotherWasCut) {
  GenerationOptions wanted = options(mixed_, 9);
  const std::string whole = step_by_step(wanted).result.text;
  for (const std::size_t cut : {3U, 20U, 40U}) {
    Session own = *session_->fork();
    GenerationCarry carry;
    std::string text;
    for (const std::uint64_t most : {std::uint64_t{cut}, std::uint64_t{400}}) {
      DrawsAhead source(own);
      wanted.max_tokens = most;
      const auto part = run_generation(source, wanted, carry, {}, {});
      ASSERT_TRUE(part) << part.error().message;
      text += part->text;
    }
    EXPECT_EQ(text, whole) << "cut after " << cut;
  }
}

}  // namespace
}  // namespace runnel::test
