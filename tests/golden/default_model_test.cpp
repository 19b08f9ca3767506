// SPDX-License-Identifier: Apache-2.0
// The models in models/ against vectors of their own float32 forms: as shipped (int8 activations), with every
// instruction set, by the specification, and with all weights in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runnel/generation.h"
#include "runtime/model/session_impl.h"
#include "tests/golden/default_models.h"
#include "tests/support/compare.h"
#include "tests/support/safetensors.h"
#include "tests/support/slow.h"

namespace runnel::test {
namespace {

constexpr double kLogitTolerance = 1e-3;  // f32, of the largest logit
constexpr double kStateTolerance = 1e-3;  // f32, of the largest slot value
// f32 chooses alike while the two best logits are this far apart
constexpr double kExactGap = 0.02;
constexpr double kShippedGap = 0.4;           // the same with int8 activations
constexpr double kNllTolerance = 0.002;       // f32, nats per token
constexpr double kShippedPerplexity = 0.005;  // relative
constexpr double kShippedNll = 0.03;          // nats a token, mean of kFewTokens

constexpr std::size_t kEnoughUnderSanitizers = 8;  // tokens
constexpr std::size_t kFewTokens = 32;             // for the slow instruction sets

TokenId best(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Checks greedy replies token by token for as long as every choice so far was clear by `gap`, `most` in all.
/// @return how many tokens were compared
std::size_t expect_greedy_replies(const GoldenModel& golden,
                                  const std::shared_ptr<const Model>& model, double gap,
                                  std::size_t most) {
  std::size_t compared = 0;
  const Json prompts = golden.json("greedy.json");
  for (const Json& prompt : prompts) {
    if (compared >= most) break;
    Session session = new_session(model);
    EXPECT_TRUE(session.prefill(prompt.at("prompt_ids").get<std::vector<TokenId>>()).has_value());
    const auto reply = prompt.at("reply_ids").get<std::vector<TokenId>>();
    const auto gaps = prompt.at("top2_logit_gap").get<std::vector<double>>();
    for (std::size_t i = 0; i < reply.size() && gaps[i] > gap; ++i, ++compared) {
      const TokenId token = best(*session.logits());
      EXPECT_EQ(token, reply[i]) << prompt.at("user") << " token " << i;
      if (token != reply[i]) break;
      EXPECT_TRUE(impl_of(session).step({&token, 1}).has_value());
    }
  }
  return compared;
}

/// Checks the mean of the first tokens' negative log-likelihoods, text by text.
void expect_first_nll(const GoldenModel& golden, const std::shared_ptr<const Model>& model,
                      std::size_t count, double tolerance) {
  const Json texts = golden.json("perplexity.json");
  for (const auto& [name, text] : texts.items()) {
    std::vector<TokenId> tokens = tokens_of(golden, *model, text);
    auto expected = text.at("first_nll").get<std::vector<double>>();
    expected.resize(std::min(expected.size(), count));
    tokens.resize(expected.size() + 1);
    const std::vector<double> nll = negative_log_likelihoods(model, tokens);
    EXPECT_NEAR(mean(nll), mean(expected), tolerance) << name;
  }
}

/// A model that is in this checkout, or a loud skip.
#define SKIP_IF_ABSENT(golden)                                          \
  do {                                                                  \
    if (const std::string why = (golden).absent(); !why.empty()) {      \
      std::printf("[ SKIPPED  ] %s: %s\n", (golden).name, why.c_str()); \
      GTEST_SKIP() << why;                                              \
    }                                                                   \
  } while (false)

struct Shipped {
  const GoldenModel* golden;
  std::string device;
};

void PrintTo(const Shipped& shipped, std::ostream* out) {
  *out << shipped.golden->name << " on " << shipped.device;
}

/// As shipped, on every device that is no emulation.
class DefaultModelShipped : public testing::TestWithParam<Shipped> {
 protected:
  void SetUp() override {
    SKIP_IF_ABSENT(golden_);
    model_ = load(golden_, GetParam().device);
  }
  const GoldenModel& golden_ = *GetParam().golden;
  std::shared_ptr<const Model> model_;
};

std::vector<Shipped> real_devices() {
  std::vector<Shipped> all;
  for (const GoldenModel* golden : {&kSmallModel, &kDefaultModel}) {
    for (const DeviceInfo& device : devices()) {
      const bool software = device.name.find("llvmpipe") != std::string::npos;
      if (device.backend != "reference" && !software) all.push_back({golden, device.id});
    }
  }
  return all;
}

std::string shipped_name(const testing::TestParamInfo<Shipped>& info) {
  std::string name = std::string(info.param.golden->name) + "_" + info.param.device;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Devices, DefaultModelShipped, testing::ValuesIn(real_devices()),
                         shipped_name);

TEST_P(DefaultModelShipped, GreedyRepliesWhileEveryChoiceIsClear) {
  const std::size_t enough = kSlowBuild ? kEnoughUnderSanitizers : golden_.clear_choices;
  EXPECT_GE(expect_greedy_replies(golden_, model_, kShippedGap, kSlowBuild ? enough : 1000),
            enough);
}

TEST_P(DefaultModelShipped, PerplexityOfThreeTexts) {
  if (kSlowBuild) GTEST_SKIP() << "thousands of tokens take too long under a sanitizer";
  const bool cut = golden_.nll_tokens > 0 && GetParam().device == "cpu";
  const Json texts = golden_.json("perplexity.json");
  for (const auto& [name, text] : texts.items()) {
    std::vector<TokenId> tokens = tokens_of(golden_, *model_, text);
    ASSERT_EQ(tokens.size(), text.at("tokens").get<std::size_t>()) << name;
    double expected = text.at("nll").get<double>();
    if (cut) {
      tokens.resize(golden_.nll_tokens + 1);
      expected =
          text.at("nll_by_position").at("0-" + std::to_string(golden_.nll_tokens)).get<double>();
    }
    const double nll = mean(negative_log_likelihoods(model_, tokens));
    std::printf("[ golden   ] %s, %s: perplexity %.4f of %zu tokens, expected %.4f (%+.3f %%)\n",
                GetParam().device.c_str(), name.c_str(), std::exp(nll), tokens.size() - 1,
                std::exp(expected), 100.0 * (std::exp(nll - expected) - 1.0));
    EXPECT_NEAR(std::exp(nll - expected), 1.0, kShippedPerplexity) << name << ": " << std::exp(nll);
  }
}

TEST_P(DefaultModelShipped, PerplexityIsThatOfTheCpu) {
  if (GetParam().device == "cpu") GTEST_SKIP() << "it is the CPU";
  constexpr std::size_t kSome = 1500;  // of each text: the CPU is slow beside it
  const std::shared_ptr<const Model> cpu = load(golden_, "cpu");
  const Json texts = golden_.json("perplexity.json");
  for (const auto& [name, text] : texts.items()) {
    std::vector<TokenId> tokens = tokens_of(golden_, *model_, text);
    tokens.resize(std::min(tokens.size(), kSome));
    const double here = std::exp(mean(negative_log_likelihoods(model_, tokens)));
    const double there = std::exp(mean(negative_log_likelihoods(cpu, tokens)));
    std::printf("[ golden   ] %s, %s: perplexity %.4f, of the CPU %.4f (%+.3f %%)\n",
                GetParam().device.c_str(), name.c_str(), here, there, 100.0 * (here / there - 1.0));
    EXPECT_NEAR(here / there, 1.0, kShippedPerplexity) << name;
  }
}

/// What the device draws itself is what the choice among its logits would be.
TEST_P(DefaultModelShipped, GeneratesWhatItsLogitsSay) {
  if (GetParam().device == "cpu") GTEST_SKIP() << "the CPU draws nothing itself";
  const Json prompts = golden_.json("greedy.json");
  std::uint64_t seed = 0;
  for (const Json& prompt : prompts) {
    const auto ids = prompt.at("prompt_ids").get<std::vector<TokenId>>();
    GenerationOptions options{.sampling = {.temperature = seed % 2 == 0 ? 0.0F : 0.8F,
                                           .top_p = 0.95F,
                                           .repetition_penalty = 1.1F,
                                           .seed = ++seed},
                              .max_tokens = 48};
    Session ahead = new_session(model_), slow = new_session(model_);
    ASSERT_TRUE(ahead.prefill(ids) && slow.prefill(ids));
    const auto drawn = generate(ahead, options);
    options.on_logits = [](std::span<float>, std::span<const TokenId>) { return true; };
    const auto chosen = generate(slow, options);
    ASSERT_TRUE(drawn && chosen);
    EXPECT_EQ(drawn->tokens, chosen->tokens) << prompt.at("user");
    EXPECT_EQ(drawn->text, chosen->text);
    EXPECT_TRUE(std::ranges::equal(*ahead.logits(), *slow.logits()));
    if (seed == 4) break;
  }
}

TEST_P(DefaultModelShipped, StateHasTheSizeItsCardSays) {
  EXPECT_EQ(engine_of(*model_).layout().total_floats(), golden_.state_floats);
}

TEST_P(DefaultModelShipped, ChatsAreThePromptsOfTheVectors) {
  for (const Json& prompt : golden_.json("greedy.json")) {
    const ChatMessage message{"user", prompt.at("user").get<std::string>()};
    const auto ids = model_->encode_chat({&message, 1}, true);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(*ids, prompt.at("prompt_ids").get<std::vector<TokenId>>()) << message.content;
  }
}

/// The default model by each instruction set of the CPU, and by the specification.
class DefaultModelEverywhere : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_IF_ABSENT(kDefaultModel);
    if (kSlowBuild) GTEST_SKIP() << "the slow instruction sets take too long under a sanitizer";
  }
};

TEST_F(DefaultModelEverywhere, EveryInstructionSet) {
  for (const cpu::Isa isa : cpu::supported_isas()) {
    SCOPED_TRACE(cpu::isa_name(isa));
    expect_first_nll(kDefaultModel, load(kDefaultModel, isa), kFewTokens, kShippedNll);
  }
}

TEST_F(DefaultModelEverywhere, TheSpecification) {
  constexpr std::size_t kVeryFew = 6;  // it computes one product after the other
  const std::shared_ptr<const Model> model = load(kDefaultModel, "reference");
  expect_first_nll(kDefaultModel, model, kVeryFew, kNllTolerance);
}

class DefaultModelFloat : public testing::TestWithParam<const GoldenModel*> {
 protected:
  static void SetUpTestSuite() { model_.reset(); }
  static void TearDownTestSuite() { model_.reset(); }
  void SetUp() override {
    if (kSlowBuild) GTEST_SKIP() << "the whole model in f32 takes too long under a sanitizer";
    SKIP_IF_ABSENT(golden_);
    if (model_ != nullptr && loaded_ == GetParam()) return;
    model_.reset();  // before the next one takes its memory
    model_ = std::make_unique<FloatModel>(golden_);
    loaded_ = GetParam();
  }
  const std::shared_ptr<const Model>& model() const { return model_->get(); }

