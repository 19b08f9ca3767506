// SPDX-License-Identifier: Apache-2.0
// Constrained generation on GPUs, whose draws wait for their masks on the device, against the same with every draw on
// the host: same tokens and, where a pass of forced tokens gives what single ones give, same state, bit for bit. Skips
// without a GPU.
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runnel/device.h"
#include "runnel/generation.h"
#include "runnel/snapshot.h"
#include "tests/constraint/byte_model.h"
#include "tests/support/compare.h"

namespace runnel::test {
namespace {

std::vector<std::string> gpus() {
  std::vector<std::string> ids;
  for (const DeviceInfo& device : devices()) {
    if (device.id.starts_with("cuda") || device.id.starts_with("vulkan")) ids.push_back(device.id);
  }
  return ids;
}

/// For logits after passes of several tokens, whose operands have 16 bits, beside single tokens.
constexpr double kProgramTolerance = 2e-2;

class ConstraintOnDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpus().empty()) GTEST_SKIP() << "NO GPU: nothing was checked";
  }

  /// The model on a device, and a session that has read a prompt.
  struct Place {
    std::shared_ptr<const Model> model;
    std::optional<Session> session;
  };
  static Place on(const std::string& device) {
    const TemporaryDirectory folder;
    write_chat_model(folder / "m.gguf");
    Place place;
    auto model = Model::load(folder / "m.gguf", {.device = device, .threads = 1});
    if (!model) throw std::runtime_error(model.error().message);
    place.model = *std::move(model);
    place.session.emplace(*Session::create(place.model));
    if (!place.session->prefill(*place.model->encode("Once upon a time")))
      throw std::runtime_error("prompt");
    return place;
  }
  static GenerationOptions options(const Place& place, const SamplingOptions& sampling) {
    auto made = Constraint::regex(
        *place.model, "(left|right){3} [a-f]x[a-f]xy[a-f]wxyz[a-f] and this is the end[.!]");
    if (!made) throw std::runtime_error(made.error().message);
    return {.sampling = sampling, .max_tokens = 200, .constraint = *made};
  }
  static GenerationOptions on_host(GenerationOptions options) {
    options.on_logits = [](std::span<float>, std::span<const TokenId>) { return true; };
    return options;
  }
  /// Which forced tokens share a pass differs, and on CUDA one token and several are computed by different programs.
  static void expect_same_state(const std::string& device, Session& a, Session& b) {
    if (!device.starts_with("cuda")) {
      EXPECT_EQ(*a.snapshot()->to_bytes(), *b.snapshot()->to_bytes());
      return;
    }
    EXPECT_EQ(a.position(), b.position());
    const auto logits_of = [](Session& session) {
      const auto logits = session.logits();
      if (!logits) throw std::runtime_error(logits.error().message);
      return std::vector<float>(logits->begin(), logits->end());
    };
    EXPECT_LE(rms_relative_error(logits_of(a), logits_of(b)), kProgramTolerance);
  }
  static std::vector<TokenId> tokens(const Result<GenerationResult>& result) {
    if (!result) throw std::runtime_error(result.error().message);
    return result->tokens;
  }
};

TEST_F(ConstraintOnDevices, DrawsWhatTheHostDraws) {
  SamplingOptions greedy, warm{.temperature = 1.3F}, cut{.temperature = 1.3F, .top_p = 0.8F};
  warm.seed = 1, cut.seed = 2;
  SamplingOptions repeated = warm;
  repeated.repetition_penalty = 1.3F;
  repeated.dry_multiplier = 1.0F;
  SamplingOptions typical = warm;  // candidates of Vulkan, whole rows of CUDA
  typical.top_k = 30;
  typical.typical_p = 0.9F;
  for (const std::string& device : gpus()) {
    const Place place = on(device);
    for (const SamplingOptions& sampling : {greedy, warm, cut, repeated, typical}) {
      GenerationOptions wanted = options(place, sampling);
      for (const std::uint64_t most : {1U, 7U, 30U, 200U}) {
        wanted.max_tokens = most;
        Session ahead = *place.session->fork(), slow = *place.session->fork();
        EXPECT_EQ(tokens(generate(ahead, wanted)), tokens(generate(slow, on_host(wanted))));
        expect_same_state(device, ahead, slow);
        if (HasFailure()) FAIL() << device << ", " << most << " tokens at most";
      }
    }
  }
}

TEST_F(ConstraintOnDevices, SessionsOfOneModelDoNotStopEachOther) {
  for (const std::string& device : gpus()) {
    const Place place = on(device);
    const GenerationOptions wanted = options(place, {.temperature = 1.3F, .seed = 4});
    Session alone = *place.session->fork();
    const std::vector<TokenId> expected = tokens(generate(alone, on_host(wanted)));
    std::vector<std::jthread> threads;
    std::vector<std::vector<TokenId>> got(3);
    for (std::vector<TokenId>& own : got) {
      threads.emplace_back([&place, &wanted, &own] {
        Session session = *place.session->fork();
        own = tokens(generate(session, wanted));
      });
    }
    threads.clear();
    for (const std::vector<TokenId>& own : got) EXPECT_EQ(own, expected) << device;
  }
}

TEST_F(ConstraintOnDevices, ACallbackMayUseAnotherSession) {
  for (const std::string& device : gpus()) {
    const Place place = on(device);
    const GenerationOptions wanted = options(place, {.temperature = 1.3F, .seed = 5});
    Session alone = *place.session->fork(), outer = *place.session->fork();
    const std::vector<TokenId> expected = tokens(generate(alone, on_host(wanted)));
    int calls = 0;
    const auto result = generate(outer, wanted, [&](std::string_view) {
      if (++calls % 8 == 1) {
        Session inner = *place.session->fork();
        EXPECT_EQ(tokens(generate(inner, wanted)), expected) << device;
      }
      return true;
    });
    EXPECT_EQ(tokens(result), expected) << device;
  }
}

}  // namespace
}  // namespace runnel::test
