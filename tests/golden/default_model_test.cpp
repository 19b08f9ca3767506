// SPDX-License-Identifier: Apache-2.0
// The default model against vectors of its own float32 form: as shipped (int8 activations) and with
// all weights in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runnel/generation.h"
#include "runnel/model.h"
#include "runnel/session.h"
#include "runtime/model/engine.h"
#include "runtime/model/quantize_model.h"
#include "runtime/model/session_impl.h"
#include "tests/support/compare.h"
#include "tests/support/loaded_model.h"
#include "tests/support/safetensors.h"
#include "tests/support/slow.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

constexpr double kLogitTolerance = 1e-3;  // f32, of the largest logit
constexpr double kStateTolerance = 1e-3;  // f32, of the largest slot value
// f32 chooses alike while the two best logits are this far apart
constexpr double kExactGap = 0.02;
constexpr double kShippedGap = 0.4;           // the same with int8 activations
constexpr double kNllTolerance = 0.002;       // f32, nats per token
constexpr double kShippedPerplexity = 0.005;  // relative

constexpr std::size_t kEnoughUnderSanitizers = 8;  // tokens

using Json = nlohmann::json;

std::filesystem::path data(const std::string& name) {
  return std::filesystem::path(RUNNEL_TEST_DATA) / "default_model" / name;
}

std::filesystem::path shipped_file() {
  return std::filesystem::path(RUNNEL_MODELS) / "runnel-gsa-135m-instruct.gguf";
}

Json read_json(const std::string& name) { return Json::parse(std::ifstream(data(name))); }