  const GoldenModel& golden_ = *GetParam();
  static std::unique_ptr<FloatModel> model_;
  static const GoldenModel* loaded_;
};
std::unique_ptr<FloatModel> DefaultModelFloat::model_;
const GoldenModel* DefaultModelFloat::loaded_ = nullptr;

INSTANTIATE_TEST_SUITE_P(Models, DefaultModelFloat, testing::Values(&kSmallModel, &kDefaultModel),
                         [](const auto& each) { return std::string(each.param->name); });

TEST_P(DefaultModelFloat, LogitsAndSlotsAfterALongPrompt) {
  const Vectors golden(golden_.data("activations.safetensors"));
  const std::vector<TokenId> prompt = golden.tokens("input_ids");
  const std::vector<TokenId> positions = golden.tokens("logits_at");
  const std::size_t vocab = static_cast<std::size_t>(model()->info().vocab_size);
  Session session = new_session(model());
  const auto logits = session.score(prompt);
  ASSERT_TRUE(logits.has_value());
  std::vector<float> chosen;
  for (TokenId at : positions) {
    const auto first =
        logits->begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(at) * vocab);
    chosen.insert(chosen.end(), first, first + static_cast<std::ptrdiff_t>(vocab));
  }
  EXPECT_LE(max_relative_error(chosen, golden.floats("logits")), kLogitTolerance);

