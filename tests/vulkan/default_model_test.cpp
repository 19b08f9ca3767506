// SPDX-License-Identifier: Apache-2.0
// The whole 135M model on Vulkan, on the software driver with the validation layer too: a prompt
// and a few greedy tokens as the vectors of its float32 form say, and a slice of text scored like the CPU does.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runnel/session.h"
#include "runtime/model/model_loader.h"
#include "runtime/model/session_impl.h"
#include "tests/support/slow.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace runnel::test {
namespace {

using Json = nlohmann::json;

constexpr double kClearGap = 0.2;  // of the two best logits: rounded inputs choose alike
// Nats per token between f32 here and 8-bit activations there.
constexpr double kNllTolerance = 0.01;
constexpr std::size_t kReply = 6;   // tokens
constexpr std::size_t kSlice = 96;  // tokens: two chunks, the second not full

std::filesystem::path data(const std::string& name) {
  return std::filesystem::path(RUNNEL_TEST_DATA) / "default_model" / name;
}

class VulkanDefaultModel : public VulkanTest {
 protected:
  std::shared_ptr<const Model> load(const std::string& device) {
    const auto file = std::filesystem::path(RUNNEL_MODELS) / "runnel-gsa-135m-instruct.gguf";
    auto model =
        device == "cpu"
            ? Model::load(file, {.device = device})
            : ModelLoader::load(file, {}, [&](ModelFile read, const LoadProgress& progress) {
                return Engine::create(std::move(read), backend(), progress);
              });
    if (!model) throw std::runtime_error(model.error().message);
    return *model;
  }

  static Session new_session(const std::shared_ptr<const Model>& model) {
    auto session = Session::create(model);
    if (!session) throw std::runtime_error(session.error().message);
    return *std::move(session);
  }

  /// Mean of -log p of tokens 1 … n-1, in nats.
  static double nll(const std::shared_ptr<const Model>& model, std::span<const TokenId> tokens) {
    Session session = new_session(model);
    const auto logits = session.score(tokens);
    if (!logits) throw std::runtime_error(logits.error().message);
    const auto vocab = static_cast<std::size_t>(model->info().vocab_size);
    double all = 0.0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const std::span<const float> row = std::span(*logits).subspan(i * vocab, vocab);
      const double largest = *std::max_element(row.begin(), row.end());
      double sum = 0.0;
      for (const float v : row) sum += std::exp(static_cast<double>(v) - largest);
      all += largest + std::log(sum) -
             static_cast<double>(row[static_cast<std::size_t>(tokens[i + 1])]);
    }
    return all / static_cast<double>(tokens.size() - 1);
  }
};

TEST_F(VulkanDefaultModel, AnswersLikeItsVectorsAndScoresLikeTheCpu) {
  const std::shared_ptr<const Model> model = load("vulkan:0");

  const Json prompt = Json::parse(std::ifstream(data("greedy.json"))).at(0);
  const auto reply = prompt.at("reply_ids").get<std::vector<TokenId>>();
  const auto gaps = prompt.at("top2_logit_gap").get<std::vector<double>>();
  Session session = new_session(model);
  ASSERT_TRUE(session.prefill(prompt.at("prompt_ids").get<std::vector<TokenId>>()).has_value());
  std::size_t compared = 0;
  for (; compared < kReply && gaps[compared] > kClearGap; ++compared) {
    const std::span<const float> logits = *session.logits();
    const auto best =
        static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    ASSERT_EQ(best, reply[compared]) << "token " << compared;
    ASSERT_TRUE(impl_of(session).step(std::span(&best, 1)).has_value());
  }
  EXPECT_GE(compared, 3U);

  const Json texts = Json::parse(std::ifstream(data("perplexity.json")));
  std::ifstream in(data(texts.begin().value().at("file").get<std::string>()), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto tokens = model->encode(text.substr(0, 2000), true);
  ASSERT_TRUE(tokens.has_value());
  ASSERT_GT(tokens->size(), kSlice);
  tokens->resize(kSlice);
  EXPECT_NEAR(nll(model, *tokens), nll(load("cpu"), *tokens), kNllTolerance);
}

}  // namespace
}  // namespace runnel::test