std::string read_text(const std::string& name) {
  std::ifstream in(data(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::shared_ptr<const Model> load(const std::filesystem::path& file,
                                  const std::string& device = "cpu") {
  auto model = Model::load(file, {.device = device});
  if (!model) throw std::runtime_error(model.error().message);
  return *model;
}

Session new_session(const std::shared_ptr<const Model>& model) {
  auto session = Session::create(model);
  if (!session) throw std::runtime_error(session.error().message);
  return *std::move(session);
}

TokenId best(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Checks greedy replies token by token for as long as every choice so far was clear by `gap`.
/// @return how many tokens were compared
std::size_t expect_greedy_replies(const std::shared_ptr<const Model>& model, double gap) {
  std::size_t compared = 0;
  const Json prompts = read_json("greedy.json");
  for (const Json& prompt : prompts) {
    if (compared >= kEnoughUnderSanitizers && kSlowBuild) break;
    Session session = new_session(model);
    EXPECT_TRUE(session.prefill(prompt.at("prompt_ids").get<std::vector<TokenId>>()).has_value());
    const auto reply = prompt.at("reply_ids").get<std::vector<TokenId>>();
    const auto gaps = prompt.at("top2_logit_gap").get<std::vector<double>>();
    for (std::size_t i = 0; i < reply.size() && gaps[i] > gap; ++i, ++compared) {
      const TokenId token = best(session.logits());
      EXPECT_EQ(token, reply[i]) << prompt.at("user") << " token " << i;
      if (token != reply[i]) break;
      EXPECT_TRUE(session.impl().step(token).has_value());
    }
  }
  return compared;
}

/// Negative log-likelihoods in nats of tokens 1 … n-1 of one stream from an empty state.
std::vector<double> negative_log_likelihoods(const std::shared_ptr<const Model>& model,
                                             std::span<const TokenId> tokens) {
  const std::size_t vocab = static_cast<std::size_t>(model->info().vocab_size);
  constexpr std::size_t kPiece = 256;
  Session session = new_session(model);
  std::vector<double> nll;
  for (std::size_t at = 0; at < tokens.size(); at += kPiece) {
    const std::size_t n = std::min(kPiece, tokens.size() - at);
    const auto logits = session.score(tokens.subspan(at, n));
    if (!logits) throw std::runtime_error(logits.error().message);
    for (std::size_t i = 0; i < n && at + i + 1 < tokens.size(); ++i) {
      const std::span<const float> row = std::span(*logits).subspan(i * vocab, vocab);
      const double largest = *std::max_element(row.begin(), row.end());
      double sum = 0.0;
      for (float v : row) sum += std::exp(static_cast<double>(v) - largest);
      nll.push_back(largest + std::log(sum) -
                    static_cast<double>(row[static_cast<std::size_t>(tokens[at + i + 1])]));
    }
  }
  return nll;
}

double mean(std::span<const double> values) {
  double sum = 0.0;
  for (double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

std::vector<TokenId> tokens_of(const Model& model, const Json& text) {
  auto tokens = model.encode(read_text(text.at("file").get<std::string>()), true);
  if (!tokens) throw std::runtime_error(tokens.error().message);
  return *std::move(tokens);
}

/// As shipped, on every device that is no emulation.
class DefaultModelShipped : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { model_ = load(shipped_file(), GetParam()); }
  std::shared_ptr<const Model> model_;
};

std::vector<std::string> real_devices() {
  std::vector<std::string> ids;
  for (const DeviceInfo& device : devices()) {
    const bool software = device.name.find("llvmpipe") != std::string::npos;
    if (device.backend != "reference" && !software) ids.push_back(device.id);
  }
  return ids;
}

INSTANTIATE_TEST_SUITE_P(Devices, DefaultModelShipped, testing::ValuesIn(real_devices()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

TEST_P(DefaultModelShipped, GreedyRepliesWhileEveryChoiceIsClear) {
  EXPECT_GE(expect_greedy_replies(model_, kShippedGap), kSlowBuild ? kEnoughUnderSanitizers : 40U);
}

TEST_P(DefaultModelShipped, PerplexityOfThreeTexts) {
  if (kSlowBuild) GTEST_SKIP() << "30,000 tokens take too long under a sanitizer";
  const Json texts = read_json("perplexity.json");
  for (const auto& [name, text] : texts.items()) {
    const std::vector<TokenId> tokens = tokens_of(*model_, text);
    ASSERT_EQ(tokens.size(), text.at("tokens").get<std::size_t>()) << name;
    const double perplexity = std::exp(mean(negative_log_likelihoods(model_, tokens)));
    const double expected = text.at("perplexity").get<double>();
    std::printf("[ golden   ] %s, %s: perplexity %.4f, expected %.4f (%+.3f %%)\n",
                GetParam().c_str(), name.c_str(), perplexity, expected,
                100.0 * (perplexity / expected - 1.0));
    EXPECT_NEAR(perplexity / expected, 1.0, kShippedPerplexity) << name << ": " << perplexity;
  }
}

TEST_P(DefaultModelShipped, PerplexityIsThatOfTheCpu) {
  if (GetParam() == "cpu") GTEST_SKIP() << "it is the CPU";
  constexpr std::size_t kSome = 1500;  // of each text: the CPU is slow beside it
  const std::shared_ptr<const Model> cpu = load(shipped_file());
  const Json texts = read_json("perplexity.json");
  for (const auto& [name, text] : texts.items()) {
    std::vector<TokenId> tokens = tokens_of(*model_, text);
    tokens.resize(std::min(tokens.size(), kSome));
    const double here = std::exp(mean(negative_log_likelihoods(model_, tokens)));
    const double there = std::exp(mean(negative_log_likelihoods(cpu, tokens)));
    std::printf("[ golden   ] %s, %s: perplexity %.4f, of the CPU %.4f (%+.3f %%)\n",
                GetParam().c_str(), name.c_str(), here, there, 100.0 * (here / there - 1.0));
    EXPECT_NEAR(here / there, 1.0, kShippedPerplexity) << name;
  }
}

/// What the device draws itself is what the choice among its logits would be.
TEST_P(DefaultModelShipped, GeneratesWhatItsLogitsSay) {
  if (GetParam() == "cpu") GTEST_SKIP() << "the CPU draws nothing itself";
  const Json prompts = read_json("greedy.json");
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
    EXPECT_TRUE(std::ranges::equal(ahead.logits(), slow.logits()));
    if (seed == 4) break;
  }
}

TEST_P(DefaultModelShipped, StateHasTheSizeItsCardSays) {
  EXPECT_EQ(model_->engine().layout().total_floats(), 1'474'560U);
}

class DefaultModelFloat : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (kSlowBuild) return;
    folder_ = std::make_unique<TemporaryDirectory>();
    const auto shipped = ModelFile::from_gguf(*GgufFile::open(shipped_file()));
    if (!shipped) throw std::runtime_error(shipped.error().message);
    const auto report = quantize_model(*shipped, *folder_ / "f32.gguf",
                                       {.type = quant::BlockType::f32, .threads = 2});
    if (!report) throw std::runtime_error(report.error().message);
    model_ = load(*folder_ / "f32.gguf");
    folder_.reset();
  }
  static void TearDownTestSuite() { model_.reset(); }
  void SetUp() override {
    if (kSlowBuild) GTEST_SKIP() << "the whole model in f32 takes too long under a sanitizer";
  }
  static std::unique_ptr<TemporaryDirectory> folder_;
  static std::shared_ptr<const Model> model_;
};
std::unique_ptr<TemporaryDirectory> DefaultModelFloat::folder_;
std::shared_ptr<const Model> DefaultModelFloat::model_;

TEST_F(DefaultModelFloat, LogitsAndSlotsAfterALongPrompt) {
  const Vectors golden(data("activations.safetensors"));
  const std::vector<TokenId> prompt = golden.tokens("input_ids");
  const std::vector<TokenId> positions = golden.tokens("logits_at");
  const std::size_t vocab = static_cast<std::size_t>(model_->info().vocab_size);
  Session session = new_session(model_);
  const auto logits = session.score(prompt);
  ASSERT_TRUE(logits.has_value());
  std::vector<float> chosen;
  for (TokenId at : positions) {
    const auto first =
        logits->begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(at) * vocab);
    chosen.insert(chosen.end(), first, first + static_cast<std::ptrdiff_t>(vocab));
  }
  EXPECT_LE(max_relative_error(chosen, golden.floats("logits")), kLogitTolerance);

  const StateLayout layout = model_->engine().layout();
  std::vector<float> state(layout.total_floats(), NAN);
  ASSERT_TRUE(session.impl().state().export_to(state).has_value());
  for (int layer : {0, 14, 29}) {
    const LayerState& own = layout.layer(layer);
    const std::string prefix = "layer" + std::to_string(layer) + ".";
    for (const char* part : {"k", "v"}) {
      // [heads, 64, 64]
      const std::vector<float> positional = golden.floats(prefix + "positional_" + part);
      const std::vector<float> memory = golden.floats(prefix + "memory_" + part);
      std::vector<float> actual;
      std::vector<float> expected;
      for (int head = 0; head < own.kv_heads; ++head) {
        const std::size_t half = own.keys_floats() / 2;
        const std::size_t from = part[0] == 'k' ? own.keys_offset(head) : own.values_offset(head);
        const std::span<const float> slots = std::span(state).subspan(from, own.keys_floats());
        actual.insert(actual.end(), slots.begin(), slots.end());
        const std::size_t at = static_cast<std::size_t>(head) * half;
        expected.insert(expected.end(), positional.begin() + static_cast<std::ptrdiff_t>(at),
                        positional.begin() + static_cast<std::ptrdiff_t>(at + half));
        expected.insert(expected.end(), memory.begin() + static_cast<std::ptrdiff_t>(at),
                        memory.begin() + static_cast<std::ptrdiff_t>(at + half));
      }
      EXPECT_LE(max_relative_error(actual, expected), kStateTolerance) << prefix << part;
    }
  }
}

TEST_F(DefaultModelFloat, GreedyRepliesWhileEveryChoiceIsClear) {
  EXPECT_GE(expect_greedy_replies(model_, kExactGap), 300U);
}

TEST_F(DefaultModelFloat, FirstTokensOfThreeTextsOneByOne) {
  const Json texts = read_json("perplexity.json");
  for (const auto& [name, text] : texts.items()) {
    std::vector<TokenId> tokens = tokens_of(*model_, text);
    const auto expected = text.at("first_nll").get<std::vector<double>>();
    tokens.resize(expected.size() + 1);
    const std::vector<double> nll = negative_log_likelihoods(model_, tokens);
    ASSERT_EQ(nll.size(), expected.size());
    EXPECT_NEAR(mean(nll), mean(expected), kNllTolerance) << name;
    EXPECT_LE(max_relative_error(nll, expected), kLogitTolerance) << name;
  }
}

}  // namespace
}  // namespace runnel::test