  const StateLayout layout = engine_of(*model()).layout();
  std::vector<float> state(layout.total_floats(), NAN);
  ASSERT_TRUE(impl_of(session).state().export_to(state).has_value());
  for (int layer : golden_.layers) {
    const LayerState& own = layout.layer(layer);
    const std::string prefix = "layer" + std::to_string(layer) + ".";
    for (const char* part : {"k", "v"}) {
      // [heads, slots, channels]: sinks and window, then memory, as a head's slots lie in the state
      const std::vector<float> positional = golden.floats(prefix + "positional_" + part);
      const std::vector<float> memory = golden.floats(prefix + "memory_" + part);
      const std::size_t heads = static_cast<std::size_t>(own.kv_heads);
      ASSERT_EQ(positional.size() + memory.size(), heads * own.keys_floats());
      std::vector<float> actual;
      std::vector<float> expected;
      for (std::size_t head = 0; head < heads; ++head) {
        const int h = static_cast<int>(head);
        const std::size_t from = part[0] == 'k' ? own.keys_offset(h) : own.values_offset(h);
        const std::span<const float> slots = std::span(state).subspan(from, own.keys_floats());
        actual.insert(actual.end(), slots.begin(), slots.end());
        for (const std::vector<float>* of : {&positional, &memory}) {
          const auto each = static_cast<std::ptrdiff_t>(of->size() / heads);
          const auto first = of->begin() + static_cast<std::ptrdiff_t>(head) * each;
          expected.insert(expected.end(), first, first + each);
        }
      }
      EXPECT_LE(max_relative_error(actual, expected), kStateTolerance) << prefix << part;
    }
  }
}

TEST_P(DefaultModelFloat, GreedyRepliesWhileEveryChoiceIsClear) {
  EXPECT_GE(expect_greedy_replies(golden_, model(), kExactGap, golden_.float_choices),
            golden_.float_choices);
}

TEST_P(DefaultModelFloat, FirstTokensOfThreeTextsOneByOne) {
  const Json texts = golden_.json("perplexity.json");
  for (const auto& [name, text] : texts.items()) {
    std::vector<TokenId> tokens = tokens_of(golden_, *model(), text);
    const auto expected = text.at("first_nll").get<std::vector<double>>();
    tokens.resize(expected.size() + 1);
    const std::vector<double> nll = negative_log_likelihoods(model(), tokens);
    ASSERT_EQ(nll.size(), expected.size());
    EXPECT_NEAR(mean(nll), mean(expected), kNllTolerance) << name;
    EXPECT_LE(max_relative_error(nll, expected), kLogitTolerance) << name;
  }
}

}  // namespace
}  // namespace runnel::test
